// The suite of lab 1, keys outside. Cases with a closed form come first; then what passed between
// slow memory and the tiles, counted; then a sweep of sizes against the float64 oracle.
#include "common/compare.h"
#include "common/model.h"
#include "exercises/ch04/labs.h"
#include "tests/grade/grade.h"

#include <math.h>
#include <string.h>

const char grade_title[] = "tiled attention with the keys outside";

static const float ln2 = 0.69314718f, ln3 = 1.09861229f;

static SlowMatrix make_matrix(int64_t rows, int64_t columns) {
    return (SlowMatrix){grade_floats((size_t)(rows * columns)), rows, columns, 0, 0};
}

// A problem whose inputs, outputs and tiles are all NaN still; scale 1.
static KeysOutside make_problem(int64_t len_q, int64_t len_kv, int64_t dim, int64_t block_q,
                                int64_t block_k) {
    const size_t rows = (size_t)block_q, keys = (size_t)block_k, columns = (size_t)dim;
    return (KeysOutside){
        .block_q = block_q,
        .block_k = block_k,
        .scale = 1.0f,
        .q = make_matrix(len_q, dim),
        .k = make_matrix(len_kv, dim),
        .v = make_matrix(len_kv, dim),
        .o = make_matrix(len_q, dim),
        .m = make_matrix(len_q, 1),
        .l = make_matrix(len_q, 1),
        .q_tile = grade_floats(rows * columns),
        .o_tile = grade_floats(rows * columns),
        .k_tile = grade_floats(keys * columns),
        .v_tile = grade_floats(keys * columns),
        .m_tile = grade_floats(rows),
        .l_tile = grade_floats(rows),
        .s_tile = grade_floats(rows * keys),
    };
}

// One query of 1 in dimension 1, so that the scores are the keys, exactly.
static KeysOutside problem_of_scores(int64_t len, const float *scores, const float *values,
                                     int64_t block_k) {
    KeysOutside a = make_problem(1, len, 1, 1, block_k);
    a.q.data[0] = 1.0f;
    for (int64_t j = 0; j < len; j++) {
        a.k.data[j] = scores[j];
        a.v.data[j] = values[j];
    }
    return a;
}

// Runs a problem of dimension 1 and checks one row. The tolerances are some twenty roundings (exp,
// alpha, sums of at most 33 terms, division) and, for the LSE, one unit in its own last place.
static void expect_row(KeysOutside *a, int64_t row, double o_want, double lse_want) {
    keys_outside_attention(a);
    expect_close("o", (double)a->o.data[row], o_want, 2e-6 * fmax(1.0, fabs(o_want)));
    expect_close("lse (in m's place)", (double)a->m.data[row], lse_want,
                 2e-6 + fabs(lse_want) * 0x1p-23);
}

static void test_one_block(void) {
    const float scores[] = {0.0f, ln2, 0.0f}, values[] = {1.0f, 6.0f, 3.0f};
    KeysOutside a = problem_of_scores(3, scores, values, 3);
    grade_case("one query; scores 0, ln 2, 0, values 1, 6, 3 in one block of 3");
    expect_row(&a, 0, 4.0, log(4.0));
}

static void test_rising_ladder(void) {
    float scores[8], values[8];
    for (int j = 0; j < 8; j++) {
        scores[j] = (float)j * ln2;
        values[j] = (float)j;
    }
    for (int64_t block = 4; block >= 1; block /= 2) {
        KeysOutside a = problem_of_scores(8, scores, values, block);
        grade_case("one query; scores j ln 2 and values j for j = 0..7, blocks of %lld keys",
                   (long long)block);
        expect_row(&a, 0, 1538.0 / 255.0, log(255.0));
    }
}

static void test_max_must_not_fall(void) {
    const float scores[] = {100.0f, 0.0f}, values[] = {1.0f, 5.0f};
    KeysOutside a = problem_of_scores(2, scores, values, 1);
    grade_case("one query; score 100, then score 0, in blocks of 1; values 1, 5");
    expect_row(&a, 0, 1.0, 100.0);
}

