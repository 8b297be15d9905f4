// Chapter 1's traffic: what naive attention moves, and what any attention must move. The formulas
// are those of common/model.h.
#include "common/model.h"
#include "tests/drill/drill.h"

static const int64_t dims[] = {64, 128, 256};
static const int64_t types[] = {2, 4};
static const int64_t few_heads[] = {1, 4, 8, 12, 16, 32};
static const int64_t many_layers[] = {16, 24, 32, 40, 64};
static const int64_t rates[] = {1000, 2000, 3350, 4000, 4800}; // GB/s

// The size of one head's attention.
typedef struct Head {
    double n, d, bytes;
    const char *type;
} Head;

static Head draw_head(Draw *draw, int low, int high) {
    const int64_t n = draw_power(draw, "N", low, high);
    const int64_t d = draw_one_of(draw, "d", dims, 3);
    const int64_t bytes = draw_one_of(draw, "bytes", types, 2);
    return (Head){(double)n, (double)d, (double)bytes, type_name(bytes)};
}

// ---- bytes of naive attention -------------------------------------------------------------------

static void naive_total(Question *question, Draw *draw) {
    char square[NUMBER_BYTES], all[NUMBER_BYTES];
    const Head head = draw_head(draw, 9, 14);
    const double elements = naive_hbm_elements(head.n, head.d, false);
    const double scores = score_elements(head.n);
    ask(question,
        "Naive attention of one head, N = %.0f queries and as many keys, d = %.0f, everything "
        "%s. It stores the scores S and the probabilities P; each is written once and read once. "
        "No mask. How many bytes does it move?",
        head.n, head.d, head.type);
    reason(question, "S and P, each written and read: 4 N^2. Q, K, V read, O written: 4 N d.");
    reason(question, "N^2 = %s; 4 N^2 = %.0f.", format_whole(square, scores), 4 * scores);
    reason(question, "4 N d = %.0f.", compulsory_elements(head.n, head.d));
    reason(question, "Sum: %s elements of %.0f bytes each.", format_whole(all, elements),
           head.bytes);
    expect_mistake(question, scores * head.bytes,
                   "That is the score matrix once. S and P are each written and read.");
    expect_mistake(question, 2 * scores * head.bytes,
                   "That is two passes over the matrix. There are four: S and P, each written and "
                   "read.");
    expect_mistake(question, 4 * scores * head.bytes,
                   "Q, K, V and O are missing: they add 4 N d elements.");
    expect_mistake(question, naive_hbm_elements(head.n, head.d, true) * head.bytes,
                   "That has six passes over the matrix, as with a mask as a pass of its own.");
    expect_mistake(question, elements, "That is the number of elements, not of bytes.");
    answer_near(question, elements * head.bytes, bytes_unit(elements * head.bytes));
}

static void naive_matrix(Question *question, Draw *draw) {
    char square[NUMBER_BYTES];
    const Head head = draw_head(draw, 9, 14);
    const double heads = (double)draw_one_of(draw, "heads", few_heads, 6);
    const double bytes = heads * score_elements(head.n) * head.bytes;
    ask(question,
        "The scores of %.0f head%s are kept whole, N = %.0f queries and as many keys each, d = "
        "%.0f, %s. How much memory do they take?",
        heads, heads == 1 ? "" : "s", head.n, head.d, head.type);
    reason(question, "A score for each query and key: N^2 = %s, whatever d is.",
           format_whole(square, score_elements(head.n)));
    reason(question, "Times %.0f head%s and %.0f bytes.", heads, heads == 1 ? "" : "s", head.bytes);
    expect_mistake(question, heads * head.n * head.d * head.bytes,
                   "That is N d, the size of Q. The scores are N x N.");
    expect_mistake(question, bytes / head.bytes, "That is the number of scores, not of bytes.");
    expect_mistake(question, score_elements(head.n) * head.bytes, "That is one head.");
    answer_near(question, bytes, bytes_unit(bytes));
}

static void naive_causal(Question *question, Draw *draw) {
    char square[NUMBER_BYTES];
    const Head head = draw_head(draw, 9, 14);
    const double elements = naive_hbm_elements(head.n, head.d, true);
    ask(question,
        "Naive causal attention of one head, N = %.0f queries and as many keys, d = %.0f, %s. The "
        "mask is a pass of its own over the whole stored matrix of scores. How many bytes are "
        "moved? (Nothing is skipped; the mask itself takes no memory.)",
        head.n, head.d, head.type);
    reason(question, "Scores written, read and written by the mask, read by the softmax; "
                     "probabilities written and read: 6 N^2.");
    reason(question, "Q, K, V read, O written: 4 N d = %.0f.", compulsory_elements(head.n, head.d));
    reason(question, "N^2 = %s; 6 N^2 + 4 N d = %.0f elements of %.0f bytes.",
           format_whole(square, score_elements(head.n)), elements, head.bytes);
    expect_mistake(question, naive_hbm_elements(head.n, head.d, false) * head.bytes,
                   "That is without the mask's pass, which reads and writes the scores once more.");
    expect_mistake(question,
                   (5 * score_elements(head.n) + compulsory_elements(head.n, head.d)) * head.bytes,
                   "That has five passes: the mask reads the scores and writes them.");
    expect_mistake(question, 6 * score_elements(head.n) * head.bytes,
                   "Q, K, V and O are missing: they add 4 N d elements.");
    expect_mistake(question, elements, "That is the number of elements, not of bytes.");
    answer_near(question, elements * head.bytes, bytes_unit(elements * head.bytes));
}

