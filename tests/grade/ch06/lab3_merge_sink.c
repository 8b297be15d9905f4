// The suite of lab 3, the last block merges with a sink: merges by hand, parts of every kind, then
// relaunches, places beyond 32 bits, and what the trace finds and counts.
#include "tests/grade/ch06/sink.h"
#include "tests/grade/kernels.h"

#include <stdio.h>

const char grade_title[] = "the last block merges, with a sink";

typedef AttnStatus Entry(const SinkDecode *decode, GpuStream stream);
static Entry *const builds[] = GPU_BUILDS(sink_decode);
typedef AttnStatus Places(const PartPlaces *places, GpuStream stream);
static Places *const places_builds[] = GPU_BUILDS(part_places);

static const float ln2 = 0.69314718f, ln3 = 1.09861229f, ln6 = 1.79175947f;

// ---- running and checking -----------------------------------------------------------------------

// A problem in device memory.
typedef struct Device {
    SinkDecode decode;
    float *o, *lse; // [heads][dim], [heads]: the results, on the host
} Device;

// Inputs alone.
static Device inputs_to_device(const Problem *p) {
    const size_t heads = (size_t)p->shape.heads, dim = (size_t)p->shape.dim;
    const size_t keys = heads * (size_t)p->shape.len_kv * dim;
    Device d = {p->shape, grade_floats(heads * dim), grade_floats(heads)};
    d.decode.q = grade_device_floats("q", p->q, heads * dim);
    d.decode.k = grade_device_floats("k", p->k, keys);
    d.decode.v = grade_device_floats("v", p->v, keys);
    d.decode.bounds =
        grade_device("bounds", p->bounds, heads * (size_t)(p->shape.parts + 1), sizeof(int));
    d.decode.sink = grade_device_floats("sink", p->sink, heads);
    return d;
}

// Inputs, results, and a workspace whose O holds NaN and whose counters are 0.
static Device to_device(const Problem *p) {
    const size_t heads = (size_t)p->shape.heads, dim = (size_t)p->shape.dim;
    const size_t parts = (size_t)p->shape.parts;
    Device d = inputs_to_device(p);
    d.decode.o = grade_device_floats("o", NULL, heads * dim);
    d.decode.lse = grade_device_floats("lse", NULL, heads);
    d.decode.part_o = grade_device_floats("part_o", NULL, heads * parts * dim);
    d.decode.part_lse = grade_device_floats("part_lse", NULL, heads * parts);
    d.decode.counters = grade_device("counters", NULL, heads, sizeof(unsigned));
    // NaN that was written, as by a launch before: garbage, but legal to read.
    grade_fill(d.decode.part_o, 0xFF, heads * parts * dim * sizeof(float));
    grade_fill(d.decode.counters, 0, heads * sizeof(unsigned));
    return d;
}

static void launch(const KernelRun *run, Device *d) {
    const size_t heads = (size_t)d->decode.heads, dim = (size_t)d->decode.dim;
    const size_t bytes = heads * dim * sizeof(float);
    grade_fill(d->decode.o, 0xFF, bytes);
    grade_fill(d->decode.lse, 0xFF, heads * sizeof(float));
    expect_launch(builds[run->target](&d->decode, NULL));
    grade_download(d->o, d->decode.o, bytes);
    grade_download(d->lse, d->decode.lse, heads * sizeof(float));
}

static void expect_head(const Problem *p, const Device *d, int head) {
    const Answer want = answer_of(p, head);
    char what[64];
    for (int c = 0; c < p->shape.dim; c++) {
        snprintf(what, sizeof(what), "o[head %d][%d]", head, c);
        expect_close(what, (double)d->o[head * p->shape.dim + c], want.o[c], want.o_tolerance);
    }
    snprintf(what, sizeof(what), "lse[head %d]", head);
    expect_close(what, (double)d->lse[head], want.lse, want.lse_tolerance);
}

static void expect_counters(const Device *d) {
    const size_t heads = (size_t)d->decode.heads;
    unsigned *counters = grade_alloc(heads * sizeof(unsigned));
    char what[64];
    grade_download(counters, d->decode.counters, heads * sizeof(unsigned));
    for (size_t h = 0; h < heads; h++) {
        snprintf(what, sizeof(what), "counters[%zu] after the launch", h);
        expect_int(what, counters[h], 0);
    }
}

