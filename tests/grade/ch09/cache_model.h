// What the suite of chapter 9's lab 3 is given: a pool and a cache in memory of the suite, and a
// model of both that knows every block by the whole prompt up to its end, and the steps of a test.
#ifndef TESTS_GRADE_CH09_CACHE_MODEL_H
#define TESTS_GRADE_CH09_CACHE_MODEL_H

#include "exercises/ch09/labs.h"
#include "tests/grade/grade.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL_PAGES = 64, MODEL_TOKENS = 64 };

typedef struct ModelBlock {
    bool cached;
    int64_t length; // tokens of the prompt up to the block's end
    int32_t prompt[MODEL_TOKENS];
    int64_t last_use;
} ModelBlock;

typedef struct Fixture {
    SmallPool pool;
    PrefixCache cache;
    ModelBlock model[MODEL_PAGES];
    int32_t references[MODEL_PAGES]; // expected ones
    int64_t clock;
} Fixture;

static inline Fixture *make_fixture(int32_t page_size, int32_t pages, int32_t buckets) {
    const size_t count = (size_t)pages, bytes = sizeof(int32_t);
    Fixture *f = grade_alloc(sizeof(*f));
    memset(f, 0, sizeof(*f));
    f->pool = (SmallPool){
        page_size, pages,  pages, grade_alloc(count * bytes), grade_alloc(count * bytes),
        NULL,      NO_PAGE};
    f->cache = (PrefixCache){&f->pool,
                             grade_alloc(count * sizeof(CachedBlock)),
                             grade_alloc(count * (size_t)page_size * bytes),
                             grade_alloc((size_t)buckets * bytes),
                             buckets,
                             0};
    for (int32_t i = 0; i < pages; i++) {
        f->pool.free_list[i] = pages - 1 - i; // page 0 is taken first
        f->pool.references[i] = 0;
        f->cache.blocks[i] = (CachedBlock){false, NO_PAGE, 0, NO_PAGE, 0};
    }
    for (int32_t i = 0; i < buckets; i++) {
        f->cache.buckets[i] = NO_PAGE;
    }
    return f;
}

// ---- the model ----------------------------------------------------------------------------------

// The page of the block that ends a prompt of `length` tokens, or NO_PAGE.
static inline int32_t model_find(const Fixture *f, int64_t length, const int32_t *tokens) {
    for (int32_t page = 0; page < f->pool.pages; page++) {
        const ModelBlock *b = &f->model[page];
        if (b->cached && b->length == length &&
            memcmp(b->prompt, tokens, (size_t)length * sizeof(*tokens)) == 0) {
            return page;
        }
    }
    return NO_PAGE;
}

// The cached block before this one, or NO_PAGE.
static inline int32_t model_parent(const Fixture *f, const ModelBlock *b) {
    return b->length == f->pool.page_size ? NO_PAGE
                                          : model_find(f, b->length - f->pool.page_size, b->prompt);
}

static inline int32_t model_children(const Fixture *f, int32_t page) {
    int32_t children = 0;
    for (int32_t other = 0; other < f->pool.pages; other++) {
        if (f->model[other].cached && model_parent(f, &f->model[other]) == page) {
            children++;
        }
    }
    return children;
}

static inline int64_t model_lookup(Fixture *f, int64_t count, const int32_t *tokens,
                                   int32_t *pages) {
    const int64_t page_size = f->pool.page_size;
    int64_t found = 0;
    f->clock++;
    while ((found + 1) * page_size < count) {
        const int32_t page = model_find(f, (found + 1) * page_size, tokens);
        if (page == NO_PAGE) {
            break;
        }
        f->model[page].last_use = f->clock;
        f->references[page]++;
        pages[found] = page;
        found++;
    }
    return found;
}

static inline void model_insert(Fixture *f, int64_t count, const int32_t *tokens,
                                const int32_t *pages) {
    const int64_t page_size = f->pool.page_size;
    f->clock++;
    for (int64_t end = page_size; end <= count; end += page_size) {
        int32_t page = model_find(f, end, tokens);
        if (page == NO_PAGE) {
            page = pages[end / page_size - 1];
            f->model[page].cached = true;
            f->model[page].length = end;
            memcpy(f->model[page].prompt, tokens, (size_t)end * sizeof(*tokens));
            f->references[page]++;
        }
        f->model[page].last_use = f->clock;
    }
}

// The block that is to be evicted next, or NO_PAGE.
static inline int32_t model_victim(const Fixture *f) {
    int32_t victim = NO_PAGE;
    for (int32_t page = 0; page < f->pool.pages; page++) {
        const ModelBlock *b = &f->model[page];
        if (b->cached && f->references[page] == 1 && model_children(f, page) == 0 &&
            (victim == NO_PAGE || b->last_use < f->model[victim].last_use)) {
            victim = page;
        }
    }
    return victim;
}

static inline void model_evict(Fixture *f, int32_t victim) {
    f->model[victim].cached = false;
    f->references[victim] = 0;
}

// ---- checks -------------------------------------------------------------------------------------

