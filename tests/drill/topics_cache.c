// The KV cache of a model (chapter 8) and its pages (chapter 9). The formulas are those of the
// chapters' cards.h.
#include "tests/drill/drill.h"

#include <math.h>

static const int64_t kv_heads[] = {1, 2, 4, 8, 16};
static const int64_t dims[] = {64, 128, 256};
static const int64_t page_sizes[] = {16, 32, 64, 128, 256};

// ---- bytes per token and per step ---------------------------------------------------------------

typedef struct Cache {
    double layers, heads, dim, bytes;
    const char *type;
    double token; // bytes of K and V of one token in all layers: 2 layers heads dim bytes
} Cache;

static Cache draw_cache(Draw *draw) {
    Cache cache = {0};
    cache.layers =
        (double)draw_one_of(draw, "layers", (const int64_t[]){16, 24, 28, 32, 40, 48, 64, 80}, 8);
    cache.heads = (double)draw_one_of(draw, "kv heads", kv_heads, 5);
    cache.dim = (double)draw_one_of(draw, "d", dims, 2);
    const int64_t bytes = draw_one_of(draw, "bytes", (const int64_t[]){1, 2, 2, 2, 4}, 5);
    cache.bytes = (double)bytes;
    cache.type = type_name(bytes);
    cache.token = 2 * cache.layers * cache.heads * cache.dim * cache.bytes;
    return cache;
}

static void ask_cache(Question *question, const Cache *cache) {
    ask(question, "A model of %.0f layers, %.0f KV head%s, d = %.0f, %s cache. ", cache->layers,
        cache->heads, cache->heads == 1 ? "" : "s", cache->dim, cache->type);
}

static void reason_token(Question *question, const Cache *cache) {
    char text[NUMBER_BYTES];
    reason(
        question,
        "A token: 2 (K and V) x layers x KV heads x d x bytes = 2 x %.0f x %.0f x %.0f x %.0f B = "
        "%s KiB.",
        cache->layers, cache->heads, cache->dim, cache->bytes,
        format_number(text, cache->token / 1024));
}

static void kv_token(Question *question, Draw *draw) {
    const Cache cache = draw_cache(draw);
    ask_cache(question, &cache);
    ask(question, "How many bytes of keys and values does one token take?");
    reason(question, "2 (K and V) x layers x KV heads x d x bytes of an element.");
    reason(question, "2 x %.0f x %.0f x %.0f x %.0f = %.0f bytes.", cache.layers, cache.heads,
           cache.dim, cache.bytes, cache.token);
    expect_mistake(question, cache.token / 2, "That is half: K alone, or half of the bytes.");
    expect_mistake(question, cache.token / cache.layers, "That is one layer.");
    expect_mistake(question, cache.token / cache.heads, "That is one head.");
    expect_mistake(question, cache.token / cache.bytes, "That is elements, not bytes.");
    answer_near(question, cache.token, bytes_unit(cache.token));
}

// A batch of sequences of the same length.
typedef struct Load {
    double batch, tokens;
    double bytes;
} Load;

static Load draw_load(Draw *draw, const Cache *cache) {
    Load load = {0};
    load.batch = (double)draw_power(draw, "batch", 0, 6);
    load.tokens = (double)draw_power(draw, "tokens", 11, 15);
    load.bytes = load.batch * load.tokens * cache->token;
    return load;
}

static void kv_cache(Question *question, Draw *draw) {
    const Cache cache = draw_cache(draw);
    const Load load = draw_load(draw, &cache);
    ask_cache(question, &cache);
    ask(question, "How large is the cache of %.0f sequence%s of %.0f tokens%s?", load.batch,
        load.batch == 1 ? "" : "s", load.tokens, load.batch == 1 ? "" : " each");
    reason_token(question, &cache);
    reason(question, "Times %.0f x %.0f tokens.", load.batch, load.tokens);
    expect_mistake(question, load.bytes / 2, "That is half: K alone, or half of the bytes.");
    expect_mistake(question, load.bytes / cache.layers, "That is one layer.");
    expect_mistake(question, load.bytes / load.batch, "That is one sequence.");
    answer_near(question, load.bytes, bytes_unit(load.bytes));
}

