// The suite of lab 3, a prefix cache: blocks, prompts and evictions by hand, then thousands of
// random operations against the model.
#include "tests/grade/ch09/cache_model.h"

const char grade_title[] = "a prefix cache";

// ---- finding ------------------------------------------------------------------------------------

// One bucket, with the blocks AB, CD, AB after CD, AB after AB, AC.
static void test_find(void) {
    const struct {
        int32_t parent;
        const char *text;
    } blocks[] = {{NO_PAGE, "AB"}, {NO_PAGE, "CD"}, {1, "AB"}, {0, "AB"}, {NO_PAGE, "AC"}};
    Fixture *f = make_fixture(2, 8, 1);
    for (int32_t page = 0; page < 5; page++) {
        f->cache.blocks[page] = (CachedBlock){true, blocks[page].parent, 0, f->cache.buckets[0], 1};
        f->cache.buckets[0] = page;
        for (int i = 0; i < 2; i++) {
            f->cache.tokens[page * 2 + i] = (unsigned char)blocks[page].text[i];
        }
    }
    for (int32_t page = 0; page < 5; page++) {
        const Prompt p = prompt_of(blocks[page].text);
        grade_case("\"%s\" after page %d", blocks[page].text, blocks[page].parent);
        expect_int("page", cache_find(&f->cache, blocks[page].parent, p.tokens), page);
    }
    grade_case("blocks that are not there");
    expect_int("\"AD\" after nothing", cache_find(&f->cache, NO_PAGE, prompt_of("AD").tokens),
               NO_PAGE);
    expect_int("\"CB\" after nothing", cache_find(&f->cache, NO_PAGE, prompt_of("CB").tokens),
               NO_PAGE);
    expect_int("\"CD\" after page 0", cache_find(&f->cache, 0, prompt_of("CD").tokens), NO_PAGE);
    expect_int("\"AB\" after page 4", cache_find(&f->cache, 4, prompt_of("AB").tokens), NO_PAGE);
}

// ---- prompts ------------------------------------------------------------------------------------

static void test_insert_and_look_up(void) {
    Fixture *f = make_fixture(4, 8, 5);
    Prompt p = prompt_of("ABCDEFGHIJKL");
    take_free(f, &p);
    grade_case("blocks of 4: \"ABCDEFGHIJKL\" is inserted");
    insert(f, &p);
    expect_records(f);
    looked_up(f, "ABCDEFGHIJKLM", 3);
    looked_up(f, "ABCDEFGHIJKLMNOPQ", 3);
    looked_up(f, "ABCDEFGHXYZABCD", 2);
    looked_up(f, "EFGHIJKLM", 0);
    looked_up(f, "XYZWABCDEFGHI", 0);
}

static void test_partial_blocks(void) {
    Fixture *f = make_fixture(4, 8, 5);
    Prompt p = prompt_of("ABCDEFG"); // EFG does not fill its page
    take_free(f, &p);
    grade_case("blocks of 4: \"ABCDEFG\" is inserted");
    insert(f, &p);
    expect_records(f);
    looked_up(f, "ABCDEFGHIJ", 1);
    looked_up(f, "ABCDEF", 1);
    looked_up(f, "ABCXEFGH", 0);
    looked_up(f, "AB", 0);
    Prompt none = prompt_of("XYZ");
    take_free(f, &none);
    grade_case("blocks of 4: \"XYZ\" is inserted");
    insert(f, &none);
    expect_records(f);
}

static void test_one_token_left(void) {
    Fixture *f = make_fixture(4, 8, 5);
    insert_and_go(f, "ABCDEFGH");
    looked_up(f, "ABCDEFGHI", 2);
    looked_up(f, "ABCDEFGH", 1);
    looked_up(f, "ABCD", 0);
    Fixture *one = make_fixture(1, 8, 5);
    insert_and_go(one, "ABC");
    looked_up(one, "ABC", 2);
    looked_up(one, "A", 0);
}

// The same tokens after others are another block.
static void test_same_tokens(void) {
    Fixture *f = make_fixture(2, 16, 3);
    grade_case("blocks of 2: \"ABABAB\", \"CDAB\", \"EFAB\" are inserted");
    insert_and_go(f, "ABABAB");
    insert_and_go(f, "CDAB");
    insert_and_go(f, "EFAB");
    expect_records(f);
    looked_up(f, "ABABABA", 3);
    looked_up(f, "CDABX", 2);
    looked_up(f, "EFABX", 2);
    looked_up(f, "CDEFAB", 1);
}

