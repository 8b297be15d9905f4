// Sizes by chance: see drill.h. Only whole numbers are drawn, so that a seed gives the same
// questions everywhere.
#include "tests/drill/drill.h"

#include <stdlib.h>
#include <string.h>

uint64_t draw_bits(Draw *draw) {
    uint64_t x = draw->state += 0x9e3779b97f4a7c15U;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

int64_t draw_below(Draw *draw, int64_t count) {
    return (int64_t)(draw_bits(draw) % (uint64_t)count); // the bias is below count / 2^64
}

// Records `value`, or the fixed value of this name in its place.
static int64_t record(Draw *draw, const char *name, int64_t value) {
    for (int i = 0; i < draw->fixed_count; i++) {
        if (strcmp(draw->fixed[i].name, name) == 0) {
            value = draw->fixed[i].value;
        }
    }
    if (draw->count == MOST_PARAMS) {
        abort(); // a shape of question with too many sizes
    }
    draw->drawn[draw->count++] = (Param){name, value};
    return value;
}

int64_t draw_range(Draw *draw, const char *name, int64_t low, int64_t high) {
    return record(draw, name, low + draw_below(draw, high - low + 1));
}

int64_t draw_power(Draw *draw, const char *name, int low, int high) {
    return record(draw, name, (int64_t)1 << (low + draw_below(draw, high - low + 1)));
}

int64_t draw_one_of(Draw *draw, const char *name, const int64_t *values, int count) {
    return record(draw, name, values[draw_below(draw, count)]);
}

int64_t draw_value(const Draw *draw, const char *name, int64_t otherwise) {
    for (int i = 0; i < draw->count; i++) {
        if (strcmp(draw->drawn[i].name, name) == 0) {
            return draw->drawn[i].value;
        }
    }
    return otherwise;
}