static void kv_ungrouped(Question *question, Draw *draw) {
    const Cache cache = draw_cache(draw);
    const double group = (double)draw_one_of(draw, "group", (const int64_t[]){2, 4, 7, 8}, 4);
    const double gpus = (double)draw_one_of(draw, "GPUs", (const int64_t[]){2, 4, 8}, 3);
    const Load load = draw_load(draw, &cache);
    const double bytes = group * load.bytes / gpus;
    ask_cache(question, &cache);
    ask(question,
        "It has %.0f query heads. If each had keys and values of its own, how large would the "
        "cache "
        "of %.0f sequence%s of %.0f tokens be on each of %.0f GPUs that share it evenly?",
        group * cache.heads, load.batch, load.batch == 1 ? "" : "s", load.tokens, gpus);
    reason_token(question, &cache);
    reason(question, "With %.0f heads in place of %.0f: %.0f times as much.", group * cache.heads,
           cache.heads, group);
    reason(question, "Times %.0f x %.0f tokens, divided by %.0f GPUs.", load.batch, load.tokens,
           gpus);
    expect_mistake(question, load.bytes / gpus, "That is the grouped cache.");
    expect_mistake(question, group * load.bytes, "That is all GPUs together.");
    answer_near(question, bytes, bytes_unit(bytes));
}

static void kv_step_time(Question *question, Draw *draw) {
    char text[NUMBER_BYTES], rate_text[NUMBER_BYTES];
    const Cache cache = draw_cache(draw);
    const Load load = draw_load(draw, &cache);
    const double rate =
        1e9 * (double)draw_one_of(draw, "GB/s", (const int64_t[]){1000, 2000, 3350, 4000}, 4);
    const double seconds = load.bytes / rate;
    ask_cache(question, &cache);
    ask(question,
        "A decode step of %.0f sequence%s with %.0f tokens in the cache%s reads all of it once. "
        "How "
        "long does that take at least at %s TB/s (1 TB = 10^12 B)?",
        load.batch, load.batch == 1 ? "" : "s", load.tokens, load.batch == 1 ? "" : " each",
        format_number(rate_text, rate / 1e12));
    reason_token(question, &cache);
    reason(question, "Times %.0f x %.0f tokens: %s GB.", load.batch, load.tokens,
           format_number(text, load.bytes / 1e9));
    reason(question, "Divided by %.0f GB/s.", rate / 1e9);
    expect_mistake(question, seconds / 2, "That is half: K alone, or half of the bytes.");
    expect_mistake(question, seconds / cache.layers, "That is one layer.");
    expect_mistake(question, seconds / 1.073741824, "GiB were divided by GB/s: 1 GiB is 1.074 GB.");
    answer_near(question, seconds, seconds < 1e-3 ? "us" : "ms");
}

static void kv_step_written(Question *question, Draw *draw) {
    const Cache cache = draw_cache(draw);
    const double batch = (double)draw_power(draw, "batch", 0, 8);
    ask_cache(question, &cache);
    if (batch == 1) {
        ask(question,
            "A decode step makes one new token. How many bytes does it add to the cache?");
    } else {
        ask(question,
            "A decode step makes one new token for each of %.0f sequences. How many bytes does it "
            "add to the cache?",
            batch);
    }
    reason_token(question, &cache);
    reason(question, "One token of each sequence: times %.0f.", batch);
    expect_mistake(question, batch * cache.token / 2,
                   "That is half: K alone, or half of the bytes.");
    expect_mistake(question, batch * cache.token / cache.layers, "That is one layer.");
    expect_mistake(question, cache.token, "That is one sequence.");
    answer_near(question, batch * cache.token, bytes_unit(batch * cache.token));
}

static void kv_fits(Question *question, Draw *draw) {
    const Cache cache = draw_cache(draw);
    const double room = (double)draw_one_of(draw, "GiB", (const int64_t[]){8, 16, 20, 40, 64}, 5);
    const double tokens = room * 1073741824 / cache.token;
    ask_cache(question, &cache);
    ask(question, "About how many tokens of all sequences together fit into %.0f GiB?", room);
    reason_token(question, &cache);
    reason(question, "%.0f GiB = %.0f KiB, divided by that.", room, room * 1048576);
    expect_mistake(question, tokens * 2, "That is double: K and V, both with all their bytes.");
    expect_mistake(question, tokens * cache.layers, "That is with one layer.");
    expect_mistake(question, tokens * cache.heads, "That is with one head.");
    answer_near(question, tokens, "tokens");
}

