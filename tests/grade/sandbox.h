// What the files of the sandbox share: sandbox.c watches, child.c starts, records.c reads reports.
#ifndef TESTS_GRADE_SANDBOX_H
#define TESTS_GRADE_SANDBOX_H

#include "tests/grade/grader.h"
#include "tests/grade/protocol.h"

typedef struct Records {
    char nonce[NONCE_BYTES];
    char frame[FRAME_HEADER + MAX_PAYLOAD]; // the record being read
    size_t frame_length;
} Records;

// Adds bytes of the record pipe and takes the records that are complete into run.
void take_bytes(Run *run, Records *records, const char *bytes, size_t count);

// The child's descriptors. For a tool, all but output and trouble are -1.
typedef struct Ends {
    int executable; // of the suite
    int output;     // stdout and stderr
    int records;
    int nonce;
    int trouble; // closed by exec; before that it takes the reason why exec was not reached
    const char *temporary; // a tool's TMPDIR
    uid_t user;            // who a tool becomes; 0: it stays who this program is
} Ends;

// In the forked child: sets limits and becomes the program.
_Noreturn void start_child(Ends ends, char *const *argv, const Limits *limits);

// Makes the suite's working directory: empty, owned by the user that it runs as.
void make_scratch(void);

#endif
