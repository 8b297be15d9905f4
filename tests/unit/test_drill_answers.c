// The drill's other half: which answers are taken, what is told of wrong ones, the scores that are
// kept, and $BUILD/drill as a learner and a script run it.
#include "tests/drill/drill.h"
#include "tests/unit/capture.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_ROOM = 4096 };

// ---- forms of answers ---------------------------------------------------------------------------

static Question plain_question(double value, const char *unit, bool exact) {
    Question question = {0};
    if (exact) {
        answer_exactly(&question, value, unit);
    } else {
        answer_near(&question, value, unit);
    }
    return question;
}

typedef struct Form {
    double value; // in base units
    const char *unit;
    bool exact;
    const char *answer;
    Verdict verdict;
    const char *told; // a part of what is said, or NULL
} Form;

static const double half_gib = 512.0 * 1048576;

static const Form forms[] = {
    // 512 MiB in every form.
    {half_gib, "MiB", false, "512", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, "  512 MiB  ", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, "512mib", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, "512 Mi", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, "0.5 GiB", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, ".5Gi", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, "537 MB", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, "540M", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, "0.54 GB", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, "536,870,912 B", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, "5.37e8 bytes", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, "2^29 B", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, "524288 KiB", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, "+5.1e2", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, "0.00049 TiB", ANSWER_RIGHT, NULL},
    {half_gib, "MiB", false, "500", ANSWER_WRONG, NULL},
    {half_gib, "MiB", false, "1024", ANSWER_WRONG, "large by a factor of 2"},
    {half_gib, "MiB", false, "64", ANSWER_WRONG, "small by a factor of 8 (bits and bytes?)"},
    {half_gib, "MiB", false, "4.1e3", ANSWER_WRONG, "large by a factor of 8"},
    {half_gib, "MiB", false, "512 MB", ANSWER_WRONG, "1.049"},
    {half_gib, "MiB", false, "512 GiB", ANSWER_WRONG, "1,024"},
    {half_gib, "MiB", false, "536870912", ANSWER_WRONG, "2^20"},
    {half_gib, "MiB", false, "-512", ANSWER_WRONG, "Wrong sign"},
    {half_gib, "MiB", false, "0", ANSWER_WRONG, NULL},
    {320 * 1024.0, "KiB", false, "320k", ANSWER_WRONG, "1.024"},
    {320 * 1024.0, "KiB", false, "328 kB", ANSWER_RIGHT, NULL},
    // What is no number of bytes is asked for again.
    {half_gib, "MiB", false, "512 keys", ANSWER_UNREADABLE, "MiB"},
    {half_gib, "MiB", false, "half a gig", ANSWER_UNREADABLE, "Type a number"},
    {320 * 1024.0, "KiB", false, "320 keys", ANSWER_UNREADABLE, "520, 520 KiB or 532 kB"},
    {520 * 1024.0, "KiB", false, "532 kB", ANSWER_RIGHT, NULL},
    {0.0015, "ms", false, "fast", ANSWER_UNREADABLE, "1.5, 1.5 ms or 1500 us"},
    {1.5e-4, "us", false, "fast", ANSWER_UNREADABLE, "150, 150 us or 0.15 ms"},
    {half_gib, "MiB", false, "5,12", ANSWER_UNREADABLE, NULL},
    {half_gib, "MiB", false, "1,0485,76 B", ANSWER_UNREADABLE, NULL},
    {half_gib, "MiB", false, ",512", ANSWER_UNREADABLE, NULL},
    {half_gib, "MiB", false, "1/0", ANSWER_UNREADABLE, NULL},
    {half_gib, "MiB", false, "1e999", ANSWER_UNREADABLE, NULL},
    {half_gib, "MiB", false, "5.1.2", ANSWER_UNREADABLE, NULL},
    {half_gib, "MiB", false, "-", ANSWER_UNREADABLE, NULL},
    {half_gib, "MiB", false, "nan", ANSWER_UNREADABLE, NULL},
    {half_gib, "MiB", false, "0x200", ANSWER_UNREADABLE, NULL},
    // Two figures, on both sides of a power of ten.
    {99.6, "", false, "100", ANSWER_RIGHT, NULL},
    {102, "", false, "98", ANSWER_WRONG, NULL},
    {0.3348, "", false, "0.33", ANSWER_RIGHT, NULL},
    {0.3348, "", false, "33 %", ANSWER_UNREADABLE, "without a unit"},
    {6, "", false, "6 %", ANSWER_UNREADABLE, "without a unit"},
    {0.3333, "", false, "1/3", ANSWER_RIGHT, NULL},
    {0.3348, "", false, "0.3", ANSWER_WRONG, NULL},
    {65, "", false, "65x", ANSWER_RIGHT, NULL},
    // Counts are wanted exactly.
    {2080, "tiles", true, "2,080", ANSWER_RIGHT, NULL},
    {2080, "tiles", true, "2080 tiles", ANSWER_RIGHT, NULL},
    {2080, "tiles", true, "2.08k", ANSWER_RIGHT, NULL},
    {2080, "tiles", true, "2081", ANSWER_WRONG, "Off by one"},
    {2080, "tiles", true, "2.1k", ANSWER_WRONG, NULL},
    {2080, "tiles", true, "2080 MiB", ANSWER_UNREADABLE, "tiles"},
    {1024, "keys", true, "1Ki", ANSWER_RIGHT, NULL},
    {1, "keys", true, "1 key", ANSWER_RIGHT, NULL},
    {1024, "keys", true, "1024 tokens", ANSWER_RIGHT, NULL},
    {7, "queries", true, "7 rows", ANSWER_RIGHT, NULL},
    {8, "lookups", true, "8 lookups", ANSWER_RIGHT, NULL},
    {0, "slots", true, "0", ANSWER_RIGHT, NULL},
    {0, "slots", true, "16", ANSWER_WRONG, NULL},
    // Time, shares, FLOP.
    {0.164, "ms", false, "164 ms", ANSWER_RIGHT, NULL},
    {0.164, "ms", false, "0.16 s", ANSWER_RIGHT, NULL},
    {0.164, "ms", false, "164000 us", ANSWER_RIGHT, NULL},
    {0.164, "ms", false, "164000 \xc2\xb5s", ANSWER_RIGHT, NULL},
    {0.164, "ms", false, "164 us", ANSWER_WRONG, "1,000"},
    {0.164, "ms", false, "164k", ANSWER_UNREADABLE, "ms"},
    {6.06, "%", false, "6.1 %", ANSWER_RIGHT, NULL},
    {6.06, "%", false, "6.1 percent", ANSWER_RIGHT, NULL},
    {6.06, "%", false, "0.0606", ANSWER_WRONG, "percent are asked for"},
    {34.36e9, "GFLOP", false, "34", ANSWER_RIGHT, NULL},
    {34.36e9, "GFLOP", false, "0.034 TFLOP", ANSWER_RIGHT, NULL},
    {34.36e9, "GFLOP", false, "3.4e10 FLOPs", ANSWER_RIGHT, NULL},
    {34.36e9, "GFLOP", false, "17", ANSWER_WRONG, "factor of 2"},
    {4096, "FLOP/B", false, "4096 FLOP/B", ANSWER_RIGHT, NULL},
    {4096, "FLOP/B", false, "4.1k FLOP/byte", ANSWER_RIGHT, NULL},
};

