// Tests of common/problem.c: seeded problems, problems from files, and saving results.
#include "common/problem.h"

#include "common/npy.h"
#include "tests/unit/capture.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const AttnShape shape = {
    .batch = 2, .heads_q = 6, .heads_kv = 2, .len_q = 5, .len_kv = 7, .dim = 8};

static void assert_dims(const Tensor *tensor, int rank, const int64_t *dims) {
    ck_assert_int_eq(tensor->rank, rank);
    ck_assert_int_eq(tensor->dtype, DTYPE_F32);
    for (int axis = 0; axis < rank; axis++) {
        ck_assert_int_eq(tensor->dims[axis], dims[axis]);
    }
}

static void assert_zeroed(const Problem *problem) {
    ck_assert_ptr_null(problem->q.block);
    ck_assert_ptr_null(problem->k.block);
    ck_assert_ptr_null(problem->v.block);
    ck_assert_ptr_null(problem->o.block);
    ck_assert_ptr_null(problem->lse.block);
    ck_assert_int_eq(problem->shape.dim, 0);
}

// ---- seeded -------------------------------------------------------------------------------------

START_TEST(random_has_the_shapes) {
    Problem problem;
    ck_assert_int_eq(problem_random(&problem, &shape, DTYPE_F32, 1), ATTN_OK);
    assert_dims(&problem.q, 4, (int64_t[]){2, 6, 5, 8});
    assert_dims(&problem.k, 4, (int64_t[]){2, 2, 7, 8});
    assert_dims(&problem.v, 4, (int64_t[]){2, 2, 7, 8});
    assert_dims(&problem.o, 4, (int64_t[]){2, 6, 5, 8});
    assert_dims(&problem.lse, 3, (int64_t[]){2, 6, 5});
    ck_assert_int_eq(problem.dtype, DTYPE_F32);
    ck_assert_int_eq(problem.shape.heads_kv, 2);
    for (size_t i = 0; i < problem.o.count; i++) {
        ck_assert(isnan(tensor_get(&problem.o, i)));
    }
    for (size_t i = 0; i < problem.lse.count; i++) {
        ck_assert(isnan(tensor_get(&problem.lse, i)));
    }
    problem_free(&problem);
    assert_zeroed(&problem);
    problem_free(&problem);
}
END_TEST

// Correlation of the first `count` elements, their means taken out.
static double correlation(const Tensor *a, const Tensor *b, size_t count) {
    double mean_a = 0, mean_b = 0, ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < count; i++) {
        mean_a += tensor_get(a, i) / (double)count;
        mean_b += tensor_get(b, i) / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        double x = tensor_get(a, i) - mean_a, y = tensor_get(b, i) - mean_b;
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return ab / sqrt(aa * bb);
}

START_TEST(random_tensors_and_seeds_are_unrelated) {
    const AttnShape large = {
        .batch = 1, .heads_q = 1, .heads_kv = 1, .len_q = 128, .len_kv = 128, .dim = 64};
    Problem problems[3];
    const Tensor *tensors[9];
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(problem_random(&problems[i], &large, DTYPE_F32, (uint64_t)i), ATTN_OK);
        tensors[3 * i] = &problems[i].q;
        tensors[3 * i + 1] = &problems[i].k;
        tensors[3 * i + 2] = &problems[i].v;
    }
    // Of 8192 independent pairs the correlation is within 6/sqrt(8192) but for 1 in 10^9.
    for (int i = 0; i < 9; i++) {
        for (int j = 0; j < i; j++) {
            ck_assert_double_lt(fabs(correlation(tensors[i], tensors[j], 8192)), 0.067);
        }
    }
    for (int i = 0; i < 3; i++) {
        problem_free(&problems[i]);
    }
}
END_TEST

START_TEST(random_is_repeatable_and_rounded) {
    const DType dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    Problem exact;
    ck_assert_int_eq(problem_random(&exact, &shape, DTYPE_F32, 42), ATTN_OK);
    for (int i = 0; i < 3; i++) {
        Problem problem;
        ck_assert_int_eq(problem_random(&problem, &shape, dtypes[i], 42), ATTN_OK);
        ck_assert_int_eq(problem.dtype, dtypes[i]);
        const Tensor *got[] = {&problem.q, &problem.k, &problem.v};
        const Tensor *want[] = {&exact.q, &exact.k, &exact.v};
        for (int t = 0; t < 3; t++) {
            for (size_t e = 0; e < got[t]->count; e++) {
                float rounded = dtype_round(dtypes[i], (float)tensor_get(want[t], e));
                ck_assert_double_eq(tensor_get(got[t], e), rounded);
            }
        }
        problem_free(&problem);
    }
    problem_free(&exact);
}
END_TEST