const Topic kv_topic = {"kv",
                        "KV bytes per token and per step",
                        "chapters/ch08_gqa",
                        {kv_token, kv_cache, kv_ungrouped, kv_step_time, kv_step_written, kv_fits}};

// ---- blocks and tables --------------------------------------------------------------------------

typedef struct Page {
    double tokens, heads, dim, bytes;
    const char *type;
    double size; // bytes of K and V in one layer: 2 heads tokens dim bytes
} Page;

static Page draw_page(Draw *draw) {
    Page page = {0};
    page.tokens = (double)draw_one_of(draw, "page", page_sizes, 5);
    page.heads = (double)draw_one_of(draw, "kv heads", kv_heads, 5);
    page.dim = (double)draw_one_of(draw, "d", dims, 3);
    const int64_t bytes = draw_one_of(draw, "bytes", (const int64_t[]){1, 2, 2, 4}, 4);
    page.bytes = (double)bytes;
    page.type = type_name(bytes);
    page.size = 2 * page.heads * page.tokens * page.dim * page.bytes;
    return page;
}

static void ask_page(Question *question, const Page *page) {
    ask(question, "Pages of %.0f tokens, %.0f KV head%s, d = %.0f, %s; one layer. ", page->tokens,
        page->heads, page->heads == 1 ? "" : "s", page->dim, page->type);
}

static void pages_bytes(Question *question, Draw *draw) {
    const Page page = draw_page(draw);
    ask_page(question, &page);
    ask(question, "How many bytes does a page hold, keys and values together?");
    reason(question, "2 (K and V) x KV heads x tokens x d x bytes of an element.");
    reason(question, "2 x %.0f x %.0f x %.0f x %.0f = %.0f bytes.", page.heads, page.tokens,
           page.dim, page.bytes, page.size);
    expect_mistake(question, page.size / 2, "That is half: K alone, or half of the bytes.");
    expect_mistake(question, page.size / page.heads, "That is one head.");
    expect_mistake(question, page.size / page.tokens, "That is one token.");
    expect_mistake(question, page.size / page.bytes, "That is elements, not bytes.");
    answer_near(question, page.size, bytes_unit(page.size));
}

static void pages_table_share(Question *question, Draw *draw) {
    const Page page = draw_page(draw);
    const double share = 100 * 4 / page.size;
    ask_page(question, &page);
    ask(question,
        "The block table has an entry of 4 bytes for each page. How large is it, in percent of the "
        "pages?");
    reason(question, "A page: 2 x %.0f x %.0f x %.0f x %.0f = %.0f bytes.", page.heads, page.tokens,
           page.dim, page.bytes, page.size);
    reason(question, "4 / %.0f, times 100.", page.size);
    expect_mistake(question, 2 * share, "That is double: a page holds K and V.");
    expect_mistake(question, share * page.tokens,
                   "That is an entry for each token: there is one for each page.");
    expect_mistake(question, share * page.heads, "That is a page of one head.");
    answer_near(question, share, "%");
}

static void pages_lookups(Question *question, Draw *draw) {
    const double page = (double)draw_one_of(draw, "page", page_sizes, 5);
    const double keys = 10 * (double)draw_range(draw, "tens of keys", 10, 400);
    ask(question,
        "A sequence of %.0f keys, in pages of %.0f tokens. How many entries of the block table are "
        "needed to find them all?",
        keys, page);
    reason(question, "One for each page: %.0f / %.0f = %.3f, rounded up.", keys, page, keys / page);
    expect_mistake(question, keys, "That is one for each key: a page is found once.");
    expect_mistake(question, floor(keys / page),
                   "That is rounded down: the keys that are left lie in a page too.");
    answer_exactly(question, ceil(keys / page), "entries");
}

static void pages_tile(Question *question, Draw *draw) {
    const double page = (double)draw_one_of(draw, "page", (const int64_t[]){8, 16, 32, 64}, 4);
    const double tile = (double)draw_one_of(draw, "tile", (const int64_t[]){64, 128, 256, 512}, 4);
    ask(question,
        "A kernel works on tiles of %.0f keys; pages have %.0f tokens, and a tile begins with a "
        "page. How many lookups in the block table does a tile take, one a page?",
        tile, page);
    reason(question, "%.0f / %.0f pages.", tile, page);
    expect_mistake(question, tile, "That is one for each key: a page is found once.");
    expect_mistake(question, page, "That is the size of a page.");
    answer_exactly(question, ceil(tile / page), "lookups");
}

