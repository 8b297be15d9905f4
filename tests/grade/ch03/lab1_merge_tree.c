// The suite of lab 1, parts merged in place as a tree: one merge by hand, one level, then trees
// over any number of parts against the merge in float64.
#include "tests/grade/ch03/parts.h"

#include <stdio.h>

const char grade_title[] = "a merge tree in place";

static const float ln2 = 0.69314718f, ln3 = 1.09861229f;

// How far a merge may be off: the LSE absolutely, O relative to the largest |O| of the parts. With
// u = 2^-24, one merge rounds the new LSE by |lse| u and weights and sums by some 8 u. The weight
// that a part has in the end is a product over the levels, in which everything cancels but these
// errors of each level; as much again is allowed for weights taken as exp(lse_part - lse).
static double merge_tolerance(double levels, double lse_max) {
    return isinf(lse_max) ? 0.0 : 2.0 * levels * (lse_max + 16.0) * 0x1p-24;
}

// ---- one merge ----------------------------------------------------------------------------------

typedef struct Part {
    float o[3];
    float lse;
} Part;

// Merges b into a and checks the result. Where a tolerance of 0 is asked for, it must be exact.
static void expect_pair(const Part *a, const Part *b, const double want[3], double lse_want,
                        double tolerance) {
    float *o_a = grade_floats(3), *o_b = grade_floats(3), *lse = grade_floats(1);
    for (int c = 0; c < 3; c++) {
        o_a[c] = a->o[c];
        o_b[c] = b->o[c];
    }
    *lse = a->lse;
    grade_case("(%g, %g, %g) with LSE %g joins (%g, %g, %g) with LSE %g", (double)b->o[0],
               (double)b->o[1], (double)b->o[2], (double)b->lse, (double)a->o[0], (double)a->o[1],
               (double)a->o[2], (double)a->lse);
    merge_pair(3, o_a, lse, o_b, b->lse);
    expect_array("o", o_a, want, 1, 3, tolerance * 10.0);
    expect_close("lse", (double)*lse, lse_want, tolerance);
}

static void expect_both_orders(const Part *a, const Part *b, const double want[3], double lse_want,
                               double tolerance) {
    expect_pair(a, b, want, lse_want, tolerance);
    expect_pair(b, a, want, lse_want, tolerance);
}

static void test_two_parts(void) {
    const Part a = {{2.0f, -1.0f, 0.0f}, 0.0f}, b = {{5.0f, 2.0f, 9.0f}, ln2};
    expect_both_orders(&a, &b, (double[]){4.0, 1.0, 6.0}, log(3.0), merge_tolerance(1.0, 2.0));
}

static void test_large_lse(void) {
    const float level[] = {-200.0f, 1000.0f, -1000.0f, -60000.0f};
    const double p = 1.0 / (1.0 + exp(-1.0));
    for (int i = 0; i < 4; i++) {
        const Part a = {{1.0f, 0.0f, 2.0f}, level[i]}, b = {{0.0f, 1.0f, 2.0f}, level[i] - 1.0f};
        expect_both_orders(&a, &b, (double[]){p, 1.0 - p, 2.0}, (double)level[i] - log(p),
                           merge_tolerance(1.0, fabs((double)level[i])));
    }
}

static void test_far_apart(void) {
    const Part a = {{1.0f, 2.0f, 3.0f}, 100.0f}, b = {{5.0f, 5.0f, 5.0f}, -100.0f};
    expect_both_orders(&a, &b, (double[]){1.0, 2.0, 3.0}, 100.0, merge_tolerance(1.0, 100.0));
}

// An empty part, whatever it holds, leaves the other exactly as it is.
static void expect_identity(float held) {
    const Part empty = {{held, held, held}, -INFINITY};
    const float lse[] = {0.0f, 3.5f, -60000.0f};
    for (int i = 0; i < 3; i++) {
        const Part a = {{2.0f, 0.1f, -7.0f}, lse[i]};
        expect_both_orders(&a, &empty, (double[]){2.0, (double)0.1f, -7.0}, (double)lse[i], 0.0);
    }
}

static void test_empty_is_identity(void) {
    expect_identity(0.0f);
}

static void test_empty_garbage(void) {
    expect_identity(9.0f);
    expect_identity(NAN);
}

static void test_two_empty(void) {
    const float held[] = {0.0f, 9.0f, NAN};
    for (int i = 0; i < 3; i++) {
        const Part empty = {{held[i], held[i], held[i]}, -INFINITY};
        const Part other = {{2.0f, 0.1f, -7.0f}, 0.0f};
        float *o = grade_floats(3), lse = -INFINITY;
        expect_pair(&empty, &empty, (double[]){0.0, 0.0, 0.0}, -INFINITY, 0.0);
        for (int c = 0; c < 3; c++) {
            o[c] = held[i];
        }
        grade_case("two empty parts that hold %g, then (2, 0.1, -7) with LSE 0", (double)held[i]);
        merge_pair(3, o, &lse, empty.o, empty.lse);
        merge_pair(3, o, &lse, other.o, other.lse);
        expect_array("o", o, (double[]){2.0, (double)0.1f, -7.0}, 1, 3, 0.0);
        expect_close("lse", (double)lse, 0.0, 0.0);
    }
}

