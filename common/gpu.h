// The host's side of a kernel, the same on every target: memory, copies, streams, events, and
// which target there is. A target is CUDA on a device, or common/simt on this CPU; GPU_TRACE is
// simt with the kernels of the trace build, which count and check every memory access.
//
// A chapter's .cu file is compiled once per target, and ENTRY (common/simt/simt.h) gives its
// functions a suffix: naive_cuda, naive_simt, naive_trace. GPU_DECLARE declares the three,
// GPU_SELECT picks one.
//
// Every function returns ATTN_OK, or an error with a message (attn_last_error) that names the call
// and the buffer. Errors of CUDA are ATTN_ERR_CUDA, and out of memory ATTN_ERR_MEMORY, with the
// CUDA call, file, line and CUDA's own name and text; a target that this build does not have is
// ATTN_ERR_UNSUPPORTED.
#ifndef COMMON_GPU_H
#define COMMON_GPU_H

#include "common/attn.h"
#include "common/options.h"
#include "common/timer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum GpuTarget {
    GPU_SIMT = 0, // fibers on this CPU
    GPU_TRACE,    // the same, traced; memory is shared with GPU_SIMT
    GPU_CUDA,     // a device
} GpuTarget;

// A queue of work; NULL is the default stream. On simt work is done when the call returns.
typedef void *GpuStream;

// The three builds of one entry point. Where a target was not built its function does not exist.
#define GPU_DECLARE(name, arguments)                                                               \
    AttnStatus name##_cuda arguments;                                                              \
    AttnStatus name##_simt arguments;                                                              \
    AttnStatus name##_trace arguments
