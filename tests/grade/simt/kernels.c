// The harness's part for kernel labs: thread orders, device memory, counts, barriers. It lies in
// the library that all labs are linked with, and is taken from there by suites that use it.
#include "tests/grade/kernels.h"

#include "common/simt/internal.h"
#include "common/simt/schedule.h"

#include <stdlib.h>
#include <string.h>

static const double launch_timeout_s = 2, slice_s = 1; // of launches that take milliseconds

// ---- runs ---------------------------------------------------------------------------------------

static int64_t barriers;
static GpuTarget target; // of this run

// What every run starts from: one process, an H200's limits, nothing counted.
static void start_run(GpuTarget run_target, SimtOrder order, uint64_t seed) {
    SimtSettings *settings = simt_settings();

    settings->order = order;
    settings->seed = seed;
    settings->workers = 1;
    settings->device = "h200";
    settings->timeout_s = launch_timeout_s;
    settings->slice_s = slice_s;
    barriers = 0;
    target = run_target;
}

static const struct {
    SimtOrder order;
    uint64_t seed;
    const char *name;
} orders[] = {
    {SIMT_FORWARD, 0, "threads in forward order"},
    {SIMT_REVERSE, 0, "threads in reverse order"},
    {SIMT_RANDOM, 1, "threads in a random order"},
    {SIMT_RANDOM, 2, "threads in another random order"},
};

enum { PLAIN_ORDERS = sizeof(orders) / sizeof(orders[0]), TRACED_ORDERS = PLAIN_ORDERS - 1 };

static bool next_run(KernelRun *run, GpuTarget run_target, int count) {
    if (run->next == count) {
        return false;
    }
    run->target = run_target;
    run->order = orders[run->next].name;
    start_run(run_target, orders[run->next].order, orders[run->next].seed);
    run->next++;
    return true;
}

bool grade_plain_run(KernelRun *run) {
    return next_run(run, GPU_SIMT, PLAIN_ORDERS);
}

static void require_trace(void) {
    char why[256];

    if (!gpu_available(GPU_TRACE, why)) {
        grade_not_run("%s", why);
    }
}

bool grade_traced_run(KernelRun *run) {
    require_trace();
    simt_trace_reset();
    return next_run(run, GPU_TRACE, TRACED_ORDERS);
}

GpuTarget grade_counting_run(void) {
    require_trace();
    simt_trace_reset();
    start_run(GPU_TRACE, SIMT_FORWARD, 0);
    return GPU_TRACE;
}

void expect_launch(AttnStatus status) {
    const SimtFindingKind kind = simt_finding()->kind;
    const bool ended = kind == SIMT_CRASH || kind == SIMT_TIMEOUT || kind == SIMT_MISALIGNED;
    // What a traced run is for, and limits of a launch, are what the test's own hint is about.
    const bool hinted = kind == SIMT_LAUNCH_LIMIT || (target == GPU_TRACE && !ended);

    if (kind != SIMT_NOTHING && !hinted) {
        grade_found("%s", attn_last_error());
    }
    if (status != ATTN_OK) {
        grade_fail("%s", attn_last_error());
    }
    if (kind != SIMT_NOTHING) {
        grade_fail("the launch failed, and the function returned ATTN_OK: %s", attn_last_error());
    }
}

void expect_refused(AttnStatus status, const char *what) {
    if (status == ATTN_OK) {
        grade_fail("%s: got ATTN_OK, expected the error that the launch gave", what);
    }
    if (simt_finding()->kind != SIMT_LAUNCH_LIMIT) {
        grade_fail("%s: got %s (%s), expected the launch's own error", what,
                   attn_status_name(status), attn_last_error());
    }
}

// The linker sends SHARED_OPT_IN here (--wrap).
AttnStatus __real_simt_shared_opt_in(SimtKernel kernel, size_t bytes, const char *file, int line);
AttnStatus __wrap_simt_shared_opt_in(SimtKernel kernel, size_t bytes, const char *file, int line);

static bool opt_in_fails;

void grade_fail_opt_in(void) {
    opt_in_fails = true;
}

AttnStatus __wrap_simt_shared_opt_in(SimtKernel kernel, size_t bytes, const char *file, int line) {
    const AttnStatus status = __real_simt_shared_opt_in(kernel, bytes, file, line);

    if (status != ATTN_OK || !opt_in_fails) {
        return status;
    }
    opt_in_fails = false;
    return attn_fail(ATTN_ERR_CUDA, "%s:%d: SHARED_OPT_IN of %s failed for the test", file, line,
                     kernel.name);
}