// A NaN in a part that has keys is seen, even where the part weighs next to nothing.
static void test_nan_reaches(void) {
    const float lse[] = {0.0f, -200.0f};
    for (int i = 0; i < 2; i++) {
        for (int order = 0; order < 2; order++) {
            float *o_a = grade_floats(2), *o_b = grade_floats(2), lse_a = order ? 0.0f : lse[i];
            const float lse_b = order ? lse[i] : 0.0f;
            o_a[0] = order ? 1.0f : NAN;
            o_b[0] = order ? NAN : 1.0f;
            o_a[1] = o_b[1] = 4.0f;
            grade_case("O = (NaN, 4) with LSE %g and O = (1, 4) with LSE 0", (double)lse[i]);
            merge_pair(2, o_a, &lse_a, o_b, lse_b);
            if (!isnan(o_a[0])) {
                grade_fail("o[0]: got %g, expected nan", (double)o_a[0]);
            }
            expect_close("o[1]", (double)o_a[1], 4.0, 4e-6);
        }
    }
}

// ---- levels and trees ---------------------------------------------------------------------------

// Checks part i against the merge of the parts begin .. end - 1 of `before`.
static void expect_merged(const Parts *before, const Parts *after, int64_t i, int64_t begin,
                          int64_t end) {
    char name[64];
    double want[DIM_MAX];
    const double lse = merge_of(before, begin, end, want);
    double o_max = 0.0, lse_max = 0.0;
    for (int64_t p = begin; p < end; p++) {
        if (before->lse[p] != -INFINITY) {
            lse_max = fmax(lse_max, fabs((double)before->lse[p]));
            for (int64_t c = 0; c < before->dim; c++) {
                o_max = fmax(o_max, fabs((double)before->o[p * before->dim + c]));
            }
        }
    }
    const double merged = (double)(end - begin);
    const double cost = merge_tolerance(ceil(log2(merged)), lse_max + log(merged));
    snprintf(name, sizeof(name), "part %lld: lse", (long long)i);
    expect_close(name, (double)after->lse[i], lse, isinf(lse) ? 0.0 : cost);
    if (i == 0 ||
        lse != -INFINITY) { // a part left empty may hold anything, but part 0 is the result
        snprintf(name, sizeof(name), "part %lld: o", (long long)i);
        expect_array(name, after->o + i * after->dim, want, 1, (size_t)after->dim,
                     isinf(lse) ? 0.0 : cost * o_max);
    }
}

// Runs the tree and checks every part: part 0 is the merge of all; part i that of the parts
// i .. i + b - 1, b being the lowest bit of i.
static void expect_tree(const Parts *before) {
    const Parts after = copy_parts(before);
    merge_tree(after.count, after.dim, after.o, after.lse);
    for (int64_t i = 0; i < before->count; i++) {
        const int64_t end = i == 0 ? before->count : i + (i & -i);
        expect_merged(before, &after, i, i, end < before->count ? end : before->count);
    }
}

static void test_one_level(void) {
    for (int64_t count = 1; count <= 9; count++) {
        for (int64_t stride = 1; stride <= 8; stride *= 2) {
            const Parts before = random_parts(count, 3, 0.0f, 10 + (uint64_t)count);
            const Parts after = copy_parts(&before);
            grade_case("one level of stride %lld over %lld parts, dim 3", (long long)stride,
                       (long long)count);
            merge_level(count, 3, stride, after.o, after.lse);
            for (int64_t i = 0; i < count; i++) {
                if (i % (2 * stride) == 0 && i + stride < count) {
                    Parts two = random_parts(2, 3, 0.0f, 0);
                    memcpy(two.o, before.o + 3 * i, 3 * sizeof(float));
                    memcpy(two.o + 3, before.o + 3 * (i + stride), 3 * sizeof(float));
                    two.lse[0] = before.lse[i];
                    two.lse[1] = before.lse[i + stride];
                    expect_merged(&two, &(Parts){1, 3, after.o + 3 * i, after.lse + i}, 0, 0, 2);
                } else {
                    expect_merged(&before, &after, i, i, i + 1); // cost 0: bit for bit
                }
            }
        }
    }
}

