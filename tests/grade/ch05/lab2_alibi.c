// The suite of lab 2, ALiBi inside a fused kernel: rows by hand, then shapes against float64, then
// bytes and launches.
#include "exercises/ch05/labs.h"
#include "tests/grade/attention_values.h"
#include "tests/grade/kernels.h"

#include <math.h>

const char grade_title[] = "ALiBi inside the tile loop";

typedef AttnStatus Entry(const Alibi *attention, GpuStream stream);
static Entry *const builds[] = GPU_BUILDS(alibi_attention);

// ---- the expected values ------------------------------------------------------------------------

// A problem on the host. Sizes and scale are those of `shape`, whose pointers are not used.
typedef struct Problem {
    Alibi shape;
    float *q, *k, *v;
    double *o, *lse;
    double o_tolerance, lse_tolerance; // see attention_values.h
} Problem;

static size_t rows_of(const Alibi *a) {
    return (size_t)a->batch * (size_t)a->heads * (size_t)a->len_q;
}

static size_t keys_of(const Alibi *a) {
    return (size_t)a->batch * (size_t)a->heads * (size_t)a->len_kv;
}

static Problem make_problem(Alibi shape) {
    const size_t dim = (size_t)shape.dim, rows = rows_of(&shape), keys = keys_of(&shape);
    return (Problem){shape,
                     grade_floats(rows * dim),
                     grade_floats(keys * dim),
                     grade_floats(keys * dim),
                     grade_alloc(rows * dim * sizeof(double)),
                     grade_alloc(rows * sizeof(double))};
}

static double slope_of(const Alibi *a, size_t head) {
    return exp2(-8.0 * (double)(head % (size_t)a->heads + 1) / a->heads);
}

// One row in float64; head counted over the batch. Returns the largest |score| of a visible key.
static double compute_row(Problem *p, size_t head, int row) {
    const Alibi *a = &p->shape;
    const size_t dim = (size_t)a->dim, at = head * (size_t)a->len_q + (size_t)row;
    const int own = row + a->len_kv - a->len_q; // the query's own key
    double m = -INFINITY, l = 0.0, largest = 0.0;
    double *score = grade_alloc((size_t)a->len_kv * sizeof(double)), *o = p->o + at * dim;

    for (size_t c = 0; c < dim; c++) {
        o[c] = 0.0;
    }
    for (int j = 0; j <= own && j < a->len_kv; j++) {
        const float *q = p->q + at * dim;
        const float *k = p->k + (head * (size_t)a->len_kv + (size_t)j) * dim;
        double dot = 0.0;
        for (size_t c = 0; c < dim; c++) {
            dot += (double)q[c] * (double)k[c];
        }
        score[j] = (double)a->scale * dot + slope_of(a, head) * (j - own);
        m = fmax(m, score[j]);
        largest = fmax(largest, fabs(score[j]));
    }
    for (int j = 0; j <= own && j < a->len_kv; j++) {
        const float *v = p->v + (head * (size_t)a->len_kv + (size_t)j) * dim;
        const double weight = exp(score[j] - m);
        l += weight;
        for (size_t c = 0; c < dim; c++) {
            o[c] += weight * (double)v[c];
        }
    }
    for (size_t c = 0; c < dim && l != 0.0; c++) {
        o[c] /= l;
    }
    p->lse[at] = l != 0.0 ? m + log(l) : -INFINITY;
    return largest;
}

// All rows, and the tolerances.
static void compute(Problem *p) {
    const Alibi *a = &p->shape;
    double largest = 0.0, value = 1.0;

    for (size_t r = 0; r < rows_of(a); r++) {
        largest = fmax(largest, compute_row(p, r / (size_t)a->len_q, (int)(r % (size_t)a->len_q)));
    }
    for (size_t e = 0; e < keys_of(a) * (size_t)a->dim; e++) {
        value = fmax(value, fabs((double)p->v[e]));
    }
    p->lse_tolerance = lse_tolerance(a->dim, largest);
    p->o_tolerance = p->lse_tolerance * value;
}

