// The golden cases, the random sweep, the illegal shapes and the simulated 16-bit types. The known
// answers are in kernel_cases.c.
#include "tests/unit/kernel_suite.h"

#include "common/npy.h"
#include "tests/unit/kernel_trial.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- golden tensors -----------------------------------------------------------------------------

// Reads tests/golden/<name>/<tensor>.npy and checks its type and its number of elements.
static void read_golden(const Trial *trial, const char *tensor_name, DType dtype, size_t count,
                        Tensor *tensor) {
    char path[160];
    snprintf(path, sizeof path, "tests/golden/%s/%s.npy", trial->name, tensor_name);
    if (npy_read(path, tensor) != ATTN_OK) {
        trial_fail(trial, "%s", attn_last_error());
    }
    if (tensor->dtype != dtype || tensor->count != count) {
        trial_fail(trial, "%s has %zu elements of %s, not %zu of %s", path, tensor->count,
                   dtype_name(tensor->dtype), count, dtype_name(dtype));
    }
}

static void run_golden(const KernelUnderTest *kernel, const char *name, const AttnShape *shape) {
    Trial trial;
    trial_begin(&trial, kernel, shape, "%s", name);
    Tensor *inputs[] = {&trial.q, &trial.k, &trial.v};
    static const char *const names[] = {"q", "k", "v"};
    for (int t = 0; t < 3; t++) {
        Tensor golden;
        read_golden(&trial, names[t], DTYPE_F32, inputs[t]->count, &golden);
        memcpy(inputs[t]->data, golden.data, golden.count * sizeof(float));
        tensor_free(&golden);
    }
    Tensor o, lse;
    read_golden(&trial, "o", DTYPE_F64, trial.o.count, &o);
    read_golden(&trial, "lse", DTYPE_F64, trial.lse.count, &lse);
    trial_run_ok(&trial);
    trial_check_known(&trial, o.data, lse.data);
    trial_check_oracle(&trial, DTYPE_F32);
    tensor_free(&o);
    tensor_free(&lse);
    trial_end(&trial);
}

void kernel_suite_golden(const KernelUnderTest *kernel) {
    FILE *index = fopen("tests/golden/index.csv", "r");
    ck_assert_msg(index != NULL, "tests/golden/index.csv: cannot be opened; run at the top");
    char line[256], name[64];
    int cases = 0;
    while (fgets(line, sizeof line, index) != NULL) {
        AttnShape shape = {0};
        int causal;
        if (sscanf(line,
                   "%63[^,],%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64
                   ",%d,%" SCNd64 ",%lf",
                   name, &shape.batch, &shape.heads_q, &shape.heads_kv, &shape.len_q, &shape.len_kv,
                   &shape.dim, &causal, &shape.window, &shape.scale) == 10) {
            shape.causal = causal != 0;
            run_golden(kernel, name, &shape);
            cases++;
        }
    }
    fclose(index);
    ck_assert_msg(cases >= 12, "tests/golden/index.csv: %d cases read, 12 expected", cases);
}

// ---- random problems ----------------------------------------------------------------------------

