// Chapter 7: what the masks of both kernels let through, against the oracle. Every size around the
// borders of tiles; random masks, lengths and types; NaN behind the mask and in front of it; the
// two alignments.
#include "tests/unit/gpu_targets.h"
#include "tests/unit/masks_run.h"

#include <math.h>

enum { TILE = 64, HEAVY_DIM = 68 }; // of keys; a dim whose kernel has 128 rows a tile

// ---- sizes around the tiles ---------------------------------------------------------------------

enum { BORDERS = 7 };

// Every T, S and window around the borders of one tile and two: T < S, T = S, T > S.
START_TEST(borders_of_tiles) {
    static const int64_t lens[] = {1,        TILE - 1,    TILE, TILE + 1, 2 * TILE - 1,
                                   2 * TILE, 2 * TILE + 1};
    static const int64_t windows[] = {0, 1, TILE - 1, TILE, TILE + 1, 2 * TILE, 2 * TILE + 1};
    const int64_t len_q = lens[_i % BORDERS], dim = _i < BORDERS ? 4 : HEAVY_DIM;
    for (int i = 0; i < masks_run_count; i++) {
        for (int s = 0; s < BORDERS && masks_is_forward(&masks_runs[i]); s++) {
            for (int w = 0; w < BORDERS; w++) {
                const AttnShape shape = {1, 1, 1, len_q, lens[s], dim, 0, true, windows[w], NULL};
                // The others share its code, or its rule: a few are enough.
                if (masks_runs[i].kernel == CAUSAL_SKIP || s == w) {
                    masks_check(&masks_runs[i], &shape, NULL, 1);
                }
            }
            const AttnShape full = {1, 1, 1, len_q, lens[s], dim, 0, false, 0, NULL};
            masks_check(&masks_runs[i], &full, NULL, 2);
        }
    }
}
END_TEST

// SplitMix64's output function, below `limit`.
static int64_t draw(uint64_t *state, int64_t limit) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int64_t)((z ^ z >> 31) % (uint64_t)limit);
}

enum { RANDOM_TESTS = 12, RANDOM_PROBLEMS = 25 }; // 300 a kernel

// T, S, window, causal, key lengths, head dimension and storage type at random, sizes near a tile's
// border more often than others.
START_TEST(random_masks) {
    static const int64_t dims[] = {1, 8, 17, 40, 64, 64, 64, 72, 96, 128, 256};
    uint64_t state = 700 + (uint64_t)_i;
    for (int problem = 0; problem < RANDOM_PROBLEMS; problem++) {
        int32_t kv_lens[3];
        int64_t lens[3]; // T, S, window
        for (int n = 0; n < 3; n++) {
            const int64_t near = TILE * (1 + draw(&state, 2)) - 2 + draw(&state, 5);
            lens[n] = draw(&state, 2) == 0 ? near : 1 + draw(&state, 130);
        }
        AttnShape shape = {
            1 + draw(&state, 3),  1, 1,   lens[0], lens[1], dims[draw(&state, 11)], 0,
            draw(&state, 4) != 0, 0, NULL};
        shape.window = shape.causal && draw(&state, 2) == 0 ? lens[2] : 0;
        shape.len_kv = draw(&state, 4) == 0 ? shape.len_q : shape.len_kv;
        if (shape.dim <= 64 && draw(&state, 2) == 0) {
            shape.heads_q = 2;
        }
        while (shape.batch > 1 && shape.batch * shape.len_q * shape.len_kv * shape.dim > 1000000) {
            shape.batch--; // so that hundreds take seconds
        }
        for (int64_t b = 0; b < shape.batch; b++) {
            kv_lens[b] = (int32_t)draw(&state, shape.len_kv + 1);
        }
        shape.kv_lens = draw(&state, 3) == 0 ? kv_lens : NULL;
        const DType dtype = (DType)draw(&state, 3);
        for (int i = 0; i < masks_run_count; i++) {
            MasksRun run = masks_runs[i];
            run.dtype = dtype;
            if (masks_is_forward(&run) &&
                (run.kernel == CAUSAL_SKIP || run.kernel == SPARSE_OF_SHAPE || problem % 8 == 0)) {
                masks_check(&run, &shape, NULL, state);
            }
        }
    }
}
END_TEST

// ---- NaN ----------------------------------------------------------------------------------------

// NaN in a key's K or V reaches exactly the rows that see the key; all others keep their bits.
static void check_nan(const MasksRun *run, const Problem *clean, char input, int64_t key) {
    const AttnShape *shape = &clean->shape;
    Problem spoiled;
    char text[96];
    ASSERT_OK(problem_random(&spoiled, shape, run->dtype, 9));
    for (int64_t c = 0; c < shape->dim; c++) {
        tensor_set(input == 'k' ? &spoiled.k : &spoiled.v, (size_t)(key * shape->dim + c),
                   (double)NAN);
    }
    ASSERT_OK(masks_run(shape, &spoiled.q, &spoiled.k, &spoiled.v, &spoiled.o, &spoiled.lse, run));
    masks_run_text(run, text);
    for (int64_t row = 0; row < shape->len_q; row++) {
        const KeyRange seen = attn_visible_keys(shape, 0, row);
        const bool sees = key >= seen.begin && key < seen.end;
        const float *before = (const float *)clean->o.data + row * shape->dim;
        const float *after = (const float *)spoiled.o.data + row * shape->dim;
        const float lse = ((const float *)spoiled.lse.data)[row];
        for (int64_t c = 0; c < shape->dim; c++) {
            ck_assert_msg(sees ? isnan(after[c]) != 0 : memcmp(&before[c], &after[c], 4) == 0,
                          "%s: NaN in %c of key %d, row %d, which %s it, has O %g instead of %g",
                          text, input, (int)key, (int)row, sees ? "sees" : "does not see",
                          (double)after[c], (double)before[c]);
        }
        ck_assert_msg(sees && input == 'k'
                          ? isnan(lse) != 0
                          : memcmp(&lse, (const float *)clean->lse.data + row, 4) == 0,
                      "%s: NaN in %c of key %d, row %d: LSE %g", text, input, (int)key, (int)row,
                      (double)lse);
    }
    problem_free(&spoiled);
}

