// A problem's tensors in device memory: see device_problem.h.
#include "common/device_problem.h"

// Allocates a buffer of the tensor's size and uploads its values, converted to the storage type.
static AttnStatus upload(const DeviceProblem *device, void **memory, const char *name,
                         const Tensor *tensor) {
    AttnStatus status =
        gpu_alloc(device->target, memory, name, tensor->count, dtype_size(device->dtype));
    if (status != ATTN_OK || tensor->count == 0) {
        return status;
    }
    if (device->dtype == tensor->dtype) {
        return gpu_upload(device->target, *memory, tensor->data,
                          tensor->count * dtype_size(tensor->dtype));
    }
    Tensor stored;
    status = tensor_convert(&stored, tensor, device->dtype);
    if (status == ATTN_OK) {
        status = gpu_upload(device->target, *memory, stored.data,
                            stored.count * dtype_size(stored.dtype));
        tensor_free(&stored);
    }
    return status;
}

static AttnStatus make_buffers(DeviceProblem *device, const Problem *problem) {
    const AttnShape *shape = &problem->shape;
    AttnStatus status = upload(device, &device->q, "q", &problem->q);
    if (status == ATTN_OK) {
        status = upload(device, &device->k, "k", &problem->k);
    }
    if (status == ATTN_OK) {
        status = upload(device, &device->v, "v", &problem->v);
    }
    if (status == ATTN_OK) {
        status = gpu_alloc(device->target, &device->o, "o", attn_count_q(shape),
                           dtype_size(device->dtype));
    }
    if (status == ATTN_OK) {
        status = gpu_alloc(device->target, (void **)&device->lse, "lse", attn_count_lse(shape),
                           sizeof(*device->lse));
    }
    if (status == ATTN_OK && shape->kv_lens != NULL) {
        const size_t batch = (size_t)shape->batch;
        status = gpu_alloc(device->target, (void **)&device->kv_lens, "kv_lens", batch,
                           sizeof(*device->kv_lens));
        if (status == ATTN_OK) {
            status = gpu_upload(device->target, device->kv_lens, shape->kv_lens,
                                batch * sizeof(*device->kv_lens));
        }
    }
    return status;
}

AttnStatus device_problem_make(DeviceProblem *device, GpuTarget target, const Problem *problem,
                               DType dtype) {
    *device = (DeviceProblem){0};
    if (dtype != DTYPE_F32 && dtype != DTYPE_F16 && dtype != DTYPE_BF16) {
        return attn_fail(ATTN_ERR_ARGUMENT, "storage type %s: a device holds f32, f16 or bf16",
                         dtype_name(dtype));
    }
    device->target = target;
    device->shape = problem->shape;
    device->dtype = dtype;
    const AttnStatus status = make_buffers(device, problem);
    if (status != ATTN_OK) {
        device_problem_free(device);
    }
    return status;
}

AttnStatus device_problem_poison(const DeviceProblem *device) {
    const size_t o_bytes = attn_count_q(&device->shape) * dtype_size(device->dtype);
    const size_t lse_bytes = attn_count_lse(&device->shape) * sizeof(*device->lse);
    const AttnStatus status = gpu_fill(device->target, device->o, 0xFF, o_bytes, NULL);
    return status != ATTN_OK ? status
                             : gpu_fill(device->target, device->lse, 0xFF, lse_bytes, NULL);
}

static AttnStatus check_guards(const DeviceProblem *device) {
    const void *const buffers[] = {device->q, device->k,   device->v,
                                   device->o, device->lse, device->kv_lens};
    AttnStatus status = ATTN_OK;
    for (size_t b = 0; b < sizeof(buffers) / sizeof(buffers[0]) && status == ATTN_OK; b++) {
        status = gpu_check_guard(device->target, buffers[b]);
    }
    return status;
}

// O in its storage type, widened into `o`.
static AttnStatus download_o(const DeviceProblem *device, Tensor *o) {
    if (device->dtype == DTYPE_F32) {
        return gpu_download(device->target, o->data, device->o, o->count * sizeof(float));
    }
    Tensor stored;
    AttnStatus status = tensor_alloc_q(&stored, device->dtype, &device->shape);
    if (status != ATTN_OK) {
        return status;
    }
    status = gpu_download(device->target, stored.data, device->o,
                          stored.count * dtype_size(stored.dtype));
    for (size_t e = 0; e < stored.count && status == ATTN_OK; e++) {
        tensor_set(o, e, tensor_get(&stored, e));
    }
    tensor_free(&stored);
    return status;
}

AttnStatus device_problem_download(const DeviceProblem *device, Problem *problem) {
    if (problem->o.count != attn_count_q(&device->shape) ||
        problem->lse.count != attn_count_lse(&device->shape)) {
        return attn_fail(ATTN_ERR_SHAPE, "O has %zu elements on the device and %zu in the problem",
                         attn_count_q(&device->shape), problem->o.count);
    }
    AttnStatus status = gpu_synchronize(device->target);
    if (status == ATTN_OK) {
        status = check_guards(device);
    }
    if (status == ATTN_OK) {
        status = download_o(device, &problem->o);
    }
    if (status == ATTN_OK) {
        status = gpu_download(device->target, problem->lse.data, device->lse,
                              problem->lse.count * sizeof(*device->lse));
    }
    return status;
}

void device_problem_free(DeviceProblem *device) {
    void *const buffers[] = {device->q, device->k,   device->v,
                             device->o, device->lse, device->kv_lens};
    for (size_t b = 0; b < sizeof(buffers) / sizeof(buffers[0]); b++) {
        gpu_free(device->target, buffers[b]);
    }
    *device = (DeviceProblem){0};
}
