// The suite of lab 1, softmax of short rows by shuffles: rows by hand, then rows of every length
// against float64, then what the kernel asked of memory.
#include "exercises/ch05/labs.h"
#include "tests/grade/kernels.h"

#include <math.h>

const char grade_title[] = "softmax of short rows by shuffles";

typedef AttnStatus Entry(const ShortRows *rows, GpuStream stream);
static Entry *const builds[] = GPU_BUILDS(short_rows);

static const float ln2 = 0.69314718f, ln5 = 1.60943791f;

// A matrix on the host and what is expected of it.
typedef struct Rows {
    int rows, stride;
    float *x; // [rows][stride]; NaN behind a row's end
    int *len; // [rows]
    double *p, *lse;
} Rows;

static Rows make_rows(int rows, int stride) {
    const size_t count = (size_t)rows * (size_t)stride;
    return (Rows){rows,
                  stride,
                  grade_floats(count),
                  grade_alloc((size_t)rows * sizeof(int)),
                  grade_alloc(count * sizeof(double)),
                  grade_alloc((size_t)rows * sizeof(double))};
}

static void compute(const Rows *r) {
    for (int i = 0; i < r->rows; i++) {
        const float *x = r->x + (size_t)i * (size_t)r->stride;
        double m = -INFINITY, l = 0.0;
        for (int c = 0; c < r->len[i]; c++) {
            m = fmax(m, (double)x[c]);
        }
        for (int c = 0; c < r->len[i]; c++) {
            l += exp((double)x[c] - m);
        }
        r->lse[i] = r->len[i] > 0 ? m + log(l) : -INFINITY;
        for (int c = 0; c < r->len[i]; c++) {
            r->p[(size_t)i * (size_t)r->stride + (size_t)c] = exp((double)x[c] - m) / l;
        }
    }
}

// Runs the kernel and compares. The tolerances: a float's rounding of x - m, of exp and of the
// division for p, at most 1; the same and one unit in its own last place for the LSE.
static void expect_rows(const KernelRun *run, const Rows *r) {
    const size_t count = (size_t)r->rows * (size_t)r->stride, rows = (size_t)r->rows;
    float *p = grade_floats(count), *lse = grade_floats(rows);
    char what[64];

    compute(r);
    const ShortRows params = {grade_device_floats("x", r->x, count),
                              grade_device("len", r->len, rows, sizeof(int)),
                              grade_device_floats("p", NULL, count),
                              grade_device_floats("lse", NULL, rows),
                              r->rows,
                              r->stride};
    expect_launch(builds[run->target](&params, NULL));
    grade_download(p, params.p, count * sizeof(float));
    grade_download(lse, params.lse, rows * sizeof(float));
    for (int i = 0; i < r->rows; i++) {
        const size_t first = (size_t)i * (size_t)r->stride;
        for (int c = 0; c < r->stride; c++) {
            snprintf(what, sizeof(what), "p[row %d][%d], length %d", i, c, r->len[i]);
            if (c < r->len[i]) {
                expect_close(what, (double)p[first + (size_t)c], r->p[first + (size_t)c], 2e-6);
            } else if (!isnan(p[first + (size_t)c])) {
                grade_fail("%s: got %g, expected it unwritten behind the row's end", what,
                           (double)p[first + (size_t)c]);
            }
        }
        snprintf(what, sizeof(what), "lse[row %d], length %d", i, r->len[i]);
        expect_close(what, (double)lse[i], r->lse[i], 2e-6 + fabs(r->lse[i]) * 0x1p-22);
    }
    grade_device_free();
}

// Rows of one length that all hold the same scores.
static void expect_equal_rows(const KernelRun *run, int rows, const float *scores, int len,
                              int stride) {
    const Rows r = make_rows(rows, stride);
    for (int i = 0; i < rows; i++) {
        r.len[i] = len;
        for (int c = 0; c < len; c++) {
            r.x[i * stride + c] = scores[c];
        }
    }
    expect_rows(run, &r);
}

static void test_eight_scores(void) {
    const float scores[] = {0.0f, ln2, ln5, 0.0f, ln2, 0.0f, 0.0f, 0.0f};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        grade_case("4 rows of 0, ln 2, ln 5, 0, ln 2, 0, 0, 0: a score for every lane; %s",
                   run.order);
        expect_equal_rows(&run, 4, scores, 8, 8);
    }
}

static void test_idle_lanes(void) {
    const float scores[] = {-200.0f, -200.0f + ln2, -200.0f + ln5};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        grade_case("4 rows of -200, -200 + ln 2, -200 + ln 5: five lanes have no score; %s",
                   run.order);
        expect_equal_rows(&run, 4, scores, 3, 3);
    }
}

static void test_rows_apart(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        const Rows r = make_rows(4, 8);
        for (int i = 0; i < 4; i++) {
            r.len[i] = 8;
            for (int c = 0; c < 8; c++) {
                r.x[i * 8 + c] = (float)(100 * i) + (float)c * ln2;
            }
        }
        grade_case("4 rows with maxima of about 5, 105, 205, 305 in one warp; %s", run.order);
        expect_rows(&run, &r);
    }
}

// Rows of the lengths first, first + 1, ...
static Rows random_rows(int rows, int stride, int first, uint64_t seed) {
    const Rows r = make_rows(rows, stride);
    for (int i = 0; i < rows; i++) {
        r.len[i] = (first + i) % (stride + 1);
        for (int c = 0; c < r.len[i]; c++) {
            const uint64_t element = (uint64_t)i * (uint64_t)stride + (uint64_t)c;
            r.x[element] = 5.0f * grade_normal(seed, element) - 30.0f;
        }
    }
    return r;
}

