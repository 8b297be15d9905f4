// The questions of chapter 8: the expected answers, computed from their definitions, rows one by
// one where there are any.
#include "common/model.h"
#include "tests/grade/grade.h"

#include <math.h>

static const double gib = 1024.0 * 1024 * 1024;

// 48 layers, 40 query heads, 8 KV heads, d = 128, 2 bytes an element.
static double token_bytes(double heads_kv) {
    return 2 * 48 * heads_kv * 128 * 2;
}

static double token_kib(void) {
    return token_bytes(8) / 1024;
}

static double batch_gib_of_all_heads(void) {
    return 32 * 16384 * token_bytes(40) / gib;
}

static double batch_gib_of_a_gpu(void) {
    return 32 * 16384 * token_bytes(8) / 4 / gib;
}

// A KV head is not cut: with 16 GPUs each of the 8 is on two of them.
static double batch_gib_of_sixteen(void) {
    return 32 * 16384 * token_bytes(ceil(8.0 / 16)) / gib;
}

// FLOP of both products over the bytes of K and V, for one key of a KV head.
static double intensity(double group, double tokens, double dim, double element) {
    return arithmetic_intensity(attention_flops(group * tokens, 1, dim), 2 * dim * element);
}

static double decode_intensity(void) {
    return intensity(5, 1, 128, 2);
}

static double draft_intensity(void) {
    return intensity(5, 4, 128, 1);
}

static double rows_at_the_ridge(void) {
    return 66e12 / 4.4e12 / intensity(1, 1, 128, 2);
}

static double tiles_of(double rows, double tile) {
    return ceil(rows / tile);
}

static double rows_used_percent(void) {
    return 100 * 5 * 7 / (16 * tiles_of(5 * 7, 16));
}

static double idle_rows(void) {
    return 3 * 4 * (16 * tiles_of(7 * 10, 16) - 7 * 10);
}

// Blocks of one head against blocks of packed rows, all of which read all keys.
static double reread_factor(void) {
    return 6 * tiles_of(20, 16) / tiles_of(6 * 20, 16);
}

// Group 6, T = 64, S = 4096, a window of 512: row 100.
static double first_key(void) {
    int row = 0;
    for (int token = 0; token < 64; token++) {
        for (int head = 0; head < 6; head++, row++) {
            if (row == 100) {
                return token + 4096 - 64 + 1 - 512;
            }
        }
    }
    return -1;
}

// Keys of the first tile of 16 rows, head by head, over those token by token: T = 64, group 8, a
// window of 128 far from both ends.
static double order_percent(void) {
    const double by_token = 128 + 16.0 / 8 - 1, by_head = 128 + 16 - 1;
    return 100 * (by_head / by_token - 1);
}

const GradeQuestion grade_questions[] = {
    {"q1", 1, token_kib, 1e-6, "KiB",
     "K and V of every layer and every KV head: 2 x layers x heads_kv x d x bytes."},
    {"q2", 1, batch_gib_of_all_heads, 1e-6, "GiB",
     "40 KV heads in place of 8, times the tokens of all sequences."},
    {"q3", 1, batch_gib_of_a_gpu, 1e-6, "GiB", "Two of the 8 KV heads are on each GPU."},
    {"q4", 1, batch_gib_of_sixteen, 1e-6, "GiB",
     "A GPU with query heads needs the whole KV head that these read: there is no half of one."},
    {"q5", 1, decode_intensity, 0.001, "FLOP/byte",
     "A key costs each query head of its group 4 d FLOP, and 2 d elements are read for all of "
     "them."},
    {"q6", 1, draft_intensity, 0.001, "FLOP/byte",
     "The group's rows, once for each token, against half the bytes."},
    {"q7", 1, rows_at_the_ridge, 0.001, "rows",
     "The ridge is the FLOP rate over the bandwidth; a packed row brings 4 d FLOP for 2 d elements "
     "of 2 bytes."},
    {"q8", 1, rows_used_percent, 0.005, "%",
     "35 packed rows in tiles of 16: the last tile is not full."},
    {"q9", 1, idle_rows, 1e-6, "rows", "Each of the 3 x 4 KV heads has a last tile of its own."},
    {"q10", 1, reread_factor, 0.005, "",
     "6 heads with two tiles each, against the tiles of 120 packed rows."},
    {"q11", 1, first_key, 1e-6, "", "Row 100 is token 100 / 6. Its window ends with its own key."},
    {"q12", 1, order_percent, 0.005, "%",
     "A tile of t tokens side by side needs window + t - 1 keys."},
    {NULL, 0, NULL, 0.0, NULL, NULL},
};
