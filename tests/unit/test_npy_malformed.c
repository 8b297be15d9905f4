// Malformed NPY files: each kind has its own message, and no damage makes the reader crash.
// Run from the repository's root.
#include "common/npy.h"
#include "tests/unit/scratch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GARBLED "its header is garbled: expected "

// The file is refused, its message is "path: " and this text, and the tensor is zeroed.
static void assert_fails_at(const char *where, AttnStatus status, const char *message) {
    Tensor tensor;
    memset(&tensor, 0x5a, sizeof tensor);
    char expected[512];
    snprintf(expected, sizeof expected, "%s: %s", where, message);
    AttnStatus got = npy_read(where, &tensor);
    ck_assert_str_eq(attn_last_error(), expected);
    ck_assert_str_eq(attn_status_name(got), attn_status_name(status));
    ck_assert_ptr_null(tensor.block);
    ck_assert_ptr_null(tensor.data);
    ck_assert_int_eq(tensor.rank, 0);
    ck_assert_uint_eq(tensor.count, 0);
}

static void assert_fails(AttnStatus status, const char *message) {
    assert_fails_at(scratch_path, status, message);
}

START_TEST(not_a_file) {
    assert_fails_at("/tmp/no/such/file.npy", ATTN_ERR_IO, "No such file or directory");
    assert_fails_at("tests/golden", ATTN_ERR_IO, "it is a directory");
    assert_fails_at("/dev/null", ATTN_ERR_IO, "it is not a regular file");
}
END_TEST

START_TEST(bad_start) {
    scratch_write("", 0);
    assert_fails(ATTN_ERR_IO, "the file is empty");
    const char *no_magic = "it is not an NPY file (no \\x93NUMPY at its start)";
    scratch_write("PK\x03\x04 this is a zip file", 23);
    assert_fails(ATTN_ERR_IO, "it is a zip archive, as .npz is: save one array with numpy.save");
    scratch_write("P", 1);
    assert_fails(ATTN_ERR_IO, no_magic);
    scratch_write("\x93NUM", 4);
    assert_fails(ATTN_ERR_IO, no_magic);
    scratch_write("\x93NUMPY", 6);
    assert_fails(ATTN_ERR_IO, "truncated before its header");
    scratch_write("\x93NUMPY\x01\x00\x10", 9);
    assert_fails(ATTN_ERR_IO, "truncated before its header");
    scratch_write("\x93NUMPY\x02\x00\x10\x00", 10);
    assert_fails(ATTN_ERR_IO, "truncated before its header");
    scratch_write("\x93NUMPY\x04\x00\x10\x00    ", 14);
    assert_fails(ATTN_ERR_IO, "its format version 4.0 is not 1.0, 2.0 or 3.0");
    scratch_write("\x93NUMPY\x01\x02\x10\x00    ", 14);
    assert_fails(ATTN_ERR_IO, "its format version 1.2 is not 1.0, 2.0 or 3.0");
    scratch_write("\x93NUMPY\x01\x00\x76\x00{'descr'", 18);
    assert_fails(ATTN_ERR_IO, "truncated: its header should have 118 bytes, the whole file has 18");
    scratch_write("\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'", 20);
    assert_fails(ATTN_ERR_IO,
                 "truncated: its header should have 4294967295 bytes, the whole file has 20");
    scratch_write("\x93NUMPY\x01\x00\x03\x00{}\0", 13); // a zero byte is not white space
    assert_fails(ATTN_ERR_IO, GARBLED "nothing more at character 3 of it");
}
END_TEST

