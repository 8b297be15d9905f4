// The suite of lab 3, block sizes: the bytes of the tiles by hand, choices by hand, then many
// budgets against a search over all block sizes.
#include "common/model.h"
#include "exercises/ch04/labs.h"
#include "tests/grade/grade.h"

#include <stdio.h>
#include <string.h>

const char grade_title[] = "block sizes for a cache";

enum { KIB = 1024 };

static const int64_t MIB = INT64_C(1) << 20;

static void set_case(const CacheBudget *c) {
    grade_case("M = %lld bytes, T = %lld, S = %lld, d = %lld, elements of %lld bytes, granule %lld",
               (long long)c->bytes, (long long)c->len_q, (long long)c->len_kv, (long long)c->dim,
               (long long)c->element_size, (long long)c->granule);
}

// ---- bytes of the tiles -------------------------------------------------------------------------

static void test_bytes_of_each_tile(void) {
    const CacheBudget one = {0, 0, 0, 1, 4, 1}, wide = {0, 0, 0, 100, 4, 1};
    grade_case("one query, one key, d = 1, fp32: 1 + 1 + 1 + 1 + 1 + 2 floats");
    expect_int("bytes", tiles_bytes(&one, 1, 1), 28);
    grade_case("10 queries, one key, d = 1: Q, O, scores, m and l grow");
    expect_int("bytes", tiles_bytes(&one, 10, 1), 4 * (10 + 1 + 1 + 10 + 10 + 20));
    grade_case("one query, 10 keys, d = 1: K, V and the scores grow");
    expect_int("bytes", tiles_bytes(&one, 1, 10), 4 * (1 + 10 + 10 + 1 + 10 + 2));
    grade_case("one query, one key, d = 100");
    expect_int("bytes", tiles_bytes(&wide, 1, 1), 4 * (100 + 100 + 100 + 100 + 1 + 2));
    grade_case("128 queries, 64 keys, d = 64, fp32");
    expect_int("bytes", tiles_bytes(&(CacheBudget){0, 0, 0, 64, 4, 1}, 128, 64), 132096);
}

static void test_storage_and_float(void) {
    const CacheBudget half = {0, 0, 0, 64, 2, 1};
    grade_case("128 queries, 64 keys, d = 64; Q, K, V in 16 bits, O, scores, m and l in float");
    expect_int("bytes", tiles_bytes(&half, 128, 64), 99328);
}

// The suite's own bytes and, below, search, so that a wrong choice is told from a wrong sum.
static int64_t bytes_by_suite(const CacheBudget *c, int64_t block_q, int64_t block_k) {
    const int64_t q = block_q * c->dim, kv = 2 * block_k * c->dim;
    return c->element_size * (q + kv) + 4 * (q + block_q * block_k + 2 * block_q);
}

// ---- choices ------------------------------------------------------------------------------------

static BlockChoice choose(const CacheBudget *cache) {
    BlockChoice *choice = grade_alloc(sizeof(*choice));
    set_case(cache);
    const AttnStatus status = choose_blocks(cache, choice);
    if (status != ATTN_OK) {
        grade_fail("got %s, expected ATTN_OK", attn_status_name(status));
    }
    return *choice;
}

static void expect_blocks(const CacheBudget *cache, int64_t block_q, int64_t block_k) {
    const BlockChoice choice = choose(cache);
    expect_int("block_q", choice.block_q, block_q);
    expect_int("block_k", choice.block_k, block_k);
}

static void test_common_caches(void) {
    const CacheBudget l1 = {32 * KIB, 4096, 4096, 64, 4, 16};
    const CacheBudget shared = {227 * KIB, 8192, 8192, 128, 2, 16};
    const CacheBudget l2 = {2 * MIB, 8192, 8192, 64, 4, 16};
    expect_blocks(&l1, 32, 16);
    expect_blocks(&shared, 256, 16);
    expect_blocks(&l2, 3568, 16);
}

// Of long sequences, so that the caches alone decide.
static void test_keys_fill_the_rest(void) {
    const CacheBudget one_more = {32 * KIB, 4096, 4096, 128, 2, 16};
    const CacheBudget coarse = {100 * KIB, 4096, 4096, 64, 4, 64};
    expect_blocks(&one_more, 16, 32);
    expect_blocks(&coarse, 64, 64);
}

