// ./ch07, correctness: causal_attention in its three ways of visiting and block_sparse_attention
// against the float64 oracle, on the problem asked for and on small ones that put every mask, every
// relation of T and S, tails, rows without keys and every storage type in the way.
#include "chapters/ch07_masks/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Case {
    const char *name;
    AttnShape shape;
    DType dtype;
} Case;

static const int32_t lengths[] = {0, 37, 100};
static const Case cases[] = {
    {"T=S=130", {1, 1, 1, 130, 130, 64, 0, true, 0, NULL}, DTYPE_F32},
    {"chunk, T=70 S=200", {1, 1, 1, 70, 200, 40, 0, true, 0, NULL}, DTYPE_F32},
    {"decode, T=1 S=300", {1, 2, 1, 1, 300, 64, 0, true, 0, NULL}, DTYPE_F32},
    {"rows without keys", {1, 1, 1, 150, 70, 32, 0, true, 0, NULL}, DTYPE_F32},
    {"no keys, T=5 S=0", {1, 2, 2, 5, 0, 16, 0, true, 0, NULL}, DTYPE_F32},
    {"window 1", {1, 1, 1, 66, 66, 64, 0, true, 1, NULL}, DTYPE_F32},
    {"window 50", {1, 1, 1, 140, 140, 64, 0, true, 50, NULL}, DTYPE_F32},
    {"window 64, T=40 S=190", {1, 1, 1, 40, 190, 64, 0, true, 64, NULL}, DTYPE_F32},
    {"padding 0, 37, 100", {3, 1, 1, 40, 100, 64, 0, false, 0, lengths}, DTYPE_F32},
    {"padding, window 20", {3, 1, 1, 40, 100, 64, 0, true, 20, lengths}, DTYPE_F32},
    {"no mask, d=7, 4 on 2", {1, 4, 2, 33, 65, 7, 0, false, 0, NULL}, DTYPE_F32},
    {"f16, d=128", {1, 1, 1, 100, 130, 128, 0, true, 0, NULL}, DTYPE_F16},
    {"bf16, d=256, window 70", {1, 1, 1, 65, 65, 256, 0, true, 70, NULL}, DTYPE_BF16},
};
static const double DENSITY = 2.0 / 3; // of the random lists
enum { CASES = sizeof cases / sizeof cases[0], CELL = 16 };

// Runs a kernel on the problem and writes its larger error, of O and LSE, as a part of what is
// allowed into `cell`. *nans: elements that the inputs make NaN.
static bool check_kernel(const char *name, const Show *show, const MaskRun *run, char cell[CELL],
                         size_t *nans) {
    LessonCheck check;
    int block_q, block_k;
    MaskRun own = *run;
    causal_tile(run->problem->shape.dim, &block_q, &block_k);
    block_q = run->kernel == KERNEL_SPARSE ? BLOCK_SPARSE : block_q;
    lesson_require(show->program,
                   lesson_check(mask_attention, &own, run->problem, block_q, &check));
    const double o = check.o.worst_ratio, lse = check.lse.worst_ratio;
    snprintf(cell, CELL, "%.3f", o > lse ? o : lse);
    if (!check.passed) {
        snprintf(cell, CELL, "FAILED");
        report_text("%s, %s: %s", name, show_names[run->kernel],
                    check.o.message[0] ? check.o.message : check.lse.message);
    }
    *nans = check.required_nans;
    return check.passed;
}

// The list with which block_sparse_attention has to give what causal_attention gives: that of the
// shape, or every block where entries differ in length.
static void list_of(const Show *show, const AttnShape *shape, BlockList *list) {
    lesson_require(show->program, shape->kv_lens == NULL
                                      ? block_list_of_shape(list, shape)
                                      : block_list_random(list, shape, 1, false, 1));
}

// The list as the oracle takes it, [len_q][len_kv], not 0 where a key's block is listed. Freed by
// the caller.
static uint8_t *visible_of(const Show *show, const AttnShape *shape, const BlockList *list) {
    const size_t len_kv = (size_t)shape->len_kv;
    uint8_t *visible = calloc((size_t)shape->len_q * len_kv + 1, 1);
    if (visible == NULL) {
        lesson_require(show->program, attn_fail(ATTN_ERR_MEMORY, "no memory for a mask of bytes"));
        return NULL;
    }
    for (int64_t row = 0; row < shape->len_q; row++) {
        const int64_t i = row / BLOCK_SPARSE;
        for (int32_t at = list->offsets[i]; at < list->offsets[i + 1]; at++) {
            const int64_t first = (int64_t)list->blocks[at] * BLOCK_SPARSE;
            const int64_t rest = shape->len_kv - first;
            memset(visible + (size_t)row * len_kv + first, 1,
                   (size_t)(rest < BLOCK_SPARSE ? rest : BLOCK_SPARSE));
        }
    }
    return visible;
}

