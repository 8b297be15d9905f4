// FLOP per byte (chapters 1 and 8), and what a forward pass keeps for the backward. The formulas
// are those of common/model.h; N f / 4 and 2 g T / f are theirs divided.
#include "common/model.h"
#include "tests/drill/drill.h"

static const int64_t dims[] = {64, 128, 256};
static const int64_t types[] = {2, 4};

// ---- intensity ----------------------------------------------------------------------------------

static void intensity_flops(Question *question, Draw *draw) {
    const double t = (double)draw_power(draw, "T", 9, 13);
    const double s = (double)draw_power(draw, "S", 12, 15);
    const double d = (double)draw_one_of(draw, "d", dims, 3);
    const double flops = attention_flops(t, s, d);
    ask(question,
        "One head, T = %.0f queries on S = %.0f keys, d = %.0f, no mask. How many FLOP do the two "
        "products Q K^T and P V take, a multiply-add counting 2?",
        t, s, d);
    reason(question, "Each product has T S d multiply-adds, 2 T S d FLOP; both: 4 T S d.");
    reason(question, "4 x %.0f x %.0f x %.0f = %.0f.", t, s, d, flops);
    expect_mistake(question, flops / 2,
                   "That is half: one product, or a multiply-add counted once.");
    expect_mistake(question, flops / 4, "That is T S d: two products, each multiply-add 2.");
    answer_near(question, flops, flops < 1e12 ? "GFLOP" : "TFLOP");
}

static void intensity_compulsory(Question *question, Draw *draw) {
    const double n = (double)draw_power(draw, "N", 9, 15);
    const double d = (double)draw_one_of(draw, "d", dims, 3);
    const int64_t size = draw_one_of(draw, "bytes", types, 2);
    const double bytes = compulsory_elements(n, d) * (double)size;
    const double flops = attention_flops(n, n, d);
    ask(question,
        "One head, N = %.0f queries and as many keys, d = %.0f, %s, no mask. What is the intensity "
        "when only the compulsory bytes move?",
        n, d, type_name(size));
    reason(question, "FLOP: 4 N^2 d = %.0f.", flops);
    reason(question, "Bytes: 4 N d x %.0f = %.0f.", (double)size, bytes);
    reason(question, "The 4 N d cancel: N / %.0f; d does not matter.", (double)size);
    expect_mistake(question, n, "That is FLOP per element: an element has more than one byte.");
    expect_mistake(question, n * d / (double)size, "That leaves d in: it cancels.");
    expect_mistake(question, n / 2 / (double)size,
                   "That is half: 4 N^2 d FLOP over 4 N d elements.");
    expect_mistake(question, 2 * n / (double)size,
                   "That is double: 4 N^2 d FLOP over 4 N d elements.");
    answer_near(question, arithmetic_intensity(flops, bytes), "FLOP/B");
}

static void intensity_naive(Question *question, Draw *draw) {
    const double n = (double)draw_power(draw, "N", 9, 14);
    const double d = (double)draw_one_of(draw, "d", dims, 3);
    const int64_t size = draw_one_of(draw, "bytes", types, 2);
    const double bytes = naive_hbm_elements(n, d, false) * (double)size;
    const double flops = attention_flops(n, n, d);
    ask(question,
        "One head, N = %.0f, d = %.0f, %s, no mask. Naive attention moves 4 N^2 + 4 N d elements. "
        "What is its intensity?",
        n, d, type_name(size));
    reason(question, "FLOP: 4 N^2 d = %.0f.", flops);
    reason(question, "Bytes: (4 N^2 + 4 N d) x %.0f = %.0f.", (double)size, bytes);
    reason(question, "4 N cancels: N d / ((N + d) x %.0f), close to d / %.0f when N is long.",
           (double)size, (double)size);
    expect_mistake(question, n / (double)size, "That is the intensity of the compulsory bytes.");
    expect_mistake(question, flops / bytes * (double)size,
                   "That is FLOP per element: an element has more than one byte.");
    expect_mistake(question, d / (double)size,
                   "That leaves out Q, K, V and O, which add 4 N d elements.");
    answer_near(question, arithmetic_intensity(flops, bytes), "FLOP/B");
}

