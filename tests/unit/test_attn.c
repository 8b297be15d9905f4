// The attention problem: which shapes are legal, what the messages say, what a query sees.
#include "common/attn.h"

#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// A legal shape; each test changes what it is about.
static AttnShape plain_shape(void) {
    return (AttnShape){.batch = 2, .heads_q = 6, .heads_kv = 2, .len_q = 5, .len_kv = 9, .dim = 64};
}

static AttnShape causal_shape(int64_t len_q, int64_t len_kv, int64_t window) {
    AttnShape shape = plain_shape();
    shape.len_q = len_q;
    shape.len_kv = len_kv;
    shape.causal = true;
    shape.window = window;
    ck_assert_int_eq(attn_check_shape(&shape), ATTN_OK);
    return shape;
}

// The shape is refused with this status and exactly this message.
static void assert_refused(const AttnShape *shape, AttnStatus status, const char *message) {
    attn_fail(ATTN_OK, "nothing");
    ck_assert_int_eq(attn_check_shape(shape), status);
    ck_assert_str_eq(attn_last_error(), message);
}

static void assert_range(KeyRange got, int64_t begin, int64_t end) {
    ck_assert_int_eq(got.begin, begin);
    ck_assert_int_eq(got.end, end);
}

START_TEST(legal_shapes) {
    AttnShape shape = plain_shape();
    ck_assert_int_eq(attn_check_shape(&shape), ATTN_OK);
    shape.batch = shape.len_q = shape.len_kv = 0;
    ck_assert_int_eq(attn_check_shape(&shape), ATTN_OK);
    shape = plain_shape();
    shape.causal = true;
    shape.window = INT64_MAX;
    shape.scale = 0.5;
    shape.dim = 1;
    ck_assert_int_eq(attn_check_shape(&shape), ATTN_OK);
}
END_TEST

START_TEST(sizes_too_small) {
    AttnShape shape = plain_shape();
    shape.batch = -1;
    assert_refused(&shape, ATTN_ERR_SHAPE, "batch -1 must be at least 0");
    shape = plain_shape();
    shape.heads_q = 0;
    assert_refused(&shape, ATTN_ERR_SHAPE, "heads_q 0 must be at least 1");
    shape = plain_shape();
    shape.len_q = -5;
    assert_refused(&shape, ATTN_ERR_SHAPE, "len_q -5 must be at least 0");
    shape = plain_shape();
    shape.len_kv = INT64_MIN;
    assert_refused(&shape, ATTN_ERR_SHAPE, "len_kv -9223372036854775808 must be at least 0");
    shape = plain_shape();
    shape.dim = 0;
    assert_refused(&shape, ATTN_ERR_SHAPE, "dim 0 must be at least 1");
    assert_refused(NULL, ATTN_ERR_ARGUMENT, "shape is a null pointer; an AttnShape is needed");
}
END_TEST

