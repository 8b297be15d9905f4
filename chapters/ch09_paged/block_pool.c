// The host's side of a paged cache: which page belongs to whom. Nothing here depends on what a page
// holds. There are three kinds of records (pool_records.h), and block_pool_check says whether they
// agree:
//
//     table        of a sequence: the pages of its tokens, in order
//     references   of a page: how many tables hold it
//     free list    the pages that no table holds
//
// An operation that can fail first does what can fail, with the records as they were, and changes
// them at its end.
#include "chapters/ch09_paged/block_pool.h"

#include "chapters/ch09_paged/append.h"
#include "chapters/ch09_paged/pool_records.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LENGTH = 1 << 30, MAX_PAGES = 1 << 30 }; // of a sequence; kernels count in int

static AttnStatus (*const append_builds[])(const AppendParams *, GpuStream) = GPU_BUILDS(append);

// ---- making a pool ------------------------------------------------------------------------------

static AttnStatus check_layout(const PageLayout *layout) {
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {
        {"page_size", layout->page_size}, {"heads_kv", layout->heads_kv}, {"dim", layout->dim}};
    for (int i = 0; i < 3; i++) {
        if (sizes[i].value < 1 || sizes[i].value > MAX_LENGTH) {
            return attn_fail(ATTN_ERR_SHAPE, "%s %" PRId64 " must be 1..2^30", sizes[i].name,
                             sizes[i].value);
        }
    }
    if (layout->dtype != DTYPE_F32 && layout->dtype != DTYPE_F16 && layout->dtype != DTYPE_BF16) {
        return attn_fail(ATTN_ERR_SHAPE, "dtype %d: it is f32, f16 or bf16", (int)layout->dtype);
    }
    return ATTN_OK;
}

// The elements of a page; and of all pages, which must be a number of bytes.
static AttnStatus check_sizes(const PageLayout *layout, int64_t pages, int64_t sequences,
                              int64_t *page_elements) {
    int64_t all;
    if (pages < 1 || pages > MAX_PAGES) {
        return attn_fail(ATTN_ERR_SHAPE, "pages %" PRId64 " must be 1..2^30", pages);
    }
    if (sequences < 1 || sequences > MAX_PAGES) {
        return attn_fail(ATTN_ERR_SHAPE, "sequences %" PRId64 " must be 1..2^30", sequences);
    }
    if (__builtin_mul_overflow(layout->page_size * layout->heads_kv, layout->dim, page_elements) ||
        __builtin_mul_overflow(*page_elements, 4 * pages, &all)) {
        return attn_fail(ATTN_ERR_SHAPE,
                         "%" PRId64 " pages of %" PRId64 " x %" PRId64 " x %" PRId64
                         " elements are more than can be addressed",
                         pages, layout->heads_kv, layout->page_size, layout->dim);
    }
    return ATTN_OK;
}

static AttnStatus allocate(BlockPool *pool, int64_t page_elements) {
    const size_t element = dtype_size(pool->layout.dtype);
    const size_t count = (size_t)pool->pages * (size_t)page_elements;
    pool->page_bytes = page_elements * (int64_t)element;
    pool->references = calloc((size_t)pool->pages, sizeof(*pool->references));
    pool->free_list = calloc((size_t)pool->pages, sizeof(*pool->free_list));
    pool->sequence = calloc((size_t)pool->sequences, sizeof(*pool->sequence));
    if (pool->references == NULL || pool->free_list == NULL || pool->sequence == NULL) {
        return attn_fail(ATTN_ERR_MEMORY, "no memory for the records of %" PRId64 " pages",
                         pool->pages);
    }
    const AttnStatus status = gpu_alloc(pool->target, &pool->k, "k_pages", count, element);
    return status != ATTN_OK ? status
                             : gpu_alloc(pool->target, &pool->v, "v_pages", count, element);
}

