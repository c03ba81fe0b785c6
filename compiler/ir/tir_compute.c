/* tir_compute.c - what operations on two integers give: of tile IR, and of a launcher's
 * expressions. */
#include "compiler/ir/tir_compute.h"

bool
tir_compute(TirOpcode op, int64_t x, int64_t y, int64_t *out)
{
    switch (op) {
    case TIR_ADD: *out = x + y; return true;
    case TIR_SUB: *out = x - y; return true;
    case TIR_MUL: *out = (int64_t)((uint64_t)x * (uint64_t)y); return true;
    case TIR_MULHI: *out = (int64_t)((uint64_t)x * (uint64_t)y >> 32); return true;
    case TIR_DIV:
        if (y != 0)
            *out = x / y;
        return y != 0;
    case TIR_REM:
        if (y != 0)
            *out = x % y;
        return y != 0;
    case TIR_MIN: *out = x < y ? x : y; return true;
    case TIR_MAX: *out = x > y ? x : y; return true;
    case TIR_AND: *out = x & y; return true;
    case TIR_OR: *out = x | y; return true;
    case TIR_XOR: *out = x ^ y; return true;
    case TIR_SHL:
        if ((y & ~31) == 0)
            *out = x * ((int64_t)1 << y);
        return (y & ~31) == 0;
    case TIR_SHR:
        if ((y & ~31) == 0)
            *out = x >> y;
        return (y & ~31) == 0;
    case TIR_EQ: *out = x == y; return true;
    case TIR_NE: *out = x != y; return true;
    case TIR_LT: *out = x < y; return true;
    case TIR_LE: *out = x <= y; return true;
    case TIR_GT: *out = x > y; return true;
    case TIR_GE: *out = x >= y; return true;
    default: return false;
    }
}

bool
host_compute(HostKind kind, int64_t x, int64_t y, int64_t *out)
{
    static const TirOpcode ops[] = {
        [HOST_ADD] = TIR_ADD, [HOST_SUB] = TIR_SUB,  [HOST_MUL] = TIR_MUL, [HOST_DIV] = TIR_DIV,
        [HOST_REM] = TIR_REM, [HOST_CDIV] = TIR_DIV, [HOST_MIN] = TIR_MIN, [HOST_MAX] = TIR_MAX,
        [HOST_EQ] = TIR_EQ,   [HOST_NE] = TIR_NE,    [HOST_LT] = TIR_LT,   [HOST_LE] = TIR_LE,
        [HOST_GT] = TIR_GT,   [HOST_GE] = TIR_GE,    [HOST_AND] = TIR_AND, [HOST_OR] = TIR_OR};

    x += (kind == HOST_CDIV) * (y - 1);
    return kind - HOST_ADD <= HOST_OR - HOST_ADD && tir_compute(ops[kind], x, y, out);
}
