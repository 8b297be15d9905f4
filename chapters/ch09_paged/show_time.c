// ./ch09, time on cuda: both rungs against page size, with tables in order and shuffled, beside a
// contiguous cache, which is one page a sequence; and a batch of mixed lengths beside equal ones.
// Heads of every last output are compared with the oracle.
#include "chapters/ch09_paged/show.h"

#include "common/timed_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SETS = 64 };

// A pool in device memory for several batches of one shape, which runs take in turn. Made by hand,
// and not appended to: only what a kernel reads is there.
typedef struct TimedPool {
    TimedProblem problem; // with lengths
    int sets;             // batches, MOST_SETS at most
    size_t tensor_bytes;  // of K, and of V
    void *k, *v;          // pages
    // for one page size and order
    PagedCache cache[MOST_SETS];
    int32_t *table[MOST_SETS]; // the same in host memory
    // of the run under way
    int rung;
    int64_t splits;
    void *workspace;
    int last; // the set that was read last
} TimedPool;

// ---- memory -------------------------------------------------------------------------------------

static int64_t pages_of(const AttnShape *shape, int64_t page_size) {
    int64_t pages = 0;
    for (int64_t b = 0; b < shape->batch; b++) {
        pages += page_lookups(shape->kv_lens[b], page_size);
    }
    return pages;
}

// Room for the batches in pages of any of these sizes.
static void pool_make(const Show *show, TimedPool *pool, const AttnShape *shape, DType dtype,
                      const int64_t *sizes, int count) {
    const size_t element = dtype_size(dtype);
    int64_t tokens = 0;
    for (int i = 0; i < count; i++) {
        const int64_t slots = pages_of(shape, sizes[i]) * sizes[i];
        tokens = slots > tokens ? slots : tokens;
    }
    *pool = (TimedPool){.sets = 0};
    timed_problem_make(&pool->problem, show->program, show->options, show->target, shape, dtype);
    const int sets = timed_sets(&pool->problem, attn_kv_bytes(shape, element));
    pool->sets = sets > MOST_SETS ? MOST_SETS : sets;
    const size_t elements = (size_t)(pool->sets * tokens * shape->heads_kv * shape->dim);
    pool->tensor_bytes = elements * element;
    pool->k = timed_alloc(&pool->problem, "k_pages", elements, element);
    pool->v = timed_alloc(&pool->problem, "v_pages", elements, element);
    timed_fill(&pool->problem, pool->k, pool->tensor_bytes, 0);
    timed_fill(&pool->problem, pool->v, pool->tensor_bytes, 1);
}

static void drop_tables(const Show *show, TimedPool *pool) {
    for (int set = 0; set < pool->sets; set++) {
        void *table;
        memcpy(&table, &pool->cache[set].table, sizeof table); // made here
        gpu_free(show->target, table);
        free(pool->table[set]);
        pool->table[set] = NULL;
        pool->cache[set] = (PagedCache){0};
    }
}

static void pool_free(const Show *show, TimedPool *pool) {
    drop_tables(show, pool);
    gpu_free(show->target, pool->k);
    gpu_free(show->target, pool->v);
    timed_problem_free(&pool->problem);
    *pool = (TimedPool){0};
}

// ---- tables -------------------------------------------------------------------------------------

// Numbers 0 .. count - 1, in order or in random order. Freed by free.
static int32_t *page_numbers(const Show *show, int64_t count, bool shuffled) {
    int32_t *numbers = calloc((size_t)count + 1, sizeof(*numbers));
    if (numbers == NULL) {
        lesson_require(show->program, attn_fail(ATTN_ERR_MEMORY, "no memory for a table of %lld",
                                                (long long)count));
        abort(); // not reached
    }
    uint64_t random = 88172645463325252U; // xorshift
    for (int64_t i = 0; i < count; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        const int64_t j = shuffled ? (int64_t)(random % (uint64_t)(i + 1)) : i;
        numbers[i] = numbers[j];
        numbers[j] = (int32_t)i;
    }
    return numbers;
}

// Tables of all sets for pages of that size, over the whole pool.
static void make_tables(const Show *show, TimedPool *pool, int64_t page_size, bool shuffled) {
    const AttnShape *shape = &pool->problem.shape;
    const int64_t pages = pages_of(shape, page_size);
    const int64_t columns = page_lookups(shape->len_kv, page_size);
    const size_t entries = (size_t)(shape->batch * columns);
    int32_t *numbers = page_numbers(show, pool->sets * pages, shuffled), *next = numbers;
    drop_tables(show, pool);
    for (int set = 0; set < pool->sets; set++) {
        int32_t *table = page_numbers(show, (int64_t)entries, false);
        void *device = timed_alloc(&pool->problem, "table", entries, sizeof *table);
        for (int64_t b = 0; b < shape->batch; b++) {
            const int64_t used = page_lookups(shape->kv_lens[b], page_size);
            memcpy(table + b * columns, next, (size_t)used * sizeof *table);
            next += used;
        }
        lesson_require(show->program,
                       gpu_upload(show->target, device, table, entries * sizeof *table));
        pool->table[set] = table;
        pool->cache[set] = (PagedCache){
            .target = show->target,
            .layout = {page_size, shape->heads_kv, shape->dim, pool->problem.dtype},
            .pages = pool->sets * pages,
            .k = pool->k,
            .v = pool->v,
            .table = device,
            .columns = columns,
            .batch = shape->batch,
            .kv_lens = pool->problem.kv_lens,
        };
    }
    free(numbers);
}