AttnStatus block_pool_make(BlockPool **pool, GpuTarget target, const PageLayout *layout,
                           int64_t pages, int64_t sequences) {
    *pool = NULL;
    int64_t page_elements = 0;
    AttnStatus status = check_layout(layout);
    if (status == ATTN_OK) {
        status = check_sizes(layout, pages, sequences, &page_elements);
    }
    if (status != ATTN_OK) {
        return status;
    }
    BlockPool *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return attn_fail(ATTN_ERR_MEMORY, "no memory for a pool");
    }
    made->target = target;
    made->layout = *layout;
    made->pages = made->free = pages;
    made->sequences = sequences;
    status = allocate(made, page_elements);
    if (status != ATTN_OK) {
        block_pool_free(made);
        return status;
    }
    for (int64_t i = 0; i < pages; i++) {
        made->free_list[i] = (int32_t)(pages - 1 - i); // page 0 is taken first
    }
    *pool = made;
    return ATTN_OK;
}

void block_pool_free(BlockPool *pool) {
    if (pool == NULL) {
        return;
    }
    for (int64_t s = 0; pool->sequence != NULL && s < pool->sequences; s++) {
        free(pool->sequence[s].table);
    }
    gpu_free(pool->target, pool->k);
    gpu_free(pool->target, pool->v);
    free(pool->references);
    free(pool->free_list);
    free(pool->sequence);
    free(pool);
}

// ---- what it is ---------------------------------------------------------------------------------

GpuTarget block_pool_target(const BlockPool *pool) {
    return pool->target;
}

const PageLayout *block_pool_layout(const BlockPool *pool) {
    return &pool->layout;
}

int64_t block_pool_pages(const BlockPool *pool) {
    return pool->pages;
}

int64_t block_pool_free_pages(const BlockPool *pool) {
    return pool->free;
}

const void *block_pool_k(const BlockPool *pool) {
    return pool->k;
}

const void *block_pool_v(const BlockPool *pool) {
    return pool->v;
}

// The sequence of a number, or NULL.
static Sequence *find(const BlockPool *pool, int64_t sequence) {
    return sequence >= 0 && sequence < pool->sequences && pool->sequence[sequence].open
               ? &pool->sequence[sequence]
               : NULL;
}

static AttnStatus not_open(const char *call, int64_t sequence) {
    return attn_fail(ATTN_ERR_ARGUMENT, "%s: sequence %" PRId64 " is not open", call, sequence);
}

int64_t block_pool_length(const BlockPool *pool, int64_t sequence) {
    const Sequence *found = find(pool, sequence);
    return found == NULL ? -1 : found->length;
}

const int32_t *block_pool_table(const BlockPool *pool, int64_t sequence) {
    const Sequence *found = find(pool, sequence);
    return found == NULL ? NULL : found->table;
}

int64_t block_pool_references(const BlockPool *pool, int64_t page) {
    return page >= 0 && page < pool->pages ? pool->references[page] : 0;
}

// ---- sequences ----------------------------------------------------------------------------------

// Room in a sequence's table for `pages` pages. What it holds stays.
static AttnStatus reserve(Sequence *sequence, int64_t pages) {
    if (pages <= sequence->capacity) {
        return ATTN_OK;
    }
    const int64_t capacity = pages > 2 * sequence->capacity ? pages : 2 * sequence->capacity;
    int32_t *table = realloc(sequence->table, (size_t)capacity * sizeof(*table));
    if (table == NULL) {
        return attn_fail(ATTN_ERR_MEMORY, "no memory for a table of %" PRId64 " pages", capacity);
    }
    sequence->table = table;
    sequence->capacity = capacity;
    return ATTN_OK;
}

// The page leaves a table. Once it is in no other it is free.
static void release(BlockPool *pool, int32_t page) {
    pool->references[page]--;
    if (pool->references[page] == 0) {
        pool->free_list[pool->free] = page;
        pool->free++;
    }
}

