// The suite of lab 2, a part taken out of the whole: by hand, then round trips in which the whole
// is made in float64 and rounded once, then evictions one after another.
#include "tests/grade/ch03/parts.h"

const char grade_title[] = "a part taken out again";

static const double u = 0x1p-24; // half the distance from 1 to the next float

// What is taken out, from what, and what should remain: parts 0 and 1 of a Parts are the rest and
// the part, and the whole is their merge, rounded to float.
typedef struct Removal {
    Parts parts;
    Attended whole, part;
    double amplification;
    double lse_tolerance, o_tolerance;
} Removal;

// With w the share of the part and a = 1 / (1 - w): an error of e in O becomes a e in the rest; an
// error of e in either LSE changes the rest's LSE by at most a e, and the rest's O by a e times the
// distance from the part's O, at most twice the largest |O|. Each LSE was rounded by |LSE| u, and
// w, 1 - w and the products by some 8 u in all.
static Removal make_removal(const Parts *parts, int64_t keys_rest, int64_t keys_part) {
    Removal r = {.parts = *parts};
    double o[DIM_MAX], o_max = 0.0;
    const int64_t dim = parts->dim;
    const double lse = merge_of(parts, 0, 2, o), rest = (double)parts->lse[0];
    const double part = (double)parts->lse[1];

    r.whole = (Attended){keys_rest + keys_part, (float)lse, grade_floats((size_t)dim)};
    r.part = (Attended){keys_part, parts->lse[1], parts->o + dim};
    for (int64_t c = 0; c < dim; c++) {
        r.whole.o[c] = (float)o[c];
        o_max = fmax(o_max, fmax(fabs((double)parts->o[c]), fabs((double)parts->o[dim + c])));
    }
    r.amplification = exp(lse - rest);
    const double error = r.amplification * (fabs(lse) + fabs(part) + 8.0) * u;
    r.lse_tolerance = error + (fabs(rest) + 8.0) * u;
    r.o_tolerance = 2.0 * error * o_max;
    return r;
}

static Removal make_removal_of(float lse_rest, float lse_part, const float o_rest[2],
                               const float o_part[2]) {
    const Parts parts = make_parts(2, 2);
    memcpy(parts.o, o_rest, 2 * sizeof(float));
    memcpy(parts.o + 2, o_part, 2 * sizeof(float));
    parts.lse[0] = lse_rest;
    parts.lse[1] = lse_part;
    return make_removal(&parts, 3, 4);
}

static void expect_ok(UnmergeStatus status) {
    expect_int("status (1 is UNMERGE_REFUSED)", status, UNMERGE_OK);
}

// Takes the part out and checks what remains.
static void expect_rest(const Removal *r, float limit) {
    Attended whole = r->whole;
    double want[DIM_MAX];
    const double lse = merge_of(&r->parts, 0, 1, want);

    expect_ok(unmerge(r->parts.dim, &whole, &r->part, limit));
    expect_array("o", whole.o, want, 1, (size_t)r->parts.dim, r->o_tolerance);
    expect_close("lse", (double)whole.lse, lse, r->lse_tolerance);
    expect_int("keys", whole.keys, r->whole.keys - r->part.keys);
}

static void expect_refused(const Removal *r, float limit) {
    Attended whole = r->whole;
    const double o[] = {(double)whole.o[0], (double)whole.o[1]};

    expect_int("status (1 is UNMERGE_REFUSED)", unmerge(2, &whole, &r->part, limit),
               UNMERGE_REFUSED);
    expect_array("o, which must stay", whole.o, o, 1, 2, 0.0);
    expect_close("lse, which must stay", (double)whole.lse, (double)r->whole.lse, 0.0);
    expect_int("keys, which must stay", whole.keys, r->whole.keys);
}

static const float o_rest[] = {8.0f, -1.0f}, o_part[] = {4.0f, 3.0f};

static void test_by_hand(void) {
    const Removal r = make_removal_of(0.0f, (float)log(3.0), o_rest, o_part);
    grade_case("(5, 2) with LSE ln 4; (4, 3) with LSE ln 3 goes; (8, -1) with LSE 0 remains");
    expect_rest(&r, 1e6f);
}

static void test_amplification(void) {
    const double shares[] = {0.5, 0.75, 0.25, 0.99, 1e-6};
    const double levels[] = {0.0, 7.0, -300.0};
    for (int i = 0; i < 5 * 3; i++) {
        const double w = shares[i / 3], level = levels[i % 3], want = 1.0 / (1.0 - w);
        const float whole = (float)level, part = (float)(level + log(w));
        grade_case("the part weighs %g of the whole; LSE %.9g and %.9g", w, (double)whole,
                   (double)part);
        expect_close("amplification", (double)unmerge_amplification(whole, part), want,
                     want * want * (2.0 * fabs(level) + 24.0) * u);
    }
    grade_case("LSE 2; the part is empty");
    expect_close("amplification", (double)unmerge_amplification(2.0f, -INFINITY), 1.0, 0.0);
}

