// What ./ch02 shows of single rows: the worked table, the size of the scores, the cost of dividing
// early, the order of the keys, and a row of a trained model. Each prints a section; an error ends
// the program as lesson_require does.
#ifndef CH02_ROWS_H
#define CH02_ROWS_H

#include "common/lesson.h"

#ifdef __cplusplus
extern "C" {
#endif

// Scores 1, 2 | 3, block after block, from online_softmax_update itself.
void show_worked_table(void);

// One problem with its queries multiplied: the kernel, safe softmax and no guard at all. True
// when the kernel's outputs were within their bounds.
bool show_large_scores(const Program *program, uint64_t seed, LessonKernel *kernel, void *context);

// One long row: dividing once against dividing after every block, then the keys in other orders.
void show_divisions_and_order(const Program *program, uint64_t seed);

// The last query of one head of `real` (causal, or no data when it was not found), key by key; the
// CSV series score, running_max and running_sum.
void show_real_row(const Program *program, const Problem *real, FILE *csv);

#ifdef __cplusplus
}
#endif

#endif
