// The gradebook on a small course: submissions of all shapes, submissions that mean harm, and runs
// that are interrupted and repeated.
#include "tests/unit/fake_course.h"
#include "tests/unit/shell.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static char tools[1024]; // tests/instructor of the real course

// The course with its solution beside it, and an empty folder of submissions.
static void enter(void) {
    course_enter();
    course_put_lab("solutions", NULL, NULL);
    shell_run("mkdir subs");
}

// What `grade` printed, which must end with this status. To be freed.
static char *grade_class(const char *more, int status) {
    char *out;
    const int got = shell(&out,
                          "%s/gradebook grade --course . --grader %s --submissions subs "
                          "--chapter ch77 --out results %s",
                          tools, course_grader(), more);

    if (got != status) {
        ck_abort_msg("gradebook: status %d, expected %d\n%s", got, status, out);
    }
    return out;
}

// The student's line of the table, without notes: "id,total,points,lab1,questions,late,status".
static const char *row_of(const char *table, const char *student) {
    static char row[256];
    char start[64];
    const char *line = table;
    size_t commas = 0;
    size_t i = 0;

    snprintf(start, sizeof(start), "%s,", student);
    while (line != NULL && strncmp(line, start, strlen(start)) != 0) {
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    if (line == NULL) {
        ck_abort_msg("no line of %s in\n%s", student, table);
    }
    for (; line[i] != '\0' && line[i] != '\n' && i < sizeof(row) - 1; i++) {
        commas += line[i] == ',' ? 1 : 0;
        if (commas == 7) {
            break;
        }
        row[i] = line[i];
    }
    row[i] = '\0';
    return row;
}

static char *merged(void) {
    return shell_output("%s/gradebook merge results", tools);
}

// ---- honest submissions -------------------------------------------------------------------------

START_TEST(submissions_come_in_many_shapes) {
    char *out;
    char *table;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    shell_run(
        "cd subs && mkdir -p flat 'Jane Doe/exercises' deep/work base && cp ../right/ch77/* flat &&"
        "cp -r ../right/ch77 'Jane Doe/exercises' && cp -r ../right/ch77 deep/work &&"
        "(cd ../right && tar czf ../subs/packed.tar.gz ch77 && tar cf ../subs/plain.tar ch77 &&"
        " python3 -m zipfile -c ../subs/zipped.zip ch77) && touch roster.csv .hidden &&"
        "cp -r ../exercises/ch77 base && cp -r ../right/ch77 zipped && mkdir nothing &&"
        "mkdir -p two/ch77 two/old/ch77 && cp ../right/ch77/* two/ch77 &&"
        "echo broken >two/old/ch77/lab1_sum.c && cp -r two renamed &&"
        "mv renamed/ch77/lab1_sum.c renamed/ch77/lab1_mine.c && rm -r renamed/old");
    out = grade_class("--jobs 2", 0);
    has(out, "11 submissions, 11 graded, 0 without a score");
    has(out, "not submissions: .hidden, roster.csv");
    free(out);
    table = merged();
    for (const char *const *name =
             (const char *const[]){"flat", "Jane_Doe", "deep", "packed", "plain", "zipped",
                                   "zipped-2", "two", "renamed", NULL};
         *name != NULL; name++) {
        char want[64];

        snprintf(want, sizeof(want), "%s,6,6,4,2,,graded", *name);
        ck_assert_str_eq(row_of(table, *name), want);
    }
    ck_assert_str_eq(row_of(table, "base"), "base,0,6,0,0,,graded");
    ck_assert_str_eq(row_of(table, "nothing"), "nothing,0,6,0,0,,nothing");
    has(table, "lab1: ch77/lab1_sum.c was graded, not old/ch77/lab1_sum.c");
    free(table);
    course_leave();
}
END_TEST

START_TEST(a_run_goes_on_where_it_stopped) {
    char *out;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    shell_run("cp -r right subs/ann && cp -r right subs/ben && cp -r right subs/cid");
    free(grade_class("", 0));
    out = grade_class("", 0);
    has(out, "ann                      6/6         (known)");
    has(out, "cid                      6/6         (known)");
    free(out);
    // A changed submission, a result cut short and one that is gone are graded, the rest is known.
    shell_run(
        "echo >>subs/ann/ch77/lab1_sum.c; rm results/ben.json; echo '{\"id\"' >results/cid.json;"
        "cp -r right subs/dan");
    out = grade_class("", 0);
    lacks(out, "(known)");
    free(out);
    // So is everything when a suite changes, or when it is asked for.
    shell_run("echo >>tests/grade/ch77/lab1_sum.c");
    out = grade_class("", 0);
    lacks(out, "(known)");
    free(out);
    out = grade_class("--again", 0);
    lacks(out, "(known)");
    free(out);
    // The table names those who are missing.
    shell_run("rm results/dan.json; printf 'id,name\\nann,Ann\\neve,Eve\\n' >roster.csv");
    out = shell_output("%s/gradebook merge results --roster roster.csv", tools);
    ck_assert_str_eq(row_of(out, "eve"), "eve,,,,,,missing");
    ck_assert_str_eq(row_of(out, "dan"), "dan,,,,,,missing");
    ck_assert_str_eq(row_of(out, "ann"), "ann,6,6,4,2,,graded");
    has(out, "2 students have no score");
    free(out);
    course_leave();
}
END_TEST

START_TEST(an_interrupt_leaves_no_half_result) {
    char *out;
    int status = 0;
    pid_t run;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    shell_run("cp -r right subs/ann");
    free(grade_class("--test-timeout 6", 0));
    course_put_lab("subs/slow", "for (;;) { pause(); } return a + b;", NULL);
    run = fork();
    if (run == 0) {
        char path[1100];

        snprintf(path, sizeof(path), "%s/gradebook", tools);
        execl(path, path, "grade", "--course", ".", "--grader", course_grader(), "--submissions",
              "subs", "--chapter", "ch77", "--out", "results", "--test-timeout", "120", "--quiet",
              (char *)NULL);
        _exit(127);
    }
    ck_assert_int_gt(run, 0);
    shell_run(
        "for i in $(seq 600); do sleep 0.1; "
        "ls results/.gradebook/slots 2>/dev/null | grep -q -e '-slow$' && exit 0; done; exit 1");
    ck_assert_int_eq(kill(run, SIGINT), 0);
    ck_assert_int_eq(waitpid(run, &status, 0), run);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 130, "wait status %#x", status);
    out = shell_output("ls results results/.gradebook/slots");
    lacks(out, "slow");
    free(out);
    out = grade_class("--test-timeout 6", 0);
    has(out, "slow                     2/6");
    free(out);
    course_leave();
}
END_TEST

