// What ./ch03 shows of the partial results of one row: see parts.h.
#include "chapters/ch03_merge/parts.h"

#include "chapters/ch03_merge/merge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 64, KEYS = 4096, PARTS = 16, TREES = 200 };

// ---- the worked table ---------------------------------------------------------------------------

static void card(const char *name, double value, const char *formula) {
    char text[32];
    snprintf(text, sizeof(text), "%.3f", value);
    report_card(name, text, formula);
}

// Attention over the `count` keys from `begin` on of a problem of one row.
static void attend_part(const Program *program, const Problem *row, int64_t begin, int64_t count,
                        float *o, float *lse) {
    AttnShape shape = row->shape;
    shape.len_kv = count;
    float workspace[DIM + 1];
    lesson_require(program, split_attention(
                                &shape, row->q.data, (float *)row->k.data + begin * shape.dim,
                                (float *)row->v.data + begin * shape.dim, 1, 1, o, lse, workspace));
}

// Scores 1, 2 | 3, values the rows of the identity: an output is its row of weights.
void show_merge_by_hand(const Program *program) {
    report_section("Worked by hand: scores 1, 2 in one part, 3 in the other");
    Problem row;
    const AttnShape shape = {1, 1, 1, 1, 3, 3, 1.0, false, 0, NULL};
    lesson_require(program, problem_random(&row, &shape, DTYPE_F32, 1));
    const float q[3] = {1, 0, 0}, k[9] = {1, 0, 0, 2, 0, 0, 3}, v[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    memcpy(row.q.data, q, sizeof(q));
    memcpy(row.k.data, k, sizeof(k));
    memcpy(row.v.data, v, sizeof(v));
    float a[3], b[3], lse_a, lse_b;
    attend_part(program, &row, 0, 2, a, &lse_a);
    attend_part(program, &row, 2, 1, b, &lse_b);
    problem_free(&row);
    float o[3] = {a[0], a[1], a[2]}, lse = lse_a;
    merge_partials(3, o, &lse, b, lse_b);

    char sum[64];
    card("LSE of the part 1, 2", lse_a, "log(exp(1) + exp(2))");
    card("LSE of the part 3", lse_b, "log(exp(3))");
    card("merged LSE", lse, "log(exp(2.313) + exp(3)) = log(exp(1) + exp(2) + exp(3))");
    snprintf(sum, sizeof(sum), "exp(2.313 - 3.408) = %.3f + %.3f, its keys' weights", o[0], o[1]);
    card("weight of the part 1, 2", exp((double)lse_a - lse), sum);
    card("weight of the part 3", exp((double)lse_b - lse), "exp(3 - 3.408)");

    printf("\n");
    Table table;
    table_begin(&table, "weights of the keys|1|2|3");
    table_row(&table, "part 1, 2|%.3f|%.3f|", a[0], a[1]);
    table_row(&table, "part 3|||%.3f", b[2]);
    table_row(&table, "merged|%.3f|%.3f|%.3f", o[0], o[1], o[2]);
    table_row(&table, "wrong: average|%.3f|%.3f|%.3f", a[0] / 2, a[1] / 2, b[2] / 2);
    const float l_a = expf(lse_a - 2), l_b = expf(lse_b - 3), l = l_a + l_b;
    table_row(&table, "wrong: by the sums l|%.3f|%.3f|%.3f", l_a / l * a[0], l_a / l * a[1],
              l_b / l * b[2]);
    table_print(&table);
    report_text("The sums l are %.3f and %.3f, each in units of its own part's largest term: they "
                "cannot be compared before the maxima, 2 and 3, are.",
                l_a, l_b);
}

// ---- orders and groupings -----------------------------------------------------------------------

// The partial results of one row. merge_partials works in place, so each try begins with a copy.
typedef struct Parts {
    int64_t count;
    float *o;   // [count][DIM]
    float *lse; // [count]
} Parts;

static Parts parts_alloc(const Program *program, int64_t count) {
    Parts parts = {count, malloc((size_t)count * DIM * sizeof(float)),
                   malloc((size_t)count * sizeof(float))};
    if (parts.o == NULL || parts.lse == NULL) {
        lesson_require(program,
                       attn_fail(ATTN_ERR_MEMORY, "no memory for %" PRId64 " parts", count));
    }
    return parts;
}

static void parts_free(Parts *parts) {
    free(parts->o);
    free(parts->lse);
}

// A number in [0, below).
static int64_t draw(uint64_t *state, int64_t below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*state >> 33) % (uint64_t)below);
}

