// Device memory of the simt target: where buffers lie, what they hold, and what becomes of them.
#include "common/simt/fiber.h"
#include "common/simt/internal.h"

#include <check.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void *alloc(const char *name, size_t count, size_t element) {
    void *memory = simt_memory_alloc(name, count, element);
    ck_assert_msg(memory != NULL, "no memory for %zu x %zu bytes", count, element);
    return memory;
}

// ---- reading where there may be nothing ---------------------------------------------------------

static sigjmp_buf back;
static void jump_back(int signal) {
    siglongjmp(back, signal);
}

static bool can_read(const volatile char *address) {
    if (sigsetjmp(back, 1) != 0) {
        return false;
    }
    (void)*address;
    return true;
}

// ---- buffers ------------------------------------------------------------------------------------

START_TEST(buffers_are_aligned_and_nan) {
    static const size_t sizes[] = {1, 4, 255, 256, 257, 4095, 4096, 4097, 100000, 3 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *memory = alloc("bytes", sizes[i], 1);
        ck_assert_uint_eq((uintptr_t)memory % 256, 0);
        for (size_t j = 0; j < sizes[i]; j++) {
            ck_assert_uint_eq(memory[j], 0xff);
        }
        memset(memory, 0, sizes[i]);
    }
    ck_assert_int_eq(simt_buffer_count(), sizeof sizes / sizeof sizes[0]);
}
END_TEST

START_TEST(gaps_cannot_be_read) {
    if (SIMT_ASAN) {
        return; // which reports the reading itself
    }
    const long page = sysconf(_SC_PAGESIZE);
    signal(SIGSEGV, jump_back);
    signal(SIGBUS, jump_back);
    for (size_t bytes = 1; bytes < 40000; bytes += 1237) {
        char *memory = alloc("bytes", bytes, 1);
        char *end = memory + (bytes + 255) / 256 * 256;
        ck_assert_uint_eq((uintptr_t)end % (uintptr_t)page, 0); // nothing accessible behind it
        ck_assert(can_read(memory) && can_read(memory + bytes - 1));
        for (ptrdiff_t far = 0; far < 65536; far += 4096) {
            ck_assert(!can_read(end + far));
            ck_assert(!can_read(memory - page - far));
        }
    }
}
END_TEST

START_TEST(buffers_are_found_by_address) {
    enum { COUNT = 100 };
    char *memory[COUNT];
    const SimtBuffer *nearest;
    ck_assert_ptr_null(simt_buffer_at("nowhere", &nearest));
    ck_assert_ptr_null(nearest);
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "buffer %d", i);
        memory[i] = alloc(name, (size_t)i + 1, 12);
    }
    for (int i = 0; i < COUNT; i += 3) { // some go, so that there are gaps
        ck_assert(simt_memory_free(memory[i]));
    }
    for (int i = 1; i < COUNT; i++) {
        if (i % 3 == 0) {
            ck_assert_ptr_null(simt_buffer_at(memory[i], NULL));
            continue;
        }
        char name[32];
        snprintf(name, sizeof name, "buffer %d", i);
        const size_t bytes = 12 * ((size_t)i + 1);
        const SimtBuffer *found = simt_buffer_at(memory[i] + bytes - 1, &nearest);
        ck_assert_ptr_nonnull(found);
        ck_assert_ptr_eq(found, nearest);
        ck_assert_str_eq(found->name, name);
        ck_assert_ptr_eq(found->start, memory[i]);
        ck_assert_uint_eq(found->bytes, bytes);
        ck_assert_uint_eq(found->element, 12);
        ck_assert_ptr_null(simt_buffer_at(memory[i] + bytes, &nearest));
        ck_assert_str_eq(nearest->name, name);
        ck_assert_ptr_null(simt_buffer_at(memory[i] - 1, &nearest));
        ck_assert_str_eq(nearest->name, name);
    }
    for (int i = 1; i < simt_buffer_count(); i++) {
        ck_assert(simt_buffer(i - 1)->start + simt_buffer(i - 1)->bytes < simt_buffer(i)->start);
    }
}
END_TEST

START_TEST(only_buffers_are_freed) {
    char *memory = alloc("x", 10, 4);
    ck_assert(!simt_memory_free(memory + 4));
    ck_assert(!simt_memory_free(&memory));
    ck_assert(!simt_memory_free(NULL));
    ck_assert(simt_memory_free(memory));
    ck_assert(!simt_memory_free(memory));
    ck_assert_int_eq(simt_buffer_count(), 0);
    ck_assert_ptr_null(simt_memory_alloc("none", 0, 4));
    ck_assert_ptr_null(simt_memory_alloc("overflow", SIZE_MAX / 2, 4));
    ck_assert_ptr_null(simt_memory_alloc("too large", SIZE_MAX / 4, 2));
    ck_assert_ptr_nonnull(simt_memory_alloc(NULL, 1, 1));
}
END_TEST

// Else 20 buffers would be resident at the end.
START_TEST(freed_memory_goes_back) {
    enum { BYTES = 64 << 20 };
    long before = 0;
    if (SIMT_ASAN) {
        return; // which keeps notes of every address that was ever in use
    }
    for (int i = 0; i < 20; i++) {
        char *memory = alloc("large", BYTES, 1);
        ck_assert(memory[BYTES - 1] == (char)0xff);
        ck_assert(simt_memory_free(memory));
        struct rusage usage;
        ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
        before = i == 0 ? usage.ru_maxrss : before;
        ck_assert_int_lt(usage.ru_maxrss - before, BYTES / 1024 / 2); // in KiB
    }
}
END_TEST

START_TEST(a_small_address_space_is_enough) {
    if (SIMT_ASAN) {
        return; // it needs terabytes of addresses
    }
    const struct rlimit small = {(rlim_t)400 << 20, (rlim_t)400 << 20};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &small), 0);
    for (int round = 0; round < 200; round++) { // more than fits: freed addresses come again
        char *a = alloc("a", 8 << 20, 1), *b = alloc("b", 1 << 20, 1);
        a[0] = b[0] = 1;
        ck_assert(simt_memory_free(a));
        ck_assert(simt_memory_free(b));
    }
    ck_assert_uint_lt(simt_arena_size, (size_t)400 << 20);
    ck_assert_ptr_null(simt_memory_alloc("too much", (size_t)400 << 20, 1));
    int held = 0;
    while (simt_memory_alloc("all of it", 1 << 20, 1) != NULL) {
        held++;
    }
    ck_assert_int_gt(held, 8);
    ck_assert_int_lt(held, 400);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("simt_memory");
    TCase *tests = tcase_create("memory");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, buffers_are_aligned_and_nan);
    tcase_add_test(tests, gaps_cannot_be_read);
    tcase_add_test(tests, buffers_are_found_by_address);
    tcase_add_test(tests, only_buffers_are_freed);
    tcase_add_test(tests, freed_memory_goes_back);
    tcase_add_test(tests, a_small_address_space_is_enough);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
