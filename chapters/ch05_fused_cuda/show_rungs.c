// Running a rung: the tensors go to the target's memory, the kernels run, the outputs come back.
#include "chapters/ch05_fused_cuda/show.h"

const char *const show_names[FUSED_RUNGS] = {"naive", "thread per row", "keys outside", "tiled",
                                             "register tiled"};

AttnStatus rung_workspace(int rung, GpuTarget target, const AttnShape *shape, float **workspace) {
    void *memory = NULL;
    const size_t floats = fused_rungs[rung].workspace_floats(shape);
    const AttnStatus status = gpu_alloc(target, &memory, "workspace", floats, sizeof(float));
    *workspace = memory;
    return status;
}

AttnStatus rung_launch(int rung, bool f16, const DeviceProblem *device, float *workspace) {
    if (f16) {
        return fused_f16_builds[device->target](&device->shape, device->q, device->k, device->v,
                                                device->o, device->lse, NULL);
    }
    return fused_rungs[rung].builds[device->target](&device->shape, device->q, device->k, device->v,
                                                    device->o, device->lse, workspace, NULL);
}

AttnStatus rung_attention(void *context, const AttnShape *shape, const float *q, const float *k,
                          const float *v, float *o, float *lse) {
    const RungRun *run = context;
    (void)q, (void)k, (void)v, (void)o, (void)lse; // the problem's own
    DeviceProblem device;
    float *workspace = NULL;
    const DType stored = run->f16 ? DTYPE_F16 : DTYPE_F32;
    AttnStatus status = device_problem_make(&device, run->target, run->problem, stored);
    if (status == ATTN_OK) {
        status = rung_workspace(run->rung, run->target, shape, &workspace);
    }
    if (status == ATTN_OK) {
        status = rung_launch(run->rung, run->f16, &device, workspace);
    }
    if (status == ATTN_OK) {
        status = device_problem_download(&device, run->problem);
    }
    gpu_free(run->target, workspace);
    device_problem_free(&device);
    return status;
}

void require_supported(const Program *program, const Problem *problem) {
    FusedParams params;
    lesson_require(program, fused_prepare(&params, &problem->shape, problem->q.data,
                                          problem->k.data, problem->v.data, problem->o.data,
                                          problem->lse.data, NULL, 0, sizeof(float)));
}
