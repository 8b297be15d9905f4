// The kernel that writes tokens into their slots, as block_pool.c calls it.
#ifndef CH09_APPEND_H
#define CH09_APPEND_H

#include "chapters/ch09_paged/block_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

// Of one launch: pages that its parameters have room for, and tokens.
enum { APPEND_PAGES = 512, APPEND_TOKENS = 1 << 16 };

// Tokens first .. first + count - 1 of k and v go to slots slot, slot + 1, ... of the run of pages
// that `pages` lists: the j-th of them to slot (slot + j) % page_size of pages[(slot + j) /
// page_size]. The list travels with the launch, so that no memory of the target holds it, which a
// later append could overwrite too early.
typedef struct AppendParams {
    const void *k, *v;       // [heads_kv][tokens][dim]
    void *k_pages, *v_pages; // [pages][heads_kv][page_size][dim]
    PageLayout layout;
    int64_t tokens, first;
    int count; // at most APPEND_TOKENS
    int slot;  // below page_size
    int32_t pages[APPEND_PAGES];
} AppendParams;

// Launches it on the stream. Nothing to do where count is 0.
GPU_DECLARE(append, (const AppendParams *params, GpuStream stream));

#ifdef __cplusplus
}
#endif

#endif
