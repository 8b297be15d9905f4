// What every lesson program does with a kernel: runs it against the oracle, times it on rotating
// inputs, ends on a bad command line, and keeps the CSV that the plot reads.
#ifndef COMMON_LESSON_H
#define COMMON_LESSON_H

#include "common/compare.h"
#include "common/gpu.h"
#include "common/options.h"
#include "common/problem.h"
#include "common/report.h"
#include "common/timer.h"

#ifdef __cplusplus
extern "C" {
#endif

// A kernel as the programs call it; `context` carries what the kernel needs besides the tensors.
typedef AttnStatus LessonKernel(void *context, const AttnShape *shape, const float *q,
                                const float *k, const float *v, float *o, float *lse);

// Unless status is ATTN_OK: one line "ch01: ..." with the last error on stderr, and exit 2.
void lesson_require(const Program *program, AttnStatus status);

// For a chapter without CUDA kernels: exit 2 when --backend asks for simt or cuda.
void lesson_require_cpu(const Program *program, const Options *options);

// For a chapter with CUDA kernels, the section "Backend": which target runs the kernels (`target`,
// of gpu_choose), what that means for the numbers below, and for each other target why it does not
// run. Starts no CUDA that gpu_choose has not started.
void lesson_show_backend(const Program *program, GpuTarget target);

// Exit 2 when --csv or --plot is given with files: both show a series of seeded problems.
void lesson_require_no_series(const Program *program, const Options *options);

// Exit 2 when --plot is given and the chapter's gnuplot script cannot be read: its path is relative
// to the course's folder.
void lesson_require_script(const Program *program, const char *script, const Options *options);

// The program's exit status, its last call: 0, or 1 when a check failed or when what was printed
// did not reach stdout, which one line on stderr tells.
int lesson_exit_status(const Program *program, bool passed);

// FLOP of the two products over the keys that are visible, all heads, a multiply-add counting 2:
// 4 d per (query, visible key). Without masks that is batch heads_q attention_flops(T, S, d).
double lesson_flops(const AttnShape *shape);

// One line that says about how long the program will take, when that is more than 20 seconds.
// `flops`: of all runs of one-thread scalar kernels and of the oracle, which counts as
// LESSON_ORACLE_RUNS runs of a kernel.
enum { LESSON_ORACLE_RUNS = 2 };
#define LESSON_SCALAR_RATE 1.5e9 // FLOP/s of a plain loop on one thread, roughly
void lesson_announce(const Options *options, double flops);

// Runs the kernel once: outputs filled with NaN before, rounded to the problem's storage type and
// compared with the oracle after, guard words checked. Where Q, K or V holds NaN or an infinity, an
// element that is NaN in the oracle is right when it is NaN in the output, and wrong otherwise.
// Returns the kernel's or the oracle's error.
typedef struct LessonCheck {
    Comparison o, lse;
    size_t required_nans; // elements of O and LSE that are NaN because the inputs require it
    bool passed;
} LessonCheck;
AttnStatus lesson_check(LessonKernel *kernel, void *context, Problem *problem, int64_t block_q,
                        LessonCheck *check);

// One line of text: the problem's sizes and options.
void lesson_describe(const char *name, const Problem *problem);

// problem_save, and a line of text that names the files written.
AttnStatus lesson_save(const Problem *problem, const Options *options);

// A correctness table of largest errors, one row a check: table_begin(&table,
// LESSON_CHECK_HEADINGS) first. A failed check's first failing element, and the number of
// NaNs that the inputs require, are printed at once.
#define LESSON_CHECK_HEADINGS "case|O error|of bound|LSE error|of bound|result"
void lesson_check_row(Table *table, const char *name, const LessonCheck *check);

// Times the kernel on LESSON_INPUT_SETS problems of this shape with different seeds, one after the
// other, and checks the output of the last timed run against the oracle. `runs` timed runs.
enum { LESSON_INPUT_SETS = 3 };
typedef struct LessonTiming {
    TimeStats seconds;
    LessonCheck last; // the output of the last timed run
} LessonTiming;
AttnStatus lesson_time(LessonKernel *kernel, void *context, const AttnShape *shape, DType dtype,
                       uint64_t seed, int runs, LessonTiming *timing);

// "12.3 ms [12.1, 12.9]", median and [p10, p90], into text (at least 64 bytes); returns text.
char *lesson_time_text(char *text, const TimeStats *seconds);

// The CSV of one run: --csv FILE, a temporary file when only --plot was given, or none.
typedef struct LessonCsv {
    FILE *file; // NULL: no CSV is wanted, csv_row does nothing
    char path[256];
    bool temporary;
} LessonCsv;
AttnStatus lesson_csv_open(LessonCsv *csv, const Options *options, const char *heading);

// Closes the CSV, draws the plot if one was asked for, removes a temporary file.
AttnStatus lesson_csv_finish(LessonCsv *csv, const Program *program, const char *script,
                             const Options *options);

#ifdef __cplusplus
}
#endif

#endif
