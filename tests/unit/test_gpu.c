// Tests of common/gpu.h on every target that is here: memory, copies, streams, events, time,
// launches and what their errors say; the choice of the target; the devices that simt stands for;
// occupancy.
#include "common/gpu.h"

#include "common/simt/fiber.h" // SIMT_ASAN
#include "common/simt/runtime.h"
#include "tests/unit/gpu_targets.h"
#include "tests/unit/simt_scale.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static AttnStatus (*const scale[])(float *, int, float, GpuStream) = GPU_BUILDS(scale);
static AttnStatus (*const count_down[])(float *, int, bool, GpuStream) = GPU_BUILDS(count_down);
static AttnStatus (*const too_many_threads[])(float *, GpuStream) = GPU_BUILDS(too_many_threads);
static AttnStatus (*const write_past[])(float *, int, GpuStream) = GPU_BUILDS(write_past);

static GpuTarget target_of(int index) {
    return gpu_tests.target[index];
}

// A buffer "x" of n floats 0, 1, 2, ...
static float *make_ramp(GpuTarget target, int n) {
    void *memory;
    float *values = calloc((size_t)n, sizeof(*values));
    ck_assert_ptr_nonnull(values);
    for (int i = 0; i < n; i++) {
        values[i] = (float)i;
    }
    ASSERT_OK(gpu_alloc(target, &memory, "x", (size_t)n, sizeof(*values)));
    ASSERT_OK(gpu_upload(target, memory, values, (size_t)n * sizeof(*values)));
    free(values);
    return memory;
}

// ---- which target -------------------------------------------------------------------------------

// The first test: CUDA has not been asked for yet in this process.
START_TEST(choosing_simt_starts_no_cuda) {
    GpuTarget target = GPU_CUDA;
#if GPU_HAVE_CUDA
    ck_assert(!gpu_asked(GPU_CUDA));
#endif
    ck_assert(gpu_asked(GPU_SIMT));
    ck_assert(gpu_asked(GPU_TRACE));
    ASSERT_OK(gpu_choose(BACKEND_SIMT, &target));
    ck_assert_int_eq(target, GPU_SIMT);
    ck_assert_int_eq(gpu_asked(GPU_CUDA), !GPU_HAVE_CUDA);
}
END_TEST

START_TEST(choice_of_the_target) {
    GpuTarget target;
    char why[256];
    const bool device = gpu_available(GPU_CUDA, why);
    ck_assert_int_eq(device, gpu_tests.device);
    ck_assert_int_eq(device, why[0] == '\0');
    ck_assert(gpu_asked(GPU_CUDA));
    ASSERT_OK(gpu_choose(BACKEND_AUTO, &target));
    ck_assert_int_eq(target, device ? GPU_CUDA : GPU_SIMT);
    if (device) {
        ASSERT_OK(gpu_choose(BACKEND_CUDA, &target));
        ck_assert_int_eq(target, GPU_CUDA);
    } else {
        ASSERT_FAILS(gpu_choose(BACKEND_CUDA, &target), ATTN_ERR_UNSUPPORTED, why);
        ck_assert_ptr_nonnull(strstr(attn_last_error(), "--backend=cuda"));
    }
    ASSERT_FAILS(gpu_choose(BACKEND_CPU, &target), ATTN_ERR_UNSUPPORTED, "--backend=cpu");
    ASSERT_FAILS(gpu_choose((Backend)17, &target), ATTN_ERR_ARGUMENT, "17");
}
END_TEST

START_TEST(reasons_are_given) {
    char why[256];
    ck_assert(gpu_available(GPU_SIMT, why));
    ck_assert_str_eq(why, "");
    ck_assert_int_eq(gpu_available(GPU_TRACE, why), GPU_HAVE_TRACE);
    ck_assert_int_eq(why[0] == '\0', GPU_HAVE_TRACE);
    if (!gpu_available(GPU_CUDA, why)) {
        ck_assert_uint_gt(strlen(why), 10);
        ck_assert_int_eq(strcmp(why, "no nvcc when this was built") == 0, !GPU_HAVE_CUDA);
    }
    ck_assert(!gpu_available((GpuTarget)9, why));
    ck_assert_ptr_nonnull(strstr(why, "9"));
}
END_TEST

START_TEST(targets_have_names) {
    ck_assert_str_eq(gpu_target_name(GPU_SIMT), "simt");
    ck_assert_str_eq(gpu_target_name(GPU_TRACE), "simt, traced");
    ck_assert_str_eq(gpu_target_name(GPU_CUDA), "cuda");
}
END_TEST

