// The cards: what attention costs on paper, in elements, bytes and FLOP. One head unless said.
// N queries and N keys of dimension d; elements are multiplied by the storage size for bytes.
#ifndef COMMON_MODEL_H
#define COMMON_MODEL_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// Elements of the score matrix: N^2.
double score_elements(double len);

// Elements moved by naive attention in passes over whole tensors: 4N^2 + 4Nd (scores written, read
// by softmax, probabilities written, read by PV; Q, K, V read, O written). Causal with its mask as
// a pass of its own reads and writes the scores once more: 6N^2 + 4Nd.
double naive_hbm_elements(double len, double dim, bool causal);

// Elements that must move whatever the algorithm: Q, K, V read and O written once, 4Nd.
double compulsory_elements(double len, double dim);

// Elements moved by tiled attention, K and V read once per block of block_q queries:
// 2Nd + 2N^2 d / block_q; causal, half of the key tiles: 3Nd + N^2 d / block_q.
double tiled_hbm_elements(double len, double dim, double block_q, bool causal);

// Elements moved by the other loop order, keys outside and queries inside (the first
// FlashAttention), with block_k queries in a block of queries too: K and V are read once; for each
// block of keys Q is read, and O, m and l are written and, but for the first block, read again: 2Nd
// + (N / block_k) Nd + (2N / block_k - 1) (Nd + 2N). Causal, n = N / block_k, half of the pairs:
// 2Nd + (n + 1) / 2 Nd + n (Nd + 2N).
double keys_outside_hbm_elements(double len, double dim, double block_k, bool causal);

// naive_hbm_elements / tiled_hbm_elements, and its limit for long sequences: 2 block_q / d, causal
// 6 block_q / d.
double traffic_ratio(double len, double dim, double block_q, bool causal);
double traffic_ratio_limit(double dim, double block_q, bool causal);

// FLOP of the two products, Q K^T and P V, a multiply-add counting 2: 4 T S d.
double attention_flops(double len_q, double len_kv, double dim);

// FLOP per byte.
double arithmetic_intensity(double flops, double bytes);

// Seconds to move `bytes` at `bytes_per_second`.
double seconds_at(double bytes, double bytes_per_second);

#ifdef __cplusplus
}
#endif

#endif
