// Tests of common/options.c: every flag, every rule, --help, and the one line of each error.
#include "common/options.h"

#include "tests/unit/capture.h"

#include <check.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    EVERY_FLAG = OPTION_BLOCK_Q | OPTION_BLOCK_K | OPTION_SPLITS | OPTION_PAGE | OPTION_THREADS
};
enum { MOST_ARGUMENTS = 24 };

static const Program program = {"ch99", "a test", "One line.\nAnother.", EVERY_FLAG};
static const Program bare = {"ch98", "a test", "One line.\nAnother.", 0};

static Options defaults(void) {
    return (Options){
        .shape = {.batch = 2, .heads_q = 8, .heads_kv = 4, .len_q = 10, .len_kv = 20, .dim = 16},
        .dtype = DTYPE_F32,
        .seed = 7,
        .block_q = 64,
        .block_k = 32,
        .splits = 3,
        .page = 16,
        .repeats = 10,
    };
}

// Splits `line` at blanks into argv behind the program's name; the words live in `words`.
static int split(const char *line, char words[1024], char *argv[MOST_ARGUMENTS]) {
    int argc = 0;
    argv[argc++] = (char *)"ch99";
    snprintf(words, 1024, "%s", line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        ck_assert_int_lt(argc, MOST_ARGUMENTS - 1);
        argv[argc++] = word;
    }
    argv[argc] = NULL;
    return argc;
}

// Parses a command line that is right; string options point into storage that stays.
static Options parse(const char *line) {
    static char words[1024];
    static char *argv[MOST_ARGUMENTS];
    Options options = defaults();
    int argc = split(line, words, argv);
    optind = 1; // a program parses once; here it happens again and again
    options_parse(&options, &program, argc, argv);
    return options;
}

START_TEST(nothing_leaves_the_defaults) {
    Options options = parse("");
    ck_assert_int_eq(options.shape.batch, 2);
    ck_assert_int_eq(options.shape.heads_q, 8);
    ck_assert_int_eq(options.shape.heads_kv, 4);
    ck_assert_int_eq(options.shape.len_q, 10);
    ck_assert_int_eq(options.shape.len_kv, 20);
    ck_assert_int_eq(options.shape.dim, 16);
    ck_assert_double_eq(options.shape.scale, 0);
    ck_assert(!options.shape.causal);
    ck_assert_int_eq(options.block_k, 32);
    ck_assert(!options.shape_given && !options.quick);
    ck_assert_int_eq(options.repeats, 10);
    ck_assert_uint_eq(options.seed, 7);
    ck_assert_int_eq(options.plot, PLOT_NONE);
    ck_assert_int_eq(options.backend, BACKEND_AUTO);
    ck_assert_ptr_null(options.csv);
    ck_assert_ptr_null(options.q);
}
END_TEST

START_TEST(shape_flags) {
    Options options = parse("--batch 3 --heads 6 --kv-heads 2 --queries 5 --keys 7 --dim 9 "
                            "--scale 0.25 --causal --window 4");
    ck_assert_int_eq(options.shape.batch, 3);
    ck_assert_int_eq(options.shape.heads_q, 6);
    ck_assert_int_eq(options.shape.heads_kv, 2);
    ck_assert_int_eq(options.shape.len_q, 5);
    ck_assert_int_eq(options.shape.len_kv, 7);
    ck_assert_int_eq(options.shape.dim, 9);
    ck_assert_double_eq(options.shape.scale, 0.25);
    ck_assert(options.shape.causal);
    ck_assert_int_eq(options.shape.window, 4);
    ck_assert(options.shape_given);
}
END_TEST

START_TEST(run_flags) {
    Options options = parse("--dtype bf16 --seed 18446744073709551615 --block-q 1 --block-k 2 "
                            "--splits 4 --page 5 --threads 6 --repeats 1000 --quick");
    ck_assert_int_eq(options.dtype, DTYPE_BF16);
    ck_assert_uint_eq(options.seed, UINT64_MAX);
    ck_assert_int_eq(options.block_q, 1);
    ck_assert_int_eq(options.block_k, 2);
    ck_assert_int_eq(options.splits, 4);
    ck_assert_int_eq(options.page, 5);
    ck_assert_int_eq(options.threads, 6);
    ck_assert_int_eq(options.repeats, 1000);
    ck_assert(options.quick && !options.shape_given);
}
END_TEST

