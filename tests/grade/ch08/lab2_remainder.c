// The suite of lab 2, a chunk in tiles of packed rows: rows by hand, groups and chunks of every
// kind against float64, then what was asked of memory.
#include "exercises/ch08/labs.h"
#include "tests/grade/ch08/grouped.h"
#include "tests/grade/kernels.h"

#include <string.h>

const char grade_title[] = "a chunk in tiles of packed rows";

typedef AttnStatus Entry(const GroupedChunk *chunk, GpuStream stream);
static Entry *const builds[] = GPU_BUILDS(grouped_chunk);

// ---- a run --------------------------------------------------------------------------------------

static void expect_problem(const KernelRun *run, Problem *p) {
    const Sizes *s = &p->sizes;
    const size_t dim = (size_t)s->dim, queries = queries_of(s), keys = keys_of(s);
    float *o = grade_floats(queries * dim), *lse = grade_floats(queries);
    const GroupedChunk chunk = {.q = grade_device_floats("q", p->q, queries * dim),
                                .k = grade_device_floats("k", p->k, keys * dim),
                                .v = grade_device_floats("v", p->v, keys * dim),
                                .o = grade_device_floats("o", NULL, queries * dim),
                                .lse = grade_device_floats("lse", NULL, queries),
                                .heads_q = s->heads_q,
                                .heads_kv = s->heads_kv,
                                .len_q = s->len_q,
                                .len_kv = s->len_kv,
                                .dim = s->dim,
                                .window = s->window,
                                .scale = p->scale};
    answer(p);
    expect_launch(builds[run->target](&chunk, NULL));
    grade_download(o, chunk.o, queries * dim * sizeof(float));
    grade_download(lse, chunk.lse, queries * sizeof(float));
    expect_answers(p, o, lse, false);
    grade_device_free();
}

static void set_case(const Sizes *s, const char *order) {
    grade_case("%d heads, %d KV head%s, T = %d, S = %d, d = %d, window %d; %s", s->heads_q,
               s->heads_kv, s->heads_kv > 1 ? "s" : "", s->len_q, s->len_kv, s->dim, s->window,
               order);
}

static void expect_counting(const KernelRun *run, Sizes sizes) {
    Problem p = counting_problem(sizes);
    set_case(&sizes, run->order);
    expect_problem(run, &p);
}

static void expect_random(const KernelRun *run, Sizes sizes, uint64_t seed) {
    Problem p = random_problem(sizes, seed);
    set_case(&sizes, run->order);
    expect_problem(run, &p);
}

// ---- values -------------------------------------------------------------------------------------

static void test_decode(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_counting(&run, (Sizes){4, 2, 1, 1, 1, 0}); // 0, 0, 100, 100
        expect_counting(&run, (Sizes){4, 2, 1, 5, 1, 0});
        expect_random(&run, (Sizes){4, 2, 1, 37, 6, 0}, 10);
    }
}

static void test_groups(void) {
    const int heads[][2] = {{6, 2}, {6, 3}, {8, 1}, {3, 3}, {12, 2}, {32, 2}, {15, 1}};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int i = 0; i < 7; i++) {
            expect_random(&run, (Sizes){heads[i][0], heads[i][1], 1, 21, 3, 0}, 20);
        }
    }
}

static void test_chunk(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_counting(&run, (Sizes){2, 1, 3, 3, 1, 0});
        expect_counting(&run, (Sizes){4, 2, 4, 30, 1, 0});
        expect_counting(&run, (Sizes){4, 1, 4, 35, 1, 0}); // a full tile
        expect_random(&run, (Sizes){6, 2, 5, 23, 9, 0}, 30);
    }
}

// Whole tiles of rows, where a token's rows lie in two tiles.
static void test_token_in_two_tiles(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_counting(&run, (Sizes){3, 1, 16, 16, 1, 0});
        expect_random(&run, (Sizes){10, 2, 16, 40, 4, 0}, 40);
        expect_random(&run, (Sizes){32, 1, 3, 5, 4, 0}, 41); // and one with two tiles of its own
    }
}

// Packed rows below, at and above one tile and two, in groups of every size.
static void test_remainder(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int rows = 1; rows <= 35; rows += rows < 14 ? 4 : rows < 19 ? 1 : 3) {
            for (int group = 1; group <= rows; group++) {
                if (rows % group == 0) {
                    const Sizes sizes = {2 * group, 2, rows / group, 40, 2, 0};
                    expect_random(&run, sizes, 50 + (uint64_t)rows);
                }
            }
        }
    }
}