START_TEST(gqa_reject) {
    static const struct {
        int64_t heads_q, heads_kv;
        const char *message;
    } cases[] = {
        {3, 2, "heads_q 3 is not a multiple of heads_kv 2"},
        {33, 2, "heads_q 33 is not a multiple of heads_kv 2"},
        {2, 4, "heads_q 2 is not a multiple of heads_kv 4"},
        {4, 0, "heads_kv 0 must be at least 1"},
        {4, -2, "heads_kv -2 must be at least 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        AttnShape shape = plain_shape();
        shape.heads_q = cases[i].heads_q;
        shape.heads_kv = cases[i].heads_kv;
        assert_refused(&shape, ATTN_ERR_SHAPE, cases[i].message);
    }
}
END_TEST

START_TEST(gqa_map) {
    AttnShape shape = plain_shape();
    static const int64_t expected[6] = {0, 0, 0, 1, 1, 1};
    for (int64_t head = 0; head < 6; head++) {
        ck_assert_int_eq(attn_kv_head(&shape, head), expected[head]);
    }
    shape.heads_kv = 6;
    ck_assert_int_eq(attn_kv_head(&shape, 5), 5);
    shape.heads_kv = 1;
    ck_assert_int_eq(attn_kv_head(&shape, 5), 0);
}
END_TEST

START_TEST(scale_rules) {
    AttnShape shape = plain_shape();
    ck_assert_double_eq(attn_scale(&shape), 0.125);
    shape.scale = 3;
    ck_assert_double_eq(attn_scale(&shape), 3);
    shape.scale = -0.5;
    assert_refused(&shape, ATTN_ERR_ARGUMENT,
                   "scale -0.5 must be finite and not negative (0 stands for 1/sqrt(dim))");
    shape.scale = INFINITY;
    ck_assert_int_eq(attn_check_shape(&shape), ATTN_ERR_ARGUMENT);
    shape.scale = -INFINITY;
    ck_assert_int_eq(attn_check_shape(&shape), ATTN_ERR_ARGUMENT);
    shape.scale = NAN;
    ck_assert_int_eq(attn_check_shape(&shape), ATTN_ERR_ARGUMENT);
}
END_TEST

START_TEST(window_negative) {
    AttnShape shape = plain_shape();
    shape.causal = true;
    shape.window = -1;
    assert_refused(&shape, ATTN_ERR_ARGUMENT,
                   "window -1 must not be negative (0 stands for unlimited)");
}
END_TEST

START_TEST(window_needs_causal) {
    AttnShape shape = plain_shape();
    shape.window = 4;
    assert_refused(&shape, ATTN_ERR_ARGUMENT, "window 4 needs causal");
}
END_TEST

START_TEST(key_lengths) {
    AttnShape shape = plain_shape();
    int32_t lens[2] = {0, 9};
    shape.kv_lens = lens;
    ck_assert_int_eq(attn_check_shape(&shape), ATTN_OK);
    ck_assert_int_eq(attn_keys(&shape, 0), 0);
    ck_assert_int_eq(attn_keys(&shape, 1), 9);
    lens[1] = 10;
    assert_refused(&shape, ATTN_ERR_SHAPE, "kv_lens[1] 10 is outside 0..len_kv, 0..9");
    lens[0] = -1;
    assert_refused(&shape, ATTN_ERR_SHAPE, "kv_lens[0] -1 is outside 0..len_kv, 0..9");
    shape.kv_lens = NULL;
    ck_assert_int_eq(attn_keys(&shape, 1), 9);
}
END_TEST

START_TEST(size_overflow) {
    AttnShape shape = plain_shape();
    shape.len_q = INT64_C(1) << 60;
    assert_refused(&shape, ATTN_ERR_SHAPE,
                   "Q [2][6][1152921504606846976][64] has more elements than can be addressed");
    shape = plain_shape();
    shape.len_kv = INT64_C(1) << 60;
    assert_refused(&shape, ATTN_ERR_SHAPE,
                   "K [2][2][1152921504606846976][64] has more elements than can be addressed");
    // 2^60 elements of 8 bytes are one too many for int64; half of them are not.
    shape = (AttnShape){.heads_q = 1, .heads_kv = 1, .len_q = 1, .len_kv = 1, .dim = 1};
    shape.batch = INT64_C(1) << 60;
    ck_assert_int_eq(attn_check_shape(&shape), ATTN_ERR_SHAPE);
    shape.batch /= 2;
    ck_assert_int_eq(attn_check_shape(&shape), ATTN_OK);
    // The product of the sizes is 2^64, which is 0 in 64 bits.
    shape.batch = shape.dim = INT64_C(1) << 32;
    ck_assert_int_eq(attn_check_shape(&shape), ATTN_ERR_SHAPE);
}
END_TEST

START_TEST(counts) {
    AttnShape shape = plain_shape();
    ck_assert_uint_eq(attn_count_q(&shape), 2 * 6 * 5 * 64);
    ck_assert_uint_eq(attn_count_kv(&shape), 2 * 2 * 9 * 64);
    ck_assert_uint_eq(attn_count_lse(&shape), 2 * 6 * 5);
    shape = (AttnShape){64, 16, 16, 2048, 2048, 2048, .causal = false};
    ck_assert_uint_eq(attn_count_q(&shape), UINT64_C(4294967296));
    ck_assert_uint_eq(attn_count_kv(&shape), UINT64_C(4294967296));
}
END_TEST

START_TEST(bytes_of_keys_in_use) {
    static const int32_t lens[] = {5, 0, 10};
    AttnShape shape = {3, 4, 2, 1, 10, 64, 0, false, 0, NULL};
    ck_assert_double_eq(attn_kv_bytes(&shape, 2), 2.0 * 30 * 2 * 64 * 2);
    shape.kv_lens = lens;
    ck_assert_double_eq(attn_kv_bytes(&shape, 4), 2.0 * 15 * 2 * 64 * 4);
    ck_assert_int_eq(attn_ceil_div(0, 4), 0);
    ck_assert_int_eq(attn_ceil_div(8, 4), 2);
    ck_assert_int_eq(attn_ceil_div(9, 4), 3);
    ck_assert_int_eq(attn_ceil_div(-1, 4), 0);
}
END_TEST

START_TEST(decode_alignment) {
    AttnShape shape = causal_shape(1, 5, 0);
    assert_range(attn_visible_keys(&shape, 0, 0), 0, 5);
    shape = causal_shape(2, 5, 0);
    assert_range(attn_visible_keys(&shape, 0, 0), 0, 4);
    assert_range(attn_visible_keys(&shape, 0, 1), 0, 5);
}
END_TEST

START_TEST(rows_without_keys) {
    AttnShape shape = causal_shape(5, 2, 0);
    static const int64_t visible[5] = {0, 0, 0, 1, 2};
    for (int64_t row = 0; row < 5; row++) {
        assert_range(attn_visible_keys(&shape, 0, row), 0, visible[row]);
    }
}
END_TEST

START_TEST(window_count) {
    AttnShape shape = causal_shape(8, 8, 3);
    assert_range(attn_visible_keys(&shape, 0, 7), 5, 8);
    assert_range(attn_visible_keys(&shape, 0, 3), 1, 4);
    assert_range(attn_visible_keys(&shape, 0, 2), 0, 3);
    assert_range(attn_visible_keys(&shape, 0, 0), 0, 1);
}
END_TEST

START_TEST(window_larger_than_s) {
    static const int64_t windows[] = {4, 100, INT64_MAX};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        AttnShape shape = causal_shape(4, 4, windows[i]);
        for (int64_t row = 0; row < 4; row++) {
            assert_range(attn_visible_keys(&shape, 0, row), 0, row + 1);
        }
    }
}
END_TEST

