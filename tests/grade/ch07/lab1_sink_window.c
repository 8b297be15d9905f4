// The suite of lab 1, sinks and a causal window: rows by hand, then shapes against float64, then
// which tiles were loaded.
#include "exercises/ch07/labs.h"
#include "tests/grade/ch07/sinks.h"
#include "tests/grade/kernels.h"

#include <limits.h>
#include <math.h>
#include <string.h>

const char grade_title[] = "sinks and a causal window";

typedef AttnStatus Entry(const SinkWindow *attention, GpuStream stream);
static Entry *const builds[] = GPU_BUILDS(sink_window_attention);

// ---- a run --------------------------------------------------------------------------------------

// Runs the kernel on p and compares O and LSE; `masked` [heads][blocks] gets what it counted.
static void expect_problem(const KernelRun *run, Problem *p, int *masked) {
    const size_t dim = (size_t)p->shape.dim, rows = rows_of(&p->shape), keys = keys_of(&p->shape);
    const size_t blocks = (size_t)p->shape.heads * (size_t)blocks_of_queries(&p->shape);
    float *o = grade_floats(rows * dim), *lse = grade_floats(rows);
    char what[96];
    SinkWindow a = p->shape;

    compute(p);
    a.q = grade_device_floats("q", p->q, rows * dim);
    a.k = grade_device_floats("k", p->k, keys * dim);
    a.v = grade_device_floats("v", p->v, keys * dim);
    a.o = grade_device_floats("o", NULL, rows * dim);
    a.lse = grade_device_floats("lse", NULL, rows);
    a.masked = grade_device("masked", NULL, blocks, sizeof(int));
    expect_launch(builds[run->target](&a, NULL));
    grade_download(o, a.o, rows * dim * sizeof(float));
    grade_download(lse, a.lse, rows * sizeof(float));
    if (masked != NULL) {
        grade_download(masked, a.masked, blocks * sizeof(int));
    }
    for (size_t r = 0; r < rows; r++) {
        const size_t head = r / (size_t)a.len_q, row = r % (size_t)a.len_q;
        for (size_t c = 0; c < dim; c++) {
            snprintf(what, sizeof(what), "o[head %zu][row %zu][%zu]", head, row, c);
            expect_value(what, (double)o[r * dim + c], p->o[r * dim + c], p->o_tolerance);
        }
        snprintf(what, sizeof(what), "lse[head %zu][row %zu]", head, row);
        expect_lse(what, (double)lse[r], p->lse[r], p->lse_tolerance);
    }
    grade_device_free();
}

static void set_case(const SinkWindow *a, const char *order) {
    grade_case("%d head%s, T = %d, S = %d, d = %d, %d sinks, window %d; %s", a->heads,
               a->heads > 1 ? "s" : "", a->len_q, a->len_kv, a->dim, a->sinks, a->window, order);
}

static void expect_counting(const KernelRun *run, SinkWindow shape) {
    Problem p = counting_problem(shape);
    set_case(&shape, run->order);
    expect_problem(run, &p, NULL);
}

static void expect_random(const KernelRun *run, SinkWindow shape, uint64_t seed) {
    Problem p = random_problem(shape, seed);
    set_case(&shape, run->order);
    expect_problem(run, &p, NULL);
}

// ---- values -------------------------------------------------------------------------------------

static void test_one_query(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_counting(&run, shape_of(1, 1, 12, 1, 2, 3)); // keys 0, 1, 9, 10, 11
    }
}

static void test_window(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_counting(&run, shape_of(1, 16, 16, 1, 0, 1)); // each query its own key
        expect_counting(&run, shape_of(1, 16, 16, 1, 0, 5));
        expect_counting(&run, shape_of(1, 16, 16, 1, 2, 5));
    }
}

static void test_sinks_stay_causal(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_counting(&run, shape_of(1, 16, 16, 1, 8, 2));
        expect_counting(&run, shape_of(1, 16, 16, 1, 40, 3)); // more sinks than keys
    }
}

static void test_lengths_differ(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_counting(&run, shape_of(1, 3, 90, 1, 4, 6));
        expect_counting(&run, shape_of(1, 20, 53, 1, 1, 17));
    }
}

// The sinks' tiles and the window's meet, overlap by a tile, or are the same ones.
static void test_overlap(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int sinks = 14; sinks <= 50; sinks += 6) {
            expect_counting(&run, shape_of(1, 5, 64, 1, sinks, 20));
        }
        expect_counting(&run, shape_of(1, 32, 32, 1, 4, 30));
    }
}