static int by_value(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// The row's keys, cut at random places: parts of any size, empty ones among them.
static Parts cut(const Program *program, const Problem *row, int64_t count, uint64_t *random) {
    const int64_t keys = row->shape.len_kv;
    int64_t ends[KEYS] = {0};
    for (int64_t p = 0; p < count; p++) {
        ends[p] = p + 1 == count ? keys : draw(random, keys + 1);
    }
    qsort(ends, (size_t)count, sizeof(ends[0]), by_value);
    Parts parts = parts_alloc(program, count);
    for (int64_t p = 0, begin = 0; p < count; begin = ends[p++]) {
        attend_part(program, row, begin, ends[p] - begin, parts.o + p * DIM, &parts.lse[p]);
    }
    return parts;
}

typedef enum Grouping { CHAIN, TREE, AT_ONCE } Grouping;

// Merges a copy of the parts: CHAIN takes them one after the other, in random order; TREE merges
// two random ones until one is left; AT_ONCE is merge_many. o [DIM].
static void merge_all(const Program *program, const Parts *parts, Grouping grouping,
                      uint64_t *random, float *o, float *lse) {
    if (grouping == AT_ONCE) {
        merge_many(parts->count, DIM, parts->o, parts->lse, o, lse);
        return;
    }
    Parts copy = parts_alloc(program, parts->count);
    memcpy(copy.o, parts->o, (size_t)copy.count * DIM * sizeof(float));
    memcpy(copy.lse, parts->lse, (size_t)copy.count * sizeof(float));
    int64_t into = draw(random, copy.count);
    for (int64_t left = copy.count; left > 1; left--) {
        // into and from are two different ones of the first `left`; the last fills from's place.
        into = grouping == TREE ? draw(random, left) : into;
        const int64_t from = (into + 1 + draw(random, left - 1)) % left;
        merge_partials(DIM, copy.o + into * DIM, &copy.lse[into], copy.o + from * DIM,
                       copy.lse[from]);
        memmove(copy.o + from * DIM, copy.o + (left - 1) * DIM, DIM * sizeof(float));
        copy.lse[from] = copy.lse[left - 1];
        into = into == left - 1 ? from : into;
    }
    memcpy(o, copy.o, DIM * sizeof(float));
    *lse = copy.lse[0];
    parts_free(&copy);
}

static double larger(double a, double b) {
    return !(b <= a) ? b : a; // a NaN stays
}

bool show_groupings(const Program *program, uint64_t seed) {
    const AttnShape shape = {1, 1, 1, 1, KEYS, DIM, 0, false, 0, NULL};
    Problem row;
    lesson_require(program, problem_random(&row, &shape, DTYPE_F32, seed));
    report_section("Any order, any tree: one row of 4,096 keys, cut at random places");
    Expected expected;
    lesson_require(program,
                   expected_make(&expected, &row.shape, &row.q, &row.k, &row.v, DTYPE_F32));
    float one[DIM], one_lse;
    attend_part(program, &row, 0, KEYS, one, &one_lse);
    const struct {
        const char *name;
        Grouping grouping;
        int64_t parts;
        int tries;
    } ways[] = {
        {"merge_many", AT_ONCE, PARTS, 1},        {"chain, random order", CHAIN, PARTS, TREES},
        {"random tree", TREE, PARTS, TREES},      {"merge_many", AT_ONCE, KEYS, 1},
        {"chain, random order", CHAIN, KEYS, 10}, {"random tree", TREE, KEYS, 10},
    };
    uint64_t random = seed;
    Table table;
    table_begin(&table, "merged by|parts|tries|O differs|LSE differs|O error|LSE error");
    bool passed = true;
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        double o_pass = 0, lse_pass = 0, o_error = 0, lse_error = 0;
        for (int try = 0; try < ways[w].tries; try++) {
            Parts parts = cut(program, &row, ways[w].parts, &random);
            merge_all(program, &parts, ways[w].grouping, &random, row.o.data, row.lse.data);
            parts_free(&parts);
            const float *o = row.o.data, *lse = row.lse.data;
            Comparison o_check, lse_check;
            passed = compare_output(&expected, &row.o, &row.lse, 0, &o_check, &lse_check) && passed;
            o_error = larger(o_error, o_check.max_error);
            lse_error = larger(lse_error, lse_check.max_error);
            lse_pass = larger(lse_pass, fabs((double)*lse - one_lse));
            for (int c = 0; c < DIM; c++) {
                o_pass = larger(o_pass, fabs((double)o[c] - one[c]));
            }
        }
        char parts[32];
        table_row(&table, "%s|%s|%d|%.1e|%.1e|%.1e|%.1e", ways[w].name,
                  format_count(parts, (double)ways[w].parts), ways[w].tries, o_pass, lse_pass,
                  o_error, lse_error);
    }
    table_print(&table);
    report_text("Largest of all tries, each with new cuts: the difference from one pass over all "
                "keys, and the error against float64. Every answer was %s.",
                passed ? "within its bound" : "compared, and some are OUTSIDE THEIR BOUND");
    expected_free(&expected);
    problem_free(&row);
    return passed;
}

