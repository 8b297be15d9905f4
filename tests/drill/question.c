// What a question is made of, its units, and numbers as text: see drill.h.
#include "tests/drill/drill.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const double kibi = 1024;

static const Unit units[] = {
    {"B", KIND_BYTES, 1},
    {"KiB", KIND_BYTES, 1024},
    {"MiB", KIND_BYTES, 1048576},
    {"GiB", KIND_BYTES, 1073741824},
    {"TiB", KIND_BYTES, 1099511627776},
    {"MFLOP", KIND_FLOP, 1e6},
    {"GFLOP", KIND_FLOP, 1e9},
    {"TFLOP", KIND_FLOP, 1e12},
    {"FLOP/B", KIND_INTENSITY, 1},
    {"us", KIND_TIME, 1e-6},
    {"ms", KIND_TIME, 1e-3},
    {"%", KIND_PERCENT, 1},
    {"", KIND_PLAIN, 1},
};

Unit find_unit(const char *name) {
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(units[i].name, name) == 0) {
            return units[i];
        }
    }
    return (Unit){name, KIND_COUNT, 1};
}

const char *bytes_unit(double bytes) {
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int i = 0;
    for (; i < 4 && bytes >= kibi; i++) {
        bytes /= kibi;
    }
    return names[i];
}

// ---- building -----------------------------------------------------------------------------------

// Appends to a text of `room` bytes; *cut says when it did not fit.
static void append(char *text, size_t room, bool *cut, const char *format, va_list arguments) {
    const size_t used = strlen(text);
    const int length = vsnprintf(text + used, room - used, format, arguments);
    *cut |= length < 0 || (size_t)length >= room - used;
}

void ask(Question *question, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append(question->text, sizeof question->text, &question->cut, format, arguments);
    va_end(arguments);
}

void reason(Question *question, const char *format, ...) {
    va_list arguments;
    const size_t used = strlen(question->chain);
    if (used > 0 && used + 1 < sizeof question->chain) {
        memcpy(question->chain + used, "\n", 2);
    }
    va_start(arguments, format);
    append(question->chain, sizeof question->chain, &question->cut, format, arguments);
    va_end(arguments);
}

void expect_mistake(Question *question, double value, const char *why) {
    if (question->mistake_count < MOST_MISTAKES) {
        question->mistakes[question->mistake_count++] = (Mistake){value, why};
    } else {
        question->cut = true;
    }
}

void answer_near(Question *question, double value, const char *unit) {
    question->value = value;
    question->unit = find_unit(unit);
    question->exact = false;
}

void answer_exactly(Question *question, double value, const char *unit) {
    answer_near(question, value, unit);
    question->exact = true;
}

// ---- numbers as text ----------------------------------------------------------------------------

// How many of this character end a text.
static size_t trailing(const char *text, char c) {
    size_t count = 0;
    for (size_t at = strlen(text); at > 0 && text[at - 1] == c; at--) {
        count++;
    }
    return count;
}

char *format_number(char *text, double value) {
    const double size = fabs(value);
    if (size >= 100 || value == nearbyint(value)) {
        snprintf(text, NUMBER_BYTES, "%.0f", value);
    } else {
        const int digits = 2 - (int)floor(log10(size));
        snprintf(text, NUMBER_BYTES, "%.*f", digits, value);
        if (fabs(strtod(text, NULL) - value) <= 1e-12 * size) { // exact: "4.8", not "4.80"
            text[strlen(text) - trailing(text, '0')] = '\0';
        }
    }
    return text;
}

char *format_whole(char *text, double value) {
    int power = 0;
    if (value >= 1024 && frexp(value, &power) == 0.5) {
        snprintf(text, NUMBER_BYTES, "%.0f = 2^%d", value, power - 1);
    } else {
        snprintf(text, NUMBER_BYTES, "%.0f", value);
    }
    return text;
}

char *format_answer(char *text, const Question *question) {
    const char *unit = question->unit.name;
    const double value = question->value / question->unit.scale;
    format_number(text, value);
    if (question->unit.kind != KIND_PLAIN) {
        const size_t used = strlen(text);
        snprintf(text + used, NUMBER_BYTES - used, " %s", unit);
        if (question->unit.kind == KIND_COUNT && value == 1) { // "1 key", "1 query"
            const bool ies = strlen(unit) > 3 && strcmp(unit + strlen(unit) - 3, "ies") == 0;
            snprintf(text + strlen(text) - (ies ? 3 : 1), 3, "%s", ies ? "y" : "");
        }
    }
    return text;
}

const char *type_name(int64_t bytes) {
    return bytes == 1 ? "8-bit" : bytes == 2 ? "16-bit" : "32-bit";
}
