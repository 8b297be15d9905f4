// The known answers that are about shapes: head dimensions, grouped heads, many of them, which rows
// NaN may reach, and that two runs agree to the bit.
#include "tests/unit/kernel_trial.h"

#include <math.h>
#include <string.h>

// ---- head dimensions ----------------------------------------------------------------------------

static const int64_t dims[] = {1, 6, 8, 40, 46, 63, 64, 72, 80, 96, 128, 192, 256, 257};
enum { DIM_COUNT = sizeof dims / sizeof dims[0] };

void case_last_column(const KernelUnderTest *kernel) {
    for (int i = 0; i < DIM_COUNT; i++) {
        int64_t dim = dims[i];
        AttnShape shape = one_head(1, 2);
        shape.dim = dim;
        Trial trial;
        trial_begin(&trial, kernel, &shape, "last_column");
        fill_value(&trial.q, 0);
        fill_value(&trial.k, 0);
        tensor_set(&trial.q, (size_t)(dim - 1), 1);
        tensor_set(&trial.k, (size_t)(dim - 1), log(3));
        double o[257], lse = log(4);
        for (int64_t c = 0; c < dim; c++) {
            tensor_set(&trial.v, (size_t)c, 1);
            tensor_set(&trial.v, (size_t)(dim + c), 0);
            o[c] = 0.75;
        }
        if (trial_run_or_refuse(&trial, "dim")) {
            trial_check_known(&trial, o, &lse);
        }
        trial_end(&trial);
    }
}

void case_odd_dims(const KernelUnderTest *kernel) {
    for (int i = 0; i < DIM_COUNT; i++) {
        AttnShape shape = {.batch = 2,
                           .heads_q = 2,
                           .heads_kv = 1,
                           .len_q = 5,
                           .len_kv = 37,
                           .dim = dims[i],
                           .causal = !kernel->no_masks};
        Trial trial;
        trial_begin(&trial, kernel, &shape, "odd_dims");
        trial_fill(&trial, (uint64_t)dims[i]);
        if (trial_run_or_refuse(&trial, "dim")) {
            trial_check_oracle(&trial, DTYPE_F32);
        }
        trial_end(&trial);
    }
}

// ---- heads and batches --------------------------------------------------------------------------

void case_gqa_reject(const KernelUnderTest *kernel) {
    static const int64_t heads[][2] = {{3, 2}, {33, 2}, {2, 4}, {4, 0}};
    for (int i = 0; i < 4; i++) {
        AttnShape legal = one_head(2, 3), illegal;
        legal.heads_q = heads[i][0];
        legal.heads_kv = heads[i][0];
        illegal = legal;
        illegal.heads_kv = heads[i][1];
        trial_check_refused(kernel, "gqa_reject", &legal, &illegal, "heads_kv");
    }
}

void case_many_heads(const KernelUnderTest *kernel) {
    static const int64_t sizes[][2] = {{65536, 1}, {10923, 6}}; // batch, heads
    for (int i = 0; i < 2; i++) {
        AttnShape shape = one_head(1, 1);
        shape.batch = sizes[i][0];
        shape.heads_q = sizes[i][1];
        shape.heads_kv = sizes[i][1];
        shape.dim = 8;
        Trial trial;
        trial_begin(&trial, kernel, &shape, "many_heads");
        trial_fill(&trial, 1);
        if (trial_run_or_refuse(&trial, "batch")) {
            trial_check_oracle(&trial, DTYPE_F32);
            if (memcmp(trial.o.data, trial.v.data, trial.v.count * sizeof(float)) != 0) {
                trial_fail(&trial, "one key: O must be V exactly");
            }
        }
        trial_end(&trial);
    }
}

// ---- NaN and repetition -------------------------------------------------------------------------

// Puts NaN into one row of one tensor (column -1: all columns) of head (1, 0) of a random problem
// with two batch entries and two heads; the oracle says which rows it may reach.
static void check_nan(const KernelUnderTest *kernel, const AttnShape *shape, char input,
                      int64_t row, int64_t column) {
    Trial trial;
    trial_begin(&trial, kernel, shape, "nan_isolation, NaN in row %d of %c", (int)row, input);
    trial_fill(&trial, 5);
    Tensor *tensor = input == 'q' ? &trial.q : input == 'k' ? &trial.k : &trial.v;
    for (int64_t c = 0; c < shape->dim; c++) {
        if (column < 0 || c == column) {
            tensor_set(tensor, tensor_index4(tensor->dims, 1, 0, row, c), NAN);
        }
    }
    trial_run_ok(&trial);
    trial_check_oracle(&trial, DTYPE_F32);
    trial_end(&trial);
}

void case_nan_isolation(const KernelUnderTest *kernel) {
    static const int32_t in_use[] = {19, 12};
    AttnShape shape = {
        .batch = 2, .heads_q = 2, .heads_kv = 2, .len_q = 13, .len_kv = 19, .dim = 8};
    AttnShape ragged = shape, causal = shape, window = shape;
    ragged.kv_lens = in_use;
    causal.causal = true;
    window.causal = true;
    window.window = 5;
    check_nan(kernel, &ragged, 'k', 12, -1); // behind the keys in use: reaches no row
    check_nan(kernel, &ragged, 'v', 18, -1);
    check_nan(kernel, &shape, 'q', 4, -1); // reaches its own row
    check_nan(kernel, &shape, 'v', 7, 3);  // reaches one column of every row of its head
    check_nan(kernel, &shape, 'k', 18, 5); // reaches every row of its head, and of no other
    for (int64_t j = 0; j < shape.len_kv; j += 6) {
        check_nan(kernel, &causal, 'k', j, -1); // reaches the rows that see the key
        check_nan(kernel, &causal, 'v', j, -1);
        check_nan(kernel, &window, 'k', j, 2);
        check_nan(kernel, &window, 'v', j, 2);
    }
}

void case_repeatable(const KernelUnderTest *kernel) {
    int64_t tile = kernel->block_k > 0 ? kernel->block_k : 32;
    AttnShape shape = {.batch = 1,
                       .heads_q = 4,
                       .heads_kv = 2,
                       .len_q = 9,
                       .len_kv = 4 * tile + 3,
                       .dim = 16,
                       .causal = !kernel->no_masks};
    Trial trial;
    Tensor o, lse;
    trial_begin(&trial, kernel, &shape, "repeatable");
    trial_fill(&trial, 9);
    trial_run_ok(&trial);
    trial_check_oracle(&trial, DTYPE_F32);
    ck_assert_int_eq(tensor_convert(&o, &trial.o, DTYPE_F32), ATTN_OK);
    ck_assert_int_eq(tensor_convert(&lse, &trial.lse, DTYPE_F32), ATTN_OK);
    for (int run = 2; run <= 100; run++) {
        trial_run_ok(&trial);
        if (memcmp(o.data, trial.o.data, o.count * sizeof(float)) != 0 ||
            memcmp(lse.data, trial.lse.data, lse.count * sizeof(float)) != 0) {
            trial_fail(&trial, "run %d differs from run 1", run);
        }
    }
    tensor_free(&o);
    tensor_free(&lse);
    trial_end(&trial);
}
