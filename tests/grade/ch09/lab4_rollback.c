// The suite of lab 4, rollback of rejected drafts: appends and rollbacks by hand, shared pages, a
// pool that runs out, then thousands of random operations against a model.
#include "tests/grade/ch09/draft.h"

const char grade_title[] = "rollback of draft tokens";

// ---- drafts, appends, rollbacks -----------------------------------------------------------------

static void expect_accepted(int64_t count, const int32_t *draft, const int32_t *chosen,
                            int64_t want) {
    int32_t *d = grade_alloc((size_t)count * sizeof(int32_t));
    int32_t *c = grade_alloc((size_t)count * sizeof(int32_t));
    memcpy(d, draft, (size_t)count * sizeof(int32_t));
    memcpy(c, chosen, (size_t)count * sizeof(int32_t));
    grade_case("%lld draft tokens, the first %lld of them right", (long long)count,
               (long long)want);
    expect_int("accepted", draft_accepted(count, d, c), want);
}

static void test_accepted(void) {
    const int32_t draft[] = {5, 9, 2, 7}, late[] = {5, 9, 3, 7}, first[] = {6, 9, 2, 7};
    expect_accepted(4, draft, late, 2); // the last one is right again, and does not count
    expect_accepted(4, draft, draft, 4);
    expect_accepted(4, draft, first, 0);
    expect_accepted(1, draft, late, 1);
    expect_accepted(0, draft, draft, 0);
}

static void test_append(void) {
    Fixture *f = make_fixture(4, 8);
    const int counts[] = {3, 1, 1, 9, 2};
    for (int i = 0; i < 5; i++) {
        grade_case("pages of 4, %lld tokens: %d more", (long long)f->model[0].length, counts[i]);
        append(f, 0, counts[i]);
    }
}

// The tail stays in its page, and is written over.
static void test_within_a_page(void) {
    Fixture *f = make_fixture(8, 4);
    append(f, 0, 14);
    grade_case("pages of 8: from 14 tokens back to 11, and 4 more");
    roll_back(f, 0, 11);
    append(f, 0, 4);
    grade_case("pages of 8: from 15 tokens back to 15, to 9, and 6 more");
    roll_back(f, 0, 15);
    roll_back(f, 0, 9);
    append(f, 0, 6);
}

static void test_pages_go_back(void) {
    for (int32_t page_size = 1; page_size <= 5; page_size++) {
        for (int64_t length = 0; length <= 20; length++) {
            Fixture *f = make_fixture(page_size, 24);
            append(f, 0, 20);
            grade_case("pages of %d: from 20 tokens back to %lld, and 3 more", page_size,
                       (long long)length);
            roll_back(f, 0, length);
            append(f, 0, 3);
        }
    }
}

// Rollbacks one after the other, down to nothing.
static void test_again_and_again(void) {
    Fixture *f = make_fixture(4, 12);
    append(f, 0, 40);
    for (int64_t length = 37; length >= 0; length -= length > 8 ? 5 : 2) {
        grade_case("pages of 4: from %lld tokens back to %lld", (long long)f->model[0].length,
                   (long long)length);
        roll_back(f, 0, length);
    }
    grade_case("pages of 4: from 1 token back to none, twice, and 5 more");
    roll_back(f, 0, 0);
    roll_back(f, 0, 0);
    append(f, 0, 5);
}

// ---- shared pages -------------------------------------------------------------------------------

static void test_copy_on_write(void) {
    Fixture *f = make_fixture(4, 8);
    append(f, 0, 6);
    fork_sequence(f, 0, 1);
    grade_case("pages of 4: a fork of 6 tokens gets 1 more");
    append(f, 1, 1);
    grade_case("then the old sequence, the only one in its page, gets 1 more");
    append(f, 0, 1);
    fork_sequence(f, 0, 2);
    grade_case("a second fork, of 7 tokens, gets 6 more");
    append(f, 2, 6);
}

// What was whole pages becomes the middle of one that others read.
static void test_back_into_a_shared_page(void) {
    Fixture *f = make_fixture(4, 12);
    append(f, 0, 12);
    fork_sequence(f, 0, 1);
    grade_case("pages of 4: a fork of 12 tokens goes back to 6, and gets 3 more");
    roll_back(f, 1, 6);
    append(f, 1, 3);
    fork_sequence(f, 0, 2);
    grade_case("another one goes back to 5, the old one to 6; each gets 2 more");
    roll_back(f, 2, 5);
    roll_back(f, 0, 6);
    append(f, 0, 2);
    append(f, 2, 2);
}

