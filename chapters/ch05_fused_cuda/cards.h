// Chapter 5's cards: what a GPU's memory tiers hold, what fused attention asks of each of them, and
// what a launch may ask for. Every number that the lesson quotes comes from here.
#ifndef CH05_CARDS_H
#define CH05_CARDS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A GPU as the data sheet has it.
typedef struct CardDevice {
    const char *name;
    double multiprocessors;    // SMs
    double clock_hz;           // highest
    double fma_lanes;          // float32 multiply-adds an SM starts in a clock
    double shared_bytes_clock; // bytes that an SM's shared memory delivers in a clock
    double registers;          // 32-bit registers of an SM
    double shared_bytes;       // an SM's shared memory
    double l2_bytes;
    double hbm_bytes, hbm_bytes_per_s;
} CardDevice;
extern const CardDevice card_h200;

// FLOP/s of float32 multiply-adds outside the tensor cores, each counting 2.
double card_fma_flops_per_s(const CardDevice *device);
// Bytes/s of all SMs' shared memory together.
double card_shared_bytes_per_s(const CardDevice *device);
double card_register_bytes(const CardDevice *device); // of all SMs
double card_shared_bytes(const CardDevice *device);   // of all SMs

// Bytes of the float32 score matrix of one head, N^2 * 4, and the largest N whose matrix a cache of
// `bytes` holds.
double card_score_bytes(double len);
int64_t card_longest_in_cache(double bytes, double heads);

// Bytes of dynamic shared memory of a kernel that keeps Q, K and V tiles and a score tile there,
// float32, without padding: 4 (Bq d + 2 Bk d + Bq Bk).
size_t card_tile_bytes(int64_t block_q, int64_t block_k, int64_t dim);

// Registers a thread may have so that `blocks` blocks of `threads` fit on an SM of `registers`,
// which __launch_bounds__(threads, blocks) asks for: a multiple of 8, at most 255.
int card_registers(int registers, int threads, int blocks);

// Blocks / (SMs * blocks that fit on an SM): how often the GPU is filled, the last time in part.
double card_waves(double blocks, int multiprocessors, int fit);

// Multiply-adds per shared-memory wavefront when each lane of a warp reads r + c floats, one load
// instruction each, and multiplies them into an r x c block of its own: 32 r c / (r + c).
double card_fma_per_wavefront(int r, int c);
// The share of the FMA rate that shared memory leaves: fma_per_wavefront / fma_lanes, at most 1.
double card_shared_limit(const CardDevice *device, double fma_per_wavefront);

// Wavefronts of one warp's load when lane i reads the float at word i * stride: how many different
// words the busiest of 32 banks must deliver.
int card_wavefronts(int stride);

#ifdef __cplusplus
}
#endif

#endif