void expect_opt_in_failed(AttnStatus status, const char *what) {
    if (status == ATTN_OK) {
        grade_fail("%s: got ATTN_OK, expected the error that SHARED_OPT_IN gave", what);
    }
}

// ---- device memory ------------------------------------------------------------------------------

typedef struct DeviceMemory {
    const char *name;
    char *device;
    char *host; // an input's values, NULL of an output
    size_t bytes, element;
} DeviceMemory;

enum { MAX_MEMORY = 16 };
static DeviceMemory memory[MAX_MEMORY];
static int memory_count;

static void require_gpu(AttnStatus status) {
    if (status != ATTN_OK) {
        grade_fail("the suite could not prepare the test: %s", attn_last_error());
    }
}

void *grade_device(const char *name, const void *host, size_t count, size_t element) {
    DeviceMemory *m = &memory[memory_count];
    void *device = NULL;

    if (memory_count == MAX_MEMORY) {
        grade_fail("the suite asked for too many buffers");
    }
    *m = (DeviceMemory){.name = name, .bytes = count * element, .element = element};
    require_gpu(gpu_alloc(GPU_SIMT, &device, name, count, element));
    m->device = device;
    memory_count++;
    if (host != NULL) {
        m->host = malloc(m->bytes + 1);
        if (m->host == NULL) {
            grade_fail("out of memory: %zu bytes for the test", m->bytes);
        }
        memcpy(m->host, host, m->bytes);
        require_gpu(gpu_upload(GPU_SIMT, device, host, m->bytes));
    }
    return device;
}

float *grade_device_floats(const char *name, const float *host, size_t count) {
    return grade_device(name, host, count, sizeof(float));
}

void grade_download(void *host, const void *device, size_t bytes) {
    require_gpu(gpu_download(GPU_SIMT, host, device, bytes));
}

void grade_upload(void *device, const void *host, size_t bytes) {
    require_gpu(gpu_upload(GPU_SIMT, device, host, bytes));
}

void grade_fill(void *device, int byte, size_t bytes) {
    require_gpu(gpu_fill(GPU_SIMT, device, byte, bytes, NULL));
}

void grade_device_free(void) {
    for (int i = 0; i < memory_count; i++) {
        const DeviceMemory *m = &memory[i];

        for (size_t b = 0; m->host != NULL && b < m->bytes; b++) {
            if (m->host[b] != m->device[b]) {
                grade_fail("your kernel changed its input `%s[%zu]`", m->name, b / m->element);
            }
        }
        gpu_free(GPU_SIMT, m->device);
        free(m->host);
    }
    memory_count = 0;
}

// ---- counts -------------------------------------------------------------------------------------

static const double most_often = 1.05;

void expect_sectors_once(const char *buffer) {
    const SimtCounts counts = simt_trace_sum(buffer);
    const double different = (double)counts.launch_unique_load / 32;

    if (!((double)counts.load_sectors <= most_often * different)) {
        grade_fail("%s: got %llu sectors (of 32 bytes) loaded, expected at most %.0f: %.0f of them "
                   "are different ones, so each was loaded %.2f times",
                   buffer, (unsigned long long)counts.load_sectors, most_often * different,
                   different, (double)counts.load_sectors / different);
    }
}

// The linker sends the kernels' barriers here (--wrap).
void __real_simt_syncthreads(const char *file, int line);
int __real_simt_syncthreads_reduce(int kind, int predicate, const char *file, int line);
void __wrap_simt_syncthreads(const char *file, int line);
int __wrap_simt_syncthreads_reduce(int kind, int predicate, const char *file, int line);

static void count_barrier(void) {
    if (simt_running.thread == 0 && simt_running.block_number == 0) {
        barriers++;
    }
}

void __wrap_simt_syncthreads(const char *file, int line) {
    count_barrier();
    __real_simt_syncthreads(file, line);
}

int __wrap_simt_syncthreads_reduce(int kind, int predicate, const char *file, int line) {
    count_barrier();
    return __real_simt_syncthreads_reduce(kind, predicate, file, line);
}

int64_t grade_barriers(void) {
    return barriers;
}
