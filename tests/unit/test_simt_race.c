// What the tracer finds in kernels with one mistake each, in every thread order: its kind, both
// places by file and line, buffer and offset; and that it finds nothing in the same kernels
// without.
#include "tests/unit/simt_places.h"
#include "tests/unit/simt_trace_cases.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static TraceProbe probe;

static void assert_place(const char *what, const SimtPlace *place, const char *file,
                         const char *mark) {
    int line = trace_line(file, mark);
    ck_assert_msg(strcmp(place->file, file) == 0 && place->line == line, "%s: %s:%d, not %s:%d\n%s",
                  what, place->file, place->line, file, line, attn_last_error());
    char text[256];
    snprintf(text, sizeof text, "%s:%d", file, line);
    ck_assert_msg(strstr(attn_last_error(), text) != NULL, "%s", attn_last_error());
}

// ---- races --------------------------------------------------------------------------------------

typedef struct Race {
    TraceProbeRun *builds[3];
    const char *name;
    int n;
    unsigned grid, block;
    SimtFindingKind kind;
    const char *first, *second; // marks of the two places, either of which may come first
    bool first_writes, second_writes;
    const char *buffer;
} Race;
#define RACE(name, ...)                                                                            \
    { GPU_BUILDS(name), #name, __VA_ARGS__ }
static const Race races[] = {
    RACE(trace_pass_no_barrier, 128, 1, 128, SIMT_RACE, "no barrier, write", "no barrier, read",
         true, false, "shared tile"),
    RACE(trace_pass_twice, 64, 1, 64, SIMT_RACE, "twice, write", "twice, read", true, false,
         "shared tile"),
    RACE(trace_pass_no_syncwarp, 32, 1, 32, SIMT_RACE, "no syncwarp, write", "no syncwarp, read",
         true, false, "shared tile"),
    RACE(trace_pass_shuffle, 32, 1, 32, SIMT_RACE, "shuffle, write", "shuffle, read", true, false,
         "shared tile"),
    RACE(trace_pass_half_mask, 32, 1, 32, SIMT_RACE, "half mask, write", "half mask, read", true,
         false, "shared tile"),
    RACE(trace_halves_race, 64, 1, 64, SIMT_RACE, "halves, write", "halves, read", true, false,
         "shared tile"),
    RACE(trace_count_no_barrier, 64, 1, 64, SIMT_RACE, "count, atomic", "count, read", true, false,
         "shared count"),
    RACE(trace_blocks_read, 64, 4, 32, SIMT_RACE_BLOCKS, "blocks, write", "blocks, read", true,
         false, "y"),
    RACE(trace_blocks_write, 0, 4, 32, SIMT_RACE_BLOCKS, "blocks, write later",
         "blocks, read first", true, false, "y"),
    RACE(trace_last_block_no_atomic, 0, 4, 64, SIMT_RACE_BLOCKS, "no atomic, write",
         "no atomic, read", true, false, "y"),
    RACE(trace_last_block_early, 0, 4, 64, SIMT_RACE_BLOCKS, "early, write", "early, read", true,
         false, "y"),
};
enum { RACES = sizeof races / sizeof *races, ORDERS = 3 };

START_TEST(race) {
    const Race *c = &races[_i / ORDERS];
    if (!trace_begin((SimtOrder)(_i % ORDERS), &probe)) {
        return;
    }
    probe.n = c->n;
    ck_assert_msg(c->builds[GPU_TRACE](&probe, c->grid, c->block, 0) == ATTN_ERR_CUDA,
                  "%s in order %d: nothing found", c->name, _i % ORDERS);
    const SimtFinding *finding = simt_finding();
    ck_assert_msg(finding->kind == c->kind, "%s", attn_last_error());
    bool in_order = finding->here.line == trace_line("simt_trace_mistakes.cu", c->first);
    assert_place("here", &finding->here, "simt_trace_mistakes.cu", in_order ? c->first : c->second);
    assert_place("before", &finding->before, "simt_trace_mistakes.cu",
                 in_order ? c->second : c->first);
    ck_assert_int_eq(finding->here.write, in_order ? c->first_writes : c->second_writes);
    ck_assert_int_eq(finding->before.write, in_order ? c->second_writes : c->first_writes);
    ck_assert_str_eq(finding->buffer, c->buffer);
    ck_assert_int_eq(strncmp(finding->kernel, c->name, strlen(c->name)), 0);
    if (c->kind == SIMT_RACE) {
        ck_assert_uint_ne(finding->here.thread[0], finding->before.thread[0]);
    } else {
        ck_assert_uint_ne(finding->here.block[0], finding->before.block[0]);
    }
}
END_TEST

// Who and where, exactly: thread 0 has written its value and reads thread 1's, which comes later.
START_TEST(race_in_detail) {
    static TraceProbeRun *const builds[] = GPU_BUILDS(trace_pass_no_barrier);
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    probe.n = 128;
    ck_assert_int_eq(builds[GPU_TRACE](&probe, 1, 128, 0), ATTN_ERR_CUDA);
    const SimtFinding *finding = simt_finding();
    ck_assert_uint_eq(finding->here.thread[0], 1);
    ck_assert_uint_eq(finding->before.thread[0], 0);
    ck_assert_int_eq(finding->offset, 4);
    ck_assert_uint_eq(finding->size, 4);
    ck_assert(finding->here.write && !finding->before.write);
}
END_TEST

START_TEST(blocks_in_detail) {
    static TraceProbeRun *const builds[] = GPU_BUILDS(trace_blocks_read);
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    probe.n = 64;
    ck_assert_int_eq(builds[GPU_TRACE](&probe, 4, 32, 0), ATTN_ERR_CUDA);
    const SimtFinding *finding = simt_finding();
    ck_assert_uint_eq(finding->here.block[0], 1);
    ck_assert_uint_eq(finding->before.block[0], 0);
    ck_assert_int_eq(finding->offset, 0);
}
END_TEST

// ---- no race ------------------------------------------------------------------------------------

typedef struct Right {
    TraceProbeRun *builds[3];
    const char *name;
    int n;
    unsigned grid, block;
} Right;
static const Right rights[] = {
    RACE(trace_pass, 128, 4, 128),      RACE(trace_pass_warp, 32, 4, 32),
    RACE(trace_pass_chain, 32, 1, 32),  RACE(trace_pass_device, 128, 1, 128),
    RACE(trace_halves, 128, 2, 128),    RACE(trace_count, 0, 2, 128),
    RACE(trace_last_block, 0, 8, 64),   RACE(trace_pass_twice, 1, 1, 64),
    RACE(trace_pass_device, 48, 1, 48),
};
enum { RIGHTS = sizeof rights / sizeof *rights };

START_TEST(right) {
    const Right *c = &rights[_i / ORDERS];
    if (!trace_begin((SimtOrder)(_i % ORDERS), &probe)) {
        return;
    }
    probe.n = c->n;
    for (int launch = 0; launch < 2; launch++) { // what a launch did is nothing to the next
        ck_assert_msg(c->builds[GPU_TRACE](&probe, c->grid, c->block, 0) == ATTN_OK, "%s: %s",
                      c->name, attn_last_error());
        ck_assert_int_eq(simt_finding()->kind, SIMT_NOTHING);
    }
}
END_TEST

// The last block's sum is right, too.
START_TEST(last_block_sum) {
    static TraceProbeRun *const builds[] = GPU_BUILDS(trace_last_block);
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    static float y[TRACE_FLOATS];
    ck_assert_msg(builds[GPU_TRACE](&probe, 8, 64, 0) == ATTN_OK, "%s", attn_last_error());
    simt_test_download(GPU_TRACE, y, probe.y, sizeof y);
    for (int t = 0; t < 64; t++) {
        ck_assert_float_eq(y[8 * 64 + t], 8.0f * (float)t);
    }
}
END_TEST

// A mistake is found again after a launch that was abandoned, and a right kernel still passes.
START_TEST(after_a_finding) {
    static TraceProbeRun *const wrong[] = GPU_BUILDS(trace_pass_no_barrier);
    static TraceProbeRun *const good[] = GPU_BUILDS(trace_pass);
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    probe.n = 128;
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(wrong[GPU_TRACE](&probe, 2, 128, 0), ATTN_ERR_CUDA);
        ck_assert_int_eq(simt_finding()->kind, SIMT_RACE);
        ck_assert_int_eq(good[GPU_TRACE](&probe, 2, 128, 0), ATTN_OK);
        ck_assert_int_eq(simt_finding()->kind, SIMT_NOTHING);
    }
}
END_TEST

