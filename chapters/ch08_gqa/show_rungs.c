// Running a rung: the tensors go to the target's memory, the kernel runs, the outputs come back.
// And the problems that several sections look at.
#include "chapters/ch08_gqa/show.h"

#include <stdio.h>

AttnStatus rung_workspace(int rung, GpuTarget target, const AttnShape *shape, int64_t splits,
                          void **workspace) {
    const size_t bytes = gqa_rungs[rung].workspace_bytes(shape, splits);
    AttnStatus status = gpu_alloc(target, workspace, "workspace", bytes, 1);
    if (status == ATTN_OK && bytes > 0) {
        status = split_kv_workspace_clear(target, *workspace, bytes, NULL);
    }
    return status;
}

AttnStatus rung_launch(int rung, const DeviceProblem *device, int64_t splits, void *workspace) {
    return gqa_rungs[rung].builds[device->target](&device->shape, device->dtype, device->q,
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

bool rung_takes(int rung, const AttnShape *shape, DType dtype) {
    return gqa_supports(rung, shape, dtype) == ATTN_OK;
}

int64_t splits_for(const Show *show, int rung, const AttnShape *shape, DType dtype) {
    return show->options->splits > 0 ? show->options->splits
                                     : gqa_rungs[rung].splits(shape, dtype, &show->properties);
}

void require_supported(const Show *show, const Problem *problem) {
    SplitKvParams params;
    const AttnShape *shape = &problem->shape;
    lesson_require(show->program, gqa_supports(GQA_PACKED, shape, problem->dtype));
    const int64_t splits = splits_for(show, GQA_PACKED, shape, problem->dtype);
    lesson_require(show->program,
                   gqa_prepare(&params, GQA_PACKED, shape, problem->dtype, problem->q.data,
                               problem->k.data, problem->v.data, problem->o.data, problem->lse.data,
                               shape->kv_lens, splits,
                               &params)); // any workspace: nothing is launched
}

// ---- problems -----------------------------------------------------------------------------------

const AttnShape show_problems[SHOW_PROBLEMS] = {
    {1, 32, 8, 1, 131072, 128, 0, false, 0, NULL},
    {16, 32, 8, 1, 8192, 128, 0, false, 0, NULL},
    {64, 32, 8, 1, 8192, 128, 0, false, 0, NULL},
};

AttnShape show_group_problem(int index) {
    AttnShape shape = show_problems[1];
    shape.heads_q = shape.heads_kv << index;
    return shape;
}

void problem_label(char label[SHOW_LABEL], const AttnShape *shape) {
    snprintf(label, SHOW_LABEL, "%lldx%lld %lld/%lld T%lld d%lld", (long long)shape->batch,
             (long long)shape->len_kv, (long long)shape->heads_q, (long long)shape->heads_kv,
             (long long)shape->len_q, (long long)shape->dim);
}
