// The comparison sees what it must: NaN, infinities, the last element; and it says where.
#include "common/compare.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

// A tensor of 24 elements, 0, 1, ..., 23; expected the same; bounds of 0.5.
typedef struct Table {
    Tensor got;
    double expected[24], bound[24];
} Table;

static Table table_make(int rank) {
    Table table;
    int64_t dims4[] = {1, 2, 4, 3}, dims3[] = {2, 3, 4};
    ck_assert_int_eq(tensor_alloc(&table.got, DTYPE_F32, rank, rank == 4 ? dims4 : dims3), ATTN_OK);
    for (size_t i = 0; i < 24; i++) {
        tensor_set(&table.got, i, (double)i);
        table.expected[i] = (double)i;
        table.bound[i] = 0.5;
    }
    return table;
}

static Comparison table_compare(const Table *table, int64_t block_q) {
    return compare_elements(table->got.rank == 4 ? "O" : "LSE", &table->got, table->expected,
                            table->bound, block_q);
}

START_TEST(checker_nan) {
    static const double got[] = {NAN, INFINITY, 5, NAN, 24};
    static const double wanted[] = {5, 5, NAN, NAN, 23};
    for (int i = 0; i < 5; i++) {
        size_t place = i == 4 ? 23 : 5; // the last row: the last element is wrong
        Table table = table_make(4);
        tensor_set(&table.got, place, got[i]);
        table.expected[place] = wanted[i];
        Comparison result = table_compare(&table, 0);
        ck_assert_uint_eq(result.checked, 24);
        ck_assert_uint_eq(result.failed, 1);
        ck_assert(result.worst_ratio > 1);
        ck_assert(i == 4 ? result.max_error == 1 : isinf(result.max_error));
        tensor_free(&table.got);
    }
}
END_TEST

START_TEST(infinities) {
    Table table = table_make(3);
    tensor_set(&table.got, 0, -INFINITY);
    table.expected[0] = -INFINITY;
    table.bound[0] = 0;
    ck_assert_uint_eq(table_compare(&table, 0).failed, 0);
    table.expected[0] = INFINITY; // the other infinity
    ck_assert_uint_eq(table_compare(&table, 0).failed, 1);
    table.expected[0] = -1e30; // an infinity where a number belongs, even with no bound
    table.bound[0] = INFINITY;
    ck_assert_uint_eq(table_compare(&table, 0).failed, 1);
    table.bound[0] = NAN;
    tensor_set(&table.got, 0, -1e29);
    ck_assert_uint_eq(table_compare(&table, 0).failed, 1);
    tensor_free(&table.got);
}
END_TEST

START_TEST(zero_bound_is_exact) {
    Table table = table_make(3);
    table.bound[0] = 0;
    tensor_set(&table.got, 0, -0.0);
    ck_assert_uint_eq(table_compare(&table, 0).failed, 0);
    tensor_set(&table.got, 0, 0x1p-149);
    ck_assert_uint_eq(table_compare(&table, 0).failed, 1);
    tensor_free(&table.got);
}
END_TEST

START_TEST(message) {
    Table table = table_make(4);
    Comparison result = table_compare(&table, 2);
    ck_assert_str_eq(result.message, "");
    ck_assert(result.max_error == 0 && result.worst_ratio == 0);
    tensor_set(&table.got, 20, 20.75);
    tensor_set(&table.got, 23, NAN);
    result = table_compare(&table, 2);
    ck_assert_str_eq(result.message,
                     "O: 2 of 24 elements failed, the first at (batch 0, head 1, row 2, column 2), "
                     "in row tile 1 of 2 rows: got 20.75, expected 20, error 0.75, bound 0.5");
    tensor_set(&table.got, 20, 20);
    result = table_compare(&table, 0);
    ck_assert_str_eq(result.message,
                     "O: 1 of 24 elements failed, the first at (batch 0, head 1, row 3, column 2): "
                     "got NaN, expected 23, error NaN, bound 0.5");
    tensor_free(&table.got);
    table = table_make(3);
    tensor_set(&table.got, 17, 0);
    result = table_compare(&table, 0);
    ck_assert_str_eq(result.message, "LSE: 1 of 24 elements failed, the first at (batch 1, head 1, "
                                     "row 1): got 0, expected 17, error 17, bound 0.5");
    tensor_free(&table.got);
}
END_TEST

START_TEST(both_outputs) {
    Table o = table_make(4), lse = table_make(3);
    Expected expected = {
        .o = o.expected, .lse = lse.expected, .o_bound = o.bound, .lse_bound = lse.bound};
    Comparison o_result, lse_result;
    ck_assert(compare_output(&expected, &o.got, &lse.got, 0, NULL, NULL));
    tensor_set(&lse.got, 2, 0);
    ck_assert(!compare_output(&expected, &o.got, &lse.got, 0, &o_result, &lse_result));
    ck_assert(o_result.failed == 0 && lse_result.failed == 1);
    tensor_set(&lse.got, 2, 2);
    tensor_set(&o.got, 5, 100);
    ck_assert(!compare_output(&expected, &o.got, &lse.got, 0, &o_result, &lse_result));
    ck_assert(o_result.failed == 1 && lse_result.failed == 0);
    tensor_free(&o.got);
    tensor_free(&lse.got);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("compare");
    TCase *tcase = tcase_create("comparison");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, checker_nan);
    tcase_add_test(tcase, infinities);
    tcase_add_test(tcase, zero_bound_is_exact);
    tcase_add_test(tcase, message);
    tcase_add_test(tcase, both_outputs);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
