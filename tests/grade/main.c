// The grader's command line: grades labs, shows progress, proves itself.
#include "tests/grade/grader.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Options options = {
    .from = "exercises", .format = "text", .lab = ALL_LABS, .seconds = 10.0, .sanitize = true};

typedef void (*Writer)(FILE *out, const ChapterResult *chapters, size_t count);

static const struct {
    const char *name;
    Writer write;
} formats[] = {
    {"text", write_text},   {"tap", write_tap},
    {"junit", write_junit}, {"gradescope", write_gradescope},
    {"json", write_json},
};

enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

typedef enum Mode { MODE_GRADE, MODE_PROGRESS, MODE_PROVE } Mode;

static void print_help(void) {
    printf("grade: grades the labs of a chapter, of several, or of all.\n"
           "Runs from the course's top folder.\n\n"
           "  build/grade [option ...] [chNN ...]\n\n"
           "  --from DIR        take the lab files from DIR/chNN/ (default: exercises)\n"
           "  --lab N           only lab N\n"
           "  --test NAME       only this test or question\n"
           "  --format FORMAT   text, tap, junit, gradescope or json (default: text)\n"
           "  --out FILE        write the report there, and the text to the terminal\n"
           "  --timeout S       seconds that one test may take (default: 10)\n"
           "  --no-sanitizers   build without AddressSanitizer and UBSan\n"
           "  --progress        the best scores so far\n"
           "  --prove           prove the grader: solutions, exercises, mutants\n\n"
           "The variables CC (default gcc) and BUILD (default build) are honoured.\n"
           "Exit status: 0 full marks, 1 less, 2 a mistake in the command or the course.\n");
}

static Writer find_format(const char *name) {
    for (size_t i = 0; i < FORMATS; i++) {
        if (strcmp(formats[i].name, name) == 0) {
            return formats[i].write;
        }
    }
    die("--format %s: the formats are text, tap, junit, gradescope and json", name);
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
    char *end;
    const long number = strtol(text, &end, 10);

    if (end == text || *end != '\0' || number < 0 || number > 99) {
        die("--lab %s: a lab's number is needed, 0 to 99", text);
    }
    return (int)number;
}

static Mode parse_options(int argc, char **argv) {
    static const struct option table[] = {{"from", required_argument, NULL, 'f'},
                                          {"lab", required_argument, NULL, 'l'},
                                          {"test", required_argument, NULL, 't'},
                                          {"format", required_argument, NULL, 'F'},
                                          {"out", required_argument, NULL, 'o'},
                                          {"timeout", required_argument, NULL, 's'},
                                          {"no-sanitizers", no_argument, NULL, 'n'},
                                          {"progress", no_argument, NULL, 'p'},
                                          {"prove", no_argument, NULL, 'P'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
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
        case 'p':
            mode = MODE_PROGRESS;
            break;
        case 'P':
            mode = MODE_PROVE;
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
        bool known = false;

        for (size_t i = 0; i < all.count; i++) {
            known |= strcmp(all.name[i], *words) == 0;
        }
        if (!known) {
            Text list = {0};

            for (size_t i = 0; i < all.count; i++) {
                text_format(&list, " %s", all.name[i]);
            }
            die("%s has no labs; chapters with labs:%s", *words, list.data);
        }
        names_add(&chosen, *words);
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
        }
    }
    if (tests == 0 && options.test != NULL) {
        die("no test or question is named `%s` there", options.test);
    }
    if (tests == 0) {
        die("there is no lab %d there", options.lab);
    }
}

static void report(FILE *out, Writer write, const ChapterResult *results, size_t count) {
    if (out != stdout) {
        write_text(stdout, results, count);
    }
    write(out, results, count);
    if (fflush(out) != 0 || ferror(out) || (out != stdout && fclose(out) != 0)) {
        die("%s: %s", options.out != NULL ? options.out : "stdout", strerror(errno));
    }
}

static int grade(const Names *chapters) {
    Writer write = find_format(options.format);
    ChapterResult *results = allocate(chapters->count, sizeof(ChapterResult));
    FILE *out;
    int missing = 0;

    if (!directory_exists(options.from)) {
        die("--from %s: no such folder", options.from);
    }
    out = options.out != NULL ? fopen(options.out, "we") : stdout;
    if (out == NULL) {
        die("%s: %s", options.out, strerror(errno));
    }
    options.show_steps = isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
    build_shared(chapters);
    for (size_t i = 0; i < chapters->count; i++) {
        results[i] = grade_chapter(chapters->name[i]);
        missing += results[i].points - results[i].score;
        if (strcmp(options.from, "exercises") == 0 && options.test == NULL) {
            remember_progress(&results[i]);
        }
    }
    end_steps();
    require_tests(results, chapters->count);
    report(out, write, results, chapters->count);
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
    int status = 0;

    options.compiler = variable("CC", "gcc");
    options.build = variable("BUILD", "build");
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
    case MODE_PROVE:
        status = prove(&chapters) ? 0 : 1;
        break;
    }
    names_free(&chapters);
    return status;
}