// ---- empty parts --------------------------------------------------------------------------------

static bool same_bits(const float *a, float lse_a, const float *b, float lse_b) {
    return memcmp(a, b, DIM * sizeof(float)) == 0 && memcmp(&lse_a, &lse_b, sizeof(float)) == 0;
}

bool show_empty_parts(const Program *program, uint64_t seed) {
    const AttnShape shape = {1, 1, 1, 1, KEYS, DIM, 0, false, 0, NULL};
    Problem row;
    lesson_require(program, problem_random(&row, &shape, DTYPE_F32, seed));
    report_section("Parts without keys: O holds NaN, LSE = -inf");
    uint64_t random = seed;
    Parts parts = parts_alloc(program, 2 * PARTS), full = parts_alloc(program, PARTS);
    for (int64_t p = 0; p < parts.count; p++) { // every other part is empty, the first one too
        const int64_t size = KEYS / PARTS;
        if (p % 2 == 1) {
            attend_part(program, &row, p / 2 * size, size, parts.o + p * DIM, &parts.lse[p]);
            memcpy(full.o + p / 2 * DIM, parts.o + p * DIM, DIM * sizeof(float));
            full.lse[p / 2] = parts.lse[p];
            continue;
        }
        parts.lse[p] = -INFINITY;
        for (int c = 0; c < DIM; c++) {
            parts.o[p * DIM + c] = NAN;
        }
    }
    float with[DIM], without[DIM], with_lse, without_lse;
    merge_all(program, &full, AT_ONCE, &random, without, &without_lse);
    merge_all(program, &parts, AT_ONCE, &random, with, &with_lse);
    const bool many = same_bits(with, with_lse, without, without_lse);
    memcpy(with, parts.o, sizeof(with)); // starts from an empty part
    with_lse = parts.lse[0];
    memcpy(without, full.o, sizeof(without));
    without_lse = full.lse[0];
    for (int64_t p = 1; p < parts.count; p++) {
        merge_partials(DIM, with, &with_lse, parts.o + p * DIM, parts.lse[p]);
    }
    for (int64_t p = 1; p < full.count; p++) {
        merge_partials(DIM, without, &without_lse, full.o + p * DIM, full.lse[p]);
    }
    const bool chain = same_bits(with, with_lse, without, without_lse);
    for (int64_t p = 0; p < parts.count; p++) {
        parts.lse[p] = -INFINITY;
    }
    merge_all(program, &parts, AT_ONCE, &random, with, &with_lse);
    const bool none = with[0] == 0 && with[DIM - 1] == 0 && with_lse == -INFINITY;
    Table table;
    table_begin(&table, "16 parts, 16 empty ones between|result");
    table_row(&table, "merge_many: same bits|%s", many ? "ok" : "FAILED");
    table_row(&table, "merge_partials: same bits|%s", chain ? "ok" : "FAILED");
    table_row(&table, "all empty: O = 0, LSE = -inf|%s", none ? "ok" : "FAILED");
    const float weighted = expf(parts.lse[0]) * parts.o[0];
    table_row(&table, "weighted instead of left out|%s", isnan(weighted) ? "NaN" : "a number");
    table_print(&table);
    report_text("The last line is exp(-inf) * NaN = 0 * NaN: a weight of 0 does not remove what "
                "an empty part's output happens to hold.");
    parts_free(&parts);
    parts_free(&full);
    problem_free(&row);
    return many && chain && none;
}
