// What the parts of the simt runtime share: the scheduler (schedule.c, warp.c, launch.c), the
// device memory (memory.c) and the tracer (trace*.c). Nothing else includes it.
#ifndef COMMON_SIMT_INTERNAL_H
#define COMMON_SIMT_INTERNAL_H

#include "common/gpu.h"
#include "common/simt/runtime.h"
#include "common/simt/types.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIMT_WARP = 32, SIMT_MAX_THREADS = 1024, SIMT_MAX_WARPS = SIMT_MAX_THREADS / SIMT_WARP };

// ---- the launch and the thread that run now -----------------------------------------------------

typedef struct SimtRunning {
    const char *kernel;
    const char *launch_file; // of the LAUNCH
    int launch_line;
    dim3 grid, block;
    unsigned threads; // of a block
    bool traced;
    char *static_shared; // [static_bytes]
    size_t static_bytes;
    char *dynamic_shared; // [dynamic_bytes], 16-byte aligned
    size_t dynamic_bytes;
    // Bytes from dynamic_shared on that nothing else uses: from dynamic_bytes on an access is out
    // of bounds, and the tracer says so. At least dynamic_bytes.
    size_t dynamic_reserved;
    uint3 block_idx;
    uint64_t block_number; // linear, 0 first
    // The thread whose fiber runs.
    unsigned thread; // linear in the block
    uint3 thread_idx;
} SimtRunning;
extern SimtRunning simt_running;

// Called on a fiber: records the finding (kernel, block and thread of `here` are filled in, the
// text goes to attn_last_error), abandons the launch and does not return. May be called from the
// tracer's hooks.
_Noreturn void simt_abandon(SimtFinding *finding);

// Not 0: the watchdog must not end the thread here, since memory is being allocated. The tracer
// sets it around what is not finished by halves.
extern volatile sig_atomic_t simt_held;

// ---- warp collectives that exchange data (warp.c), under mma and ldmatrix (matrix.c) ------------

// in[lane] and out[lane] are what the named lanes passed (NULL for the others); out may be in.
typedef void SimtCombine(const void *const in[SIMT_WARP], void *const out[SIMT_WARP],
                         unsigned mask);
// Waits until every lane named in the mask has come to this place with the same `combine`; the
// last to arrive calls it once, then all go on. `in` and `out` are on the lanes' own stacks, alive
// until then, so nothing is copied. A lane that ended, or waits elsewhere, is a SIMT_MISSING_LANE;
// `name` ("mma", "ldmatrix") is for the message. Lanes converge, memory is not ordered
// (simt_trace_warp_converged), as after a shuffle.
void simt_collective(const char *name, unsigned mask, const void *in, void *out,
                     SimtCombine *combine, const char *file, int line);

// The scheduler calls it before each block: no thread has a cp.async pending (matrix.c).
void simt_async_block_begin(void);

// ---- device memory: one arena, sparse, shared with forked workers (memory.c) --------------------

typedef struct SimtBuffer {
    char name[64];
    char *start; // 256-byte aligned; at least a page of inaccessible memory on both sides
    size_t bytes;
    size_t element;
} SimtBuffer;

extern char *simt_arena;       // its first byte
extern size_t simt_arena_size; // bytes of address space that it may use

// The buffer that holds the address, or NULL. *nearest (may be NULL): the one that the address is
// closest to, NULL when there is none.
const SimtBuffer *simt_buffer_at(const void *address, const SimtBuffer **nearest);
// All live buffers, in order of address.
int simt_buffer_count(void);
const SimtBuffer *simt_buffer(int index);
void *simt_memory_alloc(const char *name, size_t count, size_t element); // NULL: no memory
bool simt_memory_free(void *memory);                                     // false: not a buffer
// What the tracer must be told of bytes of device memory: that they hold values (memory.c after
// uploads and fills; launch.c after a plain launch, of every live buffer, since nobody watched what
// that wrote), and that they hold none (memory.c when it allocates and when it frees a buffer).
void simt_memory_written(const void *address, size_t bytes);
void simt_memory_forgotten(const void *address, size_t bytes);

// The device whose limits hold, by simt_settings()->device (device.c). NULL when there is none of
// that name: attn_last_error lists those there are.
const GpuProperties *simt_device(void);

// ---- what the scheduler tells the tracer, for traced launches only (trace.c) --------------------

void simt_trace_launch_begin(void);
void simt_trace_block_begin(void); // shared memory is NaN and unwritten
void simt_trace_block_sync(void);  // every live thread has passed a block-wide barrier
void simt_trace_warp_sync(unsigned warp, unsigned mask);      // __syncwarp: orders memory
void simt_trace_warp_converged(unsigned warp, unsigned mask); // a shuffle or vote: does not
void simt_trace_atomic(void *address, size_t size, const void *pc);
// The last thread is about to end. Called on its fiber, as all of these are between block_begin and
// here: any of them may find something and abandon the launch (simt_running.thread is then set to
// the thread that it is about).
void simt_trace_block_end(void);
void simt_trace_launch_end(bool completed); // false: abandoned
// An access by the runtime for the running thread (ldmatrix, cp.async): counted and checked as the
// thread's own; pc as of a __tsan hook; size is 1, 2, 4, 8 or 16.
void simt_trace_access(void *address, size_t size, bool write, const void *pc);
// A cp.async into these aligned bytes of shared memory starts: checked as a store, not counted;
// until simt_trace_access tells of the store itself, the bytes hold no value.
void simt_trace_async(void *address, size_t size, const void *pc);

// The source line of a code address, by addr2line: "file.cu" and line, the innermost that is not in
// a header of common/simt. false: not known.
bool simt_source_line(const void *pc, char *file, size_t file_bytes, int *line);

#endif
