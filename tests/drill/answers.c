// What a learner types: a number, perhaps with a prefix and a unit; and what is told of a wrong
// one. See drill.h.
#include "tests/drill/drill.h"
#include "tests/grade/numbers.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// ---- the number ---------------------------------------------------------------------------------

static const char *skip_spaces(const char *at) {
    while (isspace((unsigned char)*at)) {
        at++;
    }
    return at;
}

// A number, or two with one operator: "2^20", "1/3".
static const char *read_value(const char *at, double *value) {
    double second = 0;
    at = read_number(at, value);
    if (at == NULL) {
        return NULL;
    }
    const char *sign = skip_spaces(at);
    if (*sign != '^' && *sign != '/') {
        return at;
    }
    at = read_number(skip_spaces(sign + 1), &second);
    if (at == NULL) {
        return NULL;
    }
    *value = *sign == '^' ? pow(*value, second) : *value / second;
    return isfinite(*value) ? at : NULL;
}

// ---- the unit -----------------------------------------------------------------------------------

typedef struct Word {
    const char *text;
    double scale;
} Word;

// What may stand for one base unit, and whether prefixes may stand before it.
static const Word byte_words[] = {{"B", 1}, {"byte", 1}, {"bytes", 1}, {NULL, 0}};
static const Word flop_words[] = {{"FLOP", 1}, {"FLOPs", 1}, {NULL, 0}};
static const Word intensity_words[] = {{"FLOP/B", 1},  {"FLOP/byte", 1},  {"FLOP per byte", 1},
                                       {"FLOPs/B", 1}, {"FLOPs/byte", 1}, {NULL, 0}};
static const Word time_words[] = {{"s", 1},
                                  {"seconds", 1},
                                  {"ms", 1e-3},
                                  {"us", 1e-6},
                                  {"\xc2\xb5s", 1e-6}, // the micro sign, and the Greek letter
                                  {"\xce\xbcs", 1e-6},
                                  {"ns", 1e-9},
                                  {NULL, 0}};
static const Word percent_words[] = {{"%", 1}, {"percent", 1}, {NULL, 0}};
static const Word plain_words[] = {{"x", 1}, {"times", 1}, {NULL, 0}};
static const Word *const kind_words[] = {byte_words, flop_words,    intensity_words,
                                         time_words, percent_words, plain_words};

static const Word prefixes[] = {{"Ki", 1024}, {"Mi", 1048576}, {"Gi", 1073741824}, {"k", 1e3},
                                {"M", 1e6},   {"G", 1e9},      {"T", 1e12},        {NULL, 0}};
static const Word tebi = {"Ti", 1099511627776};

// Things that are counted under more than one name.
static const char *const same_things[][4] = {{"keys", "tokens", "positions"},
                                             {"slots", "tokens"},
                                             {"pages", "blocks"},
                                             {"queries", "rows"},
                                             {"entries", "lookups", "pages", "blocks"}};

// A thing in the plural or the singular: "keys", "key"; "entries", "entry".
static bool is_thing(const char *text, const char *thing) {
    const size_t length = strlen(thing), given = strlen(text);
    const bool ies = length > 3 && strcmp(thing + length - 3, "ies") == 0;
    return strcasecmp(text, thing) == 0 ||
           (ies ? given == length - 2 && strncasecmp(text, thing, length - 3) == 0 &&
                      (text[given - 1] | 0x20) == 'y'
                : given == length - 1 && strncasecmp(text, thing, length - 1) == 0);
}

static bool counts_thing(const char *text, const char *thing) {
    if (is_thing(text, thing)) {
        return true;
    }
    for (size_t i = 0; i < sizeof same_things / sizeof same_things[0]; i++) {
        bool given = false;
        for (int j = 0; j < 4 && same_things[i][j] != NULL; j++) {
            given |= is_thing(text, same_things[i][j]);
        }
        if (given && strcmp(same_things[i][0], thing) == 0) {
            return true;
        }
    }
    return false;
}

// The scale of a unit without a prefix; 0 when it is not one of this kind.
static double word_scale(const Unit *unit, const char *text) {
    if (unit->kind == KIND_COUNT) {
        return counts_thing(text, unit->name) ? 1 : 0;
    }
    for (const Word *word = kind_words[unit->kind]; word->text != NULL; word++) {
        if (strcasecmp(text, word->text) == 0) {
            return word->scale;
        }
    }
    return 0;
}

// The scale of what stands behind a number, in base units: "MiB", "k", "". 0: it does not belong to
// a number of this kind. Capitals do not matter: bytes are asked for, never bits.
static double read_unit(const Unit *unit, const char *text) {
    if (*text == '\0') {
        return unit->scale;
    }
    double scale = word_scale(unit, text);
    if (scale != 0 || unit->kind == KIND_TIME || unit->kind == KIND_PERCENT) {
        return scale;
    }
    const Word *prefix = strncasecmp(text, tebi.text, 2) == 0 ? &tebi : prefixes;
    while (prefix->text != NULL && strncasecmp(text, prefix->text, strlen(prefix->text)) != 0) {
        prefix++;
    }
    if (prefix->text == NULL) {
        return 0;
    }
    text = skip_spaces(text + strlen(prefix->text));
    return *text == '\0' ? prefix->scale : prefix->scale * word_scale(unit, text);
}

