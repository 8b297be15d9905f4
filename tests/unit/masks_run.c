// Running chapter 7's kernels in the suites. See masks_run.h.
#include "tests/unit/masks_run.h"

#include "tests/unit/gpu_targets.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

MasksRun masks_runs[4 * MASKS_KERNELS];
int masks_run_count;

void masks_find_runs(void) {
    for (int kernel = 0; kernel < MASKS_KERNELS; kernel++) {
        const bool all_orders = kernel == CAUSAL_SKIP || kernel == SPARSE_ALL;
        for (int order = SIMT_FORWARD; order <= (all_orders ? SIMT_RANDOM : SIMT_FORWARD);
             order++) {
            masks_runs[masks_run_count++] =
                (MasksRun){(MasksKernel)kernel, GPU_SIMT, (SimtOrder)order, DTYPE_F32, NULL};
        }
        if (gpu_tests.device) {
            masks_runs[masks_run_count++] =
                (MasksRun){(MasksKernel)kernel, GPU_CUDA, SIMT_FORWARD, DTYPE_F32, NULL};
        }
    }
}

bool masks_is_forward(const MasksRun *run) {
    return run->target == GPU_CUDA || run->order == SIMT_FORWARD;
}

const char *masks_run_text(const MasksRun *run, char *text) {
    static const char *const kernels[] = {"causal_attention",
                                          "causal_attention, every score",
                                          "causal_attention, every tile",
                                          "block_sparse_attention, all blocks",
                                          "block_sparse_attention, of shape",
                                          "block_sparse_attention, a list"};
    static const char *const orders[] = {"forward", "reverse", "random"};
    snprintf(text, 96, "%s, %s, %s, %s", kernels[run->kernel], gpu_target_name(run->target),
             run->target == GPU_CUDA ? "device" : orders[run->order], dtype_name(run->dtype));
    return text;
}

BlockList masks_list(const MasksRun *run, const AttnShape *shape) {
    BlockList list = {0};
    const bool ragged = shape->kv_lens != NULL && shape->batch > 1;
    if (run->kernel == SPARSE_OF_SHAPE && !ragged && attn_check_shape(shape) == ATTN_OK) {
        ASSERT_OK(block_list_of_shape(&list, shape));
    } else if (run->kernel == SPARSE_ALL || run->kernel == SPARSE_OF_SHAPE) {
        AttnShape plain = *shape;
        plain.causal = false;
        plain.window = 0;
        plain.kv_lens = NULL;
        plain.scale = 0;
        ASSERT_OK(block_list_random(&list, &plain, 1, false, 0));
    }
    return list;
}

AttnStatus masks_launch(const MasksRun *run, const AttnShape *shape, const DeviceProblem *device,
                        const DeviceBlockList *list) {
    simt_settings()->order = run->order;
    simt_settings()->workers = 1;
    if (run->kernel < SPARSE_ALL) {
        return causal_builds[run->target](shape, run->dtype, device->q, device->k, device->v,
                                          device->o, device->lse, device->kv_lens,
                                          (MaskVisit)run->kernel, NULL);
    }
    return block_sparse_builds[run->target](shape, run->dtype, device->q, device->k, device->v,
                                            device->o, device->lse, device->kv_lens, list, NULL);
}

AttnStatus masks_run(const AttnShape *shape, const Tensor *q, const Tensor *k, const Tensor *v,
                     Tensor *o, Tensor *lse, const void *context) {
    const MasksRun *run = context;
    AttnShape sizes = *shape; // those of the tensors
    sizes.batch = q->dims[0];
    sizes.heads_q = q->dims[1];
    sizes.heads_kv = k->dims[1];
    sizes.len_q = q->dims[2];
    sizes.len_kv = k->dims[2];
    sizes.dim = q->dims[3];
    Problem problem = {sizes, DTYPE_F32, *q, *k, *v, *o, *lse};
    DeviceProblem device;
    DeviceBlockList on_device = {.target = run->target};
    BlockList list = {0};
    ASSERT_OK(device_problem_make(&device, run->target, &problem, run->dtype));
    if (run->kernel >= SPARSE_ALL) {
        list = masks_list(run, &sizes);
        ASSERT_OK(device_block_list_make(&on_device, run->target,
                                         run->kernel == SPARSE_LIST ? run->list : &list, &sizes));
    }
    const AttnStatus status = masks_launch(run, shape, &device, &on_device);
    char message[512];
    snprintf(message, sizeof message, "%s", attn_last_error());
    ASSERT_OK(device_problem_download(&device, &problem));
    attn_fail(status, "%s", message);
    device_block_list_free(&on_device);
    block_list_free(&list);
    device_problem_free(&device);
    return status;
}

uint8_t *masks_visible(const BlockList *list, const AttnShape *shape) {
    uint8_t *visible = calloc((size_t)(shape->len_q * shape->len_kv) + 1, 1);
    ck_assert_ptr_nonnull(visible);
    for (int64_t i = 0; i < shape->len_q; i++) {
        const int64_t row = i / BLOCK_SPARSE;
        for (int64_t e = list->offsets[row]; e < list->offsets[row + 1]; e++) {
            const int64_t first = (int64_t)list->blocks[e] * BLOCK_SPARSE;
            for (int64_t j = first; j < first + BLOCK_SPARSE && j < shape->len_kv; j++) {
                visible[i * shape->len_kv + j] = 1;
            }
        }
    }
    return visible;
}

static void spoil_unused_keys(Problem *problem) {
    const AttnShape *shape = &problem->shape;
    const int64_t head = shape->len_kv * shape->dim;
    for (int64_t e = 0; shape->kv_lens != NULL && e < (int64_t)problem->k.count; e++) {
        const int64_t b = e / (head * shape->heads_kv);
        if (e % head / shape->dim >= shape->kv_lens[b]) {
            tensor_set(&problem->k, (size_t)e, (double)NAN);
            tensor_set(&problem->v, (size_t)e, (double)NAN);
        }
    }
}

void masks_check(const MasksRun *run, const AttnShape *shape, const uint8_t *visible,
                 uint64_t seed) {
    char text[96];
    Problem problem;
    Expected expected;
    Comparison o, lse;
    ASSERT_OK(problem_random(&problem, shape, run->dtype, seed));
    spoil_unused_keys(&problem);
    ASSERT_OK(expected_make_masked(&expected, shape, visible, &problem.q, &problem.k, &problem.v,
                                   run->dtype));
    const AttnStatus status =
        masks_run(shape, &problem.q, &problem.k, &problem.v, &problem.o, &problem.lse, run);
    masks_run_text(run, text);
    ck_assert_msg(status == ATTN_OK, "%s: %s", text, attn_last_error());
    const bool passed = compare_output(&expected, &problem.o, &problem.lse, 0, &o, &lse);
    ck_assert_msg(passed,
                  "%s, seed %" PRIu64 ": batch %" PRId64 ", heads %" PRId64 "/%" PRId64
                  ", T %" PRId64 ", S %" PRId64 ", dim %" PRId64 ", causal %d, window %" PRId64
                  "%s: %s %s",
                  text, seed, shape->batch, shape->heads_q, shape->heads_kv, shape->len_q,
                  shape->len_kv, shape->dim, shape->causal, shape->window,
                  shape->kv_lens != NULL ? ", kv_lens" : "", o.message, lse.message);
    expected_free(&expected);
    problem_free(&problem);
}
