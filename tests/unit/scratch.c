// A scratch folder for tests: see scratch.h.
#include "tests/unit/scratch.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char scratch_folder[] = "/tmp/attn_test-XXXXXX";
char scratch_path[64];

void scratch_make(void) {
    ck_assert_ptr_nonnull(mkdtemp(scratch_folder));
    snprintf(scratch_path, sizeof scratch_path, "%s/file.npy", scratch_folder);
}

int scratch_empty(void) {
    int removed = 0;
    DIR *directory = opendir(scratch_folder);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char name[512];
        snprintf(name, sizeof name, "%s/%s", scratch_folder, entry->d_name);
        removed += unlink(name) == 0;
    }
    closedir(directory);
    return removed;
}

void scratch_remove(void) {
    scratch_empty();
    rmdir(scratch_folder);
}

// A fresh file: some file systems wait for the disk when one that was truncated is closed.
static FILE *create_file(void) {
    unlink(scratch_path);
    FILE *file = fopen(scratch_path, "wb");
    ck_assert_ptr_nonnull(file);
    return file;
}

void scratch_write(const void *bytes, size_t count) {
    FILE *file = create_file();
    ck_assert_uint_eq(fwrite(bytes, 1, count, file), count);
    ck_assert_int_eq(fclose(file), 0);
}

size_t scratch_read(unsigned char *bytes, size_t room) {
    FILE *file = fopen(scratch_path, "rb");
    ck_assert_ptr_nonnull(file);
    size_t count = fread(bytes, 1, room, file);
    fclose(file);
    return count;
}

void scratch_write_npy(int major, const char *header, size_t data_bytes) {
    unsigned char preamble[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)major, 0};
    size_t length = strlen(header), width = major == 1 ? 2 : 4;
    for (size_t i = 0; i < width; i++) {
        preamble[8 + i] = (unsigned char)(length >> (8 * i));
    }
    float data[256];
    ck_assert_uint_le(data_bytes, sizeof data);
    for (int i = 0; i < 256; i++) {
        data[i] = (float)i;
    }
    FILE *file = create_file();
    ck_assert_uint_eq(fwrite(preamble, 1, 8 + width, file), 8 + width);
    ck_assert_uint_eq(fwrite(header, 1, length, file), length);
    ck_assert_uint_eq(fwrite(data, 1, data_bytes, file), data_bytes);
    ck_assert_int_eq(fclose(file), 0);
}

void scratch_write_array(const char *descr, const char *order, const char *shape,
                         size_t data_bytes) {
    char header[256];
    snprintf(header, sizeof header, "{'descr': %s, 'fortran_order': %s, 'shape': %s, }\n", descr,
             order, shape);
    scratch_write_npy(1, header, data_bytes);
}
