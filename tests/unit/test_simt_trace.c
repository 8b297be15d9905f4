// What a traced launch counts: kernels whose requests, sectors, bytes and wavefronts follow from
// their index arithmetic, and the four attention kernels whose requests and sectors an H200
// counted.
#include "common/simt/trace.h"
#include "tests/unit/simt_places.h"
#include "tests/unit/simt_trace_cases.h"

#include <check.h>
#include <stdlib.h>

static TraceProbe probe;

// Runs a probe, traced; n, stride and shift are set before.
static void run(TraceProbeRun *const *builds, unsigned grid, unsigned block) {
    ck_assert_msg(builds[GPU_TRACE](&probe, grid, block, 0) == ATTN_OK, "%s", attn_last_error());
}

static void assert_counts(const char *what, uint64_t got, uint64_t expected) {
    ck_assert_msg(got == expected, "%s: %llu, not %llu", what, (unsigned long long)got,
                  (unsigned long long)expected);
}

static void assert_loads(const char *buffer, uint64_t requests, uint64_t sectors, uint64_t bytes) {
    SimtCounts counts = simt_trace_sum(buffer);
    assert_counts("load requests", counts.load_requests, requests);
    assert_counts("load sectors", counts.load_sectors, sectors);
    assert_counts("bytes loaded", counts.load_bytes, bytes);
}

static void assert_stores(const char *buffer, uint64_t requests, uint64_t sectors, uint64_t bytes) {
    SimtCounts counts = simt_trace_sum(buffer);
    assert_counts("store requests", counts.store_requests, requests);
    assert_counts("store sectors", counts.store_sectors, sectors);
    assert_counts("bytes stored", counts.store_bytes, bytes);
}

// ---- global memory ------------------------------------------------------------------------------

static TraceProbeRun *const copy[] = GPU_BUILDS(trace_copy);
static TraceProbeRun *const copy_wide[] = GPU_BUILDS(trace_copy_wide);
static TraceProbeRun *const block_sum[] = GPU_BUILDS(trace_block_sum);

typedef struct CopyCase {
    int stride, shift, n;
    unsigned grid, block;
    uint64_t requests, sectors; // of the loads
} CopyCase;
static const CopyCase copies[] = {
    {1, 0, 1024, 8, 128, 32, 32 * 4},  // coalesced: 128 bytes of 32 lanes are 4 sectors
    {2, 0, 1024, 8, 128, 32, 32 * 8},  // every second float
    {8, 0, 1024, 8, 128, 32, 32 * 32}, // a sector for each lane
    {32, 0, 256, 2, 128, 8, 8 * 32},   // no worse than that
    {0, 0, 1024, 8, 128, 32, 32},      // one address for all
    {-1, 1023, 1024, 8, 128, 32, 32 * 4},
    {1, 1, 1024, 8, 128, 32, 32 * 5}, // 4 bytes off: a fifth sector
    {1, 0, 16, 1, 32, 1, 2},          // half a warp
    {1, 0, 33, 1, 64, 2, 4 + 1},      // a warp of which one lane is left
    {1, 0, 40, 1, 40, 2, 4 + 1},      // a block that ends inside a warp
};

START_TEST(floats) {
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    const CopyCase *c = &copies[_i];
    probe.stride = c->stride;
    probe.shift = c->shift;
    probe.n = c->n;
    run(copy, c->grid, c->block);
    assert_loads("x", c->requests, c->sectors, (uint64_t)c->n * 4);
    assert_stores("y", c->requests, ((uint64_t)c->n + 7) / 8, (uint64_t)c->n * 4);
    assert_loads("y", 0, 0, 0);
    assert_stores("x", 0, 0, 0);
}
END_TEST

// A request is one, whatever its width: 16 sectors of 32 lanes that load 16 bytes each.
START_TEST(wide) {
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    probe.n = 256;
    run(copy_wide, 2, 128);
    assert_loads("x", 8, 128, 4096);
    assert_stores("y", 8, 128, 4096);
    simt_trace_reset();
    probe.stride = 2; // half of each sector
    run(copy_wide, 2, 128);
    assert_loads("x", 8, 256, 4096);
}
END_TEST

