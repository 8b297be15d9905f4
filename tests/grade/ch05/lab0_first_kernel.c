// The suite of lab 0, a first kernel: results by hand and against float64, the grid's limits, and
// what one warp's load costs.
#include "exercises/ch05/labs.h"
#include "tests/grade/kernels.h"

#include <math.h>
#include <stdlib.h>

const char grade_title[] = "a first kernel: a x + b, row by row";

typedef AttnStatus Entry(const RowAffine *matrix, GpuStream stream);
static Entry *const builds[] = GPU_BUILDS(row_affine);

// Runs one matrix of random numbers and compares every element. a and b differ from row to row. The
// tolerance is two roundings of the largest number that occurs.
static void expect_matrix(const KernelRun *run, int rows, int columns) {
    const size_t count = (size_t)rows * (size_t)columns;
    float *x = grade_floats(count), *a = grade_floats((size_t)rows),
          *b = grade_floats((size_t)rows);
    float *got = grade_floats(count);
    double *want = grade_alloc(count * sizeof(double));

    grade_case("%d rows of %d columns; %s", rows, columns, run->order);
    for (int r = 0; r < rows; r++) {
        a[r] = 2.0f + (float)r;
        b[r] = 10.0f - grade_normal(2, (uint64_t)r);
    }
    for (size_t e = 0; e < count; e++) {
        x[e] = grade_normal(1, e);
        want[e] = (double)a[e / (size_t)columns] * (double)x[e] + (double)b[e / (size_t)columns];
    }
    const RowAffine matrix = {grade_device_floats("x", x, count),
                              grade_device_floats("a", a, (size_t)rows),
                              grade_device_floats("b", b, (size_t)rows),
                              grade_device_floats("y", NULL, count),
                              rows,
                              columns};
    expect_launch(builds[run->target](&matrix, NULL));
    grade_download(got, matrix.y, count * sizeof(float));
    expect_array("y", got, want, (size_t)rows, (size_t)columns, 8.0 * (rows + 4) * 0x1p-23);
    grade_device_free();
}

static void test_one_row(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        const float x[] = {1.0f, 2.0f, 3.0f}, a = 10.0f, b = 0.5f;
        const double want[] = {10.5, 20.5, 30.5};
        float *got = grade_floats(3);
        grade_case("one row: x = 1, 2, 3; a = 10, b = 0.5; %s", run.order);
        const RowAffine matrix = {grade_device_floats("x", x, 3),
                                  grade_device_floats("a", &a, 1),
                                  grade_device_floats("b", &b, 1),
                                  grade_device_floats("y", NULL, 3),
                                  1,
                                  3};
        expect_launch(builds[run.target](&matrix, NULL));
        grade_download(got, matrix.y, 3 * sizeof(float));
        expect_array("y", got, want, 1, 3, 1e-5);
        grade_device_free();
    }
}

static void test_several_blocks(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_matrix(&run, 1, 2 * AFFINE_THREADS);
        expect_matrix(&run, 1, 2 * AFFINE_THREADS + 1);
    }
}

static void test_every_row(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_matrix(&run, 3, 5);
        expect_matrix(&run, 40, 1);
        expect_matrix(&run, 7, 300);
    }
}

static void test_nothing_outside(void) {
    const int sizes[][2] = {{1, 1}, {3, 5}, {4, 128}, {2, 129}, {5, 257}};
    for (KernelRun run = {0}; grade_traced_run(&run);) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            expect_matrix(&run, sizes[i][0], sizes[i][1]);
        }
    }
}

static void test_neighbours(void) {
    const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
    expect_matrix(&run, 4, 512);
    expect_sectors_once("x");
}

static void test_too_many_rows(void) {
    KernelRun run = {0};
    const size_t rows = 65536;
    float *values = grade_floats(rows), *got = grade_floats(rows);
    grade_plain_run(&run);
    grade_case("65,536 rows of 1 column: a grid has at most 65,535 blocks along y");
    for (size_t r = 0; r < rows; r++) {
        values[r] = 1.0f;
    }
    const RowAffine matrix = {grade_device_floats("x", values, rows),
                              grade_device_floats("a", values, rows),
                              grade_device_floats("b", values, rows),
                              grade_device_floats("y", NULL, rows),
                              (int)rows,
                              1};
    expect_refused(builds[run.target](&matrix, NULL), "status");
    grade_download(got, matrix.y, rows * sizeof(float));
    for (size_t r = 0; r < rows; r++) {
        if (!isnan(got[r])) {
            grade_fail("y[%zu]: got %g, expected it unwritten after an error", r, (double)got[r]);
        }
    }
    grade_device_free();
}

static void test_no_elements(void) {
    KernelRun run = {0};
    grade_plain_run(&run);
    for (int i = 0; i < 3; i++) {
        const RowAffine matrix = {.rows = i == 1 ? 3 : 0, .columns = i == 2 ? 3 : 0};
        grade_case("%d rows of %d columns", matrix.rows, matrix.columns);
        const AttnStatus status = builds[run.target](&matrix, NULL);
        if (status != ATTN_OK) {
            grade_fail("status: got %s (%s), expected ATTN_OK", attn_status_name(status),
                       attn_last_error());
        }
    }
}

const GradeTest grade_tests[] = {
    {"one_row", 1, false, test_one_row,
     "The thread's column is blockIdx.x * blockDim.x + threadIdx.x. Threads behind the last column "
     "do nothing."},
    {"several_blocks", 1, false, test_several_blocks,
     "The grid needs columns / AFFINE_THREADS blocks, rounded up: a few columns more take one more "
     "block."},
    {"every_row", 1, false, test_every_row,
     "blockIdx.y is the row, and the grid's y is the number of rows. Row r begins at element r * "
     "columns, and has its own a[r] and b[r]."},
    {"nothing_outside", 1, false, test_nothing_outside,
     "The last block has more threads than there are columns left; also a read of x there is "
     "outside, or in the next row."},
    {"neighbours", 1, false, test_neighbours,
     "Neighbouring threads should have neighbouring columns: then a warp's 32 loads are 128 bytes "
     "in a row, four sectors. A thread that walks along a row keeps its warp's lanes apart."},
    {"too_many_rows", 1, true, test_too_many_rows,
     "LAUNCH returns a status, and it is the function's: an error that is dropped here leaves "
     "everybody else with NaN and no reason."},
    {"no_elements", 1, true, test_no_elements,
     "A grid of 0 blocks is an error of the launch: return ATTN_OK before it."},
    {NULL, 0, false, NULL, NULL},
};
