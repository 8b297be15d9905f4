// What ./ch03 shows of the partial results of one row: the worked table, merges in any order and
// grouping, and parts without keys. Each prints a section; an error ends the program as
// lesson_require does. True when every answer was right.
#ifndef CH03_PARTS_H
#define CH03_PARTS_H

#include "common/lesson.h"

#ifdef __cplusplus
extern "C" {
#endif

// Scores 1, 2 | 3, merged by merge_partials, beside two wrong ways.
void show_merge_by_hand(const Program *program);

// Random cuts of a row of 4,096 keys, merged in random chains, in random trees and all at once.
bool show_groupings(const Program *program, uint64_t seed);

// The same row with empty parts between, whose outputs are NaN.
bool show_empty_parts(const Program *program, uint64_t seed);

#ifdef __cplusplus
}
#endif

#endif