START_TEST(a_target_that_is_not_there_is_an_error) {
    const GpuTarget nowhere = (GpuTarget)7;
    void *memory = &memory;
    float value = 0;
    GpuProperties properties;
    GpuStream stream = &memory;
    GpuEvent event = &memory;
    double seconds;
    ASSERT_FAILS(gpu_alloc(nowhere, &memory, "x", 1, 4), ATTN_ERR_ARGUMENT, "gpu_alloc");
    ck_assert_ptr_null(memory);
    ASSERT_FAILS(gpu_upload(nowhere, &value, &value, 4), ATTN_ERR_ARGUMENT, "gpu_upload");
    ASSERT_FAILS(gpu_download(nowhere, &value, &value, 4), ATTN_ERR_ARGUMENT, "gpu_download");
    ASSERT_FAILS(gpu_copy(nowhere, &value, &value, 4, NULL), ATTN_ERR_ARGUMENT, "gpu_copy");
    ASSERT_FAILS(gpu_fill(nowhere, &value, 0, 4, NULL), ATTN_ERR_ARGUMENT, "gpu_fill");
    ASSERT_FAILS(gpu_check_guard(nowhere, &value), ATTN_ERR_ARGUMENT, "gpu_check_guard");
    ASSERT_FAILS(gpu_synchronize(nowhere), ATTN_ERR_ARGUMENT, "gpu_synchronize");
    ASSERT_FAILS(gpu_properties(nowhere, &properties), ATTN_ERR_ARGUMENT, "gpu_properties");
    ASSERT_FAILS(gpu_stream_create(nowhere, &stream), ATTN_ERR_ARGUMENT, "gpu_stream_create");
    ck_assert_ptr_null(stream);
    ASSERT_FAILS(gpu_event_create(nowhere, &event), ATTN_ERR_ARGUMENT, "gpu_event_create");
    ck_assert_ptr_null(event);
    ASSERT_FAILS(gpu_event_record(nowhere, &value, NULL), ATTN_ERR_ARGUMENT, "gpu_event_record");
    ASSERT_FAILS(gpu_event_seconds(nowhere, &value, &value, &seconds), ATTN_ERR_ARGUMENT,
                 "gpu_event_seconds");
#if !GPU_HAVE_CUDA
    ASSERT_FAILS(gpu_alloc(GPU_CUDA, &memory, "x", 1, 4), ATTN_ERR_UNSUPPORTED, "nvcc");
#endif
}
END_TEST

// ---- memory -------------------------------------------------------------------------------------

START_TEST(memory_begins_as_nan) {
    const GpuTarget target = target_of(_i);
    const size_t counts[] = {1, 3, 64, 1025, 70000};
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        void *memory;
        float *host = calloc(counts[c], sizeof(*host));
        ck_assert_ptr_nonnull(host);
        ASSERT_OK(gpu_alloc(target, &memory, "x", counts[c], sizeof(*host)));
        ck_assert_uint_eq((uintptr_t)memory % 256, 0);
        ASSERT_OK(gpu_download(target, host, memory, counts[c] * sizeof(*host)));
        for (size_t i = 0; i < counts[c]; i++) {
            ck_assert_float_nan(host[i]);
        }
        gpu_free(target, memory);
        free(host);
    }
}
END_TEST

START_TEST(copies_go_there_and_back) {
    const GpuTarget target = target_of(_i);
    unsigned char sent[1000], got[1000];
    void *memory;
    for (int i = 0; i < 1000; i++) {
        sent[i] = (unsigned char)(7 * i + 3);
    }
    ASSERT_OK(gpu_alloc(target, &memory, "bytes", 1000, 1));
    ASSERT_OK(gpu_upload(target, memory, sent, 1000));
    ASSERT_OK(gpu_download(target, got, memory, 1000));
    ck_assert_mem_eq(got, sent, 1000);
    // A part, by its address.
    ASSERT_OK(gpu_upload(target, (char *)memory + 990, sent, 10));
    ASSERT_OK(gpu_download(target, got, (char *)memory + 989, 11));
    ck_assert_uint_eq(got[0], sent[989]);
    ck_assert_mem_eq(got + 1, sent, 10);
    ASSERT_OK(gpu_fill(target, memory, 0, 500, NULL));
    ASSERT_OK(gpu_fill(target, (char *)memory + 500, 0xFF, 500, NULL));
    ASSERT_OK(gpu_download(target, got, memory, 1000));
    for (int i = 0; i < 1000; i++) {
        ck_assert_uint_eq(got[i], i < 500 ? 0 : 0xFF);
    }
    ASSERT_OK(gpu_check_guard(target, memory));
    gpu_free(target, memory);
}
END_TEST

