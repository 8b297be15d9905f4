// The suite of lab 1, the size of a part: costs by hand, then by dealing keys out one by one, then
// the choice by hand and against a search.
#include "exercises/ch06/labs.h"
#include "tests/grade/grade.h"

#include <math.h>
#include <stdio.h>

const char grade_title[] = "the size of a part";

enum { MAX_SEQUENCES = 16 };

static const int64_t unlimited = INT64_C(1) << 50;

// ---- cases --------------------------------------------------------------------------------------

static void set_case(const char *what, int64_t number, const RaggedBatch *b, const SplitGpu *gpu) {
    const int64_t slots = gpu->sms * gpu->blocks_per_sm;
    char lens[256] = "";
    int used = 0;
    for (int64_t i = 0; i < b->sequences && used < 200; i++) {
        used += snprintf(lens + used, sizeof(lens) - (size_t)used, "%s%lld", i == 0 ? "" : ", ",
                         (long long)b->lens[i]);
    }
    grade_case("%s %lld; lengths %s; %lld heads, d = %lld; %lld slots, block cost %lld", what,
               (long long)number, b->sequences == 0 ? "none" : lens, (long long)b->heads,
               (long long)b->dim, (long long)slots, (long long)gpu->block_cost);
}

// A batch whose lengths lie in memory of the harness, so that a change is seen.
static RaggedBatch batch_of(int64_t sequences, const int64_t *lens, int64_t heads, int64_t dim) {
    int64_t *copy = grade_alloc((size_t)(sequences + 1) * sizeof(int64_t));
    for (int64_t i = 0; i < sequences; i++) {
        copy[i] = lens[i];
    }
    grade_freeze("lens", copy, sizeof(int64_t));
    return (RaggedBatch){sequences, copy, heads, dim};
}

// ---- the suite's own costs ----------------------------------------------------------------------

typedef enum CutBy { CUT_BY_SIZE, CUT_BY_SPLITS } CutBy;

// Parts of a sequence, its keys taken away part by part.
static int64_t count_parts(int64_t len, int64_t part_keys, int64_t *longest) {
    int64_t parts = 0;
    while (len > 0) {
        const int64_t keys = len < part_keys ? len : part_keys;
        *longest = keys > *longest ? keys : *longest;
        len -= keys;
        parts++;
    }
    return parts;
}

static SplitCost cost_by_suite(const RaggedBatch *b, const SplitGpu *gpu, CutBy by,
                               int64_t number) {
    const int64_t slots = gpu->sms * gpu->blocks_per_sm;
    SplitCost cost = {0};
    int64_t begun = 0;
    for (int64_t i = 0; i < b->sequences; i++) {
        int64_t size = number;
        if (by == CUT_BY_SPLITS) {
            for (size = 1; size * number < b->lens[i];) {
                size++;
            }
        }
        const int64_t parts = count_parts(b->lens[i], size, &cost.longest);
        cost.blocks += parts * b->heads;
        cost.workspace += parts > 1 ? parts * b->heads * (4 * b->dim + 4) : 0;
    }
    while (begun * slots < cost.blocks) {
        begun++;
    }
    cost.waves = (double)cost.blocks / (double)slots;
    cost.idle = (double)begun - cost.waves;
    cost.time = begun * (cost.longest + gpu->block_cost);
    return cost;
}

static void expect_cost(const RaggedBatch *b, const SplitGpu *gpu, CutBy by, int64_t number,
                        const SplitCost *want) {
    set_case(by == CUT_BY_SIZE ? "parts of" : "splits", number, b, gpu);
    const SplitCost got =
        by == CUT_BY_SIZE ? cost_of_size(b, gpu, number) : cost_of_splits(b, gpu, number);
    expect_int("blocks", got.blocks, want->blocks);
    expect_int("longest", got.longest, want->longest);
    expect_close("waves", got.waves, want->waves, 1e-9 * (1 + want->waves));
    expect_close("idle", got.idle, want->idle, 1e-9 * (1 + want->waves));
    expect_int("time", got.time, want->time);
    expect_int("workspace", got.workspace, want->workspace);
}

// ---- parts and blocks ---------------------------------------------------------------------------

