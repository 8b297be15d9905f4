// Chapter 6's splits: every number of them gives the answer; how many choose_splits and
// decode_splits take; what a workspace holds.
#include "tests/unit/ch06_run.h"

#include "tests/unit/gpu_targets.h"

#include <math.h>
#include <string.h>

static DecodeConfig config_of(int rung, int64_t splits, DType dtype, GpuTarget target) {
    return (DecodeConfig){rung, splits, dtype, target, SIMT_FORWARD};
}

// ---- more splits than keys ----------------------------------------------------------------------

// Keys of 0: O is the mean of the values, LSE the logarithm of their number.
static void check_mean(int rung, int64_t keys, int64_t splits, GpuTarget target) {
    const AttnShape shape = {1, 1, 1, 1, keys, 1, 1, false, 0, NULL};
    const DecodeConfig config = config_of(rung, splits, DTYPE_F32, target);
    Problem problem;
    double mean = 0;
    ASSERT_OK(problem_random(&problem, &shape, DTYPE_F32, 1));
    for (int64_t j = 0; j < keys; j++) {
        tensor_set(&problem.k, (size_t)j, 0);
        tensor_set(&problem.v, (size_t)j, 3 * (double)(j + 1));
        mean += 3 * (double)(j + 1) / (double)keys;
    }
    ASSERT_OK(
        decode_run(&shape, &problem.q, &problem.k, &problem.v, &problem.o, &problem.lse, &config));
    const double o = tensor_get(&problem.o, 0), lse = tensor_get(&problem.lse, 0);
    ck_assert_msg(fabs(o - mean) <= 4e-7 * mean, "%s, S %d, %d splits: %.9g is not %.9g",
                  decode_rungs[rung].name, (int)keys, (int)splits, o, mean);
    ck_assert_msg(fabs(lse - log((double)keys)) <= 4e-7, "%s, S %d, %d splits: LSE %.9g",
                  decode_rungs[rung].name, (int)keys, (int)splits, lse);
    problem_free(&problem);
}

START_TEST(more_splits_than_keys) {
    for (int t = 0; t < gpu_tests.count; t++) {
        check_mean(_i, 3, 8, gpu_tests.target[t]);
        check_mean(_i, 5, 4, gpu_tests.target[t]);
        for (int64_t splits = 1; splits <= 8; splits++) {
            check_mean(_i, 3, splits, gpu_tests.target[t]);
        }
    }
    check_mean(_i, 3, INT64_MAX, GPU_SIMT);
}
END_TEST

START_TEST(every_number_of_splits) {
    static const int64_t keys[] = {1, 3, 5, 12};
    for (int k = 0; k < 4; k++) {
        for (int64_t splits = 1; splits <= keys[k] + 5; splits++) {
            const AttnShape one = {1, 2, 1, 1, keys[k], 8, 0, true, 0, NULL};
            AttnShape chunk = one;
            chunk.len_q = 5; // causal: with 1 and 3 keys there are queries without any
            const DecodeConfig config = config_of(_i, splits, DTYPE_F32, GPU_SIMT);
            decode_check(&config, &one, 60, "one query");
            decode_check(&config, &chunk, 61, "five queries");
        }
    }
}
END_TEST

// ---- how many splits ----------------------------------------------------------------------------

START_TEST(waves) {
    ck_assert_double_eq_tol(decode_waves(8, 132), 0.0606, 0.0001); // 6 % of 132 SMs
    ck_assert_double_eq_tol(decode_waves(8 * 16, 132), 0.9697, 0.0001);
    ck_assert_double_eq_tol(decode_waves(8 * 32, 132), 1.94, 0.001); // 8 sequences, 32 heads
    ck_assert_double_eq_tol(decode_waves(32, 132), 0.242, 0.001);    // one sequence
    ck_assert_double_eq(decode_waves(8, 0), 0);
}
END_TEST

START_TEST(chosen_splits) {
    static const struct {
        int64_t units, keys, slots, min_keys, block_cost, splits;
    } table[] = {
        {8, 8192, 132, 64, 64, 16},   // 128 blocks, 0.97 wave: 512 + 64
        {8, 8192, 132, 64, 0, 33},    // if blocks cost nothing: two waves of 249
        {8, 8192, 132, 1024, 64, 8},  // no fewer than 1,024 keys to a part
        {8, 8192, 132, 8193, 64, 1},  // not even the whole has as many
        {8, 8192, 132, 0, 64, 16},    // no least number
        {32, 8192, 132, 64, 64, 4},   // one sequence of 32 heads
        {256, 8192, 132, 64, 64, 1},  // eight of them: two waves as they are
        {132, 8192, 132, 64, 64, 1},  // a full wave
        {133, 8192, 132, 64, 64, 11}, // one block more: 12 waves of a tenth instead of 2
        {1, 100, 132, 1, 100, 100},   // room for a key to a part
        {1, 7, 4, 1, 1, 4},           // more would be two waves
        {1, 9, 8, 1, 1, 5},           // 5 to 8 splits have 2 keys to a part: the smallest
        {0, 100, 132, 1, 1, 1},       // nothing to do
        {8, 0, 132, 1, 1, 1},         {8, 100, 0, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const int64_t got = choose_splits(table[i].units, table[i].keys, table[i].slots,
                                          table[i].min_keys, table[i].block_cost);
        ck_assert_msg(got == table[i].splits, "row %zu: %d splits, not %d", i, (int)got,
                      (int)table[i].splits);
    }
    // The search ends where more splits cannot help: this takes no time.
    ck_assert_int_ge(choose_splits(1, 1 << 30, 924, 1, 1), 924);
}
END_TEST

static uint64_t random_state;

static int64_t draw(int64_t limit) { // SplitMix64
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int64_t)((z ^ z >> 31) % (uint64_t)limit);
}

