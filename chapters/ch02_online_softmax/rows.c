// What ./ch02 shows of single rows: the worked table, the size of the scores, the cost of dividing
// early, the order of the keys, and a row of a trained model.
#include "chapters/ch02_online_softmax/rows.h"

#include "chapters/ch02_online_softmax/online.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

enum { ROW_KEYS = 4096, ROW_DIM = 64, ROW_BLOCK = 64, LARGE_KEYS = 256, REAL_HEAD = 1 };

// The row in float64: o [dim], returns the log-sum-exp.
static double exact_row(const ScoreRow *row, double *o) {
    double m = -INFINITY, l = 0.0;
    for (int64_t j = 0; j < row->count; j++) {
        m = fmax(m, (double)row->scores[j]);
    }
    for (int64_t c = 0; c < row->dim; c++) {
        o[c] = 0.0;
    }
    for (int64_t j = 0; j < row->count; j++) {
        const double p = exp((double)row->scores[j] - m);
        l += p;
        for (int64_t c = 0; c < row->dim; c++) {
            o[c] += p * (double)row->v[j * row->dim + c];
        }
    }
    for (int64_t c = 0; c < row->dim; c++) {
        o[c] /= l;
    }
    return m + log(l);
}

// The largest |got - exact|; NaN when there is one.
static double row_error(const float *got, const double *exact, int64_t dim) {
    double worst = 0.0;
    for (int64_t c = 0; c < dim; c++) {
        const double error = fabs((double)got[c] - exact[c]);
        worst = !(error <= worst) ? error : worst;
    }
    return worst;
}

// How often the maximum rises while the row is read from left to right.
static int count_rises(const float *scores, int64_t count) {
    float m = -INFINITY;
    int rises = 0;
    for (int64_t j = 0; j < count; j++) {
        rises += scores[j] > m;
        m = scores[j] > m ? scores[j] : m;
    }
    return rises;
}

// 1 + 1/2 + ... + 1/n: how often the maximum of n numbers in random order rises, on average.
static double harmonic(int64_t n) {
    double sum = 0.0;
    for (int64_t j = 1; j <= n; j++) {
        sum += 1.0 / (double)j;
    }
    return sum;
}

// The scaled scores of one query, as the kernel computes them: scores [len_kv].
static void score_row(const AttnShape *shape, const float *q, const float *k, float *scores) {
    const float scale = (float)attn_scale(shape);
    for (int64_t j = 0; j < shape->len_kv; j++) {
        float sum = 0.0F;
        for (int64_t c = 0; c < shape->dim; c++) {
            sum += q[c] * k[j * shape->dim + c];
        }
        scores[j] = scale * sum;
    }
}

// ---- the cards ----------------------------------------------------------------------------------

static void card(const char *name, double value, const char *formula) {
    char text[32];
    snprintf(text, sizeof(text), "%.3f", value);
    report_card(name, text, formula);
}

// Scores 1, 2 | 3. The values are the rows of the identity, so that the output is the weights.
void show_worked_table(void) {
    report_section("The worked table: scores 1, 2 | 3 in two blocks");
    const float scores[] = {1, 2, 3};
    const float identity[] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    float acc[3], weights[3];
    OnlineState state;
    online_softmax_begin(&state, acc, 3);
    online_softmax_update(&state, scores, identity, 2);
    card("block 1: m", (double)state.m, "max(1, 2)");
    card("block 1: l", (double)state.l, "exp(1-2) + exp(2-2)");
    card("alpha", exp((double)state.m - 3.0), "exp(2-3): old maximum less new maximum");
    online_softmax_update(&state, scores + 2, identity + 6, 1);
    card("block 2: m", (double)state.m, "max(2, 3)");
    card("block 2: l", (double)state.l, "alpha * l + exp(3-3)");
    const double lse = (double)online_softmax_end(&state, weights);
    card("weight of 1", (double)weights[0], "alpha * exp(1-2) / l");
    card("weight of 2", (double)weights[1], "alpha * exp(2-2) / l");
    card("weight of 3", (double)weights[2], "exp(3-3) / l");
    card("log-sum-exp", lse, "m + log(l)");
}

// ---- scores in the hundreds ---------------------------------------------------------------------

