/* tir_text_head.c - the head of a kernel in the text of tile IR: its interface, and what the
 * schedule has fixed.
 */
#include "compiler/ir/tir_printer.h"

#include <inttypes.h>
#include <string.h>

static void
print_tensor(Printer *p, const TirTensor *tensor)
{
    static const char *const modes[] = {"in", "out", "inout"};

    tir_print_indent(p);
    buf_printf(p->out, "tensor %s: %s %s[", tensor->name, modes[tensor->mode],
               dtype_name(tensor->dtype));
    for (uint32_t k = 0; k < tensor->rank; k++) {
        if (k > 0)
            buf_add(p->out, ", ");
        if (tensor->dim[k].constant != 0)
            buf_printf(p->out, "%" PRId32, tensor->dim[k].constant);
        else
            buf_add(p->out, tir_size_name(p->fn, tensor->dim[k].size));
    }
    buf_char(p->out, ']');
    if (tensor->packed != tensor->dtype)
        buf_printf(p->out, " packed %s", dtype_name(tensor->packed));
    buf_printf(p->out, " align %" PRIu32 "%s\n", tensor->align, tensor->atomic ? " atomic" : "");
}

void
tir_print_interface(Printer *p)
{
    const TirFn *fn = p->fn;
    Buf *out = p->out;

    for (uint32_t k = 0; k < fn->constants.n; k++) {
        tir_print_indent(p);
        buf_printf(out, "constant %s = ", fn->constants.at[k].name);
        buf_quoted(out, fn->constants.at[k].value);
        buf_char(out, '\n');
    }
    for (uint32_t k = 0; k < fn->sizes.n; k++) {
        tir_print_indent(p);
        buf_printf(out, "size %s", fn->sizes.at[k].name);
        if (fn->sizes.at[k].usual != 0)
            buf_printf(out, " usual %" PRId64, fn->sizes.at[k].usual);
        if (fn->sizes.at[k].text != NULL) {
            buf_add(out, " written ");
            buf_quoted(out, fn->sizes.at[k].text);
        }
        buf_char(out, '\n');
    }
    for (uint32_t k = 0; k < fn->tensors.n; k++)
        print_tensor(p, fn->tensors.at[k]);
    for (uint32_t k = 0; k < fn->scalars.n; k++) {
        tir_print_indent(p);
        buf_printf(out, "scalar %s: %s\n", fn->scalars.at[k].name,
                   dtype_name(fn->scalars.at[k].dtype));
    }
    for (uint32_t k = 0; k < fn->sizes.n; k++) {
        if (fn->sizes.at[k].value == NULL)
            continue;
        tir_print_indent(p);
        buf_printf(out, "follows %s = ", fn->sizes.at[k].name);
        host_print(fn, fn->sizes.at[k].value, out);
        buf_char(out, '\n');
    }
    for (uint32_t k = 0; k < fn->requires.n; k++) {
        tir_print_indent(p);
        buf_add(out, "require ");
        host_print(fn, fn->requires.at[k].condition, out);
        buf_add(out, ", ");
        buf_quoted(out, fn->requires.at[k].message == NULL ? "" : fn->requires.at[k].message);
        buf_char(out, '\n');
    }
    for (uint32_t k = 0; k < fn->grid.n; k++) {
        tir_print_indent(p);
        buf_printf(out, "grid %s = ", fn->grid.at[k].name);
        host_print(fn, fn->grid.at[k].extent, out);
        buf_printf(out, "%s%s%s", fn->grid.at[k].reversed ? " reversed" : "",
                   fn->grid.at[k].variable_trips ? " variable_trips" : "",
                   fn->grid.at[k].ended ? " ended" : "");
        if (fn->grid.at[k].sliding)
            buf_printf(out, " sliding %" PRIu32 "%s", fn->grid.at[k].sliding_trips,
                       fn->grid.at[k].short_first ? " short_first" : "");
        buf_char(out, '\n');
    }
}

/* role consumer instances 3 warps 4 registers 160 pressure 1 private 768; the kind stands behind
 * another name. */
static void
print_role(Printer *p, const TirRole *role)
{
    const char *kind = tir_role_kind_name(role->kind);

    tir_print_indent(p);
    buf_printf(p->out, "role %s", role->name);
    if (strcmp(role->name, kind) != 0)
        buf_printf(p->out, " %s", kind);
    if (role->instances > 1)
        buf_printf(p->out, " instances %" PRIu32, role->instances);
    if (role->warps > 0)
        buf_printf(p->out, " warps %" PRIu32, role->warps);
    if (role->registers > 0)
        buf_printf(p->out, " registers %" PRIu32, role->registers);
    if (role->pressure > 0)
        buf_printf(p->out, " pressure %" PRIu32, role->pressure);
    if (role->private_bytes > 0)
        buf_printf(p->out, " private %" PRIu32, role->private_bytes);
    buf_char(p->out, '\n');
}

