// NPY files. A file is 6 bytes of magic, 2 of version, the header's length (2 bytes in version 1,
// else 4, little-endian), the header, and the data. The header is a Python dict literal,
//     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
// padded with spaces, of which exactly this subset is parsed here.
#include "common/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "NPY data is copied as it stands");

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

enum {
    DATA_ALIGNMENT = 64, // the data of a written file starts at a multiple of this many bytes
    MAX_TEXT = 32,       // longest string of a header, its end included
};

// What a header says.
typedef struct Header {
    char descr[MAX_TEXT];
    bool fortran_order;
    int rank;                      // may exceed TENSOR_MAX_RANK; only that many dims are kept
    int64_t dims[TENSOR_MAX_RANK]; // unused entries are 1
} Header;

// A header's text, how far it was parsed, and the file's name for messages.
typedef struct Parser {
    const char *path, *start, *at, *end;
} Parser;

static AttnStatus garbled(const Parser *parser, const char *expected) {
    return attn_fail(ATTN_ERR_IO, "%s: its header is garbled: expected %s at character %td of it",
                     parser->path, expected, parser->at - parser->start + 1);
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_space(Parser *parser) {
    while (parser->at < parser->end && is_space(*parser->at)) {
        parser->at++;
    }
}

// Takes `symbol`, white space before it skipped, if it comes next.
static bool take(Parser *parser, const char *symbol) {
    skip_space(parser);
    size_t length = strlen(symbol);
    if ((size_t)(parser->end - parser->at) < length || memcmp(parser->at, symbol, length) != 0) {
        return false;
    }
    parser->at += length;
    return true;
}

// A string in either kind of quotes, printable characters without escapes, into text.
static AttnStatus parse_string(Parser *parser, char text[MAX_TEXT]) {
    skip_space(parser);
    char quote = take(parser, "'") ? '\'' : '"';
    if (quote == '"' && !take(parser, "\"")) {
        return garbled(parser, "a quoted string");
    }
    int length = 0;
    while (parser->at < parser->end && *parser->at != quote) {
        char c = *parser->at;
        if (c < ' ' || c > '~' || c == '\\' || length == MAX_TEXT - 1) {
            return garbled(parser, "the end of a short plain string");
        }
        text[length++] = c;
        parser->at++;
    }
    text[length] = '\0';
    return take(parser, quote == '"' ? "\"" : "'") ? ATTN_OK : garbled(parser, "a closing quote");
}

static AttnStatus parse_descr(Parser *parser, Header *header) {
    skip_space(parser);
    if (parser->at < parser->end && *parser->at == '[') {
        return attn_fail(ATTN_ERR_UNSUPPORTED,
                         "%s: its elements are records; only '<f2', '<f4' and '<f8' can be read",
                         parser->path);
    }
    return parse_string(parser, header->descr);
}

static AttnStatus parse_order(Parser *parser, Header *header) {
    header->fortran_order = take(parser, "True");
    if (!header->fortran_order && !take(parser, "False")) {
        return garbled(parser, "True or False");
    }
    return ATTN_OK;
}

static AttnStatus parse_dimension(Parser *parser, int64_t *dimension) {
    bool negative = take(parser, "-");
    *dimension = 0;
    const char *first = parser->at;
    for (; parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9'; parser->at++) {
        if (__builtin_mul_overflow(*dimension, 10, dimension) ||
            __builtin_add_overflow(*dimension, *parser->at - '0', dimension)) {
            return attn_fail(ATTN_ERR_IO, "%s: a dimension in its shape is larger than 2^63 - 1",
                             parser->path);
        }
    }
    if (parser->at == first) {
        return garbled(parser, "a number");
    }
    if (negative && *dimension > 0) {
        return attn_fail(ATTN_ERR_IO, "%s: its shape has the negative dimension -%" PRId64,
                         parser->path, *dimension);
    }
    return ATTN_OK;
}

// A tuple of numbers; one number needs its comma: (5,), as in Python.
static AttnStatus parse_shape(Parser *parser, Header *header) {
    if (!take(parser, "(")) {
        return garbled(parser, "a tuple as the shape");
    }
    bool comma = true;
    for (header->rank = 0; comma && !take(parser, ")"); header->rank++) {
        int64_t dimension;
        AttnStatus status = parse_dimension(parser, &dimension);
        if (status != ATTN_OK) {
            return status;
        }
        if (header->rank < TENSOR_MAX_RANK) {
            header->dims[header->rank] = dimension;
        }
        comma = take(parser, ",");
        if (!comma && header->rank == 0) {
            return garbled(parser, "a comma in the shape");
        }
    }
    if (!comma && !take(parser, ")")) {
        return garbled(parser, "a comma or ) in the shape");
    }
    return ATTN_OK;
}

static const char *const keys[] = {"descr", "fortran_order", "shape"};

// One entry of the dict, key and value.
static AttnStatus parse_entry(Parser *parser, Header *header, bool seen[3]) {
    char key[MAX_TEXT];
    AttnStatus status = parse_string(parser, key);
    if (status != ATTN_OK) {
        return status;
    }
    if (!take(parser, ":")) {
        return garbled(parser, "a colon");
    }
    int which = 0;
    while (which < 3 && strcmp(key, keys[which]) != 0) {
        which++;
    }
    if (which == 3) {
        return attn_fail(ATTN_ERR_IO, "%s: its header has the unknown key '%s'", parser->path, key);
    }
    if (seen[which]) {
        return attn_fail(ATTN_ERR_IO, "%s: its header has '%s' twice", parser->path, key);
    }
    seen[which] = true;
    switch (which) {
    case 0:
        return parse_descr(parser, header);
    case 1:
        return parse_order(parser, header);
    default:
        return parse_shape(parser, header);
    }
}

static AttnStatus parse_header(Parser *parser, Header *header) {
    *header = (Header){.dims = {1, 1, 1, 1}};
    bool seen[3] = {false, false, false};
    if (!take(parser, "{")) {
        return garbled(parser, "{");
    }
    bool comma = true;
    while (comma && !take(parser, "}")) {
        AttnStatus status = parse_entry(parser, header, seen);
        if (status != ATTN_OK) {
            return status;
        }
        comma = take(parser, ",");
    }
    if (!comma && !take(parser, "}")) {
        return garbled(parser, "a comma or }");
    }
    skip_space(parser);
    if (parser->at < parser->end) {
        return garbled(parser, "nothing more");
    }
    for (int i = 0; i < 3; i++) {
        if (!seen[i]) {
            return attn_fail(ATTN_ERR_IO, "%s: its header lacks '%s'", parser->path, keys[i]);
        }
    }
    return ATTN_OK;
}

// Checks that a tensor can hold what the header says, and finds its type.
static AttnStatus check_supported(const char *path, const Header *header, DType *dtype) {
    if (strcmp(header->descr, "<f4") == 0) {
        *dtype = DTYPE_F32;
    } else if (strcmp(header->descr, "<f8") == 0) {
        *dtype = DTYPE_F64;
    } else if (strcmp(header->descr, "<f2") == 0) {
        *dtype = DTYPE_F16;
    } else {
        return attn_fail(
            ATTN_ERR_UNSUPPORTED, "%s: its type '%s' %s; only '<f2', '<f4' and '<f8' can be read",
            path, header->descr, header->descr[0] == '>' ? "is big-endian" : "is not supported");
    }
    if (header->rank < 1 || header->rank > TENSOR_MAX_RANK) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "%s: its rank %d is outside 1..%d", path,
                         header->rank, TENSOR_MAX_RANK);
    }
    int long_axes = 0; // with one at most, both orders are the same
    for (int i = 0; i < header->rank; i++) {
        long_axes += header->dims[i] > 1;
    }
    if (header->fortran_order && long_axes > 1) {
        return attn_fail(ATTN_ERR_UNSUPPORTED,
                         "%s: it is in Fortran order; save it with numpy.ascontiguousarray", path);
    }
    return ATTN_OK;
}