static void expect_parts(int64_t len, int64_t part_keys, int64_t want) {
    grade_case("parts_of(%lld, %lld)", (long long)len, (long long)part_keys);
    expect_int("parts", parts_of(len, part_keys), want);
}

static void test_parts_of_a_sequence(void) {
    expect_parts(1024, 256, 4);
    expect_parts(1000, 256, 4);
    expect_parts(1025, 256, 5);
    expect_parts(7, 256, 1);
    expect_parts(7, 1, 7);
}

static const int64_t lens_by_hand[] = {1000, 300, 50};
static const SplitGpu gpu_by_hand = {3, 2, 64};

static void test_blocks(void) {
    const RaggedBatch b = batch_of(3, lens_by_hand, 2, 32);
    set_case("parts of", 256, &b, &gpu_by_hand);
    expect_int("blocks", cost_of_size(&b, &gpu_by_hand, 256).blocks, 14);
    set_case("parts of", 512, &b, &gpu_by_hand);
    expect_int("blocks", cost_of_size(&b, &gpu_by_hand, 512).blocks, 8);
    set_case("parts of", 1000, &b, &gpu_by_hand);
    expect_int("blocks", cost_of_size(&b, &gpu_by_hand, 1000).blocks, 6);
}

static void test_waves(void) {
    const RaggedBatch b = batch_of(3, lens_by_hand, 2, 32);
    set_case("parts of", 256, &b, &gpu_by_hand);
    SplitCost cost = cost_of_size(&b, &gpu_by_hand, 256);
    expect_close("waves", cost.waves, 14.0 / 6, 1e-12);
    expect_close("idle", cost.idle, 4.0 / 6, 1e-12);
    expect_int("time", cost.time, 3 * (256 + 64));
    set_case("parts of", 512, &b, &gpu_by_hand);
    cost = cost_of_size(&b, &gpu_by_hand, 512);
    expect_close("waves", cost.waves, 8.0 / 6, 1e-12);
    expect_close("idle", cost.idle, 4.0 / 6, 1e-12);
    expect_int("time", cost.time, 2 * (512 + 64));
}

static void test_full_waves(void) {
    const int64_t lens[] = {512, 512, 256};
    const RaggedBatch b = batch_of(3, lens, 6, 16);
    for (int64_t full = 1; full <= 3; full++) {
        const SplitGpu gpu = {30 / full, 1, 10}; // 30 blocks
        set_case("parts of", 256, &b, &gpu);
        const SplitCost cost = cost_of_size(&b, &gpu, 256);
        expect_close("waves", cost.waves, (double)full, 1e-12);
        expect_close("idle", cost.idle, 0.0, 0.0);
        expect_int("time", cost.time, full * 266);
    }
}

static void test_longest_part(void) {
    const int64_t lens[] = {40, 100, 7};
    const RaggedBatch b = batch_of(3, lens, 1, 16);
    const SplitGpu gpu = {132, 1, 5};
    for (int64_t size = 99; size <= 300; size += 67) {
        set_case("parts of", size, &b, &gpu);
        const SplitCost cost = cost_of_size(&b, &gpu, size);
        expect_int("longest", cost.longest, size < 100 ? size : 100);
        expect_int("time", cost.time, (size < 100 ? size : 100) + 5);
    }
}

static void test_workspace(void) {
    const int64_t lens[] = {1000, 256, 257};
    const RaggedBatch b = batch_of(3, lens, 2, 64);
    set_case("parts of", 256, &b, &gpu_by_hand);
    expect_int("workspace", cost_of_size(&b, &gpu_by_hand, 256).workspace, 2 * (4 + 2) * 65 * 4);
    set_case("parts of", 1000, &b, &gpu_by_hand);
    expect_int("workspace", cost_of_size(&b, &gpu_by_hand, 1000).workspace, 0);
}

// ---- splits -------------------------------------------------------------------------------------