START_TEST(visible_with_key_lengths) {
    // The alignment follows the keys in use, not the size of the cache.
    int32_t lens[2] = {3, 0};
    AttnShape shape = causal_shape(2, 9, 2);
    shape.kv_lens = lens;
    assert_range(attn_visible_keys(&shape, 0, 0), 0, 2);
    assert_range(attn_visible_keys(&shape, 0, 1), 1, 3);
    assert_range(attn_visible_keys(&shape, 1, 1), 0, 0);
    shape.causal = false;
    shape.window = 0;
    assert_range(attn_visible_keys(&shape, 0, 0), 0, 3);
    assert_range(attn_visible_keys(&shape, 1, 0), 0, 0);
}
END_TEST

// Every small shape against the rule itself, key by key: i sees j when j <= i + (S - T) and, in a
// window, j > i + (S - T) - W.
START_TEST(visible_by_the_rule) {
    for (int64_t len_q = 1; len_q <= 7; len_q++) {
        for (int64_t len_kv = 0; len_kv <= 9; len_kv++) {
            for (int64_t window = 0; window <= 10; window++) {
                AttnShape shape = causal_shape(len_q, len_kv, window);
                for (int64_t row = 0; row < len_q; row++) {
                    KeyRange range = attn_visible_keys(&shape, 0, row);
                    ck_assert(0 <= range.begin && range.begin <= range.end);
                    ck_assert(range.end <= len_kv);
                    for (int64_t key = 0; key < len_kv; key++) {
                        int64_t last = row + len_kv - len_q;
                        bool sees = key <= last && (window == 0 || key > last - window);
                        ck_assert(sees == (range.begin <= key && key < range.end));
                    }
                }
            }
        }
    }
}
END_TEST

START_TEST(visible_without_overflow) {
    AttnShape shape = {.batch = 1, .heads_q = 1, .heads_kv = 1, .dim = 1, .causal = true};
    shape.len_q = INT64_C(1) << 59;
    shape.window = INT64_MAX;
    ck_assert_int_eq(attn_check_shape(&shape), ATTN_OK);
    assert_range(attn_visible_keys(&shape, 0, 0), 0, 0);
    shape.len_kv = shape.len_q;
    assert_range(attn_visible_keys(&shape, 0, shape.len_q - 1), 0, shape.len_kv);
    shape.len_q = 1;
    shape.window = 2;
    assert_range(attn_visible_keys(&shape, 0, 0), shape.len_kv - 2, shape.len_kv);
}
END_TEST

static void *fail_elsewhere(void *ignored) {
    (void)ignored;
    const char *before = attn_last_error();
    bool empty = before[0] == '\0';
    attn_fail(ATTN_ERR_IO, "another thread's message");
    return empty ? "empty" : "not empty";
}