START_TEST(random_refuses_bad_shapes) {
    AttnShape bad = shape;
    bad.heads_kv = 4;
    Problem problem;
    memset(&problem, 0xAB, sizeof problem);
    ck_assert_int_eq(problem_random(&problem, &bad, DTYPE_F32, 1), ATTN_ERR_SHAPE);
    assert_zeroed(&problem);
    bad = shape;
    bad.len_q = bad.len_kv = INT32_MAX;
    bad.dim = INT32_MAX;
    ck_assert_int_ne(problem_random(&problem, &bad, DTYPE_F32, 1), ATTN_OK);
    assert_zeroed(&problem);
}
END_TEST

START_TEST(load_without_files_is_the_seeded_problem) {
    Options options = {.shape = shape, .dtype = DTYPE_BF16, .seed = 9};
    Problem loaded, random;
    ck_assert_int_eq(problem_load(&loaded, &options), ATTN_OK);
    ck_assert_int_eq(problem_random(&random, &shape, DTYPE_BF16, 9), ATTN_OK);
    ck_assert_int_eq(memcmp(loaded.k.data, random.k.data, loaded.k.count * sizeof(float)), 0);
    problem_free(&loaded);
    problem_free(&random);
}
END_TEST

// ---- files --------------------------------------------------------------------------------------

static char folder[64];

static void enter(void) {
    enter_folder(folder);
}

static void leave(void) {
    remove_folder(folder);
}

// Writes an array of this type whose element e is (e + 1) / 3 rounded to the type.
static void write_array(const char *path, DType dtype, int rank, const int64_t *dims) {
    Tensor tensor;
    ck_assert_int_eq(tensor_alloc(&tensor, dtype, rank, dims), ATTN_OK);
    for (size_t i = 0; i < tensor.count; i++) {
        tensor_set(&tensor, i, (double)(i + 1) / 3);
    }
    ck_assert_int_eq(npy_write(path, &tensor), ATTN_OK);
    tensor_free(&tensor);
}

static void write4(const char *path, int64_t batch, int64_t heads, int64_t len, int64_t dim) {
    write_array(path, DTYPE_F32, 4, (int64_t[]){batch, heads, len, dim});
}

static Options file_options(void) {
    return (Options){.q = "q.npy", .k = "k.npy", .v = "v.npy"};
}

// Writes Q, K and V that belong together.
static void write_good(void) {
    write4("q.npy", 2, 6, 5, 8);
    write4("k.npy", 2, 2, 7, 8);
    write4("v.npy", 2, 2, 7, 8);
}

START_TEST(files_decide_the_shape) {
    write_good();
    Options options = file_options();
    options.shape = (AttnShape){.batch = 9,
                                .heads_q = 9,
                                .heads_kv = 9,
                                .len_q = 9,
                                .len_kv = 9,
                                .dim = 9,
                                .scale = 0.5,
                                .causal = true,
                                .window = 3};
    Problem problem;
    ck_assert_int_eq(problem_load(&problem, &options), ATTN_OK);
    ck_assert_int_eq(problem.shape.batch, 2);
    ck_assert_int_eq(problem.shape.heads_q, 6);
    ck_assert_int_eq(problem.shape.heads_kv, 2);
    ck_assert_int_eq(problem.shape.len_q, 5);
    ck_assert_int_eq(problem.shape.len_kv, 7);
    ck_assert_int_eq(problem.shape.dim, 8);
    ck_assert_double_eq(problem.shape.scale, 0.5);
    ck_assert(problem.shape.causal);
    ck_assert_int_eq(problem.shape.window, 3);
    ck_assert_double_eq(tensor_get(&problem.q, 4), (float)(5.0 / 3));
    ck_assert_double_eq(tensor_get(&problem.v, 100), (float)(101.0 / 3));
    assert_dims(&problem.o, 4, (int64_t[]){2, 6, 5, 8});
    assert_dims(&problem.lse, 3, (int64_t[]){2, 6, 5});
    ck_assert(isnan(tensor_get(&problem.o, 0)) && isnan(tensor_get(&problem.lse, 59)));
    problem_free(&problem);
}
END_TEST