static void test_splits(void) {
    const RaggedBatch b = batch_of(3, lens_by_hand, 2, 32);
    const SplitCost four = {24, 250, 24 * 33 * 4, 4.0, 0.0, 4 * 314};
    const SplitCost three = {18, 334, 18 * 33 * 4, 3.0, 0.0, 3 * 398};
    const SplitCost one = {6, 1000, 0, 1.0, 0.0, 1064};
    expect_cost(&b, &gpu_by_hand, CUT_BY_SPLITS, 4, &four);
    expect_cost(&b, &gpu_by_hand, CUT_BY_SPLITS, 3, &three);
    expect_cost(&b, &gpu_by_hand, CUT_BY_SPLITS, 1, &one);
}

static void test_more_splits_than_keys(void) {
    const int64_t lens[] = {5, 3, 1};
    const RaggedBatch b = batch_of(3, lens, 1, 8);
    const SplitCost four = {3 + 3 + 1, 2, 6 * 36, 7.0 / 6, 5.0 / 6, 2 * 66};
    const SplitCost eight = {5 + 3 + 1, 1, 8 * 36, 1.5, 0.5, 2 * 65};
    expect_cost(&b, &gpu_by_hand, CUT_BY_SPLITS, 4, &four);
    expect_cost(&b, &gpu_by_hand, CUT_BY_SPLITS, 8, &eight);
    for (int64_t splits = 1; splits <= 12; splits++) {
        const SplitCost want = cost_by_suite(&b, &gpu_by_hand, CUT_BY_SPLITS, splits);
        expect_cost(&b, &gpu_by_hand, CUT_BY_SPLITS, splits, &want);
    }
}

// ---- the choice ---------------------------------------------------------------------------------

static void expect_choice(const RaggedBatch *b, const SplitGpu *gpu, const SplitLimits *limits,
                          int64_t want) {
    char what[128];
    snprintf(what, sizeof(what), "granule %lld, least %lld, workspace %lld; batch of",
             (long long)limits->granule, (long long)limits->min_keys, (long long)limits->workspace);
    set_case(what, b->sequences, b, gpu);
    expect_int("part_keys", choose_part_keys(b, gpu, limits), want);
}

static int64_t choice_by_suite(const RaggedBatch *b, const SplitGpu *gpu,
                               const SplitLimits *limits) {
    int64_t size = limits->granule, best = 0, time = 0;
    for (bool last = false; !last; size += limits->granule) {
        if (size < limits->min_keys) {
            continue;
        }
        const SplitCost cost = cost_by_suite(b, gpu, CUT_BY_SIZE, size);
        last = cost.workspace == 0; // nothing is cut any more
        if (cost.workspace <= limits->workspace && (best == 0 || cost.time <= time)) {
            best = size;
            time = cost.time;
        }
    }
    return best;
}

static void test_choice(void) {
    const int64_t lens[] = {4096};
    const RaggedBatch b = batch_of(1, lens, 8, 64);
    const SplitGpu gpu = {128, 1, 16};
    const SplitLimits limits = {64, 64, unlimited};
    expect_choice(&b, &gpu, &limits, 256); // 16 parts of each head, one full wave
    const SplitGpu larger = {132, 2, 16};
    expect_choice(&b, &larger, &limits, 128);
}

static void test_equal_times(void) {
    const int64_t lens[] = {100, 40};
    const RaggedBatch b = batch_of(2, lens, 1, 8);
    // Without a cost and with one slot every key is waited for: 10 divides 100 and 40, and so does
    // 20; 50 and 100 leave short parts.
    const SplitGpu one = {1, 1, 0};
    const SplitLimits limits = {10, 10, unlimited};
    expect_choice(&b, &one, &limits, 20);
    const int64_t same[] = {96};
    const RaggedBatch single = batch_of(1, same, 1, 8);
    const SplitLimits limits_of_8 = {8, 8, unlimited};
    expect_choice(&single, &one, &limits_of_8, 96);
}

static void test_least_keys(void) {
    const int64_t lens[] = {4096};
    const RaggedBatch b = batch_of(1, lens, 1, 64);
    const SplitGpu gpu = {132, 4, 0};
    const SplitLimits even = {64, 512, unlimited}, uneven = {64, 500, unlimited};
    const SplitLimits odd = {48, 490, unlimited}, long_one = {64, 5000, unlimited};
    expect_choice(&b, &gpu, &even, 512);
    expect_choice(&b, &gpu, &uneven, 512);
    expect_choice(&b, &gpu, &odd, 528);
    expect_choice(&b, &gpu, &long_one, 5056);
}

