// What every lesson program does with a kernel: see lesson.h.
#include "common/lesson.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void lesson_require(const Program *program, AttnStatus status) {
    if (status != ATTN_OK) {
        fflush(stdout);
        fprintf(stderr, "%s: %s\n", program->name, attn_last_error());
        exit(2);
    }
}

void lesson_require_cpu(const Program *program, const Options *options) {
    if (options->backend == BACKEND_SIMT || options->backend == BACKEND_CUDA) {
        const char *name = options->backend == BACKEND_SIMT ? "simt" : "cuda";
        lesson_require(program, attn_fail(ATTN_ERR_UNSUPPORTED,
                                          "--backend=%s: this chapter has no kernel for it, only "
                                          "cpu; the CUDA kernels begin in chapter 5",
                                          name));
    }
}

// One target that does not run: why.
static void show_other_target(const Program *program, GpuTarget target) {
    char why[256];
    if (!gpu_asked(target)) {
        report_text("%s: not asked for; ./%s --backend=%s runs there if a device is present.",
                    gpu_target_name(target), program->name, gpu_target_name(target));
    } else if (gpu_available(target, why)) {
        report_text("%s: not asked for; ./%s --backend=%s runs there.", gpu_target_name(target),
                    program->name, gpu_target_name(target));
    } else {
        report_text("%s: does not run: %s.", gpu_target_name(target), why);
    }
}

void lesson_show_backend(const Program *program, GpuTarget target) {
    GpuProperties device;
    char why[256];
    report_section("Backend");
    lesson_require(program, gpu_properties(target, &device));
    if (target == GPU_CUDA) {
        report_text("cuda: runs, on %s (sm_%d%d, %d SMs).", device.name, device.compute_major,
                    device.compute_minor, device.multiprocessors);
        show_other_target(program, GPU_SIMT);
    } else {
        report_text("simt: runs: the kernels as fibers on this CPU, with the limits of a device "
                    "(%s). A time on simt is the emulator's, not a GPU's.",
                    device.name);
        show_other_target(program, GPU_CUDA);
    }
    if (gpu_available(GPU_TRACE, why)) {
        report_text("simt, traced: runs where bytes are counted.");
    } else {
        show_other_target(program, GPU_TRACE);
    }
    report_text("cpu: does not run: this chapter's kernels are CUDA kernels.");
}

void lesson_require_no_series(const Program *program, const Options *options) {
    if (options->q != NULL && (options->csv != NULL || options->plot != PLOT_NONE)) {
        lesson_require(program, attn_fail(ATTN_ERR_ARGUMENT,
                                          "--csv and --plot show a series of seeded problems and "
                                          "do not apply to --q, --k, --v files"));
    }
}

void lesson_require_script(const Program *program, const char *script, const Options *options) {
    if (options->plot != PLOT_NONE && access(script, R_OK) != 0) {
        lesson_require(program,
                       attn_fail(ATTN_ERR_IO, "--plot: %s: %s; run it from the course's folder",
                                 script, strerror(errno)));
    }
}

int lesson_exit_status(const Program *program, bool passed) {
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "%s: the output could not be written%s%s\n", program->name,
                errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
        return 1;
    }
    return passed ? 0 : 1;
}

double lesson_flops(const AttnShape *shape) {
    double pairs = 0;
    for (int64_t b = 0; b < shape->batch; b++) {
        for (int64_t i = 0; i < shape->len_q; i++) {
            const KeyRange visible = attn_visible_keys(shape, b, i);
            pairs += (double)(visible.end - visible.begin);
        }
    }
    return 4.0 * pairs * (double)shape->heads_q * (double)shape->dim;
}

void lesson_announce(const Options *options, double flops) {
    const double seconds = flops / LESSON_SCALAR_RATE;
    if (seconds <= 20) {
        return;
    }
    char time[32];
    if (seconds < 90) {
        snprintf(time, sizeof(time), "%.0f seconds", 10 * ceil(seconds / 10));
    } else if (seconds < 90 * 60) {
        snprintf(time, sizeof(time), "%.0f minutes", ceil(seconds / 60));
    } else {
        snprintf(time, sizeof(time), "%.3g hours", ceil(seconds / 3600));
    }
    report_text("About %s at this size%s.", time,
                options->q == NULL ? "; a smaller --len is quicker" : "");
    fflush(stdout);
}

static bool all_finite(const Tensor *tensor) {
    for (size_t i = 0; i < tensor->count; i++) {
        if (!isfinite(tensor_get(tensor, i))) {
            return false;
        }
    }
    return true;
}

