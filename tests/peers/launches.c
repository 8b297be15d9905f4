// Launches the kernels of one chapter, each on a few problems: `launches trace ch05 N d` on simt,
// traced, printing what each launch counted as CSV; `launches cuda ch05 N d` on a GPU, for ncu to
// count and compute-sanitizer to watch. gpu_counters.py compares the two.
#include "chapters/ch05_fused_cuda/fused.h"
#include "chapters/ch06_decode/decode.h"
#include "chapters/ch07_masks/masks.h"
#include "chapters/ch08_gqa/gqa.h"
#include "chapters/ch09_paged/paged.h"

#include "common/device_problem.h"
#include "common/simt/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(AttnStatus status) {
    if (status != ATTN_OK) {
        fprintf(stderr, "launches: %s\n", attn_last_error());
        exit(1);
    }
}

// A seeded problem in the target's memory.
static DeviceProblem on_device(GpuTarget target, const AttnShape *shape, DType dtype) {
    Problem problem;
    DeviceProblem device;
    require(problem_random(&problem, shape, dtype, 1));
    require(device_problem_make(&device, target, &problem, dtype));
    problem_free(&problem);
    return device;
}

// ---- the chapters -------------------------------------------------------------------------------

// Every rung once: one head, N queries and keys.
static void launch_ch05(GpuTarget target, int64_t len, int64_t dim) {
    const AttnShape shape = {1, 1, 1, len, len, dim, 0, false, 0, NULL};
    DeviceProblem p = on_device(target, &shape, DTYPE_F32);
    for (int r = 0; r < FUSED_RUNGS; r++) {
        const FusedRung *rung = &fused_rungs[r];
        void *workspace;
        require(gpu_alloc(target, &workspace, "workspace", rung->workspace_floats(&shape),
                          sizeof(float)));
        require(rung->builds[target](&shape, p.q, p.k, p.v, p.o, p.lse, workspace, NULL));
        require(gpu_synchronize(target));
        gpu_free(target, workspace);
    }
    device_problem_free(&p);
}

// Every rung on N keys in eight parts: one query in 16 bits; five, causal, in f32; two entries of
// different lengths.
static void launch_ch06(GpuTarget target, int64_t keys, int64_t dim) {
    const int32_t lens[] = {(int32_t)(keys / 3), (int32_t)keys};
    const AttnShape shapes[] = {{1, 4, 4, 1, keys, dim, 0, false, 0, NULL},
                                {1, 2, 2, 5, keys, dim, 0, true, 0, NULL},
                                {2, 2, 2, 1, keys, dim, 0, false, 0, lens}};
    static const DType dtypes[] = {DTYPE_BF16, DTYPE_F32, DTYPE_F16};
    enum { SPLITS = 8 };
    for (int s = 0; s < 3; s++) {
        DeviceProblem p = on_device(target, &shapes[s], dtypes[s]);
        for (int r = 0; r < DECODE_RUNGS; r++) {
            const DecodeRung *rung = &decode_rungs[r];
            const size_t bytes = rung->workspace_bytes(&shapes[s], SPLITS);
            void *workspace;
            require(gpu_alloc(target, &workspace, "workspace", bytes, 1));
            require(decode_workspace_clear(target, workspace, bytes, NULL));
            require(rung->builds[target](&shapes[s], p.dtype, p.q, p.k, p.v, p.o, p.lse, p.kv_lens,
                                         SPLITS, workspace, NULL));
            require(gpu_synchronize(target));
            gpu_free(target, workspace);
        }
        device_problem_free(&p);
    }
}

// N queries and keys, four heads: no mask, causal, a window, a chunk with padding; and each with a
// random list.
static void launch_ch07(GpuTarget target, int64_t len, int64_t dim) {
    const int32_t lens[] = {(int32_t)(len - len / 8)};
    const AttnShape shapes[] = {{1, 4, 4, len, len, dim, 0, false, 0, NULL},
                                {1, 4, 4, len, len, dim, 0, true, 0, NULL},
                                {1, 4, 4, len, len, dim, 0, true, len / 4 + 1, NULL},
                                {1, 4, 4, len / 2, len, dim, 0, true, 0, lens}};
    static const DType dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_BF16, DTYPE_F16};
    for (int s = 0; s < 4; s++) {
        DeviceProblem p = on_device(target, &shapes[s], dtypes[s]);
        require(causal_builds[target](&shapes[s], p.dtype, p.q, p.k, p.v, p.o, p.lse, p.kv_lens,
                                      MASK_SKIP, NULL));
        BlockList list;
        DeviceBlockList on_target;
        require(block_list_random(&list, &shapes[s], 0.3, true, 5));
        require(device_block_list_make(&on_target, target, &list, &shapes[s]));
        require(block_sparse_builds[target](&shapes[s], p.dtype, p.q, p.k, p.v, p.o, p.lse,
                                            p.kv_lens, &on_target, NULL));
        require(gpu_synchronize(target));
        device_block_list_free(&on_target);
        block_list_free(&list);
        device_problem_free(&p);
    }
}

