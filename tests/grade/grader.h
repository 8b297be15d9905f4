// The grader's own header: text buffers, running a child under limits, building, grading, and the
// results that the output formats read. What a lab's suite is written with is in grade.h.
#ifndef TESTS_GRADE_GRADER_H
#define TESTS_GRADE_GRADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

enum { PATH_BYTES = 1024 };

// ---- text.c: text and files ---------------------------------------------------------------------

typedef struct Text {
    char *data; // always ends with a zero byte once something was added; NULL when empty
    size_t length;
    size_t capacity;
} Text;

// Prints "grade: ..." on stderr and ends the program with status 2.
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

void *allocate(size_t count, size_t size); // zeroed; ends the program when memory is out

// The array of `count` items with room for one more; ends the program when memory is out.
void *grown(void *items, size_t count, size_t size);

void text_add(Text *text, const char *data, size_t length);
void text_format(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(Text *text);
char *copy_text(const char *text);                                                // to be freed
char *format_text(const char *format, ...) __attribute__((format(printf, 1, 2))); // to be freed

// A new string in which `from` is replaced by `to` everywhere.
char *replace_text(const char *text, const char *from, const char *to);

// The whole file, zero byte appended, to be freed; NULL (errno set) when it cannot be read or is
// not a regular file of at most `limit` bytes.
char *read_file(const char *path, size_t limit);

// Writes a file through a temporary one and a rename. False (errno set) on an error.
bool write_file(const char *path, const char *text);

// Replaces what is not printable UTF-8, a line end or a tab by "?": what a learner's program
// printed goes to terminals and into XML. NULL is accepted.
void make_printable(char *text);

// The file's name without its folders: "lab2_alibi.cu". Points into `path`.
const char *base_name(const char *path);

bool file_exists(const char *path);
bool directory_exists(const char *path);
bool make_directories(const char *path); // as mkdir -p
void remove_tree(const char *path);      // as rm -rf

// Regular files of a directory that begin with `prefix` and end with `suffix`, sorted; the names
// without the directory. A directory that does not exist has none.
typedef struct Names {
    char **name;
    size_t count;
} Names;

Names list_files(const char *directory, const char *prefix, const char *suffix);
void names_add(Names *names, const char *name);
void names_free(Names *names);

// ---- sandbox.c: a child process under limits ----------------------------------------------------

typedef struct Limits {
    double seconds; // wall time; the processor time is limited to a little more
    size_t output;  // bytes of stdout and stderr together
    size_t memory;  // resident bytes of the child and its descendants
} Limits;

typedef enum RunEnd {
    END_EXIT,     // code is the exit status
    END_SIGNAL,   // code is the signal
    END_TIME,     // killed: too long
    END_OUTPUT,   // killed: printed too much
    END_MEMORY,   // killed: too much memory
    END_PROCESSES // killed: too many processes
} RunEnd;

typedef struct Run {
    RunEnd end;
    int code;
    bool passed;   // a pass record with the right nonce came
    bool garbled;  // the record pipe carried something that the harness does not write
    char *title;   // records, NULL where none came
    char *in_case; // the last one
    char *failure;
    bool damaged;   // the failure is about memory that was not to be written
    bool found;     // the failure names a line of the learner's kernel
    bool not_run;   // the failure is that something is missing here
    bool debugging; // the listed tests are a debugging lab's
    Names entries;
    Text output; // stdout and stderr
    double seconds;
} Run;

enum { MAX_PROCESSES = 64 }; // of one run at a time

// What a run's processes (its process group, and orphans that came back to this process) hold.
typedef struct Census {
    size_t processes;
    size_t memory; // resident bytes
} Census;

Census take_census(pid_t group);
size_t resident_bytes(pid_t pid); // of one process; 0 when it is gone

// Kills what is left of a run and reaps it, so that neither processes nor zombies remain. This
// process must have no other children.
void kill_descendants(pid_t group);

// Runs a trusted command (the compiler), found on PATH, with this program's environment, in which
// TMPDIR is the folder `temporary`, as the user `user`; 0: as this program's.
void run_tool(Run *run, char *const *argv, const Limits *limits, const char *temporary, uid_t user);

// Runs an executable that holds a learner's code: clean environment, a temporary directory as the
// working directory, as an unprivileged user when this program is root, record and nonce pipes.
void run_suite(Run *run, const char *executable, char *const *argv, const Limits *limits);

void run_free(Run *run);
void remove_scratch(void); // the working directory of a suite that was cut short

// Ctrl-C and the like kill what runs, remove the temporary files and end the program.
void catch_interrupts(void);
bool was_interrupted(void);

// ---- build.c: compiling -------------------------------------------------------------------------

enum { UNPRIVILEGED_ID = 65534 }; // the user "nobody"
enum { ALL_LABS = -1, ONLY_QUESTIONS = -2 };

typedef struct Options {
    const char *from;   // lab files come from from/chNN/
    const char *format; // text, tap, junit, gradescope, json
    const char *out;    // NULL: stdout
    const char *build;  // the build directory
    const char *compiler;
    bool is_clang;
    const char *trace_compiler; // of the kernels' trace build, gcc 12 or newer; NULL: none is here
    int lab;                    // ALL_LABS, ONLY_QUESTIONS, or a lab's number, from 0 on
    const char *test;           // NULL: all
    double seconds;             // wall time of one test
    bool sanitize;
    bool show_steps; // a line that says what runs, while it runs
    uid_t user;      // as root: who runs learners' code; UNPRIVILEGED_ID without --user
    bool confine;    // --user was given: the compiler, too, reads learners' files as that user

    Names also;            // more reports of the same run, "FORMAT=FILE"
    bool hidden;           // the tests that assignment.txt hides are run, too
    const char *seed;      // NULL, or a student's id, from which random cases may come
    const char *submitted; // NULL, or the time of the submission
} Options;

extern Options options;

// Learns from the compilers themselves what `compiler` is, and which can make the trace build.
void find_compilers(void);

// Compiles what every lab shares (the harness, common/) and the suites of the chapters named, where
// they are older than their sources. Ends the program with the compiler's message on an error.
void build_shared(const Names *chapters);

// Where build_shared leaves things, to be freed: an executable that lists a suite's tests without
// the learner's code, or a chapter's questions. `suite` is "lab1_name" or "questions".
char *lister_path(const char *chapter, const char *suite);

// Compiles one lab file and links it with its suite. Returns the executable's path (to be freed),
// or NULL when that failed. `log` receives the compiler's messages, this machine's paths removed.
char *build_lab(const char *chapter, const char *suite, const char *source, Text *log);

void build_end(void); // removes this process's temporary files

// Runs job(context, i) for every i < count in as many processes as there are processors. `done` is
// called in this process, in the order of i, as soon as job i and all before it ended; ok is false
// when the job's process ended without finishing it.
typedef void (*Job)(void *context, size_t i);
typedef void (*JobDone)(void *context, size_t i, bool ok);

// Zeroed memory that the jobs' processes share with this one; never released.
void *shared_memory(size_t bytes);
void run_jobs(size_t count, void *context, Job job, JobDone done);

// ---- results ------------------------------------------------------------------------------------

typedef enum Status {
    STATUS_PASS,
    STATUS_FAIL,
    STATUS_GATED,  // not counted: the lab's first test failed, or another of a debugging lab
    STATUS_NOT_RUN // something that it needs is missing on this machine
} Status;

typedef struct TestResult {
    char *name;
    int points;
    int score;
    bool gated;
    int worth;   // hundredths of a point, as assignment.txt counts (assignment.h)
    int earned;  // of them
    bool hidden; // for the instructor's runs alone
    Status status;
    char *hint;
    char *timeout_hint; // in hint's place when the time ran out; empty: the grader's words; NULL of
                        // a question
    char *in_case;      // NULL when the test named none
    char *message;      // NULL when passed
    char *cause;        // the known fault that fails so, NULL when none was recognised
    bool by_values;     // the cause was told by its values, so the hint adds nothing
    char *output;       // what the learner's code printed, NULL when nothing
    double seconds;
} TestResult;

typedef struct LabResult {
    char *id;      // "lab1", "questions"
    char *title;   // the suite's
    char *file;    // the learner's file, as named on the command line
    char *notes;   // warnings or errors of the compiler, malformed lines; NULL when none
    char *program; // where the executable was left for a debugger; NULL when it was removed
    bool built;
    bool missing;   // there is no such file
    bool untouched; // the file is the exercise as it was handed out
    bool debugging; // all points or none
    TestResult *tests;
    size_t count;
    int score; // as the suite counts; remembered as progress
    int points;
    int worth; // hundredths of a point, as assignment.txt counts
    int earned;
    size_t hidden; // tests that were left out, for the instructor to run
} LabResult;

typedef struct ChapterResult {
    const char *name; // "ch01"
    LabResult *labs;
    size_t count;
    int score; // as the suites count
    int points;
    int worth; // hundredths of a point, as assignment.txt counts
    int earned;
    int final;        // earned, less what lateness takes off
    int percent;      // taken off for lateness
    char *due;        // "2027-03-01 23:59"; NULL when the chapter has no due time
    char *lateness;   // "1 day late: 10 % off", "in time"; NULL when that is not known
    const char *seed; // that random cases came from; NULL: the fixed ones
} ChapterResult;

// ---- lab.c, questions.c, messages.c, explain.c --------------------------------------------------

// The suites of a chapter in order, "lab1_name", ...; `questions` says whether it has questions.
Names chapter_suites(const char *chapter, bool *questions);

// The chapters that have suites, in order.
Names all_chapters(void);

// "lab1" of "lab1_name"; "questions" stays. To be freed.
char *lab_id(const char *suite);

// The tests of a suite, nothing run yet. To be freed with lab_free.
LabResult lab_table(const char *chapter, const char *suite);

// Grades one lab with the file `source` (NULL: the learner's file of options.from). Only tests
// named `only` when that is not NULL; a gated test still runs the first one.
LabResult grade_lab(const char *chapter, const char *suite, const char *source, const char *only);

// The learner's file for a suite in from/chapter: the one that begins with the suite's "labK_".
// To be freed; NULL when there is none.
char *lab_file(const char *from, const char *chapter, const char *suite);

// ".cu" when the exercise of this suite is a kernel file, else ".c".
const char *lab_suffix(const char *chapter, const char *suite);

// What is wrong when `name`, a lab's file, is not in from/chapter; says so when it lies where the
// chapter's folder should. To be freed.
char *explain_missing(const char *from, const char *chapter, const char *name);

// Whether a learner's file is still `name` of exercises/chNN as it was handed out.
bool is_untouched(const char *chapter, const char *name, const char *file);

// Removes the tests that are not named `only`.
void select_test(LabResult *lab, const char *only);

LabResult grade_questions_of(const char *chapter, const char *from, const char *only);
ChapterResult grade_chapter(const char *chapter);
void test_free(TestResult *test);
void lab_free(LabResult *lab);
void chapter_free(ChapterResult *chapter);

// Replaces the next tab of an entry by the end of the string and returns what stands before it.
char *next_field(char **rest);

// The compiler's messages cut down to what a learner needs, to be freed. compile_warnings returns
// NULL when there are none; log may be NULL.
char *compile_errors(const char *log, const char *file);
char *compile_warnings(const char *log);

// In plain words, why a test that did not pass failed. To be freed.
char *explain_run(const Run *run, const Limits *limits);

// The hint for a test that ended otherwise than by a wrong result (a crash, a limit, ...), which
// the test's hint does not fit; NULL when that one does.
const char *hint_for_end(const Run *run, const TestResult *test);

// Compares one answer ("512 MiB") with the expected value. NULL when it is right, otherwise what is
// wrong with it, without the expected value, to be freed.
char *judge_answer(const char *answer, double expected, double tolerance, const char *unit);

// ---- output -------------------------------------------------------------------------------------

// Shows on the terminal's last line what runs now; end_steps clears it. Nothing unless
// options.show_steps.
void show_step(const LabResult *lab, const char *step);
void end_steps(void);

void write_text(FILE *out, const ChapterResult *chapters, size_t count);
void write_score_line(FILE *out, const char *name, int score, int points, const char *remark);
void write_tap(FILE *out, const ChapterResult *chapters, size_t count);
void write_junit(FILE *out, const ChapterResult *chapters, size_t count);
void write_json(FILE *out, const ChapterResult *chapters, size_t count);
void write_gradescope(FILE *out, const ChapterResult *chapters, size_t count);

// Case, message, hint and output of a test as one text, to be freed; empty when it passed.
char *test_details(const TestResult *test);

// reports.c: opens the files of --format, --out and --also, or ends the program with what is wrong
// with these; writes all reports of the run.
void open_reports(void);
void write_reports(const ChapterResult *chapters, size_t count);

// ---- progress.c, gaps.c, mutant.c, prove.c ------------------------------------------------------

// Remembers the score of each lab in the result that is its best so far. The tests of a lab must
// all have run.
void remember_progress(const ChapterResult *chapter);
void show_progress(const Names *chapters);

// NULL when `exercise` is `solution` with its gaps emptied, otherwise the first difference.
char *compare_outside_gaps(const char *exercise, const char *solution);

// NULL when the two are a debugging lab's: different, and neither has marks of gaps.
char *compare_debugging(const char *exercise, const char *solution);

typedef struct Mutant {
    char *suite_prefix; // "lab1_"
    char *test;         // the test that must fail
    char *cause;        // the description, in one line
    char *text;         // the solution's text with the fault planted
} Mutant;

// Reads a mutant and plants it in a solution of `solutions_directory`. False with *error (to be
// freed) when it is malformed or does not apply exactly once.
bool read_mutant(Mutant *mutant, const char *path, const char *solutions_directory, char **error);
void mutant_free(Mutant *mutant);

Names mutants_of(const char *chapter, const char *prefix); // file names that begin with `prefix`

// The suite of the mutant's lab, to be freed; NULL when there is none.
char *mutant_suite(const Mutant *mutant, const char *chapter);

// grade_lab with the mutant as the learner's file.
LabResult grade_mutant(const Mutant *mutant, const char *chapter, const char *suite,
                       const char *only);

// Proves the grader on the chapters; returns true when every proof passed.
bool prove(const Names *chapters);

// ---- recognise.c, record.c ----------------------------------------------------------------------

// Sets `cause` of the failed tests that look like a known wrong answer's.
void name_causes(LabResult *lab, const char *chapter);

// Grades every mutant of the chapters and writes their wrong_answers.txt anew. True when every
// mutant could be recorded.
bool record_wrong_answers(const Names *chapters);

// Whether the report names the mutant's cause, alone or among others: that of `test`, which was
// graded alone, or where that test does not tell it from others, that of the whole lab.
bool is_recognised(const Mutant *mutant, const char *chapter, const char *suite,
                   const TestResult *test);

#endif
