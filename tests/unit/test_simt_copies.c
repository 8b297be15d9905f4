// cp.async on every target: zero fill, groups; on simt in three thread orders, and what is found
// when a kernel waits too little or uses cp.async, ldmatrix or mma wrongly.
#include "tests/unit/simt_matrix_probe.h"
#include "tests/unit/simt_places.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// ---- cp.async -----------------------------------------------------------------------------------

START_TEST(copies_fill_with_zeros) {
    static AttnStatus (*const probe[])(const CopyProbeParams *, GpuStream) =
        GPU_BUILDS(simt_copy_probe);
    enum { ALL = COPY_PROBE_THREADS * COPY_PROBE_SLOT };
    if (!simt_test_begin(_i)) {
        return;
    }
    const GpuTarget target = simt_test_places[_i].target;
    for (int size = 4; size <= COPY_PROBE_SLOT; size *= 2) {
        uint8_t in[ALL], out[ALL];
        int bytes[COPY_PROBE_THREADS];
        for (int i = 0; i < ALL; i++) {
            in[i] = (uint8_t)(17 + 7 * i);
        }
        for (int i = 0; i < COPY_PROBE_THREADS; i++) {
            bytes[i] = i % (size + 1);
        }
        uint8_t *device_in = simt_test_array(target, "in", ALL, 1, in);
        int *device_bytes = simt_test_array(target, "bytes", COPY_PROBE_THREADS, 4, bytes);
        uint8_t *device_out = simt_test_array(target, "out", ALL, 1, NULL);
        const CopyProbeParams params = {device_in, device_bytes, device_out, size};
        ck_assert_msg(probe[target](&params, NULL) == ATTN_OK, "%s", attn_last_error());
        simt_test_download(target, out, device_out, ALL);
        for (int i = 0; i < ALL; i++) {
            const int thread = i / COPY_PROBE_SLOT, byte = i % COPY_PROBE_SLOT;
            const int expected = byte < bytes[thread] ? in[i] : byte < size ? 0 : 0x11;
            if (out[i] != expected) {
                ck_abort_msg("%d of %d bytes: byte %d is %d, not %d", bytes[thread], size, byte,
                             out[i], expected);
            }
        }
        gpu_free(target, device_in);
        gpu_free(target, device_bytes);
        gpu_free(target, device_out);
    }
}
END_TEST

typedef struct Looks {
    float at[GROUP_PROBE_LOOKS][GROUP_PROBE_GROUPS][PROBE_WARP];
} Looks;

static AttnStatus run_groups(GpuTarget target, int look_early, Looks *looks) {
    static AttnStatus (*const probe[])(const GroupProbeParams *, GpuStream) =
        GPU_BUILDS(simt_group_probe);
    float in[GROUP_PROBE_GROUPS * PROBE_WARP];
    for (int i = 0; i < GROUP_PROBE_GROUPS * PROBE_WARP; i++) {
        in[i] = (float)i;
    }
    float *device_in = simt_test_array(target, "in", GROUP_PROBE_GROUPS * PROBE_WARP, 4, in);
    float *out = simt_test_array(target, "out", sizeof *looks / 4, 4, NULL);
    const GroupProbeParams params = {device_in, out, look_early};
    const AttnStatus status = probe[target](&params, NULL);
    simt_test_download(target, looks, out, sizeof *looks);
    gpu_free(target, device_in);
    gpu_free(target, out);
    return status;
}

// What is there after each wait; everything else is NaN, as not looked at or as not yet copied.
static void check_groups(const Looks *looks) {
    static const int complete[GROUP_PROBE_LOOKS] = {0, 1, 3, 4};
    for (int look = 0; look < GROUP_PROBE_LOOKS; look++) {
        for (int group = 0; group < GROUP_PROBE_GROUPS; group++) {
            for (int lane = 0; lane < PROBE_WARP; lane++) {
                const float got = looks->at[look][group][lane];
                if (group < complete[look]) {
                    ck_assert_float_eq(got, (float)(group * PROBE_WARP + lane));
                } else {
                    ck_assert_float_nan(got);
                }
            }
        }
    }
}

START_TEST(groups_complete_in_order) {
    Looks looks;
    if (simt_test_begin(_i)) {
        ck_assert_msg(run_groups(simt_test_places[_i].target, 0, &looks) == ATTN_OK, "%s",
                      attn_last_error());
        check_groups(&looks);
    }
}
END_TEST