START_TEST(forms_of_answers) {
    const Form *form = &forms[_i];
    const Question question = plain_question(form->value, form->unit, form->exact);
    char why[TEXT_BYTES];
    const Verdict verdict = judge(&question, form->answer, why);
    ck_assert_msg(verdict == form->verdict, "%s: %d, not %d (%s)", form->answer, (int)verdict,
                  (int)form->verdict, why);
    ck_assert_msg(form->told == NULL || strstr(why, form->told) != NULL,
                  "%s: \"%s\" is not in \"%s\"", form->answer, form->told, why);
    ck_assert(verdict != ANSWER_RIGHT || why[0] == '\0');
}
END_TEST

// A slip that the question knows is told in its words, before any factor.
START_TEST(known_mistakes) {
    const Param params[] = {{"N", 8192}, {"d", 128}, {"bytes", 2}};
    Draw draw = {.state = 1, .fixed = params, .fixed_count = 3};
    const Question question = make_question(&naive_topic, 0, &draw);
    char why[TEXT_BYTES];
    ck_assert_int_eq(judge(&question, "512", why), ANSWER_WRONG);
    ck_assert_ptr_nonnull(strstr(why, "Q, K, V and O are missing"));
    ck_assert_int_eq(judge(&question, "128", why), ANSWER_WRONG);
    ck_assert_ptr_nonnull(strstr(why, "score matrix once"));
    ck_assert_int_eq(judge(&question, "1040", why), ANSWER_WRONG);
    ck_assert_ptr_nonnull(strstr(why, "factor of 2"));
}
END_TEST

