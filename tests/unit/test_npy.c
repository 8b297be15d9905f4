// NPY files: what is read, and what is written. test_npy_malformed has the files that are refused.
// Run from the repository's root: it reads tests/golden/.
#include "common/npy.h"
#include "tests/unit/scratch.h"

#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

// The file is read as 0, 1, 2, ... in this type and shape.
static void assert_reads(DType dtype, const char *shape) {
    Tensor tensor;
    char text[96];
    AttnStatus status = npy_read(scratch_path, &tensor);
    ck_assert_msg(status == ATTN_OK, "%s", attn_last_error());
    ck_assert_int_eq(tensor.dtype, dtype);
    ck_assert_str_eq(tensor_shape_text(&tensor, text), shape);
    ck_assert(tensor_guards_intact(&tensor));
    for (size_t i = 0; i < tensor.count; i++) {
        ck_assert_double_eq(tensor_get(&tensor, i), (double)i);
    }
    tensor_free(&tensor);
}

// ---- reading ------------------------------------------------------------------------------------

START_TEST(versions) {
    for (int major = 1; major <= 3; major++) {
        scratch_write_npy(major, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n",
                          24);
        assert_reads(DTYPE_F32, "(2, 3)");
    }
}
END_TEST

// Everything that the header's literal allows.
START_TEST(header_forms) {
    static const struct {
        const char *header, *shape;
        size_t data_bytes;
    } cases[] = {
        {"{'shape':(2,3),'fortran_order':False,'descr':'<f4'}", "(2, 3)", 24},
        {"{\"descr\": \"<f4\", 'shape': (2, 3), \"fortran_order\": False}", "(2, 3)", 24},
        {" \t{ 'descr' :'<f4' ,'fortran_order': False,\n'shape' : ( 2 , 3 , ) , } \r\n ", "(2, 3)",
         24},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }", "(5,)", 20},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (5,), }", "(5,)", 20},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 5, 1), }", "(1, 5, 1)", 20},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3, 4)}", "(1, 2, 3, 4)", 96},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0, 2), }", "(3, 0, 2)", 0},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", "(0,)", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scratch_write_npy(1, cases[i].header, cases[i].data_bytes);
        assert_reads(DTYPE_F32, cases[i].shape);
    }
}
END_TEST

// Headers beyond 65,535 bytes need version 2.
START_TEST(long_header) {
    enum { LENGTH = 70000 };
    char *header = malloc(LENGTH + 1);
    ck_assert_ptr_nonnull(header);
    snprintf(header, LENGTH + 1, "%-*s", LENGTH,
             "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}");
    scratch_write_npy(2, header, 4);
    free(header);
    assert_reads(DTYPE_F32, "(1,)");
}
END_TEST

// The first LSE of a reference case, computed from the Q and K that were read.
START_TEST(golden_values) {
    Tensor q, k, lse;
    ck_assert_int_eq(npy_read("tests/golden/square_tiny/q.npy", &q), ATTN_OK);
    ck_assert_int_eq(npy_read("tests/golden/square_tiny/k.npy", &k), ATTN_OK);
    ck_assert_int_eq(npy_read("tests/golden/square_tiny/lse.npy", &lse), ATTN_OK);
    double sum = 0;
    for (size_t j = 0; j < 8; j++) {
        double dot = 0;
        for (size_t c = 0; c < 4; c++) {
            dot += tensor_get(&q, c) * tensor_get(&k, 4 * j + c);
        }
        sum += exp(0.5 * dot);
    }
    ck_assert_double_eq_tol(tensor_get(&lse, 0), log(sum), 1e-12);
    tensor_free(&q);
    tensor_free(&k);
    tensor_free(&lse);
}
END_TEST

// Every reference file has the type, the shape and the finite values its README promises.
START_TEST(golden_files) {
    FILE *index = fopen("tests/golden/index.csv", "r");
    ck_assert_ptr_nonnull(index);
    char line[256];
    int cases = 0, strange = 0;
    ck_assert_ptr_nonnull(fgets(line, sizeof line, index)); // the heading
    while (fgets(line, sizeof line, index) != NULL) {
        char name[64];
        int b, hq, hkv, t, s, d;
        ck_assert_int_eq(sscanf(line, "%63[^,],%d,%d,%d,%d,%d,%d", name, &b, &hq, &hkv, &t, &s, &d),
                         7);
        static const char *const arrays[] = {"q", "k", "v", "do", "o", "lse", "dq", "dk", "dv"};
        for (int i = 0; i < 9; i++) {
            bool keys = strchr(arrays[i], 'k') != NULL || strchr(arrays[i], 'v') != NULL;
            char file[128], text[96], shape[96];
            snprintf(file, sizeof file, "tests/golden/%s/%s.npy", name, arrays[i]);
            snprintf(shape, sizeof shape, "(%d, %d, %d, %d)", b, keys ? hkv : hq, keys ? s : t, d);
            if (i == 5) {
                snprintf(shape, sizeof shape, "(%d, %d, %d)", b, hq, t);
            }
            Tensor tensor;
            AttnStatus status = npy_read(file, &tensor);
            ck_assert_msg(status == ATTN_OK, "%s", attn_last_error());
            ck_assert_str_eq(tensor_shape_text(&tensor, text), shape);
            ck_assert_int_eq(tensor.dtype, i < 4 ? DTYPE_F32 : DTYPE_F64);
            for (size_t e = 0; e < tensor.count; e++) {
                double x = tensor_get(&tensor, e);
                strange += !isfinite(x) && !(i == 5 && x == -INFINITY);
            }
            tensor_free(&tensor);
        }
        cases++;
    }
    fclose(index);
    ck_assert_int_ge(cases, 12);
    ck_assert_int_eq(strange, 0);
}
END_TEST