static void test_whole_pages_stay_shared(void) {
    Fixture *f = make_fixture(4, 8);
    append(f, 0, 8);
    fork_sequence(f, 0, 1);
    grade_case("pages of 4: a fork of 8 tokens gets 2 more: no page is copied");
    append(f, 1, 2);
    grade_case("the old one goes back to 4 tokens, and gets 1 more: no page is copied");
    roll_back(f, 0, 4);
    append(f, 0, 1);
}

static void test_alone_again(void) {
    Fixture *f = make_fixture(4, 8);
    append(f, 0, 6);
    fork_sequence(f, 0, 1);
    close_sequence(f, 0);
    grade_case("pages of 4: a fork of 6 tokens, the old one gone, gets 1 more");
    append(f, 1, 1);
    fork_sequence(f, 1, 2);
    roll_back(f, 2, 4);
    grade_case("a fork of 7 tokens has gone back to 4; the old one gets 1 more");
    append(f, 1, 1);
}

static void expect_needs(const Fixture *f, int s, int64_t count, int64_t want) {
    grade_case("pages of 4, a sequence of %lld tokens%s: %lld more",
               (long long)f->sequence[s].length, f->model[1].open ? " and a fork of it" : "",
               (long long)count);
    expect_int("pages needed", draft_needs(&f->pool, &f->sequence[s], count), want);
}

static void test_needs(void) {
    Fixture *f = make_fixture(4, 8);
    expect_needs(f, 0, 1, 1);
    expect_needs(f, 0, 9, 3);
    append(f, 0, 6);
    expect_needs(f, 0, 2, 0);
    expect_needs(f, 0, 3, 1);
    expect_needs(f, 0, 6, 1);
    expect_needs(f, 0, 7, 2);
    fork_sequence(f, 0, 1);
    expect_needs(f, 1, 2, 1);
    expect_needs(f, 1, 3, 2);
    expect_needs(f, 1, 0, 0);
    roll_back(f, 1, 4);
    expect_needs(f, 1, 4, 1);
    expect_needs(f, 0, INT64_C(1) << 40, (INT64_C(1) << 38));
}

// ---- the pool runs out --------------------------------------------------------------------------

static void expect_no_pages(Fixture *f, int s, int64_t count) {
    int32_t *tokens = new_tokens(f, count);
    const int64_t numbers[] = {needs(f, s, count), f->pool.free};
    const AttnStatus status = draft_append(&f->pool, &f->sequence[s], count, tokens);
    free(tokens);
    if (status != ATTN_ERR_MEMORY) {
        grade_fail("status: got %s, expected ATTN_ERR_MEMORY", attn_status_name(status));
    }
    for (int i = 0; i < 2; i++) {
        if (!grade_has_number(attn_last_error(), numbers[i])) {
            grade_fail("message: got \"%s\", expected one with the pages %s, %lld",
                       attn_last_error(), i == 0 ? "needed" : "free", (long long)numbers[i]);
        }
    }
    expect_all(f);
}

static void test_exhausted(void) {
    Fixture *f = make_fixture(4, 20);
    append(f, 0, 6);
    grade_case("pages of 4, 18 free: 75 tokens behind 6 need 19");
    expect_no_pages(f, 0, 75);
    fork_sequence(f, 0, 1);
    grade_case("pages of 4, 18 free: 71 tokens behind 6 in a shared page need 19");
    expect_no_pages(f, 1, 71);
    grade_case("the same, one token less: just enough");
    append(f, 1, 70);
    fork_sequence(f, 1, 2);
    append(f, 1, 0);
    grade_case("pages of 4, none free: a token for the old one, which is alone in its page");
    append(f, 0, 1);
    roll_back(f, 2, 75);
    grade_case("pages of 4, none free: a token for a fork that has gone back into a shared page");
    expect_no_pages(f, 2, 1);
    grade_case("a page has come back: the same token");
    roll_back(f, 0, 4);
    append(f, 2, 1);
}

// ---- random operations --------------------------------------------------------------------------

enum { ROUNDS = 6, STEPS = 2000 };

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return *state >> 11;
}

