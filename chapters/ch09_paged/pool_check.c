// Whether a pool agrees with itself, and with a reader of its pages. The records say everything
// twice: a page's references can be counted in the tables, and its being free follows from that. A
// page that is freed twice, or lost, is found here, and not by the sequence that gets it next.
#include "chapters/ch09_paged/pool_records.h"

#include <inttypes.h>
#include <stdlib.h>

AttnStatus block_pool_check_layout(const BlockPool *pool, const PageLayout *layout) {
    const struct {
        const char *name;
        int64_t ours, theirs;
    } sizes[] = {{"page_size", pool->layout.page_size, layout->page_size},
                 {"heads_kv", pool->layout.heads_kv, layout->heads_kv},
                 {"dim", pool->layout.dim, layout->dim}};
    for (int i = 0; i < 3; i++) {
        if (sizes[i].ours != sizes[i].theirs) {
            return attn_fail(ATTN_ERR_ARGUMENT,
                             "%s %" PRId64 ", but the pool's pages have %" PRId64, sizes[i].name,
                             sizes[i].theirs, sizes[i].ours);
        }
    }
    if (pool->layout.dtype != layout->dtype) {
        return attn_fail(ATTN_ERR_ARGUMENT, "dtype %s, but the pool's pages have %s",
                         dtype_name(layout->dtype), dtype_name(pool->layout.dtype));
    }
    return ATTN_OK;
}

// Counts in holders[] the tables that hold each page.
static AttnStatus count_tables(const BlockPool *pool, int32_t *holders) {
    for (int64_t s = 0; s < pool->sequences; s++) {
        const Sequence *sequence = &pool->sequence[s];
        const int64_t pages = attn_ceil_div(sequence->length, pool->layout.page_size);
        if (sequence->pages != pages || (!sequence->open && sequence->length != 0)) {
            return attn_fail(ATTN_ERR_ARGUMENT,
                             "sequence %" PRId64 ": %" PRId64 " pages for %" PRId64 " tokens%s", s,
                             sequence->pages, sequence->length, sequence->open ? "" : ", not open");
        }
        for (int64_t i = 0; i < pages; i++) {
            const int32_t page = sequence->table[i];
            if (page < 0 || page >= pool->pages) {
                return attn_fail(ATTN_ERR_ARGUMENT,
                                 "sequence %" PRId64 ", column %" PRId64 ": page %" PRId32
                                 " is not in 0..%" PRId64,
                                 s, i, page, pool->pages - 1);
            }
            holders[page]++;
        }
    }
    return ATTN_OK;
}

static AttnStatus check_pages(const BlockPool *pool, int32_t *holders) {
    for (int64_t page = 0; page < pool->pages; page++) {
        if (holders[page] != pool->references[page]) {
            return attn_fail(ATTN_ERR_ARGUMENT,
                             "page %" PRId64 ": %" PRId32 " references, but %" PRId32
                             " tables hold it",
                             page, pool->references[page], holders[page]);
        }
    }
    for (int64_t i = 0; i < pool->free; i++) {
        const int32_t page = pool->free_list[i];
        if (page < 0 || page >= pool->pages || holders[page] != 0) {
            return attn_fail(ATTN_ERR_ARGUMENT,
                             "page %" PRId32 " is in the free list, and in use, free twice or "
                             "none of 0..%" PRId64,
                             page, pool->pages - 1);
        }
        holders[page] = -1; // seen
    }
    for (int64_t page = 0; page < pool->pages; page++) {
        if (holders[page] == 0) {
            return attn_fail(ATTN_ERR_ARGUMENT, "page %" PRId64 " is lost: not in use, not free",
                             page);
        }
    }
    return ATTN_OK;
}

AttnStatus block_pool_check(const BlockPool *pool) {
    int32_t *holders = calloc((size_t)pool->pages, sizeof(*holders));
    if (holders == NULL) {
        return attn_fail(ATTN_ERR_MEMORY, "no memory to check %" PRId64 " pages", pool->pages);
    }
    AttnStatus status = count_tables(pool, holders);
    if (status == ATTN_OK) {
        status = check_pages(pool, holders);
    }
    free(holders);
    return status;
}
