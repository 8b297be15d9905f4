// A launch from begin to end, and the shared memory of its blocks.
#include "common/simt/schedule.h"

#include <string.h>
#include <sys/mman.h>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

// Dynamic shared memory lies at the end of its own pages, before inaccessible ones.
enum { DYNAMIC_MOST = 256 * 1024, DYNAMIC_GUARD = 64 * 1024 };
static char *dynamic_pages; // [DYNAMIC_MOST], then [DYNAMIC_GUARD] inaccessible; NULL: not mapped

uint3 simt_thread_idx(void) {
    return simt_running.thread_idx;
}

uint3 simt_block_idx(void) {
    return simt_running.block_idx;
}

uint3 simt_block_dim(void) {
    return (uint3){simt_running.block.x, simt_running.block.y, simt_running.block.z};
}

uint3 simt_grid_dim(void) {
    return (uint3){simt_running.grid.x, simt_running.grid.y, simt_running.grid.z};
}

void *simt_dynamic_shared(void) {
    return simt_running.dynamic_shared;
}

static bool map_dynamic_shared(void) {
    if (dynamic_pages == NULL) {
        char *mapped = mmap(NULL, DYNAMIC_MOST + 2 * DYNAMIC_GUARD, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED ||
            mprotect(mapped + DYNAMIC_GUARD, DYNAMIC_MOST, PROT_READ | PROT_WRITE) != 0) {
            return false;
        }
        dynamic_pages = mapped + DYNAMIC_GUARD;
    }
    return true;
}

// Under ASan the section holds redzones, which only code that it does not check may write.
#if SIMT_ASAN
__attribute__((no_sanitize("address"))) static void fill_static_shared(void) {
    volatile char *const bytes = simt_running.static_shared;
    for (size_t i = 0; i < simt_running.static_bytes; i++) {
        bytes[i] = (char)0xFF;
    }
}
#else
static void fill_static_shared(void) {
    if (simt_running.static_bytes > 0) {
        memset(simt_running.static_shared, 0xFF, simt_running.static_bytes);
    }
}
#endif

bool launch_block(uint64_t number) {
    const dim3 grid = simt_running.grid;
    simt_running.block_number = number;
    simt_running.block_idx =
        (uint3){(unsigned)(number % grid.x), (unsigned)(number / grid.x % grid.y),
                (unsigned)(number / grid.x / grid.y)};
    fill_static_shared();
    memset(simt_running.dynamic_shared, 0xFF, simt_running.dynamic_bytes);
    simt_async_block_begin();
    if (simt_running.traced) {
        simt_trace_block_begin();
    }
    if (!schedule_block()) {
        crash_finding();
        return false;
    }
    return true;
}

static void set_up(const SimtKernel *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                   const char *file, int line) {
    const size_t dynamic_room = (shared_bytes + 15) / 16 * 16;
    simt_running = (SimtRunning){
        .kernel = kernel->name,
        .launch_file = file,
        .launch_line = line,
        .grid = grid,
        .block = block,
        .threads = block.x * block.y * block.z,
        .traced = kernel->traced,
        .static_shared = (char *)kernel->shared_start,
        .static_bytes = (size_t)((uintptr_t)kernel->shared_stop - (uintptr_t)kernel->shared_start),
        .dynamic_shared = dynamic_pages + DYNAMIC_MOST - dynamic_room,
        .dynamic_bytes = shared_bytes,
        .dynamic_reserved = dynamic_room + DYNAMIC_GUARD,
    };
}

// Nobody watched what a plain launch wrote.
static void all_memory_written(void) {
    for (int i = 0; i < simt_buffer_count(); i++) {
        simt_memory_written(simt_buffer(i)->start, simt_buffer(i)->bytes);
    }
}

AttnStatus simt_launch(SimtKernel kernel, dim3 grid, dim3 block, size_t shared_bytes,
                       const void *params, const char *file, int line) {
    static bool launching;
    if (launching) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "%s, %s:%d: a kernel cannot launch a kernel here",
                         kernel.name, finding_basename(file), line);
    }
    finding_clear();
    const AttnStatus status = limits_check(&kernel, grid, block, shared_bytes, file, line);
    if (status != ATTN_OK) {
        return status;
    }
    if (!map_dynamic_shared() || shared_bytes > DYNAMIC_MOST) {
        return attn_fail(ATTN_ERR_MEMORY, "%s, %s:%d: no memory for %zu bytes of shared memory",
                         kernel.name, finding_basename(file), line, shared_bytes);
    }
    launching = true;
    set_up(&kernel, grid, block, shared_bytes, file, line);
    schedule_launch_begin(kernel.call, params);
    if (kernel.traced) {
        simt_trace_launch_begin();
    }
    crash_begin();
    const bool completed = workers_run((uint64_t)grid.x * grid.y * grid.z);
    crash_end();
    if (kernel.traced) {
        simt_trace_launch_end(completed);
    } else {
        all_memory_written();
    }
    launching = false;
    return completed ? ATTN_OK : ATTN_ERR_CUDA;
}