// ---- single accesses ----------------------------------------------------------------------------

static void assert_finding(SimtFindingKind kind, const char *file, const char *mark,
                           const char *buffer, int64_t offset, size_t size, bool write) {
    const SimtFinding *finding = simt_finding();
    ck_assert_msg(finding->kind == kind, "%s, not %s: %s", simt_finding_name(finding->kind),
                  simt_finding_name(kind), attn_last_error());
    assert_place("here", &finding->here, file, mark);
    ck_assert_str_eq(finding->buffer, buffer);
    ck_assert_int_eq(finding->offset, offset);
    ck_assert_uint_eq(finding->size, size);
    ck_assert_int_eq(finding->here.write, write);
}

START_TEST(unwritten_shared) {
    static TraceProbeRun *const builds[] = GPU_BUILDS(trace_unwritten);
    if (!trace_begin((SimtOrder)_i, &probe)) {
        return;
    }
    probe.n = 63;
    ck_assert_int_eq(builds[GPU_TRACE](&probe, 1, 64, 0), ATTN_ERR_CUDA);
    assert_finding(SIMT_UNINITIALISED, "simt_trace_mistakes.cu", "unwritten", "shared tile", 63 * 4,
                   4, false);
    ck_assert_uint_eq(simt_finding()->here.thread[0], 63);
    probe.n = 64;
    ck_assert_int_eq(builds[GPU_TRACE](&probe, 1, 64, 0), ATTN_OK);
    probe.n = 63; // what the launch before wrote there does not count
    ck_assert_int_eq(builds[GPU_TRACE](&probe, 1, 64, 0), ATTN_ERR_CUDA);
    simt_settings()->uninitialised_ok = true;
    ck_assert_int_eq(builds[GPU_TRACE](&probe, 1, 64, 0), ATTN_OK);
    simt_settings()->uninitialised_ok = false;
}
END_TEST