// Makes elements that are NaN on both sides equal, so that the comparison, to which every NaN is a
// failure, sees only the others. Returns how many there were.
static size_t settle_nans(Tensor *got, double *expected, double *bound) {
    size_t settled = 0;
    float *values = got->data;
    for (size_t i = 0; i < got->count; i++) {
        if (isnan(expected[i]) && isnan(values[i])) {
            values[i] = 0.0F;
            expected[i] = bound[i] = 0;
            settled++;
        }
    }
    return settled;
}

// compare_output for inputs that hold NaN or infinities: on copies, the outputs stay as they are.
static AttnStatus compare_with_nans(Expected *expected, const Problem *problem, int64_t block_q,
                                    LessonCheck *check) {
    Tensor o = {0}, lse = {0};
    AttnStatus status = tensor_convert(&o, &problem->o, DTYPE_F32);
    if (status == ATTN_OK) {
        status = tensor_convert(&lse, &problem->lse, DTYPE_F32);
    }
    if (status == ATTN_OK) {
        check->required_nans = settle_nans(&o, expected->o, expected->o_bound) +
                               settle_nans(&lse, expected->lse, expected->lse_bound);
        check->passed = compare_output(expected, &o, &lse, block_q, &check->o, &check->lse);
    }
    tensor_free(&o);
    tensor_free(&lse);
    return status;
}

// Compares a problem's outputs, as its storage type would hold them, with the oracle.
static AttnStatus compare_problem(Problem *problem, int64_t block_q, LessonCheck *check) {
    Expected expected;
    AttnStatus status = expected_make(&expected, &problem->shape, &problem->q, &problem->k,
                                      &problem->v, problem->dtype);
    if (status != ATTN_OK) {
        return status;
    }
    tensor_round_to(&problem->o, problem->dtype);
    if (all_finite(&problem->q) && all_finite(&problem->k) && all_finite(&problem->v)) {
        check->passed =
            compare_output(&expected, &problem->o, &problem->lse, block_q, &check->o, &check->lse);
    } else {
        status = compare_with_nans(&expected, problem, block_q, check);
    }
    expected_free(&expected);
    if (!tensor_guards_intact(&problem->o) || !tensor_guards_intact(&problem->lse)) {
        check->passed = false;
        snprintf(check->o.message, sizeof(check->o.message),
                 "the kernel wrote outside its outputs: guard words have changed");
    }
    return status;
}

static AttnStatus run_kernel(LessonKernel *kernel, void *context, Problem *problem) {
    return kernel(context, &problem->shape, problem->q.data, problem->k.data, problem->v.data,
                  problem->o.data, problem->lse.data);
}

AttnStatus lesson_check(LessonKernel *kernel, void *context, Problem *problem, int64_t block_q,
                        LessonCheck *check) {
    memset(check, 0, sizeof(*check));
    tensor_poison(&problem->o);
    tensor_poison(&problem->lse);
    const AttnStatus status = run_kernel(kernel, context, problem);
    return status != ATTN_OK ? status : compare_problem(problem, block_q, check);
}

void lesson_describe(const char *name, const Problem *problem) {
    const AttnShape *shape = &problem->shape;
    char window[48] = "";
    if (shape->window > 0) {
        snprintf(window, sizeof(window), ", window %lld", (long long)shape->window);
    }
    report_text("%s: batch %lld, %lld query heads on %lld KV heads, T = %lld, S = %lld, d = %lld, "
                "%s, scale %.4g%s%s.",
                name, (long long)shape->batch, (long long)shape->heads_q,
                (long long)shape->heads_kv, (long long)shape->len_q, (long long)shape->len_kv,
                (long long)shape->dim, dtype_name(problem->dtype), attn_scale(shape),
                shape->causal ? ", causal" : "", window);
}

AttnStatus lesson_save(const Problem *problem, const Options *options) {
    const AttnStatus status = problem_save(problem, options);
    if (status == ATTN_OK && options->out != NULL) {
        report_text("O saved to %s.", options->out);
    }
    if (status == ATTN_OK && options->lse != NULL) {
        report_text("LSE saved to %s.", options->lse);
    }
    return status;
}

