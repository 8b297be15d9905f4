// Tests of tests/bench/tables.sh: tables are rewritten between their markers, the rest of the page
// is kept, and a page that is not understood is left as it was.
#include "tests/unit/capture.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, PAGE_BYTES = 8192 };

static char root[PATH_BYTES], folder[64];

static void enter(void) {
    ck_assert_ptr_nonnull(getcwd(root, sizeof root));
    enter_folder(folder);
}

static void leave(void) {
    remove_folder(folder);
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static const char *read_page(void) {
    static char text[PAGE_BYTES];
    FILE *file = fopen("cpu.md", "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

// Runs tables.sh on the current folder; a gnuplot of ours stands in front and draws nothing.
static void assert_tables(int status, const char *said) {
    char script[PATH_BYTES + 64];
    snprintf(script, sizeof script, "PATH=.:$PATH; '%s/tests/bench/tables.sh' .", root);
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    write_text("gnuplot", "#!/bin/sh\n");
    ck_assert_int_eq(system("chmod +x gnuplot"), 0); // NOLINT
    Captured captured = capture_program(argv);
    ck_assert_msg(captured.status == status, "status %d: %s", captured.status, captured.err);
    ck_assert_ptr_nonnull(strstr(status == 0 ? captured.out : captured.err, said));
    captured_free(&captured);
}

static const char csv[] =
    "machine,date,compiler,processors,vectors,kernel,phase,dtype,batch,heads_q,heads_kv,len_q,"
    "len_kv,dim,causal,window,threads,runs,median_s,p10_s,p90_s,gflops,gbs,bound,share,fma_gflops,"
    "copy_gbs,extra_bytes,check\n"
    "CPU,2026-01-02,gcc 12,2,AVX2,untiled,prefill,f32,1,1,1,4096,4096,64,0,0,1,5,2,1.9,2.25,2,1,"
    "fma,0.02,100,10,134217728,ok\n"
    "CPU,2026-01-02,gcc 12,2,AVX2,simd,prefill,f32,1,1,1,4096,4096,64,0,0,1,9,0.08,0.07,0.09,50,1,"
    "fma,0.5,100,10,1024,ok\n"
    "CPU,2026-01-02,gcc 12,2,AVX2,simd,prefill,f32,1,1,1,4096,4096,64,0,0,2,9,0.04,0.03,0.05,120,1,"
    "fma,0.6,200,20,2048,ok\n"
    "CPU,2026-01-02,gcc 12,2,AVX2,simd,prefill,f32,1,1,1,4096,4096,64,1,0,2,9,0.03,0.03,0.03,120,1,"
    "fma,0.6,200,20,2048,ok\n"
    "CPU,2026-01-02,gcc 12,2,AVX2,simd,prefill,f32,1,1,1,4096,4096,128,0,0,2,9,0.04,0.03,0.05,120,"
    "1,fma,0.9,200,20,2048,wrong\n";

START_TEST(tables_are_rewritten_and_text_is_kept) {
    write_text("cpu.csv", csv);
    write_text("cpu.md", "before\n<!-- table: targets -->\nold\n<!-- end of table -->\nbetween\n"
                         "<!-- table: ladder64 -->\n<!-- end of table -->\nafter\n");
    assert_tables(0, "tables rewritten");
    const char *page = read_page();
    ck_assert_ptr_nonnull(strstr(page, "before\n<!-- table: targets -->\n\n| target |"));
    ck_assert_ptr_nonnull(strstr(page, "\n\n<!-- end of table -->\nbetween\n<!-- table: ladder64"));
    ck_assert_ptr_nonnull(strstr(page, "\n\n<!-- end of table -->\nafter\n"));
    ck_assert_ptr_null(strstr(page, "old"));
    ck_assert_ptr_nonnull(strstr(page, "N=4096 d=64, one thread each | 25.0x | yes |"));
    ck_assert_ptr_nonnull(strstr(page, "two cores, N=4096 d=64 | 60 % | yes |"));
    ck_assert_ptr_nonnull(strstr(page, "full time, N=4096 d=64 | 0.75 | no |"));
    ck_assert_ptr_nonnull(strstr(page, "two cores, N=4096 d=128 | - | not measured |")); // wrong
    ck_assert_ptr_nonnull(strstr(
        page,
        "| 4096 | untiled | 1 | 2.00 s [1.90, 2.25] | 2.00 | 2 % | 1.0x | - | - | 128 MiB |"));
    ck_assert_ptr_nonnull(
        strstr(page, "| 4096 | simd | 2 | 40.0 ms [30.0, 50.0] | 120 | 60 % | 50.0x | 30.0 ms"));
}
END_TEST

START_TEST(a_second_time_changes_nothing) {
    char before[PAGE_BYTES];
    write_text("cpu.csv", csv);
    write_text("cpu.md", "<!-- table: threads -->\n<!-- end of table -->\n");
    assert_tables(0, "plots redrawn");
    snprintf(before, sizeof before, "%s", read_page());
    assert_tables(0, "plots redrawn");
    ck_assert_str_eq(read_page(), before);
}
END_TEST

START_TEST(without_figures_the_page_says_so) {
    write_text("cpu.md", "<!-- table: pytorch -->\n<!-- end of table -->\n");
    assert_tables(0, "tables rewritten");
    ck_assert_str_eq(read_page(),
                     "<!-- table: pytorch -->\n\nNot measured yet.\n\n<!-- end of table -->\n");
}
END_TEST

START_TEST(the_recorded_page_is_understood) {
    char page[PATH_BYTES + 64];
    snprintf(page, sizeof page, "cp '%s'/docs/benchmarks/cpu.* .", root);
    ck_assert_int_eq(system(page), 0); // NOLINT
    assert_tables(0, "tables rewritten");
}
END_TEST

START_TEST(a_page_that_is_not_understood_is_left) {
    static const char *const pages[][2] = {
        {"<!-- table: nonsense -->\n<!-- end of table -->\n", "no table is named nonsense"},
        {"<!-- table: targets -->\nlost text\n", "a table without an end"},
        {"<!-- end of table -->\n", "the end of no table"},
        {"<!-- table: targets -->\n<!-- table: machine -->\n", "a table within a table"},
    };
    write_text("cpu.csv", csv);
    write_text("cpu.md", pages[_i][0]);
    assert_tables(1, pages[_i][1]);
    ck_assert_str_eq(read_page(), pages[_i][0]);
    ck_assert_int_ne(access("cpu.md.new", F_OK), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bench");
    TCase *tcase = tcase_create("tables");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, enter, leave);
    tcase_add_test(tcase, tables_are_rewritten_and_text_is_kept);
    tcase_add_test(tcase, a_second_time_changes_nothing);
    tcase_add_test(tcase, without_figures_the_page_says_so);
    tcase_add_test(tcase, the_recorded_page_is_understood);
    tcase_add_loop_test(tcase, a_page_that_is_not_understood_is_left, 0, 4);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
