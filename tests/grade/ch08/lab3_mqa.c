// The suite of lab 3, multi-query decode: one entry by hand, heads, keys, parts and batches against
// float64, then what was asked of memory.
#include "exercises/ch08/labs.h"
#include "tests/grade/ch08/grouped.h"
#include "tests/grade/kernels.h"

const char grade_title[] = "multi-query decode";

typedef AttnStatus Entry(const MqaDecode *decode, GpuStream stream);
static Entry *const builds[] = GPU_BUILDS(mqa_decode);

// ---- a run --------------------------------------------------------------------------------------

// A batch is a problem in which every entry is a KV head, and T = 1.
static Sizes sizes_of(int batch, int heads, int len_kv, int dim) {
    return (Sizes){batch * heads, batch, 1, len_kv, dim, 0};
}

// Every part that has keys has an LSE for each head, and every other one -infinity. (What they are
// shows in the result.)
static void expect_parts(const Problem *p, const float *part_lse, int parts) {
    const int heads = group_of(&p->sizes), count = p->sizes.heads_kv * parts * heads;
    float *lse = grade_floats((size_t)count);
    grade_download(lse, part_lse, (size_t)count * sizeof(float));
    for (int at = 0; at < count; at++) {
        const int entry = at / heads / parts, part = at / heads % parts, len = p->lens[entry];
        const bool has_keys = (int64_t)part * ((len + parts - 1) / parts) < len;
        if (has_keys ? !isfinite(lse[at]) : lse[at] != -INFINITY) {
            grade_fail("part_lse[entry %d][part %d][head %d]: got %g, expected %s", entry, part,
                       at % heads, (double)lse[at],
                       has_keys ? "a number: this part has keys" : "-inf: this part is empty");
        }
    }
}

static void expect_problem(const KernelRun *run, Problem *p, int parts) {
    const Sizes *s = &p->sizes;
    const size_t dim = (size_t)s->dim, queries = queries_of(s), keys = keys_of(s);
    const size_t partials = (size_t)parts * queries;
    float *o = grade_floats(queries * dim), *lse = grade_floats(queries);
    const MqaDecode decode = {.q = grade_device_floats("q", p->q, queries * dim),
                              .k = grade_device_floats("k", p->k, keys * dim),
                              .v = grade_device_floats("v", p->v, keys * dim),
                              .lens =
                                  grade_device("lens", p->lens, (size_t)s->heads_kv, sizeof(int)),
                              .o = grade_device_floats("o", NULL, queries * dim),
                              .lse = grade_device_floats("lse", NULL, queries),
                              .part_o = grade_device_floats("part_o", NULL, partials * dim),
                              .part_lse = grade_device_floats("part_lse", NULL, partials),
                              .batch = s->heads_kv,
                              .heads = group_of(s),
                              .len_kv = s->len_kv,
                              .dim = s->dim,
                              .parts = parts,
                              .scale = p->scale};
    answer(p);
    grade_case("batch %d, %d head%s, up to %d keys, d = %d, %d part%s; %s", decode.batch,
               decode.heads, decode.heads > 1 ? "s" : "", s->len_kv, s->dim, parts,
               parts > 1 ? "s" : "", run->order);
    expect_launch(builds[run->target](&decode, NULL));
    grade_download(o, decode.o, queries * dim * sizeof(float));
    grade_download(lse, decode.lse, queries * sizeof(float));
    expect_answers(p, o, lse, true);
    expect_parts(p, decode.part_lse, parts);
    grade_device_free();
}

static void expect_random(const KernelRun *run, Sizes sizes, int parts, uint64_t seed) {
    Problem p = random_problem(sizes, seed);
    expect_problem(run, &p, parts);
}

// Entries of len_kv keys, two thirds of that, one third, len_kv again ...
static void expect_ragged(const KernelRun *run, Sizes sizes, int parts, uint64_t seed) {
    Problem p = random_problem(sizes, seed);
    for (int entry = 0; entry < sizes.heads_kv; entry++) {
        cut_keys(&p, entry, sizes.len_kv * (3 - entry % 3) / 3);
    }
    expect_problem(run, &p, parts);
}

// ---- values -------------------------------------------------------------------------------------

static void test_one_entry(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        Problem p = counting_problem(sizes_of(1, 8, 5, 1)); // the mean of 0 .. 4
        expect_problem(&run, &p, 1);
        expect_random(&run, sizes_of(1, 8, 5, 3), 1, 10);
    }
}

static void test_heads(void) {
    const int heads[] = {1, 2, 7, 16, 17, 33, 64};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int i = 0; i < 7; i++) {
            expect_random(&run, sizes_of(1, heads[i], 9, 5), 1, 20 + (uint64_t)i);
        }
    }
}

