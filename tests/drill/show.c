// What the drill prints: wrapped text, the chain of reasoning, the table of scores. See drill.h.
#include "tests/drill/drill.h"

#include <ctype.h>
#include <string.h>

enum { BAR_CELLS = 10 };

// Gives a word's whole numbers of four digits or more their commas: "2 x 8192" is "2 x 8,192".
// Digits behind a point or a letter stay as they are. `out` holds at least twice the word.
static void add_commas(const char *word, size_t length, char *out) {
    size_t at = 0;
    while (at < length) {
        size_t digits = 0;
        while (at + digits < length && isdigit((unsigned char)word[at + digits])) {
            digits++;
        }
        const char before = at == 0 ? ' ' : word[at - 1];
        const bool grouped = digits >= 4 && before != '.' && !isalpha((unsigned char)before);
        for (size_t left = digits; left > 0; left--) {
            *out++ = word[at++];
            if (grouped && left > 1 && (left - 1) % 3 == 0) {
                *out++ = ',';
            }
        }
        if (at < length) {
            *out++ = word[at++];
        }
    }
    *out = '\0';
}

void print_text(FILE *out, int first, int rest, const char *text) {
    char word[2 * TEXT_BYTES];
    int column = 0;
    while (*text == ' ') {
        text++;
    }
    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        add_commas(text, length < TEXT_BYTES ? length : TEXT_BYTES - 1, word);
        const int width = (int)strlen(word);
        if (column > 0 && column + 1 + width > COLUMNS) {
            fputc('\n', out);
            column = 0;
        }
        if (column == 0) {
            column = first;
            first = rest;
            fprintf(out, "%*s%s", column, "", word);
        } else {
            fprintf(out, " %s", word);
            column++;
        }
        column += width;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

void print_painted(FILE *out, bool colour, Paint paint, const char *text) {
    static const char *const codes[] = {"32", "31", "1"};
    if (colour) {
        fprintf(out, "\033[%sm%s\033[0m", codes[paint], text);
    } else {
        fputs(text, out);
    }
}

void print_chain(FILE *out, const Question *question) {
    char line[CHAIN_BYTES + NUMBER_BYTES], number[NUMBER_BYTES];
    const char *at = question->chain;
    while (*at != '\0') {
        const size_t length = strcspn(at, "\n");
        memcpy(line, at, length);
        line[length] = '\0';
        print_text(out, 4, 6, line);
        at += length;
        at += *at == '\n' ? 1 : 0;
    }
    snprintf(line, sizeof line, "= %s", format_answer(number, question));
    print_text(out, 4, 6, line);
}

// "2/3", "-" when nothing was asked.
static char *ratio(char *text, Score score) {
    if (score.asked == 0) {
        snprintf(text, NUMBER_BYTES, "-");
    } else {
        snprintf(text, NUMBER_BYTES, "%d/%d", score.right, score.asked);
    }
    return text;
}

static void print_row(FILE *out, bool colour, const char *name, Score now, Score all) {
    char run[NUMBER_BYTES], ever[NUMBER_BYTES], bar[BAR_CELLS + 1];
    const int percent = all.asked > 0 ? (int)(100 * (int64_t)all.right / all.asked) : 0;
    for (int i = 0; i < BAR_CELLS; i++) {
        bar[i] = i < percent * BAR_CELLS / 100 ? '#' : '-';
    }
    bar[BAR_CELLS] = '\0';
    fprintf(out, "  %-16s %9s %12s  [", name, ratio(run, now), ratio(ever, all));
    print_painted(out, colour, percent >= 80 ? PAINT_GOOD : PAINT_STRONG, bar);
    fprintf(out, "] %3d %%\n", percent);
}

void print_scores(FILE *out, bool colour, const Scores *now, const Scores *all) {
    Score run = {0}, ever = {0};
    int rows = 0;
    for (int i = 0; i < TOPICS; i++) {
        const Score *a = &now->topic[i], *b = &all->topic[i];
        run = (Score){run.asked + a->asked, run.right + a->right};
        ever = (Score){ever.asked + b->asked, ever.right + b->right};
        if (b->asked > 0) {
            if (rows++ == 0) {
                fprintf(out, "  %-16s %9s %12s\n", "topic", "this run", "all runs");
            }
            print_row(out, colour, topics[i]->name, *a, *b);
        }
    }
    if (rows > 1) {
        print_row(out, colour, "total", run, ever);
    }
}
