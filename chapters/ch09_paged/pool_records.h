// The records of a pool, for block_pool.c, which changes them, and pool_check.c, which says whether
// they agree.
#ifndef CH09_POOL_RECORDS_H
#define CH09_POOL_RECORDS_H

#include "chapters/ch09_paged/block_pool.h"

typedef struct Sequence {
    bool open;
    int64_t length;   // tokens
    int64_t pages;    // ceil(length / page_size)
    int64_t capacity; // of the table
    int32_t *table;   // [pages]
} Sequence;

struct BlockPool {
    GpuTarget target;
    PageLayout layout;
    int64_t page_bytes; // of K; of V as many
    void *k, *v;        // [pages][heads_kv][page_size][dim], in the target's memory
    int64_t pages, free;
    int32_t *references; // [pages]
    int32_t *free_list;  // [free]: the last one is taken next
    int64_t sequences;
    Sequence *sequence; // [sequences]
};

#endif