static void test_window(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_counting(&run, (Sizes){2, 1, 1, 9, 1, 4});
        expect_counting(&run, (Sizes){4, 1, 4, 20, 1, 3});
        expect_counting(&run, (Sizes){5, 1, 16, 70, 1, 18}); // five tiles, each from its own key on
        expect_random(&run, (Sizes){6, 2, 9, 9, 7, 1}, 60);
        expect_random(&run, (Sizes){6, 2, 9, 50, 7, 1000}, 61);
    }
}

static void test_many_tiles(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_random(&run, (Sizes){14, 2, 11, 75, 40, 0}, 70);
        expect_random(&run, (Sizes){10, 2, 23, 60, 5, 19}, 71);
        expect_random(&run, (Sizes){24, 4, 7, 33, 64, 16}, 72);
        expect_random(&run, (Sizes){20, 1, 5, 81, 17, 2}, 73);
    }
}

// NaN in every key that no token sees, in tiles that are visited and in others; then in the value
// of a key that one token sees and another one does not.
static void test_hidden_nan(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        const Sizes sizes = {10, 2, 3, 75, 4, 7}; // the tokens stand at keys 72 to 74
        Problem p = random_problem(sizes, 80);
        for (int e = 0; e < 2 * 75 * 4; e++) {
            p.k[e] = e / 4 % 75 < 66 ? NAN : p.k[e];
            p.v[e] = e / 4 % 75 < 66 ? NAN : p.v[e];
        }
        set_case(&sizes, run.order);
        expect_problem(&run, &p);
        p.v[66 * 4 + 1] = NAN;    // of KV head 0, token 0 alone
        p.k[(75 + 74) * 4] = NAN; // of KV head 1, token 2 alone
        grade_case("the same; a NaN in V of key 66, head 0, and in K of key 74, head 1; %s",
                   run.order);
        expect_problem(&run, &p);
    }
}

// ---- memory -------------------------------------------------------------------------------------

static void test_nothing_outside(void) {
    for (KernelRun run = {0}; grade_traced_run(&run);) {
        expect_random(&run, (Sizes){6, 2, 7, 20, 3, 5}, 90);
        expect_random(&run, (Sizes){15, 3, 1, 18, 9, 0}, 91);
    }
}

// Rows of K that the blocks need, found by a look at every row and tile of keys.
static int64_t needed_keys(const Sizes *s) {
    const int rows = group_of(s) * s->len_q;
    int64_t keys = 0;
    for (int row0 = 0; row0 < rows; row0 += CHUNK_TILE) {
        for (int key0 = 0; key0 < s->len_kv; key0 += CHUNK_TILE) {
            const int left = s->len_kv - key0;
            bool needed = false;
            for (int row = row0; row < row0 + CHUNK_TILE && row < rows; row++) {
                const Seen seen = seen_by(s, s->len_kv, row / group_of(s));
                needed = needed || (seen.begin < key0 + CHUNK_TILE && seen.end > key0);
            }
            keys += !needed ? 0 : left < CHUNK_TILE ? left : CHUNK_TILE;
        }
    }
    return s->heads_kv * keys;
}

static void expect_requested(const char *name, int64_t sectors) {
    const int64_t got = (int64_t)simt_trace_sum(name).load_sectors;
    if (got > sectors + sectors / 20) {
        grade_fail("%s: got %lld sectors (of 32 bytes) loaded, expected at most 1.05 times those "
                   "that the tiles of rows need, %lld",
                   name, (long long)got, (long long)sectors);
    }
}

static void test_bytes_of_a_step(void) {
    const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
    expect_random(&run, (Sizes){16, 2, 1, 100, 16, 0}, 100);
    expect_random(&run, (Sizes){10, 2, 3, 60, 64, 0}, 101);
    expect_sectors_once("k");
    expect_sectors_once("v");
    expect_sectors_once("q");
}

static void expect_bytes(Sizes sizes, uint64_t seed) {
    const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
    expect_random(&run, sizes, seed);
    const int64_t sectors = needed_keys(&sizes) * sizes.dim * (int64_t)sizeof(float) / 32;
    expect_requested("k", sectors);
    expect_requested("v", sectors);
    expect_sectors_once("q");
}