// The kernel on a random list, some of whose rows are empty.
static bool check_random_list(const char *name, const Show *show, Problem *problem, uint64_t seed,
                              char cell[CELL]) {
    const AttnShape *shape = &problem->shape;
    BlockList list;
    Expected expected;
    Comparison o, lse;
    lesson_require(show->program, block_list_random(&list, shape, DENSITY, false, seed));
    uint8_t *visible = visible_of(show, shape, &list);
    MaskRun run = {show->target, KERNEL_SPARSE, &list, problem};
    tensor_poison(&problem->o);
    tensor_poison(&problem->lse);
    lesson_require(show->program,
                   mask_attention(&run, shape, problem->q.data, problem->k.data, problem->v.data,
                                  problem->o.data, problem->lse.data));
    lesson_require(show->program, expected_make_masked(&expected, shape, visible, &problem->q,
                                                       &problem->k, &problem->v, problem->dtype));
    const bool passed =
        compare_output(&expected, &problem->o, &problem->lse, BLOCK_SPARSE, &o, &lse);
    expected_free(&expected);
    free(visible);
    block_list_free(&list);
    snprintf(cell, CELL, "%.3f", o.worst_ratio > lse.worst_ratio ? o.worst_ratio : lse.worst_ratio);
    if (!passed) {
        snprintf(cell, CELL, "FAILED");
        report_text("%s, a random list: %s", name, o.message[0] ? o.message : lse.message);
    }
    return passed;
}

// One row of the table. seed: of the random list; without one, NULL, the problem keeps
// block_sparse_attention's output with the shape's own list.
static bool check_problem(const Show *show, Table *table, const char *name, Problem *problem,
                          const uint64_t *seed) {
    char cells[MASK_KERNELS + 1][CELL];
    bool passed = true;
    size_t nans = 0;
    BlockList list;
    list_of(show, &problem->shape, &list);
    for (int kernel = KERNEL_CAUSAL; kernel < MASK_KERNELS; kernel++) {
        const MaskRun run = {show->target, (MaskKernel)kernel, &list, problem};
        passed = check_kernel(name, show, &run, cells[kernel], &nans) && passed;
    }
    block_list_free(&list);
    snprintf(cells[MASK_KERNELS], CELL, "-");
    if (seed != NULL) {
        passed = check_random_list(name, show, problem, *seed, cells[MASK_KERNELS]) && passed;
    }
    if (nans > 0) {
        report_text("%s: %zu elements NaN, as the inputs require.", name, nans);
    }
    table_row(table, "%s|%s|%s|%s|%s|%s|%s", name, cells[0], cells[1], cells[2], cells[3], cells[4],
              passed ? "ok" : "FAILED");
    return passed;
}

bool show_correctness(const Show *show, Problem *asked) {
    const Options *options = show->options;
    const char *name = options->q ? "your files" : "as asked";
    report_section("Correctness: error against the float64 oracle");
    lesson_describe(name, asked);
    Table table;
    table_begin(&table, "error / allowed|causal|score|tile|own list|random|result");
    bool passed = check_problem(show, &table, name, asked, NULL);
    lesson_require(show->program, lesson_save(asked, options)); // block_sparse_attention's
    for (int c = 0; c < CASES && options->q == NULL; c++) {
        const uint64_t seed = options->seed + (uint64_t)c;
        Problem small;
        lesson_require(show->program,
                       problem_random(&small, &cases[c].shape, cases[c].dtype, seed));
        passed = check_problem(show, &table, cases[c].name, &small, &seed) && passed;
        problem_free(&small);
    }
    table_print(&table);
    report_text("causal_attention as it should be, asking for every score, visiting every tile; "
                "block_sparse_attention with the list of the shape, and with two thirds "
                "of all blocks, at random. The rows below the first are causal "
                "but for those that say padding or no mask alone. The "
                "larger ratio of O "
                "and LSE, at most 1; docs/numerics.md derives the bound.%s",
                options->out || options->lse ? " What was saved is block_sparse_attention's." : "");
    return passed;
}
