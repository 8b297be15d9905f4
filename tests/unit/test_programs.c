// Tests of the lesson programs as a reader runs them: flags, files, errors, plots, time. Every
// program in $BUILD/bin (BUILD is "build" where it is not set) is run, in an empty folder that has
// links to chapters/ and tests/.
#include "common/npy.h"
#include "tests/unit/capture.h"

#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST_PROGRAMS = 24, MOST_ARGUMENTS = 32, PATH_BYTES = 4096, LAST_CPU_CHAPTER = 4 };

// Sanitizers slow a program down several times.
#if defined(__SANITIZE_ADDRESS__)
static const double quick_seconds = 30;
#else
static const double quick_seconds = 5;
#endif

static char programs[MOST_PROGRAMS][PATH_BYTES + 8]; // absolute paths
static int program_count;
static char root[PATH_BYTES];
static char folder[64];

// "ch01" of program `index`.
static const char *name_of(int index) {
    return strrchr(programs[index], '/') + 1;
}

static int is_program(const struct dirent *entry) {
    return strlen(entry->d_name) == 4 && strncmp(entry->d_name, "ch", 2) == 0;
}

static void find_programs(void) {
    const char *build = getenv("BUILD");
    char bin[PATH_BYTES], folder_path[PATH_BYTES];
    struct dirent **entries;
    snprintf(bin, sizeof bin, "%s/bin", build != NULL ? build : "build");
    if (realpath(bin, folder_path) == NULL || getcwd(root, sizeof root) == NULL) {
        fprintf(stderr, "test_programs: %s: no such folder (make all first)\n", bin);
        exit(EXIT_FAILURE);
    }
    program_count = scandir(folder_path, &entries, is_program, alphasort);
    if (program_count < 1 || program_count > MOST_PROGRAMS) {
        fprintf(stderr, "test_programs: %d programs in %s\n", program_count, bin);
        exit(EXIT_FAILURE);
    }
    for (int i = 0; i < program_count; i++) {
        snprintf(programs[i], sizeof programs[i], "%s/%.4s", folder_path, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}

static void enter(void) {
    char path[PATH_BYTES + 16];
    enter_folder(folder);
    snprintf(path, sizeof path, "%s/chapters", root);
    ck_assert_int_eq(symlink(path, "chapters"), 0);
    snprintf(path, sizeof path, "%s/tests", root);
    ck_assert_int_eq(symlink(path, "tests"), 0);
}

static void leave(void) {
    remove_folder(folder);
}

// Entries of the working folder besides the two links.
static int files_written(void) {
    struct dirent **entries;
    int count = scandir(".", &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    free(entries);
    return count - 4; // ".", "..", "chapters", "tests"
}

// Runs program `index` with the words of `line` as its arguments.
static Captured run(int index, const char *line) {
    char words[1024];
    const char *argv[MOST_ARGUMENTS] = {programs[index]};
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        ck_assert_int_lt(argc, MOST_ARGUMENTS - 1);
        argv[argc++] = word;
    }
    return capture_program(argv);
}

// Runs it and requires success and a silent stderr. The output is left to the caller to free.
static Captured run_well(int index, const char *line) {
    Captured captured = run(index, line);
    ck_assert_msg(captured.status == 0 && captured.err[0] == '\0', "%s %s: exit %d, on stderr: %s",
                  name_of(index), line, captured.status, captured.err);
    return captured;
}

// A tiny problem from files: the kernels and their check, and nothing of what a lesson shows.
#define TINY_FILES                                                                                 \
    "--q tests/golden/square_tiny/q.npy --k tests/golden/square_tiny/k.npy "                       \
    "--v tests/golden/square_tiny/v.npy"

// Whether the chapter's kernels take the mask that `flags` ask for. One that does not says so,
// naming it, and in which chapter it comes.
static bool takes(int index, const char *flags, const char *named) {
    char line[256];
    snprintf(line, sizeof line, "%s %s", TINY_FILES, flags);
    Captured captured = run(index, line);
    const bool takes_it = captured.status == 0;
    ck_assert_msg(takes_it || (captured.status == 2 && strstr(captured.err, named) != NULL &&
                               strstr(captured.err, "chapter") != NULL),
                  "%s %s: exit %d, on stderr: %s", name_of(index), flags, captured.status,
                  captured.err);
    captured_free(&captured);
    return takes_it;
}

static bool takes_masks(int index) {
    return takes(index, "--causal", "causal");
}

static bool takes_windows(int index) {
    return takes(index, "--causal --window 3", "window");
}

static Tensor read_array(const char *path) {
    Tensor tensor;
    ck_assert_msg(npy_read(path, &tensor) == ATTN_OK, "%s", attn_last_error());
    return tensor;
}

// ---- text ---------------------------------------------------------------------------------------

START_TEST(help_fits_and_names_the_flags) {
    Captured captured = run_well(_i, "--help");
    ck_assert_int_eq(strncmp(captured.out, name_of(_i), 4), 0);
    ck_assert_int_le(longest_line(captured.out), 80);
    const char *flags[] = {"--batch", "--heads", "--kv-heads", "--len",    "--queries", "--keys",
                           "--dim",   "--dtype", "--scale",    "--causal", "--window",  "--seed",
                           "--q",     "--k",     "--v",        "--out",    "--lse",     "--backend",
                           "--quick", "--csv",   "--plot",     "--repeats"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        ck_assert_msg(strstr(captured.out, flags[i]) != NULL, "no %s", flags[i]);
    }
    captured_free(&captured);
    ck_assert_int_eq(files_written(), 0);
}
END_TEST

START_TEST(quick_is_quick_and_readable) {
    struct rusage before, after;
    getrusage(RUSAGE_CHILDREN, &before);
    Captured captured = run_well(_i, "--quick");
    getrusage(RUSAGE_CHILDREN, &after);
    // Processor time, which other work on the machine does not lengthen much.
    double seconds = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
                     (double)(after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
                     1e-6 * (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) +
                     1e-6 * (double)(after.ru_stime.tv_usec - before.ru_stime.tv_usec);
    ck_assert_double_lt(seconds, quick_seconds);
    ck_assert_int_eq(strncmp(captured.out, name_of(_i), 4), 0);
    ck_assert_int_le(longest_line(captured.out), 80);
    ck_assert_ptr_null(strchr(captured.out, '\033'));
    ck_assert_ptr_null(strchr(captured.out, '\r'));
    ck_assert_ptr_null(strstr(captured.out, " \n"));
    ck_assert_ptr_null(strstr(captured.out, "nan"));
    ck_assert_int_eq(files_written(), 0);
    captured_free(&captured);
}
END_TEST

// ---- errors -------------------------------------------------------------------------------------

// The line is refused: exit 2, one line "chNN: ..." on stderr that contains `part`, nothing on
// stdout and no file written.
static void assert_refused(int index, const char *line, const char *part) {
    Captured captured = run(index, line);
    const char *name = name_of(index);
    ck_assert_msg(captured.status == 2, "%s %s: exit %d", name, line, captured.status);
    ck_assert_msg(count_lines(captured.err) == 1 && strncmp(captured.err, name, 4) == 0 &&
                      strncmp(captured.err + 4, ": ", 2) == 0 && strstr(captured.err, part) != NULL,
                  "%s %s: should name %s on one line: %s", name, line, part, captured.err);
    ck_assert_msg(captured.out[0] == '\0', "%s %s printed: %s", name, line, captured.out);
    ck_assert_msg(files_written() == 0, "%s %s wrote a file", name, line);
    captured_free(&captured);
}

START_TEST(bad_command_lines) {
    const char *const cases[][2] = {
        {"--dim 0", "--dim 0"},
        {"--len 3x", "'3x'"},
        {"--frobnicate", "--frobnicate"},
        {"stray", "stray"},
        {"--dim", "--dim"},
        {"--heads 3 --kv-heads 2", "3"},
        {"--window 3", "--causal"},
        {"--window -1 --causal", "--window -1"},
        {"--scale -1", "--scale -1"},
        {"--dtype f8", "f8"},
        {"--backend=abacus", "abacus"},
        {"--plot=pdf", "pdf"},
        {"--repeats 3", "--repeats 3"},
        {"--q tests/golden/real_kjv/q.npy", "--k"},
        {"--csv absent/t.csv", "absent/t.csv"},
        {"--out absent/o.npy", "absent/o.npy"},
        {"--out o.npy --lse o.npy", "o.npy"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_refused(_i, cases[i][0], cases[i][1]);
    }
}
END_TEST

START_TEST(bad_files_leave_nothing_behind) {
    assert_refused(_i,
                   "--q absent.npy --k tests/golden/real_kjv/k.npy --v tests/golden/real_kjv/v.npy "
                   "--out o.npy --lse l.npy",
                   "absent.npy");
    assert_refused(_i,
                   "--q tests/golden/index.csv --k tests/golden/real_kjv/k.npy --v "
                   "tests/golden/real_kjv/v.npy --out o.npy",
                   "tests/golden/index.csv");
    assert_refused(_i,
                   "--q tests/golden/real_kjv/q.npy --k tests/golden/ragged/k.npy --v "
                   "tests/golden/ragged/v.npy --out o.npy --lse l.npy",
                   "axis 3 (dim) is 16");
    // Some programs refuse --csv beside files, others the missing file: no CSV appears either way.
    assert_refused(_i, "--q absent.npy --k absent.npy --v absent.npy --csv t.csv", "");
}
END_TEST

START_TEST(cpu_chapters_refuse_other_backends) {
    if (atoi(name_of(_i) + 2) <= LAST_CPU_CHAPTER) {
        assert_refused(_i, "--quick --backend=cuda", "cuda");
        assert_refused(_i, "--quick --backend=simt", "simt");
    }
}
END_TEST

// ---- files --------------------------------------------------------------------------------------

// The arrays agree within a bound that is far below what any wrong kernel gives and above float32
// rounding of these inputs.
static void assert_same_array(const char *got_path, const char *want_path, double tolerance) {
    Tensor got = read_array(got_path), want = read_array(want_path);
    ck_assert_int_eq(got.rank, want.rank);
    for (int axis = 0; axis < got.rank; axis++) {
        ck_assert_int_eq(got.dims[axis], want.dims[axis]);
    }
    for (size_t i = 0; i < got.count; i++) {
        double x = tensor_get(&got, i), y = tensor_get(&want, i);
        bool same = fabs(x - y) <= tolerance * (1 + fabs(y)) || (isinf(x) && x == y);
        ck_assert_msg(same, "%s, element %zu: %.9g, expected %.9g", got_path, i, x, y);
    }
    tensor_free(&got);
    tensor_free(&want);
}

START_TEST(files_in_files_out) {
    const struct {
        const char *name, *flags;
    } cases[] = {{"real_kjv", "--causal"},
                 {"ragged", ""},
                 {"window8", "--causal --window 8"},
                 {"empty_rows", "--causal"},
                 {"custom_scale", "--scale 1"}};
    const bool masks = takes_masks(_i), windows = takes_windows(_i);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if ((!masks && strstr(cases[i].flags, "--causal") != NULL) ||
            (!windows && strstr(cases[i].flags, "--window") != NULL)) {
            continue;
        }
        const char *name = cases[i].name;
        char line[512], path[128];
        snprintf(line, sizeof line,
                 "--q tests/golden/%s/q.npy --k tests/golden/%s/k.npy --v tests/golden/%s/v.npy "
                 "--out o.npy --lse l.npy --quick %s",
                 name, name, name, cases[i].flags);
        Captured captured = run_well(_i, line);
        snprintf(path, sizeof path, "tests/golden/%s/o.npy", name);
        assert_same_array("o.npy", path, 1e-5);
        snprintf(path, sizeof path, "tests/golden/%s/lse.npy", name);
        assert_same_array("l.npy", path, 1e-5);
        captured_free(&captured);
    }
}
END_TEST

START_TEST(output_has_the_storage_type) {
    const struct {
        const char *dtype;
        DType file;
        double tolerance; // a few rounding units of inputs and output
    } cases[] = {{"f32", DTYPE_F32, 1e-5}, {"f16", DTYPE_F16, 5e-3}, {"bf16", DTYPE_F32, 5e-2}};
    const bool masks = takes_masks(_i);
    const char *name = masks ? "real_kjv" : "late_max";
    for (int i = 0; i < 3; i++) {
        char line[512], path[128];
        snprintf(line, sizeof line,
                 "--q tests/golden/%s/q.npy --k tests/golden/%s/k.npy --v tests/golden/%s/v.npy "
                 "%s --out o.npy --dtype %s",
                 name, name, name, masks ? "--causal" : "", cases[i].dtype);
        snprintf(path, sizeof path, "tests/golden/%s/o.npy", name);
        Captured captured = run_well(_i, line);
        Tensor o = read_array("o.npy");
        ck_assert_int_eq(o.dtype, cases[i].file);
        tensor_free(&o);
        assert_same_array("o.npy", path, cases[i].tolerance);
        captured_free(&captured);
    }
}
END_TEST

// Runs a small seeded problem with --out o.npy and returns O.
static Tensor seeded_output(int index, const char *seed) {
    char line[256];
    snprintf(line, sizeof line,
             "--quick --repeats 1 --batch 2 --heads 4 --kv-heads 2 --queries 3 --keys 5 --dim 8 "
             "--out o.npy --seed %s",
             seed);
    Captured captured = run_well(index, line);
    captured_free(&captured);
    return read_array("o.npy");
}

// Without TEST_FULL the programs share the cases that each of them costs a second: one runs those
// of an even number, the next one the others.
static bool is_mine(int program, int number) {
    return getenv("TEST_FULL") != NULL || program % 2 == number % 2;
}

START_TEST(shape_and_seed_decide_the_output) {
    Tensor one = seeded_output(_i, "1");
    const int64_t dims[] = {2, 4, 3, 8};
    for (int axis = 0; axis < 4; axis++) {
        ck_assert_int_eq(one.dims[axis], dims[axis]);
    }
    size_t bytes = one.count * sizeof(float);
    for (size_t i = 0; i < one.count; i++) {
        ck_assert(isfinite(tensor_get(&one, i)));
    }
    if (is_mine(_i, 0)) {
        Tensor again = seeded_output(_i, "1");
        ck_assert_int_eq(memcmp(one.data, again.data, bytes), 0);
        tensor_free(&again);
    }
    if (is_mine(_i, 1)) {
        Tensor two = seeded_output(_i, "2");
        ck_assert_int_ne(memcmp(one.data, two.data, bytes), 0);
        tensor_free(&two);
    }
    tensor_free(&one);
}
END_TEST

START_TEST(empty_dimensions_run) {
    const char *lines[] = {"--quick --repeats 1 --batch 0", "--quick --repeats 1 --queries 0",
                           "--quick --repeats 1 --keys 0 --queries 4 --out o.npy"};
    for (int i = 0; i < 3; i++) {
        if (i == 2 || is_mine(_i, i)) {
            Captured captured = run_well(_i, lines[i]);
            ck_assert_ptr_null(strstr(captured.out, "nan"));
            captured_free(&captured);
        }
    }
    Tensor o = read_array("o.npy");
    for (size_t i = 0; i < o.count; i++) {
        ck_assert_double_eq(tensor_get(&o, i), 0);
    }
    tensor_free(&o);
}
END_TEST

START_TEST(a_nan_in_a_file_reaches_its_row) {
    Tensor q = read_array("tests/golden/large_scores/q.npy");
    ((float *)q.data)[0] = NAN;
    ck_assert_int_eq(npy_write("q.npy", &q), ATTN_OK);
    tensor_free(&q);
    Captured captured = run_well(_i, "--q q.npy --k tests/golden/large_scores/k.npy --v "
                                     "tests/golden/large_scores/v.npy --out o.npy --quick");
    ck_assert_ptr_nonnull(strstr(captured.out, "elements NaN, as the inputs require"));
    ck_assert_int_le(longest_line(captured.out), 80);
    captured_free(&captured);
    Tensor o = read_array("o.npy");
    ck_assert(isnan(tensor_get(&o, 0)));
    tensor_free(&o);
}
END_TEST

START_TEST(lost_output_is_a_failure) {
    char command[PATH_BYTES + 256];
    snprintf(command, sizeof command, "%s %s > /dev/full", programs[_i], TINY_FILES);
    Captured captured = capture_program((const char *[]){"/bin/sh", "-c", command, NULL});
    ck_assert_int_eq(captured.status, 1);
    ck_assert_int_eq(count_lines(captured.err), 1);
    ck_assert_int_eq(strncmp(captured.err, name_of(_i), 4), 0);
    captured_free(&captured);
}
END_TEST

// ---- CSV and plots ------------------------------------------------------------------------------

// The CSV of a run that also asks for a plot, where there is no gnuplot.
// A heading and rows of as many cells.
static void check_table(const char *path) {
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    char line[1024];
    int rows = 0, columns = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        int cells = 1;
        for (const char *c = line; *c != '\0'; c++) {
            cells += *c == ',';
        }
        columns = rows == 0 ? cells : columns;
        ck_assert_int_eq(cells, columns);
        ck_assert_ptr_null(strstr(line, "nan"));
        rows++;
    }
    fclose(file);
    ck_assert_int_ge(columns, 2);
    ck_assert_int_ge(rows, 2);
}

static bool has_gnuplot(void) {
    Captured found = capture_program((const char *[]){"/bin/sh", "-c", "command -v gnuplot", NULL});
    const bool has = found.status == 0;
    captured_free(&found);
    return has;
}

// One program stands for all where the others' plots can be drawn.
START_TEST(a_missing_gnuplot_is_said) {
    if (_i > 0 && has_gnuplot() && getenv("TEST_FULL") == NULL) {
        return;
    }
    setenv("PATH", "/nonexistent", 1);
    Captured captured = run_well(_i, "--quick --plot --csv t.csv");
    ck_assert_ptr_nonnull(strstr(captured.out, "gnuplot is not installed"));
    ck_assert_ptr_nonnull(strstr(captured.out, "gnuplot-nox"));
    captured_free(&captured);
    ck_assert_int_eq(files_written(), 1);
    check_table("t.csv");
}
END_TEST

START_TEST(plots_need_the_course_folder) {
    ck_assert_int_eq(unlink("chapters"), 0);
    Captured captured = run(_i, "--quick --plot=svg");
    ck_assert_int_eq(captured.status, 2);
    ck_assert_str_eq(captured.out, "");
    ck_assert_int_eq(count_lines(captured.err), 1);
    ck_assert_ptr_nonnull(strstr(captured.err, "run it from the course's folder"));
    ck_assert_int_ne(access("build", F_OK), 0);
    captured_free(&captured);
}
END_TEST

START_TEST(plots_are_drawn) {
    if (!has_gnuplot()) {
        return; // a_missing_gnuplot_is_said covers this machine
    }
    Captured captured = run_well(_i, "--quick --plot");
    ck_assert_ptr_null(strstr(captured.out, "gnuplot"));
    ck_assert_int_le(longest_line(captured.out), 100);
    ck_assert_int_eq(files_written(), 0);
    captured_free(&captured);
    captured = run_well(_i, "--quick --plot=svg --csv t.csv");
    const char *line = strstr(captured.out, "plot: build/plots/");
    ck_assert_msg(line != NULL, "no picture is named");
    while (line != NULL) {
        char path[256], start[8] = "";
        ck_assert_int_eq(sscanf(line, "plot: %255s", path), 1);
        FILE *file = fopen(path, "r");
        ck_assert_msg(file != NULL && fread(start, 1, 5, file) == 5, "%s", path);
        ck_assert_str_eq(start, "<?xml");
        fclose(file);
        line = strstr(line + 1, "plot: build/plots/");
    }
    captured_free(&captured);
    check_table("t.csv");
}
END_TEST

int main(void) {
    find_programs();
    Suite *suite = suite_create("programs");
    TCase *tests = tcase_create("programs");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, enter, leave);
    tcase_add_loop_test(tests, help_fits_and_names_the_flags, 0, program_count);
    tcase_add_loop_test(tests, quick_is_quick_and_readable, 0, program_count);
    tcase_add_loop_test(tests, bad_command_lines, 0, program_count);
    tcase_add_loop_test(tests, bad_files_leave_nothing_behind, 0, program_count);
    tcase_add_loop_test(tests, cpu_chapters_refuse_other_backends, 0, program_count);
    tcase_add_loop_test(tests, files_in_files_out, 0, program_count);
    tcase_add_loop_test(tests, output_has_the_storage_type, 0, program_count);
    tcase_add_loop_test(tests, shape_and_seed_decide_the_output, 0, program_count);
    tcase_add_loop_test(tests, empty_dimensions_run, 0, program_count);
    tcase_add_loop_test(tests, a_nan_in_a_file_reaches_its_row, 0, program_count);
    tcase_add_loop_test(tests, lost_output_is_a_failure, 0, program_count);
    tcase_add_loop_test(tests, plots_need_the_course_folder, 0, program_count);
    tcase_add_loop_test(tests, a_missing_gnuplot_is_said, 0, program_count);
    tcase_add_loop_test(tests, plots_are_drawn, 0, program_count);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