static void expect_problem(const KernelRun *run, const Problem *p) {
    Device d = to_device(p);
    launch(run, &d);
    for (int h = 0; h < p->shape.heads; h++) {
        expect_head(p, &d, h);
    }
    grade_device_free();
}

static void expect_random(const KernelRun *run, const int sizes[4], uint64_t seed) {
    const Problem p = random_problem(sizes[0], sizes[1], sizes[2], sizes[3], seed);
    grade_case("%d heads, %d parts, up to %d keys, d = %d; %s", sizes[0], sizes[1], sizes[2],
               sizes[3], run->order);
    expect_problem(run, &p);
}

// ---- values -------------------------------------------------------------------------------------

static void test_two_parts(void) {
    const float scores[] = {0.0f, ln2, ln3}, values[] = {9.0f, 0.0f, 7.0f};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        grade_case("scores 0, ln 2 | ln 3, values 9, 0 | 7, sink ln 6; %s", run.order);
        Problem p = problem_of_scores(2, (int[]){0, 2, 3}, scores, values, ln6);
        expect_problem(&run, &p);
        grade_case("scores 0 | ln 2, ln 3, values 9 | 0, 7, sink 0; %s", run.order);
        p = problem_of_scores(2, (int[]){0, 1, 3}, scores, values, 0.0f);
        expect_problem(&run, &p);
    }
}

static void test_one_part(void) {
    const float scores[] = {ln2}, values[] = {6.0f};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        grade_case("one key, score ln 2, value 6, sink 0: o = 4; %s", run.order);
        const Problem p = problem_of_scores(1, (int[]){0, 1}, scores, values, 0.0f);
        expect_problem(&run, &p);
    }
}

static void test_no_sink(void) {
    const float scores[] = {0.0f, ln2, ln3}, values[] = {9.0f, 0.0f, 7.0f};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        grade_case("scores 0, ln 2 | ln 3, values 9, 0 | 7, sink -infinity: o = 5; %s", run.order);
        const Problem p = problem_of_scores(2, (int[]){0, 2, 3}, scores, values, -INFINITY);
        expect_problem(&run, &p);
    }
}

static void test_large_scores(void) {
    const float levels[] = {1000.0f, -200.0f, -60000.0f}, sinks[] = {-150.0f, -0.5f, 150.0f};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int i = 0; i < 9; i++) {
            const float level = levels[i / 3], sink = level + sinks[i % 3];
            const float scores[] = {level - 100.0f, level, level - 1.0f};
            const float values[] = {5.0f, 1.0f, 2.0f};
            grade_case("scores %g | %g | %g, values 5, 1, 2, sink %g; %s", (double)scores[0],
                       (double)scores[1], (double)scores[2], (double)sink, run.order);
            const Problem p = problem_of_scores(3, (int[]){0, 1, 2, 3}, scores, values, sink);
            expect_problem(&run, &p);
        }
    }
}

static void test_empty_parts(void) {
    const float scores[] = {0.0f, ln2, ln3, 0.0f, ln2}, values[] = {6.0f, 0.0f, 10.0f, 1.0f, 2.0f};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        grade_case("5 keys in parts of 3, 0 and 2, sink ln 3; %s", run.order);
        Problem p = problem_of_scores(3, (int[]){0, 3, 3, 5}, scores, values, ln3);
        expect_problem(&run, &p);
        grade_case("5 keys in parts of 0, 0, 5 and 0, sink ln 3; %s", run.order);
        p = problem_of_scores(4, (int[]){0, 0, 0, 5, 5}, scores, values, ln3);
        expect_problem(&run, &p);
    }
}

static void test_many_parts(void) {
    const int sizes[][4] = {{3, 2, 20, 33}, {2, 5, 31, 128}, {4, 9, 40, 7}, {2, 150, 90, 5}};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int i = 0; i < 4; i++) {
            expect_random(&run, sizes[i], 100 + 10 * (uint64_t)i);
        }
    }
}

// ---- launches after launches --------------------------------------------------------------------