// Its earlier result is no result of what it was killed over.
START_TEST(a_killed_worker_leaves_no_old_result) {
    char *out;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    shell_run("cp -r right subs/ann && cp -r right subs/ben");
    free(grade_class("--test-timeout 120", 0));
    course_put_lab("subs/ann", "for (;;) { pause(); } return a + b;", NULL);
    // A slot is named HOST-PID-STUDENT, with the process that grades the submission.
    shell_run("(for i in $(seq 600); do sleep 0.1; "
              "slot=$(ls results/.gradebook/slots 2>/dev/null | grep -- '-ann$'); "
              "[ -z \"$slot\" ] || { slot=${slot%%-ann}; kill -9 ${slot##*-}; break; }; done) "
              ">/dev/null 2>&1 &");
    out = grade_class("--test-timeout 120", 1);
    has(out, "failed: its process ended: signal 9");
    has(out, "ben                      6/6         (known)");
    free(out);
    out = merged();
    ck_assert_str_eq(row_of(out, "ann"), "ann,,,,,,failed");
    free(out);
    shell_run("cp right/ch77/* subs/ann/ch77/ && ls results/.gradebook/slots | grep -q -- '-ann$'");
    out = grade_class("", 0);
    has(out, "ann                      6/6");
    free(out);
    shell_run("! ls results/.gradebook/slots | grep -e '-ann$'");
    course_leave();
}
END_TEST