static void test_references(void) {
    Fixture *f = make_fixture(4, 8, 5);
    Prompt first = prompt_of("ABCDEFGHI");
    take_free(f, &first);
    insert(f, &first);
    Prompt second = looked_up(f, "ABCDEFGHXY", 2);
    Prompt third = looked_up(f, "ABCDX", 1);
    grade_case("three sequences hold \"ABCD\", and all go; the cache keeps it");
    release(f, &first);
    expect_records(f);
    release(f, &third);
    release(f, &second);
    expect_records(f);
    looked_up(f, "ABCDEFGHI", 2);
}

// Two sequences computed the same prompt at the same time, each in pages of its own.
static void test_computed_twice(void) {
    Fixture *f = make_fixture(2, 16, 3);
    Prompt a = prompt_of("ABCDEF"), b = prompt_of("ABCDXYZW");
    take_free(f, &a);
    take_free(f, &b);
    grade_case("blocks of 2: \"ABCDEF\" in pages 0 to 2, then \"ABCDXYZW\" in pages 3 to 6");
    insert(f, &a);
    insert(f, &b);
    expect_records(f);
    release(f, &b);
    expect_records(f);
    looked_up(f, "ABCDXYZWA", 4);
    release(f, &a);
    grade_case("blocks of 2: \"ABCDEF\" once more");
    insert_and_go(f, "ABCDEF");
    expect_records(f);
}

// ---- eviction -----------------------------------------------------------------------------------

static void expect_evicted(Fixture *f, int32_t page, const char *why) {
    grade_case("an eviction: %s", why);
    if (model_victim(f) != page) {
        grade_fail("the suite's model disagrees: page %d", model_victim(f));
    }
    if (page != NO_PAGE) {
        model_evict(f, page);
    }
    expect_int("evicted page", cache_evict(&f->cache), page);
    expect_records(f);
}

static void test_evict_oldest(void) {
    Fixture *f = make_fixture(2, 8, 3);
    insert_and_go(f, "AB"); // page 0; it is free again, but for the cache
    insert_and_go(f, "CD"); // page 1
    insert_and_go(f, "EF"); // page 2
    expect_evicted(f, 0, "AB, CD, EF were inserted in this order");
    Prompt p = looked_up(f, "CDX", 1);
    release(f, &p);
    expect_evicted(f, 2, "CD has been used since EF was inserted");
    expect_evicted(f, 1, "CD alone is left");
    expect_evicted(f, NO_PAGE, "nothing is cached");
    looked_up(f, "CDX", 0);
}

static void test_leaves_first(void) {
    Fixture *f = make_fixture(2, 8, 3);
    insert_and_go(f, "ABCDEF"); // pages 0, 1, 2
    insert_and_go(f, "GH");     // page 3
    insert_and_go(f, "ABXY");   // page 5; AB is cached already
    expect_evicted(f, 2, "EF, after ABCD: its parents come later");
    expect_evicted(f, 1, "CD, after AB, a leaf now");
    expect_evicted(f, 3, "GH is older than XY after AB");
    looked_up(f, "ABCDEFG", 1);
    grade_case("AB is in use, XY is its only child");
    expect_evicted(f, model_victim(f), "XY after AB");
}

static void test_in_use(void) {
    Fixture *f = make_fixture(2, 8, 3);
    insert_and_go(f, "ABCD"); // pages 0, 1
    insert_and_go(f, "EF");   // page 2
    Prompt p = looked_up(f, "ABCDX", 2);
    Prompt q = looked_up(f, "EFX", 1);
    expect_evicted(f, NO_PAGE, "sequences hold all that is cached");
    release(f, &q);
    expect_evicted(f, 2, "nobody holds EF any more");
    expect_evicted(f, NO_PAGE, "a sequence holds AB and CD");
    release(f, &p);
    expect_evicted(f, 1, "CD, which nobody holds any more");
}