START_TEST(each_size_flag_counts_as_a_given_shape) {
    const char *lines[] = {"--batch 1",   "--heads 8", "--kv-heads 4", "--len 1",
                           "--queries 1", "--keys 1",  "--dim 1"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        ck_assert(parse(lines[i]).shape_given);
    }
    ck_assert(!parse("--causal --scale 1 --seed 3").shape_given);
}
END_TEST

START_TEST(len_sets_what_is_not_set) {
    Options options = parse("--len 12");
    ck_assert_int_eq(options.shape.len_q, 12);
    ck_assert_int_eq(options.shape.len_kv, 12);
    options = parse("--queries 1 --len 12");
    ck_assert_int_eq(options.shape.len_q, 1);
    ck_assert_int_eq(options.shape.len_kv, 12);
    options = parse("--len 12 --keys 30");
    ck_assert_int_eq(options.shape.len_q, 12);
    ck_assert_int_eq(options.shape.len_kv, 30);
}
END_TEST

START_TEST(kv_heads_follow_heads) {
    ck_assert_int_eq(parse("--heads 5").shape.heads_kv, 5);
    ck_assert_int_eq(parse("--kv-heads 2").shape.heads_q, 8);
    ck_assert_int_eq(parse("--kv-heads 2 --heads 6").shape.heads_kv, 2);
}
END_TEST

START_TEST(empty_dimensions_are_legal) {
    Options options = parse("--batch 0 --queries 0 --keys=0");
    ck_assert_int_eq(options.shape.batch, 0);
    ck_assert_int_eq(options.shape.len_q, 0);
    ck_assert_int_eq(options.shape.len_kv, 0);
}
END_TEST

START_TEST(named_values) {
    const char *backends[] = {"auto", "cpu", "simt", "cuda"};
    for (int i = 0; i < 4; i++) {
        char line[64];
        snprintf(line, sizeof line, "--backend=%s", backends[i]);
        ck_assert_int_eq((int)parse(line).backend, i);
    }
    ck_assert_int_eq(parse("--plot").plot, PLOT_TERM);
    ck_assert_int_eq(parse("--plot=term").plot, PLOT_TERM);
    ck_assert_int_eq(parse("--plot=svg").plot, PLOT_SVG);
    ck_assert_int_eq(parse("--plot=png").plot, PLOT_PNG);
    ck_assert_int_eq(parse("--dtype f16").dtype, DTYPE_F16);
}
END_TEST

START_TEST(file_flags) {
    Options options = parse("--q a.npy --k b.npy --v c.npy --out o.npy --lse=l.npy --csv t.csv "
                            "--causal --scale 1");
    ck_assert_str_eq(options.q, "a.npy");
    ck_assert_str_eq(options.k, "b.npy");
    ck_assert_str_eq(options.v, "c.npy");
    ck_assert_str_eq(options.out, "o.npy");
    ck_assert_str_eq(options.lse, "l.npy");
    ck_assert_str_eq(options.csv, "t.csv");
    ck_assert(options.shape.causal && !options.shape_given);
}
END_TEST

START_TEST(fewer_repeats_with_quick) {
    ck_assert_int_eq(parse("--repeats 3 --quick").repeats, 3);
    ck_assert_int_eq(parse("--quick").repeats, 10);
}
END_TEST

// ---- errors -------------------------------------------------------------------------------------

typedef struct CommandLine {
    const char *line;
    const Program *program;
} CommandLine;

static void parse_in_child(void *context) {
    const CommandLine *command = context;
    char words[1024];
    char *argv[MOST_ARGUMENTS];
    Options options = defaults();
    int argc = split(command->line, words, argv);
    options_parse(&options, command->program, argc, argv);
    printf("accepted\n");
}