// Two runs may share a folder of results, so a slot stays as long as its process may be at work.
START_TEST(slots_of_other_runs_stay) {
    char *out;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    shell_run("cp -r right subs/ann && slots=results/.gradebook/slots host=$(uname -n | tr - _) && "
              "mkdir -p $slots/$host-$$-1-gone $slots/$host-%d-busy $slots/${host}0-$$-far",
              (int)getpid());
    free(grade_class("", 0));
    out = shell_output("ls results/.gradebook/slots");
    lacks(out, "gone");
    has(out, "-busy\n");
    has(out, "-far\n");
    free(out);
    course_leave();
}
END_TEST

// A worker whose gradebook died before the worker could ask to be told of it.
START_TEST(no_worker_outlives_its_parent) {
    static const char command[] =
        "cd '%s' && python3 -B -c 'import os, confine; confine.end_with_parent(%s); "
        "print(\"goes on\")'";
    char *out;

    if (!works("python3 --version")) {
        return;
    }
    out = shell_output(command, tools, "os.getppid()");
    ck_assert_str_eq(out, "goes on\n");
    free(out);
    ck_assert_int_eq(shell(&out, command, tools, "os.getpid()"), 1);
    ck_assert_str_eq(out, "");
    free(out);
}
END_TEST

START_TEST(one_submission_at_a_time) {
    char *out;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    shell_run("cp -r right subs/ann");
    course_put("tests/grade/ch77/assignment.txt", "due 2027-03-01 23:59\nlate 10 per day\n");
    course_put("times.csv", "id,time\nann,2027-03-02T10:00\n");
    out = shell_output("%s/gradebook one subs/ann --course . --grader %s --chapter ch77 "
                       "--out results --times times.csv",
                       tools, course_grader());
    has(out, "ann                      5.4/6");
    free(out);
    out = merged();
    has(out, "ann,5.4,6,4,2,");
    has(out, "10 % off");
    free(out);
    ck_assert_int_eq(shell(&out,
                           "%s/gradebook one subs/bob --course . --grader %s --chapter ch77 "
                           "--out results",
                           tools, course_grader()),
                     2);
    has(out, "subs/bob: there is no such submission");
    free(out);
    ck_assert_int_eq(shell(&out,
                           "%s/gradebook one subs/ann --course . --grader %s --chapter ch78 "
                           "--out results",
                           tools, course_grader()),
                     2);
    has(out, "there is no chapter ch78");
    free(out);
    out = shell_output("%s/gradebook prepare --course . --grader %s --chapter 77 --out results",
                       tools, course_grader());
    has(out, "the grading tree of ch77 is ");
    free(out);
    course_leave();
}
END_TEST

// The names in --times and --roster are those of the files, blanks and all.
START_TEST(times_and_rosters_find_their_students) {
    char *out;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    shell_run("cp -r right 'subs/Jane Doe'");
    course_put("tests/grade/ch77/assignment.txt", "due 2027-03-01 23:59\nlate 10 per day\n");
    course_put("times.csv", "id,time\nJane Doe,2027-03-02T10:00\nbob,2027-03-02T10:00\n");
    out = grade_class("--times times.csv", 0);
    has(out, "Jane_Doe                 5.4/6");
    has(out, "--times times.csv: no submission of: bob");
    free(out);
    course_put("roster.csv", "Jane Doe\nEve Roe\n");
    out = shell_output("%s/gradebook merge results --roster roster.csv", tools);
    ck_assert_str_eq(row_of(out, "Eve_Roe"), "Eve_Roe,,,,,,missing");
    lacks(out, "Jane Doe");
    has(out, "1 student has no score");
    free(out);
    course_put("latin1.csv", "J\xe4ger,2027-03-02T10:00\n");
    free(grade_class("--times latin1.csv", 2));
    ck_assert_int_eq(shell(&out, "%s/gradebook merge results --roster latin1.csv", tools), 2);
    has(out, "gradebook: --roster latin1.csv: not a CSV file in UTF-8: ");
    free(out);
    course_leave();
}
END_TEST

// ---- mistakes -----------------------------------------------------------------------------------

