// A failure's message as evidence: the numbers that other machines and other right ways to write
// the code change are taken out, and two messages are compared number by number.
#include "tests/grade/recognise.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double deviation_tolerance = 0.01; // of two deviations, relative
static const double number_tolerance = 1e-3;    // of two other numbers with a fraction, relative
enum { DISTINCTIVE_DIGITS = 3 };

uint32_t text_hash(const char *text) {
    uint32_t hash = 2166136261U; // FNV-1a

    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 16777619U;
    }
    return hash;
}

// ---- taking out ---------------------------------------------------------------------------------

// The length of "lab1_name.c:23" or "lab1_name.cu:23:9" with the words that lead to it and a
// function's name behind it; 0 when `at` is no such place.
static size_t place_length(const char *at) {
    const size_t lead = strncmp(at, ", at ", 5) == 0 ? 5 : strncmp(at, " at ", 4) == 0 ? 4 : 0;
    const size_t name = strspn(at + lead, "abcdefghijklmnopqrstuvwxyz0123456789_");
    const char *end = at + lead + name;

    if (name == 0 || (strncmp(end, ".c:", 3) != 0 && strncmp(end, ".cu:", 4) != 0)) {
        return 0;
    }
    end = strchr(end, ':');
    while (*end == ':' && isdigit((unsigned char)end[1])) {
        end += 1 + strspn(end + 1, "0123456789");
    }
    if (strncmp(end, " in ", 4) == 0) {
        end += 4 + strcspn(end + 4, " )\n");
        end += strspn(end, ")");
    }
    end += lead == 0 && strncmp(end, ", ", 2) == 0 ? 2 : 0;
    return (size_t)(end - at);
}

// The length of "thread (3, 0, 0)", "block (0, 1, 0)", "offset 660", "lane 4", "after 10" or
// "address 0x7f00", and that of its word; 0 when `at` is nothing like it.
static size_t unit_length(const char *at, size_t *word) {
    static const struct {
        const char *lead;
        const char *number; // the characters that may follow
    } units[] = {
        {"thread (", "0123456789, "}, {"block (", "0123456789, "},
        {"offset ", "0123456789"},    {"lane ", "0123456789"},
        {"after ", "0123456789"},     {"address 0x", "0123456789abcdef"},
    };

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        const size_t lead = strlen(units[i].lead);
        const size_t digits =
            strncmp(at, units[i].lead, lead) == 0 ? strspn(at + lead, units[i].number) : 0;

        if (digits > 0) {
            *word = strcspn(at, " ");
            return lead + digits + (at[lead + digits] == ')' ? 1 : 0);
        }
    }
    return 0;
}

// Whether the text of a number has a fraction or an exponent.
static bool has_fraction(const char *number, const char *end) {
    return memchr(number, '.', (size_t)(end - number)) != NULL ||
           memchr(number, 'e', (size_t)(end - number)) != NULL;
}

// "got 1.25, expected 1.5 (off by 0.25, allowed 1e-06)" becomes "off by -0.25". A count stays
// as "got 3", and so does what many faults give: 0, NaN and infinite values. Returns the length
// that was replaced, 0 when `at` is not such a pair.
static size_t take_pair(Text *text, const char *at, double *allowed) {
    char *got_end;
    char *want_end;
    double got;
    double want;
    double off;
    int used = 0;

    if (strncmp(at, "got ", 4) != 0) {
        return 0;
    }
    got = strtod(at + 4, &got_end);
    if (got_end == at + 4 || strncmp(got_end, ", expected ", 11) != 0) {
        return 0;
    }
    want = strtod(got_end + 11, &want_end);
    if (want_end == got_end + 11) {
        return 0;
    }
    if (sscanf(want_end, " (off by %lf, allowed %lf)%n", &off, allowed, &used) == 2 ||
        sscanf(want_end, ", error %lf, bound %lf%n", &off, allowed, &used) == 2) {
        want_end += used;
    }
    if (got != 0.0 && isfinite(got) && isfinite(want) &&
        (used > 0 || has_fraction(at, got_end) || has_fraction(got_end + 11, want_end))) {
        text_format(text, "off by %.4g", got - want);
    } else if (isnan(got) || got == 0.0) {
        text_format(text, isnan(got) ? "got nan" : "got 0"); // whatever the sign
    } else {
        text_format(text, "%.*s", (int)(got_end - at), at);
    }
    return (size_t)(want_end - at);
}