// The command line is refused with exactly this one line on stderr, and exit 2.
static void assert_refused(const Program *by, const char *line, const char *message) {
    CommandLine command = {line, by};
    Captured captured = capture(parse_in_child, &command);
    char expected[512];
    snprintf(expected, sizeof expected, "%s: %s (see %s --help)\n", by->name, message, by->name);
    ck_assert_str_eq(captured.err, expected);
    ck_assert_str_eq(captured.out, "");
    ck_assert_int_eq(captured.status, 2);
    captured_free(&captured);
}

typedef struct Refusal {
    const char *line, *message;
} Refusal;

static void assert_all_refused(const Refusal *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_refused(&program, cases[i].line, cases[i].message);
    }
}

START_TEST(bad_numbers) {
    const Refusal cases[] = {
        {"--dim 0", "--dim 0: must be at least 1"},
        {"--heads 0", "--heads 0: must be at least 1"},
        {"--kv-heads -1", "--kv-heads -1: must be at least 1"},
        {"--batch -1", "--batch -1: must be at least 0"},
        {"--len -5", "--len -5: must be at least 0"},
        {"--queries 3x", "--queries '3x': must be an integer"},
        {"--keys 3.5", "--keys '3.5': must be an integer"},
        {"--keys 1e3", "--keys '1e3': must be an integer"},
        {"--dim=", "--dim '': must be an integer"},
        {"--dim x", "--dim 'x': must be an integer"},
        {"--dim 2147483648", "--dim 2147483648: must be at most 2147483647"},
        {"--dim 99999999999999999999", "--dim 99999999999999999999: must be at most 2147483647"},
        {"--dim -99999999999999999999", "--dim -99999999999999999999: must be at least 1"},
        {"--window -1", "--window -1: must be at least 0"},
        {"--block-q 0", "--block-q 0: must be at least 1"},
        {"--block-k 0", "--block-k 0: must be at least 1"},
        {"--splits 0", "--splits 0: must be at least 1"},
        {"--page 0", "--page 0: must be at least 1"},
        {"--threads -1", "--threads -1: must be at least 0"},
        {"--repeats 1001", "--repeats 1001: must be at most 1000"},
        {"--repeats 0 --quick", "--repeats 0: must be at least 1"},
        {"--seed -1", "--seed '-1': must be an integer, 0 or more"},
        {"--seed 1x", "--seed '1x': must be an integer, 0 or more"},
        {"--seed 18446744073709551616",
         "--seed 18446744073709551616: must be at most 18446744073709551615"},
        {"--scale x", "--scale 'x': must be a number"},
        {"--scale 1,5", "--scale '1,5': must be a number"},
        {"--scale nan", "--scale nan: must be finite and at least 0"},
        {"--scale inf", "--scale inf: must be finite and at least 0"},
        {"--scale -0.5", "--scale -0.5: must be finite and at least 0"},
    };
    assert_all_refused(cases, sizeof cases / sizeof *cases);
}
END_TEST

START_TEST(bad_names) {
    const Refusal cases[] = {
        {"--dtype f8", "--dtype 'f8': must be f32, f16 or bf16"},
        {"--dtype f64", "--dtype 'f64': must be f32, f16 or bf16"},
        {"--backend gpu", "--backend 'gpu': must be auto, cpu, simt or cuda"},
        {"--plot=pdf", "--plot 'pdf': must be term, svg or png"},
        {"--plot=none", "--plot 'none': must be term, svg or png"},
        {"--plot=", "--plot '': must be term, svg or png"},
    };
    assert_all_refused(cases, sizeof cases / sizeof *cases);
}
END_TEST

START_TEST(bad_flags) {
    const Refusal cases[] = {
        {"--frobnicate", "--frobnicate: unknown flag, or short for more than one"},
        {"--he 3", "--he: unknown flag, or short for more than one"},
        {"-x", "-x: unknown flag"},
        {"--dim", "--dim: needs a value"},
        {"--causal=yes", "--causal: takes no value"},
        {"--quick=1", "--quick: takes no value"},
        {"stray", "'stray': unexpected argument; flags begin with --"},
        {"--dim 8 stray --len 4", "'stray': unexpected argument; flags begin with --"},
        {"--plot svg", "'svg': unexpected argument; a kind of plot is given as --plot=KIND"},
    };
    assert_all_refused(cases, sizeof cases / sizeof *cases);
}
END_TEST

