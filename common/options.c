// The command line of the lesson programs: the same flags everywhere, by getopt_long.
#include "common/options.h"

#include "common/timer.h"

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FEWEST_REPEATS = 10, FIRST_FLAG = 256, PATH_BYTES = 4096 };

// What a flag stores in Options.
typedef enum ValueType {
    TYPE_SIZE,  // int64_t, at most INT32_MAX
    TYPE_COUNT, // int, at most TIMER_MAX_RUNS
    TYPE_TEXT,  // const char *
    TYPE_TRUE,  // bool, without a value
    TYPE_LEN,   // sets two sizes, after all flags were read
    TYPE_SEED,
    TYPE_SCALE,
    TYPE_DTYPE,
    TYPE_BACKEND,
    TYPE_PLOT,
    TYPE_HELP,
} ValueType;

typedef struct Flag {
    const char *name;
    ValueType type;
    int low;           // smallest value of a number
    size_t field;      // its offset in Options; unused for TYPE_LEN and TYPE_HELP
    const char *value; // as --help shows it
    const char *help;
    unsigned needs; // OPTION_* without which the flag does not apply; 0: applies everywhere
} Flag;

// Indices into the table below, for the flags that rules name.
typedef enum FlagId {
    FLAG_BATCH,
    FLAG_HEADS,
    FLAG_KV_HEADS,
    FLAG_LEN,
    FLAG_QUERIES,
    FLAG_KEYS,
    FLAG_DIM,
    FLAG_DTYPE,
    FLAG_SCALE,
    FLAG_CAUSAL,
    FLAG_WINDOW,
    FLAG_SEED,
    FLAG_Q,
    FLAG_K,
    FLAG_V,
    FLAG_OUT,
    FLAG_LSE,
    FLAG_BLOCK_Q,
    FLAG_BLOCK_K,
    FLAG_SPLITS,
    FLAG_PAGE,
    FLAG_THREADS,
    FLAG_BACKEND,
    FLAG_REPEATS,
    FLAG_QUICK,
    FLAG_CSV,
    FLAG_PLOT,
    FLAG_HELP,
    FLAG_COUNT
} FlagId;

#define FIELD(member) offsetof(Options, member)

// In the order of FlagId, which is the order of --help.
static const Flag flags[FLAG_COUNT] = {
    {"batch", TYPE_SIZE, 0, FIELD(shape.batch), " N", "sequences", 0},
    {"heads", TYPE_SIZE, 1, FIELD(shape.heads_q), " N", "query heads", 0},
    {"kv-heads", TYPE_SIZE, 1, FIELD(shape.heads_kv), " N", "key/value heads; --heads sets it", 0},
    {"len", TYPE_LEN, 0, 0, " N", "both --queries and --keys", 0},
    {"queries", TYPE_SIZE, 0, FIELD(shape.len_q), " N", "queries in a sequence", 0},
    {"keys", TYPE_SIZE, 0, FIELD(shape.len_kv), " N", "keys in a sequence", 0},
    {"dim", TYPE_SIZE, 1, FIELD(shape.dim), " N", "head dimension", 0},
    {"dtype", TYPE_DTYPE, 0, FIELD(dtype), " TYPE", "storage type: f32, f16 or bf16", 0},
    {"scale", TYPE_SCALE, 0, FIELD(shape.scale), " X", "factor of the scores; 0: 1/sqrt(dim)", 0},
    {"causal", TYPE_TRUE, 0, FIELD(shape.causal), "", "hide the keys after the query", 0},
    {"window", TYPE_SIZE, 0, FIELD(shape.window), " N", "keys seen, with --causal; 0: all", 0},
    {"seed", TYPE_SEED, 0, FIELD(seed), " N", "seed of the random inputs", 0},
    {"q", TYPE_TEXT, 0, FIELD(q), " FILE", "queries, [batch][heads][len][dim]", 0},
    {"k", TYPE_TEXT, 0, FIELD(k), " FILE", "keys, [batch][kv heads][len][dim]", 0},
    {"v", TYPE_TEXT, 0, FIELD(v), " FILE", "values, like the keys", 0},
    {"out", TYPE_TEXT, 0, FIELD(out), " FILE", "save the output", 0},
    {"lse", TYPE_TEXT, 0, FIELD(lse), " FILE", "save the log-sum-exp of every row", 0},
    {"block-q", TYPE_SIZE, 1, FIELD(block_q), " N", "queries in a tile", OPTION_BLOCK_Q},
    {"block-k", TYPE_SIZE, 1, FIELD(block_k), " N", "keys in a tile", OPTION_BLOCK_K},
    {"splits", TYPE_SIZE, 1, FIELD(splits), " N", "parts of the keys", OPTION_SPLITS},
    {"page", TYPE_SIZE, 1, FIELD(page), " N", "tokens in a page", OPTION_PAGE},
    {"threads", TYPE_COUNT, 0, FIELD(threads), " N", "worker threads; 0: all", OPTION_THREADS},
    {"backend", TYPE_BACKEND, 0, FIELD(backend), "=NAME", "auto, cpu, simt or cuda", 0},
    {"repeats", TYPE_COUNT, 1, FIELD(repeats), " N", "timed runs; below 10 only with --quick", 0},
    {"quick", TYPE_TRUE, 0, FIELD(quick), "",
     "smaller defaults, within 5 s; a size you give takes its time", 0},
    {"csv", TYPE_TEXT, 0, FIELD(csv), " FILE", "save the measurements", 0},
    {"plot", TYPE_PLOT, 0, FIELD(plot), "[=KIND]", "draw: term (if bare), svg or png", 0},
    {"help", TYPE_HELP, 0, 0, "", "print this text", 0},
};

