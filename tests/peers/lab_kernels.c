// The harness's part for kernel labs (tests/grade/kernels.h) with a GPU in simt's place, for
// labs.sh. Threads run in the GPU's own order, once; what needs the tracer ends as not run.
#include "tests/grade/kernels.h"

#include <stdlib.h>
#include <string.h>

bool grade_plain_run(KernelRun *run) {
    run->target = GPU_CUDA;
    run->order = "on the GPU";
    return run->next++ == 0;
}

bool grade_traced_run(KernelRun *run) {
    (void)run;
    grade_not_run("not run: the tracer counts on simt alone");
}

GpuTarget grade_counting_run(void) {
    grade_not_run("not run: the tracer counts on simt alone");
}

void expect_launch(AttnStatus status) {
    if (status != ATTN_OK || gpu_synchronize(GPU_CUDA) != ATTN_OK) {
        grade_fail("%s", attn_last_error());
    }
}

void expect_refused(AttnStatus status, const char *what) {
    if (status == ATTN_OK) {
        grade_fail("%s: got ATTN_OK, expected the error that the launch gave", what);
    }
}

void grade_fail_opt_in(void) {
    grade_not_run("not run: CUDA's limit of shared memory cannot be made to fail");
}

void expect_opt_in_failed(AttnStatus status, const char *what) {
    (void)status, (void)what; // not reached
}

// ---- device memory ------------------------------------------------------------------------------

typedef struct DeviceMemory {
    const char *name;
    void *device;
    char *host; // an input's values, NULL of an output
    size_t bytes;
} DeviceMemory;

enum { MAX_MEMORY = 16 };
static DeviceMemory memory[MAX_MEMORY];
static int memory_count;

static void require_gpu(AttnStatus status) {
    if (status != ATTN_OK) {
        grade_fail("the suite could not prepare the test: %s", attn_last_error());
    }
}

static char *host_memory(size_t bytes) {
    char *host = malloc(bytes + 1);
    if (host == NULL) {
        grade_fail("out of memory: %zu bytes for the test", bytes);
    }
    return host;
}

void *grade_device(const char *name, const void *host, size_t count, size_t element) {
    DeviceMemory *m = &memory[memory_count];
    if (memory_count == MAX_MEMORY) {
        grade_fail("the suite asked for too many buffers");
    }
    *m = (DeviceMemory){.name = name, .bytes = count * element};
    require_gpu(gpu_alloc(GPU_CUDA, &m->device, name, count, element));
    memory_count++;
    if (host != NULL) {
        m->host = memcpy(host_memory(m->bytes), host, m->bytes);
        require_gpu(gpu_upload(GPU_CUDA, m->device, host, m->bytes));
    } else {
        require_gpu(gpu_fill(GPU_CUDA, m->device, 0xFF, m->bytes, NULL));
    }
    return m->device;
}

float *grade_device_floats(const char *name, const float *host, size_t count) {
    return grade_device(name, host, count, sizeof(float));
}

void grade_download(void *host, const void *device, size_t bytes) {
    require_gpu(gpu_download(GPU_CUDA, host, device, bytes));
}

void grade_upload(void *device, const void *host, size_t bytes) {
    require_gpu(gpu_upload(GPU_CUDA, device, host, bytes));
}

void grade_fill(void *device, int byte, size_t bytes) {
    require_gpu(gpu_fill(GPU_CUDA, device, byte, bytes, NULL));
}

void grade_device_free(void) {
    for (int i = 0; i < memory_count; i++) {
        const DeviceMemory *m = &memory[i];
        if (m->host != NULL) {
            char *now = host_memory(m->bytes);
            grade_download(now, m->device, m->bytes);
            if (memcmp(now, m->host, m->bytes) != 0) {
                grade_fail("the kernel changed its input `%s`", m->name);
            }
            free(now);
            free(m->host);
        }
        gpu_free(GPU_CUDA, m->device);
    }
    memory_count = 0;
}

// ---- counts -------------------------------------------------------------------------------------

void expect_sectors_once(const char *buffer) {
    (void)buffer; // not reached: after a traced run only
}

int64_t grade_barriers(void) {
    grade_not_run("not run: barriers are counted on simt alone");
}