// An evicted block is gone, its page may become another one, and its parent is a leaf again.
static void test_evicted_is_gone(void) {
    Fixture *f = make_fixture(2, 3, 1);
    insert_and_go(f, "ABCDEF");
    expect_evicted(f, 2, "EF after ABCD");
    looked_up(f, "ABCDEFG", 2);
    grade_case("the free page becomes GH after ABCD");
    Prompt p = prompt_of("ABCDGH");
    p.table[0] = 0;
    p.table[1] = 1;
    p.pages = 2;
    take_free(f, &p);
    insert(f, &p);
    expect_records(f);
    pool_release(&f->pool, p.table[2]);
    f->references[p.table[2]]--;
    looked_up(f, "ABCDEFG", 2);
    looked_up(f, "ABCDGHI", 3);
}

// ---- pages for a sequence -----------------------------------------------------------------------

// Takes pages and checks that they are those that were free or had to be evicted.
static void take(Fixture *f, int64_t count, int32_t *pages) {
    bool taken[MODEL_PAGES] = {false};
    char what[64];
    const int64_t missing = count - f->pool.free;
    for (int64_t i = 0; i < missing; i++) {
        model_evict(f, model_victim(f));
    }
    const AttnStatus status = cache_take(&f->cache, count, pages);
    if (status != ATTN_OK) {
        grade_fail("status: got %s (%s), expected ATTN_OK", attn_status_name(status),
                   attn_last_error());
    }
    for (int64_t i = 0; i < count; i++) {
        const int32_t page = pages[i];
        snprintf(what, sizeof(what), "pages[%lld]", (long long)i);
        if (page < 0 || page >= f->pool.pages) {
            grade_fail("%s: got %d, expected a page", what, page);
        } else if (taken[page] || f->references[page] != 0) {
            grade_fail("%s: got page %d, which %s", what, page,
                       taken[page] ? "was handed out already" : "somebody holds");
        }
        taken[page] = true;
    }
    for (int64_t i = 0; i < count; i++) {
        f->references[pages[i]] = 1;
    }
    expect_records(f);
}

static void test_take(void) {
    Fixture *f = make_fixture(2, 6, 3);
    int32_t pages[8];
    insert_and_go(f, "ABCD");
    insert_and_go(f, "EF");
    grade_case("3 of 6 pages are free, 3 are cached: 2 pages");
    take(f, 2, pages);
    grade_case("1 page is free, 3 are cached: 3 pages, two of them evicted");
    take(f, 3, pages);
    grade_case("no page is free: none is asked for");
    take(f, 0, pages);
    grade_case("no page is free, 1 is cached: 1 page");
    take(f, 1, pages);
}

static void expect_no_pages(Fixture *f, int64_t count) {
    int32_t pages[MODEL_PAGES];
    const AttnStatus status = cache_take(&f->cache, count, pages);
    if (status != ATTN_ERR_MEMORY) {
        grade_fail("status: got %s, expected ATTN_ERR_MEMORY", attn_status_name(status));
    }
    if (!grade_has_number(attn_last_error(), count)) {
        grade_fail("message: got \"%s\", expected one with %lld in it", attn_last_error(),
                   (long long)count);
    }
    for (int32_t page = 0; page < f->pool.pages; page++) { // evicted or not: both are right
        if (f->model[page].cached && !f->cache.blocks[page].cached && f->references[page] == 1) {
            model_evict(f, page);
        }
    }
    expect_records(f);
}

static void test_take_too_many(void) {
    Fixture *f = make_fixture(2, 40, 3);
    insert_and_go(f, "ABCDEFGH");
    Prompt p = looked_up(f, "ABCDX", 2);
    take_free(f, &p);
    grade_case("35 of 40 pages are free, 2 can be evicted, 3 are in use: 38 pages");
    expect_no_pages(f, 38);
    grade_case("the same, and 39 pages");
    expect_no_pages(f, 39);
    looked_up(f, "ABCDEFGHI", 2 + (f->model[2].cached ? 1 : 0) + (f->model[3].cached ? 1 : 0));
}

static void test_nothing_to_evict(void) {
    Fixture *f = make_fixture(2, 4, 3);
    Prompt p = prompt_of("ABCDEFG");
    take_free(f, &p);
    expect_evicted(f, NO_PAGE, "four pages in use, none cached");
    grade_case("\"ABCDEFG\" is in use and cached, with one page that is not full: 1 page");
    insert(f, &p);
    expect_no_pages(f, 1);
}

// ---- random operations --------------------------------------------------------------------------

enum { SEQUENCES = 6, ROUNDS = 8, STEPS = 1500 };