static void test_four_parts(void) {
    const float lse[] = {0.0f, ln2, 0.0f, ln3}, o[] = {7.0f, 0.0f, 14.0f, 21.0f};
    const Parts parts = make_parts(4, 1);
    memcpy(parts.o, o, sizeof(o));
    memcpy(parts.lse, lse, sizeof(lse));
    grade_case("O = 7, 0, 14, 21 with LSE 0, ln 2, 0, ln 3 (12 and ln 7 in all)");
    expect_tree(&parts);
}

static void test_ragged_counts(void) {
    const int64_t counts[] = {2, 3, 5, 6, 7, 9, 12};
    for (int i = 0; i < 7; i++) {
        const Parts parts = random_parts(counts[i], 2, 0.0f, 20 + (uint64_t)i);
        grade_case("%lld parts, dim 2", (long long)counts[i]);
        expect_tree(&parts);
    }
}

static void test_empty_parts(void) {
    for (int64_t count = 2; count <= 6; count++) {
        for (int pattern = 0; pattern < 1 << count; pattern++) {
            char which[8] = "";
            const Parts parts = random_parts(count, 2, 0.0f, 40 + (uint64_t)count);
            for (int64_t i = 0; i < count; i++) {
                which[i] = pattern >> i & 1 ? '-' : 'x';
                if (which[i] == '-') {
                    parts.lse[i] = -INFINITY;
                    parts.o[2 * i] = parts.o[2 * i + 1] = NAN;
                }
            }
            grade_case("%lld parts, %s (- is an empty one that holds NaN), dim 2", (long long)count,
                       which);
            expect_tree(&parts);
        }
    }
}

static void test_every_count(void) {
    const float levels[] = {0.0f, 500.0f, -500.0f};
    for (int64_t count = 1; count <= 200; count += count < 66 ? 1 : 67) {
        const float level = levels[count % 3];
        const Parts parts = random_parts(count, 5, level, 60 + (uint64_t)count);
        for (int64_t i = 0; i < count - 1; i++) {
            if (grade_normal(90 + (uint64_t)count, (uint64_t)i) > 0.8f) {
                parts.lse[i] = -INFINITY;
                memset(parts.o + 5 * i, 0xFF, 5 * sizeof(float));
            }
        }
        grade_case("%lld parts, some empty, dim 5, LSE around %g", (long long)count, (double)level);
        expect_tree(&parts);
    }
}

static void test_one_part(void) {
    const Parts one = random_parts(1, 3, 0.0f, 1), empty = make_parts(1, 3);
    grade_case("one part");
    expect_tree(&one);
    grade_case("one part, empty, NaN in its O");
    expect_tree(&empty);
}

const GradeTest grade_tests[] = {
    {"two_parts", 1, false, test_two_parts,
     "Weights exp(lse) / (exp(lse_a) + exp(lse_b)), natural base: 1/3 and 2/3 here. The new LSE is "
     "the log of that sum."},
    {"large_lse", 1, false, test_large_lse,
     "exp(1000) overflows and exp(-1000) is 0: take the larger LSE off before exp, and add it to "
     "the log. A real LSE may lie far below any sentinel."},
    {"far_apart", 1, false, test_far_apart,
     "Take off the larger of the two, whichever it is: exponents are then at most 0, and exp does "
     "not overflow."},
    {"empty_is_identity", 1, false, test_empty_is_identity,
     "LSE = -INFINITY weighs nothing: the other part comes out to the last bit."},
    {"empty_garbage", 1, false, test_empty_garbage,
     "The O of an empty part was perhaps never written. Select it away; 0 * NaN is NaN."},
    {"one_level", 1, false, test_one_level,
     "i = 0, 2 stride, 4 stride, ... as long as i + stride < parts. Parts without a partner "
     "stay as they are."},
    {"four_parts", 1, false, test_four_parts,
     "Strides 1, then 2. Part 2 must hold the merge of 2 and 3 in the end."},
    {"ragged_counts", 2, false, test_ragged_counts,
     "The strides go on as long as stride < parts, for 5 parts too; a last part without a partner "
     "waits for a later level."},
    {"empty_parts", 2, false, test_empty_parts,
     "Any part may be empty, any subtree too, and both may hold NaN. See which pattern fails "
     "first."},
    {"every_count", 2, false, test_every_count,
     "Counts, LSE and dimension are larger here; see which one fails first."},
    {"two_empty", 1, true, test_two_empty,
     "-INFINITY - -INFINITY is NaN, and so is 0 / 0. Two empty parts make an empty one: O = 0, "
     "LSE = -INFINITY."},
    {"nan_reaches", 1, true, test_nan_reaches,
     "Only LSE = -INFINITY makes a part empty. A weight that rounds to 0 does not, and hides a "
     "NaN."},
    {"one_part", 1, true, test_one_part,
     "With one part there is nothing to merge; if it is empty its O must become 0."},
    {NULL, 0, false, NULL, NULL},
};