AttnStatus block_pool_open(BlockPool *pool, int64_t *sequence) {
    *sequence = -1;
    for (int64_t s = 0; s < pool->sequences; s++) {
        if (!pool->sequence[s].open) {
            pool->sequence[s].open = true;
            *sequence = s;
            return ATTN_OK;
        }
    }
    return attn_fail(ATTN_ERR_MEMORY, "all %" PRId64 " sequences are in use", pool->sequences);
}

// Pages from number `first` of its table on.
static void release_from(BlockPool *pool, Sequence *sequence, int64_t first) {
    for (int64_t i = sequence->pages - 1; i >= first; i--) {
        release(pool, sequence->table[i]);
    }
    sequence->pages = first;
}

AttnStatus block_pool_close(BlockPool *pool, int64_t sequence) {
    Sequence *closed = find(pool, sequence);
    if (closed == NULL) {
        return not_open("block_pool_close", sequence);
    }
    release_from(pool, closed, 0);
    free(closed->table);
    *closed = (Sequence){0};
    return ATTN_OK;
}

AttnStatus block_pool_fork(BlockPool *pool, int64_t sequence, int64_t *fork) {
    *fork = -1;
    const Sequence *old = find(pool, sequence);
    int64_t number = -1;
    if (old == NULL) {
        return not_open("block_pool_fork", sequence);
    }
    AttnStatus status = block_pool_open(pool, &number);
    if (status != ATTN_OK) {
        return status;
    }
    Sequence *made = &pool->sequence[number];
    status = reserve(made, old->pages);
    if (status != ATTN_OK) {
        *made = (Sequence){0};
        return status;
    }
    for (int64_t i = 0; i < old->pages; i++) {
        made->table[i] = old->table[i];
        pool->references[old->table[i]]++;
    }
    made->pages = old->pages;
    made->length = old->length;
    *fork = number;
    return ATTN_OK;
}

AttnStatus block_pool_truncate(BlockPool *pool, int64_t sequence, int64_t tokens) {
    Sequence *found = find(pool, sequence);
    if (found == NULL) {
        return not_open("block_pool_truncate", sequence);
    }
    if (tokens < 0 || tokens > found->length) {
        return attn_fail(ATTN_ERR_ARGUMENT,
                         "tokens %" PRId64 ": sequence %" PRId64 " has %" PRId64 " tokens", tokens,
                         sequence, found->length);
    }
    release_from(pool, found, attn_ceil_div(tokens, pool->layout.page_size));
    found->length = tokens;
    return ATTN_OK;
}

// ---- appending ----------------------------------------------------------------------------------

// What an append takes from the free list.
typedef struct Growth {
    bool copy;     // the last page is shared and has room: it is copied first
    int64_t added; // pages behind the last one
    int64_t taken; // both together
} Growth;

static Growth growth_of(const BlockPool *pool, const Sequence *sequence, int64_t tokens) {
    const int64_t room = sequence->pages * pool->layout.page_size - sequence->length;
    Growth growth = {0};
    growth.copy = room > 0 && pool->references[sequence->table[sequence->pages - 1]] > 1;
    growth.added = tokens > room ? attn_ceil_div(tokens - room, pool->layout.page_size) : 0;
    growth.taken = growth.added + growth.copy;
    return growth;
}

static AttnStatus check_append(const BlockPool *pool, const Sequence *sequence, int64_t number,
                               int64_t tokens, const void *k, const void *v) {
    if (sequence == NULL) {
        return not_open("block_pool_append", number);
    }
    if (tokens < 0) {
        return attn_fail(ATTN_ERR_ARGUMENT, "tokens %" PRId64 " must not be negative", tokens);
    }
    if (tokens > 0 && (k == NULL || v == NULL)) {
        return attn_fail(ATTN_ERR_ARGUMENT, "%s is a null pointer", k == NULL ? "k" : "v");
    }
    if (append_builds[pool->target] == NULL) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "block_pool_append: no %s in this build",
                         gpu_target_name(pool->target));
    }
    return ATTN_OK;
}

// The i-th page that the free list gives.
static int32_t next_free(const BlockPool *pool, int64_t i) {
    return pool->free_list[pool->free - 1 - i];
}