static void expect_problem(const KernelRun *run, Problem *p) {
    const size_t dim = (size_t)p->shape.dim, rows = rows_of(&p->shape), keys = keys_of(&p->shape);
    float *o = grade_floats(rows * dim), *lse = grade_floats(rows);
    char what[96];
    Alibi a = p->shape;

    compute(p);
    a.q = grade_device_floats("q", p->q, rows * dim);
    a.k = grade_device_floats("k", p->k, keys * dim);
    a.v = grade_device_floats("v", p->v, keys * dim);
    a.o = grade_device_floats("o", NULL, rows * dim);
    a.lse = grade_device_floats("lse", NULL, rows);
    expect_launch(builds[run->target](&a, NULL));
    grade_download(o, a.o, rows * dim * sizeof(float));
    grade_download(lse, a.lse, rows * sizeof(float));
    for (size_t r = 0; r < rows; r++) {
        const size_t head = r / (size_t)a.len_q, row = r % (size_t)a.len_q;
        const size_t batch = head / (size_t)a.heads;
        for (size_t c = 0; c < dim; c++) {
            snprintf(what, sizeof(what), "o[batch %zu][head %zu][row %zu][%zu]", batch,
                     head % (size_t)a.heads, row, c);
            expect_value(what, (double)o[r * dim + c], p->o[r * dim + c], p->o_tolerance);
        }
        snprintf(what, sizeof(what), "lse[batch %zu][head %zu][row %zu]", batch,
                 head % (size_t)a.heads, row);
        expect_lse(what, (double)lse[r], p->lse[r], p->lse_tolerance);
    }
    grade_device_free();
}

// Keys of 0, so that a score is the bias alone, and values that count the keys.
static void expect_bias_alone(const KernelRun *run, Alibi shape) {
    Problem p = make_problem(shape);
    for (size_t e = 0; e < rows_of(&shape) * (size_t)shape.dim; e++) {
        p.q[e] = 1.0f;
    }
    for (size_t e = 0; e < keys_of(&shape) * (size_t)shape.dim; e++) {
        p.k[e] = 0.0f;
        p.v[e] = (float)(e / (size_t)shape.dim % (size_t)shape.len_kv);
    }
    expect_problem(run, &p);
}

static Problem random_problem(Alibi shape, uint64_t seed) {
    Problem p = make_problem(shape);
    for (size_t e = 0; e < rows_of(&shape) * (size_t)shape.dim; e++) {
        p.q[e] = 0.3f + grade_normal(seed, e);
    }
    for (size_t e = 0; e < keys_of(&shape) * (size_t)shape.dim; e++) {
        p.k[e] = 0.2f + grade_normal(seed + 1, e);
        p.v[e] = 1.0f + grade_normal(seed + 2, e);
    }
    return p;
}

static void expect_random(const KernelRun *run, Alibi shape, uint64_t seed) {
    Problem p = random_problem(shape, seed);
    grade_case("batch %d, heads %d, T = %d, S = %d, d = %d; %s", shape.batch, shape.heads,
               shape.len_q, shape.len_kv, shape.dim, run->order);
    expect_problem(run, &p);
}

// Sizes and scale; no pointers.
static Alibi shape_of(int batch, int heads, int len_q, int len_kv, int dim, float scale) {
    return (Alibi){.batch = batch,
                   .heads = heads,
                   .len_q = len_q,
                   .len_kv = len_kv,
                   .dim = dim,
                   .scale = scale};
}

// ---- values -------------------------------------------------------------------------------------

static void test_one_query(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        grade_case("1 head, 1 query, 3 keys of 0, values 0, 1, 2: slope 1/256; %s", run.order);
        expect_bias_alone(&run, shape_of(1, 1, 1, 3, 1, 1.0f));

        Problem p = make_problem(shape_of(1, 1, 1, 2, 1, 1.0f));
        p.q[0] = 1.0f;
        p.k[0] = 1.5f, p.k[1] = 2.75f;
        p.v[0] = 0.0f, p.v[1] = 1.0f;
        grade_case("1 query, 2 keys: q k = 1.5 and 2.75, values 0 and 1; %s", run.order);
        expect_problem(&run, &p);
    }
}

