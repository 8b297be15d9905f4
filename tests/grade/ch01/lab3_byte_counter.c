// The suite of lab 3, the byte counter: small lists of passes with their bytes counted by hand, and
// attention against the cards of common/model.h.
#include "common/model.h"
#include "exercises/ch01/labs.h"
#include "tests/grade/grade.h"

#include <stdio.h>

const char grade_title[] = "bytes of a list of passes";

static const int64_t MIB = 1 << 20;

// A copy of a plan for the learner's functions, which must leave it as it is.
static const PassPlan *frozen_plan(const PassPlan *plan) {
    PassPlan *copy = grade_alloc(sizeof(*copy));

    *copy = *plan;
    grade_freeze("plan", copy, 0);
    return copy;
}

// Calls the learner's counter and checks one tensor's bytes.
static void check_traffic(const PassPlan *plan, int tensor, int64_t read, int64_t written) {
    Traffic *traffic = grade_alloc((size_t)plan->tensor_count * sizeof(*traffic));
    char name[64];

    plan_traffic(frozen_plan(plan), traffic);
    snprintf(name, sizeof(name), "bytes read of %s", plan->tensors[tensor].name);
    expect_int(name, traffic[tensor].read, read);
    snprintf(name, sizeof(name), "bytes written of %s", plan->tensors[tensor].name);
    expect_int(name, traffic[tensor].written, written);
}

// ---- lists of passes, by hand -------------------------------------------------------------------

// Tensors A (10 fp32 elements), B (6 elements of 16 bits), temporaries X, Y, Z of 100, 20 and 7
// fp32 elements; no pass yet.
enum { A, B, X, Y, Z };

static PassPlan make_plan(void) {
    return (PassPlan){
        .tensor_count = 5,
        .tensors = {{"A", 10, 4, false},
                    {"B", 6, 2, false},
                    {"X", 100, 4, true},
                    {"Y", 20, 4, true},
                    {"Z", 7, 4, true}},
        .repeats = 1,
    };
}

static void add_pass(PassPlan *plan, int reads, int writes) {
    Pass *pass = &plan->passes[plan->pass_count++];

    pass->name = "pass";
    pass->reads[reads]++;
    pass->writes[writes]++;
}

static void test_one_pass(void) {
    PassPlan plan = make_plan();

    grade_case("one pass reads A (10 fp32 elements) and writes B (6 elements of 16 bits)");
    add_pass(&plan, A, B);
    check_traffic(&plan, A, 40, 0);
    check_traffic(&plan, B, 0, 12);
    check_traffic(&plan, X, 0, 0);
}

static void test_reads_several_times(void) {
    PassPlan plan = make_plan();

    grade_case("a softmax that reads X three times (max, sum, quotient) and writes Y once");
    add_pass(&plan, X, Y);
    plan.passes[0].reads[X] = 3;
    check_traffic(&plan, X, 1200, 0);
    check_traffic(&plan, Y, 0, 80);
}

static void test_passes_and_repeats(void) {
    PassPlan plan = make_plan();

    grade_case("three passes: A to X, X to X (in place), X to B");
    add_pass(&plan, A, X);
    add_pass(&plan, X, X);
    add_pass(&plan, X, B);
    check_traffic(&plan, A, 40, 0);
    check_traffic(&plan, X, 800, 800);
    check_traffic(&plan, B, 0, 12);
    grade_case("the same, repeated 32 times");
    plan.repeats = 32;
    check_traffic(&plan, A, 32 * 40, 0);
    check_traffic(&plan, X, 32 * 800, 32 * 800);
}

// First the elements alone are beyond 32 bits, then only their product with the other factors.
static void test_past_32_bits(void) {
    PassPlan plan = make_plan();

    grade_case("X has 131072 x 131072 fp32 elements; A to X, X to B");
    plan.tensors[X].elements = INT64_C(131072) * 131072;
    add_pass(&plan, A, X);
    add_pass(&plan, X, B);
    check_traffic(&plan, X, INT64_C(68719476736), INT64_C(68719476736));
    expect_int("peak of the temporaries, in bytes", plan_peak_bytes(frozen_plan(&plan)),
               INT64_C(68719476736));
    grade_case("the same with 65536 x 8192 elements of 16 bits, 1024 times");
    plan.tensors[X].elements = INT64_C(65536) * 8192;
    plan.tensors[X].element_size = 2;
    plan.repeats = 1024;
    check_traffic(&plan, X, INT64_C(1099511627776), INT64_C(1099511627776));
}

// ---- peak memory --------------------------------------------------------------------------------

static void check_peak(const PassPlan *plan, int64_t want) {
    expect_int("peak of the temporaries, in bytes", plan_peak_bytes(frozen_plan(plan)), want);
}

