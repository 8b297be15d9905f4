// ./ch04: tiling. Block pairs, the traffic that they save on paper and in touched bytes, what each
// rung keeps in memory, how many operations the unfused one issues, and the time of all four.
#include "chapters/ch04_tiling/rungs.h"
#include "chapters/ch04_tiling/tiled.h"

#include "common/lesson.h"
#include "common/model.h"
#include "common/touch.h"

#include <stdio.h>

static const Program program = {
    .name = "ch04",
    .title = "tiling",
    .summary = "Attention tile by tile: a block of queries shares each block of K and V,\n"
               "and of the scores no more than a tile is kept. Four rungs, naive to fast.",
    .flags = OPTION_BLOCK_Q | OPTION_BLOCK_K | OPTION_THREADS,
};

static const char plot_script[] = "chapters/ch04_tiling/plot.gp";

// ---- correctness --------------------------------------------------------------------------------

// Runs a rung once and compares it with the oracle.
static LessonCheck check_rung(Problem *problem, RungRun *run) {
    LessonCheck check;
    Tensor workspace;
    const int64_t floats = (int64_t)rung_workspace_floats(run, &problem->shape);
    lesson_require(&program, tensor_alloc(&workspace, DTYPE_F32, 1, &floats));
    run->workspace = workspace.data;
    lesson_require(&program, lesson_check(rung_attention, run, problem, run->block_q, &check));
    if (!tensor_guards_intact(&workspace)) {
        check.passed = false;
        snprintf(check.o.message, sizeof(check.o.message), "written outside the workspace");
    }
    tensor_free(&workspace);
    return check;
}

// One row: the larger of the two errors, O's and LSE's, as a part of what is allowed.
static bool check_row(Table *table, const char *name, Problem *problem, const Options *options) {
    char cells[RUNGS][16];
    bool passed = true;
    size_t nans = 0;
    for (Rung rung = RUNG_UNTILED; rung < RUNGS; rung++) {
        RungRun run = {.rung = rung,
                       .block_q = options->block_q,
                       .block_k = options->block_k,
                       .threads = options->threads};
        const LessonCheck check = check_rung(problem, &run);
        const double o = check.o.worst_ratio, lse = check.lse.worst_ratio;
        nans = check.required_nans;
        snprintf(cells[rung], sizeof cells[rung], "%.3f", o > lse ? o : lse);
        if (!check.passed) {
            snprintf(cells[rung], sizeof cells[rung], "FAILED");
            report_text("%s, %s: %s", name, rung_name(rung),
                        check.o.message[0] ? check.o.message : check.lse.message);
            passed = false;
        }
    }
    if (nans > 0) {
        report_text("%s: %zu elements NaN, as the inputs require.", name, nans);
    }
    table_row(table, "%s|%s|%s|%s|%s|%s", name, cells[RUNG_UNTILED], cells[RUNG_TILED],
              cells[RUNG_UNFUSED], cells[RUNG_SIMD], passed ? "ok" : "FAILED");
    return passed;
}

static bool show_correctness(Problem *asked, const Options *options) {
    static const int32_t lens[] = {0, 13, 40};
    const struct {
        const char *name;
        AttnShape shape;
        DType dtype;
    } cases[] = {
        {"T=133 S=270, d=40", {1, 2, 2, 133, 270, 40, 0, false, 0, NULL}, DTYPE_F32},
        {"decode, T=1 S=1500", {1, 2, 2, 1, 1500, 64, 0, true, 0, NULL}, DTYPE_F32},
        {"causal, T=9 S=5 (empty rows)", {1, 2, 2, 9, 5, 8, 0, true, 0, NULL}, DTYPE_F32},
        {"window 32, GQA 6 on 2", {1, 6, 2, 170, 331, 64, 0, true, 32, NULL}, DTYPE_F32},
        {"key lengths 0, 13, 40", {3, 2, 1, 57, 40, 33, 0, true, 0, lens}, DTYPE_F32},
        {"f16 values, d=128", {1, 2, 2, 150, 150, 128, 0, true, 0, NULL}, DTYPE_F16},
        {"bf16 values, d=128", {1, 2, 2, 150, 150, 128, 0, true, 0, NULL}, DTYPE_BF16},
    };
    report_section("Correctness: error against the float64 oracle");
    Table table;
    const char *name = options->q ? "your files" : "as asked";
    lesson_describe(name, asked);
    table_begin(&table, "error / allowed|untiled|tiled|unfused|simd|result");
    bool passed = check_row(&table, name, asked, options);
    lesson_require(&program, lesson_save(asked, options)); // the last rung's output
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]) && options->q == NULL; c++) {
        Problem small;
        lesson_require(&program,
                       problem_random(&small, &cases[c].shape, cases[c].dtype, options->seed + c));
        passed = check_row(&table, cases[c].name, &small, options) && passed;
        problem_free(&small);
    }
    table_print(&table);
    report_text("Tiles of %lld queries x %lld keys; simd has its own. The larger ratio of O and "
                "LSE, at most 1; docs/numerics.md derives the bound.%s",
                (long long)options->block_q, (long long)options->block_k,
                options->out || options->lse ? " What was saved is simd's." : "");
    return passed;
}