START_TEST(copies_on_the_device) {
    const GpuTarget target = target_of(_i);
    enum { N = 1000 };
    float got[N];
    float *x = make_ramp(target, N);
    void *y;
    GpuStream stream;
    ASSERT_OK(gpu_stream_create(target, &stream));
    ASSERT_OK(gpu_alloc(target, &y, "y", N, sizeof(float)));
    ASSERT_OK(gpu_copy(target, y, x + 100, 600 * sizeof(float), NULL)); // to another buffer
    ASSERT_OK(gpu_synchronize(target));
    ASSERT_OK(gpu_copy(target, x, x + 700, 300 * sizeof(float), stream)); // within one
    ASSERT_OK(gpu_synchronize(target));
    ASSERT_OK(gpu_download(target, got, y, sizeof got));
    for (int i = 0; i < N; i++) {
        ck_assert(i < 600 ? got[i] == (float)(i + 100) : isnan(got[i]));
    }
    ASSERT_OK(gpu_download(target, got, x, sizeof got));
    for (int i = 0; i < N; i++) {
        ck_assert_float_eq(got[i], (float)(i < 300 ? i + 700 : i));
    }
    ASSERT_FAILS(gpu_copy(target, y, x + 1, N * sizeof(float), NULL), ATTN_ERR_ARGUMENT, "\"x\"");
    ASSERT_FAILS(gpu_copy(target, (char *)y + 4, x, N * sizeof(float), NULL), ATTN_ERR_ARGUMENT,
                 "gpu_copy: 4000 bytes from byte 4 of \"y\" on");
    ASSERT_FAILS(gpu_copy(target, NULL, x, 4, NULL), ATTN_ERR_ARGUMENT, "null");
    gpu_stream_destroy(target, stream);
    gpu_free(target, x);
    gpu_free(target, y);
}
END_TEST

START_TEST(nothing_is_a_no_op) {
    const GpuTarget target = target_of(_i);
    void *memory = &memory;
    ASSERT_OK(gpu_alloc(target, &memory, "empty", 0, 4));
    ck_assert_ptr_null(memory);
    ASSERT_OK(gpu_upload(target, NULL, NULL, 0));
    ASSERT_OK(gpu_download(target, NULL, NULL, 0));
    ASSERT_OK(gpu_copy(target, NULL, NULL, 0, NULL));
    ASSERT_OK(gpu_fill(target, NULL, 0, 0, NULL));
    ASSERT_OK(gpu_check_guard(target, NULL));
    gpu_free(target, NULL);
    gpu_stream_destroy(target, NULL);
    gpu_event_destroy(target, NULL);
    ASSERT_OK(gpu_synchronize(target));
}
END_TEST

START_TEST(errors_name_the_call_and_the_buffer) {
    const GpuTarget target = target_of(_i);
    float host[8] = {0};
    void *memory, *other;
    ASSERT_OK(gpu_alloc(target, &memory, "lse", 4, sizeof(float)));
    ASSERT_OK(gpu_alloc(target, &other, "k", 4, sizeof(float)));
    ASSERT_FAILS(gpu_upload(target, memory, host, 17), ATTN_ERR_ARGUMENT,
                 "gpu_upload: 17 bytes from byte 0 of \"lse\" on, which has 16 bytes");
    ASSERT_FAILS(gpu_download(target, host, (char *)other + 8, 9), ATTN_ERR_ARGUMENT,
                 "gpu_download: 9 bytes from byte 8 of \"k\" on");
    ASSERT_FAILS(gpu_fill(target, memory, 0, 32, NULL), ATTN_ERR_ARGUMENT, "gpu_fill: 32 bytes");
    ASSERT_FAILS(gpu_upload(target, NULL, host, 4), ATTN_ERR_ARGUMENT, "device pointer is null");
    ASSERT_FAILS(gpu_upload(target, memory, NULL, 4), ATTN_ERR_ARGUMENT, "host pointer is null");
    ASSERT_FAILS(gpu_download(target, NULL, memory, 4), ATTN_ERR_ARGUMENT, "host pointer is null");
    if (target != GPU_CUDA) {
        ASSERT_FAILS(gpu_upload(target, host, host, 4), ATTN_ERR_ARGUMENT, "in no buffer");
    } else { // CUDA's own check, with the call, the file and the error's name
        const uintptr_t nowhere = 256;
        void *bad;
        memcpy(&bad, &nowhere, sizeof bad);
        ASSERT_FAILS(gpu_download(target, host, bad, 4), ATTN_ERR_CUDA, "gpu_cuda.cu:");
        ck_assert_ptr_nonnull(strstr(attn_last_error(), "cudaMemcpy(host, device, bytes"));
        ck_assert_ptr_nonnull(strstr(attn_last_error(), "cudaErrorInvalidValue"));
    }
    // What was refused has changed nothing, and is not found by the next call.
    ASSERT_OK(gpu_synchronize(target));
    ASSERT_OK(gpu_download(target, host, memory, 16));
    ck_assert_float_nan(host[0]);
    gpu_free(target, memory);
    gpu_free(target, other);
}
END_TEST

