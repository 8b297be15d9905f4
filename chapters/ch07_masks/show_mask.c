// ./ch07, the masks drawn: small ones key by key, larger ones tile by tile, and both as rows of the
// CSV, from which plot.gp makes pictures.
#include "chapters/ch07_masks/show.h"

#include <stdio.h>
#include <string.h>

// ---- a page of characters -----------------------------------------------------------------------

enum { PAGE_ROWS = 34, PAGE_COLUMNS = 78 };
typedef struct Page {
    char text[PAGE_ROWS][PAGE_COLUMNS + 1];
} Page;

static Page page_blank(void) {
    Page page;
    memset(&page, ' ', sizeof page);
    for (int row = 0; row < PAGE_ROWS; row++) {
        page.text[row][PAGE_COLUMNS] = '\0';
    }
    return page;
}

// Writes a text from `column` on, as much of it as the page has room for.
static void page_write(Page *page, int row, int column, const char *text) {
    for (; *text != '\0' && row < PAGE_ROWS && column < PAGE_COLUMNS; text++, column++) {
        page->text[row][column] = *text;
    }
}

// Prints `rows` rows, indented by two, without blanks at their ends.
static void page_print(Page *page, int rows) {
    for (int row = 0; row < rows; row++) {
        int end = PAGE_COLUMNS;
        while (end > 0 && page->text[row][end - 1] == ' ') {
            end--;
        }
        page->text[row][end] = '\0';
        printf("%s%s\n", end > 0 ? "  " : "", page->text[row]);
    }
}

// ---- key by key ---------------------------------------------------------------------------------

enum { SMALL_BLOCKS = 8, PICTURE = 26, SMALL_ROWS = 8 };

// Writes one mask of single keys below a caption: x is seen, . is not.
static void draw_keys(Page *page, int column, const char *caption, Mask mask, int len_kv) {
    page_write(page, 0, column, caption);
    for (int row = 0; row < mask.len_q; row++) {
        for (int key = 0; key < len_kv; key++) {
            page_write(page, row + 1, column + 2 * key, mask_sees(mask, row, key) ? "x" : ".");
        }
    }
}

// The same of a list: a character is a block of queries and a block of keys.
static void draw_list(Page *page, int column, const char *caption, const BlockList *list) {
    page_write(page, 0, column, caption);
    for (int i = 0; i < SMALL_BLOCKS; i++) {
        for (int j = 0; j < SMALL_BLOCKS; j++) {
            page_write(page, i + 1, column + 2 * j, ".");
        }
        for (int32_t at = list->offsets[i]; at < list->offsets[i + 1]; at++) {
            page_write(page, i + 1, column + 2 * list->blocks[at], "#");
        }
    }
}

void show_gallery(const Show *show) {
    const int64_t len = SMALL_BLOCKS * BLOCK_SPARSE;
    const AttnShape shape = {1, 1, 1, len, len, 64, 0, false, 0, NULL};
    BlockList list;
    lesson_require(show->program, block_list_random(&list, &shape, 0.3, false, 4));
    report_section("The masks, key by key: a row is a query, a column a key; x is seen");
    Page page = page_blank();
    draw_keys(&page, 0, "causal, T = S = 8", (Mask){8, 8, 1, 0}, 8);
    draw_keys(&page, PICTURE, "window 3, T = S = 8", (Mask){8, 8, 1, 3}, 8);
    draw_keys(&page, 2 * PICTURE, "chunk, T = 4 of S = 12", (Mask){4, 12, 1, 0}, 12);
    page_print(&page, SMALL_ROWS + 1);
    printf("\n");
    page = page_blank();
    draw_keys(&page, 0, "T = 8, S = 5: empty rows", (Mask){8, 5, 1, 0}, 5);
    draw_keys(&page, PICTURE, "padding, 6 keys of 8", (Mask){8, 6, 0, 0}, 8);
    draw_list(&page, 2 * PICTURE, "a list, 8 x 8 blocks", &list);
    page_print(&page, SMALL_ROWS + 1);
    block_list_free(&list);
    report_text("Causal is aligned at the bottom right: the last query sees the last key. A chunk "
                "is a piece of a longer prompt, or, with one row, a decode step. The list's "
                "characters are blocks of %d x %d pairs.",
                BLOCK_SPARSE, BLOCK_SPARSE);
}

// ---- tile by tile -------------------------------------------------------------------------------

enum { WIDE = 64, NARROW = 32, TALL = 32, EXAMPLE_LEN = 2048, EXAMPLE_WINDOW = 512 };

static const char class_letters[] = {'.', '+', '#'}; // by TileClass

// Tiles that one character stands for in each direction, so that the picture has at most
// `columns` columns and TALL rows.
static int64_t tiles_a_character(Mask mask, int block_q, int block_k, int columns) {
    const int64_t tiles_q = (mask.len_q + block_q - 1) / block_q;
    const int64_t tiles_k = (mask.keys + block_k - 1) / block_k;
    int64_t tiles = 1;
    while (tiles_q > tiles * TALL || tiles_k > tiles * columns) {
        tiles++;
    }
    return tiles;
}

// What a square of tiles has in common; partial where they differ.
static TileClass square_class(Mask mask, int block_q, int block_k, int64_t row0, int64_t key0,
                              int64_t tiles) {
    int seen[3] = {0, 0, 0};
    for (int64_t i = 0; i < tiles && row0 + i * block_q < mask.len_q; i++) {
        for (int64_t j = 0; j < tiles && key0 + j * block_k < mask.keys; j++) {
            seen[mask_tile(mask, (int)(row0 + i * block_q), block_q, (int)(key0 + j * block_k),
                           block_k)] = 1;
        }
    }
    if (seen[TILE_SKIP] + seen[TILE_PARTIAL] + seen[TILE_FULL] > 1) {
        return TILE_PARTIAL;
    }
    return seen[TILE_FULL] ? TILE_FULL : seen[TILE_PARTIAL] ? TILE_PARTIAL : TILE_SKIP;
}

