/* tir_clone.c - copies of operations with other operands. */
#include "compiler/passes/util/tir_clone.h"

#include <string.h>

#include "compiler/passes/util/tir_inputs.h"

CloneMap
clone_map(TirFn *fn)
{
    CloneMap map = {arena_array(fn->arena, TirVal *, fn->next_id + 1), fn->next_id + 1};
    return map;
}

CloneMap
clone_map_copy(TirFn *fn, const CloneMap *from)
{
    CloneMap map = clone_map(fn);

    memcpy(map.to, from->to, from->n * sizeof *map.to);
    return map;
}

void
clone_set(CloneMap *map, const TirVal *from, TirVal *to)
{
    if (from->id < map->n)
        map->to[from->id] = to;
}

TirVal *
clone_of(const CloneMap *map, TirVal *value)
{
    if (value->id < map->n && map->to[value->id] != NULL)
        return map->to[value->id];
    return value;
}

static void
clone_block(TirFn *fn, CloneMap *map, const TirBlock *from, TirBlock *to)
{
    TirBuilder b = {.fn = fn, .block = to, .at = -1};

    for (uint32_t k = 0; k < from->params.n; k++) {
        TirVal *param = from->params.at[k];
        TirVal *copy = tir_block_param(fn, to, param->type, param->name);
        clone_set(map, param, copy);
    }
    for (uint32_t i = 0; i < from->ops.n; i++)
        clone_op(&b, map, from->ops.at[i]);
}

TirOp *
clone_with(TirBuilder *b, const TirOp *op, TirVal **args, const TirType *types)
{
    TirOp *copy = tir_op_new(b, op->op, op->n_args, args, op->n_results, types);
    TirOp made = *copy;

    *copy = *op; /* all attributes */
    copy->parent = made.parent;
    copy->args = made.args;
    copy->results = made.results;
    for (uint32_t k = 0; k < op->n_results; k++)
        copy->results[k]->name = op->results[k]->name;
    return copy;
}

TirOp *
clone_op(TirBuilder *b, CloneMap *map, const TirOp *op)
{
    Arena *arena = b->fn->arena;
    TirType one, *types = op->n_results > 1 ? arena_array(arena, TirType, op->n_results) : &one;

    for (uint32_t k = 0; k < op->n_results; k++)
        types[k] = op->results[k]->type;
    b->span = op->span;
    TirOp *copy = clone_with(b, op, op->args, types);
    for (uint32_t k = 0; k < op->n_args; k++)
        copy->args[k] = clone_of(map, op->args[k]);
    for (uint32_t k = 0; k < op->n_results; k++)
        clone_set(map, op->results[k], copy->results[k]);
    if (op->n_blocks > 0)
        copy->blocks = arena_array(arena, TirBlock *, op->n_blocks);
    for (uint32_t k = 0; k < op->n_blocks; k++) {
        copy->blocks[k] = tir_block_new(b->fn);
        copy->blocks[k]->owner = copy;
        clone_block(b->fn, map, op->blocks[k], copy->blocks[k]);
    }
    return copy;
}

TirBlock *
clone_body(TirFn *fn, const TirBlock *body)
{
    TirBlock *copy = tir_block_new(fn);
    CloneMap map = clone_map(fn);

    clone_block(fn, &map, body, copy);
    return copy;
}

TirFn *
clone_kernel(const TirFn *fn)
{
    TirFn *copy = arena_copy(fn->arena, fn, sizeof *fn);

    copy->grid.at = arena_copy(fn->arena, fn->grid.at, fn->grid.n * sizeof *fn->grid.at);
    copy->grid.cap = fn->grid.n;
    copy->body = clone_body(copy, fn->body);
    return copy;
}

bool
scalar_can_be_again(const TirOp *op)
{
    /* programs of a launch write no `in` tensor: it reads the same at any time */
    if (op->op == TIR_LOAD)
        return op->tensor->mode == TENSOR_IN && op->results[0]->type.rank == 0 &&
               op->shared == NULL;
    return op->n_results == 1 && op->results[0]->type.rank == 0 && tir_can_be_again(op);
}

bool
scalar_is_known_ahead(Arena *arena, const TirVal *value)
{
    for (TirInputs in = tir_inputs(arena, value); tir_inputs_next(&in);) {
        const TirBlock *block = in.value->block;
        bool number = in.value->def == NULL && block->owner != NULL &&
                      block->owner->op == TIR_FOR && in.value == block->params.at[0];
        if (number)
            continue;
        if (in.value->def == NULL || !scalar_can_be_again(in.value->def))
            return false;
        tir_inputs_follow(&in);
    }
    return true;
}

TirVal *
clone_scalar_tree(TirBuilder *b, CloneMap *map, TirVal *value)
{
    if (value->id < map->n && map->to[value->id] != NULL)
        return map->to[value->id];
    const TirOp *def = value->def;
    if (def == NULL || !scalar_can_be_again(def))
        return NULL;
    for (uint32_t k = 0; k < def->n_args; k++) {
        TirVal *arg = clone_scalar_tree(b, map, def->args[k]);
        if (arg == NULL)
            return NULL;
        clone_set(map, def->args[k], arg);
    }
    Span around = b->span; /* what the scalars are for goes on there */
    TirVal *copy = clone_op(b, map, def)->results[0];
    b->span = around;
    return copy;
}

TirVal *
clone_host(TirBuilder *b, const HostExpr *expr)
{
    static const struct {
        HostKind kind;
        TirOpcode op;
    } binary[] = {{HOST_ADD, TIR_ADD}, {HOST_SUB, TIR_SUB}, {HOST_MUL, TIR_MUL},
                  {HOST_DIV, TIR_DIV}, {HOST_REM, TIR_REM}, {HOST_MIN, TIR_MIN},
                  {HOST_MAX, TIR_MAX}};
    TirType i32 = tir_scalar(DT_I32);

    if (expr->kind == HOST_INT)
        return tir_const_int(b, expr->integer);
    if (expr->kind == HOST_SIZE || expr->kind == HOST_SCALAR) {
        if (expr->kind == HOST_SCALAR && b->fn->scalars.at[expr->index].dtype != DT_I32)
            return NULL;
        TirOp *op = tir_op_new(b, expr->kind == HOST_SIZE ? TIR_SIZE : TIR_PARAM, 0, NULL, 1, &i32);
        op->integer = expr->index;
        return op->results[0];
    }
    TirVal *x = expr->a == NULL ? NULL : clone_host(b, expr->a);
    TirVal *y = expr->b == NULL ? NULL : clone_host(b, expr->b);
    if (x == NULL || y == NULL)
        return NULL;
    if (expr->kind == HOST_CDIV) {
        TirVal *less = tir_binary(b, TIR_SUB, y, tir_const_int(b, 1));
        return tir_binary(b, TIR_DIV, tir_binary(b, TIR_ADD, x, less), y);
    }
    for (uint32_t k = 0; k < sizeof binary / sizeof binary[0]; k++) {
        if (binary[k].kind == expr->kind)
            return tir_binary(b, binary[k].op, x, y);
    }
    return NULL;
}
