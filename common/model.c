// The cards: what attention costs on paper. Each formula is derived in the chapter that prints it.
#include "common/model.h"

double score_elements(double len) {
    return len * len;
}

double naive_hbm_elements(double len, double dim, bool causal) {
    double score_passes = causal ? 6 : 4;
    return score_passes * score_elements(len) + compulsory_elements(len, dim);
}

double compulsory_elements(double len, double dim) {
    return 4 * len * dim;
}

double tiled_hbm_elements(double len, double dim, double block_q, bool causal) {
    // Q read and O written once; K and V read once per block of queries: len / block_q times each.
    double once = 2 * len * dim;
    double keys = 2 * len * dim * (len / block_q);
    if (causal) {
        // Row block i of n reads i + 1 of n key blocks, (n + 1) / 2 of them on average. A key block
        // is block_q keys here, so the half tile on the diagonal adds len * dim in all.
        return once + keys / 2 + len * dim;
    }
    return once + keys;
}

double keys_outside_hbm_elements(double len, double dim, double block_k, bool causal) {
    // A row is visited by `visits` blocks of keys on average. Each visit reads its part of Q, and
    // writes O, m and l; each but the first reads them as well.
    const double blocks = len / block_k;
    const double visits = causal ? (blocks + 1) / 2 : blocks;
    const double state = len * dim + 2 * len; // O, m and l
    return 2 * len * dim + visits * len * dim + (2 * visits - 1) * state;
}

double traffic_ratio(double len, double dim, double block_q, bool causal) {
    return naive_hbm_elements(len, dim, causal) / tiled_hbm_elements(len, dim, block_q, causal);
}

double traffic_ratio_limit(double dim, double block_q, bool causal) {
    return (causal ? 6 : 2) * block_q / dim;
}

double attention_flops(double len_q, double len_kv, double dim) {
    return 4 * len_q * len_kv * dim;
}

double arithmetic_intensity(double flops, double bytes) {
    return flops / bytes;
}

double seconds_at(double bytes, double bytes_per_second) {
    return bytes / bytes_per_second;
}