bool show_large_scores(const Program *program, uint64_t seed, LessonKernel *kernel, void *context) {
    report_section("Scores in the hundreds: 256 queries, multiplied");
    const AttnShape shape = {1, 1, 1, LARGE_KEYS, LARGE_KEYS, ROW_DIM, 0, false, 0, NULL};
    const double factors[] = {1, 10, 30, 40};
    bool passed = true;
    Table table;
    table_begin(&table, "queries|top score|online, O error|of bound|safe, O error|unguarded lost");
    for (size_t f = 0; f < sizeof(factors) / sizeof(factors[0]); f++) {
        Problem problem;
        Expected expected;
        LessonCheck check;
        lesson_require(program, problem_random(&problem, &shape, DTYPE_F32, seed));
        for (size_t i = 0; i < problem.q.count; i++) {
            tensor_set(&problem.q, i, factors[f] * tensor_get(&problem.q, i));
        }
        lesson_require(program, lesson_check(kernel, context, &problem, 0, &check));
        lesson_require(program, expected_make(&expected, &shape, &problem.q, &problem.k, &problem.v,
                                              DTYPE_F32));
        float scores[LARGE_KEYS], p[LARGE_KEYS], o[ROW_DIM];
        float top = -INFINITY;
        double safe_error = 0.0;
        int bad_rows = 0;
        for (int64_t i = 0; i < shape.len_q; i++) {
            const ScoreRow row = {scores, problem.v.data, shape.len_kv, shape.dim};
            score_row(&shape, (const float *)problem.q.data + i * shape.dim, problem.k.data,
                      scores);
            for (int64_t j = 0; j < shape.len_kv; j++) {
                top = fmaxf(top, scores[j]);
            }
            row_safe(&row, p, o);
            safe_error = fmax(safe_error, row_error(o, expected.o + i * shape.dim, shape.dim));
            bad_rows += !isfinite(row_unguarded(&row, o));
        }
        table_row(&table, "x %g|%.1f|%.1e|%.4f|%.1e|%d of %lld", factors[f], (double)top,
                  check.o.max_error, check.o.worst_ratio, safe_error, bad_rows,
                  (long long)shape.len_q);
        passed = check.passed && passed;
        expected_free(&expected);
        problem_free(&problem);
    }
    table_print(&table);
    report_text("exp(x) leaves float32 at x = %.1f. The error of the guarded versions grows as the "
                "rounding of a score does, which is relative to the score; safe softmax "
                "has it too.",
                log((double)FLT_MAX));
    return passed;
}

// ---- order, and dividing after every block ------------------------------------------------------