START_TEST(copies_are_late) {
    Looks looks;
    if (!simt_test_begin(_i)) {
        return;
    }
    const AttnStatus status = run_groups(simt_test_places[_i].target, 1, &looks);
    if (simt_test_places[_i].target == GPU_SIMT) {
        ck_assert_msg(status == ATTN_OK, "%s", attn_last_error());
        check_groups(&looks);
    } else {
        ck_assert_int_ne(status, ATTN_OK);
        ck_assert_int_eq(simt_finding()->kind, SIMT_UNINITIALISED);
    }
}
END_TEST

enum { TILES = 5, PIPELINE_ELEMENTS = TILES * PIPELINE_THREADS };

// The number of wrong elements; -1 when the launch was abandoned.
static int run_pipeline(GpuTarget target, PipelineMistake mistake) {
    static AttnStatus (*const probe[])(const PipelineProbeParams *, GpuStream) =
        GPU_BUILDS(simt_pipeline_probe);
    float in[PIPELINE_ELEMENTS], out[PIPELINE_ELEMENTS];
    for (int i = 0; i < PIPELINE_ELEMENTS; i++) {
        in[i] = (float)(i * i);
    }
    float *device_in = simt_test_array(target, "in", PIPELINE_ELEMENTS, 4, in);
    float *device_out = simt_test_array(target, "out", PIPELINE_ELEMENTS, 4, NULL);
    const PipelineProbeParams params = {device_in, device_out, TILES, mistake};
    const AttnStatus status = probe[target](&params, NULL);
    if (status == ATTN_OK) {
        simt_test_download(target, out, device_out, sizeof out);
    }
    gpu_free(target, device_in);
    gpu_free(target, device_out);
    int wrong = 0;
    for (int i = 0; i < PIPELINE_ELEMENTS && status == ATTN_OK; i++) {
        const int base = i / PIPELINE_THREADS * PIPELINE_THREADS;
        const float expected = in[i] + in[base + (i + 1) % PIPELINE_THREADS];
        wrong += !(out[i] == expected);
    }
    return status == ATTN_OK ? wrong : -1;
}

START_TEST(pipeline) {
    if (simt_test_begin(_i)) {
        const int wrong = run_pipeline(simt_test_places[_i].target, PIPELINE_RIGHT);
        ck_assert_msg(wrong >= 0, "%s", attn_last_error());
        ck_assert_int_eq(wrong, 0);
    }
}
END_TEST

// Without tracing a mistake gives NaN in every thread order; traced it is named.
START_TEST(pipeline_mistakes_show) {
    static const SimtFindingKind kinds[] = {
        [PIPELINE_NO_WAIT] = SIMT_UNINITIALISED,
        [PIPELINE_WAIT_TOO_FEW] = SIMT_UNINITIALISED,
        [PIPELINE_EARLY_REFILL] = SIMT_RACE,
    };
    if (!simt_test_begin(_i)) {
        return;
    }
    for (int mistake = PIPELINE_NO_WAIT; mistake <= PIPELINE_EARLY_REFILL; mistake++) {
        const int wrong = run_pipeline(simt_test_places[_i].target, (PipelineMistake)mistake);
        if (simt_test_places[_i].target == GPU_SIMT) {
            ck_assert_msg(wrong > 0, "mistake %d: %d elements are wrong", mistake, wrong);
        } else {
            ck_assert_int_eq(wrong, -1);
            ck_assert_msg(simt_finding()->kind == kinds[mistake], "mistake %d: %s", mistake,
                          attn_last_error());
            ck_assert_str_eq(simt_finding()->here.file, "simt_matrix_probe.cu");
        }
    }
}
END_TEST

START_TEST(blocks_begin_without_copies) {
    static AttnStatus (*const probe[])(const LeftoverProbeParams *, GpuStream) =
        GPU_BUILDS(simt_leftover_probe);
    if (!simt_test_begin(_i)) {
        return;
    }
    const GpuTarget target = simt_test_places[_i].target;
    float in[PROBE_WARP] = {0}, out[PROBE_WARP];
    float *device_in = simt_test_array(target, "in", PROBE_WARP, 4, in);
    float *device_out = simt_test_array(target, "out", PROBE_WARP, 4, NULL);
    const LeftoverProbeParams params = {device_in, device_out};
    ck_assert_msg(probe[target](&params, NULL) == ATTN_OK, "%s", attn_last_error());
    simt_test_download(target, out, device_out, sizeof out);
    for (int lane = 0; lane < PROBE_WARP; lane++) {
        ck_assert_float_eq(out[lane], 1);
    }
    gpu_free(target, device_in);
    gpu_free(target, device_out);
}
END_TEST

