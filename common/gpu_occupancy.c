// How many blocks of a kernel fit on a multiprocessor, by the rules of CUDA's cuda_occupancy.h for
// compute capability 8.0 and newer.
#include "common/gpu.h"

#include <limits.h>

enum {
    REGISTER_UNIT = 256,    // registers that a warp's share is rounded up to
    MAX_REGISTERS = 255,    // a thread can have
    PARTITIONS = 4,         // of a multiprocessor, each with its own registers
    SHARED_UNIT = 128,      // bytes that a block's share is rounded up to
    SHARED_RESERVED = 1024, // bytes a block that CUDA keeps for itself
};

// Blocks that each resource allows.
typedef struct Limits {
    int threads, registers, shared, blocks;
} Limits;

static size_t round_up(size_t value, size_t unit) {
    return (value + unit - 1) / unit * unit;
}

// All 0 where a block does not fit at all.
static Limits limits(const GpuProperties *device, int threads, int registers, size_t shared) {
    if (threads < 1 || threads > device->max_threads_per_block || registers < 0 ||
        registers > MAX_REGISTERS || shared > device->shared_per_block_optin) {
        return (Limits){0};
    }
    const int warps = (threads + device->warp_size - 1) / device->warp_size;
    Limits result = {
        .threads = device->max_threads_per_multiprocessor / device->warp_size / warps,
        .registers = INT_MAX,
        .blocks = device->max_blocks_per_multiprocessor,
    };
    const size_t shared_block = round_up(shared + SHARED_RESERVED, SHARED_UNIT);
    result.shared = (int)(device->shared_per_multiprocessor / shared_block);
    if (registers > 0) {
        const int warp =
            (int)round_up((size_t)registers * (size_t)device->warp_size, REGISTER_UNIT);
        const int partition = device->registers_per_multiprocessor / PARTITIONS / warp;
        result.registers = partition * PARTITIONS / warps;
    }
    return result;
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

static int smallest(Limits limits) {
    return smaller(smaller(limits.threads, limits.registers),
                   smaller(limits.shared, limits.blocks));
}

int gpu_blocks_per_multiprocessor(const GpuProperties *properties, int threads, int registers,
                                  size_t shared) {
    return smallest(limits(properties, threads, registers, shared));
}

const char *gpu_occupancy_limit(const GpuProperties *properties, int threads, int registers,
                                size_t shared) {
    const Limits each = limits(properties, threads, registers, shared);
    const int blocks = smallest(each);
    if (shared > properties->shared_per_block_optin) {
        return "shared memory";
    }
    if (registers > MAX_REGISTERS) {
        return "registers";
    }
    return blocks == each.threads     ? "threads"
           : blocks == each.registers ? "registers"
           : blocks == each.shared    ? "shared memory"
                                      : "blocks";
}

double gpu_occupancy(const GpuProperties *properties, int threads, int registers, size_t shared) {
    const int blocks = gpu_blocks_per_multiprocessor(properties, threads, registers, shared);
    const int warps = (threads + properties->warp_size - 1) / properties->warp_size;
    return (double)blocks * warps * properties->warp_size /
           properties->max_threads_per_multiprocessor;
}
