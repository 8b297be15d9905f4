// Running a kernel: the tensors go to the target's memory, the kernel runs, the outputs come back.
#include "chapters/ch07_masks/show.h"

const char *const show_names[MASK_KERNELS] = {"causal", "every score", "every tile", "sparse"};

AttnStatus mask_launch(MaskKernel kernel, const DeviceProblem *device,
                       const DeviceBlockList *list) {
    if (kernel == KERNEL_SPARSE) {
        return block_sparse_builds[device->target](&device->shape, device->dtype, device->q,
                                                   device->k, device->v, device->o, device->lse,
                                                   device->kv_lens, list, NULL);
    }
    return causal_builds[device->target](&device->shape, device->dtype, device->q, device->k,
                                         device->v, device->o, device->lse, device->kv_lens,
                                         (MaskVisit)kernel, NULL);
}

AttnStatus mask_attention(void *context, const AttnShape *shape, const float *q, const float *k,
                          const float *v, float *o, float *lse) {
    const MaskRun *run = context;
    (void)q, (void)k, (void)v, (void)o, (void)lse; // the problem's own
    DeviceProblem device;
    DeviceBlockList list = {0};
    AttnStatus status =
        device_problem_make(&device, run->target, run->problem, run->problem->dtype);
    if (status == ATTN_OK && run->kernel == KERNEL_SPARSE) {
        status = device_block_list_make(&list, run->target, run->list, shape);
    }
    if (status == ATTN_OK) {
        status = mask_launch(run->kernel, &device, &list);
    }
    if (status == ATTN_OK) {
        status = device_problem_download(&device, run->problem);
    }
    device_block_list_free(&list);
    device_problem_free(&device);
    return status;
}

void require_supported(const Program *program, const Problem *problem) {
    MasksParams params;
    lesson_require(program, masks_prepare(&params, &problem->shape, problem->dtype, problem->q.data,
                                          problem->k.data, problem->v.data, problem->o.data,
                                          problem->lse.data, NULL));
}
