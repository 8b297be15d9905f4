// What a launch may ask for: a device refuses the rest. The errors are those of CUDA 13 on an H200,
// found by trying each; the older names of some are said as well, as readers may look for them.
#include "common/simt/schedule.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static AttnStatus refuse(const SimtKernel *kernel, const char *file, int line, const char *format,
                         ...) __attribute__((format(printf, 4, 5)));
static AttnStatus refuse(const SimtKernel *kernel, const char *file, int line, const char *format,
                         ...) {
    char detail[512];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    SimtFinding finding = {.kind = SIMT_LAUNCH_LIMIT, .here = {.line = line}};
    snprintf(finding.kernel, sizeof finding.kernel, "%s", kernel->name);
    snprintf(finding.here.file, sizeof finding.here.file, "%s", finding_basename(file));
    finding_record(&finding, detail);
    return ATTN_ERR_CUDA;
}

// Bytes of static shared memory that the kernel has at least. The object's section holds those of
// all its kernels: with one kernel this is exact, with more it is what must be left for one of them
// when each other has all that it may have.
static size_t static_shared(const SimtKernel *kernel, size_t most) {
    const size_t all = (size_t)((uintptr_t)kernel->shared_stop - (uintptr_t)kernel->shared_start);
    const size_t kernels = (size_t)(kernel->kernels_stop - kernel->kernels_start);
    if (SIMT_ASAN || kernel->shared_start == NULL || kernels == 0) { // ASan's redzones count in
        return 0;
    }
    const size_t others = (kernels - 1) * most;
    return all > others ? all - others : 0;
}

static AttnStatus check_sizes(const SimtKernel *kernel, const GpuProperties *device,
                              const int64_t grid[3], const int64_t block[3], const char *file,
                              int line) {
    static const char *const axes = "xyz";
    static const char *const text =
        "invalid argument (invalid configuration argument before CUDA 13): ";
    for (int i = 0; i < 3; i++) {
        if (grid[i] == 0 || block[i] == 0) {
            return refuse(kernel, file, line, "%s%s.%c is 0; every dimension is at least 1", text,
                          grid[i] == 0 ? "grid" : "block", axes[i]);
        }
        if (grid[i] > device->max_grid[i]) {
            return refuse(kernel, file, line, "%sgrid.%c is %" PRId64 "; it is at most %" PRId64,
                          text, axes[i], grid[i], device->max_grid[i]);
        }
        if (block[i] > device->max_block[i]) {
            return refuse(kernel, file, line, "%sblock.%c is %" PRId64 "; it is at most %d", text,
                          axes[i], block[i], device->max_block[i]);
        }
    }
    const int64_t threads = block[0] * block[1] * block[2];
    if (threads > device->max_threads_per_block) {
        return refuse(kernel, file, line,
                      "%sa block of %" PRId64 " x %" PRId64 " x %" PRId64 " has %" PRId64
                      " threads; it has at most %d",
                      text, block[0], block[1], block[2], threads, device->max_threads_per_block);
    }
    if (kernel->launch_bounds != 0 && threads > kernel->launch_bounds) {
        return refuse(kernel, file, line,
                      "invalid argument: a block has %" PRId64
                      " threads; the kernel's __launch_bounds__ allows %u",
                      threads, kernel->launch_bounds);
    }
    return ATTN_OK;
}

static AttnStatus check_shared(const SimtKernel *kernel, const GpuProperties *device,
                               size_t dynamic_bytes, const char *file, int line) {
    const size_t plain = device->shared_per_block;
    const size_t static_bytes = static_shared(kernel, plain);
    if (static_bytes > plain) {
        return refuse(kernel, file, line,
                      "too much static shared memory: %zu bytes; the compiler for the GPU allows "
                      "%zu, and more only as dynamic shared memory",
                      static_bytes, plain);
    }
    const bool opted = *kernel->shared_opt_in > 0;
    const size_t most = opted ? *kernel->shared_opt_in - 1 : plain - static_bytes;
    if (dynamic_bytes > most) {
        return refuse(kernel, file, line,
                      "invalid argument: %zu bytes of dynamic shared memory; this kernel has at "
                      "most %zu, %s",
                      dynamic_bytes, most,
                      opted ? "as SHARED_OPT_IN has set it" : "without SHARED_OPT_IN for more");
    }
    return ATTN_OK;
}

AttnStatus limits_check(const SimtKernel *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                        const char *file, int line) {
    const GpuProperties *device = simt_device();
    if (device == NULL) {
        return ATTN_ERR_ARGUMENT;
    }
    const int64_t grid_size[3] = {grid.x, grid.y, grid.z};
    const int64_t block_size[3] = {block.x, block.y, block.z};
    const AttnStatus status = check_sizes(kernel, device, grid_size, block_size, file, line);
    return status != ATTN_OK ? status : check_shared(kernel, device, shared_bytes, file, line);
}

AttnStatus simt_shared_opt_in(SimtKernel kernel, size_t bytes, const char *file, int line) {
    const GpuProperties *device = simt_device();
    if (device == NULL) {
        return ATTN_ERR_ARGUMENT;
    }
    const size_t static_bytes = static_shared(&kernel, device->shared_per_block);
    const size_t most = device->shared_per_block_optin;
    if (bytes + static_bytes > most || bytes > most) {
        return refuse(&kernel, file, line,
                      "invalid argument: %zu bytes of dynamic shared memory and %zu of static are "
                      "asked for; %s has %zu for a block",
                      bytes, static_bytes, device->name, most);
    }
    *kernel.shared_opt_in = bytes + 1;
    return ATTN_OK;
}
