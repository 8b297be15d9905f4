// A problem to run: Q, K, V from NPY files or from a seed, and room for O and LSE.
#ifndef COMMON_PROBLEM_H
#define COMMON_PROBLEM_H

#include "common/options.h"
#include "common/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Problem {
    AttnShape shape;
    DType dtype;    // storage type: the values of Q, K, V are rounded to it, the tensors are f32
    Tensor q, k, v; // [batch][heads_q][len_q][dim], [batch][heads_kv][len_kv][dim] twice
    Tensor o, lse;  // NaN until a kernel writes them
} Problem;

// Seeded Q, K, V of the given shape (three different seeds derived from `seed`), rounded to dtype.
// Errors: those of attn_check_shape and tensor_alloc; *problem is zeroed then.
AttnStatus problem_random(Problem *problem, const AttnShape *shape, DType dtype, uint64_t seed);

// The problem the command line asks for: files when --q --k --v were given, seeded otherwise.
// Arrays must be rank 4, K's shape equal to V's, batch and dim equal to Q's, heads divisible; each
// violation names the file, the axis and both values. f8 files are rounded to f32, with `dtype`
// applied after. causal, window and scale come from the options. Errors: ATTN_ERR_IO,
// ATTN_ERR_SHAPE, ATTN_ERR_UNSUPPORTED, ATTN_ERR_MEMORY.
AttnStatus problem_load(Problem *problem, const Options *options);

// Writes O and LSE where --out and --lse ask for it: O rounded to the problem's storage type and
// written as '<f2' for f16, else '<f4'; LSE as '<f4'. Errors: ATTN_ERR_IO.
AttnStatus problem_save(const Problem *problem, const Options *options);

void problem_free(Problem *problem);

#ifdef __cplusplus
}
#endif

#endif
