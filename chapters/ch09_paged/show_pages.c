// ./ch09, pages by hand: a small pool whose keys say whose they are, a table walked key by key, a
// fork followed step by step; and what forks of a common prompt save, counted in the pool.
#include "chapters/ch09_paged/show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// A small pool. The keys of token t of sequence s are all 100 s + t.
enum { PAGES = 8, PAGE = 4, HEADS = 2, DIM = 8, MOST = 16, TEXT = 64 };

typedef struct Small {
    const Show *show;
    BlockPool *pool;
    int64_t sequence[2]; // A and B; -1: not open
    void *tokens;        // [HEADS][MOST][DIM] in the target's memory
    bool passed;
} Small;

static void small_make(Small *small, const Show *show) {
    const PageLayout layout = {PAGE, HEADS, DIM, DTYPE_F32};
    *small = (Small){.show = show, .sequence = {-1, -1}, .passed = true};
    lesson_require(show->program,
                   block_pool_make(&small->pool, show->target, &layout, PAGES, PAGES));
    lesson_require(show->program, gpu_alloc(show->target, &small->tokens, "new tokens",
                                            (size_t)HEADS * MOST * DIM, sizeof(float)));
}

static void small_free(Small *small) {
    gpu_free(small->show->target, small->tokens);
    block_pool_free(small->pool);
}

// Appends `count` tokens to sequence s, called by its letter and their positions.
static void small_append(Small *small, int s, int64_t count) {
    float values[HEADS * MOST * DIM];
    const Program *program = small->show->program;
    const int64_t first = block_pool_length(small->pool, small->sequence[s]);
    for (int64_t i = 0; i < HEADS * count * DIM; i++) {
        values[i] = (float)(100 * s + first + i / DIM % count);
    }
    lesson_require(program, gpu_upload(small->show->target, small->tokens, values,
                                       (size_t)(HEADS * count * DIM) * sizeof(float)));
    lesson_require(program, block_pool_append(small->pool, small->sequence[s], count, small->tokens,
                                              small->tokens, NULL));
}

// The number that lies at an element offset of K.
static float small_key(const Small *small, int64_t offset) {
    float value;
    lesson_require(small->show->program,
                   gpu_download(small->show->target, &value,
                                (const float *)block_pool_k(small->pool) + offset, sizeof value));
    return value;
}

// "A3" for a key's number, ".." for a slot that nothing was written to.
static const char *key_name(char text[8], float value) {
    if (isnan(value)) {
        snprintf(text, 8, "..");
    } else {
        snprintf(text, 8, "%c%d", 'A' + (int)value / 100, (int)value % 100);
    }
    return text;
}

// ---- what it looks like -------------------------------------------------------------------------

// "0 3 1", a sequence's table; "-" without one.
static const char *table_text(char text[TEXT], const Small *small, int s) {
    const int64_t length = block_pool_length(small->pool, small->sequence[s]);
    const int32_t *table = block_pool_table(small->pool, small->sequence[s]);
    size_t used = 0;
    snprintf(text, TEXT, "-");
    for (int64_t i = 0; i < page_lookups(length, PAGE) && used < TEXT - 8; i++) {
        used += (size_t)snprintf(text + used, TEXT - used, "%s%d", i > 0 ? " " : "", table[i]);
    }
    return text;
}

static void draw_pages(const Small *small) {
    const PageLayout *layout = block_pool_layout(small->pool);
    Table table;
    table_begin(&table, "page|slot 0|slot 1|slot 2|slot 3|references");
    for (int64_t page = 0; page < PAGES; page++) {
        char keys[PAGE][8];
        for (int64_t slot = 0; slot < PAGE; slot++) {
            key_name(keys[slot], small_key(small, page_offset(layout, page, 0, slot)));
        }
        const int64_t references = block_pool_references(small->pool, page);
        table_row(&table, "%lld|%s|%s|%s|%s|%lld%s", (long long)page, keys[0], keys[1], keys[2],
                  keys[3], (long long)references, references == 0 ? ", free" : "");
    }
    table_print(&table);
}