// ---- the cards ----------------------------------------------------------------------------------

static void show_pairs(void) {
    report_section("Cards: block pairs, causal, B queries x B keys");
    Table table;
    table_begin(&table, "N / B|n = N/B|visited|n (n+1)/2|partial|of all n^2|visible scores");
    const int64_t cases[][2] = {{2048, 128}, {2048, 64}, {8192, 128}};
    for (int i = 0; i < 3; i++) {
        const int64_t len = cases[i][0], block = cases[i][1], n = len / block;
        const AttnShape shape = {1, 1, 1, len, len, 64, 0, true, 0, NULL};
        const TileCounts counts = tiled_count_pairs(&shape, block, block);
        char a[32], b[32];
        table_row(&table, "%lld / %lld|%lld|%s|%s|%lld|%.1f %%|%.1f %%", (long long)len,
                  (long long)block, (long long)n, format_count(a, (double)counts.visited),
                  format_count(b, 0.5 * (double)(n * (n + 1))), (long long)counts.partial,
                  100.0 * (double)counts.visited / (double)counts.all,
                  50.0 * (double)(len + 1) / (double)len);
    }
    table_print(&table);
    report_text("Counted by the classification that tiled.c runs on. Partial pairs, those on the "
                "diagonal, are the only ones that look at the mask.");
}

static void traffic_table(bool causal, FILE *csv) {
    const double d = 64, block = 128, bytes = 2;
    char naive[32], tiled[32], outside[32];
    Table table;
    table_begin(&table, causal ? "N, causal|naive|tiled|ratio|keys outside|ratio"
                               : "N, no mask|naive|tiled|ratio|keys outside|ratio");
    for (int len = 1024; len <= 8192; len *= 2) {
        const double n = len;
        const double by_naive = naive_hbm_elements(n, d, causal);
        const double by_keys = keys_outside_hbm_elements(n, d, block, causal);
        table_row(&table, "%d|%s|%s|%.1f|%s|%.1f", len, format_iec(naive, bytes * by_naive),
                  format_iec(tiled, bytes * tiled_hbm_elements(n, d, block, causal)),
                  traffic_ratio(n, d, block, causal), format_iec(outside, bytes * by_keys),
                  by_naive / by_keys);
    }
    table_print(&table);
    for (int len = 256; len <= 131072; len *= 2) {
        csv_row(csv, "traffic_%s,%d,%.9g,0,0", causal ? "causal" : "full", len,
                traffic_ratio(len, d, block, causal));
    }
}

static void show_traffic(FILE *csv) {
    char a[32];
    report_section("Cards: traffic, one head, d = 64, B = Bq = Bk = 128, 16-bit elements");
    traffic_table(true, csv);
    snprintf(a, sizeof a, "%.0f", traffic_ratio_limit(64, 128, true));
    report_card("limit of the first ratio", a, "6 Bq / d");
    traffic_table(false, csv);
    snprintf(a, sizeof a, "%.0f", traffic_ratio_limit(64, 128, false));
    report_card("limit of the first ratio", a, "2 Bq / d");
    report_text("Elements: naive 4N^2 + 4Nd, causal 6N^2 + 4Nd (a mask pass); tiled 2Nd + 2N^2 "
                "d/Bq, causal 3Nd + N^2 d/Bq; keys outside 2Nd + n Nd + (2n - 1)(Nd + 2N), n = "
                "N/Bk, since O, m and l come back for every block of keys.");
    report_text("Naive counts a tensor once a launch, tiled once a block of queries. A cache "
                "lowers both: it may serve K and V to the next block, and a score matrix that fits "
                "is never fetched from memory. With a fast memory of M elements, Bq = M / 4d: "
                "tiled is 8 N^2 d^2 / M for long N, the order that FlashAttention states.");
}