static const char *const backend_names[] = {"auto", "cpu", "simt", "cuda"};
static const char *const plot_names[] = {"none", "term", "svg", "png"};

// What has been seen of the command line.
typedef struct Parser {
    Options *options;
    const Program *program;
    bool seen[FLAG_COUNT];
    int64_t len; // of --len
} Parser;

// Prints "PROGRAM: message (see PROGRAM --help)" as one line on stderr and exits 2.
static _Noreturn void fail(const Program *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void fail(const Program *program, const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    for (char *c = message; *c != '\0'; c++) {
        *c = *c == '\n' ? ' ' : *c;
    }
    fprintf(stderr, "%s: %s (see %s --help)\n", program->name, message, program->name);
    exit(2);
}

// ---- values -------------------------------------------------------------------------------------

// The whole text as a decimal integer in [low, high], or an error.
static int64_t parse_integer(const Program *program, const char *name, const char *text,
                             int64_t low, int64_t high) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0') {
        fail(program, "--%s '%s': must be an integer", name, text);
    }
    if (value < low) {
        fail(program, "--%s %s: must be at least %lld", name, text, (long long)low);
    }
    if (errno == ERANGE || value > high) {
        fail(program, "--%s %s: must be at most %lld", name, text, (long long)high);
    }
    return value;
}

static uint64_t parse_seed(const Program *program, const char *text) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || strchr(text, '-') != NULL) {
        fail(program, "--seed '%s': must be an integer, 0 or more", text);
    }
    if (errno == ERANGE) {
        fail(program, "--seed %s: must be at most 18446744073709551615", text);
    }
    return value;
}

static double parse_scale(const Program *program, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0') {
        fail(program, "--scale '%s': must be a number", text);
    }
    if (!isfinite(value) || value < 0) {
        fail(program, "--scale %s: must be finite and at least 0", text);
    }
    return value;
}

