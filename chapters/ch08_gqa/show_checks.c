// ./ch08, correctness: every rung against the float64 oracle, on the problem asked for in several
// numbers of parts, and on small ones that put groups, remainder tiles, masks, windows and ragged
// lengths in the way. And what packed rows are, with the limit that is right and one that is not.
#include "chapters/ch08_gqa/show.h"

#include "common/device.h"

#include <math.h>
#include <stdio.h>

static const int32_t ragged_lens[] = {97, 0, 3, 200};

typedef struct Case {
    const char *name;
    AttnShape shape;
    DType dtype;
    int splits;
} Case;

static const Case cases[] = {
    {"MHA: 3 on 3", {1, 3, 3, 1, 200, 64, 0, false, 0, NULL}, DTYPE_BF16, 3},
    {"GQA: 8 on 2, d=128", {2, 8, 2, 1, 130, 128, 0, false, 0, NULL}, DTYPE_BF16, 2},
    {"MQA: 7 on 1", {1, 7, 1, 1, 150, 64, 0, false, 0, NULL}, DTYPE_F16, 4},
    {"chunk T=3, causal, 6 on 2", {1, 6, 2, 3, 120, 64, 0, true, 0, NULL}, DTYPE_BF16, 3},
    {"chunk T=5, window 20", {1, 4, 2, 5, 100, 64, 0, true, 20, NULL}, DTYPE_F16, 2},
    {"causal, T=7 S=4", {1, 4, 2, 7, 4, 64, 0, true, 0, NULL}, DTYPE_BF16, 3},
    {"ragged: 97, 0, 3, 200", {4, 4, 1, 1, 200, 64, 0, false, 0, ragged_lens}, DTYPE_BF16, 5},
    {"no keys", {1, 4, 2, 2, 0, 64, 0, false, 0, NULL}, DTYPE_F16, 2},
    {"20 on 1: tiles with a rest", {1, 20, 1, 1, 90, 64, 0, false, 0, NULL}, DTYPE_BF16, 2},
    {"f32, 9 on 3, d=40", {1, 9, 3, 2, 90, 40, 0, true, 0, NULL}, DTYPE_F32, 3},
    {"f16, d=131", {1, 4, 2, 1, 90, 131, 0, false, 0, NULL}, DTYPE_F16, 3},
    {"scores in the hundreds", {1, 4, 1, 1, 300, 64, 6, false, 0, NULL}, DTYPE_F16, 9},
};
enum { CASES = sizeof cases / sizeof cases[0], QUICK_CASES = 8 };

// Runs a rung on the problem and writes its larger error, of O and LSE, as a part of what is
// allowed into `cell` (16 bytes). *nans: elements that the inputs make NaN.
static bool check_rung(const Show *show, const char *name, Problem *problem, int rung,
                       int64_t splits, char *cell, size_t *nans) {
    RungRun run = {.target = show->target, .rung = rung, .splits = splits, .problem = problem};
    LessonCheck check;
    lesson_require(show->program, lesson_check(rung_attention, &run, problem, 0, &check));
    snprintf(cell, 16, "%.3f", fmax(check.o.worst_ratio, check.lse.worst_ratio));
    if (!check.passed) {
        snprintf(cell, 16, "FAILED");
        report_text("%s, %s: %s", name, gqa_rungs[rung].name,
                    check.o.message[0] ? check.o.message : check.lse.message);
    }
    *nans = check.required_nans;
    return check.passed;
}

// A row of the table. splits 0: each rung's own choice.
static bool check_row(const Show *show, Table *table, const char *name, Problem *problem,
                      int64_t splits, size_t *nans) {
    char cells[GQA_RUNGS][16], parts[24] = "chosen";
    bool passed = true;
    for (int rung = 0; rung < GQA_RUNGS; rung++) {
        snprintf(cells[rung], sizeof cells[rung], "-");
        if (rung_takes(rung, &problem->shape, problem->dtype)) {
            const int64_t own =
                splits > 0 ? splits : splits_for(show, rung, &problem->shape, problem->dtype);
            passed = check_rung(show, name, problem, rung, own, cells[rung], nans) && passed;
        }
    }
    if (splits > 0) {
        snprintf(parts, sizeof parts, "%lld", (long long)splits);
    }
    table_row(table, "%s|%s|%s|%s|%s|%s|%s", name, dtype_name(problem->dtype), parts, cells[0],
              cells[1], cells[2], passed ? "ok" : "FAILED");
    return passed;
}

