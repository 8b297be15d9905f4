// The log-sum-exp merge: attention over any split of the keys, put together again.
//
// A part of the keys leaves behind its output O (normalised over that part) and its log-sum-exp.
// Those two are enough to merge parts in any order and any grouping; merge_partials, the merge of
// two, stands in common/device.h, since later chapters use it too.
#ifndef CH03_MERGE_H
#define CH03_MERGE_H

#include "common/attn.h"
#include "common/device.h"

#ifdef __cplusplus
extern "C" {
#endif

// Merges `parts` partial results of one row at once, in one pass with the largest LSE as reference:
// o_parts [parts][dim] and lse_parts [parts] give o [dim] and *lse. Parts with lse = -inf are not
// looked at; without any other, o = 0 and *lse = -inf. o must not overlap o_parts.
void merge_many(int64_t parts, int64_t dim, const float *o_parts, const float *lse_parts, float *o,
                float *lse);

// The keys of part `index` when `count` keys are cut into `parts`: consecutive ranges that cover
// them, sizes differing by at most 1; empty ranges where there are more parts than keys.
KeyRange split_range(int64_t count, int64_t parts, int64_t index);

// Floats of workspace for split_attention: O and LSE of every part of every row, batch heads_q
// len_q min(splits, len_kv) (dim + 1), with at least one part a row. 0 for splits below 1.
size_t split_workspace_floats(const AttnShape *shape, int64_t splits);

// Attention with the visible keys of every row cut into `splits` parts: the parts are computed
// apart, by `threads` OpenMP threads (0: all that this process may use), then merged row by row.
// q, o [batch][heads_q][len_q][dim]; k, v [batch][heads_kv][len_kv][dim]; lse
// [batch][heads_q][len_q]; workspace [split_workspace_floats]. Any number of splits is legal; from
// len_kv on, all give the same. Given splits, the result is the same bits on any number of threads.
// Errors: those of attn_check_shape and attn_check_pointers, ATTN_ERR_ARGUMENT for splits below 1,
// threads below 0 or no workspace; nothing is written then.
AttnStatus split_attention(const AttnShape *shape, const float *q, const float *k, const float *v,
                           int64_t splits, int threads, float *o, float *lse, float *workspace);

#ifdef __cplusplus
}
#endif

#endif
