// Chapter 3: the algebra of the merge. Its identity, both orders, every grouping, parts without
// keys, parts far apart, NaN. Split attention is in test_ch03_split.c.
#include "chapters/ch03_merge/merge.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 8, MAX_PARTS = 64 };

// A set of partial results of one row, and what merging all of them gives in float64.
typedef struct Parts {
    int count;
    float o[MAX_PARTS][DIM], lse[MAX_PARTS];
    double want_o[DIM], want_lse;
} Parts;

static uint64_t next_random(uint64_t *state) { // splitmix64
    uint64_t z = (*state += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

static float uniform(uint64_t *state) { // [-1, 1)
    return (float)(next_random(state) >> 40) * 0x1p-23F - 1.0F;
}

// One part in eight is empty and holds garbage.
static void make_parts(Parts *parts, int count, uint64_t seed) {
    double m = -INFINITY, sum = 0;
    parts->count = count;
    for (int p = 0; p < count; p++) {
        const bool empty = next_random(&seed) % 8 == 0;
        parts->lse[p] = empty ? -INFINITY : 6.0F * uniform(&seed);
        for (int c = 0; c < DIM; c++) {
            parts->o[p][c] = empty ? NAN : 1.0F + uniform(&seed);
        }
        m = fmax(m, (double)parts->lse[p]);
    }
    memset(parts->want_o, 0, sizeof(parts->want_o));
    for (int p = 0; p < count; p++) {
        if (parts->lse[p] != -INFINITY) {
            const double weight = exp((double)parts->lse[p] - m);
            sum += weight;
            for (int c = 0; c < DIM; c++) {
                parts->want_o[c] += weight * (double)parts->o[p][c];
            }
        }
    }
    for (int c = 0; c < DIM && sum > 0; c++) {
        parts->want_o[c] /= sum;
    }
    parts->want_lse = sum > 0 ? m + log(sum) : -INFINITY;
}

// One merge errs by less than 48 u, u = 2^-24: the difference of two LSEs, at most 17 in size, is
// rounded by 17 u; exp and log1p are off by 4 u each; the new LSE, at most 6 + log 64 < 11, is
// rounded by 11 u; the operations on O, of values at most 2, by less than 12 u. The weights that
// follow are at most 1, so that a chain of MAX_PARTS merges at worst adds these up.
static const float tolerance = MAX_PARTS * 48 * 0x1p-24F;

static void check_parts(const Parts *parts, const float *o, float lse) {
    if (parts->want_lse == -INFINITY) {
        ck_assert(lse == -INFINITY);
    } else {
        ck_assert_msg(fabs((double)lse - parts->want_lse) <= (double)tolerance,
                      "lse %.9g, expected %.9g", (double)lse, parts->want_lse);
    }
    for (int c = 0; c < DIM; c++) {
        ck_assert_msg(fabs((double)o[c] - parts->want_o[c]) <= (double)tolerance,
                      "o[%d] %.9g, expected %.9g", c, (double)o[c], parts->want_o[c]);
    }
}

// ---- the merge of two ---------------------------------------------------------------------------

START_TEST(merge_empty) {
    float o = 0, lse = -INFINITY;
    const float empty = 0, two = 2;
    merge_partials(1, &o, &lse, &empty, -INFINITY);
    ck_assert(o == 0 && lse == -INFINITY);
    merge_partials(1, &o, &lse, &two, 0);
    ck_assert(o == 2 && lse == 0);
}
END_TEST

START_TEST(merge_empty_garbage) {
    float o = NAN, lse = -INFINITY;
    const float garbage = NAN, two = 2;
    merge_partials(1, &o, &lse, &garbage, -INFINITY); // neither has keys: cleared
    ck_assert(o == 0 && lse == -INFINITY);
    o = NAN;
    merge_partials(1, &o, &lse, &two, 0);
    ck_assert(o == 2 && lse == 0);
    merge_partials(1, &o, &lse, &garbage, -INFINITY);
    ck_assert(o == 2 && lse == 0);
    const float o_parts[4] = {NAN, 2, INFINITY, NAN};
    const float lse_parts[4] = {-INFINITY, 0, -INFINITY, -INFINITY};
    merge_many(4, 1, o_parts, lse_parts, &o, &lse);
    ck_assert(o == 2 && lse == 0);
    merge_many(1, 1, o_parts, lse_parts, &o, &lse);
    ck_assert(o == 0 && lse == -INFINITY);
    o = lse = NAN;
    merge_many(0, 1, o_parts, lse_parts, &o, &lse);
    ck_assert(o == 0 && lse == -INFINITY);
}
END_TEST

START_TEST(merge_base) {
    float o = 2, lse = 0;
    const float five = 5;
    merge_partials(1, &o, &lse, &five, (float)log(2));
    ck_assert_float_eq_tol(o, 4.0F, 1e-6F);
    ck_assert_float_eq_tol(lse, (float)log(3), 1e-6F);
    const float o_parts[2] = {2, 5}, lse_parts[2] = {0, (float)log(2)};
    merge_many(2, 1, o_parts, lse_parts, &o, &lse);
    ck_assert_float_eq_tol(o, 4.0F, 1e-6F);
    ck_assert_float_eq_tol(lse, (float)log(3), 1e-6F);
}
END_TEST

// The lesson's numbers: scores 1, 2 | 3.
START_TEST(worked_example) {
    const double lse_a = log(exp(1) + exp(2)), lse = log(exp(1) + exp(2) + exp(3));
    ck_assert_double_eq_tol(lse_a, 2.313, 5e-4);
    ck_assert_double_eq_tol(lse, 3.408, 5e-4);
    ck_assert_double_eq_tol(exp(lse_a - lse), 0.335, 5e-4);
    ck_assert_double_eq_tol(exp(3 - lse), 0.665, 5e-4);
    ck_assert_double_eq_tol(exp(1 - lse) + exp(2 - lse), exp(lse_a - lse), 1e-12);
    float o = 10, got = (float)lse_a;
    const float twenty = 20;
    merge_partials(1, &o, &got, &twenty, 3);
    ck_assert_float_eq_tol(got, (float)lse, 1e-6F);
    ck_assert_float_eq_tol(o, (float)(10 * exp(lse_a - lse) + 20 * exp(3 - lse)), 1e-5F);
}
END_TEST

// Both orders give the same bits: the part with the larger LSE always has the weight 1, so that
// not even a fused multiply-add, which rounds one product and not the other, can tell them apart.
START_TEST(commutative_bit_for_bit) {
    for (uint64_t seed = 0; seed < 4000; seed++) {
        Parts parts;
        make_parts(&parts, 2, seed);
        if (seed % 4 == 0 && parts.lse[0] != -INFINITY && parts.lse[1] != -INFINITY) {
            parts.lse[1] = parts.lse[0]; // neither leads
        }
        float ab[DIM], ba[DIM], lse_ab = parts.lse[0], lse_ba = parts.lse[1];
        memcpy(ab, parts.o[0], sizeof(ab));
        memcpy(ba, parts.o[1], sizeof(ba));
        merge_partials(DIM, ab, &lse_ab, parts.o[1], parts.lse[1]);
        merge_partials(DIM, ba, &lse_ba, parts.o[0], parts.lse[0]);
        ck_assert(memcmp(&lse_ab, &lse_ba, sizeof(float)) == 0);
        ck_assert_msg(memcmp(ab, ba, sizeof(ab)) == 0, "seed %d: the two orders differ", (int)seed);
    }
}
END_TEST

// (a b) c and a (b c): the same within rounding, and not always the same bits.
START_TEST(associative_within_rounding) {
    int differ = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        Parts left, right;
        make_parts(&left, 3, seed);
        right = left;
        merge_partials(DIM, left.o[0], &left.lse[0], left.o[1], left.lse[1]);
        merge_partials(DIM, left.o[0], &left.lse[0], left.o[2], left.lse[2]);
        merge_partials(DIM, right.o[1], &right.lse[1], right.o[2], right.lse[2]);
        merge_partials(DIM, right.o[0], &right.lse[0], right.o[1], right.lse[1]);
        check_parts(&left, left.o[0], left.lse[0]);
        check_parts(&left, right.o[0], right.lse[0]);
        differ += memcmp(left.o[0], right.o[0], sizeof(left.o[0])) != 0;
    }
    ck_assert_int_gt(differ, 0); // float32 does not make the grouping invisible
}
END_TEST

// Weights below the smallest float count as 0, and nothing overflows on the way.
START_TEST(far_apart) {
    float o = 1, lse = 1000;
    const float other = 5;
    merge_partials(1, &o, &lse, &other, -1000);
    ck_assert(o == 1 && lse == 1000);
    o = 1;
    lse = -60000;
    merge_partials(1, &o, &lse, &other, 60000);
    ck_assert(o == 5 && lse == 60000);
}
END_TEST

// ---- any tree, any order ------------------------------------------------------------------------

// Merges two random parts until one is left: every tree and every order occur.
START_TEST(random_trees) {
    for (uint64_t seed = 0; seed < 2000; seed++) {
        Parts parts, left;
        uint64_t random = seed;
        make_parts(&parts, 1 + (int)(seed % MAX_PARTS), seed);
        left = parts;
        while (left.count > 1) {
            const int a = (int)(next_random(&random) % (uint64_t)left.count);
            int b = (int)(next_random(&random) % (uint64_t)(left.count - 1));
            b += b >= a ? 1 : 0;
            merge_partials(DIM, left.o[a], &left.lse[a], left.o[b], left.lse[b]);
            left.count--;
            memmove(left.o[b], left.o[left.count], sizeof(left.o[b]));
            left.lse[b] = left.lse[left.count];
        }
        if (parts.count > 1) { // a single empty part is never merged, and keeps its garbage
            check_parts(&parts, left.o[0], left.lse[0]);
        }
    }
}
END_TEST

// Exchanges parts a and b.
static void swap_parts(Parts *parts, int a, int b) {
    const float lse = parts->lse[a];
    float o[DIM];
    memcpy(o, parts->o[a], sizeof(o));
    memmove(parts->o[a], parts->o[b], sizeof(o));
    memcpy(parts->o[b], o, sizeof(o));
    parts->lse[a] = parts->lse[b];
    parts->lse[b] = lse;
}

// All at once, in the order given and in another, against a chain of merges of two.
START_TEST(merge_many_equals_chains) {
    for (uint64_t seed = 0; seed < 2000; seed++) {
        Parts parts;
        uint64_t random = ~seed;
        float o[DIM], lse, chain[DIM] = {0}, chain_lse = -INFINITY;
        make_parts(&parts, (int)(seed % (MAX_PARTS + 1)), seed);
        for (int order = 0; order < 2; order++) {
            memset(o, 0xFF, sizeof(o));
            merge_many(parts.count, DIM, parts.o[0], parts.lse, o, &lse);
            check_parts(&parts, o, lse);
            for (int p = parts.count - 1; p > 0; p--) { // a random permutation for the next round
                swap_parts(&parts, p, (int)(next_random(&random) % (uint64_t)(p + 1)));
            }
        }
        for (int p = 0; p < parts.count; p++) {
            merge_partials(DIM, chain, &chain_lse, parts.o[p], parts.lse[p]);
        }
        check_parts(&parts, chain, chain_lse);
    }
}
END_TEST

// A NaN of a part that has keys reaches the result, however little the part weighs.
START_TEST(nan_stays_visible) {
    const float o_parts[2] = {NAN, 3}, far[2] = {-1000, 0}, lost[2] = {NAN, 0};
    float o, lse;
    merge_many(2, 1, o_parts, far, &o, &lse);
    ck_assert(isnan(o) && lse == 0);
    merge_many(2, 1, o_parts, lost, &o, &lse);
    ck_assert(isnan(o) && isnan(lse));
    for (int first = 0; first < 2; first++) {
        o = o_parts[first], lse = far[first];
        merge_partials(1, &o, &lse, &o_parts[1 - first], far[1 - first]);
        ck_assert(isnan(o) && lse == 0);
        o = o_parts[first], lse = lost[first];
        merge_partials(1, &o, &lse, &o_parts[1 - first], lost[1 - first]);
        ck_assert(isnan(o) && isnan(lse));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ch03");
    TCase *tests = tcase_create("ch03");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, merge_empty);
    tcase_add_test(tests, merge_empty_garbage);
    tcase_add_test(tests, merge_base);
    tcase_add_test(tests, worked_example);
    tcase_add_test(tests, commutative_bit_for_bit);
    tcase_add_test(tests, associative_within_rounding);
    tcase_add_test(tests, far_apart);
    tcase_add_test(tests, random_trees);
    tcase_add_test(tests, merge_many_equals_chains);
    tcase_add_test(tests, nan_stays_visible);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