static void intensity_decode(Question *question, Draw *draw) {
    static const int64_t groups[] = {2, 4, 5, 7, 8, 12, 16};
    const double group = (double)draw_one_of(draw, "group", groups, 7);
    const double t = (double)draw_one_of(draw, "T", (const int64_t[]){1, 1, 2, 4}, 4);
    const int64_t size = draw_one_of(draw, "bytes", types, 2);
    const double value = 2 * group * t / (double)size;
    ask(question,
        "Decoding: %.0f query heads share one KV head, each with %.0f quer%s; a long %s cache. The "
        "keys and values are read once for all of them; everything else is small. What is the "
        "intensity?",
        group, t, t == 1 ? "y" : "ies", type_name(size));
    reason(question, "A key and its value: 2 d elements, 2 d x %.0f bytes.", (double)size);
    reason(question, "A query does 2 d FLOP with the key and 2 d with the value: 4 d.");
    reason(question, "%.0f x %.0f queries use them: 4 d x %.0f / (2 d x %.0f).", group, t,
           group * t, (double)size);
    expect_mistake(question, 2 * t / (double)size,
                   "That is without sharing: all heads of the group use what was read.");
    expect_mistake(question, value / 2,
                   "That is half: 4 d FLOP a query and key, over 2 d elements.");
    expect_mistake(question, 2 * value,
                   "That is double: K and V are both read, 2 d elements a key.");
    answer_near(question, value, "FLOP/B");
}

const Topic intensity_topic = {
    "intensity",
    "FLOP and intensity",
    "chapters/ch01_naive",
    {intensity_flops, intensity_compulsory, intensity_naive, intensity_decode}};

// ---- saved bytes in the backward ----------------------------------------------------------------

// The heads of one layer, their length, and the type that probabilities would be kept in.
typedef struct Layer {
    double heads, n, bytes;
    const char *type;
    double lse, probabilities; // bytes of all heads
} Layer;

static Layer draw_layer(Draw *draw) {
    static const int64_t heads[] = {8, 12, 16, 32, 64};
    Layer layer = {0};
    layer.heads = (double)draw_one_of(draw, "heads", heads, 5);
    layer.n = (double)draw_power(draw, "N", 10, 15);
    const int64_t bytes = draw_one_of(draw, "bytes", types, 2);
    layer.bytes = (double)bytes;
    layer.type = type_name(bytes);
    layer.lse = layer.heads * layer.n * 4;
    layer.probabilities = layer.heads * score_elements(layer.n) * layer.bytes;
    return layer;
}

static void backward_lse(Question *question, Draw *draw) {
    const Layer layer = draw_layer(draw);
    ask(question,
        "The forward pass keeps the log-sum-exp of every query for the backward, in float32, while "
        "Q, K, V and O are %s. %.0f heads, N = %.0f, one sequence: how many bytes of log-sum-exp?",
        layer.type, layer.heads, layer.n);
    reason(question, "One number of 4 bytes for each row of each head, whatever the other types.");
    reason(question, "%.0f x %.0f x 4 = %.0f bytes.", layer.heads, layer.n, layer.lse);
    expect_mistake(question, layer.lse / 2, "That is half: float32 has 4 bytes.");
    expect_mistake(question, layer.lse / 4, "That is the number of rows; each has 4 bytes.");
    expect_mistake(question, layer.n * 4, "That is one head.");
    answer_near(question, layer.lse, bytes_unit(layer.lse));
}