START_TEST(unwritten_device) {
    static TraceProbeRun *const copy[] = GPU_BUILDS(trace_copy);
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    float *empty = simt_test_array(GPU_TRACE, "empty", 256, sizeof(float), NULL);
    float *full = probe.y;
    const float *from = probe.x;
    probe.n = 128;
    probe.x = empty;
    ck_assert_int_eq(copy[GPU_TRACE](&probe, 1, 128, 0), ATTN_ERR_CUDA);
    assert_finding(SIMT_UNINITIALISED, "simt_trace_probe.cu", "copy", "empty", 0, 4, false);
    probe.x = from;
    probe.y = empty; // the first half is written by a kernel
    ck_assert_int_eq(copy[GPU_TRACE](&probe, 1, 128, 0), ATTN_OK);
    probe.x = empty;
    probe.y = full;
    ck_assert_msg(copy[GPU_TRACE](&probe, 1, 128, 0) == ATTN_OK, "%s", attn_last_error());
    probe.n = 129;
    ck_assert_int_eq(copy[GPU_TRACE](&probe, 1, 160, 0), ATTN_ERR_CUDA);
    assert_finding(SIMT_UNINITIALISED, "simt_trace_probe.cu", "copy", "empty", 128 * 4, 4, false);
    ck_assert_int_eq(gpu_fill(GPU_TRACE, empty + 128, 0, 4, NULL), ATTN_OK);
    ck_assert_int_eq(copy[GPU_TRACE](&probe, 1, 160, 0), ATTN_OK);
    probe.n = 256;
    ck_assert_int_eq(copy[GPU_TRACE](&probe, 2, 128, 0), ATTN_ERR_CUDA);
    probe.x = from;
    probe.y = empty; // the rest by a kernel that nobody watches
    ck_assert_int_eq(copy[GPU_SIMT](&probe, 2, 128, 0), ATTN_OK);
    probe.x = empty;
    probe.y = full;
    ck_assert_int_eq(copy[GPU_TRACE](&probe, 2, 128, 0), ATTN_OK);
    gpu_free(GPU_TRACE, empty); // the next one may lie at the same address
    probe.x = simt_test_array(GPU_TRACE, "empty", 256, sizeof(float), NULL);
    ck_assert_int_eq(copy[GPU_TRACE](&probe, 2, 128, 0), ATTN_ERR_CUDA);
}
END_TEST

