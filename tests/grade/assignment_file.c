// Reading tests/grade/chNN/assignment.txt. A line is a setting, a comment after `#`, or empty; what
// is not understood ends the program with the line's number and what would be right.
#include "tests/grade/assignment.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_WORDS = 12, MAX_WORTH = 1000 * POINT, DAY = 86400, HOUR = 3600 };

static const size_t file_limit = 64 << 10;

typedef struct Reader {
    const char *path;
    int line;
    Settings settings;
    int due_line; // the lines that may come once; 0: not yet
    int late_line;
    int seed_line;
} Reader;

_Noreturn void setting_mistake(const char *path, int line, const char *format, ...) {
    char text[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    die("%s:%d:\n%s", path, line, text);
}

// ---- one line -----------------------------------------------------------------------------------

// Splits a line at blanks and commas. False when there are more than MAX_WORDS words.
static bool split(char *line, char **words, int *count) {
    char *rest = NULL;

    *count = 0;
    for (char *word = strtok_r(line, " \t\r,", &rest); word != NULL;
         word = strtok_r(NULL, " \t\r,", &rest)) {
        if (*count == MAX_WORDS) {
            return false;
        }
        words[(*count)++] = word;
    }
    return true;
}

// "2", "2.5" or "0.25" in hundredths; -1 for anything else and for more than MAX_WORTH.
static int parse_worth(const char *text) {
    int value = 0;
    int digits = 0;
    int decimals = 0;

    for (; isdigit((unsigned char)*text) && digits < 5; text++, digits++) {
        value = 10 * value + (*text - '0');
    }
    value *= POINT;
    if (digits > 0 && *text == '.' && isdigit((unsigned char)text[1])) {
        for (text++; isdigit((unsigned char)*text) && decimals < 2; text++, decimals++) {
            value += (*text - '0') * (decimals == 0 ? 10 : 1);
        }
    }
    return digits > 0 && *text == '\0' && value <= MAX_WORTH ? value : -1;
}

// "10" or "10%", from 1 to 100; -1 for anything else.
static int parse_percent(const char *text) {
    char *end;
    const long value = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : -1;

    if (value < 1 || value > 100 || (*end != '\0' && strcmp(end, "%") != 0)) {
        return -1;
    }
    return (int)value;
}

// Adds what the line sets for "lab1" or "lab1.three_keys".
static void add_setting(Reader *reader, const char *place, int worth) {
    const size_t length = strcspn(place, ".");
    Settings *settings = &reader->settings;
    Setting setting = {.worth = worth, .line = reader->line};

    if (length == 0 || (place[length] == '.' && place[length + 1] == '\0')) {
        setting_mistake(reader->path, reader->line,
                        "`%.40s` is neither LAB nor LAB.TEST, like lab1.three_keys", place);
    }
    setting.lab = format_text("%.*s", (int)length, place);
    setting.test = place[length] == '.' ? copy_text(place + length + 1) : NULL;
    for (size_t i = 0; i < settings->count; i++) {
        const Setting *other = &settings->setting[i];
        const bool same_test = setting.test == NULL || other->test == NULL
                                   ? setting.test == other->test
                                   : strcmp(setting.test, other->test) == 0;

        if (same_test && strcmp(setting.lab, other->lab) == 0 &&
            (worth < 0) == (other->worth < 0)) {
            setting_mistake(reader->path, reader->line,
                            "`%.80s` is set in line %d already; leave one of the two", place,
                            other->line);
        }
    }
    settings->setting = grown(settings->setting, settings->count, sizeof(Setting));
    settings->setting[settings->count++] = setting;
}

static void take_points(Reader *reader, char **words, int count) {
    const int worth = count == 3 ? parse_worth(words[2]) : -1;

    if (count != 3) {
        setting_mistake(reader->path, reader->line,
                        "expected `points LAB NUMBER` or `points LAB.TEST NUMBER`,\n"
                        "like `points lab1 10` or `points lab1.three_keys 2`");
    }
    if (worth < 0) {
        setting_mistake(reader->path, reader->line,
                        "points `%.20s`: expected 0 to %d, with two decimals at most", words[2],
                        MAX_WORTH / POINT);
    }
    add_setting(reader, words[1], worth);
}

static void take_hidden(Reader *reader, char **words, int count) {
    if (count < 2) {
        setting_mistake(reader->path, reader->line,
                        "expected `hidden LAB.TEST`, like `hidden lab2.every_block`");
    }
    for (int i = 1; i < count; i++) {
        if (strchr(words[i], '.') == NULL) {
            setting_mistake(reader->path, reader->line,
                            "hidden `%.40s`: expected LAB.TEST, one test of the lab", words[i]);
        }
        add_setting(reader, words[i], -1);
    }
}

// A line of which there may be one.
static void take_once(const Reader *reader, int *line, const char *name) {
    if (*line != 0) {
        setting_mistake(reader->path, reader->line,
                        "`%s` is set in line %d already; leave one of the two", name, *line);
    }
    *line = reader->line;
}

static void take_due(Reader *reader, Assignment *assignment, const char *rest) {
    take_once(reader, &reader->due_line, "due");
    if (!parse_moment(rest, &assignment->due_moment)) {
        setting_mistake(reader->path, reader->line,
                        "due `%.40s`: expected a date and a time,\nlike `due 2027-03-01 23:59`,\n"
                        "or with an offset from UTC `due 2027-03-01 23:59 -08:00`",
                        rest);
    }
    assignment->due = copy_text(rest);
}

static void take_late(Reader *reader, Assignment *assignment, char **words, int count) {
    const bool has_most =
        count == 7 && strcmp(words[4], "at") == 0 && strcmp(words[5], "most") == 0;
    const bool form = (count == 4 || has_most) && strcmp(words[2], "per") == 0;
    const bool day = form && strcmp(words[3], "day") == 0;
    const int percent = form ? parse_percent(words[1]) : -1;
    const int most = has_most ? parse_percent(words[6]) : 100;

    take_once(reader, &reader->late_line, "late");
    if (percent < 0 || most < percent || (!day && strcmp(words[3], "hour") != 0)) {
        setting_mistake(reader->path, reader->line,
                        "expected `late N per day, at most M` or `late N per hour, at most M`:\n"
                        "the percent of the score that is taken off, 1 to 100, N not above M;\n"
                        "without `at most` M is 100");
    }
    assignment->percent = percent;
    assignment->period = day ? DAY : HOUR;
    assignment->most = most;
}

static void take_seed(Reader *reader, Assignment *assignment, char **words, int count) {
    take_once(reader, &reader->seed_line, "seed");
    assignment->own_seeds = count == 2 && strcmp(words[1], "student") == 0;
    if (count != 2 || (!assignment->own_seeds && strcmp(words[1], "fixed") != 0)) {
        setting_mistake(reader->path, reader->line,
                        "expected `seed fixed` (the same random cases for all) or `seed student`");
    }
}

static void take_line(Reader *reader, Assignment *assignment, char *line) {
    char *words[MAX_WORDS];
    char *copy;
    int count;

    line[strcspn(line, "#")] = '\0';
    line += strspn(line, " \t\r");
    for (char *end = line + strlen(line); end > line && isspace((unsigned char)end[-1]);) {
        *--end = '\0';
    }
    if (*line == '\0') {
        return;
    }
    copy = copy_text(line);
    if (!split(copy, words, &count) || count == 0) {
        setting_mistake(reader->path, reader->line, "expected a setting of at most %d words",
                        MAX_WORDS);
    }
    if (strcmp(words[0], "points") == 0) {
        take_points(reader, words, count);
    } else if (strcmp(words[0], "hidden") == 0) {
        take_hidden(reader, words, count);
    } else if (strcmp(words[0], "due") == 0) {
        line += strlen("due");
        take_due(reader, assignment, line + strspn(line, " \t,"));
    } else if (strcmp(words[0], "late") == 0) {
        take_late(reader, assignment, words, count);
    } else if (strcmp(words[0], "seed") == 0) {
        take_seed(reader, assignment, words, count);
    } else {
        setting_mistake(reader->path, reader->line,
                        "`%.40s` is no setting; there are points, hidden, due, late and seed",
                        words[0]);
    }
    free(copy);
}

// ---- the file -----------------------------------------------------------------------------------

// The file's text, to be freed; NULL when there is no file.
static char *read_text(const char *path) {
    char *text = read_file(path, file_limit);
    struct stat info;

    if (text == NULL && errno == ENOENT) {
        return NULL;
    }
    if (text == NULL || stat(path, &info) != 0 || (size_t)info.st_size != strlen(text)) {
        die("%s: too large, or not text: write it anew, a line a setting", path);
    }
    make_printable(text);
    return text;
}

Assignment read_assignment(const char *chapter) {
    char *path = format_text("tests/grade/%s/assignment.txt", chapter);
    char *text = read_text(path);
    char *rest = text;
    char *line;
    Assignment assignment = {.chapter = copy_text(chapter)};
    Reader reader = {.path = path};

    while (text != NULL && (line = strsep(&rest, "\n")) != NULL) {
        reader.line++;
        take_line(&reader, &assignment, line);
    }
    if (reader.late_line != 0 && reader.due_line == 0) {
        setting_mistake(path, reader.late_line, "`late` needs a line `due DATE TIME` as well");
    }
    reader.settings.path = path;
    plan_tests(&assignment, &reader.settings);
    for (size_t i = 0; i < reader.settings.count; i++) {
        free(reader.settings.setting[i].lab);
        free(reader.settings.setting[i].test);
    }
    free(reader.settings.setting);
    free(text);
    free(path);
    return assignment;
}
