// Barriers that count, votes, shuffles and atomics against their definitions, on every target and
// in every thread order.
#include "tests/unit/simt_places.h"
#include "tests/unit/simt_probe.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 32, CASES = 64 };

static uint32_t random_state = 1;
static uint32_t random_bits(void) {
    random_state = random_state * 1664525U + 1013904223U;
    return random_state >> 8 ^ random_state << 16;
}

// ---- barriers -----------------------------------------------------------------------------------

static void check_reduce(int place, int threads, int end_from, int density) {
    static AttnStatus (*const probe[])(const int *, int(*)[3], int, int) = GPU_BUILDS(probe_reduce);
    const GpuTarget target = simt_test_places[place].target;
    int predicate[1024], result[1024][3], count = 0;
    for (int t = 0; t < threads; t++) {
        predicate[t] = (int)(random_bits() % 8) < density ? 4 : 0; // any value but 0 holds
        count += t < end_from && predicate[t] != 0;
    }
    int *device_predicate = simt_test_array(target, "predicate", (size_t)threads, 4, predicate);
    int(*device_result)[3] = simt_test_array(target, "result", (size_t)threads, 12, NULL);
    ck_assert_msg(probe[target](device_predicate, device_result, threads, end_from) == ATTN_OK,
                  "%s", attn_last_error());
    simt_test_download(target, result, device_result, (size_t)threads * sizeof result[0]);
    const int live = end_from < threads ? end_from : threads;
    for (int t = 0; t < live; t++) {
        ck_assert_int_eq(result[t][0], count);
        ck_assert_int_eq(result[t][1] != 0, count == live);
        ck_assert_int_eq(result[t][2] != 0, count != 0);
    }
    gpu_free(target, device_predicate);
    gpu_free(target, device_result);
}

START_TEST(barriers_count_the_threads_that_live) {
    if (!simt_test_begin(_i)) {
        return;
    }
    const int sizes[][2] = {{1, 1},       {31, 31},   {32, 32}, {33, 33},   {256, 256},
                            {1024, 1024}, {256, 100}, {64, 1},  {1000, 999}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int density = 0; density <= 8; density += 4) {
            check_reduce(_i, sizes[i][0], sizes[i][1], density);
        }
    }
}
END_TEST

// ---- votes --------------------------------------------------------------------------------------

START_TEST(votes_are_of_the_lanes_in_the_mask) {
    static AttnStatus (*const probe[])(const int *, unsigned(*)[4], int) = GPU_BUILDS(probe_vote);
    const GpuTarget target = simt_test_places[_i].target;
    if (!simt_test_begin(_i)) {
        return;
    }
    for (int split = 1; split <= LANES; split += 5) {
        for (int round = 0; round < 4; round++) {
            int predicate[LANES];
            unsigned result[LANES][4], holds = 0;
            for (int lane = 0; lane < LANES; lane++) {
                predicate[lane] = round == 0 ? 0 : round == 1 ? 7 : (int)(random_bits() % 2);
                holds |= predicate[lane] != 0 ? 1U << lane : 0;
            }
            int *device_predicate = simt_test_array(target, "predicate", LANES, 4, predicate);
            unsigned(*device_result)[4] = simt_test_array(target, "result", LANES, 16, NULL);
            ck_assert_msg(probe[target](device_predicate, device_result, split) == ATTN_OK, "%s",
                          attn_last_error());
            simt_test_download(target, result, device_result, sizeof result);
            for (int lane = 0; lane < LANES; lane++) {
                const unsigned low = (unsigned)((1ULL << split) - 1);
                const unsigned mask = lane < split ? low : ~low;
                ck_assert_uint_eq(result[lane][0], holds & mask);
                ck_assert_uint_eq(result[lane][1] != 0, (holds & mask) == mask);
                ck_assert_uint_eq(result[lane][2] != 0, (holds & mask) != 0);
                ck_assert_uint_eq(result[lane][3], 0xffffffffU);
            }
            gpu_free(target, device_predicate);
            gpu_free(target, device_result);
        }
    }
}
END_TEST