// Traced: a copy's read of global memory is counted when it starts, as a load of the thread.
START_TEST(copies_are_counted) {
    char why[256];
    if (!gpu_available(GPU_TRACE, why)) {
        return;
    }
    simt_trace_reset();
    ck_assert_int_eq(run_pipeline(GPU_TRACE, PIPELINE_RIGHT), 0);
    const SimtCounts counts = simt_trace_sum("in");
    ck_assert_uint_eq(counts.load_bytes, PIPELINE_ELEMENTS * 4);
    ck_assert_uint_eq(counts.load_requests, PIPELINE_ELEMENTS / 32);
    ck_assert_uint_eq(counts.load_sectors, PIPELINE_ELEMENTS / 8);
    const SimtSharedCounts shared = simt_trace_sum_shared();
    ck_assert_uint_eq(shared.store_requests, (TILES + 1) * 2);
}
END_TEST

// ---- mistakes that are found --------------------------------------------------------------------

START_TEST(mistakes_are_found) {
    static AttnStatus (*const probe[])(const MistakeProbeParams *, GpuStream) =
        GPU_BUILDS(simt_mistake_probe);
    static const SimtFindingKind kinds[MISTAKES] = {
        [MISTAKE_ROW_MISALIGNED] = SIMT_MISALIGNED,    [MISTAKE_ROW_IN_GLOBAL] = SIMT_OUT_OF_BOUNDS,
        [MISTAKE_COPY_MISALIGNED] = SIMT_MISALIGNED,   [MISTAKE_COPY_SOURCE] = SIMT_MISALIGNED,
        [MISTAKE_COPY_TO_GLOBAL] = SIMT_OUT_OF_BOUNDS, [MISTAKE_COPY_TOO_LONG] = SIMT_OUT_OF_BOUNDS,
        [MISTAKE_LANE_MISSING] = SIMT_MISSING_LANE,    [MISTAKE_DIFFERENT] = SIMT_MISSING_LANE};
    if (!simt_test_begin(_i)) {
        return;
    }
    const GpuTarget target = simt_test_places[_i].target;
    for (int mistake = 0; mistake < MISTAKES; mistake++) {
        float values[64] = {0};
        float *memory = simt_test_array(target, "memory", 64, 4, values);
        int lines[PROBE_WARP] = {0};
        int *device_lines = simt_test_array(target, "lines", PROBE_WARP, 4, lines);
        const MistakeProbeParams params = {memory, device_lines, mistake};
        ck_assert_int_ne(probe[target](&params, NULL), ATTN_OK);
        simt_test_download(target, lines, device_lines, sizeof lines);
        const SimtFinding *finding = simt_finding();
        ck_assert_msg(finding->kind == kinds[mistake], "mistake %d: %s", mistake,
                      attn_last_error());
        ck_assert_str_eq(finding->kernel, "mistake_kernel");
        ck_assert_str_eq(finding->here.file, "simt_matrix_probe.cu");
        const int line = lines[finding->here.thread[0]];
        ck_assert_msg(finding->here.line == line, "mistake %d: line %d, not %d: %s", mistake,
                      finding->here.line, line, attn_last_error());
        ck_assert_ptr_nonnull(strstr(attn_last_error(), "simt_matrix_probe.cu"));
        gpu_free(target, memory);
        gpu_free(target, device_lines);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("simt copies");
    TCase *everywhere = tcase_create("everywhere");
    tcase_add_loop_test(everywhere, copies_fill_with_zeros, 0, SIMT_TEST_PLACES);
    tcase_add_loop_test(everywhere, groups_complete_in_order, 0, SIMT_TEST_PLACES);
    tcase_add_loop_test(everywhere, pipeline, 0, SIMT_TEST_PLACES);
    tcase_set_timeout(everywhere, 60);
    suite_add_tcase(suite, everywhere);
    TCase *on_simt = tcase_create("simt");
    tcase_add_loop_test(on_simt, copies_are_late, 0, SIMT_TEST_SIMT_PLACES);
    tcase_add_loop_test(on_simt, pipeline_mistakes_show, 0, SIMT_TEST_SIMT_PLACES);
    tcase_add_loop_test(on_simt, mistakes_are_found, 0, SIMT_TEST_SIMT_PLACES);
    tcase_add_loop_test(on_simt, blocks_begin_without_copies, 0, SIMT_TEST_SIMT_PLACES);
    tcase_add_test(on_simt, copies_are_counted);
    tcase_set_timeout(on_simt, 60);
    suite_add_tcase(suite, on_simt);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
