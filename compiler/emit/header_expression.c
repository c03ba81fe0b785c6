/* header_expression.c - host expressions as C: sizes are the locals `size_NAME`, which are made
 * here, too. */
#include "compiler/emit/header.h"

static bool
is_real(const TirFn *fn, const HostExpr *e)
{
    if (e->kind == HOST_FLOAT)
        return true;
    if (e->kind == HOST_SCALAR)
        return dtype_is_float(fn->scalars.at[e->index].dtype);
    if (e->kind == HOST_INT || e->kind == HOST_SIZE || e->kind == HOST_DEVICE ||
        (e->kind >= HOST_EQ && e->kind <= HOST_NOT))
        return false;
    return is_real(fn, e->a) || (e->b && is_real(fn, e->b));
}

static void
add_call(Buf *out, const TirFn *fn, const char *function, const HostExpr *e, bool compact)
{
    buf_printf(out, "%s(", function);
    header_expression(out, fn, e->a, compact);
    buf_add(out, ", ");
    header_expression(out, fn, e->b, compact);
    buf_char(out, ')');
}

void
header_expression(Buf *out, const TirFn *fn, const HostExpr *e, bool compact)
{
    static const char *const symbols[] = {
        [HOST_ADD] = " + ", [HOST_SUB] = " - ", [HOST_MUL] = " * ",  [HOST_DIV] = " / ",
        [HOST_EQ] = " == ", [HOST_NE] = " != ", [HOST_LT] = " < ",   [HOST_LE] = " <= ",
        [HOST_GT] = " > ",  [HOST_GE] = " >= ", [HOST_AND] = " && ", [HOST_OR] = " || "};

    switch (e->kind) {
    case HOST_INT: buf_printf(out, "INT64_C(%lld)", (long long)e->integer); return;
    case HOST_FLOAT: buf_printf(out, "%.17g", e->number); return;
    case HOST_SIZE: buf_printf(out, "size_%s", fn->sizes.at[e->index].name); return;
    case HOST_DEVICE: buf_printf(out, "module->%s", device_facts[e->index].name); return;
    case HOST_SCALAR:
        buf_printf(out, "args->%s", header_identifier(out->arena, fn->scalars.at[e->index].name));
        return;
    case HOST_CDIV: add_call(out, fn, "tilec_cdiv", e, compact); return;
    case HOST_REM: add_call(out, fn, "tilec_rem", e, compact); return;
    case HOST_MIN:
    case HOST_MAX:
        if (compact) {
            add_call(out, fn, e->kind == HOST_MIN ? "tilec_min" : "tilec_max", e, compact);
            return;
        }
        buf_char(out, '(');
        header_expression(out, fn, e->a, compact);
        buf_add(out, e->kind == HOST_MIN ? " < " : " > ");
        header_expression(out, fn, e->b, compact);
        buf_add(out, " ? ");
        header_expression(out, fn, e->a, compact);
        buf_add(out, " : ");
        header_expression(out, fn, e->b, compact);
        buf_char(out, ')');
        return;
    case HOST_NOT:
    case HOST_NEG:
        buf_add(out, e->kind == HOST_NOT ? "!(" : "-(");
        header_expression(out, fn, e->a, compact);
        buf_char(out, ')');
        return;
    default: break;
    }
    if (e->kind == HOST_DIV && !is_real(fn, e)) {
        add_call(out, fn, "tilec_div", e, compact);
        return;
    }
    buf_char(out, '(');
    header_expression(out, fn, e->a, compact);
    buf_add(out, symbols[e->kind]);
    header_expression(out, fn, e->b, compact);
    buf_char(out, ')');
}

/* `int64_t size_X = args->Q.shape[1];` from the first tensor that has each size; behind them those
 * that only follow. */
void
header_sizes(const HeaderWriter *w, const TirFn *fn)
{
    bool *found = arena_array(w->out->arena, bool, fn->sizes.n + 1);

    for (uint32_t s = 0; s < fn->sizes.n; s++) {
        for (uint32_t i = 0; i < fn->tensors.n && !found[s]; i++)
            for (uint32_t d = 0; d < fn->tensors.at[i]->rank && !found[s]; d++) {
                const TensorDim *dim = &fn->tensors.at[i]->dim[d];
                found[s] = dim->constant == 0 && dim->size == s;
                if (found[s])
                    buf_printf(w->out, "    const int64_t size_%s = args->%s.shape[%u];\n",
                               fn->sizes.at[s].name,
                               header_identifier(w->out->arena, fn->tensors.at[i]->name),
                               (unsigned)d);
            }
    }
    for (uint32_t s = 0; s < fn->sizes.n; s++) {
        if (found[s] || fn->sizes.at[s].value == NULL)
            continue;
        buf_printf(w->out, "    const int64_t size_%s = ", fn->sizes.at[s].name);
        header_expression(w->out, fn, fn->sizes.at[s].value, false);
        buf_add(w->out, ";\n");
    }
    for (uint32_t s = 0; s < fn->sizes.n; s++)
        buf_printf(w->out, "    (void)size_%s;\n", fn->sizes.at[s].name);
}