static void test_exact_fit(void) {
    CacheBudget cache = {0, 4096, 4096, 64, 4, 16};
    cache.bytes = bytes_by_suite(&cache, 16, 16);
    expect_blocks(&cache, 16, 16);
    grade_case("48 queries and 16 keys, d = 64, fp32");
    cache.bytes = tiles_bytes(&cache, 48, 16);
    expect_int("bytes", cache.bytes, 36224);
    expect_blocks(&cache, 48, 16);
    cache.bytes--;
    expect_blocks(&cache, 32, 16);
}

static void test_no_larger_than_the_problem(void) {
    const CacheBudget narrow = {64 * KIB, 16, 4096, 64, 4, 16};
    const CacheBudget short_queries = {MIB, 100, 8192, 64, 4, 16};
    const CacheBudget short_keys = {MIB, 100, 300, 64, 4, 16};
    const CacheBudget roomy = {4 * MIB, 48, 160, 64, 4, 16};
    const CacheBudget decode = {227 * KIB, 1, 40, 128, 2, 16};
    expect_blocks(&narrow, 16, 96);
    expect_blocks(&short_queries, 112, 1024);
    expect_blocks(&short_keys, 112, 304);
    expect_blocks(&roomy, 48, 160);
    expect_blocks(&decode, 16, 48);
}

static void test_traffic_of_the_choice(void) {
    const CacheBudget even = {32 * KIB, 4096, 4096, 64, 4, 16};
    const CacheBudget ragged = {32 * KIB, 33, 100, 64, 2, 16};
    BlockChoice choice = choose(&even);
    expect_int("traffic", choice.traffic, (int64_t)(4 * tiled_hbm_elements(4096, 64, 32, false)));
    expect_int("tile_bytes", choice.tile_bytes, 26880);
    choice = choose(&ragged);
    expect_int("block_q", choice.block_q, 48);
    expect_int("traffic", choice.traffic, 2 * 2 * (33 + 100) * 64);
    grade_case("T = 33, S = 100, d = 64, blocks of 16 queries: three blocks, K and V thrice");
    const CacheBudget small = {tiles_bytes(&ragged, 16, 16), 33, 100, 64, 2, 16};
    choice = choose(&small);
    expect_int("traffic", choice.traffic, 2 * 2 * (33 + 3 * 100) * 64);
}

static int64_t covering(int64_t len, int64_t granule) {
    return len < 1 ? granule : (len + granule - 1) / granule * granule;
}

static BlockChoice choice_by_suite(const CacheBudget *c) {
    const int64_t g = c->granule;
    BlockChoice choice = {covering(c->len_q, g), covering(c->len_kv, g), 0, 0};
    while (bytes_by_suite(c, choice.block_q, g) > c->bytes) {
        choice.block_q -= g;
    }
    while (bytes_by_suite(c, choice.block_q, choice.block_k) > c->bytes) {
        choice.block_k -= g;
    }
    return choice;
}

static void test_many_budgets(void) {
    const int64_t lens[] = {1, 17, 100, 1024}, dims[] = {1, 40, 128};
    const int64_t granules[] = {1, 8, 64};
    for (int n = 0; n < 4 * 4 * 3 * 3 * 8; n++) {
        CacheBudget cache = {0,
                             lens[n % 4],
                             lens[n / 4 % 4],
                             dims[n / 16 % 3],
                             2 + 2 * (n % 2),
                             granules[n / 48 % 3]};
        const int64_t least = bytes_by_suite(&cache, cache.granule, cache.granule);
        cache.bytes = least + least / 3 * (n / 144);
        const BlockChoice want = choice_by_suite(&cache);
        expect_blocks(&cache, want.block_q, want.block_k);
    }
}