/* tiles axis m reversed dynamic alternating cluster 2 swizzle 16 of h at 8192 shares Sk * 512 */
static void
print_tiles(Printer *p)
{
    static const char *const schedulers[] = {"one", "static", "dynamic", "clc"};
    const TirTileOrder *tiles = &p->fn->plan->tiles;

    tir_print_indent(p);
    if (tiles->axis == NO_AXIS)
        buf_add(p->out, "tiles cooperative");
    else
        buf_printf(p->out, "tiles axis %s", tir_axis_name(p->fn, tiles->axis));
    buf_printf(p->out, "%s %s%s", tiles->reversed ? " reversed" : "", schedulers[tiles->scheduler],
               tiles->alternating ? " alternating" : "");
    if (tiles->cluster > 1)
        buf_printf(p->out, " cluster %" PRIu32, tiles->cluster);
    if (tiles->swizzle != 0)
        buf_printf(p->out, " swizzle %" PRIu32 " of %s", tiles->swizzle,
                   tir_axis_name(p->fn, tiles->swizzle_axis));
    if (tiles->offset != 0)
        buf_printf(p->out, " at %" PRIu32, tiles->offset);
    if (tiles->shared_bytes_each != NULL) {
        buf_add(p->out, " shares ");
        host_print(p->fn, tiles->shared_bytes_each, p->out);
    }
    buf_char(p->out, '\n');
}

static void
print_plan(Printer *p)
{
    const TirPlan *plan = p->fn->plan;

    for (uint32_t k = 0; k < plan->roles.n; k++)
        print_role(p, &plan->roles.at[k]);
    print_tiles(p);
    if (plan->tmem_columns != 0) {
        tir_print_indent(p);
        buf_printf(p->out, "tmem_columns %" PRIu32 " at %" PRIu32 "\n", plan->tmem_columns,
                   plan->tmem_start);
    }
    if (plan->mark == 0)
        return;
    tir_print_indent(p);
    buf_printf(p->out, "mark %" PRIu32 "\n", plan->mark);
}

/* shared $K_1: bf16[64,128] stages 2 offset 0 bytes 0 pipeline 0 .. */
static void
print_buffer(Printer *p, uint32_t k)
{
    static const char *const kinds[] = {
        "", " pipeline", " pipeline vector", " coop_k", " staging", " pipeline tmem", " sent"};
    const TirShared *shared = p->fn->shared.at[k];

    tir_print_indent(p);
    buf_printf(p->out,
               "shared $%s_%" PRIu32 ": %s[%" PRId32 ",%" PRId32 "] stages %" PRIu32
               " offset %" PRIu32 " bytes %" PRIu32,
               shared->name == NULL ? "" : shared->name, k, dtype_name(shared->dtype), shared->rows,
               shared->cols, shared->stages, shared->offset, shared->bytes);
    buf_add(p->out, kinds[shared->kind]);
    if (shared->over != NULL)
        buf_printf(p->out, " aliases %" PRIu32, shared->over->id);
    if (tir_is_pipeline(shared)) {
        buf_add(p->out, shared->in_registers ? " in_registers" : "");
        buf_add(p->out, shared->each && shared->kind != SHARED_TMEM ? " per_consumer" : "");
        buf_add(p->out, shared->halved ? " halved" : "");
        if (shared->from != ROLE_PRODUCER || shared->to != ROLE_CONSUMER)
            buf_printf(p->out, " from %s to %s", tir_role_kind_name(shared->from),
                       tir_role_kind_name(shared->to));
        if (shared->of_consumer > 0)
            buf_printf(p->out, " consumer(%" PRIu32 ")", shared->of_consumer - 1);
        buf_add(p->out, shared->carried ? " carried" : "");
        if (shared->scales > 0)
            buf_printf(p->out, " scales %d places %d", shared->scales - 1, shared->places);
        if (shared->column > 0)
            buf_printf(p->out, " column %" PRIu32, shared->column);
        buf_printf(p->out, " %" PRIu32, shared->barriers);
    }
    if (shared->kind == SHARED_SENT)
        buf_printf(p->out, " %" PRIu32, shared->barriers);
    if (shared->with != NULL)
        buf_printf(p->out, " shares_barrier %" PRIu32, shared->with->id);
    buf_add(p->out, shared->lag > 0 ? " release_lag" : "");
    buf_add(p->out, shared->reread ? " lookahead" : "");
    buf_add(p->out, shared->held > 0 ? " deferred_release" : "");
    if (shared->layout != NULL) {
        buf_char(p->out, ' ');
        shared_layout_print(shared->layout, p->out);
    }
    buf_char(p->out, '\n');
}