static void test_peak_counts_temporaries(void) {
    PassPlan plan = make_plan();

    grade_case("A to X, X to B: X (400 bytes) is the only temporary that is used");
    add_pass(&plan, A, X);
    add_pass(&plan, X, B);
    check_peak(&plan, 400);
    grade_case("the same repeated 32 times, one after the other");
    plan.repeats = 32;
    check_peak(&plan, 400);
    grade_case("A to X, X to Y, Y to B: X (400 bytes) and Y (80 bytes) meet in the second pass");
    plan = make_plan();
    add_pass(&plan, A, X);
    add_pass(&plan, X, Y);
    add_pass(&plan, Y, B);
    check_peak(&plan, 480);
}

static void test_peak_reuses_memory(void) {
    PassPlan plan = make_plan();

    grade_case("A to X, X to Y, Y to Z, Z to B: X (400) and Y (80) meet, X and Z (28) never do");
    add_pass(&plan, A, X);
    add_pass(&plan, X, Y);
    add_pass(&plan, Y, Z);
    add_pass(&plan, Z, B);
    check_peak(&plan, 480);
    grade_case("A to Z, Z to B, A to X, X to B: Z (28) and X (400) never meet");
    plan = make_plan();
    add_pass(&plan, A, Z);
    add_pass(&plan, Z, B);
    add_pass(&plan, A, X);
    add_pass(&plan, X, B);
    check_peak(&plan, 400);
}

static void test_peak_holds_while_idle(void) {
    PassPlan plan = make_plan();

    grade_case("A to Z, A to X, X to Y, Y to B, Z to B: Z (28) is kept from the first pass to the "
               "last, while X (400) and Y (80) meet");
    add_pass(&plan, A, Z);
    add_pass(&plan, A, X);
    add_pass(&plan, X, Y);
    add_pass(&plan, Y, B);
    add_pass(&plan, Z, B);
    check_peak(&plan, 508);
}

// ---- attention ----------------------------------------------------------------------------------

// The card's problem: one head, N = 8192, d = 128, 16-bit storage.
static UnfusedAttention card_problem(void) {
    return (UnfusedAttention){1, 1, 8192, 8192, 128, 2, false, false, false};
}

// The learner's plan, refused where the suite could not even read it.
static PassPlan *plan_of(const UnfusedAttention *attention) {
    PassPlan *plan = grade_alloc(sizeof(*plan));
    UnfusedAttention *copy = grade_alloc(sizeof(*copy));

    *copy = *attention;
    grade_freeze("attention", copy, 0);
    attention_plan(copy, plan);
    expect_int("tensor_count", plan->tensor_count, ATTENTION_TENSORS);
    if (plan->pass_count < 0 || plan->pass_count > MAX_PASSES) {
        grade_fail("pass_count: got %d, expected 0 to %d", plan->pass_count, MAX_PASSES);
    }
    return plan;
}

// The suite's own counter, so that a wrong plan is told from a wrong counter.
static int64_t moved_by_suite(const PassPlan *plan, int tensor) {
    int64_t times = 0;

    for (int p = 0; p < plan->pass_count; p++) {
        times += plan->passes[p].reads[tensor] + plan->passes[p].writes[tensor];
    }
    return times * plan->tensors[tensor].elements * plan->tensors[tensor].element_size *
           plan->repeats;
}

static int64_t moved_by_learner(const PassPlan *plan, int tensor) {
    Traffic *traffic = grade_alloc((size_t)plan->tensor_count * sizeof(*traffic));

    plan_traffic(frozen_plan(plan), traffic);
    return traffic[tensor].read + traffic[tensor].written;
}

// Checks the bytes moved in all, first as the suite counts the learner's plan, then as the
// learner's counter does.
static void check_attention(const UnfusedAttention *attention, double want) {
    const PassPlan *plan = plan_of(attention);
    int64_t by_suite = 0, by_learner = 0;

    for (int t = 0; t < ATTENTION_TENSORS; t++) {
        by_suite += moved_by_suite(plan, t);
        by_learner += moved_by_learner(plan, t);
    }
    expect_int("your plan, as this test counts it", by_suite, (int64_t)want);
    expect_int("your plan, as plan_traffic counts it", by_learner, (int64_t)want);
}

static void test_naive_card(void) {
    UnfusedAttention a = card_problem();

    grade_case("one head, N = 8192, d = 128, 16-bit: 4N^2 + 4Nd elements, 520 MiB");
    check_attention(&a, 2 * naive_hbm_elements(8192, 128, false));
    const PassPlan *plan = plan_of(&a);
    const int64_t once = moved_by_suite(plan, TENSOR_Q) + moved_by_suite(plan, TENSOR_K) +
                         moved_by_suite(plan, TENSOR_V) + moved_by_suite(plan, TENSOR_O);
    expect_int("bytes of Q, K, V and O together", once, 8 * MIB);
    grade_case("the same in fp32: 1040 MiB");
    a.element_size = 4;
    check_attention(&a, 4 * naive_hbm_elements(8192, 128, false));
}