START_TEST(bad_allocations_are_refused) {
    const GpuTarget target = target_of(_i);
    void *memory = &memory;
    ASSERT_FAILS(gpu_alloc(target, &memory, NULL, 1, 4), ATTN_ERR_ARGUMENT, "name");
    ck_assert_ptr_null(memory);
    ASSERT_FAILS(gpu_alloc(target, &memory, "", 1, 4), ATTN_ERR_ARGUMENT, "name");
    ASSERT_FAILS(gpu_alloc(target, &memory, "q", 1, 0), ATTN_ERR_ARGUMENT, "0 bytes");
    ASSERT_FAILS(gpu_alloc(target, &memory, "q", SIZE_MAX / 2, 4), ATTN_ERR_MEMORY, "\"q\"");
    memory = &memory;
    ASSERT_FAILS(gpu_alloc(target, &memory, "scores", (size_t)1 << 60, 1), ATTN_ERR_MEMORY,
                 "\"scores\"");
    ck_assert_ptr_null(memory);
    // Memory is still to be had.
    ASSERT_OK(gpu_alloc(target, &memory, "q", 16, 4));
    gpu_free(target, memory);
}
END_TEST

// A name longer than is kept is cut, and a name whose text is gone is a copy.
START_TEST(names_are_copied) {
    const GpuTarget target = target_of(_i);
    char name[100];
    void *memory;
    memset(name, 'n', sizeof name);
    name[99] = '\0';
    ASSERT_OK(gpu_alloc(target, &memory, name, 1, 4));
    memset(name, 'm', 99);
    ASSERT_FAILS(gpu_fill(target, memory, 0, 5, NULL), ATTN_ERR_ARGUMENT, "\"nnnnnnnn");
    gpu_free(target, memory);
}
END_TEST

START_TEST(many_buffers) {
    const GpuTarget target = target_of(_i);
    enum { BUFFERS = 100 };
    void *memory[BUFFERS];
    for (int b = 0; b < BUFFERS; b++) {
        ASSERT_OK(gpu_alloc(target, &memory[b], "part", (size_t)(b + 1), sizeof(int)));
        ASSERT_OK(gpu_upload(target, (int *)memory[b] + b, &b, sizeof b));
    }
    for (int b = BUFFERS - 1; b >= 0; b -= 2) {
        gpu_free(target, memory[b]);
    }
    for (int b = 0; b < BUFFERS; b += 2) {
        int value = -1;
        ASSERT_OK(gpu_download(target, &value, (int *)memory[b] + b, sizeof value));
        ck_assert_int_eq(value, b);
        gpu_free(target, memory[b]);
    }
}
END_TEST

// ---- launches -----------------------------------------------------------------------------------

START_TEST(a_kernel_runs) {
    const GpuTarget target = target_of(_i);
    enum { N = 1000 };
    float got[N];
    float *x = make_ramp(target, N);
    GpuStream stream;
    ASSERT_OK(gpu_stream_create(target, &stream));
    ck_assert_ptr_nonnull(stream);
    ASSERT_OK(scale[target](x, N, 2.0F, NULL));
    ASSERT_OK(gpu_synchronize(target));
    ASSERT_OK(scale[target](x, N, 0.25F, stream));
    ASSERT_OK(gpu_synchronize(target));
    ASSERT_OK(gpu_check_guard(target, x));
    ASSERT_OK(gpu_download(target, got, x, sizeof got));
    for (int i = 0; i < N; i++) {
        ck_assert_float_eq(got[i], 0.5F * (float)i);
    }
    gpu_stream_destroy(target, stream);
    gpu_free(target, x);
}
END_TEST