// ---- bytes --------------------------------------------------------------------------------------

enum { TENSORS = 6, WORKSPACE = 5 }; // q, k, v, o, lse, workspace

// Bytes of each tensor that one run of a rung touches.
static void touched_bytes(RungRun *run, const AttnShape *shape, size_t touched[TENSORS]) {
    const size_t counts[TENSORS] = {attn_count_q(shape),   attn_count_kv(shape),
                                    attn_count_kv(shape),  attn_count_q(shape),
                                    attn_count_lse(shape), rung_workspace_floats(run, shape)};
    TouchBuffer buffers[TENSORS];
    for (int t = 0; t < TENSORS; t++) {
        lesson_require(&program, touch_alloc(&buffers[t], counts[t] * sizeof(float)));
    }
    run->workspace = buffers[WORKSPACE].data;
    lesson_require(&program, touch_begin(buffers, TENSORS));
    const AttnStatus status = rung_attention(run, shape, buffers[0].data, buffers[1].data,
                                             buffers[2].data, buffers[3].data, buffers[4].data);
    touch_end();
    lesson_require(&program, status);
    for (int t = 0; t < TENSORS; t++) {
        touched[t] = buffers[t].touched;
        touch_free(&buffers[t]);
    }
}

// The tiled rung's traffic, one block of queries after the other, so that what a block reads again
// is counted again. Block i of a causal problem sees the keys up to its own last one.
static double touched_by_blocks(int64_t len, int64_t dim, int64_t block, bool causal) {
    double sum = 0;
    for (int64_t row = 0; row < len; row += block) {
        const int64_t keys = causal ? row + block : len;
        const AttnShape shape = {1, 1, 1, block, keys, dim, 0, causal, 0, NULL};
        RungRun run = {.rung = RUNG_TILED, .block_q = block, .block_k = block};
        size_t touched[TENSORS];
        touched_bytes(&run, &shape, touched);
        for (int t = 0; t < WORKSPACE; t++) {
            sum += (double)touched[t];
        }
    }
    return sum;
}

static void show_bytes(void) {
    const int64_t len = 1024, dim = 64, block = 128;
    const double f = sizeof(float), n = (double)len, d = (double)dim, b = (double)block;
    report_section("Bytes: model against measured, one head, N = 1,024, d = 64, f32");
    char model[32], measured[32], head[32];
    Table table;
    table_begin(&table, "tiles of 128 x 128|model|touched|formula, elements");
    for (int causal = 0; causal < 2; causal++) {
        const double elements = tiled_hbm_elements(n, d, b, causal != 0) + n;
        table_row(&table, "tiled, %s|%s|%s|%s", causal ? "causal" : "no mask",
                  format_iec(model, f * elements),
                  format_iec(measured, touched_by_blocks(len, dim, block, causal != 0)),
                  causal ? "3Nd + N^2 d/Bq + N" : "2Nd + 2N^2 d/Bq + N");
    }
    const AttnShape shape = {1, 1, 1, len, len, dim, 0, false, 0, NULL};
    static const char *const formulas[] = {"2N^2", "Bq (Bk + 2)", "Bq (Bk + d + 5)"};
    for (Rung rung = RUNG_UNTILED; rung < RUNG_SIMD; rung++) {
        RungRun run = {.rung = rung, .block_q = block, .block_k = block};
        const double floats[] = {2 * n * n, b * (b + 2), b * (b + d + 5)};
        size_t touched[TENSORS];
        touched_bytes(&run, &shape, touched);
        snprintf(head, sizeof head, "extra memory, %s", rung_name(rung));
        table_row(&table, "%s|%s|%s|%s", head, format_iec(model, f * floats[rung]),
                  format_iec(measured, (double)touched[WORKSPACE]), formulas[rung]);
    }
    table_row(&table, "extra memory, simd|-|%s|asked for, 2 threads",
              format_iec(measured, (double)tiled_simd_scratch_bytes(&shape, 2)));
    table_print(&table);
    report_text("\"Touched\" is measured: pages that were really accessed, anew for each block of "
                "queries (the N is LSE). It sees no cache: what of it reaches memory is for "
                "hardware counters or a simulator to say; the lesson has the command for one. "
                "tiled_simd allocates its scratch memory, a panel and a tile per thread whatever N "
                "is: what it asks for.");
}