static void test_past_32_bits(void) {
    // A GPU's memory as the cache of tensors that stay on the host.
    const CacheBudget cache = {16384 * MIB, 1 << 20, 1 << 20, 64, 4, 16};
    const BlockChoice want = choice_by_suite(&cache), got = choose(&cache);
    expect_int("block_q", got.block_q, want.block_q);
    expect_int("block_k", got.block_k, want.block_k);
    expect_int("tile_bytes", got.tile_bytes, bytes_by_suite(&cache, want.block_q, want.block_k));
    const CacheBudget small = {64 * KIB, 131072, 131072, 128, 4, 16};
    const BlockChoice long_choice = choose(&small);
    expect_int("block_q", long_choice.block_q, 32);
    expect_int("traffic", long_choice.traffic,
               (int64_t)(4 * tiled_hbm_elements(131072, 128, 32, false)));
    // More than 2^31 elements of Q; of K and V.
    const CacheBudget wide = {0, 0, 0, 128, 2, 16};
    const int64_t many = INT64_C(1) << 25;
    grade_case("%lld queries and 16 keys, d = 128, 16 bits", (long long)many);
    expect_int("bytes", tiles_bytes(&wide, many, 16), bytes_by_suite(&wide, many, 16));
    grade_case("16 queries and %lld keys, d = 128, 16 bits", (long long)many);
    expect_int("bytes", tiles_bytes(&wide, 16, many), bytes_by_suite(&wide, 16, many));
}

static void test_cache_too_small(void) {
    CacheBudget cache = {0, 4096, 4096, 64, 4, 16};
    BlockChoice choice = {-1, -2, -3, -4};
    const int64_t least = bytes_by_suite(&cache, 16, 16);
    cache.bytes = least - 1;
    set_case(&cache);
    const AttnStatus status = choose_blocks(&cache, &choice);
    if (status != ATTN_ERR_UNSUPPORTED) {
        grade_fail("got %s, expected ATTN_ERR_UNSUPPORTED", attn_status_name(status));
    }
    if (choice.block_q != -1 || choice.block_k != -2 || choice.tile_bytes != -3 ||
        choice.traffic != -4) {
        grade_fail("*choice was written in spite of the error");
    }
    for (int64_t bytes = least - 1; bytes <= least; bytes++) {
        if (!grade_has_number(attn_last_error(), bytes)) {
            grade_fail("the message does not name %lld bytes: \"%s\"", (long long)bytes,
                       attn_last_error());
        }
    }
    cache.bytes = least;
    expect_blocks(&cache, 16, 16);
}

static void test_no_queries(void) {
    const CacheBudget none = {64 * KIB, 0, 0, 64, 4, 16};
    const BlockChoice choice = choose(&none);
    expect_int("block_q", choice.block_q, 16);
    expect_int("block_k", choice.block_k, 16);
    expect_int("traffic", choice.traffic, 0);
}

const GradeTest grade_tests[] = {
    {"bytes_of_each_tile", 1, false, test_bytes_of_each_tile,
     "Six kinds of tile: Q, K, V, O, the scores, and m and l, two floats a row. The case says "
     "which of them grow."},
    {"storage_and_float", 1, false, test_storage_and_float,
     "O, the scores, m and l are float whatever the storage type: sums in 16 bits would lose "
     "digits."},
    {"common_caches", 1, false, test_common_caches,
     "block_q first, with one granule of keys beside it; then block_k; each rounded down to a "
     "multiple of the granule."},
    {"keys_fill_the_rest", 1, false, test_keys_fill_the_rest,
     "What block_q leaves is for the keys, granule by granule: each brings K, V and a piece of the "
     "score tile."},
    {"exact_fit", 1, false, test_exact_fit,
     "Tiles of exactly M bytes fit, one granule of each included; one byte less does not."},
    {"no_larger_than_the_problem", 1, false, test_no_larger_than_the_problem,
     "No block is larger than T or S rounded up to the granule: up, so that 100 rows in granules "
     "of 16 are one block of 112. What a small block_q leaves is for the keys, in as many granules "
     "as fit."},
    {"traffic_of_the_choice", 1, false, test_traffic_of_the_choice,
     "Q and O once, K and V once for every block of queries, the short one at the end included, in "
     "the storage type."},
    {"many_budgets", 2, false, test_many_budgets,
     "Take the sizes of the case and search by hand; which of the two blocks is wrong, and is it "
     "too large or too small?"},
    {"past_32_bits", 1, false, test_past_32_bits,
     "Keep every product in int64_t: the score tile alone can be larger than 4 GiB, and Q can have "
     "more than 2^31 elements."},
    {"cache_too_small", 1, true, test_cache_too_small,
     "Check one granule of each before anything is written; return attn_fail(ATTN_ERR_UNSUPPORTED, "
     "...) with both numbers of bytes in the message."},
    {"no_queries", 1, true, test_no_queries,
     "A block is at least one granule, also of nothing; and nothing moves nothing."},
    {NULL, 0, false, NULL, NULL},
};