// ---- a run --------------------------------------------------------------------------------------

// A TimedKeys: out of the pages of the set that was read last.
static Tensor gather(void *context, int64_t entry, int64_t kv_head, int which) {
    const TimedPool *pool = context;
    const TimedProblem *problem = &pool->problem;
    const PagedCache *cache = &pool->cache[pool->last];
    const int64_t keys = problem->shape.kv_lens[entry], page_size = cache->layout.page_size;
    const int32_t *table = pool->table[pool->last] + entry * cache->columns;
    const char *memory = which == 0 ? pool->k : pool->v;
    const size_t element = dtype_size(problem->dtype);
    const size_t row = (size_t)problem->shape.dim * element;
    const int64_t dims[] = {1, 1, keys, problem->shape.dim};
    Tensor part;
    lesson_require(problem->program, tensor_alloc(&part, problem->dtype, 4, dims));
    for (int64_t key = 0; key < keys; key += page_size) {
        const int64_t count = keys - key < page_size ? keys - key : page_size;
        const int64_t from = page_offset(&cache->layout, table[key / page_size], kv_head, 0);
        lesson_require(problem->program,
                       gpu_download(problem->target, (char *)part.data + (size_t)key * row,
                                    memory + (size_t)from * element, (size_t)count * row));
    }
    return part;
}

static AttnStatus timed_run(void *context, int run) {
    TimedPool *pool = context;
    const TimedProblem *problem = &pool->problem;
    pool->last = run % pool->sets;
    const PagedCache *cache = &pool->cache[pool->last];
    return paged_rungs[pool->rung].builds[cache->target](
        &problem->shape, problem->dtype, problem->q, cache, problem->o, problem->lse, pool->splits,
        pool->workspace, NULL);
}

// Times a rung and compares heads of its last output with the oracle.
static TimedPoint time_rung(const Show *show, TimedPool *pool, int rung) {
    const AttnShape *shape = &pool->problem.shape;
    pool->rung = rung;
    pool->splits = splits_for(show, rung, shape, pool->problem.dtype);
    lesson_require(show->program,
                   rung_workspace(rung, show->target, shape, pool->splits, &pool->workspace));
    const TimedPoint point = timed_measure(&pool->problem, timed_run, gather, pool);
    gpu_free(show->target, pool->workspace);
    return point;
}

// ---- against page size --------------------------------------------------------------------------

static const char *rate_text(const Show *show, char text[48], const TimedPoint *point) {
    const double most = show->properties.bytes_per_s;
    char count[32];
    if (most > 0 && !rate_is_plausible(point->rate, most)) {
        snprintf(text, 48, "measurement error");
    } else {
        snprintf(text, 48, "%s", format_count(count, point->rate / 1e9));
    }
    return text;
}

// Times every rung at one page size and order and adds a row for each. over[]: medians of the
// contiguous cache, set where `contiguous`.
static bool page_rows(const Show *show, Table *table, TimedPool *pool, int64_t page, bool shuffled,
                      bool contiguous, double over[PAGED_RUNGS]) {
    const char *order = contiguous ? "contiguous" : shuffled ? "shuffled" : "ordered";
    bool passed = true;
    make_tables(show, pool, page, shuffled);
    for (int rung = 0; rung < PAGED_RUNGS; rung++) {
        if (!rung_takes(rung, &pool->problem.shape, pool->problem.dtype)) {
            continue;
        }
        char time[64], rate[48], number[32];
        const TimedPoint point = time_rung(show, pool, rung);
        over[rung] = contiguous ? point.seconds.median : over[rung];
        snprintf(number, sizeof number, "%lld", (long long)page);
        table_row(table, "%s|%s|%s|%s|%s|%.3f|%s", paged_rungs[rung].name, number, order,
                  lesson_time_text(time, &point.seconds), rate_text(show, rate, &point),
                  point.seconds.median / over[rung], point.passed ? "right" : "WRONG");
        csv_row(show->csv, "cuda-%s,%s,%lld,%.6g,%.6g,%.6g", paged_rungs[rung].name, order,
                (long long)page, point.seconds.median / over[rung], point.seconds.p10 / over[rung],
                point.seconds.p90 / over[rung]);
        passed = point.passed && passed;
    }
    return passed;
}