START_TEST(a_refused_launch_says_which) {
    const GpuTarget target = target_of(_i);
    float got = -1;
    float *x = make_ramp(target, 4);
    ck_assert_int_ne(too_many_threads[target](x, NULL), ATTN_OK);
    ck_assert_ptr_nonnull(strstr(attn_last_error(), "scale_kernel"));
    ck_assert_ptr_nonnull(strstr(attn_last_error(), "simt_scale.cu:"));
    // The next launch is not blamed for it.
    ASSERT_OK(scale[target](x, 4, 3.0F, NULL));
    ASSERT_OK(gpu_synchronize(target));
    ASSERT_OK(gpu_download(target, &got, x + 1, sizeof got));
    ck_assert_float_eq(got, 3.0F);
    gpu_free(target, x);
}
END_TEST

START_TEST(much_shared_memory_needs_an_opt_in) {
    const GpuTarget target = target_of(_i);
    enum { FITS = 49152 / 4, MORE = 60000 / 4, TOO_MUCH = 400000 / 4 };
    float got[2];
    float *x = make_ramp(target, TOO_MUCH);
    ASSERT_OK(count_down[target](x, FITS, false, NULL));
    ck_assert_int_ne(count_down[target](x, MORE, false, NULL), ATTN_OK);
    ck_assert_ptr_nonnull(strstr(attn_last_error(), "count_down_kernel"));
    ASSERT_OK(count_down[target](x, MORE, true, NULL));
    ASSERT_OK(gpu_synchronize(target));
    ASSERT_OK(gpu_download(target, got, x, sizeof got));
    ck_assert_float_eq(got[0], MORE - 1);
    ck_assert_float_eq(got[1], MORE - 2);
    ck_assert_int_ne(count_down[target](x, TOO_MUCH, true, NULL), ATTN_OK);
    ck_assert_ptr_nonnull(strstr(attn_last_error(), "count_down_kernel"));
    ASSERT_OK(gpu_synchronize(target));
    gpu_free(target, x);
}
END_TEST

// By the launch where it is traced, by the guard afterwards where it is not. Under AddressSanitizer
// the write itself would end the test.
START_TEST(a_write_past_the_end_is_found) {
    const GpuTarget target = target_of(_i);
    float *x = make_ramp(target, 100);
    if (target == GPU_TRACE) {
        ck_assert_int_ne(write_past[target](x, 100, NULL), ATTN_OK);
        ck_assert_int_eq(simt_finding()->kind, SIMT_OUT_OF_BOUNDS);
        ck_assert_str_eq(simt_finding()->buffer, "x");
    } else if (!SIMT_ASAN || target == GPU_CUDA) {
        ASSERT_OK(write_past[target](x, 100, NULL));
        ASSERT_FAILS(gpu_check_guard(target, x), ATTN_ERR_CUDA,
                     "past the end of \"x\" (400 bytes), 0 bytes after it");
    }
    gpu_free(target, x);
}
END_TEST

// ---- events and time ----------------------------------------------------------------------------

START_TEST(events_tell_time) {
    const GpuTarget target = target_of(_i);
    GpuEvent from, to;
    double seconds = -1;
    float *x = make_ramp(target, 64);
    ASSERT_OK(gpu_event_create(target, &from));
    ASSERT_OK(gpu_event_create(target, &to));
    ck_assert_int_ne(gpu_event_seconds(target, from, to, &seconds), ATTN_OK);
    ASSERT_OK(gpu_event_record(target, from, NULL));
    ASSERT_OK(scale[target](x, 64, 2.0F, NULL));
    if (target != GPU_CUDA) { // this CPU's clock; the device's does not see the host sleep
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    ASSERT_OK(gpu_event_record(target, to, NULL));
    ASSERT_OK(gpu_event_seconds(target, from, to, &seconds));
    ck_assert_double_gt(seconds, target != GPU_CUDA ? 0.02 : 0);
    ck_assert_double_lt(seconds, 10);
    ASSERT_FAILS(gpu_event_seconds(target, NULL, to, &seconds), ATTN_ERR_ARGUMENT, "first");
    ASSERT_FAILS(gpu_event_seconds(target, from, NULL, &seconds), ATTN_ERR_ARGUMENT, "second");
    ASSERT_FAILS(gpu_event_record(target, NULL, NULL), ATTN_ERR_ARGUMENT, "null");
    gpu_event_destroy(target, from);
    gpu_event_destroy(target, to);
    gpu_free(target, x);
}
END_TEST

typedef struct Measured {
    GpuTarget target;
    float *x;
    int calls, fails_at;
} Measured;

static AttnStatus measured_run(void *context, int run) {
    Measured *measured = context;
    ck_assert_int_eq(run, measured->calls);
    measured->calls++;
    if (run == measured->fails_at) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "run %d: expected in this test", run);
    }
    return scale[measured->target](measured->x, 64, 1.0F, NULL);
}

