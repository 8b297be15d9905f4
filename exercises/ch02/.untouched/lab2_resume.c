// Lab 2: a pass that can be interrupted: the state (m, l, o) saved as (O, LSE), and taken up again.
//
// (O, LSE) is what an attention kernel returns, so a pass can be put aside between two calls, or go
// on with the result of a kernel that has never heard of m and l. One number is kept where the
// running state has two; the lab is to see why one is enough.
#include "labs.h"

#include <math.h>

void state_add_block(SoftmaxState *state, int64_t dim, const float *scores, const float *v,
                     int64_t count) {
    float m_new = state->m;
    for (int64_t j = 0; j < count; j++) {
        m_new = fmaxf(m_new, scores[j]);
    }
    const float base = m_new == -INFINITY ? 0.0f : m_new; // exp(-INFINITY - -INFINITY) is NaN
    const float alpha = expf(state->m - base);
    state->m = m_new;
    state->l *= alpha;
    for (int64_t c = 0; c < dim; c++) {
        state->o[c] *= alpha;
    }
    for (int64_t j = 0; j < count; j++) {
        if (scores[j] == -INFINITY) {
            continue;
        }
        const float p = expf(scores[j] - base);
        state->l += p;
        for (int64_t c = 0; c < dim; c++) {
            state->o[c] += p * v[j * dim + c];
        }
    }
}

void state_save(const SoftmaxState *state, int64_t dim, PausedRow *paused) {
    float inverse = 0.0f; // what o is multiplied by; of an empty state 0
    paused->lse = -INFINITY;
    paused->next = state->next;
    // TODO 1: lse, and inverse, of a state that is not empty
    // END 1
    for (int64_t c = 0; c < dim; c++) {
        paused->o[c] = state->o[c] * inverse;
    }
}

void state_restore(SoftmaxState *state, int64_t dim, const PausedRow *paused) {
    state->m = -INFINITY;
    state->l = 0.0f;
    state->next = paused->next;
    for (int64_t c = 0; c < dim; c++) {
        state->o[c] = paused->o[c];
    }
    // So far m and l are those of an empty pass. Many (m, l, o) stand for the same (O, LSE): choose
    // one that cannot overflow, however large or small LSE is. And when LSE is -INFINITY, paused->o
    // may hold anything, NaN included.
    // TODO 2: m and l of a pass that has seen a key; o of one that has not
    // END 2
}

void attend_some(const KeyRow *row, int64_t blocks, PausedRow *paused) {
    SoftmaxState state = {.o = paused->o}; // the running sums take the place of the paused output
    state_restore(&state, row->dim, paused);
    for (int64_t block = 0; block < blocks && state.next < row->len; block++) {
        // TODO 3: the scores of the keys from state.next on, into row->scratch; the block; next
        // END 3
    }
    state_save(&state, row->dim, paused);
}