// Runs the gradebook with the words, which must end with status 2 and `piece` in a short message.
static void refused(const char *words, const char *piece) {
    char *out;
    const int status = shell(&out, "%s/gradebook %s", tools, words);

    if (status != 2) {
        ck_abort_msg("gradebook %s: status %d, expected 2\n%s", words, status, out);
    }
    has(out, piece);
    lacks(out, "Traceback");
    free(out);
}

// The same for `grade`, with more words.
static void refused_to_grade(const char *more, const char *piece) {
    char words[1024];

    snprintf(words, sizeof(words),
             "grade --course . --grader %s --submissions subs --chapter ch77 --out results %s",
             course_grader(), more);
    refused(words, piece);
}

START_TEST(wrong_options_are_told_before_anything_is_graded) {
    static const char *const wrong[][2] = {
        {"--out times.csv", "--out times.csv: File exists"},
        {"--out /proc/results", "--out /proc/results: "},
        {"--out subs", "--out subs: it lies in the folder of submissions"},
        {"--out subs/ann/results", "it lies in the folder of submissions"},
        {"--jobs 0", "argument --jobs: 0: expected a whole number from 1 on"},
        {"--timeout -1", "argument --timeout: -1: expected seconds above 0"},
        {"--timeout nan", "argument --timeout: nan: expected seconds above 0"},
        {"--test-timeout 3601", "expected seconds above 0, at most 3600"},
        {"--memory 0", "argument --memory: 0: expected a whole number from 1 on"},
    };
    char *out;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    shell_run("cp -r right subs/ann && touch times.csv");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        refused_to_grade(wrong[i][0], wrong[i][1]);
    }
    shell_run("[ ! -e results ] && [ \"$(ls -A subs subs/ann)\" = \"$(printf 'subs:\\nann\\n\\n"
              "subs/ann:\\nch77')\" ]");
    refused("one subs/ann --course . --chapter ch77 --out subs/ann/results",
            "it lies in the submission");
    refused("one subs/ann --course . --chapter ch77 --out results --submitted 1.3.2027",
            "--submitted 1.3.2027: expected a time like 2027-03-02T10:00");
    refused("one subs/ann --course . --chapter ch77 --out results --report none/r.json",
            "--report none/r.json: there is no such folder");
    shell_run("mkdir empty");
    refused("merge empty", "empty: no results are in it");
    refused("merge nowhere", "nowhere: there is no such folder of results");
    ck_assert_int_eq(shell(&out, "%s/make_class.py subs ch77 3", tools), 1);
    ck_assert_str_eq(out, "make_class: subs is there already; name a new folder\n");
    free(out);
    course_leave();
}
END_TEST

START_TEST(times_are_read_before_anything_is_graded) {
    static const char *const wrong[][2] = {
        {"id;time\nann;2027-03-02T10:00\n", "times.csv:1: expected commas"},
        {"ann\t2027-03-02T10:00\n", "times.csv:1: expected commas"},
        {"id,time\nann\n", "times.csv:2: expected an id and a time, like alice,2027-03-02T10:00"},
        {"id,time\n\nann,03/01/2027 10:00\n", "times.csv:3: `03/01/2027 10:00`: expected a time"},
        {"ann,2027-02-29T10:00\n", "times.csv:1: `2027-02-29T10:00`: expected a time"},
        {"ann,2027-03-01T24:00\n", "times.csv:1: `2027-03-01T24:00`: expected a time"},
        {"ann,2027-03-01T10:00 +15:00\n", "times.csv:1: `2027-03-01T10:00 +15:00`: expected"},
        {"ann,2027-03-02T10:00\nben,2027-03-02T10:00\nann,2027-03-01T10:00\n",
         "times.csv:3: ann has a time in line 1 already"},
        {"Jane Doe,2027-03-02T10:00\nJane_Doe,\n",
         "times.csv:2: Jane_Doe has a time in line 1 already"},
    };
    char *out;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    for (const char *const *name =
             (const char *const[]){"ann", "ben", "cid", "dan", "eve", "fay", NULL};
         *name != NULL; name++) {
        shell_run("cp -r right subs/%s", *name);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        course_put("times.csv", wrong[i][0]);
        refused_to_grade("--times times.csv", wrong[i][1]);
    }
    shell_run("[ ! -e results ]");
    // What is accepted here is what the grader accepts.
    course_put("times.csv", "Student,submitted\nann,2027-03-02 10:00\nben,2027-03-02T10:00:59\n"
                            "cid,2028-02-29T23:59:60.25Z\ndan,2027-03-02T10:00-0800\n"
                            "eve,2027-03-02 10:00 +14:00,more\nfay,\n");
    out = grade_class("--times times.csv", 0);
    has(out, "6 submissions, 6 graded, 0 without a score");
    lacks(out, "no submission of");
    free(out);
    shell_run("grep -q '\"submitted\": \"2028-02-29T23:59:60.25Z\"' results/cid.json && "
              "grep -q '\"submitted\": null' results/fay.json");
    course_leave();
}
END_TEST