// Two problems take turns on one workspace; the second one is smaller.
static void test_relaunch(void) {
    const Problem problems[2] = {random_problem(3, 4, 30, 16, 500),
                                 random_problem(2, 3, 20, 8, 550)};
    const int turns[] = {0, 0, 1, 1, 0};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        Device d[2] = {to_device(&problems[0]), inputs_to_device(&problems[1])};
        SinkDecode *first = &d[0].decode, *second = &d[1].decode;
        second->o = first->o;
        second->lse = first->lse;
        second->part_o = first->part_o;
        second->part_lse = first->part_lse;
        second->counters = first->counters;
        for (int i = 0; i < 5; i++) {
            const Problem *p = &problems[turns[i]];
            Device *now = &d[turns[i]];
            grade_case("launch %d on one workspace, %d heads in %d parts; %s", i + 1,
                       p->shape.heads, p->shape.parts, run.order);
            launch(&run, now);
            for (int h = 0; h < p->shape.heads; h++) {
                expect_head(p, now, h);
            }
            expect_counters(now);
        }
        grade_device_free();
    }
}

// The same bits in every thread order, and in the next launch.
static void test_same_bits(void) {
    const Problem p = random_problem(3, 11, 64, 96, 600);
    float first[3 * 96], first_lse[3];
    bool have = false;
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        Device d = to_device(&p);
        for (int i = 1; i <= 2; i++) {
            grade_case("3 heads, 11 parts, d = 96, launch %d; %s", i, run.order);
            launch(&run, &d);
            if (!have) {
                memcpy(first, d.o, sizeof(first));
                memcpy(first_lse, d.lse, sizeof(first_lse));
                have = true;
            }
            for (int h = 0; h < 3; h++) {
                expect_head(&p, &d, h);
            }
            for (int e = 0; e < 3 * 96; e++) {
                if (memcmp(&first[e], &d.o[e], sizeof(float)) != 0) {
                    grade_fail("o[head %d][%d]: got %.9g here, %.9g in the first launch", e / 96,
                               e % 96, (double)d.o[e], (double)first[e]);
                }
            }
            if (memcmp(first_lse, d.lse, sizeof(first_lse)) != 0) {
                grade_fail("lse: other bits than in the first launch");
            }
        }
        grade_device_free();
    }
}

static void test_places(void) {
    const int heads[] = {0, 0, 2, 40000, 65534, 4194303}, parts[] = {0, 3, 1, 255, 511, 254};
    enum { COUNT = 6 };
    int64_t places[COUNT];
    KernelRun run = {0};
    grade_plain_run(&run);
    for (int dim = 1; dim <= 128; dim *= 2) {
        PartPlaces p = {grade_device("head", heads, COUNT, sizeof(int)),
                        grade_device("part", parts, COUNT, sizeof(int)),
                        grade_device("place", NULL, COUNT, sizeof(int64_t)),
                        COUNT,
                        512,
                        dim};
        grade_case("part_place: workspace [heads][512][%d]", dim);
        expect_launch(places_builds[run.target](&p, NULL));
        grade_download(places, p.place, sizeof(places));
        for (int i = 0; i < COUNT; i++) {
            char what[64];
            snprintf(what, sizeof(what), "place of part %d of head %d", parts[i], heads[i]);
            expect_int(what, places[i], ((int64_t)heads[i] * 512 + parts[i]) * dim);
        }
        grade_device_free();
    }
}

// ---- the trace ----------------------------------------------------------------------------------

static void test_no_finding(void) {
    const int sizes[][4] = {{2, 3, 12, 33}, {3, 6, 9, 8}, {1, 1, 5, 128}};
    for (KernelRun run = {0}; grade_traced_run(&run);) {
        for (int i = 0; i < 3; i++) {
            expect_random(&run, sizes[i], 700 + 10 * (uint64_t)i);
        }
    }
}

static void test_o_once(void) {
    const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
    Problem p = random_problem(2, 12, 24, 128, 800);
    for (int i = 0; i < 2 * 13; i++) {
        p.bounds[i] = 2 * (i % 13); // no part is empty
    }
    for (int e = 0; e < 2 * 24 * 128; e++) {
        p.k[e] = grade_normal(801, (uint64_t)e);
        p.v[e] = grade_normal(802, (uint64_t)e);
    }
    grade_case("2 heads, 12 parts, d = 128");
    expect_problem(&run, &p);
    expect_sectors_once("part_o");
}

// ---- empty heads and NaN ------------------------------------------------------------------------