// Allocates the tensor and reads its data, of which `available` bytes are there.
static AttnStatus read_data(const char *path, FILE *file, const Header *header, uint64_t available,
                            Tensor *tensor) {
    DType dtype = DTYPE_F32;
    AttnStatus status = check_supported(path, header, &dtype);
    if (status != ATTN_OK) {
        return status;
    }
    uint64_t bytes = dtype_size(dtype);
    bool overflow = false;
    for (int i = 0; i < header->rank; i++) {
        overflow = __builtin_mul_overflow(bytes, (uint64_t)header->dims[i], &bytes) || overflow;
    }
    if (overflow) {
        return attn_fail(ATTN_ERR_IO, "%s: its shape has more elements than can be addressed",
                         path);
    }
    if (bytes != available) {
        return attn_fail(ATTN_ERR_IO,
                         "%s: %s: its shape needs %" PRIu64 " bytes of data, it has %" PRIu64, path,
                         bytes > available ? "truncated" : "trailing bytes", bytes, available);
    }
    status = tensor_alloc(tensor, dtype, header->rank, header->dims);
    if (status != ATTN_OK) {
        return attn_fail(status, "%s: %s", path, attn_last_error());
    }
    if (fread(tensor->data, 1, bytes, file) != bytes) {
        tensor_free(tensor);
        return attn_fail(ATTN_ERR_IO, "%s: reading its data failed", path);
    }
    return ATTN_OK;
}