// ---- writing ------------------------------------------------------------------------------------

// A tensor that the file holds again, bit for bit; bf16 comes back as f32 of the same values.
START_TEST(round_trip) {
    static const DType types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_F64};
    for (int rank = 1; rank <= 4; rank++) {
        int64_t dims[] = {3, 2, 5, 7};
        Tensor tensor, again;
        ck_assert_int_eq(tensor_alloc(&tensor, types[_i], rank, dims), ATTN_OK);
        tensor_fill_random(&tensor, 1, 1);
        tensor_set(&tensor, 0, -INFINITY);
        tensor_set(&tensor, 1, -0.0);
        tensor_set(&tensor, 2, NAN);
        ck_assert_int_eq(npy_write(scratch_path, &tensor), ATTN_OK);
        ck_assert_int_eq(npy_read(scratch_path, &again), ATTN_OK);
        ck_assert_int_eq(again.dtype, types[_i] == DTYPE_BF16 ? DTYPE_F32 : types[_i]);
        ck_assert_int_eq(again.rank, rank);
        ck_assert_mem_eq(again.dims, tensor.dims, sizeof tensor.dims);
        for (size_t i = 0; i < tensor.count; i++) {
            double x = tensor_get(&tensor, i), y = tensor_get(&again, i);
            ck_assert(isnan(x) ? isnan(y) : x == y && !signbit(x) == !signbit(y));
        }
        if (again.dtype == tensor.dtype) {
            ck_assert_mem_eq(again.data, tensor.data, tensor.count * dtype_size(tensor.dtype));
        }
        tensor_free(&tensor);
        tensor_free(&again);
    }
}
END_TEST

START_TEST(written_bytes) {
    Tensor tensor;
    int64_t dims[] = {2, 3};
    ck_assert_int_eq(tensor_alloc(&tensor, DTYPE_F32, 2, dims), ATTN_OK);
    tensor_fill_random(&tensor, 1, 1);
    ck_assert_int_eq(npy_write(scratch_path, &tensor), ATTN_OK);
    unsigned char bytes[256];
    ck_assert_uint_eq(scratch_read(bytes, sizeof bytes), 128 + 24);
    char expected[128 + 1];
    snprintf(expected, sizeof expected, "%-117s\n",
             "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    ck_assert_mem_eq(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
    ck_assert_mem_eq(bytes + 10, expected, 118);
    ck_assert_mem_eq(bytes + 128, tensor.data, 24);
    ck_assert_int_eq(scratch_empty(), 1); // nothing is left beside it
    tensor_free(&tensor);
}
END_TEST

START_TEST(empty_tensor) {
    Tensor tensor;
    int64_t dims[] = {1, 2, 0, 8};
    ck_assert_int_eq(tensor_alloc(&tensor, DTYPE_F16, 4, dims), ATTN_OK);
    ck_assert_int_eq(npy_write(scratch_path, &tensor), ATTN_OK);
    assert_reads(DTYPE_F16, "(1, 2, 0, 8)");
    tensor_free(&tensor);
}
END_TEST

static void assert_write_fails(const char *where, const Tensor *tensor, const char *message) {
    char expected[512];
    snprintf(expected, sizeof expected, "%s: %s", where, message);
    ck_assert_int_eq(npy_write(where, tensor), ATTN_ERR_IO);
    ck_assert_str_eq(attn_last_error(), expected);
}

START_TEST(cannot_write) {
    Tensor tensor;
    int64_t dims[] = {1000};
    ck_assert_int_eq(tensor_alloc(&tensor, DTYPE_F32, 1, dims), ATTN_OK);
    assert_write_fails("/tmp/no/such/file.npy", &tensor,
                       "it cannot be written: No such file or directory");
    assert_write_fails("Makefile/file.npy", &tensor, "it cannot be written: Not a directory");
    assert_write_fails(scratch_folder, &tensor, "it exists and is not a regular file");
    assert_write_fails("/dev/null", &tensor, "it exists and is not a regular file");
    tensor_free(&tensor);
}
END_TEST

// When the space runs out, the old file stays as it was and nothing lies beside it.
START_TEST(no_space) {
    scratch_write_array("'<f4'", "False", "(5,)", 20);
    Tensor tensor;
    int64_t dims[] = {100000};
    ck_assert_int_eq(tensor_alloc(&tensor, DTYPE_F32, 1, dims), ATTN_OK);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {10000, 10000};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_write_fails(scratch_path, &tensor, "it cannot be written: File too large");
    assert_reads(DTYPE_F32, "(5,)");
    ck_assert_int_eq(scratch_empty(), 1);
    tensor_free(&tensor);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("npy");
    TCase *files = tcase_create("files");
    tcase_add_unchecked_fixture(files, scratch_make, scratch_remove);
    tcase_add_test(files, versions);
    tcase_add_test(files, header_forms);
    tcase_add_test(files, long_header);
    tcase_add_test(files, golden_values);
    tcase_add_test(files, golden_files);
    tcase_add_loop_test(files, round_trip, 0, 4);
    tcase_add_test(files, written_bytes);
    tcase_add_test(files, empty_tensor);
    tcase_add_test(files, cannot_write);
    tcase_add_test(files, no_space);
    tcase_set_timeout(files, 60);
    suite_add_tcase(suite, files);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
