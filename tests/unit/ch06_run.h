// Chapter 6's rungs as the tests run them: on a target, with a number of splits, in a storage type.
#ifndef TESTS_UNIT_CH06_RUN_H
#define TESTS_UNIT_CH06_RUN_H

#include "chapters/ch06_decode/decode.h"

#include "common/device_problem.h"
#include "common/simt/runtime.h"
#include "tests/unit/kernel_suite.h"

enum { DECODE, UNFUSED, SPLIT, FUSED }; // decode_rungs

typedef struct DecodeConfig {
    int rung;
    int64_t splits;
    DType dtype;
    GpuTarget target;
    SimtOrder order; // on simt
} DecodeConfig;

// A KernelRun: `context` is a DecodeConfig. On device buffers of the tensors' sizes, with a
// workspace of exactly the size asked for, NaN but for what decode_workspace_clear does.
AttnStatus decode_run(const AttnShape *shape, const Tensor *q, const Tensor *k, const Tensor *v,
                      Tensor *o, Tensor *lse, const void *context);

// The same rung as the shared suite takes it. The name is overwritten by the next call.
KernelUnderTest decode_under_test(const DecodeConfig *config);

// A workspace for this shape, ready. NULL where the rung needs none. Fails the test on an error.
void *decode_workspace(const DecodeConfig *config, const AttnShape *shape);

// A launch on tensors that are on the device already.
AttnStatus decode_launch(const DecodeConfig *config, const DeviceProblem *device, void *workspace);

// Runs on a problem of a seed, rounded to the config's storage type, and fails the test unless O
// and LSE are within the oracle's bounds. `what` begins the message. Keys from an entry's length on
// are NaN.
void decode_check(const DecodeConfig *config, const AttnShape *shape, uint64_t seed,
                  const char *what);

#endif