// Writes the tokens into the pages that the sequence will have: those of its table up to the last
// one, and then `taken` ones of the free list.
static AttnStatus write_tokens(const BlockPool *pool, const Sequence *sequence, Growth growth,
                               int64_t tokens, const void *k, const void *v, GpuStream stream) {
    const int64_t page_size = pool->layout.page_size, kept = sequence->pages - growth.copy;
    AppendParams params = {.k = k,
                           .v = v,
                           .k_pages = pool->k,
                           .v_pages = pool->v,
                           .layout = pool->layout,
                           .tokens = tokens};
    AttnStatus status = ATTN_OK;
    while (status == ATTN_OK && params.first < tokens) {
        const int64_t position = sequence->length + params.first, column = position / page_size;
        params.slot = (int)(position % page_size);
        int64_t count = tokens - params.first;
        count = count < APPEND_TOKENS ? count : APPEND_TOKENS;
        const int64_t fits = APPEND_PAGES * page_size - params.slot;
        params.count = (int)(count < fits ? count : fits);
        const int64_t pages = attn_ceil_div(params.slot + params.count, page_size);
        for (int64_t i = 0; i < pages; i++) {
            params.pages[i] = column + i < kept ? sequence->table[column + i]
                                                : next_free(pool, column + i - kept);
        }
        status = append_builds[pool->target](&params, stream);
        params.first += params.count;
    }
    return status;
}

// Copies the sequence's last page to the free page that will take its place.
static AttnStatus copy_last_page(const BlockPool *pool, const Sequence *sequence,
                                 GpuStream stream) {
    const int64_t from = sequence->table[sequence->pages - 1] * pool->page_bytes;
    const int64_t to = next_free(pool, 0) * pool->page_bytes;
    const size_t bytes = (size_t)pool->page_bytes;
    const AttnStatus status =
        gpu_copy(pool->target, (char *)pool->k + to, (const char *)pool->k + from, bytes, stream);
    return status != ATTN_OK ? status
                             : gpu_copy(pool->target, (char *)pool->v + to,
                                        (const char *)pool->v + from, bytes, stream);
}

AttnStatus block_pool_append(BlockPool *pool, int64_t sequence, int64_t tokens, const void *k,
                             const void *v, GpuStream stream) {
    Sequence *found = find(pool, sequence);
    AttnStatus status = check_append(pool, found, sequence, tokens, k, v);
    if (status != ATTN_OK || tokens == 0) {
        return status;
    }
    const Growth growth = growth_of(pool, found, tokens);
    if (growth.taken > pool->free) {
        return attn_fail(ATTN_ERR_MEMORY,
                         "sequence %" PRId64 " needs %" PRId64 " pages for %" PRId64
                         " tokens more, %" PRId64 " of %" PRId64 " are free",
                         sequence, growth.taken, tokens, pool->free, pool->pages);
    }
    if (tokens > MAX_LENGTH - found->length) {
        return attn_fail(ATTN_ERR_UNSUPPORTED,
                         "sequence %" PRId64 ": %" PRId64 " tokens and %" PRId64
                         " more; a sequence has at most 2^30",
                         sequence, found->length, tokens);
    }
    status = reserve(found, found->pages + growth.added);
    if (status == ATTN_OK && growth.copy) {
        status = copy_last_page(pool, found, stream);
    }
    if (status == ATTN_OK) {
        status = write_tokens(pool, found, growth, tokens, k, v, stream);
    }
    if (status != ATTN_OK) {
        return status; // what was written lies in slots that nobody has
    }
    if (growth.copy) {
        pool->references[found->table[found->pages - 1]]--; // somebody else keeps it
        found->pages--;
    }
    for (int64_t i = 0; i < growth.taken; i++) {
        pool->free--;
        found->table[found->pages] = pool->free_list[pool->free];
        pool->references[found->table[found->pages]] = 1;
        found->pages++;
    }
    found->length += tokens;
    return ATTN_OK;
}
