// Recorded figures: see recorded.h.
#include "common/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

// Splits a line at its commas, in place; fields beyond RECORDED_COLUMNS are left out. Returns the
// number of fields.
static int split(char *line, char *fields[RECORDED_COLUMNS]) {
    int count = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *field = line; field != NULL && count < RECORDED_COLUMNS; count++) {
        char *comma = strchr(field, ',');
        if (comma != NULL) {
            *comma++ = '\0';
        }
        fields[count] = field;
        field = comma;
    }
    return count;
}

// The column of the heading that is the first `length` bytes of `name`. -1: there is none.
static int find_column(const char *name, size_t length, char *const *fields, int count) {
    for (int i = 0; i < count; i++) {
        if (strlen(fields[i]) == length && memcmp(fields[i], name, length) == 0) {
            return i;
        }
    }
    return -1;
}

// Where the columns that `headings` names are among the file's `fields`. Returns how many were
// asked for, 0 when one of them is not there.
static int find_columns(int places[RECORDED_COLUMNS], const char *headings, char *const *fields,
                        int count) {
    int asked = 0;
    for (const char *name = headings; name != NULL; asked++) {
        const size_t length = strcspn(name, ",");
        const int place = find_column(name, length, fields, count);
        if (place < 0 || asked == RECORDED_COLUMNS) {
            return 0;
        }
        places[asked] = place;
        name = name[length] == ',' ? name + length + 1 : NULL;
    }
    return asked;
}

// Calls `use` with the row's values, unless it is too short.
static void use_row(char *const *fields, int count, const int *places, int asked, RecordedUse *use,
                    void *context) {
    char *values[RECORDED_COLUMNS];
    for (int i = 0; i < asked; i++) {
        if (places[i] >= count) {
            return;
        }
        values[i] = fields[places[i]];
    }
    use(context, values);
}

bool recorded_read(const char *path, const char *headings, RecordedUse *use, void *context) {
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    char *line = NULL, *fields[RECORDED_COLUMNS];
    size_t room = 0;
    int places[RECORDED_COLUMNS], asked = 0;
    if (getline(&line, &room, file) >= 0) {
        asked = find_columns(places, headings, fields, split(line, fields));
    }
    while (asked > 0 && getline(&line, &room, file) >= 0) {
        use_row(fields, split(line, fields), places, asked, use, context);
    }
    free(line);
    fclose(file);
    return asked > 0;
}