static void test_scale_and_base(void) {
    KeysOutside a = make_problem(1, 2, 4, 1, 1);
    const float q[] = {2.0f, 0.0f, 0.0f, 0.0f}, k[] = {ln3, 0.0f, 0.0f, 0.0f};
    a.scale = 0.5f;
    for (int c = 0; c < 4; c++) {
        a.q.data[c] = q[c];
        a.k.data[c] = k[c];
        a.k.data[4 + c] = 0.0f;
        a.v.data[c] = 1.0f;
        a.v.data[4 + c] = 0.0f;
    }
    grade_case("scale 1/2, q = (2, 0, 0, 0), keys (ln 3, 0, 0, 0) and 0, values 1 and 0");
    expect_row(&a, 0, 0.75, log(4.0));
    expect_close("o[3]", (double)a.o.data[3], 0.75, 2e-6);
}

static void test_tail_leak(void) {
    float scores[33] = {0.0f}, values[33];
    for (int j = 0; j < 33; j++) {
        values[j] = (float)j;
    }
    KeysOutside a = problem_of_scores(33, scores, values, 32);
    grade_case("33 keys of score 0, values 0..32, blocks of 32: the last block has one key");
    expect_row(&a, 0, 16.0, log(33.0));
}

static void test_tail_leak_negative(void) {
    float scores[33], values[33];
    for (int j = 0; j < 33; j++) {
        scores[j] = -20.0f;
        values[j] = 1.0f;
    }
    for (int64_t block = 32; block <= 64; block += 32) {
        KeysOutside a = problem_of_scores(33, scores, values, block);
        grade_case("33 keys of score -20, values 1, blocks of %lld keys", (long long)block);
        expect_row(&a, 0, 1.0, -20.0 + log(33.0));
    }
    for (int j = 0; j < 33; j++) {
        scores[j] = -60000.0f;
    }
    KeysOutside far = problem_of_scores(33, scores, values, 32);
    grade_case("33 keys of score -60000, values 1, blocks of 32");
    expect_row(&far, 0, 1.0, -60000.0 + log(33.0));
}

static void test_query_tail(void) {
    for (int64_t block = 1; block <= 8; block *= 2) {
        for (int64_t row = 0; row < 5; row++) {
            KeysOutside a = make_problem(5, 3, 1, block, 2);
            for (int64_t i = 0; i < 5; i++) {
                a.q.data[i] = (float)i;
            }
            for (int64_t j = 0; j < 3; j++) {
                a.k.data[j] = j == 2 ? ln2 : 0.0f;
                a.v.data[j] = j == 2 ? 1.0f : 0.0f;
            }
            const double weight = pow(2.0, (double)row);
            grade_case("5 queries in blocks of %lld, 3 keys in blocks of 2: row %lld",
                       (long long)block, (long long)row);
            expect_row(&a, row, weight / (weight + 2.0), log(weight + 2.0));
        }
    }
}

// ---- what passes --------------------------------------------------------------------------------

// Random inputs; scores rise along the keys in every second problem, values have a mean.
static KeysOutside random_problem(const AttnShape *shape, int64_t block_q, int64_t block_k,
                                  uint64_t seed) {
    KeysOutside a = make_problem(shape->len_q, shape->len_kv, shape->dim, block_q, block_k);
    a.scale = (float)attn_scale(shape);
    for (int64_t e = 0; e < a.q.rows * a.q.columns; e++) {
        a.q.data[e] = 0.5f + grade_normal(seed, (uint64_t)e);
    }
    for (int64_t e = 0; e < a.k.rows * a.k.columns; e++) {
        const int64_t key = e / shape->dim;
        const float along = seed % 2 == 0 ? 0.05f * (float)key : 0.0f;
        a.k.data[e] = along + grade_normal(seed + 1, (uint64_t)e);
        a.v.data[e] = 1.0f + grade_normal(seed + 2, (uint64_t)e);
    }
    return a;
}

static Tensor tensor_of(const SlowMatrix *matrix) {
    const int64_t dims[] = {1, 1, matrix->rows, matrix->columns};
    Tensor tensor;
    if (tensor_alloc(&tensor, DTYPE_F32, 4, dims) != ATTN_OK) {
        grade_fail("the suite is out of memory");
    }
    memcpy(tensor.data, matrix->data, tensor.count * sizeof(float));
    return tensor;
}

