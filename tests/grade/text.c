// Text buffers, and files as text.
#include "tests/grade/grader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void die(const char *format, ...) {
    va_list args;

    fflush(stdout);
    fputs("grade: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

void *allocate(size_t count, size_t size) {
    void *memory = calloc(count > 0 ? count : 1, size);

    if (memory == NULL) {
        die("out of memory");
    }
    return memory;
}

void *grown(void *items, size_t count, size_t size) {
    void *more = realloc(items, (count + 1) * size);

    if (more == NULL) {
        die("out of memory");
    }
    return more;
}

void text_add(Text *text, const char *data, size_t length) {
    if (text->length + length + 1 > text->capacity) {
        size_t capacity = 2 * (text->length + length + 1);
        char *data_now = realloc(text->data, capacity);

        if (data_now == NULL) {
            die("out of memory");
        }
        text->data = data_now;
        text->capacity = capacity;
    }
    if (length > 0) {
        memcpy(text->data + text->length, data, length);
    }
    text->length += length;
    text->data[text->length] = '\0';
}

// A new string of printf's; both callers pass their arguments on.
static char *format_args(const char *format, va_list args) {
    char *result = NULL;

    if (vasprintf(&result, format, args) < 0) {
        die("out of memory");
    }
    return result;
}

void text_format(Text *text, const char *format, ...) {
    va_list args;
    char *piece;

    va_start(args, format);
    piece = format_args(format, args);
    va_end(args);
    text_add(text, piece, strlen(piece));
    free(piece);
}

char *format_text(const char *format, ...) {
    va_list args;
    char *result;

    va_start(args, format);
    result = format_args(format, args);
    va_end(args);
    return result;
}

void text_free(Text *text) {
    free(text->data);
    *text = (Text){0};
}

char *copy_text(const char *text) {
    return format_text("%s", text);
}

char *replace_text(const char *text, const char *from, const char *to) {
    Text result = {0};
    const char *hit;

    text_add(&result, "", 0);
    while ((hit = strstr(text, from)) != NULL) {
        text_add(&result, text, (size_t)(hit - text));
        text_add(&result, to, strlen(to));
        text = hit + strlen(from);
    }
    text_add(&result, text, strlen(text));
    return result.data;
}

char *read_file(const char *path, size_t limit) {
    struct stat info;
    Text text = {0};
    char piece[4096];
    ssize_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        errno = EINVAL;
        return NULL;
    }
    text_add(&text, "", 0);
    while (text.length <= limit && (got = read(fd, piece, sizeof(piece))) > 0) {
        text_add(&text, piece, (size_t)got);
    }
    close(fd);
    if (got < 0 || text.length > limit) {
        errno = got < 0 ? errno : EFBIG;
        text_free(&text);
        return NULL;
    }
    return text.data;
}

bool write_file(const char *path, const char *text) {
    char *temporary = format_text("%s.%ld", path, (long)getpid());
    FILE *file = fopen(temporary, "we");
    bool ok = file != NULL;

    if (file != NULL) {
        ok = fputs(text, file) >= 0;
        ok = fclose(file) == 0 && ok;
        ok = ok && rename(temporary, path) == 0;
        if (!ok) {
            int error = errno;
            unlink(temporary);
            errno = error;
        }
    }
    free(temporary);
    return ok;
}

// Bytes of the printable UTF-8 character at text; 0 when there is none.
static size_t character_length(const unsigned char *text) {
    size_t length = text[0] < 0x80   ? 1
                    : text[0] < 0xC2 ? 0
                    : text[0] < 0xE0 ? 2
                    : text[0] < 0xF0 ? 3
                    : text[0] < 0xF5 ? 4
                                     : 0;

    if (length == 1) {
        return text[0] == '\n' || text[0] == '\t' || (text[0] >= ' ' && text[0] < 0x7F) ? 1 : 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    if ((text[0] == 0xC2 && text[1] < 0xA0) ||                     // control characters
        (text[0] == 0xE0 && text[1] < 0xA0) ||                     // overlong
        (text[0] == 0xED && text[1] >= 0xA0) ||                    // surrogates
        (text[0] == 0xEF && text[1] == 0xBF && text[2] >= 0xBE) || // U+FFFE, U+FFFF
        (text[0] == 0xF0 && text[1] < 0x90) || (text[0] == 0xF4 && text[1] >= 0x90)) {
        return 0;
    }
    return length;
}

void make_printable(char *text) {
    while (text != NULL && *text != '\0') {
        size_t length = character_length((const unsigned char *)text);

        if (length == 0) {
            *text = '?';
            length = 1;
        }
        text += length;
    }
}

const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

bool file_exists(const char *path) {
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool directory_exists(const char *path) {
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool make_directories(const char *path) {
    char *part = copy_text(path);
    bool ok = true;

    for (char *slash = strchr(part + 1, '/'); ok && slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        ok = mkdir(part, 0755) == 0 || errno == EEXIST;
        *slash = '/';
    }
    ok = ok && (mkdir(part, 0755) == 0 || errno == EEXIST);
    free(part);
    return ok;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

void remove_tree(const char *path) {
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void names_add(Names *names, const char *name) {
    names->name = grown(names->name, names->count, sizeof(char *));
    names->name[names->count++] = copy_text(name);
}

void names_free(Names *names) {
    for (size_t i = 0; i < names->count; i++) {
        free(names->name[i]);
    }
    free(names->name);
    *names = (Names){0};
}

Names list_files(const char *directory, const char *prefix, const char *suffix) {
    Names names = {0};
    DIR *dir = opendir(directory);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        size_t length = strlen(entry->d_name);
        char *path = format_text("%s/%s", directory, entry->d_name);

        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && length >= strlen(suffix) &&
            strcmp(entry->d_name + length - strlen(suffix), suffix) == 0 && file_exists(path)) {
            names_add(&names, entry->d_name);
        }
        free(path);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    if (names.count > 1) {
        qsort(names.name, names.count, sizeof(char *), by_name);
    }
    return names;
}
