// A folder of a test's own under /tmp with one NPY file in it, which the test writes byte by byte.
#ifndef TESTS_UNIT_SCRATCH_H
#define TESTS_UNIT_SCRATCH_H

#include <stddef.h>

extern char scratch_folder[]; // set by scratch_make
extern char scratch_path[];   // of the file, in that folder

// Fixtures: make the folder; remove it with all that lies in it.
void scratch_make(void);
void scratch_remove(void);

// Removes the files in the folder; returns how many there were.
int scratch_empty(void);

// Writes the file; reads it, at most `room` bytes, and returns how many they were.
void scratch_write(const void *bytes, size_t count);
size_t scratch_read(unsigned char *bytes, size_t room);

// Writes an NPY file of this version with this header, unpadded, and then `data_bytes` (at most
// 1024) bytes of data: the float32 values 0, 1, 2, ...
void scratch_write_npy(int major, const char *header, size_t data_bytes);

// The same with a header like NumPy's, version 1, from the three values as Python writes them.
void scratch_write_array(const char *descr, const char *order, const char *shape,
                         size_t data_bytes);

#endif
