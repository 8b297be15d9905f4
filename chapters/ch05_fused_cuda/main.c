// ./ch05: fused CUDA. The rungs against the oracle, the tiers of a GPU's memory, the bytes of every
// rung as the trace counts them beside their models, shared memory, and time: on a GPU where there
// is one, else what is recorded.
#include "chapters/ch05_fused_cuda/show.h"

static const Program program = {
    .name = "ch05",
    .title = "fused CUDA",
    .summary = "Attention as one kernel: the score tile stays in shared memory and registers,\n"
               "and three launches become one. Five rungs, with the bytes of each counted.",
    .flags = 0,
};

static const char plot_script[] = "chapters/ch05_fused_cuda/plot.gp";

// What the run costs, for lesson_announce: an oracle for each rung, and on simt the rungs
// themselves, which run there at some 130 MFLOP/s altogether.
static double planned_flops(const Show *show, const AttnShape *shape) {
    const double simt_runs = show->target == GPU_SIMT ? LESSON_SCALAR_RATE / 130e6 : 0;
    return (simt_runs + FUSED_RUNGS * LESSON_ORACLE_RUNS) * lesson_flops(shape);
}

int main(int argc, char **argv) {
    Options options = {
        .shape = {.batch = 1, .heads_q = 1, .heads_kv = 1, .len_q = 256, .len_kv = 256, .dim = 64},
        .seed = 1,
        .repeats = 20,
    };
    options_parse(&options, &program, argc, argv);
    if (options.quick && !options.shape_given) {
        options.shape.len_q = options.shape.len_kv = 64;
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
    require_supported(&program, &asked);
    LessonCsv csv;
    lesson_require(&program, lesson_csv_open(&csv, &options, SHOW_CSV_HEADING));
    show.csv = csv.file;

    report_title(program.name, program.title, program.summary);
    lesson_show_backend(&program, show.target);
    lesson_announce(&options, planned_flops(&show, &asked.shape));
    bool passed = show_correctness(&show, &asked);
    problem_free(&asked);
    if (options.q == NULL) {
        show_cards(&show);
        show_bytes(&show);
        show_shared_memory(&show);
        if (show.target == GPU_CUDA) {
            passed = show_times(&show) && passed;
        } else {
            show_filling(&show);
        }
        show_recorded(&show);
        report_section("Next");
        report_text("%smake diff-ch05 shows how the rungs differ, make resources what registers "
                    "they take. The lesson is chapters/ch05_fused_cuda/README.md, the labs are in "
                    "exercises/ch05.",
                    options.plot != PLOT_NONE ? ""
                                              : "./ch05 --plot draws the bytes of the rungs and "
                                                "their models; ");
    }
    lesson_require(&program, lesson_csv_finish(&csv, &program, plot_script, &options));
    return lesson_exit_status(&program, passed);
}
