// A pool of pages beside a model of it: each sequence's tokens in a plain array. What a token's
// keys and values are follows from its number, so that any slot can be checked.
#ifndef TESTS_UNIT_POOL_MODEL_H
#define TESTS_UNIT_POOL_MODEL_H

#include "chapters/ch09_paged/paged.h"
#include "common/problem.h"

enum { MODEL_TOKENS = 2048, MODEL_SEQUENCES = 10 };

// What a sequence holds: the numbers of its tokens.
typedef struct Model {
    bool open;
    int64_t length;
    uint32_t tokens[MODEL_TOKENS];
} Model;

// Element c of head h of K (which 0) or V (1) of a token: a multiple of 1/64 from -1 to 1, exact in
// every storage type.
float model_element(uint32_t token, int which, int64_t h, int64_t c);

// A pool of that many pages for MODEL_SEQUENCES sequences.
BlockPool *model_pool(GpuTarget target, const PageLayout *layout, int64_t pages);

// K (which 0) or V (1) of tokens first, first + 1, ... in the target's memory,
// [heads_kv][count][dim]. Freed by gpu_free.
void *model_rows(GpuTarget target, const PageLayout *layout, uint32_t first, int64_t count,
                 int which);

// Appends these tokens to a sequence of the pool; returns block_pool_append's status. And to the
// model's.
AttnStatus model_append_to_pool(BlockPool *pool, int64_t sequence, uint32_t first, int64_t count);
void model_append(Model *model, uint32_t first, int64_t count);

// Fails the test unless the pool agrees with itself, and every slot of sequences 0 .. count - 1
// holds what the model says.
void model_check_pool(const BlockPool *pool, const Model *models, int count);

// K and V of *problem become the tokens of models[b], NaN behind their lengths.
void model_fill(Problem *problem, const Model *const *models);

// Runs a rung on these sequences of the pool, whose lengths are the shape's; O and LSE of *problem
// are what it gives for its Q.
void model_decode(int rung, const BlockPool *pool, const int64_t *sequences, int64_t splits,
                  Problem *problem);

#endif
