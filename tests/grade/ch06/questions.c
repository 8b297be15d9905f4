// The questions of chapter 6: the expected answers, computed from their definitions.
#include "tests/grade/grade.h"

#include <math.h>

static double ceil_div(double a, double b) {
    return ceil(a / b);
}

static double busy_percent(void) {
    return 100 * 12.0 / 108;
}

static double waves(void) {
    return 3 * 24 * 5 / (132.0 * 2);
}

static double idle_percent(void) {
    return 100 * (ceil(waves()) - waves());
}

static double cache_bytes(double keys, double heads, double dim, double element) {
    return 2 * keys * heads * dim * element;
}

static double floor_us(void) {
    return cache_bytes(6 * 20000, 8, 128, 2) / 4e12 * 1e6;
}

static double partial_percent(void) {
    const double partials = 2 * 32 * (64 + 1) * 4.0;
    return 100 * partials / cache_bytes(8192, 1, 64, 2);
}

static double splits_of_a_wave(void) {
    return floor(132 * 4 / 6.0);
}

static double part_keys(void) {
    return ceil_div(1000, splits_of_a_wave());
}

static double parts_without_keys(void) {
    return splits_of_a_wave() - ceil_div(1000, part_keys());
}

// Keys whose bytes are 20 times those of a part, written and read.
static double keys_at_five_percent(void) {
    return 2 * (128 + 1) * 4 / 0.05 / cache_bytes(1, 1, 128, 2);
}

static double launch_ms(void) {
    return (7 - 1) * 4e-6 * 32 * 1e3;
}

// 5,000, 3,000 and 100 keys in tiles of 64 over 24 blocks.
static double fullest_block(void) {
    return ceil_div(ceil_div(5000, 64) + ceil_div(3000, 64) + ceil_div(100, 64), 24);
}

static double sink_share_percent(void) {
    const double parts = exp(2.0) + exp(3.0), sink = exp(1.5);
    return 100 * sink / (parts + sink);
}

const GradeQuestion grade_questions[] = {
    {"q1", 1, busy_percent, 0.005, "%", "A head is a block, and a block is on one SM."},
    {"q2", 1, waves, 0.005, "waves",
     "Sequences times heads times splits, over the blocks that are on the GPU at a time."},
    {"q3", 1, idle_percent, 0.005, "%",
     "What is missing from the waves to the next whole number, as a share of one wave."},
    {"q4", 1, floor_us, 0.005, "us",
     "K and V, 2 bytes an element, of 120,000 keys and 8 heads of 128; 1 TB is 10^12 bytes."},
    {"q5", 1, partial_percent, 0.005, "%",
     "A part has d + 1 floats of 4 bytes, written once and read once; the cache has 2 S d elements "
     "of 2 bytes."},
    {"q6", 1, splits_of_a_wave, 0.001, "splits",
     "132 x 4 blocks are on the GPU at a time; each split adds 6."},
    {"q7", 1, part_keys, 0.001, "keys",
     "The keys over the splits of the question before, rounded "
     "up."},
    {"q8", 1, parts_without_keys, 0.001, "parts",
     "How many parts of that size do 1000 keys fill? The last of them only in part."},
    {"q9", 1, keys_at_five_percent, 0.005, "keys",
     "n keys are 2 n d elements of 2 bytes; a part is d + 1 floats, written and read. Their ratio "
     "is to be 0.05."},
    {"q10", 1, launch_ms, 0.005, "ms", "Six launches more, in each of 32 layers."},
    {"q11", 1, fullest_block, 0.001, "tiles",
     "The tiles of each sequence rounded up, then their sum over the blocks rounded up."},
    {"q12", 1, sink_share_percent, 0.005, "%",
     "exp(1.5) over exp(2) + exp(3) + exp(1.5): the sink is in the denominator."},
    {NULL, 0, NULL, 0.0, NULL, NULL},
};