static int rising(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void reverse(float *x, int64_t count) {
    for (int64_t i = 0; i < count / 2; i++) {
        const float other = x[i];
        x[i] = x[count - 1 - i];
        x[count - 1 - i] = other;
    }
}

static void order_row(Table *table, const char *name, const ScoreRow *row) {
    double exact[ROW_DIM];
    float o[ROW_DIM];
    RowCost cost;
    const double lse = exact_row(row, exact);
    const double lse_1 = fabs((double)row_by_element(row, o, &cost) - lse);
    const double o_1 = row_error(o, exact, ROW_DIM);
    const double lse_block = fabs((double)row_by_block(row, ROW_BLOCK, o, &cost) - lse);
    const double o_block = row_error(o, exact, ROW_DIM);
    table_row(table, "%s|%d|%.1e|%.1e|%.1e|%.1e", name, count_rises(row->scores, row->count), o_1,
              o_block, lse_1, lse_block);
}

static void cost_row(Table *table, const char *name, const RowCost *cost, double error) {
    char exps[32], rescales[32], divisions[32];
    table_row(table, "%s|%s|%s|%s|%.1e", name, format_count(exps, (double)cost->exps),
              format_count(rescales, (double)cost->rescales),
              format_count(divisions, (double)cost->divisions), error);
}

static void show_division(const ScoreRow *row, float *p) {
    report_section("Divide once, or after every block: one row, 4,096 keys, d = 64");
    double exact[ROW_DIM];
    float once[ROW_DIM], each[ROW_DIM];
    RowCost cost = {.exps = row->count, .rescales = 0, .divisions = row->count};
    exact_row(row, exact);
    Table table;
    table_begin(&table, "method|exp|rescalings|divisions|O: error");
    row_safe(row, p, once);
    cost_row(&table, "safe, three passes", &cost, row_error(once, exact, ROW_DIM));
    row_by_element(row, once, &cost);
    cost_row(&table, "one key, divide once", &cost, row_error(once, exact, ROW_DIM));
    row_divide_each_block(row, 1, each, &cost);
    cost_row(&table, "one key, divide each", &cost, row_error(each, exact, ROW_DIM));
    row_by_block(row, ROW_BLOCK, once, &cost);
    cost_row(&table, "64 keys, divide once", &cost, row_error(once, exact, ROW_DIM));
    row_divide_each_block(row, ROW_BLOCK, each, &cost);
    cost_row(&table, "64 keys, divide each", &cost, row_error(each, exact, ROW_DIM));
    table_print(&table);
}

// One row of ROW_KEYS normal scores, in three orders, and a ramp that makes every key a new
// maximum.
void show_divisions_and_order(const Program *program, uint64_t seed) {
    Tensor scores, v, p;
    const int64_t keys[] = {ROW_KEYS}, values[] = {ROW_KEYS, ROW_DIM};
    lesson_require(program, tensor_alloc(&scores, DTYPE_F32, 1, keys));
    lesson_require(program, tensor_alloc(&p, DTYPE_F32, 1, keys));
    lesson_require(program, tensor_alloc(&v, DTYPE_F32, 2, values));
    tensor_fill_random(&scores, seed, 2.0);
    tensor_fill_random(&v, seed + 1, 1.0);
    const ScoreRow row = {scores.data, v.data, ROW_KEYS, ROW_DIM};
    show_division(&row, p.data);

    report_section("Order of the keys: 4,096 scores, their errors, one key or 64 at a time");
    Table table;
    table_begin(&table, "order|maximum rises|O: 1|O: 64|LSE: 1|LSE: 64");
    order_row(&table, "as drawn", &row);
    qsort(scores.data, ROW_KEYS, sizeof(float), rising);
    order_row(&table, "rising", &row);
    reverse(scores.data, ROW_KEYS);
    order_row(&table, "falling", &row);
    for (int64_t j = 0; j < ROW_KEYS; j++) {
        ((float *)scores.data)[j] = 0.001F * (float)j;
    }
    order_row(&table, "ramp, 0.001 a key", &row);
    table_print(&table);
    report_text("In a random order the maximum rises 1 + 1/2 + ... + 1/4096 = %.1f times on "
                "average; where it does not rise, alpha is exactly 1. On the ramp every key "
                "raises it a little: LSE, taken key by key, keeps the rounding of every alpha; in "
                "O it cancels.",
                harmonic(ROW_KEYS));
    tensor_free(&scores);
    tensor_free(&p);
    tensor_free(&v);
}

// ---- a real row ---------------------------------------------------------------------------------

void show_real_row(const Program *program, const Problem *real, FILE *csv) {
    report_section("A trained model's row: tests/golden/real_kjv");
    if (real->q.data == NULL) {
        report_text("Not found from this folder, so not run: start the program from the folder "
                    "that holds tests/golden/.");
        return;
    }
    const AttnShape *shape = &real->shape;
    const int64_t dim = shape->dim, len = shape->len_kv;
    const float *q = real->q.data, *k = real->k.data, *v = real->v.data;
    const int64_t row =
        REAL_HEAD * shape->len_q + shape->len_q - 1; // its last query: sees every key
    const int64_t first = attn_kv_head(shape, REAL_HEAD) * len;
    Tensor scores, acc;
    lesson_require(program, tensor_alloc(&scores, DTYPE_F32, 1, &len));
    lesson_require(program, tensor_alloc(&acc, DTYPE_F32, 1, &dim));
    float *s = scores.data; // [len]
    score_row(shape, q + row * dim, k + first * dim, s);

    Table table;
    table_begin(&table, "after key|its score|m|alpha|l");
    OnlineState state;
    online_softmax_begin(&state, acc.data, dim);
    for (int64_t j = 0; j < len; j++) {
        const float m_before = state.m;
        online_softmax_update(&state, s + j, v + (first + j) * dim, 1);
        if (state.m > m_before || j + 1 == len) {
            table_row(&table, "%lld|%.2f|%.2f|%.3f|%.2f", (long long)j, (double)s[j],
                      (double)state.m, exp((double)(m_before - state.m)), (double)state.l);
        }

        csv_row(csv, "score,%lld,%.9g", (long long)j, (double)s[j]);
        csv_row(csv, "running_max,%lld,%.9g", (long long)j, (double)state.m);
        csv_row(csv, "running_sum,%lld,%.9g", (long long)j, (double)state.l);
    }
    table_print(&table);
    report_text("Query %lld of head %d. Keys without a line of their own left m as it was: alpha "
                "was 1 and l grew by exp(score - m).",
                (long long)shape->len_q - 1, REAL_HEAD);

    int fewest = INT_MAX, most = 0;
    for (int64_t h = 0; h < shape->heads_q; h++) {
        score_row(shape, q + (h * shape->len_q + shape->len_q - 1) * dim,
                  k + attn_kv_head(shape, h) * len * dim, s);
        const int rises = count_rises(s, len);
        fewest = rises < fewest ? rises : fewest;
        most = rises > most ? rises : most;
    }
    report_text("Over all %lld heads the maximum of this query rises %d to %d times; in a random "
                "order it would be %.1f on average.",
                (long long)shape->heads_q, fewest, most, harmonic(len));
    tensor_free(&scores);
    tensor_free(&acc);
}