START_TEST(files_of_every_type) {
    write_good();
    const DType files[] = {DTYPE_F64, DTYPE_F32, DTYPE_F16};
    const DType dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (int f = 0; f < 3; f++) {
        write_array("k.npy", files[f], 4, (int64_t[]){2, 2, 7, 8});
        for (int d = 0; d < 3; d++) {
            Options options = file_options();
            options.dtype = dtypes[d];
            Problem problem;
            ck_assert_int_eq(problem_load(&problem, &options), ATTN_OK);
            ck_assert_int_eq(problem.k.dtype, DTYPE_F32);
            for (size_t e = 0; e < problem.k.count; e++) {
                float value = (float)((double)(e + 1) / 3);
                value = files[f] == DTYPE_F16 ? dtype_round(DTYPE_F16, value) : value;
                ck_assert_double_eq(tensor_get(&problem.k, e), dtype_round(dtypes[d], value));
            }
            problem_free(&problem);
        }
    }
}
END_TEST

// Loading fails with this status and message, and leaves nothing behind.
static void assert_refused(AttnStatus status, const char *message) {
    Options options = file_options();
    Problem problem;
    memset(&problem, 0xAB, sizeof problem);
    ck_assert_int_eq(problem_load(&problem, &options), status);
    ck_assert_str_eq(attn_last_error(), message);
    assert_zeroed(&problem);
}

