// ./ch07, the wrong alignment: the causal mask of a square, key <= row, on problems that are not
// square. It is computed beside the right one: no error shows, and the answers are others.
#include "chapters/ch07_masks/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIM = 64, DECODE_KEYS = 4096, CHUNK_ROWS = 4, CHUNK_KEYS = 12 };

typedef bool Sees(Mask mask, int row, int key);

static bool bottom_right(Mask mask, int row, int key) {
    return mask_sees(mask, row, key);
}

static bool top_left(Mask mask, int row, int key) {
    return key < mask.keys && key <= row; // as if S were T
}

// Attention of one head as a plain loop in float64, under either rule. o [len_q][dim], lse [len_q].
static void plain_attention(const Problem *problem, Sees *sees, double *o, double *lse) {
    const AttnShape *shape = &problem->shape;
    const Mask mask = mask_of_shape(shape, 0);
    const float *q = problem->q.data, *k = problem->k.data, *v = problem->v.data;
    const int64_t dim = shape->dim;
    for (int row = 0; row < mask.len_q; row++) {
        double m = -INFINITY, l = 0;
        for (int64_t c = 0; c < dim; c++) {
            o[row * dim + c] = 0;
        }
        for (int key = 0; key < mask.keys; key++) {
            if (!sees(mask, row, key)) {
                continue;
            }
            double s = 0;
            for (int64_t c = 0; c < dim; c++) {
                s += (double)q[row * dim + c] * (double)k[key * dim + c];
            }
            s *= attn_scale(shape);
            const double m_new = fmax(m, s), alpha = exp(m - m_new), p = exp(s - m_new);
            m = m_new;
            l = alpha * l + p;
            for (int64_t c = 0; c < dim; c++) {
                o[row * dim + c] = alpha * o[row * dim + c] + p * (double)v[key * dim + c];
            }
        }
        for (int64_t c = 0; c < dim && l != 0; c++) {
            o[row * dim + c] /= l;
        }
        lse[row] = m + log(l);
    }
}

// One problem under both rules, and what the kernel says of it.
typedef struct Both {
    Problem problem; // its outputs are causal_attention's
    double *o[2], *lse[2];
    bool kernel_right;
} Both;

static double *doubles(size_t count) {
    double *memory = calloc(count + 1, sizeof *memory);
    if (memory == NULL) {
        fprintf(stderr, "ch07: no memory for %zu numbers\n", count);
        exit(2);
    }
    return memory;
}

static void both_make(Both *both, const Show *show, int64_t len_q, int64_t len_kv) {
    static Sees *const rules[2] = {bottom_right, top_left};
    const AttnShape shape = {1, 1, 1, len_q, len_kv, DIM, 0, true, 0, NULL};
    lesson_require(show->program,
                   problem_random(&both->problem, &shape, DTYPE_F32, show->options->seed));
    MaskRun run = {show->target, KERNEL_CAUSAL, NULL, &both->problem};
    LessonCheck check;
    lesson_require(show->program, lesson_check(mask_attention, &run, &both->problem, 0, &check));
    both->kernel_right = check.passed;
    for (int i = 0; i < 2; i++) {
        both->o[i] = doubles(attn_count_q(&shape));
        both->lse[i] = doubles(attn_count_lse(&shape));
        plain_attention(&both->problem, rules[i], both->o[i], both->lse[i]);
    }
}

static void both_free(Both *both) {
    for (int i = 0; i < 2; i++) {
        free(both->o[i]);
        free(both->lse[i]);
    }
    problem_free(&both->problem);
}

// ---- the decode step ----------------------------------------------------------------------------

static void decode_row(Table *table, const char *name, MaskRange seen, const double *o,
                       double lse) {
    char a[32], b[32];
    table_row(table, "%s|%s..%s|%.4f|%.4f|%.4f|%.4f", name, format_count(a, seen.begin),
              format_count(b, seen.end - 1), o[0], o[1], o[2], lse);
}

