// The grader's command line: grades labs, shows progress, proves itself.
#include "tests/grade/assignment.h"
#include "tests/grade/learner.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Options options = {.from = "exercises",
                   .format = "text",
                   .lab = ALL_LABS,
                   .seconds = 10.0,
                   .sanitize = true,
                   .user = UNPRIVILEGED_ID};

typedef enum Mode {
    MODE_GRADE,
    MODE_PROGRESS,
    MODE_NEXT,
    MODE_WATCH,
    MODE_HINT,
    MODE_SOLUTION,
    MODE_RESET,
    MODE_PROVE,
    MODE_RECORD
} Mode;

static bool again;     // --again
static bool confirmed; // --yes

static void print_help(void) {
    printf("grade: grades the labs of a chapter, of several, or of all.\n"
           "Runs from the course's top folder.\n\n"
           "  build/grade [option ...] [chNN ...]\n\n"
           "  --from DIR        take the lab files from DIR/chNN/ (default: exercises)\n"
           "  --lab N           only lab N\n"
           "  --test NAME       only this test or question\n"
           "  --format FORMAT   text, tap, junit, gradescope or json (default: text)\n"
           "  --out FILE        write the report there, and the text to the terminal\n"
           "  --also FORMAT=FILE  one more report of the same run; may be repeated\n"
           "  --timeout S       seconds that one test may take (default: 10)\n"
           "  --no-sanitizers   build without AddressSanitizer and UBSan\n"
           "  --user UID        as root: compile and run the labs as this user\n"
           "  --hidden          run the tests that assignment.txt hides, too\n"
           "  --seed TEXT       a student's id: random cases of their own where\n"
           "                    assignment.txt says `seed student`; with --prove in all\n"
           "  --submitted TIME  when it was handed in, as 2027-03-02T10:00: lateness is\n"
           "                    taken off as assignment.txt says\n"
           "  --progress        the best scores so far\n"
           "  --next            what to do now\n"
           "  --watch           grade again at each save, until Ctrl-C\n"
           "  --hint            the next hint for a lab; --again: those shown so far\n"
           "  --solution        a lab's solution, once it has full marks\n"
           "  --reset           put a lab's file back; --yes: without asking\n"
           "  --prove           prove the grader: solutions, exercises, mutants\n"
           "  --record          write anew what the known wrong answers give\n\n"
           "The variables CC (default gcc) and BUILD (default build) are honoured.\n"
           "Exit status: 0 full marks, 1 less, 2 a mistake in the command or the course.\n");
}

static const char *variable(const char *name, const char *otherwise) {
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : otherwise;
}

static double positive(const char *option, const char *text) {
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value > 0.0 && value <= 3600.0)) {
        die("%s %s: a number above 0, at most 3600, is needed", option, text);
    }
    return value;
}

static int lab_number(const char *text) {
    const char *digits = text + (strncmp(text, "lab", 3) == 0 ? 3 : 0);
    char *end;
    const long number = strtol(digits, &end, 10);

    if (strcmp(text, "questions") == 0) {
        return ONLY_QUESTIONS;
    }
    if (end == digits || *end != '\0' || number < 0 || number > 99) {
        die("--lab %s: a lab's number is needed, 0 to 99, or `questions`", text);
    }
    return (int)number;
}

static uid_t user_number(const char *text) {
    char *end;
    const long number = strtol(text, &end, 10);

    if (end == text || *end != '\0' || number < 1 || number > 0x7FFFFFFF) {
        die("--user %s: the number of an unprivileged user is needed, like 65534", text);
    }
    if (geteuid() != 0) {
        die("--user %s: only root can become another user; leave it out", text);
    }
    return (uid_t)number;
}

