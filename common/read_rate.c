// Timing the kernel that only reads: see read_rate.h.
#include "common/read_rate.h"

typedef struct ReadRun {
    GpuTarget target;
    void *data;
    size_t bytes;
    void *sums;
} ReadRun;

static AttnStatus run_read(void *context, int run_number) {
    static AttnStatus (*const builds[])(const void *, size_t, unsigned *, GpuStream) =
        GPU_BUILDS(read_rate);
    const ReadRun *run = context;
    (void)run_number;
    return builds[run->target](run->data, run->bytes, run->sums, NULL);
}

AttnStatus read_rate_measure(GpuTarget target, size_t bytes, TimeStats *seconds) {
    ReadRun run = {.target = target, .bytes = bytes};
    AttnStatus status = gpu_alloc(target, &run.data, "data", bytes, 1);
    if (status == ATTN_OK) {
        status = gpu_fill(target, run.data, 0, bytes, NULL);
    }
    if (status == ATTN_OK) {
        status = gpu_alloc(target, &run.sums, "sums", READ_RATE_SUMS, sizeof(unsigned));
    }
    if (status == ATTN_OK) {
        status = gpu_measure(target, run_read, &run, READ_RATE_RUNS, seconds);
    }
    gpu_free(target, run.data);
    gpu_free(target, run.sums);
    return status;
}