START_TEST(flags_that_do_not_apply) {
    const char *names[] = {"block-q", "block-k", "splits", "page", "threads"};
    for (int i = 0; i < 5; i++) {
        char line[64], message[128];
        snprintf(line, sizeof line, "--%s 4", names[i]);
        snprintf(message, sizeof message, "--%s: does not apply to this program", names[i]);
        assert_refused(&bare, line, message);
    }
}
END_TEST

START_TEST(contradictions) {
    const Refusal cases[] = {
        {"--window 3", "--window 3: needs --causal"},
        {"--repeats 9", "--repeats 9: must be at least 10 without --quick"},
        {"--q a", "--k: is missing; --q, --k and --v come together"},
        {"--k a", "--q: is missing; --q, --k and --v come together"},
        {"--q a --k b", "--v: is missing; --q, --k and --v come together"},
        {"--q a --k b --v c --dim 3", "--dim: the files of --q, --k and --v decide every size"},
        {"--q a --k b --v c --batch 1", "--batch: the files of --q, --k and --v decide every size"},
        {"--q a --k b --v c --len 3", "--len: the files of --q, --k and --v decide every size"},
        {"--q a --k b --v c --seed 3", "--seed: has no use beside --q, --k and --v"},
        {"--out a --csv a", "--out and --csv name the same file, a"},
        {"--out a --lse a", "--out and --lse name the same file, a"},
        {"--lse a --csv a", "--lse and --csv name the same file, a"},
        {"--q a --k b --v c --out a", "--q and --out name the same file, a"},
        {"--q a --k b --v c --lse ./c", "--v and --lse name the same file, ./c"},
    };
    assert_all_refused(cases, sizeof cases / sizeof *cases);
}
END_TEST

START_TEST(shapes_that_are_not_legal) {
    Captured captured = capture(parse_in_child, &(CommandLine){"--heads 6 --kv-heads 4", &program});
    ck_assert_int_eq(captured.status, 2);
    ck_assert_int_eq(count_lines(captured.err), 1);
    ck_assert_ptr_nonnull(strstr(captured.err, "6"));
    ck_assert_ptr_nonnull(strstr(captured.err, "4"));
    captured_free(&captured);
}
END_TEST

START_TEST(a_line_break_in_a_value_gives_one_line) {
    Captured captured = capture(parse_in_child, &(CommandLine){"--dim=1\n2", &program});
    ck_assert_int_eq(captured.status, 2);
    ck_assert_int_eq(count_lines(captured.err), 1);
    captured_free(&captured);
}
END_TEST