static bool show_decode(const Show *show) {
    Both both;
    both_make(&both, show, 1, DECODE_KEYS);
    const Mask mask = {1, DECODE_KEYS, 1, 0};
    const float *kernel_o = both.problem.o.data, *kernel_lse = both.problem.lse.data;
    const double o[3] = {(double)kernel_o[0], (double)kernel_o[1], (double)kernel_o[2]};
    Table table;
    report_section("Top-left alignment on a decode step: T = 1, S = 4,096, one head, d = 64");
    table_begin(&table, "rule|keys seen|O[0]|O[1]|O[2]|LSE");
    decode_row(&table, "causal_attention", mask_row_keys(mask, 0), o, (double)kernel_lse[0]);
    decode_row(&table, "bottom-right: j <= i + (S - T)", mask_row_keys(mask, 0), both.o[0],
               both.lse[0][0]);
    decode_row(&table, "top-left: j <= i", (MaskRange){0, 1}, both.o[1], both.lse[1][0]);
    table_print(&table);
    report_text("The last two are plain loops that differ by one condition. The wrong one ends "
                "without an error: its answer is the value of key 0, whatever the query.");
    const bool right = both.kernel_right;
    both_free(&both);
    return right;
}

// ---- the chunk ----------------------------------------------------------------------------------

// The answer of a row whose scores are all equal, when key j has the value j: the mean of the keys
// that it sees.
static double mean_key(Sees *sees, Mask mask, int row) {
    double sum = 0, count = 0;
    for (int key = 0; key < mask.keys; key++) {
        if (sees(mask, row, key)) {
            sum += key;
            count++;
        }
    }
    return count > 0 ? sum / count : 0;
}

static void draw_chunk(void) {
    const Mask mask = {CHUNK_ROWS, CHUNK_KEYS, 1, 0};
    char keys[2][2 * CHUNK_KEYS + 1];
    report_section("The same on a chunk of a prompt: T = 4, S = 12, equal scores, V[j] = j");
    printf("  %-32s   %s\n", "bottom-right", "top-left");
    for (int row = 0; row < CHUNK_ROWS; row++) {
        for (int key = 0; key < CHUNK_KEYS; key++) {
            snprintf(keys[0] + 2 * key, 3, "%c ", bottom_right(mask, row, key) ? 'x' : '.');
            snprintf(keys[1] + 2 * key, 3, "%c ", top_left(mask, row, key) ? 'x' : '.');
        }
        printf("  %s O = %-5g   %s O = %g\n", keys[0], mean_key(bottom_right, mask, row), keys[1],
               mean_key(top_left, mask, row));
    }
}

static bool show_lengths(const Show *show) {
    static const int64_t lengths[][2] = {{4, 12}, {64, 128}, {100, 101}, {96, 96}, {12, 4}};
    bool right = true;
    Table table;
    table_begin(&table, "T, S|rows wrong|largest error of O|largest O|of LSE|kernel");
    for (int i = 0; i < 5; i++) {
        const int64_t rows = lengths[i][0];
        Both both;
        both_make(&both, show, rows, lengths[i][1]);
        int wrong = 0;
        double error = 0, lse_error = 0, largest = 0;
        for (int64_t row = 0; row < rows; row++) {
            double off = 0;
            for (int64_t e = row * DIM; e < (row + 1) * DIM; e++) {
                off = fmax(off, fabs(both.o[1][e] - both.o[0][e]));
                largest = fmax(largest, fabs(both.o[0][e]));
            }
            // Two rows without keys have the same LSE, -inf.
            const double lse_off = both.lse[1][row] == both.lse[0][row]
                                       ? 0
                                       : fabs(both.lse[1][row] - both.lse[0][row]);
            wrong += off > 1e-9 || lse_off > 1e-9;
            error = fmax(error, off);
            lse_error = fmax(lse_error, lse_off);
        }
        table_row(&table, "%lld, %lld|%d of %lld|%.2g|%.2g|%.2g|%s", (long long)rows,
                  (long long)lengths[i][1], wrong, (long long)rows, error, largest, lse_error,
                  both.kernel_right ? "right" : "WRONG");
        right = both.kernel_right && right;
        both_free(&both);
    }
    table_print(&table);
    report_text("Seeded values, d = 64. Only T = S is right: a test with as many queries as keys "
                "cannot tell the two apart. With T > S, rows that see no key get an answer.");
    return right;
}

bool show_alignment(const Show *show) {
    const bool decode_right = show_decode(show);
    draw_chunk();
    return show_lengths(show) && decode_right;
}
