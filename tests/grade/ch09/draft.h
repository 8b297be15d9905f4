// What the suite of chapter 9's lab 4 is given: a pool in memory of the suite, sequences with the
// tokens that they should hold, and the steps of a test.
#ifndef TESTS_GRADE_CH09_DRAFT_H
#define TESTS_GRADE_CH09_DRAFT_H

#include "exercises/ch09/labs.h"
#include "tests/grade/grade.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- a pool, and sequences with what they should hold -------------------------------------------

enum { MAX_SEQUENCES = 6, MAX_LENGTH = 160 };

typedef struct Model {
    bool open;
    int64_t length;
    int32_t tokens[MAX_LENGTH];
} Model;

typedef struct Fixture {
    SmallPool pool;
    DraftSequence sequence[MAX_SEQUENCES];
    Model model[MAX_SEQUENCES];
    int32_t next_token;
} Fixture;

static inline Fixture *make_fixture(int32_t page_size, int32_t pages) {
    const size_t count = (size_t)pages, bytes = sizeof(int32_t);
    Fixture *f = grade_alloc(sizeof(*f));
    memset(f, 0, sizeof(*f));
    f->pool = (SmallPool){page_size,
                          pages,
                          pages,
                          grade_alloc(count * bytes),
                          grade_alloc(count * bytes),
                          grade_alloc(count * (size_t)page_size * bytes),
                          NO_PAGE};
    for (int32_t i = 0; i < pages; i++) {
        f->pool.free_list[i] = pages - 1 - i; // page 0 is taken first
        f->pool.references[i] = 0;
    }
    for (int s = 0; s < MAX_SEQUENCES; s++) {
        f->sequence[s].table = grade_alloc(count * bytes);
    }
    f->model[0].open = true;
    f->next_token = 1000;
    return f;
}

static inline int64_t pages_of_length(const Fixture *f, int64_t length) {
    return (length + f->pool.page_size - 1) / f->pool.page_size;
}

// How many open sequences hold the page, by their tables.
static inline int32_t holders(const Fixture *f, int32_t page) {
    int32_t count = 0;
    for (int s = 0; s < MAX_SEQUENCES; s++) {
        for (int64_t i = 0; f->model[s].open && i < f->sequence[s].pages; i++) {
            count += f->sequence[s].table[i] == page ? 1 : 0;
        }
    }
    return count;
}

static inline void expect_sequence(const Fixture *f, int s) {
    const DraftSequence *got = &f->sequence[s];
    const Model *want = &f->model[s];
    const int64_t page_size = f->pool.page_size;
    char what[80];
    snprintf(what, sizeof(what), "length of sequence %d", s);
    expect_int(what, got->length, want->length);
    snprintf(what, sizeof(what), "pages of sequence %d", s);
    expect_int(what, got->pages, pages_of_length(f, want->length));
    for (int64_t i = 0; i < got->pages; i++) {
        if (got->table[i] < 0 || got->table[i] >= f->pool.pages) {
            grade_fail("table[%lld] of sequence %d: got %d, expected a page", (long long)i, s,
                       got->table[i]);
        }
    }
    for (int64_t t = 0; t < want->length; t++) {
        const int32_t page = got->table[t / page_size];
        snprintf(what, sizeof(what), "token %lld of sequence %d, in page %d", (long long)t, s,
                 page);
        expect_int(what, f->pool.slots[page * page_size + t % page_size], want->tokens[t]);
    }
}

// Fails unless every sequence has its tokens, and the pool's records agree with the tables.
static inline void expect_all(const Fixture *f) {
    bool is_free[256] = {false};
    int32_t free_pages = 0;
    char what[64];
    if (f->pool.misused != NO_PAGE) {
        grade_fail("page %d was held, or given back, while it was free", f->pool.misused);
    }
    for (int s = 0; s < MAX_SEQUENCES; s++) {
        if (f->model[s].open) {
            expect_sequence(f, s);
        }
    }
    for (int32_t page = 0; page < f->pool.pages; page++) {
        snprintf(what, sizeof(what), "references of page %d", page);
        expect_int(what, f->pool.references[page], holders(f, page));
        free_pages += f->pool.references[page] == 0 ? 1 : 0;
    }
    expect_int("free pages", f->pool.free, free_pages);
    for (int32_t i = 0; i < f->pool.free; i++) {
        const int32_t page = f->pool.free_list[i];
        if (f->pool.references[page] != 0 || is_free[page]) {
            grade_fail("the free list has page %d %s", page,
                       is_free[page] ? "twice" : "that a sequence holds");
        }
        is_free[page] = true;
    }
}

// ---- steps --------------------------------------------------------------------------------------

// The pages that an append must take.
static inline int64_t needs(const Fixture *f, int s, int64_t count) {
    const DraftSequence *q = &f->sequence[s];
    const bool copies = count > 0 && q->length % f->pool.page_size > 0 &&
                        f->pool.references[q->table[q->pages - 1]] > 1;
    return pages_of_length(f, q->length + count) - q->pages + (copies ? 1 : 0);
}

// New tokens, in memory that ends with the last one; to be freed.
static inline int32_t *new_tokens(Fixture *f, int64_t count) {
    int32_t *tokens = malloc((size_t)count * sizeof(*tokens) + (count == 0 ? 1 : 0));
    for (int64_t i = 0; i < count && tokens != NULL; i++) {
        tokens[i] = f->next_token;
        f->next_token++;
    }
    return tokens;
}

static inline void require_ok(AttnStatus status) {
    if (status != ATTN_OK) {
        grade_fail("status: got %s (%s), expected ATTN_OK", attn_status_name(status),
                   attn_last_error());
    }
}

static inline void append(Fixture *f, int s, int64_t count) {
    const DraftSequence *q = &f->sequence[s];
    const int64_t tail = q->length / f->pool.page_size; // its column
    const bool own = q->length % f->pool.page_size > 0 && holders(f, q->table[tail]) == 1;
    const int32_t page = own ? q->table[tail] : NO_PAGE;
    int32_t *tokens = new_tokens(f, count);
    const int64_t free_after = f->pool.free - needs(f, s, count);
    require_ok(draft_append(&f->pool, &f->sequence[s], count, tokens));
    memcpy(f->model[s].tokens + f->model[s].length, tokens, (size_t)count * sizeof(int32_t));
    f->model[s].length += count;
    free(tokens);
    expect_int("free pages after the append", f->pool.free, free_after);
    if (own) {
        expect_int("last page, in which the sequence was alone", q->table[tail], page);
    }
    expect_all(f);
}

static inline void roll_back(Fixture *f, int s, int64_t length) {
    require_ok(draft_rollback(&f->pool, &f->sequence[s], length));
    f->model[s].length = length;
    expect_all(f);
}

// The fork is the suite's, so that the tests of appends do not depend on it.
static inline void fork_sequence(Fixture *f, int from, int to) {
    const DraftSequence *old = &f->sequence[from];
    DraftSequence *fork = &f->sequence[to];
    fork->length = old->length;
    fork->pages = old->pages;
    for (int64_t i = 0; i < old->pages; i++) {
        fork->table[i] = old->table[i];
        pool_hold(&f->pool, old->table[i]);
    }
    f->model[to] = f->model[from];
}

static inline void close_sequence(Fixture *f, int s) {
    for (int64_t i = 0; i < f->sequence[s].pages; i++) {
        pool_release(&f->pool, f->sequence[s].table[i]);
    }
    f->sequence[s].pages = f->sequence[s].length = 0;
    f->model[s] = (Model){0};
}

#endif
