// The attention problem: its shape, its rules, its errors.
//
// Every attention entry point of the course takes one AttnShape. docs/conventions.md states the
// rules below for the reader; this header is where the code states them.
#ifndef COMMON_ATTN_H
#define COMMON_ATTN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum AttnStatus {
    ATTN_OK = 0,
    ATTN_ERR_SHAPE,       // a size, or a relation between sizes, is not legal
    ATTN_ERR_ARGUMENT,    // any other argument is not legal (scale, window, a null pointer)
    ATTN_ERR_UNSUPPORTED, // legal, but this kernel cannot do it
    ATTN_ERR_MEMORY,      // an allocation failed
    ATTN_ERR_IO,          // a file could not be read or written
    ATTN_ERR_CUDA,        // a CUDA call or launch failed
} AttnStatus;

// One problem. Tensors are contiguous and row-major: Q and O [batch][heads_q][len_q][dim],
// K and V [batch][heads_kv][len_kv][dim], LSE [batch][heads_q][len_q].
typedef struct AttnShape {
    int64_t batch;
    int64_t heads_q;
    int64_t heads_kv;       // divides heads_q; query head h reads KV head h / (heads_q / heads_kv)
    int64_t len_q;          // T
    int64_t len_kv;         // S
    int64_t dim;            // d, at least 1
    double scale;           // multiplies the scores; 0 stands for 1/sqrt(dim)
    bool causal;            // query i sees key j only when j <= i + (S - T)
    int64_t window;         // keys a query sees, its own counted; 0 = unlimited; needs causal
    const int32_t *kv_lens; // [batch] keys in use, each 0..len_kv (then S is that), or NULL
} AttnShape;

// A half-open range of key indices.
typedef struct KeyRange {
    int64_t begin, end;
} KeyRange;

// Checks every rule of AttnShape. Returns ATTN_OK, or ATTN_ERR_SHAPE / ATTN_ERR_ARGUMENT with a
// message that names the argument, its value and the rule. batch, len_q and len_kv may be 0.
AttnStatus attn_check_shape(const AttnShape *shape);

// Checks the pointers of a problem whose shape is legal: one that has elements must not be NULL.
// Returns ATTN_OK, or ATTN_ERR_ARGUMENT with a message that names the argument.
AttnStatus attn_check_pointers(const AttnShape *shape, const void *q, const void *k, const void *v,
                               const void *o, const void *lse);

// The factor the scores are multiplied by: shape->scale, or 1/sqrt(dim) where that is 0.
double attn_scale(const AttnShape *shape);

// Keys in use in one batch entry: S, or kv_lens[batch_index].
int64_t attn_keys(const AttnShape *shape, int64_t batch_index);

// The KV head that query head `head` reads (grouped-query attention).
int64_t attn_kv_head(const AttnShape *shape, int64_t head);

// The keys that query `row` may see: causal is bottom-right aligned, a window counts the query's
// own key. begin <= end always; begin == end is a row that sees nothing.
KeyRange attn_visible_keys(const AttnShape *shape, int64_t batch_index, int64_t row);

// Bytes of the keys and values in use, for elements of so many bytes: 2 heads_kv dim element times
// the keys of every entry.
double attn_kv_bytes(const AttnShape *shape, size_t element);

// ceil(a / b) for b > 0.
static inline int64_t attn_ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b > 0);
}

// Element counts of Q (and O), of K (and V), and of LSE.
size_t attn_count_q(const AttnShape *shape);
size_t attn_count_kv(const AttnShape *shape);
size_t attn_count_lse(const AttnShape *shape);

// Sets the calling thread's error message (printf-style) and returns `status`.
AttnStatus attn_fail(AttnStatus status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// The calling thread's last error message; "" when there was none.
const char *attn_last_error(void);

// The name of a status, "ATTN_ERR_SHAPE" for example.
const char *attn_status_name(AttnStatus status);

#ifdef __cplusplus
}
#endif

#endif
