// ./ch07: masks. Both kernels against the oracle under every mask, the masks drawn key by key and
// tile by tile, what the wrong alignment gives, the tiles and bytes that a mask saves, and time: on
// a GPU where there is one, else what is recorded.
#include "chapters/ch07_masks/show.h"

static const Program program = {
    .name = "ch07",
    .title = "masks",
    .summary = "Which keys a query may see, and which tiles need not be visited: causal,\n"
               "windows, padding, lists of blocks, drawn, checked and counted.",
    .flags = 0,
};

static const char plot_script[] = "chapters/ch07_masks/plot.gp";

// What the run costs, for lesson_announce: an oracle for each kernel, and on simt the kernels
// themselves, which run there at some 130 MFLOP/s altogether.
static double planned_flops(const Show *show, const AttnShape *shape) {
    const double simt_runs = show->target == GPU_SIMT ? LESSON_SCALAR_RATE / 130e6 : 0;
    return (simt_runs + LESSON_ORACLE_RUNS) * MASK_KERNELS * lesson_flops(shape);
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
    if (options.q == NULL) {
        show_gallery(&show);
    }
    show_tiles(&show, &asked.shape);
    problem_free(&asked);
    if (options.q == NULL) {
        passed = show_alignment(&show) && passed;
        show_cards(&show);
        show_order(&show);
        show_bytes(&show);
        if (show.target == GPU_CUDA) {
            passed = show_times(&show) && passed;
        }
        show_recorded(&show);
        report_section("Next");
        report_text("%smake diff-ch07 shows how the two kernels differ. The lesson is "
                    "chapters/ch07_masks/README.md, the labs are in exercises/ch07.",
                    options.plot != PLOT_NONE ? ""
                                              : "./ch07 --plot draws the masks and what they save; "
                                                "");
    }
    lesson_require(&program, lesson_csv_finish(&csv, &program, plot_script, &options));
    return lesson_exit_status(&program, passed);
}
