// Chapter 9's cards: what a page holds, what a table costs, where offsets of 32 bits end, what
// pages waste and save. Every number of the lesson that is computed rather than measured comes from
// here.
#ifndef CH09_CARDS_H
#define CH09_CARDS_H

#include "chapters/ch09_paged/block_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TABLE_ENTRY = 4 }; // bytes: an int32

// Bytes of K and V of one page in one layer: 2 heads_kv page dim element.
double page_bytes(double page, double heads_kv, double dim, double element);

// Entries that name the pages of `keys` keys, the first of which begins a page: ceil(keys / page).
int64_t page_lookups(int64_t keys, int64_t page);

// The first page of this layout whose offset in K is `limit` elements or more.
int64_t page_beyond(const PageLayout *layout, int64_t limit);

// Bytes of the entries that name the pages in use: those of kv_lens, or else len_kv.
double page_table_bytes(const AttnShape *shape, int64_t page);

// ---- waste --------------------------------------------------------------------------------------

// Lengths of a batch as a server might see them: log-normal, exp(spread z) median with z normal
// (the sum of twelve uniform numbers, less 6), cut to 1..longest. The same for the same seed.
void ragged_lengths(int32_t *lens, int64_t batch, double median, double spread, int32_t longest,
                    uint64_t seed);

// Tokens of a batch, and slots that are held for them.
typedef struct PageWaste {
    int64_t used;       // the sum of lens
    int64_t contiguous; // batch times `reserved`
    int64_t paged;      // whole pages: the sum of ceil(len / page) page
    int64_t worst;      // empty slots of one sequence, at most page - 1
} PageWaste;
PageWaste page_waste(const int32_t *lens, int64_t batch, int64_t page, int64_t reserved);

// ---- sharing ------------------------------------------------------------------------------------

// Pages of n sequences that begin with the same `prompt` tokens and each go on with `own` tokens:
// every sequence apart, n ceil((prompt + own) / page); forked, the full pages of the prompt once,
// and the rest for each.
int64_t pages_apart(int64_t n, int64_t prompt, int64_t own, int64_t page);
int64_t pages_forked(int64_t n, int64_t prompt, int64_t own, int64_t page);

// Pages that are copied on the way: the prompt's last page, when it has room, by all but the last
// sequence to write, which has it alone by then.
int64_t pages_copied(int64_t n, int64_t prompt, int64_t own, int64_t page);

#ifdef __cplusplus
}
#endif

#endif
