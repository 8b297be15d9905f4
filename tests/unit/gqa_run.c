// Running a rung of chapter 8 on a problem. See gqa_run.h.
#include "tests/unit/gqa_run.h"

#include "common/compare.h"
#include "common/device_problem.h"
#include "tests/unit/gpu_targets.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>

// Every rung in every order; a storage type and a number of splits of its own for each.
static const GqaConfig simt_configs[] = {
    {GQA_NAIVE, DTYPE_F32, GPU_SIMT, SIMT_FORWARD, 1},
    {GQA_NAIVE, DTYPE_BF16, GPU_SIMT, SIMT_REVERSE, 2},
    {GQA_NAIVE, DTYPE_F32, GPU_SIMT, SIMT_RANDOM, 3},
    {GQA_PACKED, DTYPE_F32, GPU_SIMT, SIMT_FORWARD, 1},
    {GQA_PACKED, DTYPE_F32, GPU_SIMT, SIMT_REVERSE, 4},
    {GQA_PACKED, DTYPE_F16, GPU_SIMT, SIMT_RANDOM, 2},
    {GQA_MMA, DTYPE_BF16, GPU_SIMT, SIMT_FORWARD, 1},
    {GQA_MMA, DTYPE_F16, GPU_SIMT, SIMT_REVERSE, 5},
    {GQA_MMA, DTYPE_BF16, GPU_SIMT, SIMT_RANDOM, 2},
};
enum { SIMT_CONFIGS = sizeof simt_configs / sizeof simt_configs[0] };
GqaConfig gqa_configs[GQA_MAX_CONFIGS];
int gqa_config_count;

void gqa_find_configs(void) {
    for (int i = 0; i < SIMT_CONFIGS; i++) {
        gqa_configs[gqa_config_count++] = simt_configs[i];
    }
    for (int i = 0; i < SIMT_CONFIGS && gpu_tests.device; i++) {
        gqa_configs[gqa_config_count] = simt_configs[i];
        gqa_configs[gqa_config_count++].target = GPU_CUDA;
    }
}

const char *gqa_config_name(const GqaConfig *config) {
    static const char *const orders[] = {"forward", "reverse", "random"};
    static char name[96];
    snprintf(name, sizeof name, "%s, %s, %s%s%s, splits %" PRId64, gqa_rungs[config->rung].name,
             dtype_name(config->stored), gpu_target_name(config->target),
             config->target == GPU_CUDA ? "" : ", ",
             config->target == GPU_CUDA ? "" : orders[config->order], config->splits);
    return name;
}

AttnStatus gqa_run(const GqaConfig *config, const AttnShape *shape, Problem *problem) {
    const GqaRung *rung = &gqa_rungs[config->rung];
    const bool legal = attn_check_shape(shape) == ATTN_OK;
    const size_t bytes = legal ? rung->workspace_bytes(shape, config->splits) : 0;
    DeviceProblem device;
    void *workspace = NULL;
    simt_settings()->order = config->order;
    simt_settings()->workers = 1;
    ASSERT_OK(device_problem_make(&device, config->target, problem, config->stored));
    ASSERT_OK(gpu_alloc(config->target, &workspace, "workspace", bytes, 1));
    ASSERT_OK(split_kv_workspace_clear(config->target, workspace, bytes, NULL));
    const AttnStatus status =
        rung->builds[config->target](shape, config->stored, device.q, device.k, device.v, device.o,
                                     device.lse, device.kv_lens, config->splits, workspace, NULL);
    char message[512];
    snprintf(message, sizeof message, "%s", attn_last_error());
    ASSERT_OK(device_problem_download(&device, problem));
    ASSERT_OK(gpu_check_guard(config->target, workspace));
    gpu_free(config->target, workspace);
    device_problem_free(&device);
    return attn_fail(status, "%s", message);
}

void gqa_check(const GqaConfig *config, Problem *problem, const char *what) {
    Expected expected;
    Comparison o, lse;
    ASSERT_OK(expected_make(&expected, &problem->shape, &problem->q, &problem->k, &problem->v,
                            config->stored));
    const AttnStatus status = gqa_run(config, &problem->shape, problem);
    ck_assert_msg(status == ATTN_OK, "%s: %s: %s", gqa_config_name(config), what,
                  attn_last_error());
    ck_assert_msg(compare_output(&expected, &problem->o, &problem->lse, 0, &o, &lse),
                  "%s: %s: %s%s", gqa_config_name(config), what, o.message, lse.message);
    expected_free(&expected);
}