static void test_bytes_of_a_chunk(void) {
    expect_bytes((Sizes){4, 1, 40, 160, 8, 20}, 110);
    expect_bytes((Sizes){6, 2, 30, 64, 8, 0}, 111);
    expect_bytes((Sizes){7, 1, 16, 200, 16, 33}, 112);
}

// ---- errors and empty rows ----------------------------------------------------------------------

static void test_rows_without_keys(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_counting(&run, (Sizes){2, 1, 5, 2, 1, 0});
        expect_counting(&run, (Sizes){4, 2, 5, 2, 1, 1});
        expect_random(&run, (Sizes){6, 2, 30, 10, 4, 3}, 120); // tiles without keys
    }
}

static void test_heads_refused(void) {
    const int heads[][2] = {{3, 2}, {33, 2}, {2, 4}, {4, 0}, {0, 1}, {4, -2}};
    KernelRun run = {0};
    grade_plain_run(&run);
    for (int i = 0; i < 6; i++) {
        float first = 0.0f;
        float *memory = grade_device_floats("everything", NULL, 256);
        const GroupedChunk chunk = {memory,      memory, memory, memory, memory, heads[i][0],
                                    heads[i][1], 1,      1,      1,      0,      1.0f};
        grade_case("heads_q %d, heads_kv %d", heads[i][0], heads[i][1]);
        const AttnStatus status = builds[run.target](&chunk, NULL);
        if (status != ATTN_ERR_SHAPE) {
            grade_fail("status: got %s, expected ATTN_ERR_SHAPE", attn_status_name(status));
        }
        for (int n = 0; n < 2; n++) {
            if (!grade_has_number(attn_last_error(), heads[i][n])) {
                grade_fail("message: got \"%s\", expected one that has %d in it", attn_last_error(),
                           heads[i][n]);
            }
        }
        grade_download(&first, memory, sizeof(first));
        if (!isnan(first)) {
            grade_fail("o[0]: got %g, expected it unwritten after an error", (double)first);
        }
        grade_device_free();
    }
}

const GradeTest grade_tests[] = {
    {"decode", 1, false, test_decode,
     "One token: row r of KV head h is query head h * group + r, which sees all keys."},
    {"groups", 1, false, test_groups,
     "group is heads_q / heads_kv. With 4 heads and 2 KV heads it happens to be heads_kv as well."},
    {"chunk", 1, false, test_chunk,
     "Limits go by token: with S = T the rows of token 0, one for each head of the group, all see "
     "key 0 alone."},
    {"token_in_two_tiles", 1, false, test_token_in_two_tiles,
     "Rows are counted from the KV head's first one, not from the tile's: where the group does not "
     "divide 16, a tile begins in the middle of a token."},
    {"remainder", 2, false, test_remainder,
     "The last tile has what remains, and needs a block too. What lies behind its rows are the "
     "queries of other heads: they are neither read nor written by this block."},
    {"window", 1, false, test_window,
     "A window of W keys ends with the token's own key, and counts it. A tile begins with the keys "
     "of its first token."},
    {"many_tiles", 1, false, test_many_tiles,
     "See which sizes fail first: heads, tokens, or columns?"},
    {"hidden_nan", 1, false, test_hidden_nan,
     "A row's keys begin and end where labs.h says, to the key: the given loop leaves out all "
     "others, NaN or not. Where 0 is got for NaN, the row sees it and O must show it: l is NaN "
     "then, and `l > 0` is false. Ask whether l is 0."},
    {"nothing_outside", 1, false, test_nothing_outside,
     "Does a row that is not there read a query, or write O or LSE? Does each thread write its own "
     "elements?"},
    {"bytes_of_a_step", 2, false, test_bytes_of_a_step,
     "All rows of a KV head are in one block here, so K, V and Q are loaded once, neighbouring "
     "elements by neighbouring threads."},
    {"bytes_of_a_chunk", 2, false, test_bytes_of_a_chunk,
     "A block visits the tiles from its first token's first key to its last token's last key, and "
     "a tile of 16 rows has few tokens when the rows of a token lie side by side."},
    {"rows_without_keys", 1, true, test_rows_without_keys,
     "With T > S the first tokens stand before key 0: begin and end are 0 for them. Their O is 0, "
     "not 0 / 0."},
    {"heads_refused", 1, true, test_heads_refused,
     "ATTN_ERR_SHAPE by attn_fail, before the division by heads_kv, where it is 0."},
    {NULL, 0, false, NULL, NULL, NULL},
};