#if defined(GPU_HAVE_CUDA) && GPU_HAVE_CUDA
#define GPU_CUDA_BUILD(name) name##_cuda
#else
#define GPU_CUDA_BUILD(name) NULL
#endif
#if defined(GPU_HAVE_TRACE) && GPU_HAVE_TRACE
#define GPU_TRACE_BUILD(name) name##_trace
#else
#define GPU_TRACE_BUILD(name) NULL
#endif
// {simt, trace, cuda}: an initialiser of an array of function pointers indexed by GpuTarget.
#define GPU_BUILDS(name)                                                                           \
    { name##_simt, GPU_TRACE_BUILD(name), GPU_CUDA_BUILD(name) }

// What limits and rates a device has. Of simt: its profile's (SIMT_DEVICE=h200, h100, a100, ...).
typedef struct GpuProperties {
    char name[64]; // "NVIDIA H200", or "simt as an H200"
    int compute_major, compute_minor;
    int multiprocessors;       // SMs
    int warp_size;             // 32
    int max_threads_per_block; // 1024
    int max_block[3];          // 1024, 1024, 64
    int64_t max_grid[3];       // 2^31 - 1, 65535, 65535
    int max_threads_per_multiprocessor;
    int max_blocks_per_multiprocessor;
    int registers_per_multiprocessor;
    size_t shared_per_block;          // without opt-in: 49,152 B
    size_t shared_per_block_optin;    // 232,448 B on an H200
    size_t shared_per_multiprocessor; // 233,472 B
    size_t l2_bytes;
    size_t memory_bytes;
    double bytes_per_s; // theoretical rate of device memory; 0 where it is not known
} GpuProperties;

// Whether the target can be used here. If not, why (at least 256 bytes of text): "no nvcc when this
// was built", "no CUDA device (driver: ...)", "the device is sm_75, this build is for sm_80 and
// newer", "the kernels' trace build needs gcc 12 or newer". Asking for GPU_CUDA starts CUDA, once.
bool gpu_available(GpuTarget target, char *why);

// Whether asking gpu_available would start nothing: false only for GPU_CUDA while it is not known
// yet. A process that has started CUDA must not fork children that use CUDA.
bool gpu_asked(GpuTarget target);

// The target for --backend: auto is cuda where available, else simt. An asked-for target that is
// not available is ATTN_ERR_UNSUPPORTED with the reason; cpu is refused the same way. *target is
// GPU_SIMT or GPU_CUDA. CUDA is started for auto and cuda only.
AttnStatus gpu_choose(Backend backend, GpuTarget *target);

// "simt", "simt, traced", "cuda".
const char *gpu_target_name(GpuTarget target);

AttnStatus gpu_properties(GpuTarget target, GpuProperties *properties);

// count elements of `element` bytes, 256-byte aligned, filled with NaN (bytes 0xFF). `name` is what
// traces and findings call the buffer, "k" for example (it is copied). *memory is NULL on error,
// and when count is 0. Freed by gpu_free; NULL is accepted there.
AttnStatus gpu_alloc(GpuTarget target, void **memory, const char *name, size_t count,
                     size_t element);
void gpu_free(GpuTarget target, void *memory);

// Copies between host and device, finished on return. 0 bytes: no-op.
AttnStatus gpu_upload(GpuTarget target, void *device, const void *host, size_t bytes);
AttnStatus gpu_download(GpuTarget target, void *host, const void *device, size_t bytes);

// Copies from one place in device memory to another; the two must not overlap. On the stream.
AttnStatus gpu_copy(GpuTarget target, void *to, const void *from, size_t bytes, GpuStream stream);

// Fills with one byte: 0, or 0xFF for NaN. On the stream.
AttnStatus gpu_fill(GpuTarget target, void *device, int byte, size_t bytes, GpuStream stream);

// Whether the bytes just after a buffer are untouched: 256 on CUDA, those up to the next multiple
// of 256 on simt, where memory that cannot be accessed follows. An overwritten one is ATTN_ERR_CUDA
// with the buffer's name.
AttnStatus gpu_check_guard(GpuTarget target, const void *memory);

// Waits for all work; errors of kernels show here at the latest.
AttnStatus gpu_synchronize(GpuTarget target);

AttnStatus gpu_stream_create(GpuTarget target, GpuStream *stream);
void gpu_stream_destroy(GpuTarget target, GpuStream stream);

// An event marks a place in a stream. Seconds from one to the other, both recorded and waited for:
// by the device's clock on CUDA, of this CPU on simt.
typedef void *GpuEvent;
AttnStatus gpu_event_create(GpuTarget target, GpuEvent *event);
AttnStatus gpu_event_record(GpuTarget target, GpuEvent event, GpuStream stream);
AttnStatus gpu_event_seconds(GpuTarget target, GpuEvent from, GpuEvent to, double *seconds);
void gpu_event_destroy(GpuTarget target, GpuEvent event);

// Runs `body` once untimed, then `runs` times, each between two events on the default stream.
// `body` gets a run number from 0 on, so that it can rotate inputs; its first error ends the
// measurement and is returned.
typedef AttnStatus GpuTimedRun(void *context, int run);
AttnStatus gpu_measure(GpuTarget target, GpuTimedRun *body, void *context, int runs,
                       TimeStats *seconds);

// ---- occupancy ----------------------------------------------------------------------------------

// How many blocks of a kernel fit on one multiprocessor at a time: the smallest of what threads,
// registers, shared memory and the limit on blocks allow. `threads` per block, `registers` per
// thread as the compiler reports them, `shared` bytes per block, static and dynamic together.
// For compute capability 8.0 and newer: registers go to whole warps in units of 256, a quarter of
// them to each of the multiprocessor's four partitions; of shared memory every block takes 1 KB
// more than it asks for, in units of 128 B (CUDA's cuda_occupancy.h). 0: a block does not fit at
// all, or an argument is not legal.
int gpu_blocks_per_multiprocessor(const GpuProperties *properties, int threads, int registers,
                                  size_t shared);

// What limits it: "threads", "registers", "shared memory" or "blocks"; the first of these where
// several do.
const char *gpu_occupancy_limit(const GpuProperties *properties, int threads, int registers,
                                size_t shared);

// Warps that live at a time over those a multiprocessor can hold: 0 to 1.
double gpu_occupancy(const GpuProperties *properties, int threads, int registers, size_t shared);

#ifdef __cplusplus
}
#endif

#endif
