// Chapter 6's rungs as the tests run them. See ch06_run.h.
#include "tests/unit/ch06_run.h"

#include "common/compare.h"
#include "tests/unit/gpu_targets.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

// The shape whose sizes the tensors have.
static AttnShape shape_of(const Tensor *q, const Tensor *k) {
    return (AttnShape){.batch = q->dims[0],
                       .heads_q = q->dims[1],
                       .heads_kv = k->dims[1],
                       .len_q = q->dims[2],
                       .len_kv = k->dims[2],
                       .dim = q->dims[3]};
}

void *decode_workspace(const DecodeConfig *config, const AttnShape *shape) {
    const size_t bytes = decode_rungs[config->rung].workspace_bytes(shape, config->splits);
    void *workspace = NULL;
    ASSERT_OK(gpu_alloc(config->target, &workspace, "workspace", bytes, 1));
    ASSERT_OK(decode_workspace_clear(config->target, workspace, bytes, NULL));
    return workspace;
}

AttnStatus decode_launch(const DecodeConfig *config, const DeviceProblem *device, void *workspace) {
    simt_settings()->order = config->order;
    simt_settings()->workers = 1;
    return decode_rungs[config->rung].builds[config->target](
        &device->shape, config->dtype, device->q, device->k, device->v, device->o, device->lse,
        device->kv_lens, config->splits, workspace, NULL);
}

AttnStatus decode_run(const AttnShape *shape, const Tensor *q, const Tensor *k, const Tensor *v,
                      Tensor *o, Tensor *lse, const void *context) {
    const DecodeConfig *config = context;
    Problem problem = {shape_of(q, k), config->dtype, *q, *k, *v, *o, *lse};
    problem.shape.kv_lens = attn_check_shape(shape) == ATTN_OK ? shape->kv_lens : NULL;
    DeviceProblem device;
    ASSERT_OK(device_problem_make(&device, config->target, &problem, config->dtype));
    void *workspace = decode_workspace(config, &problem.shape);
    device.shape = *shape;
    const AttnStatus status = decode_launch(config, &device, workspace);
    device.shape = problem.shape;
    char message[512];
    snprintf(message, sizeof message, "%s", attn_last_error());
    ASSERT_OK(device_problem_download(&device, &problem));
    ASSERT_OK(gpu_check_guard(config->target, workspace));
    if (status != ATTN_OK) {
        attn_fail(status, "%s", message);
    }
    gpu_free(config->target, workspace);
    device_problem_free(&device);
    return status;
}

KernelUnderTest decode_under_test(const DecodeConfig *config) {
    static const char *const orders[] = {"forward", "reverse", "random"};
    static char name[128];
    const bool is_cuda = config->target == GPU_CUDA;
    snprintf(name, sizeof name, "%s, %s, splits %" PRId64 ", %s%s%s",
             decode_rungs[config->rung].name, dtype_name(config->dtype), config->splits,
             gpu_target_name(config->target), is_cuda ? "" : ", ",
             is_cuda ? "" : orders[config->order]);
    return (KernelUnderTest){.name = name,
                             .run = decode_run,
                             .config = config,
                             .block_q = DECODE_ROWS,
                             .block_k = 64, // of dims up to 64: 16 groups, 4 keys each
                             .no_window = true,
                             .max_dim = DECODE_MAX_DIM};
}

// Keys and values that no row may read become NaN.
static void spoil_unused_keys(Problem *problem) {
    const AttnShape *shape = &problem->shape;
    for (size_t e = 0; shape->kv_lens != NULL && e < problem->k.count; e++) {
        const int64_t key = (int64_t)e / shape->dim % shape->len_kv;
        if (key >= shape->kv_lens[(int64_t)e / (shape->dim * shape->len_kv * shape->heads_kv)]) {
            tensor_set(&problem->k, e, NAN);
            tensor_set(&problem->v, e, NAN);
        }
    }
}

void decode_check(const DecodeConfig *config, const AttnShape *shape, uint64_t seed,
                  const char *what) {
    const KernelUnderTest kernel = decode_under_test(config);
    Problem problem;
    Expected expected;
    Comparison o, lse;
    ASSERT_OK(problem_random(&problem, shape, config->dtype, seed));
    spoil_unused_keys(&problem);
    ASSERT_OK(expected_make(&expected, shape, &problem.q, &problem.k, &problem.v, config->dtype));
    const AttnStatus status =
        decode_run(shape, &problem.q, &problem.k, &problem.v, &problem.o, &problem.lse, config);
    ck_assert_msg(status == ATTN_OK, "%s: %s: %s", what, kernel.name, attn_last_error());
    ck_assert_msg(compare_output(&expected, &problem.o, &problem.lse, DECODE_ROWS, &o, &lse),
                  "%s: %s: %s%s", what, kernel.name, o.message, lse.message);
    expected_free(&expected);
    problem_free(&problem);
}