// Reads magic, version and the header's length. Sets *start to the header's offset in the file.
static AttnStatus read_preamble(const char *path, FILE *file, uint64_t size, uint64_t *start,
                                uint64_t *length) {
    unsigned char bytes[12] = {0};
    if (size == 0) {
        return attn_fail(ATTN_ERR_IO, "%s: the file is empty", path);
    }
    size_t got = fread(bytes, 1, sizeof magic + 2, file);
    if (got >= 2 && memcmp(bytes, "PK", 2) == 0) {
        return attn_fail(ATTN_ERR_IO,
                         "%s: it is a zip archive, as .npz is: save one array with numpy.save",
                         path);
    }
    if (got < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0) {
        return attn_fail(ATTN_ERR_IO, "%s: it is not an NPY file (no \\x93NUMPY at its start)",
                         path);
    }
    unsigned major = bytes[6], minor = bytes[7];
    if (got == sizeof magic + 2 && (major < 1 || major > 3 || minor != 0)) {
        return attn_fail(ATTN_ERR_IO, "%s: its format version %u.%u is not 1.0, 2.0 or 3.0", path,
                         major, minor);
    }
    size_t width = major == 1 ? 2 : 4;
    if (got < sizeof magic + 2 || fread(bytes + 8, 1, width, file) != width) {
        return attn_fail(ATTN_ERR_IO, "%s: truncated before its header", path);
    }
    *start = 8 + width;
    *length = 0;
    for (size_t i = 0; i < width; i++) {
        *length |= (uint64_t)bytes[8 + i] << (8 * i);
    }
    if (size < *start || *length > size - *start) {
        return attn_fail(ATTN_ERR_IO,
                         "%s: truncated: its header should have %" PRIu64
                         " bytes, the whole file has %" PRIu64,
                         path, *length, size);
    }
    return ATTN_OK;
}

// Reads an open file of `size` bytes.
static AttnStatus read_file(const char *path, FILE *file, uint64_t size, Tensor *tensor) {
    uint64_t start = 0, length = 0;
    AttnStatus status = read_preamble(path, file, size, &start, &length);
    if (status != ATTN_OK) {
        return status;
    }
    char *text = malloc(length + 1);
    if (text == NULL) {
        return attn_fail(ATTN_ERR_MEMORY, "%s: no memory for its header", path);
    }
    Header header = {.rank = 0};
    Parser parser = {path, text, text, text + length};
    text[length] = '\0';
    if (fread(text, 1, length, file) != length) {
        status = attn_fail(ATTN_ERR_IO, "%s: reading its header failed", path);
    } else {
        status = parse_header(&parser, &header);
    }
    free(text);
    if (status != ATTN_OK) {
        return status;
    }
    return read_data(path, file, &header, size - start - length, tensor);
}

AttnStatus npy_read(const char *path, Tensor *tensor) {
    *tensor = (Tensor){0};
    struct stat info;
    if (stat(path, &info) != 0) {
        return attn_fail(ATTN_ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) { // opening a pipe could wait for ever
        return attn_fail(ATTN_ERR_IO, "%s: it is %s", path,
                         S_ISDIR(info.st_mode) ? "a directory" : "not a regular file");
    }
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return attn_fail(ATTN_ERR_IO, "%s: %s", path, strerror(errno));
    }
    AttnStatus status = read_file(path, file, (uint64_t)info.st_size, tensor);
    fclose(file);
    return status;
}

// Magic, version 1.0, and the header padded so that the data starts aligned.
static void write_header(FILE *file, const Tensor *tensor) {
    const char *descr = tensor->dtype == DTYPE_F64   ? "<f8"
                        : tensor->dtype == DTYPE_F16 ? "<f2"
                                                     : "<f4";
    char shape[96], text[256];
    int used = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                        descr, tensor_shape_text(tensor, shape));
    unsigned total = 10 + (unsigned)used + 1; // with the newline that ends the header
    unsigned length = (total + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT - 10;
    fwrite(magic, 1, sizeof magic, file);
    fwrite((const unsigned char[]){1, 0}, 1, 2, file);
    fwrite((const unsigned char[]){(unsigned char)length, (unsigned char)(length >> 8)}, 1, 2,
           file);
    fprintf(file, "%-*s\n", (int)length - 1, text);
}

static void write_data(FILE *file, const Tensor *tensor) {
    if (tensor->dtype != DTYPE_BF16) {
        fwrite(tensor->data, dtype_size(tensor->dtype), tensor->count, file);
        return;
    }
    for (size_t i = 0; i < tensor->count; i++) {
        float wide = (float)tensor_get(tensor, i);
        fwrite(&wide, sizeof wide, 1, file);
    }
}

AttnStatus npy_write(const char *path, const Tensor *tensor) {
    // The file is replaced by a rename: a link or a device must not be.
    struct stat info;
    if (lstat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return attn_fail(ATTN_ERR_IO, "%s: it exists and is not a regular file", path);
    }
    size_t room = strlen(path) + 32;
    char *beside = malloc(room);
    if (beside == NULL) {
        return attn_fail(ATTN_ERR_MEMORY, "%s: no memory for a file name", path);
    }
    snprintf(beside, room, "%s.%ld.tmp", path, (long)getpid());
    FILE *file = fopen(beside, "wb");
    bool written = file != NULL;
    if (file != NULL) {
        write_header(file, tensor);
        write_data(file, tensor);
        written = !ferror(file);
        written = fclose(file) == 0 && written;
        written = written && rename(beside, path) == 0;
    }
    AttnStatus status = ATTN_OK;
    if (!written) {
        status = attn_fail(ATTN_ERR_IO, "%s: it cannot be written: %s", path, strerror(errno));
    }
    if (file != NULL && !written) {
        remove(beside);
    }
    free(beside);
    return status;
}