/* from "attention.tile" 38; where all places are wanted, 38:8 and in front of it all files, by
 * their paths: that is how they are numbered in PTX. */
static void
print_from(Printer *p)
{
    const Diag *diag = p->fn->diag;

    for (uint32_t k = 0; diag->all_places && k < diag->files.n; k++) {
        if (diag->files.at[k]->is_ir)
            continue;
        tir_print_indent(p);
        buf_add(p->out, "file ");
        buf_quoted(p->out, diag->files.at[k]->path);
        buf_char(p->out, '\n');
    }
    tir_print_indent(p);
    buf_add(p->out, "from ");
    buf_quoted(p->out, diag->all_places ? p->from.file->path : file_base_name(p->from.file->path));
    buf_printf(p->out, " %" PRIu32, p->from.line);
    if (diag->all_places)
        buf_printf(p->out, ":%" PRIu32, p->from.column);
    buf_char(p->out, '\n');
}

/* after plan; chosen warps 8 stages 3 plan "consumers=2,stages=2" */
static void
print_progress(Printer *p)
{
    const TirFn *fn = p->fn;

    if (p->from.file != NULL)
        print_from(p);
    if (fn->after != NULL) {
        tir_print_indent(p);
        buf_printf(p->out, "after %s\n", fn->after);
    }
    if (fn->chosen_warps == 0 && fn->chosen_stages == 0 && fn->chosen_plan == NULL)
        return;
    tir_print_indent(p);
    buf_add(p->out, "chosen");
    if (fn->chosen_warps != 0)
        buf_printf(p->out, " warps %" PRIu32, fn->chosen_warps);
    if (fn->chosen_stages != 0)
        buf_printf(p->out, " stages %" PRIu32, fn->chosen_stages);
    if (fn->chosen_plan != NULL)
        buf_printf(p->out, " plan \"%s\"", fn->chosen_plan);
    buf_char(p->out, '\n');
}

void
tir_print_schedule(Printer *p)
{
    const TirFn *fn = p->fn;

    print_progress(p);
    if (fn->hint_warps != 0) {
        tir_print_indent(p);
        buf_printf(p->out, "hint_warps %" PRIu32 "\n", fn->hint_warps);
    }
    if (fn->hint_plan != NULL) {
        tir_print_indent(p);
        buf_printf(p->out, "hint_plan \"%s\"\n", fn->hint_plan);
    }
    if (fn->warps != 0) {
        tir_print_indent(p);
        buf_printf(p->out, "warps %" PRIu32 "\n", fn->warps);
    }
    if (fn->plan != NULL)
        print_plan(p);
    for (uint32_t k = 0; k < p->layouts.n; k++) {
        tir_print_indent(p);
        buf_printf(p->out, "layout @%" PRIu32 " = ", k);
        layout_print(p->layouts.at[k], p->out);
        buf_char(p->out, '\n');
    }
    for (uint32_t k = 0; k < fn->shared.n; k++)
        print_buffer(p, k);
    if (fn->shared_bytes != 0) {
        tir_print_indent(p);
        buf_printf(p->out, "shared_bytes %" PRIu32 "\n", fn->shared_bytes);
    }
    for (uint32_t k = 0; k < fn->memories.n; k++) {
        const TirMemory *memory = &fn->memories.at[k];
        tir_print_indent(p);
        buf_printf(p->out, "%s %s = ", memory->kind == MEMORY_SCRATCH ? "scratch" : "workspace",
                   memory->name);
        host_print(fn, memory->bytes, p->out);
        buf_add(p->out, " bytes\n");
    }
    if (fn->blocks[0] != NULL) {
        tir_print_indent(p);
        for (uint32_t k = 0; k < 3; k++) {
            buf_add(p->out, k > 0 ? ", " : "blocks ");
            host_print(fn, fn->blocks[k], p->out);
        }
        buf_char(p->out, '\n');
    }
}