// Anything may be typed.
START_TEST(any_bytes) {
    Draw draw = {.state = 3};
    const Question question = plain_question(half_gib, "MiB", false);
    static const char letters[] = "0123456789.,eE+-^/ kMGTiB%#\x80\xff\t";
    for (int i = 0; i < 20000; i++) {
        char answer[300], why[TEXT_BYTES];
        const int length = (int)draw_below(&draw, i % 100 == 0 ? 299 : 12);
        for (int k = 0; k < length; k++) {
            answer[k] = letters[draw_below(&draw, sizeof letters - 1)];
        }
        answer[length] = '\0';
        judge(&question, answer, why);
    }
}
END_TEST

// ---- scores -------------------------------------------------------------------------------------

static char folder[64], root[PATH_ROOM], program[PATH_ROOM + 16];

static void enter(void) {
    const char *build = getenv("BUILD");
    char path[PATH_ROOM];
    ck_assert_ptr_nonnull(getcwd(root, sizeof root));
    snprintf(path, sizeof path, "%s/drill", build != NULL ? build : "build");
    ck_assert_msg(realpath(path, program) != NULL, "%s: build it first", path);
    enter_folder(folder);
}

static void leave(void) {
    remove_folder(folder);
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

START_TEST(scores_come_back) {
    Scores scores = {0};
    scores.topic[2] = (Score){10, 7};
    scores.topic[9] = (Score){1, 0};
    ck_assert(scores_write("new/folder/drill", &scores));
    const Scores back = scores_read("new/folder/drill");
    ck_assert_mem_eq(&back, &scores, sizeof scores);
    ck_assert(scores_write("new/folder/drill", &scores)); // over the old one
    const Scores none = scores_read("new/nothing");
    ck_assert_int_eq(none.topic[2].asked, 0);
    unlink("new/folder/drill");
    rmdir("new/folder");
    rmdir("new");
}
END_TEST

static void read_damaged(void *context) {
    const Scores scores = scores_read(context);
    printf("%d %d", scores.topic[0].right, scores.topic[0].asked);
    for (int i = 1; i < TOPICS; i++) {
        ck_assert_int_eq(scores.topic[i].asked, 0);
    }
}

START_TEST(damaged_scores) {
    static const char *const lines[] = {
        "kv 3",        "kv 3 4",   "kv -1 -2",    "kv 99999999999 1",
        "nothing 1 1", "kv 3 2 1", "\x01\xff kv", "kv x y"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s\nnaive-bytes 4 3\n", lines[i]);
        write_text("scores", text);
        Captured read = capture(read_damaged, "scores");
        ck_assert_str_eq(read.out, "3 4"); // the good line counts
        ck_assert_msg(strstr(read.err, "1 of 2 lines") != NULL, "%s: %s", lines[i], read.err);
        captured_free(&read);
    }
    ck_assert_int_eq(mkdir("a_folder", 0700), 0); // opens, but cannot be read
    Captured read = capture(read_damaged, "a_folder");
    ck_assert_str_eq(read.out, "0 0");
    ck_assert_int_eq(read.status, 0);
    captured_free(&read);
    rmdir("a_folder");
}
END_TEST

START_TEST(low_scores_weigh_more) {
    ck_assert_int_eq(score_weight((Score){0, 0}), 7);
    ck_assert_int_eq(score_weight((Score){1000, 1000}), 2);
    ck_assert_int_eq(score_weight((Score){1000, 0}), 11);
    ck_assert_int_gt(score_weight((Score){10, 2}), score_weight((Score){10, 8}));
}
END_TEST

// ---- the program --------------------------------------------------------------------------------

// Runs it on this seed with these answers; the scores lie in "scores".
static Captured drill(const char *seed, const char *count, const char *answers, const char *topic) {
    const char *argv[] = {
        program,    "--seed", seed,        "--count", count,
        "--scores", "scores", "--answers", "answers", topic != NULL ? "--topic" : NULL,
        topic,      NULL};
    write_text("answers", answers);
    return capture_program(argv);
}

// The answers that a run prints behind "= ", one a line.
static char *right_answers(const char *output) {
    char *answers = calloc(strlen(output) + 1, 1);
    size_t length = 0;
    ck_assert_ptr_nonnull(answers);
    for (const char *at = output; (at = strstr(at, "\n    = ")) != NULL;) {
        at += 7;
        const size_t line = strcspn(at, "\n");
        memcpy(answers + length, at, line);
        length += line;
        answers[length++] = '\n';
    }
    return answers;
}

START_TEST(a_script_that_knows_all) {
    Captured shown = drill("7", "30",
                           "?\n?\n?\n?\n?\n?\n?\n?\n?\n?\n?\n?\n?\n?\n?\n"
                           "?\n?\n?\n?\n?\n?\n?\n?\n?\n?\n?\n?\n?\n?\n?\n",
                           NULL);
    ck_assert_int_eq(shown.status, 1); // looked at is not answered
    ck_assert_ptr_nonnull(strstr(shown.out, "0 of 0 right"));
    ck_assert_int_ne(access("scores", F_OK), 0);
    char *answers = right_answers(shown.out);
    Captured known = drill("7", "30", answers, NULL);
    ck_assert_msg(known.status == 0, "%s", known.out);
    ck_assert_ptr_nonnull(strstr(known.out, "30 of 30 right"));
    ck_assert_int_le(longest_line(known.out), COLUMNS);
    ck_assert_ptr_null(strchr(known.out, '\033'));
    ck_assert_str_eq(known.err, "");
    Scores scores = scores_read("scores");
    for (int i = 0; i < TOPICS; i++) { // every topic in turn
        ck_assert_int_eq(scores.topic[i].asked, 3);
        ck_assert_int_eq(scores.topic[i].right, 3);
    }
    captured_free(&shown);
    captured_free(&known);
    free(answers);
}
END_TEST

START_TEST(a_script_that_errs) {
    Captured wrong = drill("7", "3", "# a comment\n\n0.001\nwhat?  # read as wrong\n", "kv");
    ck_assert_int_eq(wrong.status, 1); // and the third question has no answer
    ck_assert_ptr_nonnull(strstr(wrong.out, "0 of 2 right"));
    ck_assert_ptr_nonnull(strstr(wrong.out, "make drill TOPIC=kv"));
    ck_assert_ptr_nonnull(strstr(wrong.out, "chapters/ch08_gqa/README.md"));
    const Scores scores = scores_read("scores");
    ck_assert_int_eq(scores.topic[find_topic("kv")].asked, 2);
    captured_free(&wrong);
    Captured again = drill("7", "1", "q\n", "kv");
    ck_assert_ptr_nonnull(strstr(again.out, "0 of 0 right"));
    ck_assert_ptr_nonnull(strstr(again.out, "0/2")); // over all runs
    captured_free(&again);
}
END_TEST

// At the keyboard (no --answers): what cannot be read is asked again, the end is polite, status 0.
START_TEST(at_the_keyboard) {
    static const char script[] = "exec \"$0\" --seed 3 --count 2 --topic kv --scores scores "
                                 "<answers";
    const char *argv[] = {"/bin/sh", "-c", script, program, NULL};
    write_text("answers", "many\n1\n");
    Captured run = capture_program(argv);
    ck_assert_int_eq(run.status, 0);
    ck_assert_ptr_nonnull(strstr(run.out, "Type a number"));
    ck_assert_ptr_nonnull(strstr(run.out, "of 1 right"));
    captured_free(&run);
}
END_TEST

START_TEST(scores_that_cannot_be_kept) {
    const char *argv[] = {program,     "--seed",   "1",         "--count",
                          "2",         "--scores", "answers/x", // answers is a file
                          "--answers", "answers",  NULL};
    write_text("answers", "1\n1\n");
    Captured run = capture_program(argv);
    ck_assert_int_ge(run.status, 0);
    ck_assert_ptr_nonnull(strstr(run.err, "are not kept"));
    ck_assert_int_eq(count_lines(run.err), 1);
    captured_free(&run);
}
END_TEST

START_TEST(usage_errors) {
    static const char *const wrong[][3] = {
        {"--topic", "wave", "waves"},
        {"--count", "0", "1 to 1000"},
        {"--count", "ten", "whole number"},
        {"--count", "1001", "1 to 1000"},
        {"--seed", "-1", "whole number"},
        {"--seed", "99999999999999999999", "2^64"},
        {"--answers", "missing", "No such"},
        {"--answers", ".", "directory"},
        {"kv", NULL, "--topic"},
        {"--colour", NULL, "--help"},
        {"--seed", "", "whole number"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *argv[] = {program, wrong[i][0], wrong[i][1], NULL};
        Captured run = capture_program(argv);
        ck_assert_msg(run.status == 2, "%s: status %d", wrong[i][0], run.status);
        ck_assert_str_eq(run.out, "");
        ck_assert_msg(strstr(run.err, wrong[i][2]) != NULL, "%s: %s", wrong[i][0], run.err);
        ck_assert_int_le(longest_line(run.err), COLUMNS);
        captured_free(&run);
    }
    const char *argv[] = {program, "--help", NULL};
    Captured help = capture_program(argv);
    ck_assert_int_eq(help.status, 0);
    ck_assert_int_le(longest_line(help.out), COLUMNS);
    ck_assert_ptr_nonnull(strstr(help.out, "online-softmax"));
    captured_free(&help);
}
END_TEST

static Suite *drill_suite(void) {
    Suite *suite = suite_create("drill_answers");
    TCase *answers = tcase_create("answers"), *kept = tcase_create("kept");
    tcase_add_loop_test(answers, forms_of_answers, 0, (int)(sizeof forms / sizeof forms[0]));
    tcase_add_test(answers, known_mistakes);
    tcase_add_test(answers, any_bytes);
    tcase_set_timeout(answers, 60);
    tcase_add_checked_fixture(kept, enter, leave);
    tcase_set_timeout(kept, 60);
    tcase_add_test(kept, scores_come_back);
    tcase_add_test(kept, damaged_scores);
    tcase_add_test(kept, low_scores_weigh_more);
    tcase_add_test(kept, a_script_that_knows_all);
    tcase_add_test(kept, a_script_that_errs);
    tcase_add_test(kept, at_the_keyboard);
    tcase_add_test(kept, scores_that_cannot_be_kept);
    tcase_add_test(kept, usage_errors);
    suite_add_tcase(suite, answers);
    suite_add_tcase(suite, kept);
    return suite;
}

int main(void) {
    SRunner *runner = srunner_create(drill_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
