// Runs code in a process of its own and keeps what it prints: for tests of output and exits.
#ifndef TESTS_UNIT_CAPTURE_H
#define TESTS_UNIT_CAPTURE_H

typedef struct Captured {
    int status; // exit status, or minus the signal that ended the process
    char *out;  // all of stdout, on the heap
    char *err;  // all of stderr
} Captured;

// Runs body(context) in a child, which exits 0 when the body returns.
Captured capture(void (*body)(void *context), void *context);

// Runs a program (NULL-terminated argv, argv[0] its path) the same way; 127: it did not start.
Captured capture_program(const char *const *argv);

// Frees the texts.
void captured_free(Captured *captured);

// The lines in a text, and the columns of its longest line (control characters take none).
int count_lines(const char *text);
int longest_line(const char *text);

// Makes an empty temporary folder and enters it; remove_folder goes back and deletes the folder
// with the files in it. `path` holds at least 64 bytes.
void enter_folder(char *path);
void remove_folder(const char *path);

#endif