// The documented model, tried with every s.
START_TEST(chosen_splits_are_the_fastest) {
    for (int number = 0; number < 400; number++) {
        random_state = (uint64_t)number;
        const int64_t units = 1 + draw(300), keys = 1 + draw(3000), slots = 1 + draw(1100);
        const int64_t min_keys = 1 + draw(100), cost = draw(200);
        int64_t best = 1, best_time = INT64_MAX;
        for (int64_t s = 1; s <= (keys / min_keys > 1 ? keys / min_keys : 1); s++) {
            const int64_t time = ((units * s + slots - 1) / slots) * ((keys + s - 1) / s + cost);
            best = time < best_time ? s : best;
            best_time = time < best_time ? time : best_time;
        }
        const int64_t got = choose_splits(units, keys, slots, min_keys, cost);
        ck_assert_msg(got == best,
                      "units %d, keys %d, slots %d, min %d, cost %d: %d splits, not %d", (int)units,
                      (int)keys, (int)slots, (int)min_keys, (int)cost, (int)got, (int)best);
    }
}
END_TEST

START_TEST(splits_for_a_device) {
    GpuProperties h200;
    ASSERT_OK(gpu_properties(GPU_SIMT, &h200));
    AttnShape shape = {1, 8, 8, 1, 131072, 128, 0, false, 0, NULL};
    ck_assert_int_eq(decode_slots(&shape, DTYPE_BF16, &h200), 132 * DECODE_BLOCKS_ONE_16);
    ck_assert_int_eq(decode_slots(&shape, DTYPE_F32, &h200), 132 * DECODE_BLOCKS_ONE_32);
    const int64_t splits = decode_splits(&shape, DTYPE_BF16, &h200);
    ck_assert_int_ge(8 * splits, 132); // the device is full
    shape.len_q = 5;
    ck_assert_int_eq(decode_slots(&shape, DTYPE_BF16, &h200), 132 * DECODE_BLOCKS_FOUR);
    // Ragged: parts are as large as the mean length asks.
    static const int32_t lens[] = {131072, 0, 0, 0};
    AttnShape even = {4, 8, 8, 1, 32768, 128, 0, false, 0, NULL}, ragged = even;
    ragged.len_kv = 131072;
    ragged.kv_lens = lens;
    const int64_t keys = (32768 + decode_splits(&even, DTYPE_BF16, &h200) - 1) /
                         decode_splits(&even, DTYPE_BF16, &h200);
    ck_assert_int_eq(decode_splits(&ragged, DTYPE_BF16, &h200), (131072 + keys - 1) / keys);
    const AttnShape empty = {0, 8, 8, 1, 0, 128, 0, false, 0, NULL};
    ck_assert_int_eq(decode_splits(&empty, DTYPE_BF16, &h200), 1);
    h200.multiprocessors = 0;
    ck_assert_int_eq(decode_splits(&even, DTYPE_BF16, &h200), 1);
}
END_TEST

START_TEST(workspaces) {
    const AttnShape shape = {2, 3, 1, 5, 100, 64, 0, false, 0, NULL};
    const AttnShape none = {0, 3, 1, 5, 100, 64, 0, false, 0, NULL};
    const size_t rows = 2 * 3 * 5, counters = DECODE_MAX_UNITS * sizeof(unsigned);
    ck_assert_uint_eq(decode_rungs[DECODE].workspace_bytes(&shape, 7), 0);
    for (int rung = UNFUSED; rung <= FUSED; rung++) {
        const size_t seven = decode_rungs[rung].workspace_bytes(&shape, 7);
        ck_assert_uint_ge(seven, counters + rows * 7 * (64 + 1) * sizeof(float));
        ck_assert_uint_eq(seven % 256, 0);
        // 60 splits of 100 keys have 2 keys each: 50 parts. More splits than keys: 100.
        ck_assert_uint_eq(decode_rungs[rung].workspace_bytes(&shape, 60),
                          decode_rungs[rung].workspace_bytes(&shape, 50));
        ck_assert_uint_eq(decode_rungs[rung].workspace_bytes(&shape, INT64_MAX),
                          decode_rungs[rung].workspace_bytes(&shape, 100));
        ck_assert_uint_le(decode_rungs[rung].workspace_bytes(&none, 7), counters + 1024);
    }
    ck_assert_int_eq(decode_rungs[DECODE].launches, 1);
    ck_assert_int_eq(decode_rungs[UNFUSED].launches, 7);
    ck_assert_int_eq(decode_rungs[SPLIT].launches, 2);
    ck_assert_int_eq(decode_rungs[FUSED].launches, 1);
    for (int rung = 0; rung < DECODE_RUNGS; rung++) {
        const char *name = decode_rungs[rung].name;
        ck_assert_int_eq(strncmp(decode_rungs[rung].file, name, strlen(name)), 0);
    }
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("ch06 splits");
    TCase *tests = tcase_create("ch06 splits");
    tcase_set_timeout(tests, 400);
    tcase_add_loop_test(tests, more_splits_than_keys, 0, DECODE_RUNGS);
    tcase_add_loop_test(tests, every_number_of_splits, 0, DECODE_RUNGS);
    tcase_add_test(tests, waves);
    tcase_add_test(tests, chosen_splits);
    tcase_add_test(tests, chosen_splits_are_the_fastest);
    tcase_add_test(tests, splits_for_a_device);
    tcase_add_test(tests, workspaces);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
