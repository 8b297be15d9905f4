// The drill's command line: build/drill, or make drill.
#include "tests/drill/drill.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { USAGE_ERROR = 2, DEFAULT_COUNT = 10, MOST_QUESTIONS = 1000, PATH_ROOM = 1024 };

static void print_help(void) {
    printf("The card numbers with fresh sizes each time: questions at the terminal.\n\n"
           "  build/drill [option ...]\n"
           "  make drill [TOPIC=name] [COUNT=n] [SEED=n] [ANSWERS=file]\n\n"
           "  --topic NAME    one topic; otherwise all, those with a low score more often\n"
           "  --count N       how many questions, 1 to %d (default %d)\n"
           "  --seed N        the questions of this seed, the same everywhere; the topics\n"
           "                  then come in turn, whatever the scores (default: the clock)\n"
           "  --answers FILE  read the answers from a file, one a line, # begins a comment;\n"
           "                  the seed is 1 unless it is given\n"
           "  --scores FILE   where scores are kept (default: $BUILD/progress/drill, and\n"
           "                  BUILD is build unless it is set)\n"
           "  --help          this text\n\ntopics\n",
           MOST_QUESTIONS, DEFAULT_COUNT);
    for (int i = 0; i < TOPICS; i++) {
        printf("  %-15s %s\n", topics[i]->name, topics[i]->title);
    }
    printf("\nAt the keyboard the exit status is 0. With --answers it is 0 when all answers\n"
           "were right and 1 otherwise; 2 when the command line is wrong.\n"
           "docs/drill.md has the formulas and the forms that answers may have.\n");
}

// Prints "drill: ..." and ends the program.
_Noreturn static void usage_error(const char *what, const char *value, const char *advice) {
    fprintf(stderr, "drill: %s%s%s: %s\n", what, value[0] != '\0' ? " " : "", value, advice);
    exit(USAGE_ERROR);
}

// A whole number from `low` to `high`.
static uint64_t whole_number(const char *flag, const char *text, uint64_t low, uint64_t high,
                             const char *advice) {
    char *end = NULL;
    errno = 0;
    const uint64_t value = strtoumax(text, &end, 10);
    if (strspn(text, "0123456789") != strlen(text) || end == text || errno != 0 || value < low ||
        value > high) {
        usage_error(flag, text, advice);
    }
    return value;
}

static int topic_named(const char *name) {
    char list[TEXT_BYTES] = "no such topic; they are";
    const int topic = find_topic(name);
    if (topic < 0) {
        for (int i = 0; i < TOPICS; i++) {
            const size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%s", i % 5 == 0 ? "\n  " : " ",
                     topics[i]->name);
        }
        usage_error("--topic", name, list);
    }
    return topic;
}

// A seed of at most six digits, so that it can be typed again.
static uint64_t clock_seed(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    Draw draw = {.state = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec};
    return (uint64_t)draw_below(&draw, 1000000);
}

// Fills the session from the command line; returns the file of answers, NULL for the keyboard.
static const char *read_options(Session *session, int argc, char **argv) {
    static const struct option flags[] = {{"topic", required_argument, NULL, 't'},
                                          {"count", required_argument, NULL, 'c'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"answers", required_argument, NULL, 'a'},
                                          {"scores", required_argument, NULL, 'k'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    const char *answers = NULL;
    for (int flag; (flag = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        switch (flag) {
        case 't':
            session->topic = topic_named(optarg);
            break;
        case 'c':
            session->count = (int)whole_number("--count", optarg, 1, MOST_QUESTIONS,
                                               "it is a whole number from 1 to 1000");
            break;
        case 's':
            session->seed = whole_number("--seed", optarg, 0, UINT64_MAX,
                                         "it is a whole number from 0 on, below 2^64");
            session->seeded = true;
            break;
        case 'a':
            answers = optarg;
            break;
        case 'k':
            session->scores_path = optarg;
            break;
        case 'h':
            print_help();
            exit(EXIT_SUCCESS);
        default: // getopt_long has named the option
            fprintf(stderr, "drill: try --help\n");
            exit(USAGE_ERROR);
        }
    }
    if (optind < argc) {
        usage_error("", argv[optind], "not an option; a topic is chosen by --topic");
    }
    if (answers != NULL && !session->seeded) {
        session->seed = 1;
        session->seeded = true;
    }
    return answers;
}

int main(int argc, char **argv) {
    char path[PATH_ROOM];
    const char *build = getenv("BUILD"), *no_colour = getenv("NO_COLOR");
    Session session = {.in = stdin,
                       .out = stdout,
                       .echo = !isatty(STDIN_FILENO),
                       .colour =
                           isatty(STDOUT_FILENO) && (no_colour == NULL || no_colour[0] == '\0'),
                       .seed = clock_seed(),
                       .count = DEFAULT_COUNT,
                       .topic = -1};
    snprintf(path, sizeof path, "%s/progress/drill",
             build != NULL && build[0] != '\0' ? build : "build");
    session.scores_path = path;
    const char *answers = read_options(&session, argc, argv);
    if (answers != NULL) {
        session.in = fopen(answers, "re");
        const int first = session.in != NULL ? getc(session.in) : EOF;
        if (session.in == NULL || ferror(session.in)) { // a folder opens, but cannot be read
            usage_error("--answers", answers, strerror(errno));
        }
        if (first != EOF) {
            ungetc(first, session.in);
        }
        session.script = true;
        session.echo = true;
    }
    const bool all_right = run_session(&session);
    if (session.in != stdin) {
        fclose(session.in);
    }
    return answers == NULL || all_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