// ---- right or wrong -----------------------------------------------------------------------------

// Shares by which two numbers may differ and be taken for one: of what was computed, of what was
// typed with three figures, and with two.
static const double same = 1e-9, typed = 0.006, rounded = 0.02;

// One unit in the second figure of a number: 10 of 128, 1 of 99.
static double second_figure(double value) {
    return pow(10, floor(log10(fabs(value))) - 1);
}

bool is_accepted(const Question *question, double value, double scale) {
    const double got = value / scale, want = question->value / scale;
    if (question->exact || got == 0 || want == 0) {
        return is_near(got, want, same);
    }
    // At most half a unit in the second figure, of the number typed and of the right one.
    return fabs(got - want) <= 0.5000001 * fmin(second_figure(got), second_figure(want));
}

static const Factor percent_factors[] = {{100, "100 (percent are asked for)"}};

// Says by which of the factors the answer is off. False when by none.
static bool tell_factor(const Factor *table, size_t count, double got, double want, double share,
                        char *why) {
    bool large = false;
    const Factor *factor = find_factor(table, count, got, want, share, &large);
    if (factor != NULL) {
        snprintf(why, TEXT_BYTES, "Too %s by a factor of %s.", large ? "large" : "small",
                 factor->name);
    }
    return factor != NULL;
}

static bool find_mistake(const Question *question, double got, char *why) {
    for (int i = 0; i < question->mistake_count; i++) {
        const Mistake *mistake = &question->mistakes[i];
        const double near = question->exact ? same : typed;
        if (is_near(got, mistake->value, near)) {
            snprintf(why, TEXT_BYTES, "%s", mistake->why);
            return true;
        }
    }
    return false;
}

// What is known of a wrong answer, both numbers in base units.
static void diagnose(const Question *question, double got, char *why) {
    const double want = question->value;
    const Kind kind = question->unit.kind;
    if (find_mistake(question, got, why)) {
        return;
    }
    if (question->exact && fabs(got - want) == 1) {
        snprintf(why, TEXT_BYTES, "Off by one.");
    } else if (want != 0 && is_near(-got, want, typed)) {
        snprintf(why, TEXT_BYTES, "Wrong sign.");
    } else if (kind == KIND_PERCENT) {
        tell_factor(percent_factors, 1, got, want, rounded, why);
    } else if (got != 0 && kind != KIND_PLAIN && !(question->exact && kind == KIND_COUNT) &&
               !(kind == KIND_BYTES &&
                 tell_factor(byte_factors, BYTE_FACTORS, got, want, typed, why))) {
        tell_factor(usual_factors, USUAL_FACTORS, got, want, rounded, why);
    }
}

// Forms that one answer may have in each of the units that are asked for.
static const char *const examples[][2] = {
    {"B", "520, 520 B or 0.52 kB"},
    {"KiB", "520, 520 KiB or 532 kB"},
    {"MiB", "520, 520 MiB or 545 MB"},
    {"GiB", "520, 520 GiB or 558 GB"},
    {"TiB", "520, 520 TiB or 572 TB"},
    {"MFLOP", "34, 34 MFLOP or 3.4e7 FLOP"},
    {"GFLOP", "34, 34 GFLOP or 3.4e10 FLOP"},
    {"TFLOP", "34, 34 TFLOP or 3.4e13 FLOP"},
    {"FLOP/B", "4096, 4.1k or 4.1e3"},
    {"us", "150, 150 us or 0.15 ms"},
    {"ms", "1.5, 1.5 ms or 1500 us"},
    {"%", "6 or 6 %"},
    {"", "0.335, 0.34 or 1/3"},
};

// The answer to a question of this kind as it may be typed.
static void show_forms(const Question *question, char *why) {
    const Unit *unit = &question->unit;
    const char *forms = "";
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        forms = strcmp(examples[i][0], unit->name) == 0 ? examples[i][1] : forms;
    }
    if (unit->kind == KIND_COUNT) {
        snprintf(why, TEXT_BYTES, "Type a number of %s, such as 1,024 or 1Ki.", unit->name);
    } else if (unit->kind == KIND_PLAIN) {
        snprintf(why, TEXT_BYTES, "Type a number without a unit, such as %s.", forms);
    } else {
        snprintf(why, TEXT_BYTES, "Type a number, in %s unless you say otherwise, such as %s.",
                 unit->name, forms);
    }
}

Verdict judge(const Question *question, const char *answer, char *why) {
    char text[128];
    double number = 0;
    why[0] = '\0';
    snprintf(text, sizeof text, "%s", skip_spaces(answer));
    for (size_t end = strlen(text); end > 0 && isspace((unsigned char)text[end - 1]); end--) {
        text[end - 1] = '\0';
    }
    const char *rest = read_value(text, &number);
    const double scale = rest == NULL ? 0 : read_unit(&question->unit, skip_spaces(rest));
    if (scale == 0) {
        show_forms(question, why);
        return ANSWER_UNREADABLE;
    }
    if (is_accepted(question, number * scale, scale)) {
        return ANSWER_RIGHT;
    }
    diagnose(question, number * scale, why);
    return ANSWER_WRONG;
}
