// Tests of tests/resources.sh: a stand-in for nvcc writes PTX and a report of known kernels, so
// that they run where there is no CUDA; the occupancy must be that of common/gpu.h.
#include "common/gpu.h"
#include "common/simt/runtime.h"
#include "tests/unit/capture.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ARGUMENTS = 10, TEXT = 8192 };

static char course[512], folder[64];

// What nvcc prints of: small, 40 registers and 20 KB of shared memory, 128 threads; large, which
// spills, 1,024 threads; and free, without launch bounds, in an anonymous namespace.
static const char fake_nvcc[] =
    "#!/bin/sh\n"
    "for a; do case $a in -ptx) ptx=1;; *.ptx|*.cu) last=$a;; esac; done\n"
    "echo \"$@\" >> calls\n"
    "case $last in *bad*) echo 'bad.cu(3): error: no' >&2; exit 2;; esac\n"
    "if [ \"${ptx:-}\" ]; then\n"
    "    while [ $1 != -o ]; do shift; done\n"
    "    cat > $2 <<'END'\n"
    ".visible .entry _Z5small1P(\n"
    ".maxntid 128, 1, 1\n"
    ".visible .entry _Z5large1P(\n"
    ".maxntid 1024\n"
    ".visible .entry _ZN12_GLOBAL__N_14freeE1P(\n"
    "END\n"
    "    exit\n"
    "fi\n"
    "cat <<'END'\n"
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function '_ZN12_GLOBAL__N_14freeE1P' for 'sm_90a'\n"
    "ptxas info    : Function properties for _ZN12_GLOBAL__N_14freeE1P\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 8 registers, used 0 barriers\n"
    "ptxas info    : Compiling entry function '_Z5large1P' for 'sm_90a'\n"
    "ptxas info    : Function properties for helper\n"
    "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
    "ptxas info    : Function properties for _Z5large1P\n"
    "    96 bytes stack frame, 1036 bytes spill stores, 1064 bytes spill loads\n"
    "ptxas info    : Used 64 registers, used 1 barriers, 96 bytes cumulative stack size\n"
    "ptxas info    : Compiling entry function '_Z5small1P' for 'sm_90a'\n"
    "ptxas info    : Function properties for _Z5small1P\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 40 registers, used 1 barriers, 20480 bytes smem, 400 bytes cmem[0]\n"
    "END\n";