static void pages_table_bytes(Question *question, Draw *draw) {
    const double page = (double)draw_one_of(draw, "page", page_sizes, 5);
    double keys[3], entries = 0, sum = 0;
    static const char *const names[] = {"len 1", "len 2", "len 3"};
    for (int i = 0; i < 3; i++) {
        keys[i] = 50 * (double)draw_range(draw, names[i], 1, 80);
        entries += ceil(keys[i] / page);
        sum += keys[i];
    }
    ask(question,
        "Three sequences of %.0f, %.0f and %.0f tokens, in pages of %.0f tokens that no two share. "
        "How many bytes of block table are in use, 4 a page?",
        keys[0], keys[1], keys[2], page);
    reason(question, "Pages, each rounded up: %.0f + %.0f + %.0f = %.0f.", ceil(keys[0] / page),
           ceil(keys[1] / page), ceil(keys[2] / page), entries);
    reason(question, "Times 4 bytes.");
    expect_mistake(question, entries, "That is the number of entries: 4 bytes each.");
    expect_mistake(question, 4 * ceil(sum / page),
                   "Each sequence has its own last page: round up one by one.");
    expect_mistake(question, 4 * sum, "That is an entry for each token: there is one a page.");
    answer_exactly(question, 4 * entries, "B");
}

static void pages_empty_slots(Question *question, Draw *draw) {
    const double page = (double)draw_one_of(draw, "page", page_sizes, 5);
    const double tokens = 10 * (double)draw_range(draw, "tens of tokens", 3, 300);
    const double pages = ceil(tokens / page);
    ask(question,
        "A sequence of %.0f tokens, in pages of %.0f tokens. How many slots of its pages are "
        "empty?",
        tokens, page);
    reason(question, "Pages: %.0f / %.0f, rounded up: %.0f, with %.0f slots.", tokens, page, pages,
           pages * page);
    reason(question, "%.0f - %.0f.", pages * page, tokens);
    if (pages * page > tokens) {
        expect_mistake(question, tokens - (pages - 1) * page,
                       "That is how many slots of the last page are in use.");
    } else {
        expect_mistake(question, page, "The last page is just full.");
    }
    answer_exactly(question, pages * page - tokens, "slots");
}

static void pages_shared(Question *question, Draw *draw) {
    const double page = (double)draw_one_of(draw, "page", page_sizes, 3);
    const double prompt = 10 * (double)draw_range(draw, "tens of prompt", 10, 200);
    const double own = 10 * (double)draw_range(draw, "tens of own", 1, 30);
    const double n = (double)draw_power(draw, "sequences", 1, 5);
    const double full = floor(prompt / page);
    const double whole = ceil((prompt + own) / page);
    ask(question,
        "%.0f sequences begin with the same prompt of %.0f tokens and go on with %.0f tokens of "
        "their "
        "own. Pages of %.0f tokens; the full pages of the prompt are shared, all others belong to "
        "one sequence. How many pages are in use?",
        n, prompt, own, page);
    reason(question, "Full pages of the prompt: %.0f / %.0f, rounded down: %.0f, once.", prompt,
           page, full);
    reason(question, "A sequence has %.0f / %.0f, rounded up: %.0f pages; %.0f its own.",
           prompt + own, page, whole, whole - full);
    reason(question, "%.0f + %.0f x %.0f.", full, n, whole - full);
    expect_mistake(question, n * whole, "That is without sharing.");
    expect_mistake(question, ceil(prompt / page) + n * ceil(own / page),
                   "The prompt's last page is not full: each sequence goes on in a copy of it.");
    answer_exactly(question, full + n * (whole - full), "pages");
}

const Topic pages_topic = {"pages",
                           "blocks and tables of a paged cache",
                           "chapters/ch09_paged",
                           {pages_bytes, pages_table_share, pages_lookups, pages_tile,
                            pages_table_bytes, pages_empty_slots, pages_shared}};