START_TEST(messages) {
    ck_assert_str_eq(attn_last_error(), "");
    ck_assert_int_eq(attn_fail(ATTN_ERR_MEMORY, "got %d of %s", 3, "four"), ATTN_ERR_MEMORY);
    ck_assert_str_eq(attn_last_error(), "got 3 of four");
    attn_fail(ATTN_ERR_IO, "file: %s", attn_last_error());
    ck_assert_str_eq(attn_last_error(), "file: got 3 of four");

    pthread_t thread;
    void *result = NULL;
    ck_assert_int_eq(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_str_eq(result, "empty");
    ck_assert_str_eq(attn_last_error(), "file: got 3 of four");

    char path[3000];
    for (size_t i = 0; i < sizeof path; i++) {
        path[i] = i + 1 < sizeof path ? 'x' : '\0';
    }
    attn_fail(ATTN_ERR_IO, "%s: not found", path);
    ck_assert_uint_ge(strlen(attn_last_error()), 500);
    ck_assert_uint_lt(strlen(attn_last_error()), sizeof path);
}
END_TEST

START_TEST(status_names) {
    ck_assert_str_eq(attn_status_name(ATTN_OK), "ATTN_OK");
    ck_assert_str_eq(attn_status_name(ATTN_ERR_SHAPE), "ATTN_ERR_SHAPE");
    ck_assert_str_eq(attn_status_name(ATTN_ERR_ARGUMENT), "ATTN_ERR_ARGUMENT");
    ck_assert_str_eq(attn_status_name(ATTN_ERR_UNSUPPORTED), "ATTN_ERR_UNSUPPORTED");
    ck_assert_str_eq(attn_status_name(ATTN_ERR_MEMORY), "ATTN_ERR_MEMORY");
    ck_assert_str_eq(attn_status_name(ATTN_ERR_IO), "ATTN_ERR_IO");
    ck_assert_str_eq(attn_status_name(ATTN_ERR_CUDA), "ATTN_ERR_CUDA");
    ck_assert_str_eq(attn_status_name((AttnStatus)99), "unknown status");
}
END_TEST

START_TEST(null_pointers_are_named) {
    const AttnShape shape = {
        .batch = 1, .heads_q = 2, .heads_kv = 1, .len_q = 3, .len_kv = 4, .dim = 5};
    float x = 0.0F;
    ck_assert_int_eq(attn_check_pointers(&shape, &x, &x, &x, &x, &x), ATTN_OK);
    const char *const names[] = {"q ", "k ", "v ", "o ", "lse "};
    for (int missing = 0; missing < 5; missing++) {
        const void *p[5] = {&x, &x, &x, &x, &x};
        p[missing] = NULL;
        ck_assert_int_eq(attn_check_pointers(&shape, p[0], p[1], p[2], p[3], p[4]),
                         ATTN_ERR_ARGUMENT);
        ck_assert_msg(strncmp(attn_last_error(), names[missing], strlen(names[missing])) == 0,
                      "message: %s", attn_last_error());
    }
    AttnShape empty = shape;
    empty.len_kv = 0;
    ck_assert_int_eq(attn_check_pointers(&empty, &x, NULL, NULL, &x, &x), ATTN_OK);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("attn");
    TCase *shapes = tcase_create("shapes");
    tcase_set_timeout(shapes, 60);
    tcase_add_test(shapes, legal_shapes);
    tcase_add_test(shapes, sizes_too_small);
    tcase_add_test(shapes, gqa_reject);
    tcase_add_test(shapes, gqa_map);
    tcase_add_test(shapes, scale_rules);
    tcase_add_test(shapes, window_negative);
    tcase_add_test(shapes, window_needs_causal);
    tcase_add_test(shapes, key_lengths);
    tcase_add_test(shapes, size_overflow);
    tcase_add_test(shapes, counts);
    tcase_add_test(shapes, bytes_of_keys_in_use);
    suite_add_tcase(suite, shapes);
    TCase *visible = tcase_create("visible keys");
    tcase_set_timeout(visible, 60);
    tcase_add_test(visible, decode_alignment);
    tcase_add_test(visible, rows_without_keys);
    tcase_add_test(visible, window_count);
    tcase_add_test(visible, window_larger_than_s);
    tcase_add_test(visible, visible_with_key_lengths);
    tcase_add_test(visible, visible_by_the_rule);
    tcase_add_test(visible, visible_without_overflow);
    suite_add_tcase(suite, visible);
    TCase *errors = tcase_create("errors");
    tcase_set_timeout(errors, 60);
    tcase_add_test(errors, messages);
    tcase_add_test(errors, status_names);
    tcase_add_test(errors, null_pointers_are_named);
    suite_add_tcase(suite, errors);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