// A prompt comes: what is cached of it, pages for the rest, and what was computed is inserted.
static void begin_sequence(Fixture *f, Prompt *p, uint64_t seed) {
    int32_t more[MODEL_TOKENS];
    *p = random_prompt(seed);
    lookup(f, p);
    expect_records(f);
    const int64_t missing = (p->count + f->pool.page_size - 1) / f->pool.page_size - p->pages;
    Fixture left = *f; // for the model alone: what could be had
    int64_t most = f->pool.free;
    for (int32_t victim = model_victim(&left); victim != NO_PAGE; victim = model_victim(&left)) {
        model_evict(&left, victim);
        most++;
    }
    if (missing > most) {
        expect_no_pages(f, missing);
        release(f, p);
        p->count = 0;
        return;
    }
    take(f, missing, more);
    memcpy(p->table + p->pages, more, (size_t)missing * sizeof(int32_t));
    p->pages += missing;
    if (seed % 3 > 0) {
        insert(f, p);
        expect_records(f);
    }
}

static void random_step(Fixture *f, Prompt *p, uint64_t seed, uint64_t prompt_seed) {
    if (p->count == 0) {
        begin_sequence(f, p, prompt_seed);
    } else if (seed / 11 % 4 == 0) {
        insert(f, p);
    } else {
        release(f, p);
        p->count = 0;
    }
    expect_records(f);
}

static void test_random_operations(void) {
    uint64_t state = grade_seed(1);
    for (int round = 0; round < ROUNDS; round++) {
        Fixture *f = make_fixture(1 + round / 2, 18 - round, 1 + round);
        Prompt sequences[SEQUENCES] = {{0}};
        for (int step = 0; step < STEPS; step++) {
            const uint64_t seed = next_random(&state);
            grade_case("random operations, blocks of %d, %d pages: step %d", f->pool.page_size,
                       f->pool.pages, step);
            random_step(f, &sequences[seed % SEQUENCES], seed, next_random(&state));
        }
    }
}

const GradeTest grade_tests[] = {
    {"find", 1, false, test_find,
     "Go along the bucket by `next`; a block is the right one when its parent and all of its "
     "tokens are the same."},
    {"insert_and_look_up", 2, false, test_insert_and_look_up,
     "Each block found is the parent of the one looked for next; the first one that is missing "
     "ends the walk."},
    {"partial_blocks", 1, false, test_partial_blocks,
     "A page that is not full will be written to: it is neither cached nor found. Do not look "
     "behind the prompt's last token."},
    {"one_token_left", 1, false, test_one_token_left,
     "If all tokens came from the cache, the model would have no query to run: at most count - 1 "
     "tokens may be found."},
    {"same_tokens", 1, false, test_same_tokens,
     "K and V of a token depend on all tokens before it: the same tokens after another parent are "
     "another block."},
    {"references", 2, false, test_references,
     "A lookup adds one reference for the sequence, an insert one for the cache: the sequence "
     "gives only its own ones back."},
    {"computed_twice", 1, false, test_computed_twice,
     "A block that is cached stays the page it is, and takes no second reference. The parent of "
     "the next block is the cached page, not the sequence's own."},
    {"evict_oldest", 2, false, test_evict_oldest,
     "The smallest last_use goes first; lookups and inserts set it to the clock. The cache's "
     "reference is given back, so that the page is free."},
    {"leaves_first", 1, false, test_leaves_first,
     "A block with cached children must stay: without it nobody finds them. `children` is counted "
     "up in the insert, down in the eviction."},
    {"in_use", 1, false, test_in_use,
     "The cache holds one reference itself. A block with more is in use."},
    {"evicted_is_gone", 1, false, test_evicted_is_gone,
     "An evicted page is not cached any more, and its parent has one child less."},
    {"take", 2, false, test_take,
     "Free pages first; evict only as many as are missing, and take what became free."},
    {"random_operations", 2, false, test_random_operations,
     "The other tests have each of these cases alone; TEST=name shows one."},
    {"take_too_many", 1, true, test_take_too_many,
     "The pages that were taken before it became clear go back to the pool."},
    {"nothing_to_evict", 1, true, test_nothing_to_evict,
     "Pages that sequences hold are not the cache's to give."},
    {NULL, 0, false, NULL, NULL, NULL},
};