START_TEST(gather) {
    static TraceProbeRun *const builds[] = GPU_BUILDS(trace_gather);
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    static unsigned index[TRACE_FLOATS];
    for (unsigned i = 0; i < TRACE_FLOATS; i++) {
        index[i] = (i * 2654435761u >> 7) % 4096;
    }
    ck_assert_int_eq(gpu_upload(GPU_TRACE, probe.index, index, sizeof index), ATTN_OK);
    probe.n = 2048;
    run(builds, 16, 128);
    uint64_t sectors = 0, unique = 0;
    static bool in_launch[4096 / 8];
    for (int warp = 0; warp < probe.n / 32; warp++) {
        bool seen[4096 / 8] = {false};
        for (int lane = 0; lane < 32; lane++) {
            unsigned sector = index[warp * 32 + lane] / 8;
            sectors += !seen[sector];
            unique += !in_launch[sector];
            seen[sector] = in_launch[sector] = true;
        }
    }
    assert_loads("x", 64, sectors, 8192);
    assert_counts("launch-unique", simt_trace_sum("x").launch_unique_load, unique * 32);
}
END_TEST

// A struct of two floats is 8 bytes that need not be aligned to 8: nvcc loads each float.
START_TEST(structs) {
    static TraceProbeRun *const builds[] = GPU_BUILDS(trace_struct);
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    run(builds, 1, 64);
    assert_loads("x", 2 * 2, 2 * 2 * 8, 64 * 8);
    assert_stores("y", 2 * 2, 2 * 2 * 8, 64 * 8);
}
END_TEST

START_TEST(copies_by_call) {
    static TraceProbeRun *const builds[] = GPU_BUILDS(trace_memcpy);
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    probe.n = 16;
    run(builds, 1, 32);
    assert_loads("x", 4, 4, 64);
    assert_stores("y", 4, 4, 64);
}
END_TEST

// Lanes with an odd number load twice: the second request has 16 lanes.
START_TEST(divergence) {
    static TraceProbeRun *const builds[] = GPU_BUILDS(trace_divergent);
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    run(builds, 1, 32);
    assert_loads("x", 2, 8, 48 * 4);
}
END_TEST

START_TEST(atomics) {
    static TraceProbeRun *const builds[] = GPU_BUILDS(trace_atomic);
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    run(builds, 2, 64);
    SimtCounts counts = simt_trace_sum("index");
    assert_counts("atomic requests", counts.atomic_requests, 4);
    assert_counts("atomic sectors", counts.atomic_sectors, 16);
    assert_counts("loads", counts.load_requests + counts.store_requests, 0);
}
END_TEST

// ---- unique bytes -------------------------------------------------------------------------------

// Three blocks read the same 4,096 bytes twice each.
START_TEST(unique_bytes) {
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    probe.n = 1024;
    run(block_sum, 3, 256);
    SimtCounts x = simt_trace_sum("x"), y = simt_trace_sum("y");
    assert_counts("asked", x.load_bytes, 3 * 2 * 4096);
    assert_counts("sectors", x.load_sectors * 32, 3 * 2 * 4096);
    assert_counts("block-unique", x.block_unique_load, 3 * 4096);
    assert_counts("launch-unique", x.launch_unique_load, 4096);
    assert_counts("asked", y.store_bytes, 3 * 4);
    assert_counts("block-unique", y.block_unique_store, 3 * 32);
    assert_counts("launch-unique", y.launch_unique_store, 32);
    run(block_sum, 3, 256); // summed launch by launch
    assert_counts("launch-unique", simt_trace_sum("x").launch_unique_load, 2 * 4096);
}
END_TEST

