/* fuzz_ir.c - tile IR and lane IR as text: to the verifier, to single passes, to all of them.
 *
 * Two bytes choose the text's kind, the level, the target and the passes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/tilec.h"
#include "tests/fuzz/fuzz.h"

const size_t fuzz_choices = 2;

enum { LANE_IR = 128 };

void
fuzz_choose(const char *path, uint64_t draw, uint8_t *choice)
{
    size_t n = strlen(path);
    bool lane = n > 4 && strcmp(path + n - 4, ".lir") == 0;

    choice[0] = (uint8_t)((draw & 127) | (lane ? LANE_IR : 0));
    choice[1] = (uint8_t)(draw >> 8);
}

/* NULL: compiled by all. */
static const char *const pass_lists[] = {
    NULL,
    NULL,
    NULL,
    "simplify",
    "imply_masks",
    "align-tiles",
    "split-loops",
    "bound-exp2",
    "round,fuse",
    "carry-choices",
    "halve-products",
    "split-exp2",
    "plan",
    "stages,roles",
    "schedule",
    "sink",
    "assign_layout",
    "defer-reductions",
    "order-products",
    "load-ahead,load-early",
    "plan_shared",
    "place_sync",
    "check-roles",
    "plan,stages,roles,check-roles",
    "assign_layout,plan_shared,place_sync",
    "simplify,imply_masks,split-loops,plan,stages,roles,schedule,sink,assign_layout,plan_shared",
};
enum { PASS_LISTS = sizeof pass_lists / sizeof pass_lists[0] };

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const archs[] = {"sm_80", "sm_90", "sm_100", "sm_90a"};
    static const TilecEmit emits[] = {TILEC_EMIT_PTX, TILEC_EMIT_LIR, TILEC_EMIT_TIR,
                                      TILEC_EMIT_HEADER};
    Meter meter = {0, 64u << 20};
    TilecAllocator allocator = {meter_allocate, meter_release, &meter};
    TilecOptions options = tilec_default_options();
    TilecResult result;

    if (n < fuzz_choices)
        return 0;
    bool lane = (data[0] & LANE_IR) != 0;
    options.level = (data[0] & 1) != 0 ? 3 : 0;
    options.arch = archs[data[0] >> 1 & 3];
    options.emit = lane ? emits[data[0] >> 3 & 1] : emits[data[0] >> 3 & 3];
    options.verify = (data[0] & 32) != 0;
    options.schedule = !lane && (data[0] & 64) != 0 && options.emit != TILEC_EMIT_TIR;
    options.run_pass = lane ? NULL : pass_lists[data[1] % PASS_LISTS];
    options.schedule &= options.run_pass == NULL;
    if (options.run_pass != NULL)
        options.emit = TILEC_EMIT_TIR; /* these passes alone */
    options.allocator = &allocator;
    if (tilec_compile(&options, lane ? "fuzz.lir" : "fuzz.tir", (const char *)data + fuzz_choices,
                      n - fuzz_choices, &result) == TILEC_BUG &&
        /* roles written by hand may be wrong */
        strstr(result.messages, "\ncheck-roles:") == NULL) {
        fprintf(stderr, "%s", result.messages);
        abort();
    }
    tilec_result_free(&result);
    return 0;
}