static void test_slopes(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        grade_case("8 heads: slopes 1/2, 1/4, ... 1/256; 5 queries and keys of 0; %s", run.order);
        expect_bias_alone(&run, shape_of(1, 8, 5, 5, 1, 1.0f));
        grade_case("2 batch entries of 2 heads: slopes 1/16, 1/256, again; %s", run.order);
        expect_bias_alone(&run, shape_of(2, 2, 5, 5, 1, 1.0f));
        grade_case("6 heads: slopes 2^(-4/3), 2^(-8/3), ...; %s", run.order);
        expect_bias_alone(&run, shape_of(1, 6, 5, 5, 1, 1.0f));
    }
}

static void test_scale_spares_the_bias(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        Problem p = make_problem(shape_of(1, 2, 2, 2, 1, 0.25f));
        const float q[] = {1.0f, 2.0f, 1.0f, -2.0f}, k[] = {4.0f, 8.0f, 2.0f, -4.0f};
        for (int e = 0; e < 4; e++) {
            p.q[e] = q[e];
            p.k[e] = k[e];
            p.v[e] = (float)e;
        }
        grade_case("scale 1/4: score = q k / 4 + slope * distance; %s", run.order);
        expect_problem(&run, &p);
    }
}

static void test_many_tiles(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        grade_case("1 of 4 heads, 70 queries and keys of 0 in tiles of 32; %s", run.order);
        expect_bias_alone(&run, shape_of(1, 4, 70, 70, 1, 1.0f));
    }
}

static void test_lengths_differ(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        grade_case("3 queries at the end of 40 keys of 0; %s", run.order);
        expect_bias_alone(&run, shape_of(1, 8, 3, 40, 1, 1.0f));
    }
}

static void test_shapes(void) {
    const int sizes[][5] = {{1, 2, 33, 33, 7},  {1, 1, 5, 65, 40}, {2, 1, 34, 63, 64},
                            {1, 3, 1, 100, 33}, {1, 1, 64, 64, 8}, {2, 3, 9, 20, 72}};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int i = 0; i < 6; i++) {
            const int *s = sizes[i];
            expect_random(&run, shape_of(s[0], s[1], s[2], s[3], s[4], 1.0f / sqrtf((float)s[4])),
                          100 + (uint64_t)i);
        }
    }
}

static void test_wide_heads(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_random(&run, shape_of(1, 2, 33, 40, 128, 0.09f), 200); // 53,248 bytes
        expect_random(&run, shape_of(1, 1, 4, 34, 100, 0.1f), 201);   // the same tile
        expect_random(&run, shape_of(1, 1, 4, 34, 96, 0.1f), 202);    // 40,960
    }
}

// NaN in keys that the last queries of a head see, and the queries before them do not.
static void test_hidden_nan(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        const Alibi shape = shape_of(1, 2, 36, 36, 4, 0.4f);
        Problem p = random_problem(shape, 250);
        for (int c = 0; c < shape.dim; c++) {
            p.k[35 * shape.dim + c] = p.v[35 * shape.dim + c] = NAN;
        }
        grade_case("2 heads, T = S = 36: NaN in K and V of head 0's last key; %s", run.order);
        expect_problem(&run, &p);
        p.v[20 * shape.dim + 1] = NAN;
        grade_case("the same; a NaN in V of key 20; %s", run.order);
        expect_problem(&run, &p);
    }
}

// ---- the trace ----------------------------------------------------------------------------------

static void test_nothing_outside(void) {
    const int sizes[][5] = {{1, 2, 33, 40, 5}, {2, 1, 3, 34, 33}, {1, 1, 35, 50, 8}};
    for (KernelRun run = {0}; grade_traced_run(&run);) {
        for (int i = 0; i < 3; i++) {
            const int *s = sizes[i];
            expect_random(&run, shape_of(s[0], s[1], s[2], s[3], s[4], 0.5f), 300 + (uint64_t)i);
        }
    }
}

static void test_bytes(void) {
    const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
    const Alibi shape = shape_of(1, 4, 32, 96, 32, 0.2f);
    expect_random(&run, shape, 400);
    expect_sectors_once("k");
    expect_sectors_once("v");
    const int64_t rest =
        (int64_t)(simt_trace_sum("").load_sectors - simt_trace_sum("k").load_sectors -
                  simt_trace_sum("v").load_sectors);
    const int64_t queries = (int64_t)rows_of(&shape) * shape.dim * 4 / 32;
    if (rest > queries + queries / 20) {
        grade_fail("sectors loaded that are neither K nor V: got %lld, expected those of Q, %lld: "
                   "nothing else is in memory",
                   (long long)rest, (long long)queries);
    }
}

