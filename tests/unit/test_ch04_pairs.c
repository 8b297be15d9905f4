// Chapter 4: block pairs against a count by brute force, the operations of the unfused rung, the
// bytes that a block of queries touches, and the numbers that the lesson quotes.
#include "chapters/ch04_tiling/tiled.h"

#include "common/model.h"
#include "common/tensor.h"
#include "common/touch.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

// ---- block pairs --------------------------------------------------------------------------------

static uint64_t random_state;

// An integer in [low, high].
static int64_t pick(int64_t low, int64_t high) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((random_state >> 33) % (uint64_t)(high - low + 1));
}

// Every pair of a block of queries and a block of keys, element by element.
static TileCounts count_by_brute_force(const AttnShape *shape, int64_t block_q, int64_t block_k) {
    TileCounts counts = {0};
    for (int64_t b = 0; b < shape->batch; b++) {
        for (int64_t row = 0; row < shape->len_q; row += block_q) {
            for (int64_t key = 0; key < shape->len_kv; key += block_k) {
                bool some = false, every = true;
                for (int64_t i = row; i < row + block_q && i < shape->len_q; i++) {
                    const KeyRange visible = attn_visible_keys(shape, b, i);
                    for (int64_t j = key; j < key + block_k && j < shape->len_kv; j++) {
                        const bool seen = visible.begin <= j && j < visible.end;
                        some = some || seen;
                        every = every && seen;
                    }
                }
                counts.all++;
                counts.visited += some;
                counts.full += every;
                counts.partial += some && !every;
            }
        }
    }
    counts.all *= shape->heads_q;
    counts.visited *= shape->heads_q;
    counts.full *= shape->heads_q;
    counts.partial *= shape->heads_q;
    return counts;
}

static void assert_counts(const AttnShape *shape, int64_t block_q, int64_t block_k, TileCounts got,
                          TileCounts want) {
    ck_assert_msg(got.visited == want.visited && got.full == want.full &&
                      got.partial == want.partial && got.all == want.all,
                  "T %lld S %lld causal %d window %lld tile %lld x %lld: visited %lld full %lld "
                  "partial %lld all %lld, expected %lld %lld %lld %lld",
                  (long long)shape->len_q, (long long)shape->len_kv, shape->causal,
                  (long long)shape->window, (long long)block_q, (long long)block_k,
                  (long long)got.visited, (long long)got.full, (long long)got.partial,
                  (long long)got.all, (long long)want.visited, (long long)want.full,
                  (long long)want.partial, (long long)want.all);
}

// A random problem with f32 data; lens gives room for its key lengths.
static AttnShape random_shape(int32_t *lens) {
    AttnShape shape = {pick(1, 2), 2, pick(1, 2), pick(1, 70), pick(0, 70),
                       pick(1, 4), 0, false,      0,           NULL};
    shape.causal = pick(0, 2) > 0;
    shape.window = shape.causal && pick(0, 1) ? pick(1, 40) : 0;
    for (int b = 0; b < 2; b++) {
        lens[b] = (int32_t)pick(0, shape.len_kv);
    }
    shape.kv_lens = pick(0, 2) == 0 ? lens : NULL;
    return shape;
}

// A rung's results on random inputs.
typedef struct Result {
    Tensor o, lse;
    TileCounts tiles;           // of tiled.c
    OperationCounts operations; // of tiled_unfused.c
} Result;

