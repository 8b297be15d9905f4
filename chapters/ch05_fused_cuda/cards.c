// Chapter 5's cards: see cards.h. Figures of the H200 are those of its data sheet and of CUDA's
// device properties.
#include "chapters/ch05_fused_cuda/cards.h"

#include <math.h>

enum { WARP = 32, BANKS = 32, MAX_REGISTERS = 255 };

const CardDevice card_h200 = {
    .name = "H200",
    .multiprocessors = 132,
    .clock_hz = 1.98e9,
    .fma_lanes = 128,
    .shared_bytes_clock = 128,
    .registers = 65536,
    .shared_bytes = 228.0 * 1024,
    .l2_bytes = 60.0 * 1024 * 1024,
    .hbm_bytes = 141e9,
    .hbm_bytes_per_s = 4.8e12,
};

double card_fma_flops_per_s(const CardDevice *device) {
    return 2.0 * device->fma_lanes * device->multiprocessors * device->clock_hz;
}

double card_shared_bytes_per_s(const CardDevice *device) {
    return device->shared_bytes_clock * device->multiprocessors * device->clock_hz;
}

double card_register_bytes(const CardDevice *device) {
    return 4.0 * device->registers * device->multiprocessors;
}

double card_shared_bytes(const CardDevice *device) {
    return device->shared_bytes * device->multiprocessors;
}

double card_score_bytes(double len) {
    return 4.0 * len * len;
}

int64_t card_longest_in_cache(double bytes, double heads) {
    return (int64_t)floor(sqrt(bytes / (4.0 * heads)));
}

size_t card_tile_bytes(int64_t block_q, int64_t block_k, int64_t dim) {
    return sizeof(float) * (size_t)(block_q * dim + 2 * block_k * dim + block_q * block_k);
}

int card_registers(int registers, int threads, int blocks) {
    const int fit = registers / (threads * blocks) / 8 * 8;
    return fit < MAX_REGISTERS ? fit : MAX_REGISTERS;
}

double card_waves(double blocks, int multiprocessors, int fit) {
    return blocks / ((double)multiprocessors * fit);
}

double card_fma_per_wavefront(int r, int c) {
    return (double)(WARP * r * c) / (double)(r + c);
}

double card_shared_limit(const CardDevice *device, double fma_per_wavefront) {
    return fmin(1.0, fma_per_wavefront / device->fma_lanes);
}

int card_wavefronts(int stride) {
    int busiest = 0;
    for (int bank = 0; bank < BANKS; bank++) {
        int words = 0; // different words of this bank; a stride of 0 is one word for all lanes
        for (int lane = 0; lane < WARP; lane++) {
            words += lane * stride % BANKS == bank && (stride != 0 || lane == 0);
        }
        busiest = words > busiest ? words : busiest;
    }
    return busiest;
}