START_TEST(garbled_header) {
    static const struct {
        const char *header, *message;
    } cases[] = {
        {"", GARBLED "{ at character 1 of it"},
        {"[1, 2]", GARBLED "{ at character 1 of it"},
        {"{descr: '<f4'}", GARBLED "a quoted string at character 2 of it"},
        {"{'descr", GARBLED "a closing quote at character 8 of it"},
        {"{'descr\n': '<f4'}", GARBLED "the end of a short plain string at character 8 of it"},
        {"{'de\\x73cr': '<f4'}", GARBLED "the end of a short plain string at character 5 of it"},
        {"{'a key of more than thirty-one letters': 1}",
         GARBLED "the end of a short plain string at character 34 of it"},
        {"{'descr' '<f4'}", GARBLED "a colon at character 10 of it"},
        {"{'descr': <f4}", GARBLED "a quoted string at character 11 of it"},
        {"{'descr': '<f4' 'shape': (2,)}", GARBLED "a comma or } at character 17 of it"},
        {"{'descr': '<f4', ", GARBLED "a quoted string at character 18 of it"},
        {"{'descr': '<f4',, }", GARBLED "a quoted string at character 17 of it"},
        {"{'fortran_order': 0}", GARBLED "True or False at character 19 of it"},
        {"{'shape': 5}", GARBLED "a tuple as the shape at character 11 of it"},
        {"{'shape': (5)}", GARBLED "a comma in the shape at character 13 of it"},
        {"{'shape': (2 3)}", GARBLED "a comma in the shape at character 14 of it"},
        {"{'shape': (2, 3 4)}", GARBLED "a comma or ) in the shape at character 17 of it"},
        {"{'shape': (2, x)}", GARBLED "a number at character 15 of it"},
        {"{'shape': (,)}", GARBLED "a number at character 12 of it"},
        {"{'shape': (2,", GARBLED "a number at character 14 of it"},
        {"{'shape': (2, -)}", GARBLED "a number at character 16 of it"},
        {"{'descr': '<f4'} {}", GARBLED "nothing more at character 18 of it"},
        {"{}", "its header lacks 'descr'"},
        {"{'descr': '<f4', 'shape': (2,)}", "its header lacks 'fortran_order'"},
        {"{'descr': '<f4', 'fortran_order': False}", "its header lacks 'shape'"},
        {"{'descr': '<f4', 'descr': '<f4'}", "its header has 'descr' twice"},
        {"{'shape': (2,), 'shape': (2,)}", "its header has 'shape' twice"},
        {"{'colour': 'red'}", "its header has the unknown key 'colour'"},
        {"{'shape': (2, -3)}", "its shape has the negative dimension -3"},
        {"{'shape': (9223372036854775808,)}", "a dimension in its shape is larger than 2^63 - 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scratch_write_npy(1, cases[i].header, 8);
        assert_fails(ATTN_ERR_IO, cases[i].message);
    }
}
END_TEST

START_TEST(unsupported) {
    static const struct {
        const char *descr, *order, *shape, *message;
    } cases[] = {
        {"'>f4'", "False", "(2, 3)",
         "its type '>f4' is big-endian; only '<f2', '<f4' and '<f8' can be read"},
        {"'<i8'", "False", "(2, 3)",
         "its type '<i8' is not supported; only '<f2', '<f4' and '<f8' can be read"},
        {"'=f4'", "False", "(2, 3)",
         "its type '=f4' is not supported; only '<f2', '<f4' and '<f8' can be read"},
        {"'|b1'", "False", "(2, 3)",
         "its type '|b1' is not supported; only '<f2', '<f4' and '<f8' can be read"},
        {"''", "False", "(2, 3)",
         "its type '' is not supported; only '<f2', '<f4' and '<f8' can be read"},
        {"[('x', '<f4')]", "False", "(2, 3)",
         "its elements are records; only '<f2', '<f4' and '<f8' can be read"},
        {"'<f4'", "True", "(2, 3)", "it is in Fortran order; save it with numpy.ascontiguousarray"},
        {"'<f4'", "False", "()", "its rank 0 is outside 1..4"},
        {"'<f4'", "False", "(1, 1, 1, 2, 3)", "its rank 5 is outside 1..4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scratch_write_array(cases[i].descr, cases[i].order, cases[i].shape, 24);
        assert_fails(ATTN_ERR_UNSUPPORTED, cases[i].message);
    }
}
END_TEST

START_TEST(wrong_length) {
    scratch_write_array("'<f4'", "False", "(2, 3)", 20);
    assert_fails(ATTN_ERR_IO, "truncated: its shape needs 24 bytes of data, it has 20");
    scratch_write_array("'<f8'", "False", "(2, 3)", 0);
    assert_fails(ATTN_ERR_IO, "truncated: its shape needs 48 bytes of data, it has 0");
    scratch_write_array("'<f4'", "False", "(2, 3)", 25);
    assert_fails(ATTN_ERR_IO, "trailing bytes: its shape needs 24 bytes of data, it has 25");
    scratch_write_array("'<f4'", "False", "(0, 3)", 4);
    assert_fails(ATTN_ERR_IO, "trailing bytes: its shape needs 0 bytes of data, it has 4");
    scratch_write_array("'<f4'", "False", "(1000000, 1000000)", 24);
    assert_fails(ATTN_ERR_IO, "truncated: its shape needs 4000000000000 bytes of data, it has 24");
    // 2^62 elements of 4 bytes are 2^64 bytes, which is 0 in 64 bits.
    scratch_write_array("'<f4'", "False", "(2147483648, 2147483648)", 0);
    assert_fails(ATTN_ERR_IO, "its shape has more elements than can be addressed");
}
END_TEST

// Reads the file, which may be anything: it must be a whole tensor or an error with a message.
static bool survives(void) {
    Tensor tensor;
    attn_fail(ATTN_OK, "%s", "");
    AttnStatus status = npy_read(scratch_path, &tensor);
    if (status == ATTN_OK) {
        ck_assert(tensor_guards_intact(&tensor));
        ck_assert_int_ge(tensor.rank, 1);
    } else {
        ck_assert_ptr_null(tensor.data);
        ck_assert(strncmp(attn_last_error(), scratch_path, strlen(scratch_path)) == 0);
    }
    tensor_free(&tensor);
    return status == ATTN_OK;
}

// A valid file with bytes changed, or cut short at every length: never a crash.
START_TEST(damaged_files) {
    unsigned char valid[512], bytes[512];
    scratch_write_npy(_i, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", 24);
    size_t count = scratch_read(valid, sizeof valid);
    ck_assert(survives());
    for (size_t length = 0; length < count; length++) {
        scratch_write(valid, length);
        ck_assert(!survives());
    }
    // A linear congruential generator: any sequence will do.
    uint64_t state = 1;
    int refused = 0;
    for (int round = 0; round < 1500; round++) {
        memcpy(bytes, valid, count);
        for (int change = 0; change <= round % 4; change++) {
            state = state * UINT64_C(0xbf58476d1ce4e5b9) + UINT64_C(0x9e3779b97f4a7c15);
            size_t place = (state >> 33) % (count - 24); // the data may hold anything
            // Now any byte, now one that the header's grammar knows.
            bytes[place] = round % 2 ? (unsigned char)(state >> 24)
                                     : (unsigned char)"{}()'\",:0129- <f48TF\n"[(state >> 20) % 21];
        }
        scratch_write(bytes, count);
        refused += !survives();
    }
    ck_assert_int_gt(refused, 750);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("npy malformed");
    TCase *files = tcase_create("files");
    tcase_add_unchecked_fixture(files, scratch_make, scratch_remove);
    tcase_add_test(files, not_a_file);
    tcase_add_test(files, bad_start);
    tcase_add_test(files, garbled_header);
    tcase_add_test(files, unsupported);
    tcase_add_test(files, wrong_length);
    tcase_add_loop_test(files, damaged_files, 1, 4);
    tcase_set_timeout(files, 60);
    suite_add_tcase(suite, files);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
