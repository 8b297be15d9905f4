// Chapter 7's kernels as the suites run them: on tensors, through device buffers of a target, in
// one of its storage types.
#ifndef TESTS_UNIT_MASKS_RUN_H
#define TESTS_UNIT_MASKS_RUN_H

#include "chapters/ch07_masks/masks.h"
#include "common/compare.h"
#include "common/device_problem.h"
#include "common/simt/runtime.h"
#include "tests/unit/kernel_suite.h"

typedef enum MasksKernel {
    CAUSAL_SKIP, // causal_attention, in the order of MaskVisit
    CAUSAL_EVERY_SCORE,
    CAUSAL_EVERY_TILE,
    SPARSE_ALL,      // block_sparse_attention with a list of all blocks
    SPARSE_OF_SHAPE, // with block_list_of_shape; all where batch entries differ in length
    SPARSE_LIST,     // with MasksRun.list
    MASKS_KERNELS = SPARSE_LIST,
} MasksKernel;

typedef struct MasksRun {
    MasksKernel kernel;
    GpuTarget target;
    SimtOrder order; // on simt
    DType dtype;     // storage
    const BlockList *list;
} MasksRun;

// Every kernel, in f32, on simt and on CUDA where there is a device: what each chapter test loops
// over. On simt the kernels as they should be used run in three thread orders, the others in one.
extern MasksRun masks_runs[4 * MASKS_KERNELS];
extern int masks_run_count;
void masks_find_runs(void);

// Whether sweeps should run it: they do not repeat every thread order.
bool masks_is_forward(const MasksRun *run);

// A KernelRun; context is a MasksRun. `shape` may be illegal: buffers and list have the sizes of
// the tensors. Key lengths of the shape are uploaded.
AttnStatus masks_run(const AttnShape *shape, const Tensor *q, const Tensor *k, const Tensor *v,
                     Tensor *o, Tensor *lse, const void *context);

// The same on buffers that are there, with the list of the run and nothing else.
AttnStatus masks_launch(const MasksRun *run, const AttnShape *shape, const DeviceProblem *device,
                        const DeviceBlockList *list);

// The list that the run visits. Freed by block_list_free; a zeroed one where it needs none.
BlockList masks_list(const MasksRun *run, const AttnShape *shape);

// "causal_attention, every tile, simt, reverse, bf16" into text (at least 96 bytes); returns it.
const char *masks_run_text(const MasksRun *run, char *text);

// Fails the test unless the kernel's O and LSE are the oracle's on a seeded problem of this shape,
// values rounded to the run's storage type, keys behind a batch entry's length NaN. visible
// [len_q][len_kv] is what the run's list lets through, or NULL.
void masks_check(const MasksRun *run, const AttnShape *shape, const uint8_t *visible,
                 uint64_t seed);

// [len_q][len_kv]: 1 where a list has the block of the pair. Freed by free.
uint8_t *masks_visible(const BlockList *list, const AttnShape *shape);

#endif