// ---- errors -------------------------------------------------------------------------------------

static void test_rows_without_keys(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        grade_case("5 queries, 2 keys: the first three rows see none; %s", run.order);
        expect_bias_alone(&run, shape_of(1, 2, 5, 2, 3, 1.0f));
        expect_random(&run, shape_of(1, 1, 70, 20, 4, 0.5f), 500); // a block without keys
    }
}

// Sizes alone decide: the launch is refused before the kernel sees an element.
static void test_errors_are_returned(void) {
    KernelRun run = {0};
    float none = 0.0f;
    grade_plain_run(&run);
    Alibi a = shape_of(1, 65536, 1, 1, 4, 1.0f);
    const size_t count = rows_of(&a) * 4;
    float *memory = grade_device_floats("everything", NULL, count);
    a.q = a.k = a.v = memory;
    a.o = a.lse = memory;
    grade_case("65,536 heads: a grid has at most 65,535 blocks along y");
    expect_refused(builds[run.target](&a, NULL), "status");
    a.dim = 128;
    a.heads = 1;
    grade_case("1 head of d = 128, and SHARED_OPT_IN fails");
    grade_fail_opt_in();
    expect_opt_in_failed(builds[run.target](&a, NULL), "status");
    a.heads = 65536;
    grade_case("65,536 heads of d = 128");
    expect_refused(builds[run.target](&a, NULL), "status");
    grade_download(&none, memory, sizeof(none));
    if (!isnan(none)) {
        grade_fail("o[0]: got %g, expected it unwritten after an error", (double)none);
    }
    grade_device_free();
}

const GradeTest grade_tests[] = {
    {"one_query", 1, false, test_one_query,
     "The bias slope * (j - i - (S - T)) is -2/256, -1/256 and 0 for 3 keys, so that their weights "
     "hardly differ. O is acc / l, lse is m + log(l)."},
    {"slopes", 2, false, test_slopes,
     "2^(-8 (h + 1) / H) with h from 0 on. blockIdx.y counts the heads of all batch entries; the "
     "slope is that of the head within its entry."},
    {"scale_spares_the_bias", 1, false, test_scale_spares_the_bias,
     "scale multiplies q . k alone; the bias is added after it."},
    {"many_tiles", 1, false, test_many_tiles,
     "`lane` is the key's place in its tile, `key` is the key; the same holds for the rows."},
    {"lengths_differ", 1, false, test_lengths_differ,
     "Query i stands at key i + (S - T): the distance to its own key is 0."},
    {"shapes", 1, false, test_shapes,
     "See which shape fails: a tail of rows, of dimensions, several heads? A lane has the "
     "dimensions lane, lane + 32, ... below d."},
    {"wide_heads", 2, false, test_wide_heads,
     "At d = 128 a block needs 53,248 bytes, more than the 49,152 that every kernel may have: "
     "SHARED_OPT_IN(alibi_kernel, shared_bytes) comes before LAUNCH."},
    {"hidden_nan", 1, false, test_hidden_nan,
     "A NaN that the row sees makes its sum NaN, and must reach the result: only a sum of 0 is "
     "that of a row without keys."},
    {"nothing_outside", 1, false, test_nothing_outside,
     "The last block has rows that do not exist; storing them writes into the next head, or behind "
     "the tensor."},
    {"bytes", 1, false, test_bytes,
     "K and V come to shared memory once, slope and distance are computed: the bias needs no "
     "load."},
    {"rows_without_keys", 1, true, test_rows_without_keys,
     "Such a row ends with l = 0: O is 0 and lse is -INFINITY, not 0 / 0 and log(0)."},
    {"errors_are_returned", 1, true, test_errors_are_returned,
     "SHARED_OPT_IN and LAUNCH return a status each; the first that is not ATTN_OK is the "
     "function's."},
    {NULL, 0, false, NULL, NULL},
};
