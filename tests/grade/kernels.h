// What a suite of a kernel lab (a .cu file) has besides grade.h: the builds and thread orders in
// which a kernel runs, device memory, and what a traced launch counted.
//
// A lab's entry point exists in two builds, entry_simt and entry_trace; GPU_BUILDS(entry) is the
// table of both, indexed by GpuTarget. A test runs its cases in several thread orders:
//
//     for (KernelRun run = {0}; grade_plain_run(&run);) {
//         grade_case("5 rows; %s", run.order);
//         ...
//         expect_launch(builds[run.target](&problem, NULL));
//         grade_download(got, y, count);
//         grade_device_free();
//     }
#ifndef TESTS_GRADE_KERNELS_H
#define TESTS_GRADE_KERNELS_H

#include "common/gpu.h"
#include "common/simt/runtime.h"
#include "tests/grade/grade.h"

// ---- runs ---------------------------------------------------------------------------------------

typedef struct KernelRun {
    GpuTarget target;  // GPU_SIMT or GPU_TRACE
    const char *order; // "threads in reverse order", as a case says it
    int next;          // of the harness
} KernelRun;

// Sets the next thread order: forward, reverse, two random ones. False when all have been.
bool grade_plain_run(KernelRun *run);

// The same in the trace build, which finds races, accesses outside of a buffer, and reads of memory
// that nothing has written: forward, reverse, one random order. Each begins with empty counts.
// Where there is no trace build the test ends as not run.
bool grade_traced_run(KernelRun *run);

// One traced run in forward order, for tests that read counts.
GpuTarget grade_counting_run(void);

// Fails unless the entry point returned ATTN_OK and its last launch ran to its end. A failure is
// the finding's text, or that of the error that a launch gave.
void expect_launch(AttnStatus status);

// Fails unless the entry point returned an error, and the last launch was refused.
void expect_refused(AttnStatus status, const char *what);

// The next SHARED_OPT_IN returns an error, though it raises the limit: a launch after it would
// succeed. expect_opt_in_failed fails when the entry point returned ATTN_OK all the same.
void grade_fail_opt_in(void);
void expect_opt_in_failed(AttnStatus status, const char *what);

// ---- device memory ------------------------------------------------------------------------------

// Device memory of `count` elements, freed by grade_device_free. It holds what `host` holds, which
// the kernel must not change, or with NULL NaN, as an output. `name` is what findings call it.
void *grade_device(const char *name, const void *host, size_t count, size_t element);
float *grade_device_floats(const char *name, const float *host, size_t count);

void grade_download(void *host, const void *device, size_t bytes);

// Writes to device memory that grade_device gave, or to a part of it: other values, or one byte
// again and again.
void grade_upload(void *device, const void *host, size_t bytes);
void grade_fill(void *device, int byte, size_t bytes);

// Fails when an input was changed; frees all device memory.
void grade_device_free(void);

// ---- counts, after a traced run -----------------------------------------------------------------

// Fails when the threads loaded more sectors of a buffer than 1.05 times its different ones: memory
// that is read again and again, or by lanes that are far apart.
void expect_sectors_once(const char *buffer);

// Block-wide barriers that the first thread of the first block passed in this run.
int64_t grade_barriers(void);

#endif
