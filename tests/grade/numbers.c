// Numbers as learners write them: see numbers.h.
#include "tests/grade/numbers.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

static bool is_exponent(const char *at) {
    const bool sign = at[0] != '\0' && (at[1] == '-' || at[1] == '+');
    return (*at == 'e' || *at == 'E') && isdigit((unsigned char)at[sign ? 2 : 1]);
}

const char *read_number(const char *text, double *value) {
    char digits[64];
    const size_t most = sizeof(digits) - 8; // leaves room for an exponent
    size_t length = 0;
    int group = 0; // digits since the last comma, or the start
    bool comma = false, point = false, any;
    const char *at = text;

    if (*at == '+' || *at == '-') {
        digits[length++] = *at++;
    }
    for (; isdigit((unsigned char)*at) || *at == ','; at++) {
        if (length == most || (*at == ',' && (comma ? group != 3 : group < 1 || group > 3))) {
            return NULL;
        }
        comma |= *at == ',';
        group = *at == ',' ? 0 : group + 1;
        if (*at != ',') {
            digits[length++] = *at;
        }
    }
    if (comma && group != 3) {
        return NULL;
    }
    any = group > 0;
    for (; isdigit((unsigned char)*at) || (*at == '.' && !point); at++) {
        if (length == most) {
            return NULL;
        }
        point |= *at == '.';
        any |= *at != '.';
        digits[length++] = *at;
    }
    if (any && is_exponent(at)) {
        digits[length++] = *at++;
        do {
            digits[length++] = *at++;
        } while (isdigit((unsigned char)*at) && length < sizeof(digits) - 1);
    }
    digits[length] = '\0';
    *value = any ? strtod(digits, NULL) : 0.0;
    return any && *at != '.' && isfinite(*value) ? at : NULL; // "1.2.3" is no number
}

bool is_near(double got, double want, double share) {
    return fabs(got - want) <= share * fabs(want);
}

const Factor usual_factors[USUAL_FACTORS] = {
    {2, "2"},
    {4, "4"},
    {8, "8"},
    {16, "16"},
    {1000, "1,000"},
    {1024, "1,024"},
    {1e6, "1,000,000"},
    {1048576, "1,048,576 = 2^20"},
    {1e9, "1,000,000,000"},
    {1073741824, "1,073,741,824 = 2^30"},
};

const Factor byte_factors[BYTE_FACTORS] = {
    {8, "8 (bits and bytes?)"},
    {1.024, "1.024: k is 1,000, Ki is 1,024"},
    {1.048576, "1.049: MB is 1,000,000 B, MiB is 1,048,576 B"},
    {1.073741824, "1.074: GB is 10^9 B, GiB is 2^30 B"},
};

const Factor *find_factor(const Factor *table, size_t count, double got, double want, double share,
                          bool *large) {
    for (size_t i = 0; i < count; i++) {
        *large = is_near(got, want * table[i].value, share);
        if (*large || is_near(got * table[i].value, want, share)) {
            return &table[i];
        }
    }
    return NULL;
}
