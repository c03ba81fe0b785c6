/* fuzz_tile.c - a program for the compiler: it gives a status, and neither crashes nor leaks.
 *
 * Three bytes choose the level, the target, what comes out, the reports, and whether it is a
 * search.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/tilec.h"
#include "tests/fuzz/fuzz.h"

const size_t fuzz_choices = 3;

void
fuzz_choose(const char *path, uint64_t draw, uint8_t *choice)
{
    (void)path;
    for (size_t k = 0; k < fuzz_choices; k++)
        choice[k] = (uint8_t)(draw >> 8 * k);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const archs[] = {"sm_80", "sm_90", "sm_100", "sm_90a"};
    static const TilecEmit emits[] = {TILEC_EMIT_AST,  TILEC_EMIT_TIR, TILEC_EMIT_PTX,
                                      TILEC_EMIT_PTX,  TILEC_EMIT_PTX, TILEC_EMIT_HEADER,
                                      TILEC_EMIT_JSON, TILEC_EMIT_LIR};
    static const int levels[] = {0, 1, 3, 3};
    Meter meter = {0, 64u << 20};
    TilecAllocator allocator = {meter_allocate, meter_release, &meter};
    TilecOptions options = tilec_default_options();
    TilecResult result;

    if (n < fuzz_choices)
        return 0;
    const char *text = (const char *)data + fuzz_choices;
    options.level = levels[data[0] & 3];
    options.arch = archs[data[0] >> 2 & 3];
    options.emit = emits[data[0] >> 4 & 7];
    options.line_info = (data[0] & 128) != 0;
    options.allocator = &allocator;
    options.verify = (data[1] & 1) == 0;
    options.remarks = (data[1] & 2) != 0;
    options.report = (data[1] & 4) != 0;
    options.schedule = (data[1] & 24) == 8;
    options.schedule_picture = (data[1] & 24) == 16;
    options.page = (data[1] & 24) == 24;
    options.header_with_ptx = (data[1] & 32) != 0;
    options.dump_ir = (data[1] & 192) == 192 ? "" : NULL;
    TilecSearch search = {.rows = 10,
                          .json = (data[2] & 1) != 0,
                          .order = (data[2] & 2) != 0 ? TILEC_BY_TIME : TILEC_BY_TRAFFIC,
                          .clusters = (data[2] & 4) != 0};
    TilecStatus status = (data[2] & 56) == 56 ? tilec_search(&options, &search, "fuzz.tile", text,
                                                             n - fuzz_choices, &result)
                                              : tilec_compile(&options, "fuzz.tile", text,
                                                              n - fuzz_choices, &result);
    if (status == TILEC_BUG) {
        fprintf(stderr, "%s", result.messages);
        abort();
    }
    tilec_result_free(&result);
    return 0;
}