static void test_mask_and_cap_cards(void) {
    UnfusedAttention a = card_problem();

    grade_case("N = 8192, d = 128, 16-bit, the mask a pass of its own: 6N^2 + 4Nd elements");
    a.mask = true;
    check_attention(&a, 2 * naive_hbm_elements(8192, 128, true));
    grade_case("the soft-cap a pass of its own as well: 8N^2 + 4Nd elements");
    a.cap = true;
    check_attention(&a, 2 * (naive_hbm_elements(8192, 128, true) + 2 * score_elements(8192)));
    grade_case("the soft-cap without the mask: 6N^2 + 4Nd elements");
    a.mask = false;
    check_attention(&a, 2 * naive_hbm_elements(8192, 128, true));
}

static void test_rectangular(void) {
    const UnfusedAttention a = {1, 3, 5, 77, 40, 2, false, true, false};

    grade_case("3 heads, T = 5, S = 77, d = 40, 16-bit, masked");
    const double elements = 3 * (6.0 * 5 * 77 + 2 * 5 * 40 + 2 * 77 * 40);
    check_attention(&a, 2 * elements);
    const PassPlan *plan = plan_of(&a);
    expect_int("bytes of Q", moved_by_suite(plan, TENSOR_Q), 3 * 5 * 40 * 2);
    expect_int("bytes of K", moved_by_suite(plan, TENSOR_K), 3 * 77 * 40 * 2);
    expect_int("bytes of V", moved_by_suite(plan, TENSOR_V), 3 * 77 * 40 * 2);
    expect_int("bytes of O", moved_by_suite(plan, TENSOR_O), 3 * 5 * 40 * 2);
}

static void test_whole_model(void) {
    UnfusedAttention a = card_problem();

    grade_case("32 layers of 32 heads, N = 8192, d = 128, 16-bit: 549.8 GB for S and P alone");
    a.layers = 32;
    a.heads = 32;
    const PassPlan *plan = plan_of(&a);
    expect_int("bytes of S and P together",
               moved_by_suite(plan, TENSOR_S) + moved_by_suite(plan, TENSOR_P),
               (int64_t)(32 * 32 * 2 * 4 * score_elements(8192)));
    check_attention(&a, 32 * 32 * 2 * naive_hbm_elements(8192, 128, false));
}

static void test_attention_peak(void) {
    UnfusedAttention a = card_problem();

    grade_case("one head, N = 8192, d = 128, 16-bit: S and P, 256 MiB");
    check_peak(plan_of(&a), 256 * MIB);
    grade_case("the softmax in place: 128 MiB, and not a byte less is moved");
    a.in_place = true;
    check_peak(plan_of(&a), 128 * MIB);
    check_attention(&a, 2 * naive_hbm_elements(8192, 128, false));
    grade_case("32 layers of 32 heads, in place, capped and masked: 4 GiB");
    a = (UnfusedAttention){32, 32, 8192, 8192, 128, 2, true, true, true};
    check_peak(plan_of(&a), 4096 * MIB);
}

const GradeTest grade_tests[] = {
    {"one_pass", 1, false, test_one_pass,
     "A read and a write both move the whole tensor: elements * element_size bytes, and every "
     "tensor has its own element size."},
    {"reads_several_times", 1, false, test_reads_several_times,
     "reads[t] and writes[t] say how many times, not only whether."},
    {"passes_and_repeats", 1, false, test_passes_and_repeats,
     "A pass in place reads and writes the same tensor, and both count; then all of it happens "
     "`repeats` times."},
    {"past_32_bits", 1, false, test_past_32_bits,
     "Keep every factor and every sum in int64_t: int * int is an int, whatever it is assigned "
     "to."},
    {"peak_counts_temporaries", 1, false, test_peak_counts_temporaries,
     "Only temporaries count, in bytes; a temporary is there in the first and in the last pass "
     "that touches it. Repeats come one after the other and use the same memory again."},
    {"peak_reuses_memory", 1, false, test_peak_reuses_memory,
     "A temporary takes nothing before its first and after its last pass, so the peak is a "
     "maximum over the passes, not the sum of all temporaries."},
    {"peak_holds_while_idle", 1, false, test_peak_holds_while_idle,
     "A temporary that a later pass still reads keeps its memory while other passes run."},
    {"naive_card", 1, false, test_naive_card,
     "Three passes: Q and K to S, S to P, P and V to O. If the two counts differ, the counter is "
     "wrong; otherwise the plan is."},
    {"mask_and_cap_cards", 1, false, test_mask_and_cap_cards,
     "The cap and the mask each read S and write it back: 2N^2 elements each, when asked for."},
    {"rectangular", 1, false, test_rectangular,
     "Q and O have heads * len_q * dim elements, K and V heads * len_kv * dim, S and P heads * "
     "len_q * len_kv."},
    {"whole_model", 1, false, test_whole_model,
     "The heads belong to the tensors, the layers are the plan's repeats."},
    {"attention_peak", 1, false, test_attention_peak,
     "S and P are the temporaries. In place, the softmax reads and writes S, the weighted sum "
     "reads S, and no pass touches P."},
    {NULL, 0, false, NULL, NULL},
};
