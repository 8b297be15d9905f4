// Running a rung: the tensors go to the target's memory, the kernels run, the outputs come back.
#include "chapters/ch06_decode/show.h"

AttnStatus rung_workspace(int rung, GpuTarget target, const AttnShape *shape, int64_t splits,
                          void **workspace) {
    const size_t bytes = decode_rungs[rung].workspace_bytes(shape, splits);
    AttnStatus status = gpu_alloc(target, workspace, "workspace", bytes, 1);
    if (status == ATTN_OK && bytes > 0) {
        status = decode_workspace_clear(target, *workspace, bytes, NULL);
    }
    return status;
}

AttnStatus rung_launch(int rung, const DeviceProblem *device, int64_t splits, void *workspace) {
    return decode_rungs[rung].builds[device->target](&device->shape, device->dtype, device->q,
                                                     device->k, device->v, device->o, device->lse,
                                                     device->kv_lens, splits, workspace, NULL);
}

AttnStatus rung_attention(void *context, const AttnShape *shape, const float *q, const float *k,
                          const float *v, float *o, float *lse) {
    const RungRun *run = context;
    (void)q, (void)k, (void)v, (void)o, (void)lse; // the problem's own
    DeviceProblem device;
    void *workspace = NULL;
    AttnStatus status =
        device_problem_make(&device, run->target, run->problem, run->problem->dtype);
    if (status == ATTN_OK) {
        status = rung_workspace(run->rung, run->target, shape, run->splits, &workspace);
    }
    if (status == ATTN_OK) {
        status = rung_launch(run->rung, &device, run->splits, workspace);
    }
    if (status == ATTN_OK) {
        status = device_problem_download(&device, run->problem);
    }
    if (status == ATTN_OK) {
        status = gpu_check_guard(run->target, workspace);
    }
    gpu_free(run->target, workspace);
    device_problem_free(&device);
    return status;
}

int64_t splits_for(const Show *show, const AttnShape *shape, DType dtype) {
    return show->options->splits > 0 ? show->options->splits
                                     : decode_splits(shape, dtype, &show->properties);
}

void require_supported(const Program *program, const Problem *problem, int64_t splits) {
    DecodeParams params;
    const DecodeRung *rung = &decode_rungs[SHOW_FUSED];
    lesson_require(program, decode_prepare(&params, rung, &problem->shape, problem->dtype,
                                           problem->q.data, problem->k.data, problem->v.data,
                                           problem->o.data, problem->lse.data, NULL, splits,
                                           &params)); // any workspace: nothing is launched
}