static void write_file(const char *name, const char *text) {
    FILE *file = fopen(name, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void make_folder(void) {
    char link[600];
    ck_assert_ptr_nonnull(getcwd(course, sizeof course));
    enter_folder(folder);
    ck_assert_int_eq(mkdir("tests", 0700), 0);
    snprintf(link, sizeof link, "%s/tests/resources.awk", course);
    ck_assert_int_eq(symlink(link, "tests/resources.awk"), 0);
    write_file("nvcc", fake_nvcc);
    ck_assert_int_eq(chmod("nvcc", 0700), 0);
    write_file("kernels.cu", "");
    write_file("bad.cu", "");
    setenv("NVCC", "./nvcc", 1);
    setenv("BUILD", "out", 1);
    setenv("CUDA_ARCHS", "80 90a", 1);
    unsetenv("NVCC_FLAGS");
}

static void remove_all(void) {
    remove_folder(folder);
}

// Runs the script with these arguments, separated by blanks.
static Captured run(const char *arguments) {
    char script[600], words[256], *rest = words;
    const char *argv[ARGUMENTS] = {"/bin/sh", script};
    snprintf(script, sizeof script, "%s/tests/resources.sh", course);
    snprintf(words, sizeof words, "%s", arguments);
    for (int i = 2; i < ARGUMENTS - 1 && rest != NULL && *rest != '\0'; i++) {
        argv[i] = strsep(&rest, " ");
    }
    return capture_program(argv);
}

static void read_file(const char *name, char text[TEXT]) {
    FILE *file = fopen(name, "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, TEXT - 1, file)] = '\0';
    fclose(file);
}

START_TEST(a_row_for_every_kernel_and_architecture) {
    char csv[TEXT];
    Captured captured = run("kernels.cu");
    ck_assert_int_eq(captured.status, 0);
    ck_assert_str_eq(captured.err, "");
    ck_assert_int_le(longest_line(captured.out), 100);
    ck_assert_ptr_nonnull(strstr(captured.out, "1036+1064"));
    ck_assert_ptr_nonnull(strstr(captured.out, "62 %, shared memory"));
    captured_free(&captured);
    read_file("out/resources.csv", csv);
    ck_assert_str_eq(csv, "file,kernel,arch,registers,static_shared,dynamic_shared,stack,"
                          "spill_stores,spill_loads,threads,blocks,occupancy,limit\n"
                          "kernels.cu,free,80,8,0,0,0,0,0,,,,\n"
                          "kernels.cu,free,90a,8,0,0,0,0,0,,,,\n"
                          "kernels.cu,large,80,64,0,0,96,1036,1064,1024,1,0.5000,registers\n"
                          "kernels.cu,large,90a,64,0,0,96,1036,1064,1024,1,0.5000,registers\n"
                          "kernels.cu,small,80,40,20480,0,0,0,0,128,7,0.4375,shared memory\n"
                          "kernels.cu,small,90a,40,20480,0,0,0,0,128,10,0.6250,shared memory\n");
}
END_TEST

// The script's occupancy and gpu.h's, with more and more dynamic shared memory.
START_TEST(occupancy_is_that_of_the_host_api) {
    for (int bytes = 0; bytes <= 140000; bytes += 17500) {
        char arguments[64], csv[TEXT], row[160];
        GpuProperties device;
        snprintf(arguments, sizeof arguments, "kernels.cu --dynamic small=%d", bytes);
        Captured captured = run(arguments);
        ck_assert_int_eq(captured.status, 0);
        captured_free(&captured);
        read_file("out/resources.csv", csv);
        simt_settings()->device = "h200";
        ck_assert_int_eq(gpu_properties(GPU_SIMT, &device), ATTN_OK);
        const size_t shared = 20480 + (size_t)bytes;
        snprintf(row, sizeof row, "kernels.cu,small,90a,40,20480,%d,0,0,0,128,%d,%.4f,%s\n", bytes,
                 gpu_blocks_per_multiprocessor(&device, 128, 40, shared),
                 gpu_occupancy(&device, 128, 40, shared),
                 gpu_occupancy_limit(&device, 128, 40, shared));
        ck_assert_msg(strstr(csv, row) != NULL, "no row %s in %s", row, csv);
    }
}
END_TEST

START_TEST(spills_fail_where_they_must_not_be) {
    const struct {
        const char *arguments, *says;
        int status;
    } cases[] = {
        {"kernels.cu --no-spills small free", "small: no spills", 0},
        {"--no-spills small large kernels.cu", "FAILED: large spills on sm_80 sm_90a", 1},
        {"kernels.cu --no-spills smal", "FAILED: no kernel is named smal", 1},
    };
    for (int c = 0; c < 3; c++) {
        Captured captured = run(cases[c].arguments);
        ck_assert_int_eq(captured.status, cases[c].status);
        ck_assert_ptr_nonnull(strstr(captured.out, cases[c].says));
        captured_free(&captured);
    }
}
END_TEST

START_TEST(reports_are_kept_until_an_object_is_newer) {
    char calls[TEXT];
    mkdir("out", 0700);
    mkdir("out/obj", 0700);
    write_file("out/obj/kernels.cuda.o", "");
    sleep(1); // time stamps of files may count whole seconds
    for (int i = 0; i < 2; i++) {
        Captured captured = run("kernels.cu");
        ck_assert_int_eq(captured.status, 0);
        captured_free(&captured);
    }
    read_file("calls", calls);
    ck_assert_int_eq(count_lines(calls), 4);
    sleep(1);
    write_file("out/obj/kernels.cuda.o", "");
    Captured captured = run("kernels.cu");
    captured_free(&captured);
    read_file("calls", calls);
    ck_assert_int_eq(count_lines(calls), 8);
}
END_TEST

START_TEST(flags_reach_the_compiler) {
    char calls[TEXT];
    setenv("NVCC_FLAGS", "-DX=1 -gencode arch=compute_80,code=sm_80 -O2", 1);
    setenv("CUDA_ARCHS", "90a", 1);
    Captured captured = run("kernels.cu");
    ck_assert_int_eq(captured.status, 0);
    captured_free(&captured);
    read_file("calls", calls);
    ck_assert_ptr_nonnull(strstr(calls, "-DX=1 -O2 -arch=sm_90a -ptx"));
    ck_assert_ptr_null(strstr(calls, "gencode"));
}
END_TEST

START_TEST(without_what_it_needs) {
    Captured captured = run("bad.cu");
    ck_assert_int_eq(captured.status, 1);
    ck_assert_ptr_nonnull(strstr(captured.err, "bad.cu(3): error: no"));
    ck_assert_ptr_nonnull(strstr(captured.err, "bad.cu does not compile for sm_80"));
    captured_free(&captured);
    captured = run("--spills");
    ck_assert_int_eq(captured.status, 2);
    ck_assert_ptr_nonnull(strstr(captured.err, "--spills: no such option"));
    captured_free(&captured);
    captured = run("");
    ck_assert_int_eq(captured.status, 0);
    ck_assert_str_eq(captured.out, "no chapter here has a CUDA kernel\n");
    captured_free(&captured);
    setenv("NVCC", "", 1);
    captured = run("kernels.cu");
    ck_assert_int_eq(captured.status, 0);
    ck_assert_int_eq(strncmp(captured.out, "no nvcc here", 12), 0);
    captured_free(&captured);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("resources");
    TCase *tests = tcase_create("resources");
    tcase_add_checked_fixture(tests, make_folder, remove_all);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_row_for_every_kernel_and_architecture);
    tcase_add_test(tests, occupancy_is_that_of_the_host_api);
    tcase_add_test(tests, spills_fail_where_they_must_not_be);
    tcase_add_test(tests, reports_are_kept_until_an_object_is_newer);
    tcase_add_test(tests, flags_reach_the_compiler);
    tcase_add_test(tests, without_what_it_needs);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