START_TEST(out_of_bounds) {
    static TraceProbeRun *const builds[] = GPU_BUILDS(trace_write_at);
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    static const int at[] = {TRACE_FLOATS, -1, TRACE_FLOATS + 100, -1000};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        probe.shift = at[i];
        ck_assert_int_eq(builds[GPU_TRACE](&probe, 1, 32, 0), ATTN_ERR_CUDA);
        assert_finding(SIMT_OUT_OF_BOUNDS, "simt_trace_mistakes.cu", "write at", "y",
                       4 * (int64_t)at[i], 4, true);
    }
    probe.shift = TRACE_FLOATS - 1;
    ck_assert_int_eq(builds[GPU_TRACE](&probe, 1, 32, 0), ATTN_OK);
}
END_TEST

START_TEST(dynamic_out_of_bounds) {
    static TraceProbeRun *const builds[] = GPU_BUILDS(trace_dynamic);
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    probe.n = 65; // the size is not a multiple of 16 bytes
    probe.shift = 1;
    ck_assert_msg(builds[GPU_TRACE](&probe, 1, 65, 66 * 4) == ATTN_ERR_CUDA, "nothing found");
    assert_finding(SIMT_UNINITIALISED, "simt_trace_mistakes.cu", "dynamic", "dynamic shared memory",
                   65 * 4, 4, false);
    ck_assert_msg(builds[GPU_TRACE](&probe, 1, 65, 65 * 4) == ATTN_ERR_CUDA, "nothing found");
    assert_finding(SIMT_OUT_OF_BOUNDS, "simt_trace_mistakes.cu", "dynamic", "dynamic shared memory",
                   65 * 4, 4, false);
    probe.shift = 0;
    ck_assert_msg(builds[GPU_TRACE](&probe, 1, 65, 65 * 4) == ATTN_OK, "%s", attn_last_error());
}
END_TEST

START_TEST(misaligned) {
    static TraceProbeRun *const builds[] = GPU_BUILDS(trace_copy_wide);
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    probe.n = 32;
    for (probe.shift = 1; probe.shift < 4; probe.shift++) {
        ck_assert_int_eq(builds[GPU_TRACE](&probe, 1, 32, 0), ATTN_ERR_CUDA);
        assert_finding(SIMT_MISALIGNED, "simt_trace_probe.cu", "wide", "x", 4 * probe.shift, 16,
                       false);
    }
    ck_assert_int_eq(builds[GPU_TRACE](&probe, 1, 32, 0), ATTN_OK);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("simt_race");
    TCase *tcase = tcase_create("race");
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, race, 0, RACES * ORDERS);
    tcase_add_test(tcase, race_in_detail);
    tcase_add_test(tcase, blocks_in_detail);
    tcase_add_loop_test(tcase, right, 0, RIGHTS * ORDERS);
    tcase_add_test(tcase, last_block_sum);
    tcase_add_test(tcase, after_a_finding);
    tcase_add_loop_test(tcase, unwritten_shared, 0, ORDERS);
    tcase_add_test(tcase, unwritten_device);
    tcase_add_test(tcase, out_of_bounds);
    tcase_add_test(tcase, dynamic_out_of_bounds);
    tcase_add_test(tcase, misaligned);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
