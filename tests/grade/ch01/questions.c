// The questions of chapter 1: the expected answers, computed from the cards of common/model.h.
#include "common/model.h"
#include "tests/grade/grade.h"

#include <math.h>

static const double MIB = 1024.0 * 1024.0;
static const double GB = 1e9;

static double score_matrix_mib(void) {
    return 4 * score_elements(4096) / MIB;
}

static double naive_traffic_mib(void) {
    return 4 * naive_hbm_elements(4096, 64, false) / MIB;
}

static double intensity_compulsory(void) {
    return arithmetic_intensity(attention_flops(4096, 4096, 64), 4 * compulsory_elements(4096, 64));
}

static double intensity_naive(void) {
    return arithmetic_intensity(attention_flops(256, 256, 128),
                                2 * naive_hbm_elements(256, 128, false));
}

// The length at which 4N^2 + 4Nd is `times` 4Nd, found by bisection on the cards themselves.
static double len_where_ratio_is(double times, double dim) {
    double low = 1, high = 1e6;

    while (high - low > 1e-6) {
        const double len = (low + high) / 2;
        if (naive_hbm_elements(len, dim, false) < times * compulsory_elements(len, dim)) {
            low = len;
        } else {
            high = len;
        }
    }
    return high;
}

static double len_of_tenfold_traffic(void) {
    return len_where_ratio_is(10, 64);
}

// S and P of 32 heads in 16 bits: 32 * 2 * 2 * N^2 bytes.
static double len_that_fits(void) {
    return sqrt(80 * GB / (32 * 2 * 2));
}

static double model_bytes(void) {
    return 80 * 64 * 2 * naive_hbm_elements(4096, 128, false);
}

static double model_traffic_gb(void) {
    return model_bytes() / GB;
}

static double model_milliseconds(void) {
    return 1000 * seconds_at(model_bytes(), 8e12);
}

const GradeQuestion grade_questions[] = {
    {"q1", 1, score_matrix_mib, 0.01, "MiB", "N^2 elements of 4 bytes; a MiB is 2^20 bytes."},
    {"q2", 1, naive_traffic_mib, 0.005, "MiB",
     "4N^2 + 4Nd elements of 4 bytes: the scores and the probabilities, each written and read, and "
     "Q, K, V and O."},
    {"q3", 1, intensity_compulsory, 0.01, "FLOP/byte",
     "4N^2 d FLOP, a multiply-add counting 2, over the bytes of Q, K, V and O."},
    {"q4", 1, intensity_naive, 0.005, "FLOP/byte",
     "The same FLOP formula over the bytes that naive attention moves, 2 (4N^2 + 4Nd); at this "
     "N the term 4Nd is not small."},
    {"q5", 1, len_of_tenfold_traffic, 0.005, "queries",
     "Solve 4N^2 + 4Nd = 10 * 4Nd for N; the element size cancels."},
    {"q6", 1, len_that_fits, 0.005, "queries",
     "32 heads, two matrices each, N^2 elements of 2 bytes; here a GB is 10^9 bytes."},
    {"q7", 1, model_traffic_gb, 0.005, "GB",
     "One head moves 2 (4N^2 + 4Nd) bytes, and there are 80 * 64 of them; a GB is 10^9 bytes."},
    {"q8", 1, model_milliseconds, 0.01, "ms",
     "The bytes of q7 over 8 * 10^12 bytes per second, in milliseconds."},
    {NULL, 0, NULL, 0.0, NULL, NULL},
};