// Runs a random problem and compares with the oracle, within the bound of docs/numerics.md.
static KeysOutside expect_random(int64_t len_q, int64_t len_kv, int64_t dim, int64_t block_q,
                                 int64_t block_k, uint64_t seed) {
    const AttnShape shape = {
        .batch = 1, .heads_q = 1, .heads_kv = 1, .len_q = len_q, .len_kv = len_kv, .dim = dim};
    KeysOutside a = random_problem(&shape, block_q, block_k, seed);
    Tensor q = tensor_of(&a.q), k = tensor_of(&a.k), v = tensor_of(&a.v);
    Expected expected;
    Comparison result[2];

    grade_case("T = %lld, S = %lld, d = %lld, blocks of %lld queries and %lld keys",
               (long long)len_q, (long long)len_kv, (long long)dim, (long long)block_q,
               (long long)block_k);
    keys_outside_attention(&a);
    if (expected_make(&expected, &shape, &q, &k, &v, DTYPE_F32) != ATTN_OK) {
        grade_fail("the oracle failed: %s", attn_last_error());
    }
    Tensor o = tensor_of(&a.o), lse = tensor_of(&a.m);
    lse.rank = 3;
    if (!compare_output(&expected, &o, &lse, block_q, &result[0], &result[1])) {
        grade_fail("%s", result[0].failed > 0 ? result[0].message : result[1].message);
    }
    Tensor *const used[] = {&q, &k, &v, &o, &lse};
    for (int t = 0; t < 5; t++) {
        tensor_free(used[t]);
    }
    expected_free(&expected);
    return a;
}

static void test_keys_loaded_once(void) {
    KeysOutside a = expect_random(48, 80, 8, 16, 16, 7);
    expect_int("elements loaded of K", a.k.loaded, 80 * 8);
    expect_int("elements loaded of V", a.v.loaded, 80 * 8);
    expect_int("elements stored into K and V", a.k.stored + a.v.stored, 0);
}

static void test_rows_come_and_go(void) {
    const int64_t sizes[][5] = {{48, 80, 8, 16, 16}, {5, 7, 3, 2, 3}, {3, 2, 4, 8, 8}};
    for (int n = 0; n < 3; n++) {
        const int64_t len_q = sizes[n][0], dim = sizes[n][2];
        const int64_t blocks = (sizes[n][1] + sizes[n][4] - 1) / sizes[n][4];
        KeysOutside a = expect_random(len_q, sizes[n][1], dim, sizes[n][3], sizes[n][4], 8);
        expect_int("elements loaded of Q", a.q.loaded, blocks * len_q * dim);
        expect_int("elements loaded of O", a.o.loaded, (blocks - 1) * len_q * dim);
        expect_int("elements stored into O", a.o.stored, blocks * len_q * dim);
        expect_int("elements loaded of m and l", a.m.loaded + a.l.loaded, (blocks - 1) * len_q * 2);
        expect_int("elements stored into m and l", a.m.stored + a.l.stored, blocks * len_q * 2);
    }
}

static int64_t moved(const SlowMatrix *matrix) {
    return matrix->loaded + matrix->stored;
}

static void test_traffic_card(void) {
    KeysOutside a = expect_random(128, 128, 8, 16, 16, 9);
    const int64_t all =
        moved(&a.q) + moved(&a.k) + moved(&a.v) + moved(&a.o) + moved(&a.m) + moved(&a.l);
    expect_int("elements in all", all, (int64_t)keys_outside_hbm_elements(128, 8, 16, false));
}

static void test_every_block_size(void) {
    const int64_t lens[] = {1, 2, 33, 65}, blocks[] = {1, 7, 32, 100}, dims[] = {1, 7, 40};
    for (int i = 0; i < 4 * 4 * 4 * 4; i++) {
        expect_random(lens[i % 4], lens[i / 4 % 4], dims[i % 3], blocks[i / 16 % 4], blocks[i / 64],
                      100 + (uint64_t)i);
    }
}

// ---- empty sides, NaN ---------------------------------------------------------------------------

