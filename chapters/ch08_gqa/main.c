// ./ch08: grouped-query attention. The rungs against the oracle, what packed rows are, the cache of
// a served model, which unit has time for a group, the bytes that every rung requests, and time: on
// a GPU where there is one, else what is recorded.
#include "chapters/ch08_gqa/show.h"

static const Program program = {
    .name = "ch08",
    .title = "grouped-query attention",
    .summary = "Query heads that share keys and values should share their loads: a group's\n"
               "queries become rows of one tile, on CUDA cores or in a matrix instruction.",
    .flags = OPTION_SPLITS,
};

static const char plot_script[] = "chapters/ch08_gqa/plot.gp";

// What the run costs, for lesson_announce: the asked problem's oracle for every rung and number of
// splits, and on simt the rungs themselves, at some 130 MFLOP/s altogether.
static double planned_flops(const Show *show, const AttnShape *shape) {
    enum { RUNS = 3 * GQA_RUNGS };
    const double simt_runs = show->target == GPU_SIMT ? LESSON_SCALAR_RATE / 130e6 : 0;
    return RUNS * (simt_runs + LESSON_ORACLE_RUNS) * lesson_flops(shape);
}

static void show_next(const Options *options) {
    report_section("Next");
    report_text("%smake diff-ch08 shows how the rungs differ, make resources what registers they "
                "take. The lesson is chapters/ch08_gqa/README.md, the labs are in exercises/ch08.",
                options->plot != PLOT_NONE
                    ? ""
                    : "./ch08 --plot draws requests and arithmetic against g; ");
}

int main(int argc, char **argv) {
    Options options = {
        .shape = {.batch = 2, .heads_q = 8, .heads_kv = 2, .len_q = 1, .len_kv = 500, .dim = 64},
        .seed = 1,
        .repeats = 20,
    };
    options_parse(&options, &program, argc, argv);
    if (options.quick && !options.shape_given) {
        options.shape.len_kv = 100;
    }
    Show show = {.program = &program, .options = &options};
    lesson_require(&program, gpu_choose(options.backend, &show.target));
    lesson_require(&program, gpu_properties(show.target, &show.properties));
    char why[256];
    show.traced = gpu_available(GPU_TRACE, why);
    lesson_require_no_series(&program, &options);
    lesson_require_script(&program, plot_script, &options);
    Problem asked;
    if (options.q == NULL) { // before the tensors and the oracle are made
        lesson_require(&program, gqa_supports(GQA_PACKED, &options.shape, options.dtype));
    }
    lesson_require(&program, problem_load(&asked, &options));
    require_supported(&show, &asked);
    LessonCsv csv;
    lesson_require(&program, lesson_csv_open(&csv, &options, SHOW_CSV_HEADING));
    show.csv = csv.file;

    report_title(program.name, program.title, program.summary);
    lesson_show_backend(&program, show.target);
    lesson_announce(&options, planned_flops(&show, &asked.shape));
    bool passed = show_correctness(&show, &asked);
    problem_free(&asked);
    if (options.q == NULL) {
        show_packing();
        show_model(&show);
        show_units(&show);
        show_fragments();
        show_bytes(&show);
        if (show.target == GPU_CUDA) {
            passed = show_times(&show) && passed;
        } else {
            show_carries_over(&show);
        }
        show_recorded(&show);
        show_next(&options);
    }
    lesson_require(&program, lesson_csv_finish(&csv, &program, plot_script, &options));
    return lesson_exit_status(&program, passed);
}