// Blocks of 512 bytes that lie 4 bytes off touch 17 sectors each, 129 together.
START_TEST(unique_off_by_four) {
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    probe.n = 1024;
    probe.shift = 1;
    run(copy, 8, 128);
    assert_counts("block-unique", simt_trace_sum("x").block_unique_load, 8 * 17 * 32);
    assert_counts("launch-unique", simt_trace_sum("x").launch_unique_load, 129 * 32);
}
END_TEST

// ---- shared memory ------------------------------------------------------------------------------

typedef struct SharedCase {
    TraceProbeRun *const *builds;
    SimtSharedCounts counts;
} SharedCase;
static TraceProbeRun *const columns[] = GPU_BUILDS(trace_columns);
static TraceProbeRun *const columns_padded[] = GPU_BUILDS(trace_columns_padded);
static TraceProbeRun *const shared_wide[] = GPU_BUILDS(trace_shared_wide);
static TraceProbeRun *const shared_halves[] = GPU_BUILDS(trace_shared_halves);
static const SharedCase shared_cases[] = {
    {columns, {32, 32 * 32, 32, 32, 32, 32}}, // all lanes in one bank
    {columns_padded, {32, 32, 32, 32, 32, 32}},
    {shared_wide, {2, 4 + 16, 8, 4, 16, 16}}, // quarter warps; 4 of 8 lanes in the same banks
    {shared_halves, {1, 1, 1, 1, 1, 1}},      // two lanes a word
};

START_TEST(conflicts) {
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    run(shared_cases[_i].builds, 1, 32);
    SimtSharedCounts got = simt_trace_sum_shared(), expected = shared_cases[_i].counts;
    assert_counts("load requests", got.load_requests, expected.load_requests);
    assert_counts("load wavefronts", got.load_wavefronts, expected.load_wavefronts);
    assert_counts("load ideal", got.load_ideal, expected.load_ideal);
    assert_counts("store requests", got.store_requests, expected.store_requests);
    assert_counts("store wavefronts", got.store_wavefronts, expected.store_wavefronts);
    assert_counts("store ideal", got.store_ideal, expected.store_ideal);
}
END_TEST

// The definition, word by word: for each group of lanes that fills 128 bytes, the most words that
// differ and share a bank.
static Wavefronts wavefronts_by_definition(unsigned mask, const uint64_t *value, unsigned size) {
    unsigned words = size < 4 ? 1 : size / 4, group = 32 / words;
    Wavefronts sum = {0, 0};
    for (unsigned first = 0; first < 32; first += group) {
        unsigned most = 0;
        for (unsigned bank = 0; bank < 32; bank++) {
            uint64_t list[128];
            unsigned count = 0;
            for (unsigned i = 0; i < group * words; i++) {
                uint64_t word = value[first + i / words] / 4 + i % words;
                bool counts = (mask >> (first + i / words) & 1) != 0 && word % 32 == bank;
                for (unsigned j = 0; j < count; j++) {
                    counts = counts && list[j] != word;
                }
                if (counts) {
                    list[count++] = word;
                }
            }
            most = count > most ? count : most;
        }
        sum.passes += most;
        sum.ideal += most > 0;
    }
    return sum;
}

START_TEST(wavefronts) {
    uint64_t random = 88172645463325252u;
    for (int trial = 0; trial < 2000; trial++) {
        unsigned size = 1u << trial % 5;
        uint64_t value[32];
        for (int lane = 0; lane < 32; lane++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            value[lane] = (random >> 20) % (trial % 3 == 0 ? 64 : 1024) * size;
        }
        unsigned mask = trial % 4 == 0 ? ~0u : (unsigned)(random >> 11);
        Wavefronts got = shared_wavefronts(mask, value, size);
        Wavefronts expected = wavefronts_by_definition(mask, value, size);
        ck_assert_msg(got.passes == expected.passes && got.ideal == expected.ideal,
                      "trial %d: %u of %u, not %u of %u", trial, got.passes, got.ideal,
                      expected.passes, expected.ideal);
    }
}
END_TEST

// ---- attention: what an H200 counts -------------------------------------------------------------

