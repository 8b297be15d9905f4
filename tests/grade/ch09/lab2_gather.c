// The suite of lab 2, a gather from pages: one page, tails, shuffled pages, page sizes and batches,
// then addresses beyond 32 bits, and what the trace finds and counts.
#include "tests/grade/kernels.h"

#include <stdio.h>

#include "tests/grade/ch09/gather.h"

const char grade_title[] = "K and V gathered from pages";

typedef AttnStatus Gather(const PagedGather *gather, GpuStream stream);
static Gather *const builds[] = GPU_BUILDS(paged_gather);
typedef AttnStatus Places(const GatherPlaces *places, GpuStream stream);
static Places *const places_builds[] = GPU_BUILDS(gather_places);

// ---- a run --------------------------------------------------------------------------------------

// What was expected at element e of k or v: NaN outside of the arrays.
static float expected_at(const Problem *p, size_t e, int part, char *what, size_t size) {
    const PagedGather *s = &p->shape;
    snprintf(what, size, "%c between the sequences' arrays, element %zu", part == 0 ? 'k' : 'v', e);
    for (int b = 0; b < s->batch; b++) {
        const int64_t at = (int64_t)e - p->begin[b];
        if (at < 0 || at >= (int64_t)p->lens[b] * s->heads_kv * s->dim) {
            continue;
        }
        const int c = (int)(at % s->dim), token = (int)(at / s->dim % p->lens[b]);
        const int head = (int)(at / s->dim / p->lens[b]);
        snprintf(what, size, "%c[sequence %d][head %d][token %d][%d]", part == 0 ? 'k' : 'v', b,
                 head, token, c);
        return p->kv[token_begin(p, b, token) + (size_t)((head * 2 + part) * s->dim + c)];
    }
    return NAN;
}

static void expect_output(const Problem *p, const float *device, int part) {
    float *got = grade_floats(p->out_count);
    char what[96], name[96], wanted[96];
    grade_download(got, device, p->out_count * sizeof(float));
    for (size_t e = 0; e < p->out_count; e++) {
        const float want = expected_at(p, e, part, what, sizeof(what));
        if (got[e] == want || (isnan(want) && isnan(got[e]))) {
            continue;
        }
        describe_value(p, got[e], name, sizeof(name));
        describe_value(p, want, wanted, sizeof(wanted));
        grade_fail("%s: got %s, expected %s", what, name,
                   isnan(want) ? "it left as it was" : wanted);
    }
}

// kv and table in device memory; all of them, or what is in use alone.
static void upload_inputs(const Problem *p, bool all, PagedGather *g) {
    const size_t table_count = (size_t)g->batch * (size_t)g->columns, token = token_elements(g);
    if (all) {
        g->kv = grade_device_floats("kv", p->kv, p->kv_count);
        g->table = grade_device("table", p->table, table_count, sizeof(int32_t));
        return;
    }
    float *kv = grade_device_floats("kv", NULL, p->kv_count);
    int32_t *table = grade_device("table", NULL, table_count, sizeof(int32_t));
    for (int b = 0; b < g->batch; b++) {
        const size_t row = (size_t)b * (size_t)g->columns;
        grade_upload(table + row, p->table + row, (size_t)pages_in_use(p, b) * sizeof(int32_t));
        for (int t = 0; t < p->lens[b]; t++) {
            const size_t at = token_begin(p, b, t);
            grade_upload(kv + at, p->kv + at, token * sizeof(float));
        }
    }
    g->kv = kv;
    g->table = table;
}

static void expect_gather(const KernelRun *run, const Problem *p, bool all) {
    PagedGather g = p->shape;
    upload_inputs(p, all, &g);
    g.lens = grade_device("lens", p->lens, (size_t)g.batch, sizeof(int));
    g.begin = grade_device("begin", p->begin, (size_t)g.batch, sizeof(int64_t));
    g.k = grade_device_floats("k", NULL, p->out_count);
    g.v = grade_device_floats("v", NULL, p->out_count);
    expect_launch(builds[run->target](&g, NULL));
    expect_output(p, g.k, PART_K);
    expect_output(p, g.v, PART_V);
    grade_device_free();
}

static PagedGather shape_of(int batch, int columns, int page_size, int heads, int dim) {
    return (PagedGather){
        .batch = batch, .columns = columns, .page_size = page_size, .heads_kv = heads, .dim = dim};
}