char *as_evidence(const char *message, double *allowed) {
    const char *advice = strstr(message, "\nNaN is often memory");
    const char *end = advice != NULL ? advice : message + strlen(message);
    Text text = {0};

    *allowed = 0.0;
    text_add(&text, "", 0);
    while (message < end) {
        const bool in_word = text.length > 0 && isalnum((unsigned char)*message) &&
                             isalnum((unsigned char)text.data[text.length - 1]);
        size_t word = 0;
        size_t length = in_word ? 0 : place_length(message);

        if (length == 0 && !in_word) {
            length = take_pair(&text, message, allowed);
        }
        if (length == 0 && !in_word) {
            length = unit_length(message, &word);
            text_add(&text, message, word);
        }
        if (length > 0) {
            message += length;
        } else if (strncmp(message, "-nan", 4) == 0) {
            message++;
        } else if (*message == '\n' || *message == '\t') {
            text_format(&text, " / ");
            message++;
        } else {
            text_add(&text, message++, 1);
        }
    }
    return text.data;
}

// ---- comparing ----------------------------------------------------------------------------------

// Whether the number at `at` stands behind these words.
static bool stands_behind(const char *text, const char *at, const char *words) {
    const size_t length = strlen(words);

    return (size_t)(at - text) >= length && strncmp(at - length, words, length) == 0;
}

// Compares the two numbers that begin at *a and *b, and moves both past them.
static bool same_number(const char *a_text, const char **a, const char **b, double allowed) {
    char *a_end;
    char *b_end;
    const double x = strtod(*a, &a_end);
    const double y = strtod(*b, &b_end);
    const bool exact = !has_fraction(*a, a_end) && !has_fraction(*b, b_end);
    const double size = fmax(fabs(x), fabs(y));
    double tolerance = exact ? 0.0 : number_tolerance * size;

    if (stands_behind(a_text, *a, "off by ")) {
        tolerance = deviation_tolerance * size + 0.25 * allowed;
    }
    *a = a_end;
    *b = b_end;
    return fabs(x - y) <= tolerance;
}

// Whether a number begins here: a digit, or a sign before one, that is not inside of a word.
static bool begins_number(const char *text, const char *at) {
    const bool inside = at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_');

    return !inside &&
           (isdigit((unsigned char)*at) || (*at == '-' && isdigit((unsigned char)at[1])));
}

bool same_evidence(const char *a, const char *b, double allowed) {
    const char *x = a;
    const char *y = b;

    while (*x != '\0' && *y != '\0') {
        if (begins_number(a, x) && begins_number(b, y)) {
            if (!same_number(a, &x, &y, allowed)) {
                return false;
            }
        } else if (*x++ != *y++) {
            return false;
        }
    }
    return *x == *y;
}

// Behind the first of the words that stand before a result; NULL when there is none.
static const char *result_in(const char *evidence) {
    const char *off = strstr(evidence, "off by ");
    const char *got = strstr(evidence, "got ");

    return off != NULL ? off + strlen("off by ") : got != NULL ? got + strlen("got ") : NULL;
}

bool is_about_values(const char *evidence) {
    return result_in(evidence) != NULL;
}

bool is_distinctive(const char *evidence) {
    const char *at = result_in(evidence);
    int digits = 0;

    if (at == NULL) {
        return false;
    }
    for (at += strspn(at, "-0."); isdigit((unsigned char)*at) || *at == '.'; at++) {
        digits += *at != '.' ? 1 : 0;
    }
    return digits >= DISTINCTIVE_DIGITS;
}
