// The questions of chapter 5: the expected answers, computed from their definitions.
#include "tests/grade/grade.h"

#include <math.h>

static const double mib = 1024.0 * 1024.0;

// fp32, one head. Q once, K and V once for every block of queries.
static double block_unique_mib(void) {
    const double len = 1024, dim = 128, block_q = 64;
    return 4 * (len * dim + len / block_q * 2 * len * dim) / mib;
}

// The same kernel: every element of Q, K and V is a different one once in the launch.
static double launch_unique_mib(void) {
    return 4 * 3 * 1024.0 * 128 / mib;
}

// Each of 64 threads reads all of K.
static double asked_for_mib(void) {
    return 64 * 320 * 96 * 4 / mib;
}

// A request of a warp touches one sector, since all lanes read the same element.
static double sectors_mib(void) {
    const double warps = 2, elements = 320 * 96;
    return warps * elements * 32 / mib;
}

// 16-bit. Three launches: Q and K; S; P and V are read.
static double naive_launch_unique_reads_mib(void) {
    const double len = 2048, dim = 64;
    return 2 * (2 * len * dim + len * len + len * len + len * dim) / mib;
}

// A tile of 32 x 96 floats, 16 bytes a lane.
static double vector_requests(void) {
    return 32 * 96 * 4 / (32.0 * 16);
}

// Lane i reads 4 bytes at 20 i: how many different sectors of 32 bytes.
static double strided_sectors(void) {
    int sectors = 0, last = -1;
    for (int lane = 0; lane < 32; lane++) {
        if (20 * lane / 32 != last) {
            last = 20 * lane / 32;
            sectors++;
        }
    }
    return sectors;
}

static double waves(void) {
    const double blocks = 2 * 12 * ceil(1000.0 / 64);
    return blocks / (132 * 2);
}

static double tile_kib(void) {
    return 4 * (3 * 64 * 96 + 64 * 64) / 1024.0;
}

// The largest multiple of 16 that leaves the tiles within 48 KiB.
static double largest_block_k(void) {
    int block_k = 16;
    while (4 * (32 * 128 + 2 * (block_k + 16) * 128 + 32 * (block_k + 16)) <= 48 * 1024) {
        block_k += 16;
    }
    return block_k;
}

// Lane i reads word 36 i: the most words in one bank.
static double column_wavefronts(void) {
    int words[32] = {0}, most = 0;
    for (int lane = 0; lane < 32; lane++) {
        const int n = ++words[36 * lane % 32];
        most = n > most ? n : most;
    }
    return most;
}

const GradeQuestion grade_questions[] = {
    {"q1", 1, block_unique_mib, 0.005, "MiB",
     "Q + (N / block_q) (K + V), 4 bytes an element: each block counts its own queries and all "
     "keys."},
    {"q2", 1, launch_unique_mib, 0.005, "MiB",
     "However often K and V are read, they are counted once in the launch: Q + K + V."},
    {"q3", 1, asked_for_mib, 0.005, "MiB",
     "Every thread counts every element that it reads, whoever else reads it: 64 x 320 x 96 x 4."},
    {"q4", 1, sectors_mib, 0.005, "MiB",
     "32 lanes that read one element make one request, which touches one sector of 32 bytes. How "
     "many warps has the block?"},
    {"q5", 1, naive_launch_unique_reads_mib, 0.005, "MiB",
     "Read in the first launch: Q and K; in the second: S; in the third: P and V. 2 bytes an "
     "element; what is written does not count."},
    {"q6", 1, vector_requests, 0.001, "requests",
     "A request is one load of one warp: here 32 lanes of 16 bytes."},
    {"q7", 1, strided_sectors, 0.001, "sectors",
     "Lane i reads at byte 20 i, so the last one at 620. In which sectors, byte / 32, does one of "
     "the lanes lie?"},
    {"q8", 1, waves, 0.005, "waves",
     "ceil(1000 / 64) blocks for each of 24 heads; a wave is 132 x 2 blocks."},
    {"q9", 1, tile_kib, 0.005, "KiB", "Three tiles of 64 x 96 floats and one of 64 x 64."},
    {"q10", 1, largest_block_k, 0.001, "keys",
     "Q takes 16,384 bytes; every key takes 2 x 128 + 32 floats more, in all at most 49,152."},
    {"q11", 1, column_wavefronts, 0.001, "wavefronts",
     "Lane i is in bank 36 i % 32. How many lanes share the fullest bank?"},
    {NULL, 0, NULL, 0.0, NULL, NULL},
};