static void set_case(const Problem *p, const char *order) {
    const PagedGather *s = &p->shape;
    char lens[96] = "";
    size_t used = 0;
    for (int b = 0; b < s->batch && used < sizeof(lens); b++) {
        used += (size_t)snprintf(lens + used, sizeof(lens) - used, "%s%d", b > 0 ? ", " : "",
                                 p->lens[b]);
    }
    grade_case("lengths %s, pages of %d, %d columns, %d head%s, d = %d; %s", lens, s->page_size,
               s->columns, s->heads_kv, s->heads_kv > 1 ? "s" : "", s->dim, order);
}

static void expect_shape(const KernelRun *run, PagedGather shape, const int *lens, uint64_t seed) {
    const Problem p = make_problem(&shape, lens, seed);
    set_case(&p, run->order);
    expect_gather(run, &p, true);
}

// ---- values -------------------------------------------------------------------------------------

static void test_one_page(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_shape(&run, shape_of(1, 1, 8, 1, 2), (int[]){8}, 1);
        expect_shape(&run, shape_of(1, 1, 8, 3, 5), (int[]){8}, 2);
    }
}

static void test_tail_page(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int len = 1; len <= 17; len += 4) {
            expect_shape(&run, shape_of(1, 4, 8, 2, 3), &len, 10);
        }
    }
}

static void test_shuffled_pages(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_shape(&run, shape_of(1, 6, 8, 2, 4), (int[]){48}, 20);
        expect_shape(&run, shape_of(1, 9, 16, 1, 40), (int[]){131}, 21);
    }
}

static void test_page_sizes(void) {
    const int sizes[] = {1, 3, 6, 7, 9, 12, 20, 31, 64};
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int i = 0; i < 9; i++) {
            expect_shape(&run, shape_of(1, 67, sizes[i], 2, 3), (int[]){65}, 30 + (uint64_t)i);
            expect_shape(&run, shape_of(1, 64, sizes[i], 1, 4), &sizes[i], 40 + (uint64_t)i);
        }
    }
}

static void test_batch(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_shape(&run, shape_of(3, 5, 8, 2, 3), (int[]){17, 40, 3}, 50);
        expect_shape(&run, shape_of(5, 11, 12, 3, 2), (int[]){100, 0, 61, 12, 1}, 51);
    }
}

// Two sequences begin with the same two pages.
static void test_shared_pages(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        const PagedGather shape = shape_of(2, 4, 8, 2, 4);
        Problem p = make_problem(&shape, (int[]){20, 29}, 60);
        p.table[4] = p.table[0];
        p.table[5] = p.table[1];
        fill_tokens(&p);
        grade_case("lengths 20, 29, the first two pages in common; %s", run.order);
        expect_gather(&run, &p, true);
    }
}

static void test_many_shapes(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (uint64_t i = 0; i < 40; i++) {
            int lens[MAX_BATCH];
            const PagedGather shape = shape_of(1 + (int)(i % 4), 9, 5 + (int)(i * 7 % 30),
                                               1 + (int)(i % 3), 1 + (int)(i * 5 % 21));
            for (uint64_t b = 0; b < 4; b++) {
                lens[b] = (int)(fabsf(grade_normal(70 + i, b)) * 25.0f) % (9 * shape.page_size);
            }
            expect_shape(&run, shape, lens, 100 + i);
        }
    }
}

static void test_places(void) {
    enum { COUNT = 6 };
    const int page[] = {0, 1, 131071, 65536, 1000000, INT32_MAX}, slot[] = {0, 2, 15, 0, 7, 3};
    const int head[] = {0, 1, 7, 0, 5, 6}, part[] = {0, 1, 1, 0, 0, 1};
    int64_t place[COUNT];
    KernelRun run = {0};
    grade_plain_run(&run);
    for (int size = 16; size <= 256; size *= 4) {
        GatherPlaces p = {grade_device("page", page, COUNT, sizeof(int)),
                          grade_device("slot", slot, COUNT, sizeof(int)),
                          grade_device("head", head, COUNT, sizeof(int)),
                          grade_device("part", part, COUNT, sizeof(int)),
                          grade_device("place", NULL, COUNT, sizeof(int64_t)),
                          COUNT,
                          size,
                          8,
                          128};
        grade_case("kv_row: [pages][%d][8][2][128]", size);
        expect_launch(places_builds[run.target](&p, NULL));
        grade_download(place, p.place, sizeof(place));
        for (int i = 0; i < COUNT; i++) {
            char what[96];
            const int64_t token = (int64_t)page[i] * size + slot[i];
            snprintf(what, sizeof(what), "row of page %d, slot %d, head %d, %c", page[i], slot[i],
                     head[i], part[i] == PART_K ? 'K' : 'V');
            expect_int(what, place[i], ((token * 8 + head[i]) * 2 + part[i]) * 128);
        }
        grade_device_free();
    }
}