// ---- operations ---------------------------------------------------------------------------------

static void show_operations(void) {
    const AttnShape small = {1, 1, 1, 512, 512, 1, 0, true, 0, NULL};
    const AttnShape large = {1, 1, 1, 8192, 8192, 1, 0, true, 0, NULL};
    const TileCounts tiles = tiled_count_pairs(&small, 128, 128);
    const TileCounts many = tiled_count_pairs(&large, 128, 128);
    RungRun run = {.rung = RUNG_UNFUSED, .block_q = 128, .block_k = 128};
    size_t touched[TENSORS];
    touched_bytes(&run, &small, touched);
    const int64_t formula = UNFUSED_PAIR_OPERATIONS * tiles.visited + tiles.partial +
                            UNFUSED_BLOCK_OPERATIONS * (small.len_q / 128);
    char a[32], text[96];
    report_section("Cards: operations of the unfused rung, causal, tiles of 128 x 128");
    snprintf(text, sizeof text, "%d pairs + partial + %d blocks = %lld", UNFUSED_PAIR_OPERATIONS,
             UNFUSED_BLOCK_OPERATIONS, (long long)formula);
    report_card("N = 512, counted", format_count(a, (double)run.operations.operations), text);
    const double launches = UNFUSED_PAIR_OPERATIONS * (double)many.visited;
    report_card("N = 8192, in pairs", format_count(a, launches), "14 x 2,080 pairs");
    report_card("as launches of 40 us", format_seconds(a, 40e-6 * launches),
                "a framework's cost for an operation, reported; not measured here");
}

int main(int argc, char **argv) {
    Options options = {
        .shape = {.batch = 1, .heads_q = 1, .heads_kv = 1, .len_q = 256, .len_kv = 256, .dim = 64},
        .seed = 1,
        .block_q = 128,
        .block_k = 128,
        .repeats = 10,
    };
    options_parse(&options, &program, argc, argv);
    lesson_require_cpu(&program, &options);
    lesson_require_no_series(&program, &options);
    lesson_require_script(&program, plot_script, &options);
    if (options.quick && !options.shape_given) {
        options.shape.len_q = options.shape.len_kv = 64;
    }
    Problem asked;
    lesson_require(&program, problem_load(&asked, &options));
    LessonCsv csv;
    lesson_require(&program, lesson_csv_open(&csv, &options, "series,x,value,low,high"));

    report_title(program.name, program.title, program.summary);
    report_section("Backend");
    report_text("cpu: untiled, tiled and unfused on one thread, simd on %d with vectors of %d "
                "floats. simt and cuda: this chapter has no kernel for them.",
                rung_threads(&options), tiled_simd_lanes());
    lesson_announce(&options, rung_planned_flops(&options, &asked.shape));
    bool passed = show_correctness(&asked, &options);
    problem_free(&asked);
    if (options.q == NULL) {
        show_pairs();
        show_traffic(csv.file);
        show_bytes();
        show_operations();
        if (lesson_flops(&options.shape) > 0) {
            RungCeilings ceilings = {.one = ceilings_measure(1),
                                     .all = ceilings_measure(rung_threads(&options))};
            ceilings.disturbed = ceilings_raise(&ceilings.all, &ceilings.one);
            passed = show_rung_times(&program, &options, &ceilings, csv.file) && passed;
            passed = show_simd_threads(&program, &options, &ceilings, csv.file) && passed;
            passed = show_unfused_cost(&program, &options) && passed;
        } else {
            report_section("Time");
            report_text("Not measured: no query of this problem sees a key.");
        }
        report_section("Next");
        report_text("%smake diff-ch04 shows how the rungs differ. The lesson is "
                    "chapters/ch04_tiling/README.md, the labs are in exercises/ch04.",
                    options.plot != PLOT_NONE ? ""
                                              : "./ch04 --plot draws time against N and threads, "
                                                "and the traffic ratio; ");
    }
    lesson_require(&program, lesson_csv_finish(&csv, &program, plot_script, &options));
    return lesson_exit_status(&program, passed);
}