START_TEST(nan_reaches_who_sees_it) {
    static const int32_t in_use[] = {130};
    static const AttnShape shapes[] = {{1, 1, 1, 140, 150, 8, 0, true, 0, NULL},
                                       {1, 1, 1, 140, 150, HEAVY_DIM, 0, true, 70, NULL},
                                       {1, 1, 1, 140, 150, 8, 0, true, 0, in_use},
                                       {1, 1, 1, 20, 150, 8, 0, false, 0, in_use}};
    static const int64_t keys[] = {0, 63, 64, 100, 127, 129, 130, 149};
    for (int i = 0; i < masks_run_count; i++) {
        Problem clean;
        if (!masks_is_forward(&masks_runs[i])) {
            continue;
        }
        ASSERT_OK(problem_random(&clean, &shapes[_i], masks_runs[i].dtype, 9));
        ASSERT_OK(masks_run(&shapes[_i], &clean.q, &clean.k, &clean.v, &clean.o, &clean.lse,
                            &masks_runs[i]));
        // What visits more shares the code: two keys are enough.
        for (int key = 0; key < 8; key += masks_runs[i].kernel == CAUSAL_SKIP ? 1 : 4) {
            check_nan(&masks_runs[i], &clean, 'k', keys[key]);
            check_nan(&masks_runs[i], &clean, 'v', keys[key]);
        }
        problem_free(&clean);
    }
}
END_TEST

// ---- the two alignments -------------------------------------------------------------------------

// A mask aligned at the top left is wrong without an error: for one new query of five keys it shows
// key 0 alone, and the answer is 1 where it should be 3; for a chunk of two it is 1 and 1.5 where
// it should be 2.5 and 3. K = 0, V = 1..5.
START_TEST(top_left_is_wrong_without_an_error) {
    static const double right[2][2] = {{3}, {2.5, 3}}, wrong[2][2] = {{1}, {1, 1.5}};
    const int64_t len_q = 1 + _i;
    AttnShape shape = {1, 1, 1, len_q, 5, 1, 1, true, 0, NULL};
    uint8_t top_left[2 * 5] = {0};
    Problem problem;
    Expected bottom_right, expected;
    ASSERT_OK(problem_random(&problem, &shape, DTYPE_F32, 1));
    for (int64_t j = 0; j < 5; j++) {
        tensor_set(&problem.k, (size_t)j, 0);
        tensor_set(&problem.v, (size_t)j, (double)j + 1);
        for (int64_t i = 0; i < len_q; i++) {
            top_left[i * 5 + j] = j <= i;
        }
    }
    ASSERT_OK(expected_make(&bottom_right, &shape, &problem.q, &problem.k, &problem.v, DTYPE_F32));
    AttnShape unmasked = shape;
    unmasked.causal = false;
    ASSERT_OK(expected_make_masked(&expected, &unmasked, top_left, &problem.q, &problem.k,
                                   &problem.v, DTYPE_F32));
    for (int64_t i = 0; i < len_q; i++) {
        ck_assert_double_eq_tol(bottom_right.o[i], right[_i][i], 1e-14);
        ck_assert_double_eq_tol(expected.o[i], wrong[_i][i], 1e-14);
    }
    for (int i = 0; i < masks_run_count; i++) {
        ASSERT_OK(masks_run(&shape, &problem.q, &problem.k, &problem.v, &problem.o, &problem.lse,
                            &masks_runs[i]));
        ck_assert(compare_output(&bottom_right, &problem.o, &problem.lse, 0, NULL, NULL));
        ck_assert(!compare_output(&expected, &problem.o, &problem.lse, 0, NULL, NULL));
    }
    expected_free(&bottom_right);
    expected_free(&expected);
    problem_free(&problem);
}
END_TEST

int main(void) {
    gpu_tests_find();
    masks_find_runs();
    Suite *suite = suite_create("ch07_rules");
    TCase *tests = tcase_create("ch07_rules");
    tcase_set_timeout(tests, 240);
    tcase_add_loop_test(tests, borders_of_tiles, 0, 2 * BORDERS);
    tcase_add_loop_test(tests, random_masks, 0, RANDOM_TESTS);
    tcase_add_loop_test(tests, nan_reaches_who_sees_it, 0, 4);
    tcase_add_loop_test(tests, top_left_is_wrong_without_an_error, 0, 2);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