// ---- shuffles -----------------------------------------------------------------------------------

// From CUDA's guide: __shfl_sync reads lane `argument` modulo width of the lane's own segment; up
// and down do not leave it; xor may read from an earlier segment, not from a later one. Where a
// lane may not read it keeps its own value. Distances count modulo 32, as in PTX.
static int expected_source(int kind, int lane, int argument, int width) {
    const int segment = lane / width, distance = argument & 31;
    int source;
    switch (kind) {
    case 0:
        return segment * width + ((argument % width) + width) % width;
    case 1:
        source = lane - distance;
        return source >= 0 && source / width == segment ? source : lane;
    case 2:
        source = lane + distance;
        return source / width == segment ? source : lane;
    default:
        source = lane ^ distance;
        return source / width <= segment ? source : lane;
    }
}

// Values that show every bit that the type has.
static double shuffle_value(ProbeType type, int lane) {
    const double sign = lane % 2 == 0 ? 1 : -1;
    switch (type) {
    case PROBE_INT:
        return sign * (2000000000.0 + lane);
    case PROBE_UNSIGNED:
        return 4000000000.0 + lane;
    case PROBE_FLOAT:
        return sign * (lane + 0.5);
    case PROBE_LONG:
        return sign * (1e15 + lane);
    case PROBE_UNSIGNED_LONG:
        return 9e15 + lane;
    default:
        return sign * (1e-300 * (lane + 1));
    }
}

START_TEST(shuffles_read_the_right_lane) {
    static AttnStatus (*const probe[])(ProbeType, int, const double *, const int *, int, double *) =
        GPU_BUILDS(probe_shuffle);
    const GpuTarget target = simt_test_places[_i].target;
    if (!simt_test_begin(_i)) {
        return;
    }
    double value[LANES], result[LANES];
    int argument[LANES];
    double *device_result = simt_test_array(target, "result", LANES, sizeof(double), NULL);
    double *device_value = simt_test_array(target, "value", LANES, sizeof(double), NULL);
    int *device_argument = simt_test_array(target, "argument", LANES, sizeof(int), NULL);
    for (int trial = 0; trial < 6 * 4 * 40; trial++) {
        const ProbeType type = (ProbeType)(trial % PROBE_TYPES);
        const int kind = trial / 6 % 4, width = 1 << (trial / 24 % 6);
        // Half of the time one distance for all lanes, as kernels have it.
        const int common = (int)(random_bits() % 40);
        for (int lane = 0; lane < LANES; lane++) {
            value[lane] = shuffle_value(type, lane);
            argument[lane] = trial % 2 == 0 ? common : (int)(random_bits() % 40);
            argument[lane] -= kind == 0 && trial % 3 == 0 ? 20 : 0;
        }
        ck_assert(gpu_upload(target, device_value, value, sizeof value) == ATTN_OK);
        ck_assert(gpu_upload(target, device_argument, argument, sizeof argument) == ATTN_OK);
        ck_assert_msg(probe[target](type, kind, device_value, device_argument, width,
                                    device_result) == ATTN_OK,
                      "%s", attn_last_error());
        simt_test_download(target, result, device_result, sizeof result);
        for (int lane = 0; lane < LANES; lane++) {
            const int source = expected_source(kind, lane, argument[lane], width);
            ck_assert_msg(result[lane] == value[source],
                          "type %d kind %d width %d argument %d: lane %d has %g, lane %d had %g",
                          (int)type, kind, width, argument[lane], lane, result[lane], source,
                          value[source]);
        }
    }
    gpu_free(target, device_result);
    gpu_free(target, device_value);
    gpu_free(target, device_argument);
}
END_TEST

// ---- atomics ------------------------------------------------------------------------------------