static void test_many_tiles(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_counting(&run, shape_of(1, 70, 70, 1, 0, 9));
        expect_random(&run, shape_of(1, 48, 96, 5, 3, 33), 10);
        expect_random(&run, shape_of(2, 33, 100, 40, 17, 16), 20);
        expect_random(&run, shape_of(1, 16, 81, 64, 1, 2), 30);
        expect_random(&run, shape_of(3, 1, 65, 7, 16, 15), 40);
    }
}

static void test_no_limit(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_random(&run, shape_of(1, 18, 40, 3, 0, 0), 50);
        expect_random(&run, shape_of(1, 18, 40, 3, 5, 0), 60);
        expect_random(&run, shape_of(1, 18, 40, 3, 5, 1000), 70);
    }
}

// NaN in every key that no query sees, in tiles that are visited and in others; and in the values
// of two keys that some queries see and others do not.
static void test_hidden_nan(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        const SinkWindow shape = shape_of(1, 3, 75, 4, 5, 7); // queries stand at keys 72 to 74
        Problem p = random_problem(shape, 80);
        for (int j = 0; j < shape.len_kv; j++) {
            bool seen = false;
            for (int i = 0; i < shape.len_q; i++) {
                seen = seen || visible(&shape, i, j);
            }
            for (int c = 0; c < shape.dim && !seen; c++) {
                p.k[j * shape.dim + c] = p.v[j * shape.dim + c] = NAN;
            }
        }
        set_case(&shape, run.order);
        expect_problem(&run, &p, NULL);
        p.v[66 * shape.dim + 1] = NAN; // of query 0 alone
        p.k[74 * shape.dim] = NAN;     // of query 2 alone
        grade_case("the same; a NaN in V of key 66 and in K of key 74; %s", run.order);
        expect_problem(&run, &p, NULL);
    }
}

// ---- tiles --------------------------------------------------------------------------------------

typedef struct Tiles {
    int visited, masked;
    int64_t keys; // rows of K in the visited tiles
} Tiles;

// What a block of queries has to visit, found by a look at every pair.
static Tiles tiles_of_block(const SinkWindow *a, int block) {
    Tiles tiles = {0, 0, 0};
    for (int key0 = 0; key0 < a->len_kv; key0 += SINK_TILE) {
        int seen = 0, pairs = 0;
        for (int e = 0; e < SINK_TILE * SINK_TILE; e++) {
            const int row = block * SINK_TILE + e / SINK_TILE;
            if (row < a->len_q) {
                seen += visible(a, row, key0 + e % SINK_TILE) ? 1 : 0;
                pairs++;
            }
        }
        const int left = a->len_kv - key0;
        tiles.visited += seen > 0 ? 1 : 0;
        tiles.masked += seen > 0 && seen < pairs ? 1 : 0;
        tiles.keys += seen == 0 ? 0 : left < SINK_TILE ? left : SINK_TILE;
    }
    return tiles;
}

static void test_masked_tiles(void) {
    const int shapes[][4] = {{16, 128, 0, 0},  {16, 128, 4, 40}, {16, 128, 40, 33},
                             {10, 97, 32, 26}, {50, 100, 16, 0}, {35, 160, 20, 64},
                             {1, 49, 3, 32},   {33, 64, 48, 5}};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int i = 0; i < 8; i++) {
            const int *s = shapes[i];
            const SinkWindow shape = shape_of(2, s[0], s[1], 2, s[2], s[3]);
            const int blocks = blocks_of_queries(&shape);
            int masked[16];
            Problem p = random_problem(shape, 100 + 10 * (uint64_t)i);
            set_case(&shape, run.order);
            expect_problem(&run, &p, masked);
            for (int b = 0; b < 2 * blocks; b++) {
                char what[64];
                snprintf(what, sizeof(what), "masked[head %d][block %d]", b / blocks, b % blocks);
                expect_int(what, masked[b], tiles_of_block(&shape, b % blocks).masked);
            }
        }
    }
}

static void test_nothing_outside(void) {
    for (KernelRun run = {0}; grade_traced_run(&run);) {
        expect_random(&run, shape_of(2, 19, 70, 3, 5, 12), 200);
        expect_random(&run, shape_of(1, 3, 35, 9, 40, 4), 210);
    }
}

static void expect_bytes(SinkWindow shape, uint64_t seed) {
    const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
    const char *const names[] = {"k", "v"};
    int64_t keys = 0;

    expect_random(&run, shape, seed);
    for (int b = 0; b < blocks_of_queries(&shape); b++) {
        keys += shape.heads * tiles_of_block(&shape, b).keys;
    }
    const int64_t sectors = keys * shape.dim * (int64_t)sizeof(float) / 32;
    for (int i = 0; i < 2; i++) {
        const int64_t got = (int64_t)simt_trace_sum(names[i]).load_sectors;
        if (got > sectors + sectors / 20) {
            grade_fail("%s: got %lld sectors (of 32 bytes) loaded, expected at most 1.05 times "
                       "those of the visible tiles, %lld",
                       names[i], (long long)got, (long long)sectors);
        }
    }
}