START_TEST(a_results_folder_is_of_one_chapter) {
    char *before;
    char *after;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    shell_run("cp -r right subs/ann && cp -r subs/ann/ch77 subs/ann/ch78 && "
              "cp -r exercises/ch77 exercises/ch78 && cp -r tests/grade/ch77 tests/grade/ch78");
    free(grade_class("", 0));
    before = file_text("results/ann.json");
    refused_to_grade("--chapter ch78",
                     "--out results: it has results of ch77; name another folder");
    refused("one subs/ann --course . --chapter ch78 --out results", "it has results of ch77");
    refused("prepare --course . --chapter ch78 --out results", "it has results of ch77");
    after = file_text("results/ann.json");
    ck_assert_str_eq(after, before);
    free(after);
    free(before);
    free(grade_class("", 0));
    // A folder that was mixed before.
    shell_run("sed 's/ch77/ch78/; s/ann/ben/' results/ann.json >results/ben.json");
    refused("merge results", "results: it has results of ch77 and ch78; a table is of one chapter");
    course_leave();
}
END_TEST

START_TEST(one_is_not_for_a_class) {
    char *out;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    shell_run("cp -r right subs/ann && cp -r right/ch77 subs/ben && mkdir -p zip && "
              "cp -r right zip/old && cp -r right zip/final && mkdir -p nested/ch77/old && "
              "cp right/ch77/* nested/ch77 && cp -r right nested/before");
    refused("one subs --course . --chapter ch77 --out results", "subs looks like a whole class");
    shell_run("! ls results/*.json 2>/dev/null");
    // A submission may have several folders, when it is said whose it is.
    out = shell_output("%s/gradebook one zip --id zoe --course . --grader %s --chapter ch77 "
                       "--out results",
                       tools, course_grader());
    has(out, "zoe                      6/6");
    has(out, "lab1: final/ch77/lab1_sum.c was graded, not old/ch77/lab1_sum.c");
    free(out);
    out = shell_output("%s/gradebook one nested --course . --grader %s --chapter ch77 "
                       "--out results",
                       tools, course_grader());
    has(out, "nested                   6/6");
    has(out, "lab1: ch77/lab1_sum.c was graded, not before/ch77/lab1_sum.c");
    free(out);
    course_leave();
}
END_TEST

// Ctrl-C while modules are read, and while the grading tree is made.
START_TEST(an_early_interrupt_leaves_nothing_behind) {
    char *out;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    shell_run("cp -r right subs/ann && mkdir -p own && cp -r %s own/ && "
              "{ echo 'import os, signal'; echo 'os.kill(os.getpid(), signal.SIGINT)'; "
              "cat %s/confine.py; } >own/instructor/confine.py",
              tools, tools);
    ck_assert_int_eq(shell(&out, "own/instructor/gradebook merge subs"), 130);
    ck_assert_str_eq(out, "gradebook: interrupted\n");
    free(out);
    // The tree counts as made only when its fingerprint is known.
    shell_run("cp %s/confine.py own/instructor/ && { cat %s/tree.py; echo; "
              "echo 'def fingerprint(folder):'; echo '    import signal'; "
              "echo '    os.kill(os.getpid(), signal.SIGINT)'; } >own/instructor/tree.py",
              tools, tools);
    ck_assert_int_eq(shell(&out,
                           "own/instructor/gradebook grade --course . --grader %s --chapter ch77 "
                           "--submissions subs --out results",
                           course_grader()),
                     130);
    has(out, "gradebook: interrupted\n");
    lacks(out, "Traceback");
    free(out);
    shell_run("! ls results/.gradebook/*.made 2>/dev/null");
    out = grade_class("", 0);
    has(out, "ann                      6/6");
    free(out);
    course_leave();
}
END_TEST