// What CUDA's guide says each operation leaves, for values of `bits` bits, signed or not.
static uint64_t expected_atomic(ProbeAtomic operation, uint64_t old, uint64_t value, int bits,
                                bool is_signed) {
    const uint64_t mask = bits == 32 ? UINT32_MAX : UINT64_MAX;
    const bool less = is_signed ? (int32_t)value < (int32_t)old : value < old;
    switch (operation) {
    case PROBE_ADD:
        return (old + value) & mask;
    case PROBE_SUB:
        return (old - value) & mask;
    case PROBE_EXCH:
        return value;
    case PROBE_CAS:
        return old == ((value + 1) & mask) ? value : old;
    case PROBE_MIN:
        return less ? value : old;
    case PROBE_MAX:
        return less ? old : value;
    case PROBE_AND:
        return old & value;
    case PROBE_OR:
        return old | value;
    case PROBE_XOR:
        return old ^ value;
    case PROBE_INC:
        return old >= value ? 0 : old + 1;
    default:
        return old == 0 || old > value ? value : old - 1;
    }
}

// Equal, neighbouring, extreme and random pairs.
static uint64_t atomic_value(int i, bool second) {
    static const uint64_t special[] = {0, 1, 5, 6, UINT64_MAX, INT32_MAX, (uint64_t)INT32_MIN, 4};
    if (i < 64 - 8) {
        return special[second ? i / 8 : i % 8];
    }
    return (uint64_t)random_bits() << 32 | random_bits();
}

START_TEST(atomics_on_32_bits) {
    static AttnStatus (*const probe_int[])(ProbeAtomic, int *, const int *, int *, int) =
        GPU_BUILDS(probe_atomic_int);
    static AttnStatus (*const probe_unsigned[])(ProbeAtomic, unsigned *, const unsigned *,
                                                unsigned *, int) =
        GPU_BUILDS(probe_atomic_unsigned);
    const GpuTarget target = simt_test_places[_i].target;
    if (!simt_test_begin(_i)) {
        return;
    }
    for (int operation = 0; operation < PROBE_ATOMICS; operation++) {
        for (int is_signed = 0; is_signed < (operation < PROBE_INC ? 2 : 1); is_signed++) {
            uint32_t cell[CASES], value[CASES], old[CASES], now[CASES];
            for (int i = 0; i < CASES; i++) {
                cell[i] = (uint32_t)atomic_value(i, false);
                value[i] = (uint32_t)atomic_value(i, true);
            }
            void *device_cell = simt_test_array(target, "cell", CASES, 4, cell);
            void *device_value = simt_test_array(target, "value", CASES, 4, value);
            void *device_old = simt_test_array(target, "old", CASES, 4, NULL);
            const AttnStatus status =
                is_signed ? probe_int[target]((ProbeAtomic)operation, device_cell, device_value,
                                              device_old, CASES)
                          : probe_unsigned[target]((ProbeAtomic)operation, device_cell,
                                                   device_value, device_old, CASES);
            ck_assert_msg(status == ATTN_OK, "%s", attn_last_error());
            simt_test_download(target, now, device_cell, sizeof now);
            simt_test_download(target, old, device_old, sizeof old);
            for (int i = 0; i < CASES; i++) {
                const uint32_t expected = (uint32_t)expected_atomic((ProbeAtomic)operation, cell[i],
                                                                    value[i], 32, is_signed != 0);
                ck_assert_msg(old[i] == cell[i] && now[i] == expected,
                              "operation %d of %u and %u: gave %u, left %u, not %u", operation,
                              cell[i], value[i], old[i], now[i], expected);
            }
            gpu_free(target, device_cell);
            gpu_free(target, device_value);
            gpu_free(target, device_old);
        }
    }
}
END_TEST

