// What every lesson program prints, and how: sections, cards, tables, CSV.
#include "common/report.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PAGE_WIDTH = 80,
    INDENT = 2,
    CARD_VALUE_END = 39, // column after a card's value
    CARD_FORMULA = 42,   // column where its formula starts
    NUMBER_TEXT = 32,    // room that the format_ functions may use
};

// ---- text ---------------------------------------------------------------------------------------

// Columns that a UTF-8 text of ordinary characters takes: its bytes but for continuation bytes.
static int text_width(const char *text, size_t bytes) {
    int width = 0;
    for (size_t i = 0; i < bytes && text[i] != '\0'; i++) {
        width += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
    return width;
}

// Prints words from column `start` on, the cursor being at `column`, and breaks lines before the
// page's end; further lines start at column `indent`. A newline in the text breaks the line too.
static void print_wrapped(const char *text, int column, int start, int indent) {
    int gap = start - column; // blanks due before the next word: none are left at a line's end
    bool first = true;        // no word is on this line yet
    while (*text != '\0') {
        if (*text == '\n' || *text == ' ') {
            if (*text == '\n') {
                putchar('\n');
                column = 0;
                gap = indent;
                first = true;
            }
            text++;
            continue;
        }
        size_t bytes = strcspn(text, " \n");
        int width = text_width(text, bytes);
        if (!first && column + gap + width > PAGE_WIDTH) {
            putchar('\n');
            column = 0;
            gap = indent;
        }
        printf("%*s%.*s", gap, "", (int)bytes, text);
        column += gap + width;
        gap = 1;
        first = false;
        text += bytes;
    }
    putchar('\n');
}

// Bold is used on a terminal only, and not where the reader has asked for none.
static bool may_use_bold(void) {
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && (no_color == NULL || *no_color == '\0') && term != NULL &&
           strcmp(term, "dumb") != 0;
}

static void print_bold(const char *text) {
    bool bold = may_use_bold();
    printf("%s%s%s", bold ? "\033[1m" : "", text, bold ? "\033[0m" : "");
}

// A formatted text on the heap; the program ends when there is no memory for a line of text.
static char *format_text(const char *format, va_list arguments) {
    char *text;
    if (vasprintf(&text, format, arguments) < 0) {
        fprintf(stderr, "report: out of memory\n");
        abort();
    }
    return text;
}

void report_title(const char *chapter, const char *title, const char *shows) {
    print_bold(chapter);
    printf("  ");
    print_bold(title);
    putchar('\n');
    print_wrapped(shows, 0, INDENT, INDENT);
}

void report_section(const char *heading) {
    putchar('\n');
    print_bold(heading);
    putchar('\n');
    fflush(stdout);
}

void report_text(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = format_text(format, arguments);
    va_end(arguments);
    print_wrapped(text, 0, INDENT, INDENT);
    free(text);
}

void report_card(const char *name, const char *value, const char *formula) {
    int name_end = INDENT + text_width(name, strlen(name));
    int gap = CARD_VALUE_END - name_end - text_width(value, strlen(value));
    gap = gap < 2 ? 2 : gap;
    printf("%*s%s%*s%s", INDENT, "", name, gap, "", value);
    int column = name_end + gap + text_width(value, strlen(value));
    int start = column + 2 > CARD_FORMULA ? column + 2 : CARD_FORMULA;
    print_wrapped(formula == NULL ? "" : formula, column, start, CARD_FORMULA);
}

// ---- numbers ------------------------------------------------------------------------------------

char *format_iec(char *text, double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int unit = 0;
    while (fabs(bytes) >= 1024 && unit < 6) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, NUMBER_TEXT, "%.4g %s", bytes, units[unit]);
    return text;
}

char *format_si(char *text, double value, const char *unit) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    int prefix = 0;
    while (fabs(value) >= 999.95 && prefix < 6) {
        value /= 1000;
        prefix++;
    }
    if (prefix == 0 && value == floor(value)) {
        snprintf(text, NUMBER_TEXT, "%.0f %s", value, unit);
    } else {
        snprintf(text, NUMBER_TEXT, "%.*f %s%s", fabs(value) < 9.995 ? 2 : 1, value,
                 prefixes[prefix], unit);
    }
    return text;
}