static void test_bytes(void) {
    expect_bytes(shape_of(1, 16, 256, 16, 4, 20), 300);
    expect_bytes(shape_of(2, 40, 208, 8, 20, 48), 310);
    expect_bytes(shape_of(1, 80, 80, 8, 16, 17), 320); // the window leaves the sinks behind
}

// ---- errors and empty rows ----------------------------------------------------------------------

static void test_rows_without_keys(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_counting(&run, shape_of(1, 5, 2, 1, 0, 0));
        expect_counting(&run, shape_of(1, 5, 2, 1, 1, 1));
        expect_random(&run, shape_of(2, 50, 20, 4, 3, 6), 400); // a block without keys
    }
}

static void expect_argument_error(const char *name, int value, int sinks, int window) {
    KernelRun run = {0};
    float none = 0.0f;
    SinkWindow a = shape_of(1, 4, 4, 1, sinks, window);
    grade_plain_run(&run);
    grade_case("%s %d", name, value);
    float *memory = grade_device_floats("everything", NULL, 64);
    a.q = a.k = a.v = memory;
    a.o = a.lse = memory;
    a.masked = (int *)(void *)memory;
    const AttnStatus status = builds[run.target](&a, NULL);
    if (status != ATTN_ERR_ARGUMENT) {
        grade_fail("status: got %s, expected ATTN_ERR_ARGUMENT", attn_status_name(status));
    }
    if (strstr(attn_last_error(), name) == NULL || !grade_has_number(attn_last_error(), value)) {
        grade_fail("message: got \"%s\", expected one that has \"%s\" and %d in it",
                   attn_last_error(), name, value);
    }
    grade_download(&none, memory, sizeof(none));
    if (!isnan(none)) {
        grade_fail("o[0]: got %g, expected it unwritten after an error", (double)none);
    }
    grade_device_free();
}

static void test_negative_numbers(void) {
    expect_argument_error("window", -1, 1, -1);
    expect_argument_error("window", INT_MIN, 1, INT_MIN);
    expect_argument_error("sinks", -2, -2, 1);
}

const GradeTest grade_tests[] = {
    {"one_query", 1, false, test_one_query,
     "The query stands at key 11, the last one. It sees keys 0 and 1, which are sinks, and 9, 10 "
     "and 11, its window."},
    {"window", 1, false, test_window,
     "A window of W keys counts the query's own: with W = 1 a query sees itself alone."},
    {"sinks_stay_causal", 1, false, test_sinks_stay_causal,
     "A sink behind the query's own key is not visible either."},
    {"lengths_differ", 1, false, test_lengths_differ,
     "Everything counts from the query's own key, row + (S - T): the causal end, and the window's "
     "beginning. So do the tiles."},
    {"overlap", 1, false, test_overlap,
     "A tile that both the sinks and the window reach into is visited once: the second range "
     "begins where the first has ended, or later."},
    {"many_tiles", 2, false, test_many_tiles,
     "The block's tiles begin with the window of its first query and end with the last query's own "
     "key. A query may see nothing in the first tiles of its block: -infinity minus -infinity is "
     "NaN."},
    {"no_limit", 1, false, test_no_limit,
     "A window of 0 is no window: every key up to the own one is visible, and every tile visited."},
    {"hidden_nan", 1, false, test_hidden_nan,
     "0 * NaN is NaN: a value that the row does not see must not be multiplied, not even by a "
     "weight of 0. A NaN that the row sees must reach it."},
    {"masked_tiles", 1, false, test_masked_tiles,
     "A tile is full when its last key is visible to the block's first query, and its first key "
     "that is no sink to the block's last query. Queries behind T do not count."},
    {"nothing_outside", 1, false, test_nothing_outside,
     "Every thread writes its own weights, in its own row. Or is a barrier passed by some threads "
     "only?"},
    {"bytes", 2, false, test_bytes,
     "No tile between the sinks and the window of the block's first query, none behind the last "
     "query's own key."},
    {"rows_without_keys", 1, true, test_rows_without_keys,
     "With T > S the first queries stand before key 0. m stays at -infinity there, and "
     "-infinity minus -infinity is NaN."},
    {"negative_numbers", 1, true, test_negative_numbers,
     "Some libraries write -1 for \"no window\". Here it is an error, told by attn_fail before "
     "anything is launched."},
    {NULL, 0, false, NULL, NULL},
};