START_TEST(atomics_on_64_bits) {
    static AttnStatus (*const probe[])(ProbeAtomic, unsigned long long *,
                                       const unsigned long long *, unsigned long long *, int) =
        GPU_BUILDS(probe_atomic_long);
    const GpuTarget target = simt_test_places[_i].target;
    if (!simt_test_begin(_i)) {
        return;
    }
    for (int operation = 0; operation < PROBE_INC; operation++) {
        unsigned long long cell[CASES], value[CASES], old[CASES], now[CASES];
        if (operation == PROBE_SUB) {
            continue; // CUDA has none
        }
        for (int i = 0; i < CASES; i++) {
            cell[i] = atomic_value(i, false);
            value[i] = atomic_value(i, true);
        }
        void *device_cell = simt_test_array(target, "cell", CASES, 8, cell);
        void *device_value = simt_test_array(target, "value", CASES, 8, value);
        void *device_old = simt_test_array(target, "old", CASES, 8, NULL);
        ck_assert_msg(probe[target]((ProbeAtomic)operation, device_cell, device_value, device_old,
                                    CASES) == ATTN_OK,
                      "%s", attn_last_error());
        simt_test_download(target, now, device_cell, sizeof now);
        simt_test_download(target, old, device_old, sizeof old);
        for (int i = 0; i < CASES; i++) {
            ck_assert(old[i] == cell[i]);
            ck_assert(now[i] ==
                      expected_atomic((ProbeAtomic)operation, cell[i], value[i], 64, false));
        }
        gpu_free(target, device_cell);
        gpu_free(target, device_value);
        gpu_free(target, device_old);
    }
}
END_TEST

START_TEST(atomics_lose_no_update) {
    static AttnStatus (*const probe[])(float *, unsigned long long *, int *, int *, int, int) =
        GPU_BUILDS(probe_count);
    const GpuTarget target = simt_test_places[_i].target;
    enum { BLOCKS = 300, THREADS = 256, ALL = BLOCKS * THREADS };
    if (!simt_test_begin(_i)) {
        return;
    }
    simt_settings()->workers = 4;
    const int blocks = target == GPU_TRACE ? 20 : BLOCKS;
    float floats = 0;
    unsigned long long longs = 0;
    int ticket = 0;
    int *taken = calloc(ALL, sizeof *taken);
    float *device_floats = simt_test_array(target, "floats", 1, 4, &floats);
    unsigned long long *device_longs = simt_test_array(target, "longs", 1, 8, &longs);
    int *device_ticket = simt_test_array(target, "ticket", 1, 4, &ticket);
    int *device_taken = simt_test_array(target, "taken", ALL, 4, taken);
    ck_assert_msg(probe[target](device_floats, device_longs, device_ticket, device_taken, blocks,
                                THREADS) == ATTN_OK,
                  "%s", attn_last_error());
    simt_test_download(target, &floats, device_floats, sizeof floats);
    simt_test_download(target, &longs, device_longs, sizeof longs);
    simt_test_download(target, &ticket, device_ticket, sizeof ticket);
    simt_test_download(target, taken, device_taken, ALL * sizeof *taken);
    ck_assert_float_eq(floats, (float)(blocks * THREADS));
    ck_assert_uint_eq(longs, (unsigned long long)blocks * THREADS);
    ck_assert_int_eq(ticket, blocks * THREADS);
    for (int i = 0; i < blocks * THREADS; i++) {
        ck_assert_int_eq(taken[i], 1);
    }
    free(taken);
    gpu_free(target, device_floats);
    gpu_free(target, device_longs);
    gpu_free(target, device_ticket);
    gpu_free(target, device_taken);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("simt_warp");
    TCase *tests = tcase_create("primitives");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, barriers_count_the_threads_that_live, 0, SIMT_TEST_PLACES);
    tcase_add_loop_test(tests, votes_are_of_the_lanes_in_the_mask, 0, SIMT_TEST_PLACES);
    tcase_add_loop_test(tests, shuffles_read_the_right_lane, 0, SIMT_TEST_PLACES);
    tcase_add_loop_test(tests, atomics_on_32_bits, 0, SIMT_TEST_PLACES);
    tcase_add_loop_test(tests, atomics_on_64_bits, 0, SIMT_TEST_PLACES);
    tcase_add_loop_test(tests, atomics_lose_no_update, 0, SIMT_TEST_PLACES);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
