// The questions of chapter 4: the expected answers, computed from the cards of common/model.h and
// by going through the block pairs.
#include "common/model.h"
#include "tests/grade/grade.h"

static double ratio_not_causal(void) {
    return traffic_ratio(1024, 64, 256, false);
}

static double ratio_causal(void) {
    return traffic_ratio(4096, 96, 256, true);
}

// The limit is proportional to block_q: where it is 1.
static double break_even_block(void) {
    return 1 / traffic_ratio_limit(256, 1, false);
}

static double order_ratio(void) {
    return keys_outside_hbm_elements(2048, 128, 64, false) /
           tiled_hbm_elements(2048, 128, 64, false);
}

static double extra_memory_kib(void) {
    return 4 * (96 * 160 + 2 * 96) / 1024.0;
}

// The block pairs of a causal problem of `len` queries and keys in which some row sees some key.
// window 0: unlimited.
static double visited_pairs(int64_t len, int64_t block_q, int64_t block_k, int64_t window) {
    double visited = 0;
    for (int64_t i = 0; i < len; i += block_q) {
        for (int64_t j = 0; j < len; j += block_k) {
            const bool seen_by_last_row = j <= i + block_q - 1;
            const bool seen_by_first_row = window == 0 || j + block_k - 1 > i - window;
            visited += seen_by_last_row && seen_by_first_row ? 1 : 0;
        }
    }
    return visited;
}

static double causal_pairs(void) {
    return visited_pairs(131072, 128, 64, 0);
}

static double windowed_share(void) {
    return 100 * visited_pairs(32768, 128, 128, 4096) / (256.0 * 256.0);
}

static double launch_ms(void) {
    const double operations = 14 * visited_pairs(16384, 128, 128, 0) + 5 * (16384.0 / 128);
    return operations * 8e-6 * 1e3;
}

const GradeQuestion grade_questions[] = {
    {"q1", 1, ratio_not_causal, 0.005, "", "4N^2 + 4Nd over 2Nd + 2N^2 d / block_q."},
    {"q2", 1, ratio_causal, 0.005, "",
     "Causal: 6N^2 + 4Nd over 3Nd + N^2 d / block_q; the mask's pass adds two trips of the matrix, "
     "half of the tiles are skipped."},
    {"q3", 1, break_even_block, 0.002, "queries",
     "The terms with N^2 alone: 4N^2 = 2N^2 d / block_q."},
    {"q4", 1, order_ratio, 0.005, "",
     "Keys outside: K and V once, Q once for every block of keys, O, m and l stored as often and "
     "loaded one time less. Queries outside: Q and O once, K and V once for every block of "
     "queries."},
    {"q5", 1, extra_memory_kib, 0.005, "KiB", "(block_k + 2) * block_q floats of 4 bytes."},
    {"q6", 1, causal_pairs, 1e-6, "pairs",
     "A block of 128 rows sees two more blocks of 64 keys than the one before it, the first one "
     "two."},
    {"q7", 1, windowed_share, 0.005, "%",
     "The first row of a block reaches 4095 keys back: how many blocks of 128 does that touch? The "
     "first blocks of rows have fewer keys before them."},
    {"q8", 1, launch_ms, 0.005, "ms",
     "N / 128 blocks of queries, n (n + 1) / 2 pairs; 14 operations a pair and 5 a block, 8 us "
     "each."},
    {NULL, 0, NULL, 0.0, NULL, NULL},
};