// ---- the walk -----------------------------------------------------------------------------------

// Token t of sequence s: where it lies, by the formula, and what is found there.
static void walk_row(Small *small, Table *table, int s, int64_t token, float expected) {
    const PageLayout *layout = block_pool_layout(small->pool);
    const int64_t column = token / PAGE, slot = token % PAGE;
    const int64_t page = block_pool_table(small->pool, small->sequence[s])[column];
    const int64_t offset = page_offset(layout, page, 1, slot);
    const float value = small_key(small, offset);
    char name[8];
    table_row(table, "%c%lld|%lld / 4 = %lld|%lld %% 4 = %lld|%lld|((%lldx2+1)x4+%lld)x8 = %lld|%s",
              'A' + s, (long long)token, (long long)token, (long long)column, (long long)token,
              (long long)slot, (long long)page, (long long)page, (long long)slot, (long long)offset,
              key_name(name, value));
    small->passed = small->passed && value == expected;
}

bool show_walk(const Show *show) {
    Small small;
    Table table;
    char a[TEXT], b[TEXT];
    small_make(&small, show);
    for (int s = 0; s < 2; s++) {
        lesson_require(show->program, block_pool_open(small.pool, &small.sequence[s]));
    }
    small_append(&small, 0, 6); // in turns, so that their pages alternate
    small_append(&small, 1, 3);
    small_append(&small, 0, 4);
    small_append(&small, 1, 2);
    report_section("A table walked: 8 pages of 4 tokens, 2 KV heads, d = 8");
    draw_pages(&small);
    report_text("A has 10 tokens, table %s. B has 5, table %s. Named is what the keys of head 0 "
                "say; .. was never written.",
                table_text(a, &small, 0), table_text(b, &small, 1));
    table_begin(&table, "token|column|slot|page|offset of head 1's key|there");
    static const int tokens[][2] = {{0, 0}, {0, 5}, {0, 9}, {1, 2}, {1, 4}};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        const int s = tokens[i][0], token = tokens[i][1];
        walk_row(&small, &table, s, token, (float)(100 * s + token));
    }
    table_print(&table);
    report_text("page = table[column]; offset = ((page heads_kv + head) page_size + slot) d, in 64 "
                "bits.");
    if (!small.passed) {
        report_text("FAILED: a key is not where its table says.");
    }
    small_free(&small);
    return small.passed;
}

// ---- a fork -------------------------------------------------------------------------------------

static void fork_row(Small *small, Table *table, const char *what, const char *why) {
    char a[TEXT], b[TEXT];
    const bool agrees = block_pool_check(small->pool) == ATTN_OK;
    table_row(table, "%s|%s|%s|%lld|%s", what, table_text(a, small, 0), table_text(b, small, 1),
              (long long)block_pool_free_pages(small->pool), agrees ? why : "DISAGREES");
    small->passed = small->passed && agrees;
}

bool show_fork(const Show *show) {
    const Program *program = show->program;
    Small small;
    Table table;
    small_make(&small, show);
    report_section("A fork, step by step");
    table_begin(&table, "step|A's table|B's table|free|");
    lesson_require(program, block_pool_open(small.pool, &small.sequence[0]));
    small_append(&small, 0, 6);
    fork_row(&small, &table, "A: append 6 tokens", "");
    lesson_require(program, block_pool_fork(small.pool, small.sequence[0], &small.sequence[1]));
    fork_row(&small, &table, "B = fork of A", "nothing is copied");
    small_append(&small, 1, 1);
    fork_row(&small, &table, "B: append 1", "1 is shared: copied to 2");
    small_append(&small, 0, 2);
    fork_row(&small, &table, "A: append 2", "1 is A's alone: in place");
    small_append(&small, 0, 1);
    fork_row(&small, &table, "A: append 1", "1 is full");
    lesson_require(program, block_pool_truncate(small.pool, small.sequence[1], 4));
    fork_row(&small, &table, "B: truncate to 4", "0 is shared, 2 was B's");
    lesson_require(program, block_pool_close(small.pool, small.sequence[0]));
    small.sequence[0] = -1;
    fork_row(&small, &table, "A: close", "0 is B's alone");
    table_print(&table);
    draw_pages(&small);
    report_text("The pages at the end. Freed ones keep what they held until they are written "
                "again, which no kernel may see. After each step the pool's references, free list "
                "and tables were compared (block_pool_check)%s.",
                small.passed ? "; they agree" : ": they DISAGREE");
    small_free(&small);
    return small.passed;
}

