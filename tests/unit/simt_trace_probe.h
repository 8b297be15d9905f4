// Kernels for the tests of the tracer: simple ones whose requests and sectors are known
// (simt_trace_probe.cu), naive and fused attention (simt_trace_attention.cu), and ones with a
// mistake in them (simt_trace_mistakes.cu).
#ifndef TESTS_UNIT_SIMT_TRACE_PROBE_H
#define TESTS_UNIT_SIMT_TRACE_PROBE_H

#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

// What all probes take; each says what it needs.
typedef struct TraceProbe {
    const float *x;
    float *y;
    unsigned *index;
    int n, stride, shift;
} TraceProbe;

typedef AttnStatus TraceProbeRun(const TraceProbe *probe, unsigned grid, unsigned block,
                                 size_t shared_bytes);
#define TRACE_PROBE(name)                                                                          \
    GPU_DECLARE(name, (const TraceProbe *probe, unsigned grid, unsigned block, size_t shared_bytes))

// ---- simt_trace_probe.cu: i is the thread's number in the grid ----------------------------------

TRACE_PROBE(trace_copy);      // y[i] = x[stride i + shift] for i < n
TRACE_PROBE(trace_copy_wide); // the same for float4: four floats each
TRACE_PROBE(trace_gather);    // y[i] = x[index[i]]
TRACE_PROBE(trace_struct);    // y and x are structs of two floats, copied whole
TRACE_PROBE(trace_memcpy);    // thread 0 copies n floats by one memcpy of 4 n bytes
TRACE_PROBE(trace_block_sum); // every block reads x[0 .. n) twice; y[block] = the sum
TRACE_PROBE(trace_atomic);    // index[stride i] += 1 by atomicAdd
// One warp writes rows of a 32 x 32 tile of shared memory and reads its columns into y.
TRACE_PROBE(trace_columns);        // rows of 32 floats
TRACE_PROBE(trace_columns_padded); // rows of 33
TRACE_PROBE(trace_shared_wide);    // one warp: float4 reads, 16 bytes a lane apart, then 64
TRACE_PROBE(trace_shared_halves);  // one warp: 2-byte values, all in 16 words
TRACE_PROBE(trace_divergent);      // lane l reads x[l + 32 k] for k = 0 .. l % 2

// ---- simt_trace_attention.cu: N = 512, d = 64, one head, float32 --------------------------------

enum { TRACE_N = 512, TRACE_DIM = 64 };
typedef struct TraceAttention {
    const float *q, *k, *v; // [N][d]
    float *s, *p;           // [N][N]
    float *o;               // [N][d]
} TraceAttention;
GPU_DECLARE(trace_scores, (const TraceAttention *a));  // S = Q K^T / sqrt(d), 16 x 16 tiles
GPU_DECLARE(trace_softmax, (const TraceAttention *a)); // P = softmax of S, a warp a row
GPU_DECLARE(trace_output, (const TraceAttention *a));  // O = P V, 16 x 16 tiles
GPU_DECLARE(trace_fused, (const TraceAttention *a));   // all in one, 32 x 32 tiles, float4

// ---- simt_trace_mistakes.cu ---------------------------------------------------------------------
// Threads of a block pass values to their neighbours, y[t] = x[(t + 1) % n], through shared memory.

TRACE_PROBE(trace_pass);             // right
TRACE_PROBE(trace_pass_no_barrier);  // no __syncthreads between write and read
TRACE_PROBE(trace_pass_twice);       // n rounds; no barrier between a read and the next write
TRACE_PROBE(trace_pass_warp);        // one warp, with __syncwarp: right
TRACE_PROBE(trace_pass_no_syncwarp); // without
TRACE_PROBE(trace_pass_shuffle);     // a shuffle in its place
TRACE_PROBE(trace_pass_half_mask);   // n lanes sync by masks of pairs, which order pairs only
TRACE_PROBE(trace_pass_chain);       // by masks of (0, 1), (1, 2), ...: right
TRACE_PROBE(trace_pass_device);      // through y itself, with a barrier: right
TRACE_PROBE(trace_halves);           // neighbours write the two halves of a word: right
TRACE_PROBE(trace_halves_race);      // then read the other half
TRACE_PROBE(trace_count);            // counts threads with a shared atomic, then a barrier: right
TRACE_PROBE(trace_count_no_barrier); // thread 0 reads the count at once
TRACE_PROBE(trace_unwritten);        // reads shared memory that nobody wrote
TRACE_PROBE(trace_dynamic);          // y[t] = dynamic[stride t + shift], n floats of it written
TRACE_PROBE(trace_write_at);         // thread 0: y[shift] = 1
TRACE_PROBE(trace_blocks_read);      // block b writes y[b], reads y[b - 1]
TRACE_PROBE(trace_blocks_write);     // block b reads y[b + 1], writes y[b]
TRACE_PROBE(trace_last_block);       // the last of the blocks adds up what all have written
TRACE_PROBE(trace_last_block_no_atomic); // the block with the highest number does
TRACE_PROBE(trace_last_block_early);     // counts itself done before it writes

#ifdef __cplusplus
}
#endif

#endif