START_TEST(an_output_never_replaces_an_input) {
    char folder[64];
    enter_folder(folder);
    ck_assert_int_eq(mkdir("folder", 0777), 0);
    FILE *file = fopen("k.npy", "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    ck_assert_int_eq(link("k.npy", "hard.npy"), 0);
    ck_assert_int_eq(symlink("k.npy", "soft.npy"), 0);
    const Refusal cases[] = {
        {"--q a --k k.npy --v c --out k.npy", "--k and --out name the same file, k.npy"},
        {"--q a --k k.npy --v c --out folder/../k.npy",
         "--k and --out name the same file, folder/../k.npy"},
        {"--q a --k k.npy --v c --lse hard.npy", "--k and --lse name the same file, hard.npy"},
        {"--q a --k soft.npy --v c --csv k.npy", "--k and --csv name the same file, k.npy"},
        {"--out new --lse folder/../new", "--out and --lse name the same file, folder/../new"},
    };
    assert_all_refused(cases, sizeof cases / sizeof *cases);
    Options options = parse("--q k.npy --k k.npy --v k.npy --out new --lse folder/new");
    ck_assert_str_eq(options.lse, "folder/new"); // inputs may be one file
    remove_folder(folder);
}
END_TEST

START_TEST(files_that_cannot_be_written) {
    char folder[64];
    enter_folder(folder);
    ck_assert_int_eq(mkdir("folder", 0777), 0);
    const Refusal cases[] = {
        {"--csv folder", "--csv folder: is a directory"},
        {"--out absent/o.npy",
         "--out 'absent/o.npy': cannot be written: No such file or directory"},
        {"--lse absent/", "--lse 'absent/': cannot be written: No such file or directory"},
        {"--csv=", "--csv '': cannot be written: No such file or directory"},
    };
    assert_all_refused(cases, sizeof cases / sizeof *cases);
    ck_assert_str_eq(parse("--csv folder/a.csv").csv, "folder/a.csv");
    ck_assert_int_ne(access("folder/a.csv", F_OK), 0); // parsing creates nothing
    remove_folder(folder);
}
END_TEST

// ---- help ---------------------------------------------------------------------------------------

START_TEST(help_shows_flags_and_defaults) {
    Captured captured = capture(parse_in_child, &(CommandLine){"--dim 99 --help", &program});
    ck_assert_int_eq(captured.status, 0);
    ck_assert_str_eq(captured.err, "");
    ck_assert_int_le(longest_line(captured.out), 80);
    ck_assert_ptr_nonnull(strstr(captured.out, "ch99: a test\nOne line.\nAnother.\n"));
    ck_assert_ptr_null(strstr(captured.out, "accepted"));
    const char *names[] = {"batch",   "heads",  "kv-heads", "len",     "queries", "keys",
                           "dim",     "dtype",  "scale",    "causal",  "window",  "seed",
                           "q",       "k",      "v",        "out",     "lse",     "block-q",
                           "block-k", "splits", "page",     "threads", "backend", "repeats",
                           "quick",   "csv",    "plot",     "help"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char start[32];
        snprintf(start, sizeof start, "\n  --%s", names[i]);
        ck_assert_msg(strstr(captured.out, start) != NULL, "--%s is not in the help", names[i]);
    }
    const struct {
        const char *start, *value;
    } values[] = {{"  --batch ", "[2]"},   {"  --dim ", "[16]"},    {"  --dtype ", "[f32]"},
                  {"  --seed ", "[7]"},    {"  --block-k", "[32]"}, {"  --backend", "[auto]"},
                  {"  --repeats", "[10]"}, {"  --kv-heads", "[4]"}, {"  --page", "[16]"}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const char *line = strstr(captured.out, values[i].start);
        ck_assert_ptr_nonnull(line);
        const char *value = strstr(line, values[i].value), *end = strchr(line, '\n');
        ck_assert_msg(value != NULL && value < end, "%s lacks %s", values[i].start,
                      values[i].value);
    }
    captured_free(&captured);
}
END_TEST

START_TEST(help_leaves_out_what_does_not_apply) {
    Captured captured = capture(parse_in_child, &(CommandLine){"-h", &bare});
    ck_assert_int_eq(captured.status, 0);
    ck_assert_ptr_null(strstr(captured.out, "--block-q"));
    ck_assert_ptr_null(strstr(captured.out, "--threads"));
    ck_assert_ptr_nonnull(strstr(captured.out, "--backend"));
    captured_free(&captured);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("options");
    TCase *tests = tcase_create("options");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, nothing_leaves_the_defaults);
    tcase_add_test(tests, shape_flags);
    tcase_add_test(tests, run_flags);
    tcase_add_test(tests, each_size_flag_counts_as_a_given_shape);
    tcase_add_test(tests, len_sets_what_is_not_set);
    tcase_add_test(tests, kv_heads_follow_heads);
    tcase_add_test(tests, empty_dimensions_are_legal);
    tcase_add_test(tests, named_values);
    tcase_add_test(tests, file_flags);
    tcase_add_test(tests, fewer_repeats_with_quick);
    tcase_add_test(tests, bad_numbers);
    tcase_add_test(tests, bad_names);
    tcase_add_test(tests, bad_flags);
    tcase_add_test(tests, flags_that_do_not_apply);
    tcase_add_test(tests, contradictions);
    tcase_add_test(tests, shapes_that_are_not_legal);
    tcase_add_test(tests, a_line_break_in_a_value_gives_one_line);
    tcase_add_test(tests, an_output_never_replaces_an_input);
    tcase_add_test(tests, files_that_cannot_be_written);
    tcase_add_test(tests, help_shows_flags_and_defaults);
    tcase_add_test(tests, help_leaves_out_what_does_not_apply);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