START_TEST(files_that_do_not_fit_together) {
    const struct {
        int64_t q[4], k[4], v[4];
        const char *message;
    } cases[] = {
        {{2, 6, 5, 8},
         {2, 2, 7, 8},
         {1, 2, 7, 8},
         "v.npy: axis 0 (batch) is 1, but that of k.npy is 2"},
        {{2, 6, 5, 8},
         {2, 2, 7, 8},
         {2, 3, 7, 8},
         "v.npy: axis 1 (heads) is 3, but that of k.npy is 2"},
        {{2, 6, 5, 8},
         {2, 2, 7, 8},
         {2, 2, 6, 8},
         "v.npy: axis 2 (len) is 6, but that of k.npy is 7"},
        {{2, 6, 5, 8},
         {2, 2, 7, 8},
         {2, 2, 7, 4},
         "v.npy: axis 3 (dim) is 4, but that of k.npy is 8"},
        {{3, 6, 5, 8},
         {2, 2, 7, 8},
         {2, 2, 7, 8},
         "k.npy: axis 0 (batch) is 2, but that of q.npy is 3"},
        {{2, 6, 5, 8},
         {2, 2, 7, 4},
         {2, 2, 7, 4},
         "k.npy: axis 3 (dim) is 4, but that of q.npy is 8"},
        {{2, 6, 5, 8},
         {2, 4, 7, 8},
         {2, 4, 7, 8},
         "k.npy: axis 1 (heads) is 4, which does not divide that of q.npy, 6"},
        {{2, 2, 5, 8},
         {2, 4, 7, 8},
         {2, 4, 7, 8},
         "k.npy: axis 1 (heads) is 4, which does not divide that of q.npy, 2"},
        {{2, 6, 5, 8},
         {2, 0, 7, 8},
         {2, 0, 7, 8},
         "k.npy: axis 1 (heads) is 0, which does not divide that of q.npy, 6"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_array("q.npy", DTYPE_F32, 4, cases[i].q);
        write_array("k.npy", DTYPE_F32, 4, cases[i].k);
        write_array("v.npy", DTYPE_F32, 4, cases[i].v);
        assert_refused(ATTN_ERR_SHAPE, cases[i].message);
    }
}
END_TEST

START_TEST(files_of_another_rank) {
    write_good();
    write_array("k.npy", DTYPE_F32, 3, (int64_t[]){2, 7, 8});
    assert_refused(ATTN_ERR_SHAPE,
                   "k.npy: shape (2, 7, 8) has rank 3, must be 4: [batch][heads][len][dim]; "
                   "array[None] adds an axis");
}
END_TEST

START_TEST(files_with_no_dim) {
    write4("q.npy", 2, 6, 5, 0);
    write4("k.npy", 2, 2, 7, 0);
    write4("v.npy", 2, 2, 7, 0);
    Options options = file_options();
    Problem problem;
    ck_assert_int_eq(problem_load(&problem, &options), ATTN_ERR_SHAPE);
    assert_zeroed(&problem);
}
END_TEST

START_TEST(a_file_that_is_missing_or_broken) {
    write_good();
    ck_assert_int_eq(remove("v.npy"), 0);
    Options options = file_options();
    Problem problem;
    ck_assert_int_eq(problem_load(&problem, &options), ATTN_ERR_IO);
    ck_assert_ptr_nonnull(strstr(attn_last_error(), "v.npy"));
    assert_zeroed(&problem);
    FILE *file = fopen("v.npy", "w");
    ck_assert_ptr_nonnull(file);
    fputs("not an array", file);
    fclose(file);
    ck_assert_int_eq(problem_load(&problem, &options), ATTN_ERR_IO);
    ck_assert_ptr_nonnull(strstr(attn_last_error(), "v.npy"));
    assert_zeroed(&problem);
}
END_TEST

START_TEST(empty_dimensions) {
    write4("q.npy", 1, 2, 3, 8);
    write4("k.npy", 1, 2, 0, 8);
    write4("v.npy", 1, 2, 0, 8);
    Options options = file_options();
    Problem problem;
    ck_assert_int_eq(problem_load(&problem, &options), ATTN_OK);
    ck_assert_int_eq(problem.shape.len_kv, 0);
    ck_assert_uint_eq(problem.k.count, 0);
    problem_free(&problem);
}
END_TEST

// ---- saving -------------------------------------------------------------------------------------

START_TEST(save_rounds_and_writes_the_type) {
    const struct {
        DType dtype, file;
    } cases[] = {{DTYPE_F32, DTYPE_F32}, {DTYPE_F16, DTYPE_F16}, {DTYPE_BF16, DTYPE_F32}};
    for (int i = 0; i < 3; i++) {
        Problem problem;
        ck_assert_int_eq(problem_random(&problem, &shape, cases[i].dtype, 1), ATTN_OK);
        for (size_t e = 0; e < problem.o.count; e++) {
            tensor_set(&problem.o, e, (double)e / 7);
        }
        for (size_t e = 0; e < problem.lse.count; e++) {
            tensor_set(&problem.lse, e, e == 0 ? -INFINITY : (double)e / 9);
        }
        Options options = {.out = "o.npy", .lse = "lse.npy"};
        ck_assert_int_eq(problem_save(&problem, &options), ATTN_OK);
        Tensor o, lse;
        ck_assert_int_eq(npy_read("o.npy", &o), ATTN_OK);
        ck_assert_int_eq(npy_read("lse.npy", &lse), ATTN_OK);
        ck_assert_int_eq(o.dtype, cases[i].file);
        ck_assert_int_eq(o.rank, 4);
        ck_assert_uint_eq(o.count, problem.o.count);
        for (size_t e = 0; e < o.count; e++) {
            float rounded = dtype_round(cases[i].dtype, (float)((double)e / 7));
            ck_assert_double_eq(tensor_get(&o, e), rounded);
        }
        assert_dims(&lse, 3, (int64_t[]){2, 6, 5});
        ck_assert_double_eq(tensor_get(&lse, 0), -INFINITY);
        ck_assert_double_eq(tensor_get(&lse, 59), (float)(59.0 / 9));
        tensor_free(&o);
        tensor_free(&lse);
        problem_free(&problem);
    }
}
END_TEST

START_TEST(save_writes_what_is_asked_for) {
    Problem problem;
    ck_assert_int_eq(problem_random(&problem, &shape, DTYPE_F32, 1), ATTN_OK);
    Options options = {0};
    ck_assert_int_eq(problem_save(&problem, &options), ATTN_OK);
    options.lse = "lse.npy";
    ck_assert_int_eq(problem_save(&problem, &options), ATTN_OK);
    ck_assert_int_eq(access("lse.npy", F_OK), 0);
    ck_assert_int_ne(access("o.npy", F_OK), 0);
    options.out = "absent/o.npy";
    ck_assert_int_eq(problem_save(&problem, &options), ATTN_ERR_IO);
    ck_assert_ptr_nonnull(strstr(attn_last_error(), "absent/o.npy"));
    problem_free(&problem);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("problem");
    TCase *seeded = tcase_create("seeded");
    tcase_set_timeout(seeded, 60);
    tcase_add_test(seeded, random_has_the_shapes);
    tcase_add_test(seeded, random_tensors_and_seeds_are_unrelated);
    tcase_add_test(seeded, random_is_repeatable_and_rounded);
    tcase_add_test(seeded, random_refuses_bad_shapes);
    tcase_add_test(seeded, load_without_files_is_the_seeded_problem);
    TCase *files = tcase_create("files");
    tcase_set_timeout(files, 60);
    tcase_add_checked_fixture(files, enter, leave);
    tcase_add_test(files, files_decide_the_shape);
    tcase_add_test(files, files_of_every_type);
    tcase_add_test(files, files_that_do_not_fit_together);
    tcase_add_test(files, files_of_another_rank);
    tcase_add_test(files, files_with_no_dim);
    tcase_add_test(files, a_file_that_is_missing_or_broken);
    tcase_add_test(files, empty_dimensions);
    tcase_add_test(files, save_rounds_and_writes_the_type);
    tcase_add_test(files, save_writes_what_is_asked_for);
    suite_add_tcase(suite, seeded);
    suite_add_tcase(suite, files);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
