// Tests of common/device_problem.h on every target that is here.
#include "common/device_problem.h"

#include "common/simt/fiber.h" // SIMT_ASAN
#include "tests/unit/gpu_targets.h"
#include "tests/unit/simt_scale.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static AttnStatus (*const scale[])(float *, int, float, GpuStream) = GPU_BUILDS(scale);
static AttnStatus (*const write_past[])(float *, int, GpuStream) = GPU_BUILDS(write_past);

static const AttnShape grouped = {2, 4, 2, 5, 7, 8, 0, true, 0, NULL};

// The device's tensor, widened to f32, equals the problem's.
static void assert_uploaded(const DeviceProblem *device, const void *memory, const Tensor *tensor) {
    Tensor stored;
    ASSERT_OK(tensor_alloc(&stored, device->dtype, tensor->rank, tensor->dims));
    ASSERT_OK(
        gpu_download(device->target, stored.data, memory, stored.count * dtype_size(stored.dtype)));
    for (size_t e = 0; e < stored.count; e++) {
        ck_assert_double_eq(tensor_get(&stored, e), tensor_get(tensor, e));
    }
    tensor_free(&stored);
}

static void assert_all_nan(const Tensor *tensor) {
    for (size_t e = 0; e < tensor->count; e++) {
        ck_assert_double_nan(tensor_get(tensor, e));
    }
}

START_TEST(tensors_go_there_in_every_type) {
    const GpuTarget target = gpu_tests.target[_i];
    const DType types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (int t = 0; t < 3; t++) {
        Problem problem;
        DeviceProblem device;
        ASSERT_OK(problem_random(&problem, &grouped, types[t], 5));
        ASSERT_OK(device_problem_make(&device, target, &problem, types[t]));
        ck_assert_int_eq(device.target, target);
        ck_assert_int_eq(device.dtype, types[t]);
        ck_assert_ptr_null(device.kv_lens);
        assert_uploaded(&device, device.q, &problem.q);
        assert_uploaded(&device, device.k, &problem.k);
        assert_uploaded(&device, device.v, &problem.v);
        tensor_set(&problem.o, 0, 1);
        tensor_set(&problem.lse, 0, 1);
        ASSERT_OK(device_problem_download(&device, &problem));
        assert_all_nan(&problem.o);
        assert_all_nan(&problem.lse);
        device_problem_free(&device);
        ck_assert_ptr_null(device.q);
        problem_free(&problem);
    }
}
END_TEST

// What stands in O and LSE on the device comes back, and is gone after the next poisoning.
START_TEST(results_come_back_in_every_type) {
    const GpuTarget target = gpu_tests.target[_i];
    const DType types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (int t = 0; t < 3; t++) {
        Problem problem;
        DeviceProblem device;
        Tensor o;
        ASSERT_OK(problem_random(&problem, &grouped, types[t], 6));
        ASSERT_OK(device_problem_make(&device, target, &problem, types[t]));
        ASSERT_OK(tensor_alloc_q(&o, types[t], &grouped));
        tensor_fill_random(&o, 9, 3.0);
        ASSERT_OK(gpu_upload(target, device.o, o.data, o.count * dtype_size(types[t])));
        for (size_t e = 0; e < problem.lse.count; e++) {
            ((float *)problem.lse.data)[e] = (float)e;
        }
        ASSERT_OK(
            gpu_upload(target, device.lse, problem.lse.data, problem.lse.count * sizeof(float)));
        ASSERT_OK(scale[target](device.lse, (int)problem.lse.count, 2.0F, NULL));
        ASSERT_OK(device_problem_download(&device, &problem));
        for (size_t e = 0; e < o.count; e++) {
            ck_assert_double_eq(tensor_get(&problem.o, e), tensor_get(&o, e));
        }
        for (size_t e = 0; e < problem.lse.count; e++) {
            ck_assert_double_eq(tensor_get(&problem.lse, e), 2.0 * (double)e);
        }
        ck_assert(tensor_guards_intact(&problem.o));
        ASSERT_OK(device_problem_poison(&device));
        ASSERT_OK(device_problem_download(&device, &problem));
        assert_all_nan(&problem.o);
        assert_all_nan(&problem.lse);
        tensor_free(&o);
        device_problem_free(&device);
        problem_free(&problem);
    }
}
END_TEST