static void test_no_keys_or_no_queries(void) {
    for (int64_t block = 2; block <= 3; block++) {
        KeysOutside none = make_problem(3, 0, 2, block, 4);
        const double zeros[6] = {0.0};
        grade_case("3 queries in blocks of %lld, no keys", (long long)block);
        for (int64_t e = 0; e < 6; e++) {
            none.q.data[e] = 1.0f;
        }
        keys_outside_attention(&none);
        expect_array("o", none.o.data, zeros, 3, 2, 0.0);
        for (int64_t i = 0; i < 3; i++) {
            expect_close("lse (in m's place)", (double)none.m.data[i], -INFINITY, 0.0);
        }
    }
    grade_case("no queries, 3 keys");
    expect_random(0, 3, 2, 2, 2, 1);
}

static void test_nan_reaches_its_row(void) {
    KeysOutside a = make_problem(3, 5, 1, 2, 2);
    for (int i = 0; i < 3; i++) {
        a.q.data[i] = i == 1 ? NAN : 1.0f;
    }
    for (int j = 0; j < 5; j++) {
        a.k.data[j] = 0.0f;
        a.v.data[j] = (float)j;
    }
    grade_case("3 queries, the one in the middle NaN; 5 keys of score 0, values 0..4");
    expect_row(&a, 0, 2.0, log(5.0));
    expect_close("o[2]", (double)a.o.data[2], 2.0, 4e-6);
    if (!isnan(a.o.data[1]) || !isnan(a.m.data[1])) {
        grade_fail("row 1: got o = %g, lse = %g: the NaN was lost", (double)a.o.data[1],
                   (double)a.m.data[1]);
    }
}

const GradeTest grade_tests[] = {
    {"one_block", 1, false, test_one_block,
     "With one block of keys there is nothing to correct: m is the largest score, l the sum of "
     "exp(s - m); the row is finished at once, o / l and m + log(l)."},
    {"rising_ladder", 1, false, test_rising_ladder,
     "O and l of a row must be multiplied by alpha = exp(m_old - m_new) before a block of keys is "
     "added, and the row divided only after its last block; and the state must be loaded again for "
     "every block but the first."},
    {"max_must_not_fall", 1, false, test_max_must_not_fall,
     "The new maximum is the larger of the row's m and the block's; taking the block's alone gives "
     "exp(100 - 0), which overflows."},
    {"scale_and_base", 1, false, test_scale_and_base,
     "The scale multiplies the scores once; exp and log are the natural ones."},
    {"tail_leak", 1, false, test_tail_leak,
     "load_tile fills the keys behind the end with 0. Their score must be -INFINITY, or each of "
     "them weighs exp(0 - m). And the last block must not be left out, or its rows unfinished."},
    {"tail_leak_negative", 1, false, test_tail_leak_negative,
     "A score of 0 for a key that does not exist is the maximum of such a row, and every real "
     "weight is lost. A maximum that starts at 0 or at a finite number does the same."},
    {"query_tail", 1, false, test_query_tail,
     "The last block of rows may be short: it must be computed, and only the rows that exist may "
     "be stored. Or does the tile's row have another stride?"},
    {"keys_loaded_once", 1, false, test_keys_loaded_once,
     "K and V are loaded in the outer loop, once for each block of keys: that is what this loop "
     "order is for."},
    {"rows_come_and_go", 2, false, test_rows_come_and_go,
     "Q is loaded for every block of keys. O, m and l are loaded for every block of keys but the "
     "first, where begin_rows sets them up, and stored for every one, the division included."},
    {"traffic_card", 1, false, test_traffic_card,
     "keys_outside_hbm_elements of common/model.h, for blocks of 16."},
    {"every_block_size", 2, false, test_every_block_size,
     "The answer does not depend on the block sizes. See which sizes fail: a tail of keys, a tail "
     "of rows, a block larger than the problem?"},
    {"no_keys_or_no_queries", 1, true, test_no_keys_or_no_queries,
     "Without keys neither loop runs and the code above them does it all; without queries the "
     "inner one does not run."},
    {"nan_reaches_its_row", 1, true, test_nan_reaches_its_row,
     "Each row has its own m, l and alpha; a NaN in one must stay there, and not be lost by a "
     "comparison that leaves the block out."},
    {NULL, 0, false, NULL, NULL},
};
