// What the suite of chapter 9's lab 2 is given: batches in pages on the host, with garbage wherever
// nothing is in use.
#ifndef TESTS_GRADE_CH09_GATHER_H
#define TESTS_GRADE_CH09_GATHER_H

#include "exercises/ch09/labs.h"
#include "tests/grade/grade.h"

#include <math.h>
#include <string.h>

enum { MAX_BATCH = 8 };

// A batch on the host. Sizes are those of `shape`, whose pointers are not used.
typedef struct Problem {
    PagedGather shape;
    int pages;        // of the pool
    float *kv;        // element e holds e + 1 where a token lies, NaN elsewhere
    int32_t *table;   // [batch][columns]
    int *lens;        // [batch]
    int64_t *begin;   // [batch]
    size_t kv_count;  // elements of kv
    size_t out_count; // elements of k and of v
} Problem;

static inline int pages_in_use(const Problem *p, int sequence) {
    return (p->lens[sequence] + p->shape.page_size - 1) / p->shape.page_size;
}

// Elements of a token: K and V of all heads.
static inline size_t token_elements(const PagedGather *s) {
    return (size_t)s->heads_kv * 2 * (size_t)s->dim;
}

// The element of kv at which a token's elements begin.
static inline size_t token_begin(const Problem *p, int sequence, int token) {
    const int size = p->shape.page_size;
    const size_t page = (size_t)p->table[sequence * p->shape.columns + token / size];
    return (page * (size_t)size + (size_t)(token % size)) * token_elements(&p->shape);
}

// Writes the numbers of the tokens in use into kv.
static inline void fill_tokens(Problem *p) {
    for (int b = 0; b < p->shape.batch; b++) {
        for (int t = 0; t < p->lens[b]; t++) {
            const size_t at = token_begin(p, b, t);
            for (size_t e = at; e < at + token_elements(&p->shape); e++) {
                p->kv[e] = (float)(e + 1);
            }
        }
    }
}

// Pages in a shuffled order, the table's other entries garbage: no page at all, or somebody's. The
// arrays of k and v lie apart, the last sequence's first.
static inline Problem make_problem(const PagedGather *shape, const int *lens, uint64_t seed) {
    const int32_t garbage[] = {INT32_MAX, -1, 0, INT32_MIN, 1};
    Problem p = {.shape = *shape};
    p.lens = grade_alloc((size_t)shape->batch * sizeof(int));
    p.begin = grade_alloc((size_t)shape->batch * sizeof(int64_t));
    p.table = grade_alloc((size_t)(shape->batch * shape->columns) * sizeof(int32_t));
    p.shape.longest = 0;
    p.pages = 2; // that nobody uses
    for (int b = 0; b < shape->batch; b++) {
        p.lens[b] = lens[b];
        p.pages += pages_in_use(&p, b);
        p.shape.longest = lens[b] > p.shape.longest ? lens[b] : p.shape.longest;
    }
    int32_t *ids = grade_alloc((size_t)p.pages * sizeof(int32_t));
    for (int i = 0; i < p.pages; i++) { // the next id at a random place, and what was there last
        const int j = (int)(fabsf(grade_normal(seed, (uint64_t)i)) * 1000.0f) % (i + 1);
        ids[i] = ids[j];
        ids[j] = i;
    }
    int next = 0;
    for (int i = 0; i < shape->batch * shape->columns; i++) {
        const bool used = i % shape->columns < pages_in_use(&p, i / shape->columns);
        p.table[i] = used ? ids[next++] : garbage[i % 5];
    }
    p.out_count = 3; // written by nobody, as are three elements behind each array
    for (int b = shape->batch - 1; b >= 0; b--) {
        p.begin[b] = (int64_t)p.out_count;
        p.out_count += (size_t)(lens[b] * shape->heads_kv * shape->dim) + 3;
    }
    p.kv_count = (size_t)(p.pages * shape->page_size) * token_elements(shape);
    p.kv = grade_floats(p.kv_count);
    fill_tokens(&p);
    return p;
}

// "V of page 3, slot 1, head 0, element 2": whose number this is, for a message.
static inline void describe_value(const Problem *p, float value, char *text, size_t size) {
    const KvLayout layout = {p->shape.page_size, p->shape.heads_kv, p->shape.dim};
    const int64_t row = layout.heads_kv * 2 * layout.dim;
    if (!(value >= 1.0f && value <= (float)p->kv_count)) {
        snprintf(text, size, "%g", isnan(value) ? (double)NAN : (double)value);
        return;
    }
    const int64_t e = (int64_t)value - 1;
    snprintf(text, size, "%c of page %lld, slot %lld, head %lld, element %lld",
             e / layout.dim % 2 == PART_K ? 'K' : 'V', (long long)(e / row / layout.page_size),
             (long long)(e / row % layout.page_size), (long long)(e % row / (2 * layout.dim)),
             (long long)(e % layout.dim));
}

#endif