static void test_large_lse(void) {
    const float levels[] = {90.0f, 1000.0f, -1000.0f, -60000.0f};
    for (int i = 0; i < 4; i++) {
        const Removal r = make_removal_of(levels[i], levels[i] - 1.0f, o_rest, o_part);
        grade_case("LSE %g remains, %g goes", (double)levels[i], (double)levels[i] - 1.0);
        expect_rest(&r, 1e6f);
    }
}

static void test_small_part(void) {
    const float drops[] = {10.0f, 200.0f};
    for (int i = 0; i < 2; i++) {
        const Removal r = make_removal_of(3.0f, 3.0f - drops[i], o_rest, o_part);
        grade_case("LSE 3 remains, %g goes; limit 2", 3.0 - (double)drops[i]);
        expect_rest(&r, 2.0f);
    }
}

static void test_limit(void) {
    const double shares[] = {0.98, 0.995};
    for (int i = 0; i < 2; i++) {
        const double w = shares[i];
        const Removal r = make_removal_of((float)log(1.0 - w), (float)log(w), o_rest, o_part);
        grade_case("the part weighs %g of the whole: amplification %g, limit 100", w,
                   1.0 / (1.0 - w));
        if (i == 0) {
            expect_rest(&r, 100.0f);
        } else {
            expect_refused(&r, 100.0f);
            grade_case("the part weighs %g of the whole: amplification %g, limit 300", w,
                       1.0 / (1.0 - w));
            expect_rest(&r, 300.0f);
        }
    }
    // exp(-200) is 0 in float and nothing beside 1 in double: the amplification is 1 exactly.
    const Removal r = make_removal_of(3.0f, -197.0f, o_rest, o_part);
    grade_case("LSE 3 remains, -197 goes: amplification 1, limit 1");
    expect_rest(&r, 1.0f);
}

static void test_round_trips(void) {
    for (int i = 0; i < 200; i++) {
        const int64_t dim = 1 + i % DIM_MAX;
        const float level = i % 3 == 0 ? 0.0f : i % 3 == 1 ? 40.0f : -400.0f;
        const Parts parts = random_parts(2, dim, level, 100 + (uint64_t)i);
        parts.lse[1] += (float)(i % 4); // the part weighs up to some e^3 of the rest, and more
        const Removal r = make_removal(&parts, 1 + i % 5, 1 + i % 11);
        grade_case("dim %lld, LSE %g remains, %g goes: amplification %.3g", (long long)dim,
                   (double)parts.lse[0], (double)parts.lse[1], r.amplification);
        expect_rest(&r, 1e6f);
    }
}

// Eight chunks leave one after another; what one removal leaves is where the next one starts, its
// error included.
static void test_chunk_by_chunk(void) {
    enum { CHUNKS = 8, DIM = 3 };
    for (uint64_t seed = 300; seed < 320; seed++) {
        const Parts parts = random_parts(CHUNKS, DIM, 5.0f, seed);
        double want[DIM_MAX], lse = merge_of(&parts, 0, CHUNKS, want), lse_error, o_error = 0.0;
        Attended whole = {CHUNKS * 16, (float)lse, grade_floats(DIM)};
        const double size = 8.0; // above every |O| of these parts
        for (int c = 0; c < DIM; c++) {
            whole.o[c] = (float)want[c];
        }
        lse_error = (fabs(lse) + 8.0) * u;
        for (int64_t gone = 1; gone < CHUNKS; gone++) {
            const Attended part = {16, parts.lse[gone - 1], parts.o + (gone - 1) * DIM};
            const double before = lse;
            lse = merge_of(&parts, gone, CHUNKS, want);
            const double a = exp(before - lse);
            const double fresh = (fabs(before) + fabs((double)part.lse) + 16.0) * u;
            o_error = a * (o_error + 2.0 * size * (lse_error + fresh));
            lse_error = a * (lse_error + fresh);
            grade_case("8 chunks of 16 keys (seed %d): %lld gone", (int)seed, (long long)gone);
            expect_ok(unmerge(DIM, &whole, &part, 1e6f));
            expect_int("keys", whole.keys, (CHUNKS - gone) * 16);
            expect_close("lse", (double)whole.lse, lse, lse_error);
            expect_array("o", whole.o, want, 1, DIM, o_error);
        }
        const Attended last = {16, parts.lse[CHUNKS - 1], parts.o + (CHUNKS - 1) * DIM};
        grade_case("8 chunks of 16 keys (seed %d): the last one goes", (int)seed);
        expect_ok(unmerge(DIM, &whole, &last, 1e6f));
        expect_int("keys", whole.keys, 0);
        expect_close("lse", (double)whole.lse, -INFINITY, 0.0);
        expect_array("o", whole.o, (double[]){0.0, 0.0, 0.0}, 1, DIM, 0.0);
    }
}