// The index of `text` among names[first..3], or an error that lists them in `choices`.
static int parse_name(const Program *program, const char *name, const char *text,
                      const char *const names[4], int first, const char *choices) {
    for (int i = first; i < 4; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    fail(program, "--%s '%s': must be %s", name, text, choices);
}

// Takes one flag and its value (NULL where it has none).
static void take_flag(Parser *parser, FlagId id, const char *text) {
    const Program *program = parser->program;
    Options *options = parser->options;
    const Flag *flag = &flags[id];
    void *field = (char *)options + flag->field;
    if (flag->needs != 0 && (program->flags & flag->needs) == 0) {
        fail(program, "--%s: does not apply to this program", flag->name);
    }
    parser->seen[id] = true;
    switch (flag->type) {
    case TYPE_SIZE:
        *(int64_t *)field = parse_integer(program, flag->name, text, flag->low, INT32_MAX);
        break;
    case TYPE_COUNT:
        *(int *)field = (int)parse_integer(program, flag->name, text, flag->low, TIMER_MAX_RUNS);
        break;
    case TYPE_TEXT:
        *(const char **)field = text;
        break;
    case TYPE_TRUE:
        *(bool *)field = true;
        break;
    case TYPE_LEN:
        parser->len = parse_integer(program, flag->name, text, flag->low, INT32_MAX);
        break;
    case TYPE_SEED:
        options->seed = parse_seed(program, text);
        break;
    case TYPE_SCALE:
        options->shape.scale = parse_scale(program, text);
        break;
    case TYPE_DTYPE:
        if (!dtype_parse(text, &options->dtype)) {
            fail(program, "--dtype '%s': must be f32, f16 or bf16", text);
        }
        break;
    case TYPE_BACKEND:
        options->backend = (Backend)parse_name(program, "backend", text, backend_names, 0,
                                               "auto, cpu, simt or cuda");
        break;
    case TYPE_PLOT:
        options->plot = PLOT_TERM;
        if (text != NULL) {
            options->plot = (PlotKind)parse_name(program, "plot", text, plot_names, PLOT_TERM,
                                                 "term, svg or png");
        }
        break;
    case TYPE_HELP:
        break;
    }
}

// ---- help ---------------------------------------------------------------------------------------

// The default of a flag as text, "" where there is none to show; `text` holds 32 bytes.
static const char *default_text(const Options *options, const Flag *flag, char *text) {
    const void *field = (const char *)options + flag->field;
    switch (flag->type) {
    case TYPE_SIZE:
        if (*(const int64_t *)field < flag->low) { // the program chooses
            return "chosen";
        }
        snprintf(text, 32, "%lld", (long long)*(const int64_t *)field);
        return text;
    case TYPE_COUNT:
        snprintf(text, 32, "%d", *(const int *)field);
        return text;
    case TYPE_SEED:
        snprintf(text, 32, "%llu", (unsigned long long)options->seed);
        return text;
    case TYPE_SCALE:
        snprintf(text, 32, "%g", options->shape.scale);
        return text;
    case TYPE_DTYPE:
        return dtype_name(options->dtype);
    case TYPE_BACKEND:
        return backend_names[options->backend];
    default:
        return "";
    }
}

static _Noreturn void print_help(const Options *options, const Program *program) {
    printf("%s: %s\n%s\n\nUsage: ./%s [flags]      defaults are in [brackets]\n", program->name,
           program->title, program->summary, program->name);
    for (int id = 0; id < FLAG_COUNT; id++) {
        const Flag *flag = &flags[id];
        if (id == FLAG_BATCH) {
            printf("\nThe problem, with seeded random inputs\n");
        } else if (id == FLAG_Q) {
            printf("\nThe problem, from NPY files of NumPy, which decide every size\n"
                   "(PyTorch: save t.numpy() with numpy.save)\n");
        } else if (id == FLAG_BLOCK_Q) {
            printf("\nThe run\n");
        }
        if (flag->needs != 0 && (program->flags & flag->needs) == 0) {
            continue;
        }
        char left[32], text[32];
        snprintf(left, sizeof left, "--%s%s", flag->name, flag->value);
        const char *value = default_text(options, flag, text);
        if (*value == '\0') {
            printf("  %-16s%s\n", left, flag->help);
        } else {
            printf("  %-16s%-40s[%s]\n", left, flag->help, value);
        }
    }
    exit(fflush(stdout) == 0 ? 0 : 2);
}

// ---- the command line as a whole ----------------------------------------------------------------

// Reports what getopt_long did not accept. `id` is optopt.
static _Noreturn void fail_unknown(const Program *program, int result, int id, char **argv) {
    if (result == ':') {
        fail(program, "--%s: needs a value", flags[id - FIRST_FLAG].name);
    }
    if (id >= FIRST_FLAG) {
        fail(program, "--%s: takes no value", flags[id - FIRST_FLAG].name);
    }
    if (id != 0) {
        fail(program, "-%c: unknown flag", id);
    }
    fail(program, "%s: unknown flag, or short for more than one", argv[optind - 1]);
}

// Reads argv flag by flag; --help ends the program.
static void read_flags(Parser *parser, int argc, char **argv) {
    const Options defaults = *parser->options;
    struct option table[FLAG_COUNT + 1] = {0};
    for (int id = 0; id < FLAG_COUNT; id++) {
        ValueType type = flags[id].type;
        table[id].name = flags[id].name;
        table[id].has_arg = type == TYPE_PLOT                        ? optional_argument
                            : type == TYPE_TRUE || type == TYPE_HELP ? no_argument
                                                                     : required_argument;
        table[id].val = FIRST_FLAG + id;
    }
    int result;
    while ((result = getopt_long(argc, argv, ":h", table, NULL)) != -1) {
        if (result == 'h' || result == FIRST_FLAG + FLAG_HELP) {
            print_help(&defaults, parser->program);
        }
        if (result >= FIRST_FLAG) {
            take_flag(parser, (FlagId)(result - FIRST_FLAG), optarg);
        } else {
            fail_unknown(parser->program, result, optopt, argv);
        }
    }
    if (optind < argc) {
        bool plot = parser->seen[FLAG_PLOT];
        fail(parser->program, "'%s': unexpected argument%s", argv[optind],
             plot ? "; a kind of plot is given as --plot=KIND" : "; flags begin with --");
    }
}

// --q, --k and --v come together, and no flag may contradict them.
static void check_files(const Parser *parser) {
    if (!parser->seen[FLAG_Q] && !parser->seen[FLAG_K] && !parser->seen[FLAG_V]) {
        return;
    }
    for (int id = FLAG_Q; id <= FLAG_V; id++) {
        if (!parser->seen[id]) {
            fail(parser->program, "--%s: is missing; --q, --k and --v come together",
                 flags[id].name);
        }
    }
    for (int id = FLAG_BATCH; id <= FLAG_DIM; id++) {
        if (parser->seen[id]) {
            fail(parser->program, "--%s: the files of --q, --k and --v decide every size",
                 flags[id].name);
        }
    }
    if (parser->seen[FLAG_SEED]) {
        fail(parser->program, "--seed: has no use beside --q, --k and --v");
    }
}

// Fills in what follows from other flags, and checks the combinations.
static void settle(Parser *parser) {
    Options *options = parser->options;
    const Program *program = parser->program;
    const bool *seen = parser->seen;
    AttnShape *shape = &options->shape;
    if (seen[FLAG_LEN]) {
        shape->len_q = seen[FLAG_QUERIES] ? shape->len_q : parser->len;
        shape->len_kv = seen[FLAG_KEYS] ? shape->len_kv : parser->len;
    }
    if (seen[FLAG_HEADS] && !seen[FLAG_KV_HEADS]) {
        shape->heads_kv = shape->heads_q;
    }
    options->shape_given = false;
    for (int id = FLAG_BATCH; id <= FLAG_DIM; id++) {
        options->shape_given |= seen[id];
    }
    if (shape->window > 0 && !shape->causal) {
        fail(program, "--window %lld: needs --causal", (long long)shape->window);
    }
    if (options->repeats < FEWEST_REPEATS && !options->quick) {
        fail(program, "--repeats %d: must be at least %d without --quick", options->repeats,
             FEWEST_REPEATS);
    }
    check_files(parser);
    if (options->q == NULL && attn_check_shape(shape) != ATTN_OK) {
        fail(program, "%s", attn_last_error());
    }
}

// Fails early when a file cannot be created or replaced.
static void check_output(const Program *program, const char *flag, const char *path) {
    struct stat info;
    if (path == NULL) {
        return;
    }
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) {
            fail(program, "--%s %s: is a directory", flag, path);
        }
        if (access(path, W_OK) != 0) {
            fail(program, "--%s %s: cannot be written: %s", flag, path, strerror(errno));
        }
        return;
    }
    char copy[PATH_BYTES];
    if (snprintf(copy, sizeof copy, "%s", path) >= PATH_BYTES) {
        fail(program, "--%s: the path is too long", flag);
    }
    const char *folder = dirname(copy);
    if (*path == '\0' || path[strlen(path) - 1] == '/' || access(folder, W_OK | X_OK) != 0) {
        fail(program, "--%s '%s': cannot be written: %s", flag, path, strerror(errno));
    }
}

