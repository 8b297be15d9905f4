// ./ch09: paged attention. Both rungs against the oracle for any page size and order, what pages
// waste and save, a table walked and a fork followed step by step, the bytes of K, V and the table
// beside their models, and time against page size: on a GPU where there is one, else what is
// recorded.
#include "chapters/ch09_paged/show.h"

static const Program program = {
    .name = "ch09",
    .title = "paged attention",
    .summary = "A cache in pages: position, block table, physical page. Pages are shared, and\n"
               "copied when written. The kernel reads the table ahead of the keys.",
    .flags = OPTION_SPLITS | OPTION_PAGE,
};

static const char plot_script[] = "chapters/ch09_paged/plot.gp";

const AttnShape show_problem = {16, 32, SHOW_HEADS_KV, 1, 8192, SHOW_DIM, 0, false, 0, NULL};

// What the run costs, for lesson_announce: the asked problem's oracle for every rung and number of
// splits, and on simt the rungs themselves, at some 100 MFLOP/s.
static double planned_flops(const Show *show, const AttnShape *shape) {
    enum { RUNS = 2 * PAGED_RUNGS };
    const double simt_runs = show->target == GPU_SIMT ? LESSON_SCALAR_RATE / 100e6 : 0;
    return RUNS * (simt_runs + LESSON_ORACLE_RUNS) * lesson_flops(shape);
}

// What no rung takes, and pages that no machine has room for: before tensors and oracle are made.
static AttnStatus check_asked(const Options *options) {
    const AttnShape *shape = &options->shape;
    const double gib = 2.0 * (double)shape->heads_kv * (double)options->page * (double)shape->dim *
                       (double)dtype_size(options->dtype) / (double)(1 << 30);
    if (shape->dim > PAGED_MAX_DIM) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dim %lld: these kernels go up to %d",
                         (long long)shape->dim, PAGED_MAX_DIM);
    }
    if (gib > 4) {
        return attn_fail(ATTN_ERR_UNSUPPORTED,
                         "--page %lld: one page of so many tokens has %.3g GiB of K and V; here "
                         "it may have 4",
                         (long long)options->page, gib);
    }
    return ATTN_OK;
}

static void show_next(const Options *options) {
    report_section("Next");
    report_text("%smake diff-ch09 shows how the rungs differ, make resources what registers they "
                "take. The lesson is chapters/ch09_paged/README.md, the labs are in "
                "exercises/ch09.",
                options->plot != PLOT_NONE
                    ? ""
                    : "./ch09 --plot draws waste, table bytes and time against page size; ");
}

int main(int argc, char **argv) {
    Options options = {
        .shape = {.batch = 2, .heads_q = 4, .heads_kv = 2, .len_q = 1, .len_kv = 1000, .dim = 64},
        .page = 16,
        .seed = 1,
        .repeats = 20,
    };
    options_parse(&options, &program, argc, argv);
    if (options.quick && !options.shape_given) {
        options.shape.len_kv = 300;
    }
    Show show = {.program = &program, .options = &options};
    lesson_require(&program, gpu_choose(options.backend, &show.target));
    lesson_require(&program, gpu_properties(show.target, &show.properties));
    char why[256];
    show.traced = gpu_available(GPU_TRACE, why);
    lesson_require_no_series(&program, &options);
    lesson_require_script(&program, plot_script, &options);
    Problem asked;
    if (options.q == NULL) {
        lesson_require(&program, check_asked(&options));
    }
    lesson_require(&program, problem_load(&asked, &options));
    require_supported(&show, &asked, options.page);
    LessonCsv csv;
    lesson_require(&program, lesson_csv_open(&csv, &options, SHOW_CSV_HEADING));
    show.csv = csv.file;

    report_title(program.name, program.title, program.summary);
    lesson_show_backend(&program, show.target);
    lesson_announce(&options, planned_flops(&show, &asked.shape));
    bool passed = show_correctness(&show, &asked);
    problem_free(&asked);
    if (options.q == NULL) {
        passed = show_any_page(&show) && passed;
        show_cards();
        show_waste(&show);
        passed = show_walk(&show) && passed;
        passed = show_fork(&show) && passed;
        passed = show_prefix(&show) && passed;
        passed = show_bytes(&show) && passed;
        if (show.target == GPU_CUDA) {
            passed = show_times(&show) && passed;
        } else {
            show_carries_over();
        }
        show_recorded(&show);
        show_next(&options);
    }
    lesson_require(&program, lesson_csv_finish(&csv, &program, plot_script, &options));
    return lesson_exit_status(&program, passed);
}
