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

#endif