static void test_every_length(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        const Rows r = random_rows(100, 100, 1, 11);
        grade_case("100 rows of 1 to 100 scores, 100 elements apart; %s", run.order);
        expect_rows(&run, &r);
    }
}

static void test_last_rows(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int rows = 1; rows <= 18; rows++) {
            const Rows r = random_rows(rows, 11, 1, 12 + (uint64_t)rows);
            grade_case("%d rows of 1 to 11 scores: a block has sixteen; %s", rows, run.order);
            expect_rows(&run, &r);
        }
    }
}

static void test_nothing_outside(void) {
    for (KernelRun run = {0}; grade_traced_run(&run);) {
        for (int rows = 1; rows <= 21; rows += 5) {
            const Rows r = random_rows(rows, 19, 3, 40 + (uint64_t)rows);
            grade_case("%d rows of up to 19 scores; %s", rows, run.order);
            expect_rows(&run, &r);
        }
    }
}

static void test_no_shared_memory(void) {
    const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
    const Rows r = random_rows(32, 100, 60, 13);
    grade_case("32 rows of 60 to 91 scores");
    expect_rows(&run, &r);
    for (int i = 0; i < simt_trace_launches(); i++) {
        const SimtLaunchTrace *launch = simt_trace_launch(i);
        expect_int("bytes of shared memory of a block",
                   (int64_t)(launch->static_shared + launch->dynamic_shared), 0);
    }
}

static void test_loads(void) {
    const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
    const Rows r = random_rows(32, 100, 60, 14);
    int64_t scores = 0;
    grade_case("32 rows of 60 to 91 scores");
    expect_rows(&run, &r);
    for (int i = 0; i < r.rows; i++) {
        scores += r.len[i];
    }
    const int64_t loaded = (int64_t)simt_trace_sum("x").load_bytes / 4, most = 3 * scores;
    if (loaded > most) {
        grade_fail("%lld scores: got %lld loads of them by all threads, expected at most %lld",
                   (long long)scores, (long long)loaded, (long long)most);
    }
}

static void test_empty_rows(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        const Rows r = random_rows(7, 2, 0, 15);
        const ShortRows none = {.rows = 0, .stride = 5};
        grade_case("7 rows of 0, 1, 2, 0, ... scores; %s", run.order);
        expect_rows(&run, &r);
        grade_case("no rows");
        expect_launch(builds[run.target](&none, NULL));
    }
}

static void test_nan_reaches_its_row(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        const float x[] = {0.0f, 0.0f, 1.0f, NAN, 0.0f, 0.0f};
        const int len[] = {2, 2, 2};
        float *lse = grade_floats(3);
        const ShortRows params = {grade_device_floats("x", x, 6),
                                  grade_device("len", len, 3, sizeof(int)),
                                  grade_device_floats("p", NULL, 6),
                                  grade_device_floats("lse", NULL, 3),
                                  3,
                                  2};
        grade_case("3 rows of 2 scores, the second one with a NaN; %s", run.order);
        expect_launch(builds[run.target](&params, NULL));
        grade_download(lse, params.lse, sizeof(float) * 3);
        expect_close("lse[row 0]", (double)lse[0], log(2.0), 2e-6);
        expect_close("lse[row 2]", (double)lse[2], log(2.0), 2e-6);
        if (!isnan(lse[1])) {
            grade_fail("lse[row 1]: got %g: the NaN was lost", (double)lse[1]);
        }
        grade_device_free();
    }
}

const GradeTest grade_tests[] = {
    {"eight_scores", 1, false, test_eight_scores,
     "All eight lanes must end with the maximum, and with the sum, of all eight values: "
     "__shfl_xor_sync with 4, 2 and 1 does that. p = exp(x - m) / l, lse = m + log(l)."},
    {"idle_lanes", 1, false, test_idle_lanes,
     "A lane without a score brings what changes nothing: -INFINITY to the maximum, 0 to the sum."},
    {"rows_apart", 1, false, test_rows_apart,
     "The four rows of a warp share nothing: no shuffle may reach over the eight lanes of a row. "
     "A distance of 8 or 16, or a width of 32 with lane numbers, does."},
    {"every_length", 2, false, test_every_length,
     "Lane n has the elements n, n + 8, n + 16, ... below the row's length. Or does one lane come "
     "to a shuffle more often than another?"},
    {"last_rows", 1, false, test_last_rows,
     "The lanes of rows that do not exist bring nothing to the shuffles, and write nothing."},
    {"nothing_outside", 1, false, test_nothing_outside,
     "Behind a row's end there is another row, or nothing; len and lse end with the last row."},
    {"no_shared_memory", 1, false, test_no_shared_memory,
     "Shuffles carry values from register to register."},
    {"loads", 1, false, test_loads,
     "The eight lanes share the loads of a row: each score is read by one of them, once for the "
     "maximum, once for the sum and once for the probabilities."},
    {"empty_rows", 1, true, test_empty_rows,
     "A row of length 0 has lse = -INFINITY; m - m would be NaN there, and log(0) is never asked "
     "for."},
    {"nan_reaches_its_row", 1, true, test_nan_reaches_its_row,
     "fmaxf drops a NaN, and that is harmless: the sum brings it back. Do not skip it there."},
    {NULL, 0, false, NULL, NULL},
};