static void test_no_keys(void) {
    const float sinks[] = {0.5f, -INFINITY, 300.0f};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int parts = 1; parts <= 3; parts++) {
            Problem p = make_problem(3, parts, 1, 4); // the one key is NaN, and nobody sees it
            memset(p.bounds, 0, 3 * (size_t)(parts + 1) * sizeof(int));
            memcpy(p.sink, sinks, sizeof(sinks));
            memset(p.q, 0, 3 * 4 * sizeof(float));
            grade_case("heads without keys, %d parts, sinks 0.5, -infinity, 300; %s", parts,
                       run.order);
            expect_problem(&run, &p);
        }
    }
}

static void test_visible_nan(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        Problem p = make_problem(3, 3, 3, 1);
        for (int i = 0; i < 3 * 4; i++) {
            p.bounds[i] = i % 4;
        }
        for (int j = 0; j < 9; j++) {
            p.k[j] = j == 7 ? NAN : j % 3 == 1 ? -200.0f : 1.0f;
            p.v[j] = j == 1 ? NAN : (float)j;
        }
        for (int h = 0; h < 3; h++) {
            p.q[h] = 1.0f;
            p.sink[h] = 0.0f;
        }
        grade_case("scores 1 | -200 | 1; a NaN among head 0's values and head 2's keys; %s",
                   run.order);
        Device d = to_device(&p);
        launch(&run, &d);
        for (int h = 0; h < 3; h += 2) {
            if (!isnan(d.o[h])) {
                grade_fail("o[head %d][0]: got %g, expected nan", h, (double)d.o[h]);
            }
        }
        if (!isnan(d.lse[2])) {
            grade_fail("lse[head 2]: got %g, expected nan", (double)d.lse[2]);
        }
        expect_close("lse[head 0]", (double)d.lse[0], answer_of(&p, 0).lse, 1e-5);
        expect_head(&p, &d, 1);
        grade_device_free();
    }
}

const GradeTest grade_tests[] = {
    {"two_parts", 2, false, test_two_parts,
     "The weight of a part is exp(its LSE), a natural exponential. The sink weighs exp(sink), once "
     "for the head: it joins the sum by which O is divided, and lse, and adds nothing to O. If o "
     "was not written, no block took itself for the last one: it is the one before which parts - 1 "
     "had counted."},
    {"one_part", 1, false, test_one_part,
     "With one part the first block to count is the last one, and the sink still takes its share "
     "of the denominator."},
    {"no_sink", 1, false, test_no_sink,
     "exp(-infinity) is 0: a head without a sink needs no case of its own, as long as the sink "
     "alone is not taken for the maximum."},
    {"large_scores", 1, false, test_large_scores,
     "exp(1000) overflows, exp(-60000) is 0. Take the largest of all LSE and of the sink off "
     "before exp, and add it to the logarithm in the end."},
    {"empty_parts", 2, false, test_empty_parts,
     "A part without keys has LSE -infinity and an O that nobody wrote; a weight of 0 does not "
     "help, as 0 * NaN is NaN. Leave the part out."},
    {"many_parts", 2, false, test_many_parts,
     "There may be more parts than threads, more parts than keys, and fewer dimensions than "
     "threads. See which sizes fail first."},
    {"relaunch", 2, false, test_relaunch,
     "The counter must be 0 when the next launch begins, and nobody else sets it back: what does "
     "the last block find, and what may it leave?"},
    {"same_bits", 1, false, test_same_bits,
     "Add the parts up in the order of their numbers, in one thread for each dimension: sums in "
     "the order of arrival differ in their last bits."},
    {"places", 1, false, test_places,
     "[heads][parts][dim] of a long cache has more than 2^31 elements: widen to 64 bits before the "
     "first multiplication, not after it."},
    {"no_finding", 2, false, test_no_finding,
     "A block may count itself when all of its threads have stored, and merge when all of its "
     "threads know the count: two barriers. Between blocks only the atomic orders anything."},
    {"o_once", 1, false, test_o_once,
     "The LSE of all parts come first, then O once: thread c loads element c, so that neighbours "
     "load neighbours."},
    {"no_keys", 1, true, test_no_keys,
     "All parts are empty: O = 0, and lse is the sink. Without a sink either, -infinity less "
     "-infinity and 0 / 0 are NaN: guard the exponent and the division."},
    {"visible_nan", 1, true, test_visible_nan,
     "Leave a part out because its LSE is -infinity, not because its weight rounds to 0, and keep "
     "heads apart. A sum that is NaN is not 0."},
    {NULL, 0, false, NULL, NULL},
};