static void test_workspace_limit(void) {
    const int64_t lens[] = {4096};
    const RaggedBatch b = batch_of(1, lens, 1, 63);
    const SplitGpu gpu = {132, 4, 0};
    // A part takes 256 bytes.
    const SplitLimits sixteen = {64, 64, 16 * 256}, fifteen = {64, 64, 16 * 256 - 1};
    const SplitLimits nothing = {64, 64, 0};
    expect_choice(&b, &gpu, &sixteen, 256);
    expect_choice(&b, &gpu, &fifteen, 320);
    expect_choice(&b, &gpu, &nothing, 4096);
}

// Lengths that differ much, up to `most`, some of them 0.
static RaggedBatch random_batch(uint64_t seed, int64_t sequences, double most) {
    int64_t lens[MAX_SEQUENCES];
    for (int64_t i = 0; i < sequences; i++) {
        const double x = fabs((double)grade_normal(seed, (uint64_t)i));
        lens[i] = x < 0.2 ? 0 : (int64_t)fmin(most, most * x / 2);
    }
    return batch_of(sequences, lens, 1 + (int64_t)(seed % 5), 8 * (1 + (int64_t)(seed % 3)));
}

static void test_many_batches(void) {
    const int64_t sms[] = {1, 7, 108, 132};
    for (uint64_t n = 0; n < 240; n++) {
        const RaggedBatch b = random_batch(n, 1 + (int64_t)(n % 13), n % 2 == 0 ? 200 : 1000);
        const SplitGpu gpu = {sms[n % 4], 1 + (int64_t)(n % 3), (int64_t)(n % 7) * 10};
        for (int64_t number = 1; number < 2000; number = number * 3 + 1) {
            const SplitCost by_size = cost_by_suite(&b, &gpu, CUT_BY_SIZE, number);
            const SplitCost by_splits = cost_by_suite(&b, &gpu, CUT_BY_SPLITS, number);
            expect_cost(&b, &gpu, CUT_BY_SIZE, number, &by_size);
            expect_cost(&b, &gpu, CUT_BY_SPLITS, number, &by_splits);
        }
        const int64_t workspaces[] = {0, 2000, 20000, unlimited};
        const SplitLimits limits = {16 + 8 * (int64_t)(n % 2), 1 + (int64_t)(n % 4) * 29,
                                    workspaces[n / 4 % 4]};
        expect_choice(&b, &gpu, &limits, choice_by_suite(&b, &gpu, &limits));
    }
}

static void test_past_32_bits(void) {
    const int64_t lens[] = {INT64_C(1) << 36, 5, (INT64_C(1) << 36) - 1};
    const RaggedBatch b = batch_of(3, lens, 128, 128);
    const SplitGpu gpu = {132, 2, 100};
    expect_parts(lens[0] + 1, 16, (INT64_C(1) << 32) + 1);
    const int64_t parts = INT64_C(1) << 32, blocks = (2 * parts + 1) * 128;
    const int64_t begun = (blocks + 263) / 264;
    const SplitCost want = {blocks,
                            16,
                            2 * parts * 128 * 129 * 4,
                            (double)blocks / 264,
                            (double)(begun * 264 - blocks) / 264,
                            begun * 116};
    expect_cost(&b, &gpu, CUT_BY_SIZE, 16, &want);
    expect_cost(&b, &gpu, CUT_BY_SPLITS, 1,
                &(SplitCost){384, lens[0], 0, 384.0 / 264, 144.0 / 264, 2 * (lens[0] + 100)});
    const SplitLimits limits = {INT64_C(1) << 26, INT64_C(1) << 32, unlimited};
    const int64_t size = choose_part_keys(&b, &gpu, &limits);
    set_case("chosen parts of", size, &b, &gpu);
    const SplitCost got = cost_of_size(&b, &gpu, size);
    int64_t least = INT64_MAX;
    for (int64_t other = limits.min_keys; other < lens[0] + limits.granule;
         other += limits.granule) {
        const SplitCost cost = cost_by_suite(&b, &gpu, CUT_BY_SIZE, other);
        least = cost.time < least ? cost.time : least;
    }
    expect_int("time", got.time, least);
}