static void test_tiles(void) {
    const int keys[] = {1, 15, 16, 17, 32, 50};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int i = 0; i < 6; i++) {
            Problem p = random_problem(sizes_of(1, 9, keys[i] + 3, 33), 30 + (uint64_t)i);
            cut_keys(&p, 0, keys[i]);
            expect_problem(&run, &p, 1);
        }
    }
}

static void test_batch(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_random(&run, sizes_of(3, 8, 20, 4), 1, 40);
        expect_ragged(&run, sizes_of(5, 6, 40, 4), 1, 41);
    }
}

static void test_parts(void) {
    const int parts[] = {2, 3, 7, 30};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int i = 0; i < 4; i++) {
            expect_random(&run, sizes_of(1, 8, 41, 4), parts[i], 50 + (uint64_t)i);
            expect_ragged(&run, sizes_of(3, 5, 62, 10), parts[i], 60 + (uint64_t)i);
        }
    }
}

static void test_more_parts_than_keys(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        Problem p = counting_problem(sizes_of(1, 4, 3, 1));
        expect_problem(&run, &p, 8);
        expect_random(&run, sizes_of(2, 20, 5, 6), 4, 70); // parts of 2, 2, 1 and 0 keys
    }
}

// ---- memory -------------------------------------------------------------------------------------

static void test_no_finding(void) {
    for (KernelRun run = {0}; grade_traced_run(&run);) {
        expect_ragged(&run, sizes_of(2, 13, 40, 9), 2, 80);
        expect_random(&run, sizes_of(1, 33, 18, 3), 1, 81);
    }
}

static void expect_once(Sizes sizes, int parts, uint64_t seed) {
    const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
    expect_random(&run, sizes, parts, seed);
    expect_sectors_once("k");
    expect_sectors_once("v");
}

static void test_k_and_v_once(void) {
    expect_once(sizes_of(1, 64, 48, 16), 1, 90);
    expect_once(sizes_of(2, 24, 96, 16), 3, 91);
    expect_once(sizes_of(2, 2, 80, 64), 2, 92);
}

static void test_a_block_for_each_part(void) {
    const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
    expect_ragged(&run, sizes_of(3, 12, 64, 8), 4, 100);
    const unsigned *grid = simt_trace_launch(0)->grid;
    expect_int("blocks of the first launch", (int64_t)grid[0] * grid[1] * grid[2], 3 * 4);
}

// ---- empty entries ------------------------------------------------------------------------------

static void test_no_keys(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int parts = 1; parts <= 3; parts += 2) {
            Problem p = random_problem(sizes_of(3, 5, 20, 4), 110);
            cut_keys(&p, 0, 0);
            cut_keys(&p, 2, 0);
            expect_problem(&run, &p, parts);
        }
    }
}

const GradeTest grade_tests[] = {
    {"one_entry", 1, false, test_one_entry,
     "One block, eight heads of four lanes each, five keys."},
    {"heads", 1, false, test_heads,
     "Threads come in whole warps of eight heads. Those whose head is not there neither read a "
     "query nor store, but come to every barrier."},
    {"tiles", 1, false, test_tiles,
     "A tile has 16 keys, or what is left of the part: load_tile and take_tile are told how many. "
     "Behind the last key there is NaN."},
    {"batch", 1, false, test_batch,
     "Each entry has its own queries, its own K and V, len_kv rows apart, and its own length."},
    {"parts", 2, false, test_parts,
     "Part i begins at key i * ceil(len / parts). Is O of a part where merge_kernel looks for it, "
     "[batch][parts][heads][dim], and divided?"},
    {"more_parts_than_keys", 1, false, test_more_parts_than_keys,
     "A part may be empty: begin and end are then both the length, and its LSE is -infinity."},
    {"no_finding", 2, false, test_no_finding,
     "All threads have loaded before one reads a tile, and all have read before one loads the "
     "next: two barriers in a round."},
    {"k_and_v_once", 3, false, test_k_and_v_once,
     "All heads of an entry read the same K and V: they belong into one block, all 64 where there "
     "are as many, and a tile is loaded once for all of them."},
    {"a_block_for_each_part", 1, false, test_a_block_for_each_part,
     "A block for each part of each entry: one block for all would leave the GPU idle."},
    {"no_keys", 1, true, test_no_keys,
     "An entry without keys has O = 0 and LSE = -infinity, which merge_kernel makes of parts whose "
     "LSE is -infinity."},
    {NULL, 0, false, NULL, NULL, NULL},
};