// Whether two paths name one file; of two that do not exist yet, whether they would.
static bool same_file(const char *a, const char *b) {
    struct stat info_a, info_b;
    const bool a_exists = stat(a, &info_a) == 0, b_exists = stat(b, &info_b) == 0;
    if (a_exists != b_exists) {
        return false;
    }
    if (!a_exists) {
        char copy_a[PATH_BYTES], copy_b[PATH_BYTES];
        const char *name_a = strrchr(a, '/'), *name_b = strrchr(b, '/');
        if (strcmp(name_a ? name_a + 1 : a, name_b ? name_b + 1 : b) != 0) {
            return false;
        }
        snprintf(copy_a, sizeof copy_a, "%s", a);
        snprintf(copy_b, sizeof copy_b, "%s", b);
        if (stat(dirname(copy_a), &info_a) != 0 || stat(dirname(copy_b), &info_b) != 0) {
            return strcmp(a, b) == 0;
        }
    }
    return info_a.st_dev == info_b.st_dev && info_a.st_ino == info_b.st_ino;
}

// An output may not replace an input or another output.
static void check_outputs(const Program *program, const Options *options) {
    enum { FIRST_OUTPUT = 3, FILES = 6 };
    const char *names[FILES] = {"q", "k", "v", "out", "lse", "csv"};
    const char *paths[FILES] = {options->q,   options->k,   options->v,
                                options->out, options->lse, options->csv};
    for (int i = FIRST_OUTPUT; i < FILES; i++) {
        check_output(program, names[i], paths[i]);
        for (int j = 0; j < i; j++) {
            if (paths[i] != NULL && paths[j] != NULL && same_file(paths[j], paths[i])) {
                fail(program, "--%s and --%s name the same file, %s", names[j], names[i], paths[i]);
            }
        }
    }
}

void options_parse(Options *options, const Program *program, int argc, char **argv) {
    Parser parser = {.options = options, .program = program};
    read_flags(&parser, argc, argv);
    settle(&parser);
    check_outputs(program, options);
}