static void test_empty_sequences(void) {
    const int64_t lens[] = {0, 300, 0};
    const RaggedBatch b = batch_of(3, lens, 2, 16);
    const SplitCost size = {6, 128, 6 * 17 * 4, 1.0, 0.0, 128 + 64};
    const SplitCost splits = {8, 75, 8 * 17 * 4, 8.0 / 6, 4.0 / 6, 2 * (75 + 64)};
    expect_parts(0, 16, 0);
    expect_cost(&b, &gpu_by_hand, CUT_BY_SIZE, 128, &size);
    expect_cost(&b, &gpu_by_hand, CUT_BY_SPLITS, 4, &splits);
}

static void test_nothing_to_do(void) {
    const int64_t lens[] = {0, 0};
    const SplitCost nothing = {0};
    const SplitLimits limits = {16, 40, unlimited};
    for (int64_t sequences = 0; sequences <= 2; sequences += 2) {
        const RaggedBatch b = batch_of(sequences, lens, 2, 16);
        expect_cost(&b, &gpu_by_hand, CUT_BY_SIZE, 128, &nothing);
        expect_cost(&b, &gpu_by_hand, CUT_BY_SPLITS, 4, &nothing);
        expect_choice(&b, &gpu_by_hand, &limits, 48);
    }
}

const GradeTest grade_tests[] = {
    {"parts_of_a_sequence", 1, false, test_parts_of_a_sequence,
     "len / part_keys, rounded up: a part that is begun is a part."},
    {"blocks", 1, false, test_blocks,
     "Every part of every head is a block, and every sequence has its own number of parts; they "
     "are rounded up one by one, not their sum."},
    {"waves", 1, false, test_waves,
     "waves keeps its decimals, blocks over slots. A wave that is begun takes as long as a full "
     "one, so the time counts waves rounded up; idle is what is missing to that number."},
    {"full_waves", 1, false, test_full_waves,
     "When the blocks fill the last wave exactly there is no further one, and nobody is idle."},
    {"longest_part", 1, false, test_longest_part,
     "No part has more keys than its sequence, however large the size is."},
    {"workspace", 1, false, test_workspace,
     "d + 1 floats for each part and head, of those sequences alone that have more than one part."},
    {"splits", 1, false, test_splits,
     "Each sequence has a size of its own here: its length over the splits, rounded up. The time "
     "goes by the longest part of all."},
    {"more_splits_than_keys", 1, false, test_more_splits_than_keys,
     "Rounding the size up may leave fewer parts than splits: count those that have keys. 5 keys "
     "over 4 splits are 2, 2 and 1; 3 keys over 8 splits are three parts of one key."},
    {"choice", 1, false, test_choice,
     "Go through the candidates in labs.h and keep the one with the least time; see for the case "
     "which waves its neighbours have."},
    {"equal_times", 1, false, test_equal_times,
     "The last candidate is the first that is as long as the longest sequence. Of sizes with the "
     "same time the largest is taken: it has the fewest parts to write and "
     "merge."},
    {"least_keys", 1, false, test_least_keys,
     "The first candidate is min_keys rounded up to a multiple of the granule, even where that is "
     "more than the longest sequence."},
    {"workspace_limit", 1, false, test_workspace_limit,
     "A workspace of exactly the limit is allowed. The last candidate, which cuts nothing, needs "
     "none."},
    {"many_batches", 2, false, test_many_batches,
     "Costs and choices of random batches. Take the case that failed and count by hand: is it the "
     "parts, the waves, or the last candidate?"},
    {"past_32_bits", 1, false, test_past_32_bits,
     "Keep every count, product and sum in int64_t; and compute a number of parts, do not count it "
     "in a loop.",
     "A sequence of 2^36 keys has 2^32 parts of 16: compute their number, do not count them."},
    {"empty_sequences", 1, true, test_empty_sequences,
     "A sequence without keys has no part, no block, and no size that could be computed from its "
     "length."},
    {"nothing_to_do", 1, true, test_nothing_to_do,
     "Without keys everything is 0, and the first candidate is the choice."},
    {NULL, 0, false, NULL, NULL},
};
