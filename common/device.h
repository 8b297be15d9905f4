// What later chapters need of earlier ones, in the form in which it was taught: small functions in
// the subset that is both C11 and C++17, so that host code and kernels can share them.
#ifndef COMMON_DEVICE_H
#define COMMON_DEVICE_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__ // callable from both
#else
#define HOST_DEVICE
#endif

// The log-sum-exp merge (ch03): O and LSE over two disjoint sets of keys become O and LSE over
// their union, in place of the first. o_a and o_b [dim], not overlapping; natural logarithms.
//     lse = log(exp(lse_a) + exp(lse_b)),  o = exp(lse_a - lse) o_a + exp(lse_b - lse) o_b
// A part without keys has lse = -inf and is the identity: its output, which may hold anything, is
// not looked at. Two of them give o = 0, lse = -inf. Both orders of a and b give the same bits.
HOST_DEVICE static inline void merge_partials(int64_t dim, float *o_a, float *lse_a,
                                              const float *o_b, float lse_b) {
    if (lse_b == -INFINITY) {
        for (int64_t c = 0; c < dim && *lse_a == -INFINITY; c++) {
            o_a[c] = 0.0F;
        }
        return;
    }
    if (*lse_a == -INFINITY) {
        for (int64_t c = 0; c < dim; c++) {
            o_a[c] = o_b[c];
        }
        *lse_a = lse_b;
        return;
    }
    // With the larger LSE as the reference its part weighs 1 and the other at most 1.
    const int a_leads = *lse_a > lse_b;
    const float high = a_leads ? *lse_a : lse_b, low = a_leads ? lse_b : *lse_a;
    const float *o_high = a_leads ? o_a : o_b, *o_low = a_leads ? o_b : o_a;
    const float weight = expf(low - high);
    for (int64_t c = 0; c < dim; c++) {
        o_a[c] = (o_high[c] + weight * o_low[c]) / (1.0F + weight);
    }
    *lse_a = high + log1pf(weight);
}

// ---- masks (ch07) -------------------------------------------------------------------------------

// Which keys a query may see, for one batch entry: causal is bottom-right aligned (query i sees key
// j only when j <= i + (keys - len_q)), a window counts the query's own key, and what lies behind
// an entry's length is never seen.
typedef struct Mask {
    int len_q;  // T
    int keys;   // S: keys in use of this batch entry
    int causal; // 0 or 1
    int window; // 0: unlimited; needs causal
} Mask;

// A half-open range of keys, or of tiles of keys; empty where begin == end. 0 <= begin <= end.
typedef struct MaskRange {
    int begin, end;
} MaskRange;

typedef enum TileClass {
    TILE_SKIP = 0, // no query of the tile sees a key of it: not visited, not loaded
    TILE_PARTIAL,  // some pairs are visible: every score is asked for
    TILE_FULL,     // all are: nothing is asked
} TileClass;

// Whether query `row` sees `key`.
HOST_DEVICE static inline int mask_sees(Mask mask, int row, int key) {
    const int own = row + mask.keys - mask.len_q; // the key at the query's own position
    return key >= 0 && key < mask.keys && (!mask.causal || key <= own) &&
           (mask.window == 0 || key > own - mask.window);
}

// The keys that query `row` sees: they are always neighbours.
HOST_DEVICE static inline MaskRange mask_row_keys(Mask mask, int row) {
    const int own = row + mask.keys - mask.len_q;
    MaskRange range = {0, mask.keys};
    if (mask.causal && own + 1 < range.end) {
        range.end = own + 1 > 0 ? own + 1 : 0;
    }
    if (mask.window != 0 && own + 1 - mask.window > 0) {
        range.begin = own + 1 - mask.window;
    }
    range.begin = range.begin < range.end ? range.begin : range.end;
    return range;
}

// The keys that at least one of the queries row0 .. row0 + rows - 1 sees. Rows from len_q on do not
// count. The range has no holes, because the next query's range begins at most one key later.
HOST_DEVICE static inline MaskRange mask_tile_keys(Mask mask, int row0, int rows) {
    const int last = row0 + rows < mask.len_q ? row0 + rows - 1 : mask.len_q - 1;
    MaskRange range = {0, 0};
    if (row0 <= last) {
        range.begin = mask_row_keys(mask, row0).begin; // of a row that sees nothing: 0
        range.end = mask_row_keys(mask, last).end;
    }
    return range;
}

// What the queries row0 .. row0 + rows - 1 see of the keys key0 .. key0 + count - 1. Rows from
// len_q on do not count; keys from mask.keys on are never seen.
HOST_DEVICE static inline TileClass mask_tile(Mask mask, int row0, int rows, int key0, int count) {
    const int last = row0 + rows < mask.len_q ? row0 + rows - 1 : mask.len_q - 1;
    const MaskRange any = mask_tile_keys(mask, row0, rows);
    if (row0 > last || key0 >= any.end || key0 + count <= any.begin) {
        return TILE_SKIP;
    }
    // All see a tile when the first row sees its end and the last row its beginning.
    const MaskRange first_row = mask_row_keys(mask, row0), last_row = mask_row_keys(mask, last);
    return key0 + count <= first_row.end && key0 >= last_row.begin ? TILE_FULL : TILE_PARTIAL;
}

#endif