static bool show_sizes(const Show *show, const AttnShape *shape, DType dtype) {
    enum { SIZES = 6 };
    const int64_t page = show->options->page, keys = shape->len_kv;
    const int64_t all[SIZES] = {8, 16, 32, 64, 128, 256};
    const bool one = show->options->shape_given || show->options->quick;
    const int64_t *sizes = one ? &page : all;
    const int count = one ? 1 : SIZES;
    int64_t room[SIZES + 1] = {keys};
    double over[PAGED_RUNGS] = {0};
    char heading[128];
    Table table;
    TimedPool pool;
    memcpy(room + 1, sizes, (size_t)count * sizeof *room);
    snprintf(heading, sizeof heading,
             "Time on cuda: %lld x %lld keys, heads %lld on %lld, d = %lld, %s",
             (long long)shape->batch, (long long)keys, (long long)shape->heads_q,
             (long long)shape->heads_kv, (long long)shape->dim, dtype_name(dtype));
    report_section(heading);
    pool_make(show, &pool, shape, dtype, room, count + 1);
    table_begin(&table, "rung|page|table|median [p10, p90]|GB/s|over|output");
    bool passed = page_rows(show, &table, &pool, keys, false, true, over);
    for (int i = 0; i < count; i++) {
        report_progress("timing", i, count);
        passed = page_rows(show, &table, &pool, sizes[i], false, false, over) && passed;
        passed = page_rows(show, &table, &pool, sizes[i], true, false, over) && passed;
    }
    report_progress("timing", 0, 0);
    pool_free(show, &pool);
    table_print(&table);
    return passed;
}

// ---- mixed lengths ------------------------------------------------------------------------------

enum { MIXED = 64, MIXED_LONGEST = 16384, MIXED_PAGE = 16 };

static bool mixed_row(const Show *show, Table *table, const char *name, const int32_t *lens,
                      double *rate) {
    const int64_t size = MIXED_PAGE;
    AttnShape shape = {MIXED, 32, SHOW_HEADS_KV, 1, 0, SHOW_DIM, 0, false, 0, lens};
    char time[64], text[48];
    TimedPool pool;
    for (int b = 0; b < MIXED; b++) {
        shape.len_kv = lens[b] > shape.len_kv ? lens[b] : shape.len_kv;
    }
    pool_make(show, &pool, &shape, DTYPE_BF16, &size, 1);
    make_tables(show, &pool, MIXED_PAGE, true);
    const TimedPoint point = time_rung(show, &pool, PAGED_MMA);
    *rate = *rate > 0 ? *rate : point.rate;
    table_row(table, "%s|%s|%s|%.3f|%s", name, lesson_time_text(time, &point.seconds),
              rate_text(show, text, &point), point.rate / *rate, point.passed ? "right" : "WRONG");
    pool_free(show, &pool);
    return point.passed;
}

static bool show_mixed(const Show *show) {
    int32_t mixed[MIXED], equal[MIXED];
    int64_t sum = 0;
    double rate = 0;
    Table table;
    for (int b = 0; b < MIXED; b++) { // 1 to 16,384, evenly spread
        mixed[b] = 1 + (int32_t)((int64_t)(MIXED_LONGEST - 1) * b / (MIXED - 1));
        sum += mixed[b];
    }
    for (int b = 0; b < MIXED; b++) {
        equal[b] = (int32_t)(sum / MIXED);
    }
    report_section("Mixed lengths: 64 sequences of 1 to 16,384 keys, page 16, shuffled");
    table_begin(&table, "paged_mma|median [p10, p90]|GB/s|of equal lengths|output");
    bool passed = mixed_row(show, &table, "equal lengths", equal, &rate);
    passed = mixed_row(show, &table, "mixed lengths", mixed, &rate) && passed;
    table_print(&table);
    return passed;
}

bool show_times(const Show *show) {
    const Options *options = show->options;
    AttnShape shape = options->shape_given ? options->shape : show_problem;
    const DType dtype =
        options->shape_given || options->dtype != DTYPE_F32 ? options->dtype : DTYPE_BF16;
    if (lesson_flops(&shape) == 0) {
        report_section("Time");
        report_text("Not measured: no query of this problem sees a key.");
        return true;
    }
    int32_t *lens = calloc((size_t)shape.batch, sizeof(*lens));
    if (lens == NULL) {
        lesson_require(show->program, attn_fail(ATTN_ERR_MEMORY, "no memory for lengths"));
        return false;
    }
    for (int64_t b = 0; b < shape.batch; b++) {
        lens[b] = (int32_t)shape.len_kv;
    }
    shape.kv_lens = lens;
    bool passed = show_sizes(show, &shape, dtype);
    free(lens);
    if (!options->shape_given && !options->quick) {
        passed = show_mixed(show) && passed;
    }
    report_text("%d timed runs each, by events, over batches of one pool that take turns. "
                "Contiguous: one page a sequence, by the same kernel; over: its time. GB/s: K and "
                "V once, by the median. Of each last output some heads were compared with the "
                "oracle.",
                options->repeats);
    return passed;
}
