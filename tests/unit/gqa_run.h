// Running a rung of chapter 8 on a problem, for the chapter's suites: the configurations that they
// loop over, and one call with everything around it.
#ifndef TESTS_UNIT_GQA_RUN_H
#define TESTS_UNIT_GQA_RUN_H

#include "chapters/ch08_gqa/gqa.h"

#include "common/problem.h"
#include "common/simt/runtime.h"

typedef struct GqaConfig {
    int rung;
    DType stored;
    GpuTarget target;
    SimtOrder order; // on simt
    int64_t splits;
} GqaConfig;

enum { GQA_MAX_CONFIGS = 32 };
extern GqaConfig gqa_configs[GQA_MAX_CONFIGS];
extern int gqa_config_count;

// Fills gqa_configs: every rung in every order on simt, and the same on CUDA where there is a
// device. Call gpu_tests_find before.
void gqa_find_configs(void);

// "gqa_mma, bf16, simt, forward, splits 1"; the text is overwritten by the next call.
const char *gqa_config_name(const GqaConfig *config);

// Runs a rung on device buffers of the problem's sizes, with a workspace of exactly the size asked
// for; O and LSE are left in the problem. `shape` may be illegal: then it is not the problem's, and
// there is no workspace. Returns the rung's status; fails the test where anything else goes wrong.
AttnStatus gqa_run(const GqaConfig *config, const AttnShape *shape, Problem *problem);

// Fails the test unless the rung's O and LSE are the oracle's. `what` names the problem.
void gqa_check(const GqaConfig *config, Problem *problem, const char *what);

#endif