// SplitMix64's output function: draw number `draw` of problem `number`.
static uint64_t random_bits(uint64_t seed, uint64_t number, uint64_t draw) {
    uint64_t z = seed + 0x9e3779b97f4a7c15u * (1 + 64 * number + draw);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

typedef struct Draws {
    uint64_t seed, number, used;
} Draws;

static int64_t draw_below(Draws *draws, int64_t limit) {
    return (int64_t)(random_bits(draws->seed, draws->number, draws->used++) % (uint64_t)limit);
}

static int64_t draw_from(Draws *draws, const int64_t *values, int64_t count) {
    return values[draw_below(draws, count)];
}

enum { MAX_BATCH = 3 };

// A problem of at most about 600,000 multiply-adds a product, so that hundreds take seconds.
static AttnShape draw_shape(Draws *draws, int32_t kv_lens[MAX_BATCH]) {
    static const int64_t lens[] = {1, 2, 31, 32, 33, 63, 64, 65, 113, 127, 128, 129};
    static const int64_t dims[] = {1,  2,  3,  5,  8,   16,  17,  31,  33,  40, 63,
                                   64, 65, 80, 96, 127, 128, 129, 192, 256, 257};
    static const int64_t groups[] = {1, 1, 2, 3, 4, 8}; // query heads a KV head
    static const double scales[] = {0, 0, 0, 1, 0.3, 0.0625};
    const int64_t limit = 600000;
    AttnShape shape = {.scale = scales[draw_below(draws, 6)]};
    shape.batch = 1 + draw_below(draws, MAX_BATCH);
    shape.heads_kv = 1 + draw_below(draws, 3);
    shape.len_q = draw_from(draws, lens, 12);
    shape.len_kv = draw_from(draws, lens, 12);
    shape.dim = draw_from(draws, dims, sizeof dims / sizeof dims[0]);
    shape.causal = draw_below(draws, 2) == 0;
    int64_t group = draw_from(draws, groups, 6);
    if (draw_below(draws, 4) == 0) { // T = S, which two free draws seldom give
        shape.len_q = shape.len_kv;
    }
    int64_t head_work = shape.len_q * shape.len_kv * shape.dim;
    while (shape.dim > 8 && head_work > limit) {
        shape.dim = draw_from(draws, dims, 15);
        head_work = shape.len_q * shape.len_kv * shape.dim;
    }
    while (shape.batch > 1 && head_work * shape.batch * shape.heads_kv * group > limit) {
        shape.batch--;
    }
    while (shape.heads_kv > 1 && head_work * shape.heads_kv * group > limit) {
        shape.heads_kv--;
    }
    while (group > 1 && head_work * group > limit) {
        group--;
    }
    shape.heads_q = group * shape.heads_kv;
    if (shape.causal && draw_below(draws, 2) == 0) {
        shape.window = 1 + draw_below(draws, shape.len_kv + 2);
    }
    if (draw_below(draws, 3) == 0) {
        for (int64_t b = 0; b < shape.batch; b++) {
            kv_lens[b] = (int32_t)draw_below(draws, shape.len_kv + 1);
        }
        shape.kv_lens = kv_lens;
    }
    return shape;
}

// Keys and values that no row may read become NaN.
static void spoil_unused_keys(Trial *trial) {
    const AttnShape *shape = &trial->shape;
    for (size_t e = 0; shape->kv_lens != NULL && e < trial->k.count; e++) {
        int64_t key = (int64_t)e / shape->dim % shape->len_kv;
        int64_t b = (int64_t)e / (shape->dim * shape->len_kv * shape->heads_kv);
        if (key >= shape->kv_lens[b]) {
            tensor_set(&trial->k, e, NAN);
            tensor_set(&trial->v, e, NAN);
        }
    }
}

void kernel_suite_random(const KernelUnderTest *kernel, uint64_t seed, int64_t first,
                         int64_t count) {
    for (int64_t number = first; number < first + count; number++) {
        Draws draws = {.seed = seed, .number = (uint64_t)number};
        int32_t kv_lens[MAX_BATCH];
        AttnShape shape = draw_shape(&draws, kv_lens);
        if (kernel->no_masks || kernel->no_window) {
            shape.window = 0;
        }
        if (kernel->no_masks) {
            shape.causal = false;
            shape.kv_lens = NULL;
        }
        if (kernel->max_dim > 0 && shape.dim > kernel->max_dim) {
            shape.dim = kernel->max_dim;
        }
        bool large_scores = draw_below(&draws, 8) == 0;
        Trial trial;
        trial_begin(&trial, kernel, &shape, "random problem %" PRId64 " of seed %" PRIu64 "%s",
                    number, seed, large_scores ? ", queries x30" : "");
        trial_fill(&trial, random_bits(seed, (uint64_t)number, 63));
        for (size_t e = 0; large_scores && e < trial.q.count; e++) {
            tensor_set(&trial.q, e, 30 * tensor_get(&trial.q, e));
        }
        spoil_unused_keys(&trial);
        trial_run_ok(&trial);
        trial_check_oracle(&trial, DTYPE_F32);
        trial_end(&trial);
    }
}

// ---- illegal shapes -----------------------------------------------------------------------------

static const int32_t negative_len[] = {3, -1}, long_len[] = {3, 6};

static const struct {
    AttnShape shape; // in its members' order; legal would be the first of these lines
    AttnStatus status;
    const char *named; // the argument, as the message names it
} illegal[] = {
    {{-1, 4, 2, 3, 5, 8, 0, false, 0, NULL}, ATTN_ERR_SHAPE, "batch"},
    {{2, 0, 2, 3, 5, 8, 0, false, 0, NULL}, ATTN_ERR_SHAPE, "heads_q"},
    {{2, 4, 0, 3, 5, 8, 0, false, 0, NULL}, ATTN_ERR_SHAPE, "heads_kv"},
    {{2, 4, -2, 3, 5, 8, 0, false, 0, NULL}, ATTN_ERR_SHAPE, "heads_kv"},
    {{2, 4, 3, 3, 5, 8, 0, false, 0, NULL}, ATTN_ERR_SHAPE, "heads_kv"},
    {{2, 4, 8, 3, 5, 8, 0, false, 0, NULL}, ATTN_ERR_SHAPE, "heads_kv"},
    {{2, 4, 2, -1, 5, 8, 0, false, 0, NULL}, ATTN_ERR_SHAPE, "len_q"},
    {{2, 4, 2, 3, -1, 8, 0, false, 0, NULL}, ATTN_ERR_SHAPE, "len_kv"},
    {{2, 4, 2, 3, 5, 0, 0, false, 0, NULL}, ATTN_ERR_SHAPE, "dim"},
    {{2, 4, 2, 3, 5, -8, 0, false, 0, NULL}, ATTN_ERR_SHAPE, "dim"},
    {{INT64_MAX / 2, 4, 2, 3, 5, 8, 0, false, 0, NULL}, ATTN_ERR_SHAPE, "Q"},
    {{2, 4, 2, 3, INT64_MAX / 2, 8, 0, false, 0, NULL}, ATTN_ERR_SHAPE, "K"},
    {{2, 4, 2, 3, 5, 8, -1, false, 0, NULL}, ATTN_ERR_ARGUMENT, "scale"},
    {{2, 4, 2, 3, 5, 8, (double)NAN, false, 0, NULL}, ATTN_ERR_ARGUMENT, "scale"},
    {{2, 4, 2, 3, 5, 8, (double)INFINITY, false, 0, NULL}, ATTN_ERR_ARGUMENT, "scale"},
    {{2, 4, 2, 3, 5, 8, 0, true, -1, NULL}, ATTN_ERR_ARGUMENT, "window"},
    {{2, 4, 2, 3, 5, 8, 0, false, 3, NULL}, ATTN_ERR_ARGUMENT, "window"},
    {{2, 4, 2, 3, 5, 8, 0, false, 0, negative_len}, ATTN_ERR_SHAPE, "kv_lens"},
    {{2, 4, 2, 3, 5, 8, 0, false, 0, long_len}, ATTN_ERR_SHAPE, "kv_lens"},
};

void kernel_suite_errors(const KernelUnderTest *kernel) {
    const AttnShape legal = {2, 4, 2, 3, 5, 8, 0, false, 0, NULL};
    for (size_t i = 0; i < sizeof illegal / sizeof illegal[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "illegal shape %zu, %s", i, illegal[i].named);
        AttnStatus status =
            trial_check_refused(kernel, name, &legal, &illegal[i].shape, illegal[i].named);
        ck_assert_msg(status == illegal[i].status, "%s: %s: returned %s, not %s", kernel->name,
                      name, attn_status_name(status), attn_status_name(illegal[i].status));
    }
}

// ---- 16-bit types -------------------------------------------------------------------------------

void kernel_suite_dtype(const KernelUnderTest *kernel, DType dtype) {
    // Heads of some hundreds of elements and more: the bound is twice the largest error that a
    // plain program makes in the same head, which needs a sample to be meaningful.
    static const AttnShape shapes[] = {
        {1, 2, 2, 33, 65, 64, 0, false, 0, NULL},  {2, 4, 2, 17, 129, 40, 0, true, 0, NULL},
        {1, 3, 1, 64, 64, 128, 0, true, 16, NULL}, {1, 8, 2, 5, 257, 64, 0.5, true, 0, NULL},
        {1, 1, 1, 113, 31, 80, 0, false, 0, NULL}, {1, 2, 1, 40, 13, 32, 0, true, 0, NULL},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        Trial trial;
        trial_begin(&trial, kernel, &shapes[i], "%s problem %zu", dtype_name(dtype), i);
        trial_fill(&trial, 40 + i);
        tensor_round_to(&trial.q, dtype);
        tensor_round_to(&trial.k, dtype);
        tensor_round_to(&trial.v, dtype);
        trial_run_ok(&trial);
        tensor_round_to(&trial.o, dtype);
        trial_check_oracle(&trial, dtype);
        trial_end(&trial);
    }
}
