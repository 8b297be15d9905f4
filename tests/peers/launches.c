// Launches every rung of chapter 5 once: `launches trace N d` on simt, traced, and prints what each
// launch counted as CSV; `launches cuda N d` on a GPU, for ncu to count. gpu_counters.py compares.
#include "chapters/ch05_fused_cuda/fused.h"

#include "common/gpu.h"
#include "common/simt/runtime.h"
#include "common/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 1 };

static void require(AttnStatus status) {
    if (status != ATTN_OK) {
        fprintf(stderr, "launches: %s\n", attn_last_error());
        exit(1);
    }
}

// A device buffer with the tensor's values; a tensor without data stays NaN.
static float *on_device(GpuTarget target, const char *name, size_t count, uint64_t seed) {
    void *memory = NULL;
    require(gpu_alloc(target, &memory, name, count, sizeof(float)));
    if (seed != 0) {
        Tensor tensor;
        const int64_t dims[] = {(int64_t)count};
        require(tensor_alloc(&tensor, DTYPE_F32, 1, dims));
        tensor_fill_random(&tensor, seed, 1.0);
        require(gpu_upload(target, memory, tensor.data, count * sizeof(float)));
        tensor_free(&tensor);
    }
    return memory;
}

// Launch-unique bytes of a buffer's loads; 0 if the launch does not touch it.
static uint64_t unique_load(const SimtLaunchTrace *launch, const char *name) {
    for (int b = 0; b < launch->buffers; b++) {
        if (strcmp(launch->buffer[b].name, name) == 0) {
            return launch->buffer[b].counts.launch_unique_load;
        }
    }
    return 0;
}

// Loads of what the launch itself wrote before, which the L2 serves: O, and the workspace of a
// kernel that reads Q as well.
static uint64_t own_results(const SimtLaunchTrace *launch) {
    return unique_load(launch, "o") +
           (unique_load(launch, "q") > 0 ? unique_load(launch, "workspace") : 0);
}

static void print_launches(void) {
    puts("kernel,load_requests,load_sectors,store_requests,store_sectors,launch_unique_load,"
         "launch_unique_inputs,launch_unique_store");
    for (int i = 0; i < simt_trace_launches(); i++) {
        const SimtLaunchTrace *launch = simt_trace_launch(i);
        const SimtCounts *counts = &launch->total;
        printf("%s,%llu,%llu,%llu,%llu,%llu,%llu,%llu\n", launch->kernel,
               (unsigned long long)counts->load_requests, (unsigned long long)counts->load_sectors,
               (unsigned long long)counts->store_requests,
               (unsigned long long)counts->store_sectors,
               (unsigned long long)counts->launch_unique_load,
               (unsigned long long)(counts->launch_unique_load - own_results(launch)),
               (unsigned long long)counts->launch_unique_store);
    }
}

int main(int argc, char **argv) {
    if (argc != 4 || (strcmp(argv[1], "trace") != 0 && strcmp(argv[1], "cuda") != 0)) {
        fputs("usage: launches trace|cuda N d\n", stderr);
        return 2;
    }
    const GpuTarget target = strcmp(argv[1], "cuda") == 0 ? GPU_CUDA : GPU_TRACE;
    const AttnShape shape = {.batch = 1,
                             .heads_q = HEADS,
                             .heads_kv = HEADS,
                             .len_q = atoll(argv[2]),
                             .len_kv = atoll(argv[2]),
                             .dim = atoll(argv[3])};
    char why[256];
    if (!gpu_available(target, why)) {
        fprintf(stderr, "launches: %s\n", why);
        return 1;
    }
    require(attn_check_shape(&shape));
    const size_t count = attn_count_q(&shape);
    float *q = on_device(target, "q", count, 1), *k = on_device(target, "k", count, 2);
    float *v = on_device(target, "v", count, 3), *o = on_device(target, "o", count, 0);
    float *lse = on_device(target, "lse", attn_count_lse(&shape), 0);
    for (int r = 0; r < FUSED_RUNGS; r++) {
        const FusedRung *rung = &fused_rungs[r];
        float *workspace = on_device(target, "workspace", rung->workspace_floats(&shape), 0);
        require(rung->builds[target](&shape, q, k, v, o, lse, workspace, NULL));
        require(gpu_synchronize(target));
        gpu_free(target, workspace);
    }
    if (target == GPU_TRACE) {
        print_launches();
    }
    float *const buffers[] = {q, k, v, o, lse};
    for (int b = 0; b < 5; b++) {
        gpu_free(target, buffers[b]);
    }
    return 0;
}