static Result run_random(bool fused, const AttnShape *shape, int64_t block_q, int64_t block_k,
                         int seed) {
    Tensor q, k, v, workspace;
    Result result = {0};
    const int64_t floats =
        (int64_t)(fused ? tiled_workspace_floats(shape, block_q, block_k)
                        : tiled_unfused_workspace_floats(shape, block_q, block_k));
    ck_assert_int_eq(tensor_alloc_q(&q, DTYPE_F32, shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_kv(&k, DTYPE_F32, shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_kv(&v, DTYPE_F32, shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_q(&result.o, DTYPE_F32, shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc_lse(&result.lse, shape), ATTN_OK);
    ck_assert_int_eq(tensor_alloc(&workspace, DTYPE_F32, 1, &floats), ATTN_OK);
    tensor_fill_random(&q, (uint64_t)seed, 1);
    tensor_fill_random(&k, (uint64_t)seed + 1, 1);
    tensor_fill_random(&v, (uint64_t)seed + 2, 1);
    const AttnStatus status =
        fused ? tiled_attention(shape, q.data, k.data, v.data, block_q, block_k, result.o.data,
                                result.lse.data, workspace.data, &result.tiles)
              : tiled_unfused_attention(shape, q.data, k.data, v.data, block_q, block_k,
                                        result.o.data, result.lse.data, workspace.data,
                                        &result.operations);
    ck_assert_int_eq(status, ATTN_OK);
    tensor_free(&q);
    tensor_free(&k);
    tensor_free(&v);
    tensor_free(&workspace);
    return result;
}

static void result_free(Result *result) {
    tensor_free(&result->o);
    tensor_free(&result->lse);
}

// The pairs that tiled_attention computes, those that it says it would, and those that there are.
START_TEST(pairs_by_brute_force) {
    random_state = 4;
    for (int n = 0; n < 400; n++) {
        int32_t lens[2];
        const AttnShape shape = random_shape(lens);
        const int64_t block_q = pick(1, 80), block_k = pick(1, 80);
        const TileCounts want = count_by_brute_force(&shape, block_q, block_k);
        Result ran = run_random(true, &shape, block_q, block_k, n);
        assert_counts(&shape, block_q, block_k, ran.tiles, want);
        assert_counts(&shape, block_q, block_k, tiled_count_pairs(&shape, block_q, block_k), want);
        result_free(&ran);
    }
}
END_TEST

// The cards: causal, n = N / B blocks on each side, n (n + 1) / 2 pairs of n^2, n of them partial.
START_TEST(causal_cards) {
    const struct {
        int64_t len, block, visited;
        double percent;
    } cards[] = {{2048, 128, 136, 53}, {2048, 64, 528, 52}, {8192, 128, 2080, 51}};
    for (int i = 0; i < 3; i++) {
        const int64_t n = cards[i].len / cards[i].block;
        const AttnShape shape = {1, 1, 1, cards[i].len, cards[i].len, 1, 0, true, 0, NULL};
        const TileCounts counts = tiled_count_pairs(&shape, cards[i].block, cards[i].block);
        ck_assert_int_eq(counts.visited, cards[i].visited);
        ck_assert_int_eq(counts.visited, n * (n + 1) / 2);
        ck_assert_int_eq(counts.all, n * n);
        ck_assert_int_eq(counts.partial, n);
        const double percent = 100.0 * (double)counts.visited / (double)counts.all;
        ck_assert_double_le(fabs(percent - cards[i].percent), 0.5);
    }
    // The launches of a framework: 14 operations on each of the 2,080 pairs, 40 us each.
    const double launches = UNFUSED_PAIR_OPERATIONS * 2080;
    ck_assert_double_eq(launches, 29120);
    ck_assert_double_le(fabs(launches * 40e-6 - 1.16), 0.005);
}
END_TEST

// Without a mask every pair is full, tails too: their blocks are shorter.
START_TEST(tails_are_full) {
    const AttnShape shape = {2, 6, 2, 33, 70, 1, 0, false, 0, NULL};
    const TileCounts counts = tiled_count_pairs(&shape, 32, 32);
    ck_assert_int_eq(counts.full, 2 * 6 * 2 * 3);
    ck_assert_int_eq(counts.visited, counts.all);
    ck_assert_int_eq(counts.partial, 0);
}
END_TEST

// ---- the unfused rung ---------------------------------------------------------------------------

START_TEST(operations_are_counted) {
    random_state = 5;
    for (int n = 0; n < 200; n++) {
        int32_t lens[2];
        const AttnShape shape = random_shape(lens);
        const int64_t block_q = pick(1, 80), block_k = pick(1, 80);
        const TileCounts tiles = count_by_brute_force(&shape, block_q, block_k);
        const int64_t blocks = (shape.len_q + block_q - 1) / block_q;
        Result ran = run_random(false, &shape, block_q, block_k, n);
        ck_assert_int_eq(ran.operations.operations,
                         UNFUSED_PAIR_OPERATIONS * tiles.visited + tiles.partial +
                             UNFUSED_BLOCK_OPERATIONS * shape.batch * shape.heads_q * blocks);
        result_free(&ran);
    }
}
END_TEST

// What the operations of one full pair and of one block of queries read and write: B rows and keys.
START_TEST(elements_are_counted) {
    const double d = 16, block = 32, n = 3;
    const AttnShape shape = {1, 1, 1, 96, 96, 16, 0, false, 0, NULL};
    Result ran = run_random(false, &shape, 32, 32, 1);
    const double tile = block * block, rows = block * d, column = block;
    // scores 1 + 2 rows, scale 2, maximum 1, subtract 2, exp 2, sum 1, values 1 + 2 rows tiles;
    // rescaling acc 2 rows, adding to it 3 rows; 18 columns.
    const double pair = 10 * tile + 9 * rows + 18 * column;
    const double begin_end = 3 * rows + 8 * column;
    ck_assert_double_eq((double)ran.operations.elements, n * n * pair + n * begin_end);
    result_free(&ran);
}
END_TEST

// The two tiled rungs do the same on the same tiles. They are not bitwise equal: tiled.c adds the
// products p v to the accumulator one by one, tiled_unfused.c sums those of a tile apart first.
START_TEST(fused_and_unfused_agree) {
    random_state = 6;
    double largest = 0;
    for (int n = 0; n < 100; n++) {
        int32_t lens[2];
        const AttnShape shape = random_shape(lens);
        const int64_t block_q = pick(1, 40), block_k = pick(1, 40);
        Result a = run_random(true, &shape, block_q, block_k, n);
        Result b = run_random(false, &shape, block_q, block_k, n);
        for (size_t e = 0; e < a.o.count; e++) {
            const double difference = fabs(tensor_get(&a.o, e) - tensor_get(&b.o, e));
            ck_assert(difference <= 16 * 0x1p-23); // values of a few units, of random sign
            largest = difference > largest ? difference : largest;
        }
        for (size_t i = 0; i < a.lse.count; i++) {
            const double x = tensor_get(&a.lse, i), y = tensor_get(&b.lse, i);
            ck_assert(x == y || fabs(x - y) <= 16 * 0x1p-23);
        }
        result_free(&a);
        result_free(&b);
    }
    ck_assert_double_gt(largest, 0);
}
END_TEST

// ---- bytes --------------------------------------------------------------------------------------

// Bytes that tiled_attention touches for one head of `queries` queries and `keys` keys, its
// workspace not counted, and that workspace.
static size_t touched_bytes(size_t queries, size_t keys, size_t dim, bool causal, int64_t block,
                            size_t *workspace) {
    const AttnShape shape = {1,      1, 1,   (int64_t)queries, (int64_t)keys, (int64_t)dim, 0,
                             causal, 0, NULL};
    const size_t counts[6] = {queries * dim, keys * dim,
                              keys * dim,    queries * dim,
                              queries,       tiled_workspace_floats(&shape, block, block)};
    TouchBuffer buffers[6];
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(touch_alloc(&buffers[i], counts[i] * sizeof(float)), ATTN_OK);
    }
    ck_assert_int_eq(touch_begin(buffers, 6), ATTN_OK);
    const AttnStatus status =
        tiled_attention(&shape, buffers[0].data, buffers[1].data, buffers[2].data, block, block,
                        buffers[3].data, buffers[4].data, buffers[5].data, NULL);
    touch_end();
    ck_assert_int_eq(status, ATTN_OK);
    size_t sum = 0;
    for (int i = 0; i < 5; i++) {
        sum += buffers[i].touched;
    }
    *workspace = buffers[5].touched;
    for (int i = 0; i < 6; i++) {
        touch_free(&buffers[i]);
    }
    return sum;
}

// One block of queries at a time, so that what each block reads of K and V is counted anew: the
// model's traffic, and N for LSE. Block i of a causal problem sees the keys up to its own last.
START_TEST(touches_what_the_model_counts) {
    const size_t n = 512, d = 64, block = 64;
    for (int causal = 0; causal < 2; causal++) {
        size_t sum = 0, workspace = 0;
        for (size_t row = 0; row < n; row += block) {
            const size_t keys = causal ? row + block : n;
            sum += touched_bytes(block, keys, d, causal != 0, (int64_t)block, &workspace);
            ck_assert_uint_eq(workspace, (block * block + 2 * block) * sizeof(float));
        }
        const double model =
            tiled_hbm_elements((double)n, (double)d, (double)block, causal != 0) + (double)n;
        ck_assert_double_eq((double)sum, sizeof(float) * model);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ch04_pairs");
    TCase *tests = tcase_create("pairs");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, pairs_by_brute_force);
    tcase_add_test(tests, causal_cards);
    tcase_add_test(tests, tails_are_full);
    tcase_add_test(tests, operations_are_counted);
    tcase_add_test(tests, elements_are_counted);
    tcase_add_test(tests, fused_and_unfused_agree);
    tcase_add_test(tests, touches_what_the_model_counts);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
