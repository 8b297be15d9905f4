// ./ch06: split-KV decode. The rungs against the oracle for any number of splits, how much of a GPU
// one query keeps busy, the bytes of every rung beside their models, ragged batches, and time
// against splits: on a GPU where there is one, else what is recorded.
#include "chapters/ch06_decode/show.h"

static const Program program = {
    .name = "ch06",
    .title = "split-KV decode",
    .summary = "One query against a long cache leaves most of a GPU idle. The keys are cut,\n"
               "a block for each part, and the parts merged. Without --splits: as many as pay.",
    .flags = OPTION_SPLITS,
};

static const char plot_script[] = "chapters/ch06_decode/plot.gp";

// What the run costs, for lesson_announce: the asked problem's oracle for every rung and number of
// splits, and on simt the rungs themselves, at some 130 MFLOP/s altogether.
static double planned_flops(const Show *show, const AttnShape *shape) {
    const int runs = (shape->len_q > SHOW_FEW_QUERIES ? 1 : 3) * DECODE_RUNGS;
    const double simt_runs = show->target == GPU_SIMT ? LESSON_SCALAR_RATE / 130e6 : 0;
    return runs * (simt_runs + LESSON_ORACLE_RUNS) * lesson_flops(shape);
}

static void show_next(const Options *options) {
    report_section("Next");
    report_text("%smake diff-ch06 shows how the rungs differ, make resources what registers they "
                "take. The lesson is chapters/ch06_decode/README.md, the labs are in "
                "exercises/ch06.",
                options->plot != PLOT_NONE ? ""
                                           : "./ch06 --plot draws time and GB/s against splits; ");
}

int main(int argc, char **argv) {
    Options options = {
        .shape = {.batch = 2, .heads_q = 2, .heads_kv = 2, .len_q = 1, .len_kv = 1000, .dim = 64},
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
    lesson_require(&program, problem_load(&asked, &options));
    require_supported(&program, &asked, splits_for(&show, &asked.shape, asked.dtype));
    LessonCsv csv;
    lesson_require(&program, lesson_csv_open(&csv, &options, SHOW_CSV_HEADING));
    show.csv = csv.file;

    report_title(program.name, program.title, program.summary);
    lesson_show_backend(&program, show.target);
    lesson_announce(&options, planned_flops(&show, &asked.shape));
    bool passed = show_correctness(&show, &asked);
    problem_free(&asked);
    if (options.q == NULL) {
        passed = show_any_count(&show) && passed;
        show.read_rate = show_read_rate(&show);
        show_cards(&show);
        show_waves(&show);
        show_bytes(&show);
        passed = show_ragged(&show) && passed;
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