static void naive_model_time(Question *question, Draw *draw) {
    static const int64_t model_heads[] = {8, 16, 32, 64};
    char text[NUMBER_BYTES], rate_text[NUMBER_BYTES];
    const double n = (double)draw_power(draw, "N", 11, 14);
    const double heads = (double)draw_one_of(draw, "heads", model_heads, 4);
    const double layers = (double)draw_one_of(draw, "layers", many_layers, 5);
    const double rate = (double)draw_one_of(draw, "GB/s", rates, 5) * 1e9;
    const double bytes = heads * layers * 4 * score_elements(n) * 2;
    const double seconds = seconds_at(bytes, rate);
    ask(question,
        "A model of %.0f layers with %.0f heads each, naive attention at N = %.0f, 16-bit: S and P "
        "of every head are written once and read once. How long do these four passes take at "
        "least at %s TB/s (1 TB = 10^12 B)? Leave out Q, K, V and O.",
        layers, heads, n, format_number(rate_text, rate / 1e12));
    reason(question, "4 N^2 elements of 2 bytes a head: %.0f bytes.", 4 * score_elements(n) * 2);
    reason(question, "Times %.0f x %.0f heads: %s GB.", layers, heads,
           format_number(text, bytes / 1e9));
    reason(question, "Divided by %.0f GB/s.", rate / 1e9);
    expect_mistake(question, seconds / 2, "That is half: one byte an element, or two passes.");
    expect_mistake(question, seconds / 4,
                   "That is a quarter: S and P, each written and read, are "
                   "four passes.");
    expect_mistake(question, seconds / layers, "That is one layer.");
    expect_mistake(question, seconds / heads, "That is one head of each layer.");
    answer_near(question, seconds, "ms");
}

const Topic naive_topic = {"naive-bytes",
                           "bytes of naive attention",
                           "chapters/ch01_naive",
                           {naive_total, naive_matrix, naive_causal, naive_model_time}};

// ---- compulsory bytes ---------------------------------------------------------------------------

static void compulsory_square(Question *question, Draw *draw) {
    const Head head = draw_head(draw, 10, 16);
    const double heads = (double)draw_one_of(draw, "heads", few_heads, 6);
    const double one = compulsory_elements(head.n, head.d) * head.bytes;
    const double bytes = heads * one;
    ask(question,
        "Attention of %.0f head%s, N = %.0f queries and as many keys, d = %.0f, %s. How many bytes "
        "must move whatever the algorithm, the inputs read once and the output written once?",
        heads, heads == 1 ? "" : "s", head.n, head.d, head.type);
    reason(question, "Q, K and V read, O written, each N d elements: 4 N d.");
    reason(question, "4 x %.0f x %.0f = %.0f elements of %.0f bytes: %.0f bytes a head.", head.n,
           head.d, one / head.bytes, head.bytes, one);
    if (heads > 1) {
        reason(question, "Times %.0f heads.", heads);
    }
    expect_mistake(question, bytes * 3 / 4, "That is three tensors: O is written too.");
    expect_mistake(question, bytes / 2, "That is two of the four tensors Q, K, V and O.");
    expect_mistake(question, one, "That is one head.");
    expect_mistake(question, bytes / head.bytes, "That is the number of elements, not of bytes.");
    answer_near(question, bytes, bytes_unit(bytes));
}

static void compulsory_chunk(Question *question, Draw *draw) {
    // Close enough to each other that Q and O show in two figures.
    const double t = (double)draw_power(draw, "T", 9, 11);
    const double s = (double)draw_power(draw, "S", 11, 13);
    const double d = (double)draw_one_of(draw, "d", dims, 3);
    const int64_t size = draw_one_of(draw, "bytes", types, 2);
    const double bytes = (2 * t + 2 * s) * d * (double)size;
    ask(question,
        "One head, T = %.0f queries on S = %.0f keys, d = %.0f, %s, no mask. How many bytes must "
        "move whatever the algorithm?",
        t, s, d, type_name(size));
    reason(question, "Q read and O written have T rows, K and V have S: (2 T + 2 S) d elements.");
    reason(question, "2 T + 2 S = %.0f rows of %.0f elements of %.0f bytes: %.0f bytes.",
           2 * t + 2 * s, d, (double)size, bytes);
    expect_mistake(question, s * d * (double)size, "That is K alone (or V): both are read.");
    expect_mistake(question, 4 * s * d * (double)size,
                   "That gives Q and O S rows as well: they have T.");
    expect_mistake(question, 2 * s * d * (double)size, "That is K and V without Q and O.");
    expect_mistake(question, (t + 2 * s) * d * (double)size, "O is missing.");
    answer_near(question, bytes, bytes_unit(bytes));
}

static void compulsory_ratio(Question *question, Draw *draw) {
    const double n = (double)draw_power(draw, "N", 9, 15);
    const double d = (double)draw_one_of(draw, "d", dims, 3);
    const double ratio = naive_hbm_elements(n, d, false) / compulsory_elements(n, d);
    ask(question,
        "One head, N = %.0f, d = %.0f, no mask. Naive attention moves 4 N^2 + 4 N d elements. How "
        "many times the compulsory traffic is that?",
        n, d);
    reason(question, "Compulsory: 4 N d. (4 N^2 + 4 N d) / (4 N d) = N / d + 1.");
    reason(question, "%.0f / %.0f + 1.", n, d);
    expect_mistake(question, n / d, "That is the score matrix alone: Q, K, V and O add 1.");
    expect_mistake(question, n, "That is N: it is to be divided by d.");
    expect_mistake(question, 4 * ratio,
                   "That divides by N d: the compulsory traffic is four such tensors.");
    answer_near(question, ratio, "");
}

const Topic compulsory_topic = {"compulsory",
                                "compulsory bytes",
                                "chapters/ch01_naive",
                                {compulsory_square, compulsory_chunk, compulsory_ratio}};