char *format_count(char *text, double value) {
    char digits[NUMBER_TEXT];
    if (!(fabs(value) < 1e15)) {
        snprintf(text, NUMBER_TEXT, "%.4g", value);
        return text;
    }
    int length = snprintf(digits, sizeof digits, "%.0f", fabs(value));
    char *end = text;
    if (value <= -0.5) {
        *end++ = '-';
    }
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            *end++ = ',';
        }
        *end++ = digits[i];
    }
    *end = '\0';
    return text;
}

char *format_seconds(char *text, double seconds) {
    static const char *const units[] = {"s", "ms", "us", "ns"};
    int unit = 0;
    while (fabs(seconds) < 0.9995 && unit < 3) {
        seconds *= 1000;
        unit++;
    }
    double size = fabs(seconds);
    int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    snprintf(text, NUMBER_TEXT, "%.*f %s", decimals, seconds, units[unit]);
    return text;
}

// ---- tables -------------------------------------------------------------------------------------

static void table_abort(const char *problem, const char *where) {
    fprintf(stderr, "report: a table has too many %s: %s\n", problem, where);
    abort();
}

// Copies the cells of one line, separated by '|', into the next row. A cell that is longer than
// REPORT_CELL - 1 bytes is cut. Returns how many there were.
static int add_row(Table *table, const char *line) {
    if (table->rows == REPORT_MAX_ROWS) {
        table_abort("rows", line);
    }
    int cells = 0;
    for (const char *cell = line; cell != NULL; cells++) {
        const char *end = strchr(cell, '|');
        int bytes = end != NULL ? (int)(end - cell) : (int)strlen(cell);
        if (cells == REPORT_MAX_COLUMNS) {
            table_abort("columns", line);
        }
        snprintf(table->cells[table->rows][cells], REPORT_CELL, "%.*s", bytes, cell);
        cell = end != NULL ? end + 1 : NULL;
    }
    table->rows++;
    return cells;
}

void table_begin(Table *table, const char *headings) {
    memset(table, 0, sizeof *table);
    table->columns = add_row(table, headings);
}

void table_row(Table *table, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *line = format_text(format, arguments);
    va_end(arguments);
    if (add_row(table, line) > table->columns) {
        table_abort("cells in a row", line);
    }
    free(line);
}

void table_print(const Table *table) {
    int widths[REPORT_MAX_COLUMNS] = {0};
    for (int row = 0; row < table->rows; row++) {
        for (int column = 0; column < table->columns; column++) {
            int width = text_width(table->cells[row][column], REPORT_CELL);
            widths[column] = width > widths[column] ? width : widths[column];
        }
    }
    for (int row = 0; row < table->rows; row++) {
        int pending = INDENT; // blanks before the next character, so that none end a line
        for (int column = 0; column < table->columns; column++) {
            const char *cell = table->cells[row][column];
            int fill = widths[column] - text_width(cell, REPORT_CELL);
            int before = column == 0 ? 0 : fill;
            if (*cell != '\0') {
                printf("%*s%s", pending + before, "", cell);
                pending = 2 + fill - before;
            } else {
                pending += 2 + fill;
            }
        }
        putchar('\n');
    }
}

// ---- progress and CSV ---------------------------------------------------------------------------

void report_progress(const char *what, int done, int total) {
    if (!isatty(STDOUT_FILENO) || !isatty(STDERR_FILENO)) {
        return;
    }
    fflush(stdout);
    fprintf(stderr, "\r\033[K");
    if (total > 0) {
        fprintf(stderr, "  %s: %d of %d", what, done, total);
    }
    fflush(stderr);
}

AttnStatus csv_open(FILE **file, const char *path, const char *heading) {
    *file = NULL;
    if (path == NULL) {
        return ATTN_OK;
    }
    *file = fopen(path, "w");
    if (*file == NULL) {
        return attn_fail(ATTN_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    }
    fprintf(*file, "%s\n", heading);
    return ATTN_OK;
}

void csv_row(FILE *file, const char *format, ...) {
    if (file == NULL) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fputc('\n', file);
}

AttnStatus csv_close(FILE *file) {
    if (file == NULL) {
        return ATTN_OK;
    }
    bool failed = ferror(file) != 0;
    failed |= fclose(file) != 0;
    if (failed) {
        return attn_fail(ATTN_ERR_IO, "the CSV file could not be written: %s", strerror(errno));
    }
    return ATTN_OK;
}