static void test_everything(void) {
    const float lse[] = {3.25f, nextafterf(3.25f, 4.0f), nextafterf(3.25f, 3.0f), 3.2499f, 3.26f};
    for (int i = 0; i < 5; i++) {
        float *o = grade_floats(2);
        float part_o[] = {1.5f, -2.0f};
        Attended whole = {7, 3.25f, o};
        const Attended part = {7, lse[i], part_o};
        o[0] = 1.5f;
        o[1] = nextafterf(-2.0f, 0.0f);
        grade_case("7 keys with LSE 3.25, all 7 go with LSE %.9g, limit 100", (double)lse[i]);
        expect_ok(unmerge(2, &whole, &part, 100.0f));
        expect_int("keys", whole.keys, 0);
        expect_close("lse", (double)whole.lse, -INFINITY, 0.0);
        expect_array("o", whole.o, (double[]){0.0, 0.0}, 1, 2, 0.0);
    }
}

static void test_empty_part(void) {
    const float held[] = {0.0f, 9.0f, NAN}, limits[] = {1.0f, 1e6f};
    for (int i = 0; i < 6; i++) {
        float *o = grade_floats(2);
        float part_o[] = {held[i / 2], held[i / 2]};
        Attended whole = {7, 3.3f, o};
        const Attended part = {0, -INFINITY, part_o};
        o[0] = 0.1f;
        o[1] = -2.7f;
        grade_case("an empty part that holds %g goes, limit %g", (double)held[i / 2],
                   (double)limits[i % 2]);
        expect_ok(unmerge(2, &whole, &part, limits[i % 2]));
        expect_int("keys", whole.keys, 7);
        expect_close("lse", (double)whole.lse, (double)3.3f, 0.0);
        expect_array("o", whole.o, (double[]){(double)0.1f, (double)-2.7f}, 1, 2, 0.0);
    }
}

static void test_empty_whole(void) {
    float *o = grade_floats(2), *part_o = grade_floats(2); // both NaN
    Attended whole = {0, -INFINITY, o};
    const Attended part = {0, -INFINITY, part_o};
    grade_case("an empty part goes from an empty whole, NaN in both");
    expect_close("amplification", (double)unmerge_amplification(-INFINITY, -INFINITY), 1.0, 0.0);
    expect_ok(unmerge(2, &whole, &part, 1.0f));
    expect_int("keys", whole.keys, 0);
    expect_close("lse", (double)whole.lse, -INFINITY, 0.0);
    expect_array("o", whole.o, (double[]){0.0, 0.0}, 1, 2, 0.0);
}

// Some keys should remain, and in float32 nothing does, or less than nothing.
static void test_nothing_left(void) {
    const float excess[] = {0.0f, 1e-6f, 2.0f};
    for (int i = 0; i < 3; i++) {
        Removal r = make_removal_of(0.0f, 0.0f, o_rest, o_part);
        r.part.lse = r.whole.lse + excess[i];
        grade_case("7 keys with LSE %.9g, 4 of them go with LSE %.9g", (double)r.whole.lse,
                   (double)r.part.lse);
        expect_close("amplification", (double)unmerge_amplification(r.whole.lse, r.part.lse),
                     INFINITY, 0.0);
        expect_refused(&r, 1e6f);
    }
}

const GradeTest grade_tests[] = {
    {"by_hand", 1, false, test_by_hand,
     "w = exp(lse_part - lse); O becomes (O - w O_part) / (1 - w), LSE becomes LSE + log(1 - w), "
     "and keys falls by the part's."},
    {"amplification", 1, false, test_amplification,
     "1 / (1 - w), where w = exp(lse_part - lse_whole), natural base: 4 for a part of 3/4."},
    {"large_lse", 1, false, test_large_lse,
     "Only the difference of the two LSE may go into exp: exp(1000) is infinite, exp(-1000) is 0."},
    {"small_part", 1, false, test_small_part,
     "A part of small weight changes little or nothing, and its amplification is close to 1."},
    {"limit", 2, false, test_limit,
     "Refuse when the amplification is above the limit, and only then: equal is allowed. Check "
     "before you write."},
    {"round_trips", 2, false, test_round_trips,
     "Right by hand and wrong here: see the dimension and the amplification of the case."},
    {"chunk_by_chunk", 2, false, test_chunk_by_chunk,
     "Each removal starts from the last one's keys, LSE and O. The last chunk's LSE and what "
     "remains of the whole differ by rounding; that everything goes is seen from the keys."},
    {"everything", 1, true, test_everything,
     "part->keys == whole->keys: keys 0, LSE -INFINITY, O 0, without a look at the LSE."},
    {"empty_part", 1, true, test_empty_part,
     "An empty part takes nothing away, to the last bit; 0 * NaN is NaN, so leave its O alone."},
    {"empty_whole", 1, true, test_empty_whole,
     "0 keys less 0 keys are 0 keys: O = 0, LSE = -INFINITY; -INFINITY - -INFINITY is NaN."},
    {"nothing_left", 1, true, test_nothing_left,
     "w >= 1 while keys should remain: the amplification is INFINITY, and the removal is refused."},
    {NULL, 0, false, NULL, NULL},
};