typedef AttnStatus AttentionRun(const TraceAttention *attention);
typedef struct AttentionCase {
    AttentionRun *builds[3];
    uint64_t load_requests, load_sectors, store_sectors, launch_unique_load;
} AttentionCase;
static const AttentionCase attention_cases[] = {
    {GPU_BUILDS(trace_scores), 65536, 262144, 32768, 2 * TRACE_N *TRACE_DIM * 4},
    {GPU_BUILDS(trace_softmax), 24576, 98304, 32768, TRACE_N *TRACE_N * 4},
    {GPU_BUILDS(trace_output), 65536, 262144, 4096, TRACE_N *(TRACE_N + TRACE_DIM) * 4},
    {GPU_BUILDS(trace_fused), 8448, 135168, 4096, 3 * TRACE_N *TRACE_DIM * 4},
};

START_TEST(attention_as_counted) {
    if (!trace_begin(SIMT_FORWARD, &probe)) {
        return;
    }
    enum { SMALL = TRACE_N * TRACE_DIM, LARGE = TRACE_N * TRACE_N };
    static float values[LARGE];
    for (int i = 0; i < LARGE; i++) {
        values[i] = (float)(i % 37) / 37;
    }
    TraceAttention attention = {
        .q = simt_test_array(GPU_TRACE, "q", SMALL, sizeof(float), values),
        .k = simt_test_array(GPU_TRACE, "k", SMALL, sizeof(float), values),
        .v = simt_test_array(GPU_TRACE, "v", SMALL, sizeof(float), values),
        .s = simt_test_array(GPU_TRACE, "s", LARGE, sizeof(float), NULL),
        .p = simt_test_array(GPU_TRACE, "p", LARGE, sizeof(float), NULL),
        .o = simt_test_array(GPU_TRACE, "o", SMALL, sizeof(float), NULL),
    };
    static float fused[SMALL], naive[SMALL];
    for (int i = 0; i < 4; i++) {
        const AttentionCase *c = &attention_cases[i];
        simt_trace_reset();
        ck_assert_msg(c->builds[GPU_TRACE](&attention) == ATTN_OK, "%s", attn_last_error());
        SimtCounts total = simt_trace_sum("");
        assert_counts("load requests", total.load_requests, c->load_requests);
        assert_counts("load sectors", total.load_sectors, c->load_sectors);
        assert_counts("store sectors", total.store_sectors, c->store_sectors);
        assert_counts("launch-unique", total.launch_unique_load, c->launch_unique_load);
        simt_test_download(GPU_TRACE, i == 2 ? naive : fused, attention.o, sizeof fused);
    }
    for (int i = 0; i < SMALL; i++) { // and they compute the same
        ck_assert_float_eq_tol(naive[i], fused[i], 1e-5f);
    }
}
END_TEST

// The order of the threads changes no count.
START_TEST(orders) {
    if (!trace_begin((SimtOrder)_i, &probe)) {
        return;
    }
    probe.n = 1000;
    probe.shift = 3;
    run(copy, 8, 128);
    assert_loads("x", 32, 32 * 5 - 3, 4000);
    run(columns, 1, 32);
    assert_counts("wavefronts", simt_trace_sum_shared().load_wavefronts, 32 * 32);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("simt_trace");
    TCase *tcase = tcase_create("trace");
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, floats, 0, (int)(sizeof copies / sizeof *copies));
    tcase_add_test(tcase, wide);
    tcase_add_test(tcase, gather);
    tcase_add_test(tcase, structs);
    tcase_add_test(tcase, copies_by_call);
    tcase_add_test(tcase, divergence);
    tcase_add_test(tcase, atomics);
    tcase_add_test(tcase, unique_bytes);
    tcase_add_test(tcase, unique_off_by_four);
    tcase_add_loop_test(tcase, conflicts, 0, (int)(sizeof shared_cases / sizeof *shared_cases));
    tcase_add_test(tcase, wavefronts);
    tcase_add_test(tcase, attention_as_counted);
    tcase_add_loop_test(tcase, orders, 0, 3);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
