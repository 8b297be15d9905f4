// The suite of lab 4, the bank conflict: values, then what the tracer counted of shared and of
// global memory.
#include "exercises/ch05/labs.h"
#include "tests/grade/kernels.h"

const char grade_title[] = "remove the bank conflict (all or nothing)";
const bool grade_debugging = true;

typedef AttnStatus Entry(const Scores *scores, GpuStream stream);
static Entry *const builds[] = GPU_BUILDS(tile_scores);

// T, S and d: whole tiles, several tiles, tails.
static const int shapes[][3] = {{32, 32, 32}, {64, 96, 64}, {33, 31, 40}, {1, 1, 1}, {5, 70, 33}};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static void expect_shape(const KernelRun *run, const int *sizes) {
    const size_t len_q = (size_t)sizes[0], len_kv = (size_t)sizes[1], dim = (size_t)sizes[2];
    float *q = grade_floats(len_q * dim), *k = grade_floats(len_kv * dim);
    float *got = grade_floats(len_q * len_kv);
    double *want = grade_alloc(len_q * len_kv * sizeof(double));

    grade_case("T = %d, S = %d, d = %d; %s", sizes[0], sizes[1], sizes[2], run->order);
    for (size_t e = 0; e < len_q * dim; e++) {
        q[e] = 0.3f + grade_normal(1, e);
    }
    for (size_t e = 0; e < len_kv * dim; e++) {
        k[e] = 0.2f + grade_normal(2, e);
    }
    for (size_t e = 0; e < len_q * len_kv; e++) {
        want[e] = 0.0;
        for (size_t c = 0; c < dim; c++) {
            want[e] += 0.5 * (double)q[e / len_kv * dim + c] * (double)k[e % len_kv * dim + c];
        }
    }
    const Scores scores = {grade_device_floats("q", q, len_q * dim),
                           grade_device_floats("k", k, len_kv * dim),
                           grade_device_floats("s", NULL, len_q * len_kv),
                           sizes[0],
                           sizes[1],
                           sizes[2],
                           0.5f};
    expect_launch(builds[run->target](&scores, NULL));
    grade_download(got, scores.s, len_q * len_kv * sizeof(float));
    // d products of up to about 20 each and their sum, every step rounded once.
    expect_array("s", got, want, len_q, len_kv, 20.0 * (double)(dim + 4) * 0x1p-23);
    grade_device_free();
}

static void test_right(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int i = 0; i < SHAPES; i++) {
            expect_shape(&run, shapes[i]);
        }
    }
}

static void test_no_finding(void) {
    for (KernelRun run = {0}; grade_traced_run(&run);) {
        for (int i = 0; i < SHAPES; i++) {
            expect_shape(&run, shapes[i]);
        }
    }
}

// Fails with the line that has the most wavefronts beyond those without conflicts, if one has.
static void expect_no_conflict(void) {
    const SimtLaunchTrace *launch = simt_trace_launch(simt_trace_launches() - 1);
    const SimtLineTrace *worst = NULL;
    uint64_t most = 0;

    for (int i = 0; i < launch->lines; i++) {
        const SimtSharedCounts *s = &launch->line[i].shared;
        const uint64_t more =
            s->load_wavefronts + s->store_wavefronts - s->load_ideal - s->store_ideal;
        worst = more > most ? &launch->line[i] : worst;
        most = more > most ? more : most;
    }
    if (worst != NULL) {
        const SimtSharedCounts *s = &worst->shared;
        const unsigned long long got = s->load_wavefronts + s->store_wavefronts;
        const unsigned long long ideal = s->load_ideal + s->store_ideal;
        grade_fail("%s:%d: got %llu wavefronts, expected %llu: as many as without a conflict",
                   worst->file, worst->line, got, ideal);
    }
}

static void test_no_conflict(void) {
    for (int i = 0; i < SHAPES; i++) {
        const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
        expect_shape(&run, shapes[i]);
        const SimtSharedCounts shared = simt_trace_sum_shared();
        if (shared.load_requests == 0 || shared.store_requests == 0) {
            grade_fail("shared memory is not used any more");
        }
        expect_no_conflict();
        expect_int("wavefronts of loads from shared memory", (int64_t)shared.load_wavefronts,
                   (int64_t)shared.load_ideal);
        expect_int("wavefronts of stores to shared memory", (int64_t)shared.store_wavefronts,
                   (int64_t)shared.store_ideal);
    }
}

// Every tile is loaded by 32 requests, a row each; a request of a row that does not exist is not
// made. Sectors as far as the rows exist: at these sizes whole ones.
static void test_global_memory(void) {
    for (int i = 0; i < 2; i++) {
        const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
        const int *s = shapes[i];
        const int64_t tiles = (int64_t)(s[0] / 32) * (s[1] / 32) * (s[2] / 32);
        expect_shape(&run, s);
        const SimtCounts counts = simt_trace_sum("");
        expect_int("requests of loads from global memory", (int64_t)counts.load_requests,
                   tiles * 64);
        expect_int("sectors of loads from global memory", (int64_t)counts.load_sectors,
                   tiles * 64 * 4);
        expect_int("requests of stores to global memory", (int64_t)counts.store_requests,
                   (int64_t)s[0] * s[1] / 32);
        expect_int("sectors of stores to global memory", (int64_t)counts.store_sectors,
                   (int64_t)s[0] * s[1] / 8);
    }
}

static void test_little_shared_memory(void) {
    const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
    expect_shape(&run, shapes[1]);
    for (int i = 0; i < simt_trace_launches(); i++) {
        const SimtLaunchTrace *launch = simt_trace_launch(i);
        const int64_t bytes = (int64_t)(launch->static_shared + launch->dynamic_shared);
        if (bytes > SCORES_SHARED) {
            grade_fail("bytes of shared memory of a block: got %lld, expected at most %d",
                       (long long)bytes, SCORES_SHARED);
        }
    }
}

const GradeTest grade_tests[] = {
    {"right", 1, false, test_right,
     "Where an element is stored and where it is read must be the same place."},
    {"no_finding", 1, false, test_no_finding,
     "The tiles need their two barriers, and room for every element that is stored."},
    {"no_conflict", 2, false, test_no_conflict,
     "Word w is in bank w % 32. In one step a warp reads one column of 32 keys: their places must "
     "differ in w % 32. The rows, which are stored, must stay without conflict."},
    {"global_memory", 1, false, test_global_memory,
     "Each warp loads rows of 32 neighbouring elements, once; only the places in shared memory "
     "need to change."},
    {"little_shared_memory", 1, false, test_little_shared_memory,
     "One more word for every row is enough; none at all, if the columns change places."},
    {NULL, 0, false, NULL, NULL},
};