static Mode parse_options(int argc, char **argv) {
    static const struct option table[] = {
        {"from", required_argument, NULL, 'f'},    {"lab", required_argument, NULL, 'l'},
        {"test", required_argument, NULL, 't'},    {"format", required_argument, NULL, 'F'},
        {"out", required_argument, NULL, 'o'},     {"timeout", required_argument, NULL, 's'},
        {"no-sanitizers", no_argument, NULL, 'n'}, {"user", required_argument, NULL, 'U'},
        {"also", required_argument, NULL, 'a'},    {"hidden", no_argument, NULL, 'H'},
        {"seed", required_argument, NULL, 'S'},    {"submitted", required_argument, NULL, 'd'},
        {"progress", no_argument, NULL, 'p'},      {"next", no_argument, NULL, 'N'},
        {"watch", no_argument, NULL, 'w'},         {"hint", no_argument, NULL, 'i'},
        {"again", no_argument, NULL, 'g'},         {"solution", no_argument, NULL, 'u'},
        {"reset", no_argument, NULL, 'r'},         {"yes", no_argument, NULL, 'y'},
        {"prove", no_argument, NULL, 'P'},         {"record", no_argument, NULL, 'R'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    Mode mode = MODE_GRADE;
    int option;

    while ((option = getopt_long(argc, argv, "h", table, NULL)) != -1) {
        switch (option) {
        case 'f':
            options.from = optarg;
            break;
        case 'l':
            options.lab = lab_number(optarg);
            break;
        case 't':
            options.test = optarg;
            break;
        case 'F':
            options.format = optarg;
            break;
        case 'o':
            options.out = optarg;
            break;
        case 's':
            options.seconds = positive("--timeout", optarg);
            break;
        case 'n':
            options.sanitize = false;
            break;
        case 'U':
            options.user = user_number(optarg);
            options.confine = true;
            break;
        case 'a':
            names_add(&options.also, optarg);
            break;
        case 'H':
            options.hidden = true;
            break;
        case 'S':
            options.seed = optarg;
            break;
        case 'd':
            options.submitted = optarg;
            break;
        case 'p':
            mode = MODE_PROGRESS;
            break;
        case 'N':
            mode = MODE_NEXT;
            break;
        case 'w':
            mode = MODE_WATCH;
            break;
        case 'i':
            mode = MODE_HINT;
            break;
        case 'g':
            again = true;
            break;
        case 'u':
            mode = MODE_SOLUTION;
            break;
        case 'r':
            mode = MODE_RESET;
            break;
        case 'y':
            confirmed = true;
            break;
        case 'P':
            mode = MODE_PROVE;
            break;
        case 'R':
            mode = MODE_RECORD;
            break;
        case 'h':
            print_help();
            exit(0);
        default:
            fprintf(stderr, "try --help\n");
            exit(2);
        }
    }
    return mode;
}

// The chapters named on the command line, or all.
static Names chosen_chapters(char **words) {
    Names all = all_chapters();
    Names chosen = {0};

    if (all.count == 0) {
        die("no labs here: run it from the course's top folder");
    }
    for (; *words != NULL; words++) {
        char *word = chapter_name(*words);
        bool known = false;

        for (size_t i = 0; i < all.count; i++) {
            known |= strcmp(all.name[i], word) == 0;
        }
        if (!known) {
            Text list = {0};

            for (size_t i = 0; i < all.count; i++) {
                text_format(&list, " %s", all.name[i]);
            }
            die("%s has no labs; chapters with labs:%s", word, list.data);
        }
        names_add(&chosen, word);
        free(word);
    }
    if (chosen.count == 0) {
        return all;
    }
    names_free(&all);
    return chosen;
}

// With --lab or --test, something must be left.
static void require_tests(const ChapterResult *results, size_t count) {
    size_t tests = 0;

    for (size_t c = 0; c < count; c++) {
        for (size_t l = 0; l < results[c].count; l++) {
            tests += results[c].labs[l].count;
            tests += options.test == NULL ? results[c].labs[l].hidden : 0;
        }
    }
    if (tests == 0 && options.test != NULL) {
        die("no test or question is named `%s` there", options.test);
    }
    if (tests == 0 && options.lab == ONLY_QUESTIONS) {
        die("there are no questions there");
    }
    if (tests == 0) {
        die("there is no lab %d there", options.lab);
    }
}

// What an instructor's run is given besides the chapters.
static void check_options(void) {
    Moment moment;

    if (options.seed != NULL) {
        char *printable = copy_text(options.seed);

        make_printable(printable);
        if (options.seed[0] == '\0' || strcmp(printable, options.seed) != 0) {
            die("--seed: a printable text is needed, like a student's id");
        }
        free(printable);
    }
    if (options.submitted != NULL && !parse_moment(options.submitted, &moment)) {
        die("--submitted %s: a date and a time are needed, like 2027-03-02T10:00",
            options.submitted);
    }
}

int grade(const Names *chapters) {
    ChapterResult *results = allocate(chapters->count, sizeof(ChapterResult));
    int missing = 0;

    if (!directory_exists(options.from)) {
        die("--from %s: no such folder", options.from);
    }
    open_reports();
    options.show_steps = isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
    build_shared(chapters);
    for (size_t i = 0; i < chapters->count; i++) {
        assignment_of(chapters->name[i]); // a mistake in one is told before anything is graded
    }
    for (size_t i = 0; i < chapters->count; i++) {
        results[i] = grade_chapter(chapters->name[i]);
        missing += results[i].worth - results[i].earned;
        if (strcmp(options.from, "exercises") == 0 && options.test == NULL) {
            remember_progress(&results[i]);
        }
    }
    end_steps();
    require_tests(results, chapters->count);
    write_reports(results, chapters->count);
    for (size_t i = 0; i < chapters->count; i++) {
        chapter_free(&results[i]);
    }
    free(results);
    return missing == 0 ? 0 : 1;
}

static void clean_up(void) {
    remove_scratch();
    build_end();
}

int main(int argc, char **argv) {
    Mode mode = parse_options(argc, argv);
    Names chapters = chosen_chapters(argv + optind);
    const char *only = optind + 1 == argc ? chapters.name[0] : NULL; // the one named
    int status = 0;

    options.compiler = variable("CC", "gcc");
    options.build = variable("BUILD", "build");
    check_options();
    find_compilers();
    atexit(clean_up);
    catch_interrupts();
    switch (mode) {
    case MODE_GRADE:
        status = grade(&chapters);
        break;
    case MODE_PROGRESS:
        show_progress(&chapters);
        break;
    case MODE_NEXT:
        status = show_next(&chapters);
        break;
    case MODE_WATCH:
        status = watch(only);
        break;
    case MODE_HINT:
        status = show_hint(only, again);
        break;
    case MODE_SOLUTION:
        status = show_solution(only);
        break;
    case MODE_RESET:
        status = reset_lab(only, confirmed);
        break;
    case MODE_PROVE:
        status = prove(&chapters) ? 0 : 1;
        break;
    case MODE_RECORD:
        status = record_wrong_answers(&chapters) ? 0 : 1;
        break;
    }
    names_free(&chapters);
    return status;
}
