// The questions of chapter 7: the expected answers, counted pair by pair or tile by tile.
#include "tests/grade/grade.h"

#include <math.h>

// A mask of every kind that is asked about: causal, bottom-right; the first `sinks` keys stay
// visible beside the window (0: no limit); the first `prefix` keys are visible to all.
typedef struct Mask {
    int len_q, len_kv, window, sinks, prefix;
} Mask;

static bool sees(Mask mask, int row, int key) {
    const int own = row + mask.len_kv - mask.len_q;
    const bool in_window = mask.window == 0 || key > own - mask.window || key < mask.sinks;
    return key < mask.prefix || (key <= own && in_window);
}

static double pairs_of(Mask mask) {
    double pairs = 0;
    for (int i = 0; i < mask.len_q; i++) {
        for (int j = 0; j < mask.len_kv; j++) {
            pairs += sees(mask, i, j) ? 1 : 0;
        }
    }
    return pairs;
}

// Tiles with a visible pair; *partial gets the number of those that have a hidden one as well. A
// tile is judged by its corners, and by the sinks' column: all masks here are of that kind.
static double tiles_of(Mask mask, int block, double *partial) {
    double visited = 0;
    *partial = 0;
    for (int i = 0; i < mask.len_q; i += block) {
        for (int j = 0; j < mask.len_kv; j += block) {
            const int last_row = i + block - 1, last_key = j + block - 1;
            const bool corner = sees(mask, last_row, j) || sees(mask, i, last_key);
            const bool sinks = j < mask.sinks && sees(mask, last_row, j);
            const bool diagonal = i + mask.len_kv - mask.len_q <= last_key &&
                                  last_row + mask.len_kv - mask.len_q >= j;
            const bool some = corner || sinks || diagonal;
            visited += some ? 1 : 0;
            *partial += some && !(sees(mask, last_row, j) && sees(mask, i, last_key)) ? 1 : 0;
        }
    }
    return visited;
}

static double chunk_pairs(void) {
    return pairs_of((Mask){1000, 3000, 0, 0, 0});
}

// Row 10 of a chunk of 256 queries at the end of 5,000 keys.
static double first_key_of_row(void) {
    int key = 0;
    while (!sees((Mask){256, 5000, 1024, 0, 0}, 10, key)) {
        key++;
    }
    return key;
}

static double first_row_with_a_key(void) {
    int row = 0;
    while (!sees((Mask){300, 120, 0, 0, 0}, row, 0)) {
        row++;
    }
    return row;
}

// What is left of the visible pairs when a chunk is masked from the top left corner.
static double share_of_top_left(void) {
    const Mask right = {4, 12, 0, 0, 0}, wrong = {4, 4, 0, 0, 0};
    return 100 * pairs_of(wrong) / pairs_of(right);
}

static double chunk_tiles(void) {
    double partial;
    return tiles_of((Mask){512, 2048, 0, 0, 0}, 64, &partial);
}

static double partial_share(void) {
    double partial;
    const double visited = tiles_of((Mask){16384, 16384, 0, 0, 0}, 128, &partial);
    return 100 * partial / visited;
}

static double window_tiles(void) {
    double partial;
    return tiles_of((Mask){8192, 8192, 1024, 0, 0}, 64, &partial);
}

static double sink_tiles(void) {
    double partial;
    return tiles_of((Mask){32768, 32768, 1024, 4, 0}, 64, &partial);
}

static double prefix_pairs(void) {
    return pairs_of((Mask){2048, 2048, 0, 0, 512});
}

static double causal_pairs(double len) {
    return len * (len + 1) / 2;
}

static double documents_share(void) {
    return 100 * 8 * causal_pairs(32) / causal_pairs(256);
}

// 131,072 queries in blocks of 64, each query block with 40 key blocks; 4-byte numbers.
static double csr_bytes(void) {
    const double query_blocks = 131072.0 / 64;
    return 4 * (query_blocks + 1 + query_blocks * 40);
}

// A list of 1,024 tiles over the causal mask, which visits i + 1 tiles for the i-th of 4,096 / 64
// query blocks. So few that the diagonal counts.
static double sparse_time(void) {
    const double query_blocks = 4096.0 / 64;
    return 100 * 1024 / causal_pairs(query_blocks); // of blocks as of tokens: n (n + 1) / 2
}

const GradeQuestion grade_questions[] = {
    {"q1", 1, chunk_pairs, 1e-6, "pairs",
     "The first query of the chunk stands at key S - T and sees one key more than that number; "
     "each query sees one more than the one before."},
    {"q2", 1, first_key_of_row, 1e-6, "",
     "The query's own key is row + (S - T); the window ends there, and counts it."},
    {"q3", 1, first_row_with_a_key, 1e-6, "",
     "Row i stands at key i + (S - T), which is a negative number at first."},
    {"q4", 1, share_of_top_left, 0.005, "%",
     "Top left, row i sees i + 1 keys; bottom right, i + 1 + (S - T)."},
    {"q5", 1, chunk_tiles, 1e-6, "tiles",
     "S - T is a multiple of 64: block 0 sees all tiles before its own, and its own. Each block "
     "visits one tile more than the one before."},
    {"q6", 1, partial_share, 0.005, "%",
     "One tile of each block of queries lies on the diagonal; of n blocks the i-th visits i."},
    {"q7", 1, window_tiles, 1e-6, "tiles",
     "The first query of a block sees the 1,023 keys before its own: in how many tiles do these "
     "lie? The first blocks have fewer keys before them."},
    {"q8", 1, sink_tiles, 1e-6, "tiles",
     "As with the window alone, and the tile of the sinks, where the window does not visit it "
     "anyway."},
    {"q9", 1, prefix_pairs, 1e-6, "pairs",
     "The queries up to the end of the prefix see just the prefix; from there on it is the causal "
     "number."},
    {"q10", 1, documents_share, 0.005, "%",
     "A causal document of n tokens has n (n + 1) / 2 visible pairs."},
    {"q11", 1, csr_bytes, 1e-6, "bytes",
     "One offset for each query block and one more, and 40 block numbers for each; 4 bytes each."},
    {"q12", 1, sparse_time, 0.005, "%",
     "The list visits one tile for each of its block numbers; a causal mask visits those of the "
     "diagonal and all before them."},
    {NULL, 0, NULL, 0.0, NULL, NULL},
};