static void backward_probabilities(Question *question, Draw *draw) {
    char square[NUMBER_BYTES];
    const Layer layer = draw_layer(draw);
    ask(question,
        "A backward pass that does not rebuild the probabilities P has to keep them from the "
        "forward pass, as %s numbers. %.0f heads, N = %.0f queries and as many keys, one sequence: "
        "how "
        "many "
        "bytes of P?",
        layer.type, layer.heads, layer.n);
    reason(question, "N^2 = %s a head.", format_whole(square, score_elements(layer.n)));
    reason(question, "Times %.0f heads and %.0f bytes.", layer.heads, layer.bytes);
    expect_mistake(question, layer.lse, "That is the log-sum-exp, one number a row.");
    expect_mistake(question, layer.probabilities / layer.heads, "That is one head.");
    expect_mistake(question, layer.probabilities / layer.bytes,
                   "That is the number of probabilities, not of bytes.");
    answer_near(question, layer.probabilities, bytes_unit(layer.probabilities));
}

static void backward_ratio(Question *question, Draw *draw) {
    const Layer layer = draw_layer(draw);
    ask(question,
        "For the backward, either P is kept, N = %.0f, %s, or the log-sum-exp of each row, "
        "float32, "
        "from which P is rebuilt. There are %.0f heads. How many times more memory does P take?",
        layer.n, layer.type, layer.heads);
    reason(question, "A row of P: %.0f x %.0f = %.0f bytes. Its log-sum-exp: 4 bytes.", layer.n,
           layer.bytes, layer.n * layer.bytes);
    reason(question, "N x %.0f / 4; the number of heads cancels.", layer.bytes);
    expect_mistake(question, layer.n,
                   "That is the ratio of the elements. Their sizes differ: the log-sum-exp is "
                   "float32.");
    expect_mistake(question, layer.n * layer.bytes, "That is bytes of P a row: divide by 4.");
    answer_near(question, layer.probabilities / layer.lse, "");
}

static void backward_saved(Question *question, Draw *draw) {
    static const int64_t depths[] = {12, 16, 24, 32, 40, 80};
    char kept[NUMBER_BYTES], rows[NUMBER_BYTES];
    const Layer layer = draw_layer(draw);
    const double layers = (double)draw_one_of(draw, "layers", depths, 6);
    const double saved = layers * (layer.probabilities - layer.lse);
    ask(question,
        "Training a model of %.0f layers, %.0f heads each, one sequence of N = %.0f. Until the "
        "backward pass, each layer keeps the log-sum-exp of its rows (float32) in place of P (%s). "
        "How many bytes does that save in all layers together?",
        layers, layer.heads, layer.n, layer.type);
    reason(question, "P of a layer: %.0f x N^2 x %.0f = %s MiB.", layer.heads, layer.bytes,
           format_number(kept, layer.probabilities / 1048576));
    reason(question, "Log-sum-exp of a layer: %.0f x N x 4 = %s MiB, next to nothing.", layer.heads,
           format_number(rows, layer.lse / 1048576));
    reason(question, "The difference, times %.0f layers.", layers);
    expect_mistake(question, saved / layers, "That is one layer.");
    expect_mistake(question, layers * layer.lse, "That is what is kept, not what is saved.");
    expect_mistake(question, saved / layer.heads, "That is one head of each layer.");
    answer_near(question, saved, bytes_unit(saved));
}

static void backward_rows(Question *question, Draw *draw) {
    const Layer layer = draw_layer(draw);
    const double bytes = 2 * layer.lse;
    ask(question,
        "The backward pass reads two numbers a row beside the tensors: the log-sum-exp, and D = "
        "rowsum(dO * O), both float32. %.0f heads, N = %.0f, tensors %s: how many bytes are these "
        "two together?",
        layer.heads, layer.n, layer.type);
    reason(question, "Each is one number of 4 bytes for every row of every head.");
    reason(question, "2 x %.0f x %.0f x 4 = %.0f bytes.", layer.heads, layer.n, bytes);
    expect_mistake(question, layer.lse, "That is half: one of the two, or 2 bytes each.");
    expect_mistake(question, bytes / 4, "That is how many numbers there are; each has 4 bytes.");
    answer_near(question, bytes, bytes_unit(bytes));
}

const Topic backward_topic = {
    "backward",
    "saved bytes in the backward",
    "chapters/ch01_naive",
    {backward_lse, backward_probabilities, backward_ratio, backward_saved, backward_rows}};