// The problem asked for in one part, in three, and in as many as asked or chosen, which is last so
// that its output is what is saved.
static bool check_asked(const Show *show, Table *table, const char *name, Problem *asked) {
    enum { FEW_QUERIES = 16 }; // the oracle takes its time
    const int64_t counts[] = {1, 3, show->options->splits};
    bool passed = true;
    size_t nans = 0;
    for (int i = asked->shape.len_q > FEW_QUERIES ? 2 : 0; i < 3; i++) {
        passed = check_row(show, table, name, asked, counts[i], &nans) && passed;
    }
    if (nans > 0) {
        report_text("%s: %zu elements NaN, as the inputs require.", name, nans);
    }
    return passed;
}

bool show_correctness(const Show *show, Problem *asked) {
    const Options *options = show->options;
    const char *name = options->q ? "your files" : "as asked";
    const int count = options->q != NULL ? 0 : options->quick ? QUICK_CASES : CASES;
    const int saved = rung_takes(GQA_MMA, &asked->shape, asked->dtype) ? GQA_MMA : GQA_PACKED;
    report_section("Correctness: error against the float64 oracle");
    lesson_describe(name, asked);
    Table table;
    table_begin(&table, "error / allowed|type|splits|gqa_naive|gqa|gqa_mma|result");
    bool passed = check_asked(show, &table, name, asked);
    lesson_require(show->program, lesson_save(asked, options)); // the last rung's output
    for (int c = 0; c < count; c++) {
        Problem small;
        size_t nans;
        report_progress("checking", c, count);
        lesson_require(show->program, problem_random(&small, &cases[c].shape, cases[c].dtype,
                                                     options->seed + (uint64_t)c));
        passed = check_row(show, &table, cases[c].name, &small, cases[c].splits, &nans) && passed;
        problem_free(&small);
    }
    report_progress("checking", 0, 0);
    table_print(&table);
    report_text("The larger ratio of O and LSE, at most 1; docs/numerics.md derives the bound. "
                "-: gqa_mma takes f16 and bf16, d = 64 and 128.");
    if (options->out != NULL || options->lse != NULL) {
        report_text("What was saved is %s's.", gqa_rungs[saved].name);
    }
    return passed;
}

// ---- packed rows --------------------------------------------------------------------------------

void show_packing(void) {
    enum { GROUP = 3, T = 3, S = 8, TILE = 4, HEAD = 1 };
    const Mask mask = {.len_q = T, .keys = S, .causal = 1, .window = 0};
    report_section("Packed rows: 6 heads on 2, T = 3, S = 8, causal: KV head 1, tiles of 4 rows");
    Table table;
    table_begin(&table, "row|tile|token|query head|sees keys|by row, wrong|tile reads");
    for (int r = 0; r < GROUP * T; r++) {
        const int tile = r / TILE,
                  end = (tile + 1) * TILE < GROUP * T ? (tile + 1) * TILE : GROUP * T;
        const int first = tile * TILE / GROUP, last = (end - 1) / GROUP;
        const MaskRange right = mask_row_keys(mask, r / GROUP);
        const MaskRange reads = mask_tile_keys(mask, first, last - first + 1);
        // The row number in the token's place, of GROUP * T tokens.
        const int wrong = S - GROUP * T + r + 1;
        char cells[3][24];
        snprintf(cells[0], sizeof cells[0], "0..%d", right.end - 1);
        snprintf(cells[1], sizeof cells[1], wrong > 0 ? "0..%d" : "none", wrong - 1);
        snprintf(cells[2], sizeof cells[2], "0..%d", reads.end - 1);
        table_row(&table, "%d|%d|%d|%d|%s|%s|%s", r, tile, r / GROUP, HEAD * GROUP + r % GROUP,
                  cells[0], cells[1], cells[2]);
    }
    table_print(&table);
    report_text("Row r is token r / 3 of query head 3 + r %% 3. The three heads of a token see the "
                "same keys. A limit by row number gives each of them another one.");
}