START_TEST(buffers_have_names) {
    const GpuTarget target = gpu_tests.target[_i];
    const int32_t lens[] = {7, 3};
    AttnShape shape = grouped;
    shape.kv_lens = lens;
    Problem problem;
    DeviceProblem device;
    int32_t got[2] = {0};
    ASSERT_OK(problem_random(&problem, &shape, DTYPE_F32, 5));
    ASSERT_OK(device_problem_make(&device, target, &problem, DTYPE_F32));
    ASSERT_OK(gpu_download(target, got, device.kv_lens, sizeof got));
    ck_assert_int_eq(got[0], 7);
    ck_assert_int_eq(got[1], 3);
    const struct {
        const char *text;
        void *memory;
    } buffers[] = {{"\"q\"", device.q}, {"\"k\"", device.k},     {"\"v\"", device.v},
                   {"\"o\"", device.o}, {"\"lse\"", device.lse}, {"\"kv_lens\"", device.kv_lens}};
    for (int b = 0; b < 6; b++) {
        ASSERT_FAILS(gpu_fill(target, buffers[b].memory, 0, 1 << 20, NULL), ATTN_ERR_ARGUMENT,
                     buffers[b].text);
    }
    device_problem_free(&device);
    problem_free(&problem);
}
END_TEST

START_TEST(empty_problems) {
    const GpuTarget target = gpu_tests.target[_i];
    const AttnShape shapes[] = {{0, 2, 1, 5, 7, 8, 0, false, 0, NULL},
                                {1, 2, 1, 0, 7, 8, 0, false, 0, NULL},
                                {1, 2, 1, 5, 0, 8, 0, false, 0, NULL}};
    for (int s = 0; s < 3; s++) {
        Problem problem;
        DeviceProblem device;
        ASSERT_OK(problem_random(&problem, &shapes[s], DTYPE_BF16, 5));
        ASSERT_OK(device_problem_make(&device, target, &problem, DTYPE_BF16));
        ck_assert_int_eq(device.k == NULL, s != 1);
        ck_assert_int_eq(device.o == NULL, s != 2);
        ASSERT_OK(device_problem_poison(&device));
        ASSERT_OK(device_problem_download(&device, &problem));
        assert_all_nan(&problem.o);
        device_problem_free(&device);
        problem_free(&problem);
    }
}
END_TEST

START_TEST(errors_leave_nothing_behind) {
    const GpuTarget target = gpu_tests.target[_i];
    Problem problem, other;
    DeviceProblem device;
    AttnShape longer = grouped;
    longer.len_q = 6;
    ASSERT_OK(problem_random(&problem, &grouped, DTYPE_F32, 5));
    ASSERT_OK(problem_random(&other, &longer, DTYPE_F32, 5));
    memset(&device, 0xFF, sizeof device);
    ASSERT_FAILS(device_problem_make(&device, target, &problem, DTYPE_F64), ATTN_ERR_ARGUMENT,
                 "f64");
    ck_assert_ptr_null(device.q);
    ck_assert_int_ne(device_problem_make(&device, (GpuTarget)8, &problem, DTYPE_F32), ATTN_OK);
    ck_assert_ptr_null(device.q);
    device_problem_free(&device);
    ASSERT_OK(device_problem_make(&device, target, &problem, DTYPE_F32));
    ASSERT_FAILS(device_problem_download(&device, &other), ATTN_ERR_SHAPE, "O has");
    const bool guarded = target == GPU_CUDA || (target == GPU_SIMT && !SIMT_ASAN);
    if (guarded && write_past[target] != NULL) {
        const int rows = (int)problem.lse.count;
        ASSERT_OK(write_past[target](device.lse, rows, NULL));
        ASSERT_FAILS(device_problem_download(&device, &problem), ATTN_ERR_CUDA, "\"lse\"");
    }
    device_problem_free(&device);
    problem_free(&problem);
    problem_free(&other);
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("device_problem");
    TCase *tests = tcase_create("each target");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, tensors_go_there_in_every_type, 0, gpu_tests.count);
    tcase_add_loop_test(tests, results_come_back_in_every_type, 0, gpu_tests.count);
    tcase_add_loop_test(tests, buffers_have_names, 0, gpu_tests.count);
    tcase_add_loop_test(tests, empty_problems, 0, gpu_tests.count);
    tcase_add_loop_test(tests, errors_leave_nothing_behind, 0, gpu_tests.count);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