// ---- the trace ----------------------------------------------------------------------------------

static void test_nothing_else_read(void) {
    const int lens[][4] = {{19, 0, 33, 8}, {1, 64, 5, 31}};
    for (KernelRun run = {0}; grade_traced_run(&run);) {
        for (int i = 0; i < 2; i++) {
            const PagedGather shape = shape_of(4, 7, i == 0 ? 8 : 12, 2, 3);
            const Problem p = make_problem(&shape, lens[i], 200 + (uint64_t)i);
            set_case(&p, run.order);
            expect_gather(&run, &p, false);
        }
    }
}

static void test_sectors_once(void) {
    const int shapes[][3] = {{16, 2, 8}, {8, 1, 64}, {12, 3, 32}, {20, 2, 128}};
    for (int i = 0; i < 4; i++) {
        const int *s = shapes[i];
        const PagedGather shape = shape_of(3, 4, s[0], s[1], s[2]);
        const Problem p = make_problem(&shape, (int[]){2 * s[0] + 3, s[0], 1}, 210 + (uint64_t)i);
        const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
        set_case(&p, run.order);
        expect_gather(&run, &p, true);
        expect_sectors_once("kv");
    }
}

// Each warp of a block asks for the page once.
static void test_lookups(void) {
    const PagedGather shape = shape_of(2, 5, 20, 4, 16);
    const Problem p = make_problem(&shape, (int[]){100, 45}, 220);
    const KernelRun run = {.target = grade_counting_run(), .order = "counted"};
    int64_t tiles = 0;
    set_case(&p, run.order);
    expect_gather(&run, &p, true);
    for (int b = 0; b < 2; b++) {
        for (int left = p.lens[b]; left > 0; left -= 20) {
            const int tokens = left < 20 ? left : 20;
            tiles += (tokens + GATHER_TILE - 1) / GATHER_TILE;
        }
    }
    const int64_t most = tiles * (GATHER_THREADS / 32);
    const int64_t got = (int64_t)simt_trace_sum("table").load_requests;
    if (got > most) {
        grade_fail("table: got %lld load requests (of a warp), expected at most %lld, one for each "
                   "warp of the %lld blocks that have tokens",
                   (long long)got, (long long)most, (long long)tiles);
    }
}

// ---- nothing to do ------------------------------------------------------------------------------

static void test_no_tokens(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        expect_shape(&run, shape_of(3, 2, 8, 2, 3), (int[]){0, 0, 0}, 300);
        expect_shape(&run, shape_of(3, 2, 8, 2, 3), (int[]){0, 5, 0}, 301);
    }
}

const GradeTest grade_tests[] = {
    {"one_page", 1, false, test_one_page,
     "Read [slot][head][2][dim], write [head][token][dim] twice. If nothing was written, see how "
     "many pages the grid has, and how many tokens the block finds."},
    {"tail_page", 2, false, test_tail_page,
     "The last page holds tokens up to the length; behind it lie NaN, and in k and v the next "
     "head's first token. The grid needs the page that is not full, too."},
    {"shuffled_pages", 1, false, test_shuffled_pages,
     "The column is logical: table[column] is the page to read from. k and v know no pages."},
    {"page_sizes", 2, false, test_page_sizes,
     "A page is cut into tiles of 8 tokens: its last tile is short when 8 does not divide the page "
     "size, and a page smaller than that is one short tile."},
    {"batch", 2, false, test_batch,
     "A row of the table has `columns` entries, however few of them are in use."},
    {"shared_pages", 1, false, test_shared_pages,
     "Two sequences may read one page; each has its own k and v."},
    {"many_shapes", 1, false, test_many_shapes,
     "Sizes of every kind. See which fail first: odd dim, several heads, short pages?"},
    {"places", 1, false, test_places,
     "A pool has more than 2^31 elements soon: widen to 64 bits before the first multiplication."},
    {"nothing_else_read", 2, false, test_nothing_else_read,
     "Slots behind the length and entries behind the pages in use were never written here. A block "
     "without tokens returns before it looks at the table; a tile reads its own tokens alone."},
    {"sectors_once", 2, false, test_sectors_once,
     "Neighbouring threads load neighbouring elements, K and V in one go or one after the other. A "
     "thread that walks along a row of its own makes a request of 32 sectors each time."},
    {"lookups", 1, false, test_lookups,
     "All tokens of a block lie in one page: look it up once, before the loop."},
    {"no_tokens", 1, true, test_no_tokens,
     "A sequence without tokens has no pages; when none has any, there is nothing to launch."},
    {NULL, 0, false, NULL, NULL, NULL},
};