START_TEST(runs_are_measured) {
    const GpuTarget target = target_of(_i);
    const struct {
        int runs, timed;
    } cases[] = {{1, 1}, {12, 12}, {0, 1}, {-5, 1}, {2000, TIMER_MAX_RUNS}};
    const int last = target == GPU_TRACE ? 4 : 5; // a thousand traced runs take long
    for (int c = 0; c < last; c++) {
        Measured measured = {target, make_ramp(target, 64), 0, -1};
        TimeStats stats;
        ASSERT_OK(gpu_measure(target, measured_run, &measured, cases[c].runs, &stats));
        ck_assert_int_eq(measured.calls, cases[c].timed + 1);
        ck_assert_int_eq(stats.runs, cases[c].timed);
        ck_assert_double_gt(stats.min, 0);
        ck_assert(stats.p10 <= stats.median && stats.median <= stats.p90);
        gpu_free(target, measured.x);
    }
}
END_TEST

START_TEST(the_first_error_ends_a_measurement) {
    const GpuTarget target = target_of(_i);
    const int fails_at[] = {0, 1, 3};
    for (int c = 0; c < 3; c++) {
        Measured measured = {target, make_ramp(target, 64), 0, fails_at[c]};
        TimeStats stats;
        ASSERT_FAILS(gpu_measure(target, measured_run, &measured, 5, &stats), ATTN_ERR_UNSUPPORTED,
                     "expected in this test");
        ck_assert_int_eq(measured.calls, fails_at[c] + 1);
        ck_assert_int_eq(stats.runs, 0);
        ck_assert_double_nan(stats.median);
        gpu_free(target, measured.x);
    }
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("gpu");
    TCase *choice = tcase_create("choice"), *each = tcase_create("each target");
    tcase_set_timeout(choice, 60);
    tcase_add_test(choice, choosing_simt_starts_no_cuda);
    tcase_add_test(choice, choice_of_the_target);
    tcase_add_test(choice, reasons_are_given);
    tcase_add_test(choice, targets_have_names);
    tcase_add_test(choice, a_target_that_is_not_there_is_an_error);
    suite_add_tcase(suite, choice);
    tcase_set_timeout(each, 60);
    tcase_add_loop_test(each, memory_begins_as_nan, 0, gpu_tests.count);
    tcase_add_loop_test(each, copies_go_there_and_back, 0, gpu_tests.count);
    tcase_add_loop_test(each, copies_on_the_device, 0, gpu_tests.count);
    tcase_add_loop_test(each, nothing_is_a_no_op, 0, gpu_tests.count);
    tcase_add_loop_test(each, errors_name_the_call_and_the_buffer, 0, gpu_tests.count);
    tcase_add_loop_test(each, bad_allocations_are_refused, 0, gpu_tests.count);
    tcase_add_loop_test(each, names_are_copied, 0, gpu_tests.count);
    tcase_add_loop_test(each, many_buffers, 0, gpu_tests.count);
    tcase_add_loop_test(each, a_kernel_runs, 0, gpu_tests.count);
    tcase_add_loop_test(each, a_refused_launch_says_which, 0, gpu_tests.count);
    tcase_add_loop_test(each, much_shared_memory_needs_an_opt_in, 0, gpu_tests.count);
    tcase_add_loop_test(each, a_write_past_the_end_is_found, 0, gpu_tests.count);
    tcase_add_loop_test(each, events_tell_time, 0, gpu_tests.count);
    tcase_add_loop_test(each, runs_are_measured, 0, gpu_tests.count);
    tcase_add_loop_test(each, the_first_error_ends_a_measurement, 0, gpu_tests.count);
    suite_add_tcase(suite, each);
    return gpu_tests_run(suite);
}