// Every rung that takes them, on N keys in four parts: groups of four in bf16, a causal chunk of
// five tokens in f16 (15 rows), two entries of different lengths with a window in f32 and in bf16.
static void launch_ch08(GpuTarget target, int64_t keys, int64_t dim) {
    const int32_t lens[] = {(int32_t)(keys / 3), (int32_t)keys};
    const AttnShape shapes[] = {{1, 8, 2, 1, keys, dim, 0, false, 0, NULL},
                                {1, 6, 2, 5, keys, dim, 0, true, 0, NULL},
                                {2, 4, 1, 2, keys, dim, 0, true, keys / 2, lens},
                                {2, 4, 1, 3, keys, dim, 0, true, keys / 2, lens}};
    static const DType dtypes[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32, DTYPE_BF16};
    enum { SPLITS = 4 };
    for (int s = 0; s < 4; s++) {
        DeviceProblem p = on_device(target, &shapes[s], dtypes[s]);
        for (int r = 0; r < GQA_RUNGS; r++) {
            if (gqa_supports(r, &shapes[s], dtypes[s]) != ATTN_OK) {
                continue;
            }
            const size_t bytes = gqa_rungs[r].workspace_bytes(&shapes[s], SPLITS);
            void *workspace;
            require(gpu_alloc(target, &workspace, "workspace", bytes, 1));
            require(split_kv_workspace_clear(target, workspace, bytes, NULL));
            require(gqa_rungs[r].builds[target](&shapes[s], p.dtype, p.q, p.k, p.v, p.o, p.lse,
                                                p.kv_lens, SPLITS, workspace, NULL));
            require(gpu_synchronize(target));
            gpu_free(target, workspace);
        }
        device_problem_free(&p);
    }
}

// Two sequences of N / 3 and N keys, appended in two pieces, then every rung that takes them: in
// pages of 16 and of 6 in bf16, groups of four; in pages of 16 in f16, groups of twelve.
static void launch_ch09(GpuTarget target, int64_t keys, int64_t dim) {
    const int32_t lens[] = {(int32_t)(keys / 3), (int32_t)keys};
    static const int64_t heads[] = {8, 8, 24}, sizes[] = {16, 6, 16};
    static const DType dtypes[] = {DTYPE_BF16, DTYPE_BF16, DTYPE_F16};
    enum { SPLITS = 4 };
    for (int s = 0; s < 3; s++) {
        const AttnShape shape = {2, heads[s], 2, 1, keys, dim, 0, false, 0, lens};
        DeviceProblem p = on_device(target, &shape, dtypes[s]);
        const PageLayout layout = {sizes[s], shape.heads_kv, dim, dtypes[s]};
        const int64_t pages = 2 * (keys / sizes[s] + 2);
        BlockPool *pool;
        PagedCache cache;
        int64_t sequences[2];
        require(block_pool_make(&pool, target, &layout, pages, 2));
        for (int b = 0; b < 2; b++) {
            const int64_t first = lens[b] / 2;
            require(block_pool_open(pool, &sequences[b]));
            require(block_pool_append(pool, sequences[b], first, p.k, p.v, NULL));
            require(block_pool_append(pool, sequences[b], lens[b] - first, p.k, p.v, NULL));
        }
        require(paged_cache_make(&cache, pool, sequences, 2));
        for (int r = 0; r < PAGED_RUNGS; r++) {
            const size_t bytes = paged_rungs[r].workspace_bytes(&shape, SPLITS);
            void *workspace;
            require(gpu_alloc(target, &workspace, "workspace", bytes, 1));
            require(split_kv_workspace_clear(target, workspace, bytes, NULL));
            const AttnStatus status = paged_rungs[r].builds[target](
                &shape, p.dtype, p.q, &cache, p.o, p.lse, SPLITS, workspace, NULL);
            if (status != ATTN_ERR_UNSUPPORTED) { // the matrix instruction takes two dims only
                require(status);
            }
            require(gpu_synchronize(target));
            gpu_free(target, workspace);
        }
        paged_cache_free(&cache);
        block_pool_free(pool);
        device_problem_free(&p);
    }
}

static const struct {
    const char *name;
    void (*launch)(GpuTarget target, int64_t len, int64_t dim);
} chapters[] = {{"ch05", launch_ch05},
                {"ch06", launch_ch06},
                {"ch07", launch_ch07},
                {"ch08", launch_ch08},
                {"ch09", launch_ch09}};
enum { CHAPTERS = sizeof chapters / sizeof chapters[0] };

// ---- what was counted ---------------------------------------------------------------------------

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
    int chapter = 0;
    while (argc == 5 && chapter < CHAPTERS && strcmp(argv[2], chapters[chapter].name) != 0) {
        chapter++;
    }
    if (argc != 5 || chapter == CHAPTERS ||
        (strcmp(argv[1], "trace") != 0 && strcmp(argv[1], "cuda") != 0)) {
        fputs("usage: launches trace|cuda ch05|...|ch09 N d\n", stderr);
        return 2;
    }
    const GpuTarget target = strcmp(argv[1], "cuda") == 0 ? GPU_CUDA : GPU_TRACE;
    const AttnShape shape = {1,     1, 1,   atoll(argv[3]), atoll(argv[3]), atoll(argv[4]), 0,
                             false, 0, NULL};
    char why[256];
    if (!gpu_available(target, why)) {
        fprintf(stderr, "launches: %s\n", why);
        return 1;
    }
    require(attn_check_shape(&shape));
    chapters[chapter].launch(target, shape.len_q, shape.dim);
    if (target == GPU_TRACE) {
        print_launches();
    }
    return 0;
}