// ---- submissions that mean harm -----------------------------------------------------------------

typedef struct Expected {
    const char *name;
    int most;         // points
    const char *note; // a piece of its notes
} Expected;

// The honest parts of a submission may earn their points; what means harm earns none.
static const Expected expected[] = {
    {"loop", 2, ""},
    {"fork_bomb", 2, ""},
    {"output", 2, ""},
    {"fake", 2, ""},
    {"exits", 0, ""},
    {"kills", 4, ""},
    {"includes_near", 0, ""},
    {"writes", 4, ""},
    {"huge", 0, "refused ch77/lab1_sum.c: larger than 1024 KiB"},
    {"object_bomb", 0, ""},
    {"garbage", 0, ""},
    {"zip_paths", 4, "refused ../../honest/ch77/lab1_sum.c: `..` in its path"},
    {"zip_paths", 4, "refused /tmp/ch77/lab1_sum.c: an absolute path"},
    {"zip_paths", 4, "refused ch77/lab1_other.c: a symbolic link"},
    {"tar_links", 0, "refused ch77/lab1_hard.c: a hard link"},
    {"tar_links", 0, "refused ch77/lab1_device.c: not a regular file"},
    {"tar_links", 0, "refused ch77/../../honest/ch77/lab1_sum.c: `..` in its path"},
    {"zip_bomb", 0, "refused ch77/lab1_sum.c: larger than 1024 KiB"},
    {"tar_bomb", 0, "it unpacks to more than 64 MiB"},
    {"many", 0, "it has more than 2000 entries"},
    {"no_zip", 0, "not a zip file"},
    {"cut", 0, "unreadable"},
    {"linked", 0, "refused ch77/lab1_sum.c: a symbolic link"},
};

// What bubblewrap or Landlock closes off.
static const Expected confined[] = {
    {"includes_far", 0, ""}, {"embeds", 0, ""}, {"reads", 2, ""}, {"connects", 2, ""}};

static const Expected costly[] = {
    {"macro_bomb", 0, ""}, {"include_bomb", 0, ""}, {"memory", 2, ""}, {"disk", 2, ""}};

static void check_expected(const char *table, const Expected *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char *row = row_of(table, list[i].name);
        const int total = atoi(strchr(row, ',') + 1);
        char *whole;

        if (total > list[i].most) {
            ck_abort_msg("%s has more than %d points: %s", list[i].name, list[i].most, row);
        }
        whole = shell_output("grep -h -A3 '\"id\": \"%s\"' results/%s.json; "
                             "%s/gradebook merge results | grep '^%s,'",
                             list[i].name, list[i].name, tools, list[i].name);
        has(whole, list[i].note);
        free(whole);
    }
}

// A socket that listens on this machine; *port is where.
static int listen_here(int *port) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(fd, 16), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static char *hash_of_course(void) {
    return shell_output("find . -path ./results -prune -o -path ./build -prune -o -type f -print | "
                        "LC_ALL=C sort | xargs -d '\\n' sha256sum");
}

// Starts to grade the honest submissions once the fork bomb is at work; honest_are_done waits.
static void grade_honest_beside(const char *isolation) {
    shell_run("(for i in $(seq 600); do sleep 0.1; "
              "ls results/.gradebook/slots 2>/dev/null | grep -q -e '-fork_bomb$' && break; done; "
              "%s/gradebook grade --course . --grader %s --submissions fair --chapter ch77 "
              "--out results --test-timeout 120 --isolation %s; echo status $?) "
              ">results/fair.out 2>&1 &",
              tools, course_grader(), isolation);
}