// Draws a mask's tiles below its caption; returns the rows that it takes.
static int draw_tiles(Page *page, int column, int columns, const char *caption, Mask mask,
                      int block_q, int block_k) {
    const int64_t tiles = tiles_a_character(mask, block_q, block_k, columns);
    int rows = 1;
    page_write(page, 0, column, caption);
    for (int64_t row0 = 0; row0 < mask.len_q; row0 += tiles * block_q) {
        int at = column;
        for (int64_t key0 = 0; key0 < mask.keys; key0 += tiles * block_k) {
            const char text[] = {
                class_letters[square_class(mask, block_q, block_k, row0, key0, tiles)], '\0'};
            page_write(page, rows, at++, text);
        }
        rows++;
    }
    return rows;
}

// How many tiles of each class, and what a character stands for.
static void describe(const char *name, Mask mask, int block_q, int block_k, int columns) {
    const TileTally tally = mask_tally(mask, block_q, block_k);
    const int64_t tiles = tiles_a_character(mask, block_q, block_k, columns);
    char scale[64] = "a character is a tile";
    char a[32], b[32], c[32];
    if (tiles > 1) {
        snprintf(scale, sizeof scale, "a character is %lld x %lld tiles", (long long)tiles,
                 (long long)tiles);
    }
    report_text("%s: %s of %s tiles visited (%.1f %%), %s of them partial; %s.", name,
                format_count(a, (double)tally.visited), format_count(b, (double)tally.all),
                tally.all > 0 ? 100.0 * (double)tally.visited / (double)tally.all : 0.0,
                format_count(c, (double)tally.partial), scale);
}

// ---- for the picture ----------------------------------------------------------------------------

enum { PICTURE_LEN = 1536, PICTURE_CHUNK = 512, PICTURE_WINDOW = 384 };

// One row of the CSV for each tile of 64 x 64; where there is a list, tiles that it lacks are
// skipped.
static void picture_rows(const Show *show, const char *name, Mask mask, const BlockList *list) {
    for (int i = 0; i * BLOCK_SPARSE < mask.len_q; i++) {
        int32_t at = list != NULL ? list->offsets[i] : 0;
        for (int j = 0; j * BLOCK_SPARSE < mask.keys; j++) {
            TileClass class =
                mask_tile(mask, i * BLOCK_SPARSE, BLOCK_SPARSE, j * BLOCK_SPARSE, BLOCK_SPARSE);
            if (list != NULL && (at == list->offsets[i + 1] || list->blocks[at] != j)) {
                class = TILE_SKIP;
            } else if (list != NULL) {
                at++;
            }
            csv_row(show->csv, "tile,%s,%d,%d,%d,0", name, j, i, (int)class);
        }
    }
}

static void save_pictures(const Show *show) {
    const AttnShape shape = {1, 1, 1, PICTURE_LEN, PICTURE_LEN, 64, 0, true, 0, NULL};
    const Mask causal = mask_of_shape(&shape, 0);
    Mask window = causal, chunk = causal;
    BlockList list;
    window.window = PICTURE_WINDOW;
    chunk.len_q = PICTURE_CHUNK;
    lesson_require(show->program,
                   block_list_random(&list, &shape, 0.25, true, show->options->seed));
    picture_rows(show, "causal", causal, NULL);
    picture_rows(show, "window", window, NULL);
    picture_rows(show, "chunk", chunk, NULL);
    picture_rows(show, "list", causal, &list);
    block_list_free(&list);
}

void show_tiles(const Show *show, const AttnShape *asked) {
    const bool own = show->options->q != NULL || show->options->shape_given;
    char heading[96];
    int block_q, block_k;
    causal_tile(asked->dim, &block_q, &block_k);
    snprintf(heading, sizeof heading, "The mask by tiles of %d queries x %d keys (d = %lld)",
             block_q, block_k, (long long)asked->dim);
    report_section(heading);
    Page page = page_blank();
    if (own && asked->causal) {
        const Mask mask = mask_of_shape(asked, 0);
        page_print(&page, draw_tiles(&page, 0, WIDE, "as asked", mask, block_q, block_k));
        describe("As asked", mask, block_q, block_k, WIDE);
    } else {
        // Without a mask, or without sizes, there is little to see: the causal one is beside it.
        Mask left = mask_of_shape(asked, 0), right = left;
        if (!own) {
            left = right = (Mask){EXAMPLE_LEN, EXAMPLE_LEN, 1, 0};
            right.window = asked->window != 0 ? (int)asked->window : EXAMPLE_WINDOW;
        }
        right.causal = 1;
        char names[2][64] = {"as asked", "the same, causal"};
        if (!own) {
            snprintf(names[0], sizeof names[0], "causal, T = S = %d", EXAMPLE_LEN);
            snprintf(names[1], sizeof names[1], "and a window of %d", right.window);
        }
        const int rows = draw_tiles(&page, 0, NARROW, names[0], left, block_q, block_k);
        const int more = draw_tiles(&page, NARROW + 4, NARROW, names[1], right, block_q, block_k);
        page_print(&page, rows > more ? rows : more);
        describe("Left", left, block_q, block_k, NARROW);
        describe("Right", right, block_q, block_k, NARROW);
    }
    if (show->csv != NULL) {
        save_pictures(show);
    }
    report_text("# is full: no score is asked for; + partial: a border of the mask runs through "
                "it, and each score is asked for; . skipped: not visited, not loaded.");
}