// ---- common prompts -----------------------------------------------------------------------------

enum { FORKS = 8, PROMPT = 1000, OWN = 200 };

// Pages of FORKS sequences that share a prompt, counted in a pool.
static int64_t counted_pages(const Show *show, int64_t page) {
    const PageLayout layout = {page, 1, 1, DTYPE_F32};
    const Program *program = show->program;
    const int64_t pages = pages_apart(FORKS, PROMPT, OWN, page);
    int64_t sequence[FORKS];
    BlockPool *pool;
    void *zero;
    lesson_require(program, block_pool_make(&pool, show->target, &layout, pages, FORKS));
    lesson_require(program, gpu_alloc(show->target, &zero, "tokens", PROMPT, sizeof(float)));
    lesson_require(program, gpu_fill(show->target, zero, 0, PROMPT * sizeof(float), NULL));
    lesson_require(program, block_pool_open(pool, &sequence[0]));
    lesson_require(program, block_pool_append(pool, sequence[0], PROMPT, zero, zero, NULL));
    for (int f = 1; f < FORKS; f++) {
        lesson_require(program, block_pool_fork(pool, sequence[0], &sequence[f]));
    }
    for (int f = 0; f < FORKS; f++) {
        lesson_require(program, block_pool_append(pool, sequence[f], OWN, zero, zero, NULL));
    }
    lesson_require(program, block_pool_check(pool));
    const int64_t used = pages - block_pool_free_pages(pool);
    gpu_free(show->target, zero);
    block_pool_free(pool);
    return used;
}

bool show_prefix(const Show *show) {
    static const int64_t sizes[] = {1, 8, 16, 64, 256};
    bool passed = true;
    char heading[96], a[32];
    Table table;
    snprintf(heading, sizeof heading,
             "A common prompt: %d sequences, %s tokens in common, %d of their own", FORKS,
             format_count(a, PROMPT), OWN);
    report_section(heading);
    table_begin(&table, "page|pages apart|forked|model|copied|slots apart|forked|saved");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const int64_t page = sizes[i];
        const int64_t apart = pages_apart(FORKS, PROMPT, OWN, page);
        const int64_t model = pages_forked(FORKS, PROMPT, OWN, page);
        const int64_t counted = counted_pages(show, page);
        char b[32], c[32], d[32];
        table_row(&table, "%lld|%s|%s|%s|%lld|%s|%s|%.0f %%", (long long)page,
                  format_count(a, (double)apart), format_count(b, (double)counted),
                  counted == model ? "equal" : "DIFFERS",
                  (long long)pages_copied(FORKS, PROMPT, OWN, page),
                  format_count(c, (double)(apart * page)),
                  format_count(d, (double)(counted * page)),
                  100 - 100.0 * (double)counted / (double)apart);
        csv_row(show->csv, "prefix,forked,%lld,%lld,0,0", (long long)page,
                (long long)counted * page);
        csv_row(show->csv, "prefix,apart,%lld,%lld,0,0", (long long)page, (long long)apart * page);
        passed = passed && counted == model;
    }
    table_print(&table);
    report_text("Forked: counted in a pool. Only full pages of the prompt stay shared; where it "
                "ends within a page, each sequence that goes on copies that page, but for the "
                "last, which has it alone by then.");
    return passed;
}