void lesson_check_row(Table *table, const char *name, const LessonCheck *check) {
    table_row(table, "%s|%.1e|%.3f|%.1e|%.3f|%s", name, check->o.max_error, check->o.worst_ratio,
              check->lse.max_error, check->lse.worst_ratio, check->passed ? "ok" : "FAILED");
    if (!check->passed) {
        report_text("%s: %s", name, check->o.message[0] ? check->o.message : check->lse.message);
    }
    if (check->required_nans > 0) {
        report_text("%s: %zu elements NaN, as the inputs require.", name, check->required_nans);
    }
}

// What a timed run works on; `status` keeps the first error.
typedef struct Rotation {
    LessonKernel *kernel;
    void *context;
    Problem sets[LESSON_INPUT_SETS];
    int last;
    int done, total; // runs, for the progress line
    char what[32];
    double started;
    AttnStatus status;
} Rotation;

static void timed_run(void *context, int run) {
    Rotation *rotation = context;
    rotation->last = run % LESSON_INPUT_SETS;
    const AttnStatus status =
        run_kernel(rotation->kernel, rotation->context, &rotation->sets[rotation->last]);
    if (rotation->status == ATTN_OK) {
        rotation->status = status;
    }
    rotation->done++;
    if (timer_now() - rotation->started > 2.0) {
        report_progress(rotation->what, rotation->done, rotation->total);
    }
}

AttnStatus lesson_time(LessonKernel *kernel, void *context, const AttnShape *shape, DType dtype,
                       uint64_t seed, int runs, LessonTiming *timing) {
    memset(timing, 0, sizeof(*timing));
    Rotation rotation = {.kernel = kernel, .context = context, .total = runs + 1};
    snprintf(rotation.what, sizeof(rotation.what), "timing N = %lld", (long long)shape->len_kv);
    AttnStatus status = ATTN_OK;
    for (int set = 0; set < LESSON_INPUT_SETS && status == ATTN_OK; set++) {
        status = problem_random(&rotation.sets[set], shape, dtype, seed + (uint64_t)set);
    }
    if (status == ATTN_OK) {
        rotation.started = timer_now();
        timing->seconds = timer_measure(timed_run, &rotation, runs);
        report_progress(rotation.what, 0, 0);
        status = rotation.status;
    }
    if (status == ATTN_OK) {
        status = compare_problem(&rotation.sets[rotation.last], 0, &timing->last);
    }
    for (int set = 0; set < LESSON_INPUT_SETS; set++) {
        problem_free(&rotation.sets[set]);
    }
    return status;
}

char *lesson_time_text(char *text, const TimeStats *seconds) {
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1.0, "s"}};
    size_t u = 0;
    while (u + 1 < sizeof(units) / sizeof(units[0]) && seconds->median >= units[u + 1].unit) {
        u++;
    }
    const double unit = units[u].unit;
    const int digits = seconds->median / unit >= 100 ? 0 : seconds->median / unit >= 10 ? 1 : 2;
    snprintf(text, 64, "%.*f %s [%.*f, %.*f]", digits, seconds->median / unit, units[u].name,
             digits, seconds->p10 / unit, digits, seconds->p90 / unit);
    return text;
}

AttnStatus lesson_csv_open(LessonCsv *csv, const Options *options, const char *heading) {
    *csv = (LessonCsv){0};
    if (options->csv == NULL && options->plot == PLOT_NONE) {
        return ATTN_OK;
    }
    if (options->csv == NULL) {
        const char *folder = getenv("TMPDIR");
        snprintf(csv->path, sizeof(csv->path), "%s/lesson-XXXXXX", folder ? folder : "/tmp");
        const int descriptor = mkstemp(csv->path);
        if (descriptor < 0) {
            return attn_fail(ATTN_ERR_IO, "cannot create a temporary file %s for the plot",
                             csv->path);
        }
        close(descriptor);
        csv->temporary = true;
    } else if (snprintf(csv->path, sizeof(csv->path), "%s", options->csv) >=
               (int)sizeof(csv->path)) {
        return attn_fail(ATTN_ERR_IO, "--csv: the path is longer than %zu characters",
                         sizeof(csv->path) - 1);
    }
    return csv_open(&csv->file, csv->path, heading);
}

AttnStatus lesson_csv_finish(LessonCsv *csv, const Program *program, const char *script,
                             const Options *options) {
    if (csv->file == NULL) {
        return ATTN_OK;
    }
    AttnStatus status = csv_close(csv->file);
    csv->file = NULL;
    if (status == ATTN_OK && options->plot != PLOT_NONE) {
        fflush(stdout);
        status = plot_run(program->name, script, csv->path, options->plot);
    }
    if (csv->temporary) {
        unlink(csv->path);
    }
    return status;
}