static void honest_are_done(void) {
    char *out =
        shell_output("for i in $(seq 3000); do grep -q '^status ' results/fair.out && break; "
                     "sleep 0.1; done; cat results/fair.out");

    has(out, "status 0\n");
    free(out);
}

// Honest submissions have a run and a limit of their own, which they keep on a busy machine, too.
static void grade_hostiles(const char *isolation) {
    char more[64];
    char *before = hash_of_course();
    char *after;
    char *out;
    char *table;
    bool open;

    shell_run("chmod -R u+w results 2>/dev/null; rm -rf results; mkdir results");
    snprintf(more, sizeof(more), "--test-timeout 2 --jobs 2 --isolation %s", isolation);
    grade_honest_beside(isolation);
    out = grade_class(more, 1);
    honest_are_done();
    open = strstr(out, "open to it") != NULL;
    free(out);
    after = hash_of_course();
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
    table = merged();
    ck_assert_str_eq(row_of(table, "honest"), "honest,6,6,4,2,,graded");
    ck_assert_str_eq(row_of(table, "later"), "later,6,6,4,2,,graded");
    check_expected(table, expected, sizeof(expected) / sizeof(expected[0]));
    if (open) {
        printf("not run: what may be read, since neither bubblewrap nor Landlock is here\n");
    } else {
        check_expected(table, confined, sizeof(confined) / sizeof(confined[0]));
        shell_run(
            "! ls harm results/harm.json /tmp/harm* /dev/shm/harm* /var/tmp/harm* 2>/dev/null");
    }
    if (getenv("TEST_FULL") != NULL) {
        check_expected(table, costly, sizeof(costly) / sizeof(costly[0]));
    }
    free(table);
}

START_TEST(harm_stays_with_whoever_means_it) {
    int port;
    int listener;
    char *output;

    if (!works("python3 --version")) {
        return;
    }
    enter();
    listener = listen_here(&port);
    shell_run("python3 %s/make_hostile.py \"$PWD/subs\" \"$PWD\" \"$PWD/results\" %d", tools, port);
    grade_hostiles("auto");
    if (getenv("TEST_FULL") != NULL) {
        const char *const ways[] = {"bwrap", "landlock"};

        for (int i = 0; i < 2; i++) {
            if (shell(&output,
                      "%s/gradebook prepare --course . --grader %s --chapter ch77 --out probe "
                      "--isolation %s",
                      tools, course_grader(), ways[i]) == 0) {
                grade_hostiles(ways[i]);
            } else {
                printf("not run: %s", output);
            }
            free(output);
        }
    }
    close(listener);
    course_leave();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("instructor");
    TCase *tests = tcase_create("gradebook");
    SRunner *runner;
    int failed;

    if (realpath("tests/instructor", tools) == NULL) {
        fprintf(stderr, "run it from the course's top folder\n");
        return 2;
    }
    tcase_set_timeout(tests, 1200);
    tcase_add_test(tests, submissions_come_in_many_shapes);
    tcase_add_test(tests, a_run_goes_on_where_it_stopped);
    tcase_add_test(tests, an_interrupt_leaves_no_half_result);
    tcase_add_test(tests, a_killed_worker_leaves_no_old_result);
    tcase_add_test(tests, slots_of_other_runs_stay);
    tcase_add_test(tests, no_worker_outlives_its_parent);
    tcase_add_test(tests, one_submission_at_a_time);
    tcase_add_test(tests, times_and_rosters_find_their_students);
    tcase_add_test(tests, wrong_options_are_told_before_anything_is_graded);
    tcase_add_test(tests, times_are_read_before_anything_is_graded);
    tcase_add_test(tests, a_results_folder_is_of_one_chapter);
    tcase_add_test(tests, one_is_not_for_a_class);
    tcase_add_test(tests, an_early_interrupt_leaves_nothing_behind);
    tcase_add_test(tests, harm_stays_with_whoever_means_it);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
