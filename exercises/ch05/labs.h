// Chapter 5's labs: what the kernels are given, and the functions that you write or mend. README.md
// beside this file says what each lab is about. This header stays as it is.
//
// All pointers are to device memory. A function checks nothing that its comment does not mention;
// it returns ATTN_OK, or the status that LAUNCH or SHARED_OPT_IN gave it. GPU_DECLARE declares the
// builds of one function: row_affine_simt, row_affine_trace, row_affine_cuda; in the lab file it is
// written once, as ENTRY(row_affine).
#ifndef CH05_LABS_H
#define CH05_LABS_H

#include "common/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- lab 0: a first kernel ----------------------------------------------------------------------

// y[r][c] = a[r] * x[r][c] + b[r]: every row of a matrix has its own factor and summand.
typedef struct RowAffine {
    const float *x; // [rows][columns]
    const float *a; // [rows]
    const float *b; // [rows]
    float *y;       // [rows][columns]
    int rows;       // 0 or more; the grid has a row of blocks for each
    int columns;    // 0 or more
} RowAffine;

// Lab 0. One thread an element, AFFINE_THREADS threads a block along the columns. Without elements
// there is nothing to launch: ATTN_OK. More rows than a grid may have are LAUNCH's error.
enum { AFFINE_THREADS = 128 };
GPU_DECLARE(row_affine, (const RowAffine *matrix, GpuStream stream));

// ---- lab 1: softmax of short rows by shuffles ---------------------------------------------------

// Rows of different lengths, in a matrix whose rows are `stride` elements apart.
typedef struct ShortRows {
    const float *x;   // [rows][stride] scores; those from len[r] on may hold anything
    const int *len;   // [rows] 0..stride
    float *p;         // [rows][stride] probabilities; from len[r] on nothing is written
    float *lse;       // [rows] natural log-sum-exp; -infinity for a row of length 0
    int rows, stride; // 0 or more, 1 or more
} ShortRows;

// Lab 1. Softmax and LSE of every row, without shared memory. ROW_LANES neighbouring lanes of a
// warp share a row, so that a warp has four rows, and a block of ROWS_THREADS threads has sixteen.
// Each score is loaded at most three times.
enum { ROW_LANES = 8, ROWS_THREADS = 128 };
GPU_DECLARE(short_rows, (const ShortRows *rows, GpuStream stream));

// ---- lab 2: ALiBi inside the tile loop ----------------------------------------------------------

// Causal attention (bottom-right aligned: query i sees key j when j <= i + (S - T)) whose scores
// have a bias that grows with the distance:
//     score[i][j] = scale * q_i . k_j + slope_h * (j - i - (S - T))
//     slope_h = 2^(-8(h+1)/H)
typedef struct Alibi {
    const float *q;    // [batch][heads][len_q][dim]
    const float *k;    // [batch][heads][len_kv][dim]
    const float *v;    // [batch][heads][len_kv][dim]
    float *o;          // [batch][heads][len_q][dim]; 0 for a row that sees no key
    float *lse;        // [batch][heads][len_q]; -infinity for such a row
    int batch, heads;  // B and H, at least 1
    int len_q, len_kv; // T and S, at least 1; either may be the longer one
    int dim;           // d, 1..ALIBI_MAX_DIM; more is ATTN_ERR_UNSUPPORTED
    float scale;       // multiplies q . k, not the bias
} Alibi;

// Lab 2. O and LSE. At d = 128 the tiles take 53,248 bytes of shared memory.
enum { ALIBI_MAX_DIM = 128 };
GPU_DECLARE(alibi_attention, (const Alibi *attention, GpuStream stream));

// ---- lab 3: find the missing barrier ------------------------------------------------------------

// Attention without a mask, heads of all batches counted through.
typedef struct LoaderAttention {
    const float *q;    // [heads][len_q][dim]
    const float *k;    // [heads][len_kv][dim]
    const float *v;    // [heads][len_kv][dim]
    float *o;          // [heads][len_q][dim]
    float *lse;        // [heads][len_q]
    int heads;         // at least 1
    int len_q, len_kv; // at least 1
    int dim;           // 1..LOADER_MAX_DIM; more is ATTN_ERR_UNSUPPORTED
    float scale;       // multiplies q . k
} LoaderAttention;

// Lab 3. O and LSE, right in every order in which the threads of a block may run, with at most two
// block-wide barriers for every tile of LOADER_KEYS keys, and one more.
enum { LOADER_MAX_DIM = 64, LOADER_KEYS = 16 };
GPU_DECLARE(loader_attention, (const LoaderAttention *attention, GpuStream stream));

// ---- lab 4: remove the bank conflict ------------------------------------------------------------

// S = scale Q K^T, one head.
typedef struct Scores {
    const float *q;    // [len_q][dim]
    const float *k;    // [len_kv][dim]
    float *s;          // [len_q][len_kv]
    int len_q, len_kv; // at least 1
    int dim;           // at least 1
    float scale;
} Scores;

// Lab 4. The scores, from tiles of SCORES_TILE queries, keys and dimensions in shared memory. The
// requests to global memory stay as they are; shared memory is read and written without a conflict,
// and a block takes at most SCORES_SHARED bytes of it.
enum { SCORES_TILE = 32, SCORES_SHARED = 8448 };
GPU_DECLARE(tile_scores, (const Scores *scores, GpuStream stream));

#ifdef __cplusplus
}
#endif

#endif