// Fails unless pool and cache are as the model has them.
static inline void expect_records(const Fixture *f) {
    int32_t free_pages = 0;
    char what[80];
    if (f->pool.misused != NO_PAGE) {
        grade_fail("page %d was held, or given back, while it was free", f->pool.misused);
    }
    for (int32_t page = 0; page < f->pool.pages; page++) {
        const CachedBlock *got = &f->cache.blocks[page];
        const ModelBlock *want = &f->model[page];
        snprintf(what, sizeof(what), "page %d is cached", page);
        expect_int(what, got->cached ? 1 : 0, want->cached ? 1 : 0);
        snprintf(what, sizeof(what), "references of page %d%s", page,
                 want->cached ? ", the cache's own one counted" : "");
        expect_int(what, f->pool.references[page], f->references[page]);
        free_pages += f->references[page] == 0 ? 1 : 0;
        if (want->cached) {
            snprintf(what, sizeof(what), "parent of page %d", page);
            expect_int(what, got->parent, model_parent(f, want));
            snprintf(what, sizeof(what), "children of page %d", page);
            expect_int(what, got->children, model_children(f, page));
        }
    }
    expect_int("free pages", f->pool.free, free_pages);
}

// ---- steps --------------------------------------------------------------------------------------

// A sequence of the suite: its prompt and its pages.
typedef struct Prompt {
    int64_t count, pages;
    int32_t tokens[MODEL_TOKENS], table[MODEL_TOKENS];
} Prompt;

// "ABCDEF": tokens 65, 66, ...
static inline Prompt prompt_of(const char *text) {
    Prompt p = {.count = (int64_t)strlen(text)};
    for (int64_t i = 0; i < p.count; i++) {
        p.tokens[i] = text[i];
    }
    return p;
}

// The numbers in memory that ends with the last one; to be freed.
static inline int32_t *exact_copy(const int32_t *numbers, int64_t count) {
    int32_t *copy = malloc((size_t)count * sizeof(*copy) + (count == 0 ? 1 : 0));
    if (copy == NULL) {
        grade_fail("out of memory");
    } else {
        memcpy(copy, numbers, (size_t)count * sizeof(*copy));
    }
    return copy;
}

// Free pages for the rest of the prompt, taken by the suite.
static inline void take_free(Fixture *f, Prompt *p) {
    const int64_t pages = (p->count + f->pool.page_size - 1) / f->pool.page_size;
    for (; p->pages < pages; p->pages++) {
        p->table[p->pages] = pool_take(&f->pool);
        f->references[p->table[p->pages]] = 1;
    }
}

static inline void insert(Fixture *f, const Prompt *p) {
    int32_t *tokens = exact_copy(p->tokens, p->count), *table = exact_copy(p->table, p->pages);
    cache_insert(&f->cache, p->count, tokens, table);
    model_insert(f, p->count, p->tokens, p->table);
    free(tokens);
    free(table);
}

static inline void release(Fixture *f, const Prompt *p) {
    for (int64_t i = 0; i < p->pages; i++) {
        pool_release(&f->pool, p->table[i]);
        f->references[p->table[i]]--;
    }
}

// Computes a prompt in free pages, inserts it, and goes.
static inline void insert_and_go(Fixture *f, const char *text) {
    Prompt p = prompt_of(text);
    take_free(f, &p);
    insert(f, &p);
    release(f, &p);
    expect_records(f);
}

// Looks the prompt up, in memory that ends with its last token, and checks what comes back.
static inline void lookup(Fixture *f, Prompt *p) {
    int32_t want[MODEL_TOKENS];
    char what[64];
    int32_t *tokens = exact_copy(p->tokens, p->count);
    p->pages = model_lookup(f, p->count, p->tokens, want);
    int32_t *got = exact_copy(want, p->pages);
    memset(got, 0xFF, (size_t)p->pages * sizeof(int32_t));
    expect_int("blocks found", cache_lookup(&f->cache, p->count, tokens, got), p->pages);
    for (int64_t i = 0; i < p->pages; i++) {
        snprintf(what, sizeof(what), "pages[%lld]", (long long)i);
        expect_int(what, got[i], want[i]);
        p->table[i] = want[i];
    }
    free(tokens);
    free(got);
}

static inline Prompt looked_up(Fixture *f, const char *text, int64_t blocks) {
    Prompt p = prompt_of(text);
    grade_case("blocks of %d: \"%s\" is looked up", f->pool.page_size, text);
    lookup(f, &p);
    if (p.pages != blocks) {
        grade_fail("the suite expected %lld blocks itself", (long long)blocks);
    }
    expect_records(f);
    return p;
}

// A prompt of up to 24 tokens of two kinds: most of them have something in common.
static inline Prompt random_prompt(uint64_t seed) {
    Prompt p = {.count = 1 + (int64_t)(seed / 7 % 24)};
    for (int64_t i = 0; i < p.count; i++) {
        p.tokens[i] = 65 + (int32_t)(seed >> (24 + i % 20) & 1U);
    }
    return p;
}

static inline uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return *state >> 11;
}

#endif