static void random_step(Fixture *f, uint64_t seed) {
    const int s = (int)(seed % MAX_SEQUENCES), other = (int)(seed / 7 % MAX_SEQUENCES);
    const int64_t count = (int64_t)(seed / 97 % 12), kind = (int64_t)(seed / 1009 % 8);
    const int64_t length = f->model[s].length;
    if (!f->model[s].open) {
        if (f->model[other].open && kind < 6) {
            fork_sequence(f, other, s);
        }
        f->model[s].open = true;
    } else if (kind == 0) {
        close_sequence(f, s);
    } else if (kind < 5 && length + count <= MAX_LENGTH) {
        if (needs(f, s, count) > f->pool.free) {
            expect_no_pages(f, s, count);
        } else {
            append(f, s, count);
        }
    } else {
        roll_back(f, s, kind < 7 && length > count ? length - count : length / 2);
    }
}

static void test_random_operations(void) {
    uint64_t state = grade_seed(7);
    for (int round = 0; round < ROUNDS; round++) {
        Fixture *f = make_fixture(1 + round, 40 - 5 * round);
        for (int step = 0; step < STEPS; step++) {
            grade_case("random operations, pages of %d: step %d", f->pool.page_size, step);
            random_step(f, next_random(&state));
        }
    }
}

// ---- errors and nothing -------------------------------------------------------------------------

static void test_wrong_lengths(void) {
    const int64_t wrong[] = {15, -1, 1000, INT64_MIN, INT64_MAX};
    Fixture *f = make_fixture(4, 8);
    append(f, 0, 14);
    for (int i = 0; i < 5; i++) {
        grade_case("pages of 4: from 14 tokens back to %lld", (long long)wrong[i]);
        const AttnStatus status = draft_rollback(&f->pool, &f->sequence[0], wrong[i]);
        if (status != ATTN_ERR_ARGUMENT) {
            grade_fail("status: got %s, expected ATTN_ERR_ARGUMENT", attn_status_name(status));
        }
        if (!grade_has_number(attn_last_error(), wrong[i]) ||
            !grade_has_number(attn_last_error(), 14)) {
            grade_fail("message: got \"%s\", expected one with %lld and 14", attn_last_error(),
                       (long long)wrong[i]);
        }
        expect_all(f);
    }
}

static void test_no_tokens(void) {
    Fixture *f = make_fixture(4, 4);
    grade_case("no tokens for an empty sequence");
    append(f, 0, 0);
    append(f, 0, 6);
    fork_sequence(f, 0, 1);
    grade_case("no tokens behind 6 in a shared page");
    append(f, 1, 0);
}

const GradeTest grade_tests[] = {
    {"accepted", 1, false, test_accepted,
     "Count up to the first token that differs: what follows it was drafted behind a wrong token."},
    {"append", 1, false, test_append,
     "Token t goes to slot t % page_size of table[t / page_size]; a new page is taken when that "
     "slot is 0, and `pages` and `length` go along."},
    {"within_a_page", 1, false, test_within_a_page,
     "The last page stays as long as one of its tokens does, and the next append writes over what "
     "was rejected, without a new page."},
    {"pages_go_back", 2, false, test_pages_go_back,
     "Kept are the pages of `length` tokens, rounded up; all behind them go back. Try multiples of "
     "the page size, and 0."},
    {"again_and_again", 1, false, test_again_and_again,
     "A page goes back once: `pages` must say how many the sequence still has."},
    {"copy_on_write", 2, false, test_copy_on_write,
     "Others still read the shared page. The copy takes its place in this table alone, with the "
     "tokens in use, and the shared page has one reference less."},
    {"back_into_a_shared_page", 2, false, test_back_into_a_shared_page,
     "After the rollback the sequence ends in a page in which the others' tokens go on: the next "
     "append must not write over them."},
    {"whole_pages_stay_shared", 1, false, test_whole_pages_stay_shared,
     "A length that is a multiple of the page size: the next token begins a new page, and the last "
     "one is not written to."},
    {"alone_again", 1, false, test_alone_again, "A page with one reference is the sequence's own."},
    {"needs", 1, false, test_needs,
     "Room in the last page first; then pages for the rest, rounded up; and one for the copy."},
    {"exhausted", 2, false, test_exhausted,
     "Compare needs and free pages before anything is changed; the copy is one of the pages."},
    {"random_operations", 2, false, test_random_operations,
     "The other tests have each of these cases alone; TEST=name shows one."},
    {"wrong_lengths", 1, true, test_wrong_lengths,
     "Longer than it is, or negative: an error that has both lengths in it."},
    {"no_tokens", 1, true, test_no_tokens, "Nothing to append: nothing is copied, and none taken."},
    {NULL, 0, false, NULL, NULL, NULL},
};
