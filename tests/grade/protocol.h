// What the grader and the harness say to each other: the grader's side starts a suite with two
// pipes, the nonce to read and the records to write. A record is a type, a 32-bit length and that
// many bytes. A test has passed when a RECORD_PASS came that carries the nonce.
#ifndef TESTS_GRADE_PROTOCOL_H
#define TESTS_GRADE_PROTOCOL_H

enum {
    RECORD_FD = 3,    // the suite writes records here
    NONCE_FD = 4,     // the suite reads NONCE_BYTES from here, before the learner's code runs
    NONCE_BYTES = 32, // random for every run
    FRAME_HEADER = 5, // type and length
    MAX_PAYLOAD = 4096
};

enum {
    RECORD_TITLE = 'T',  // the lab's title
    RECORD_DEBUG = 'B',  // the lab is a debugging lab
    RECORD_ENTRY = 'E',  // a test or a question, its fields separated by tabs
    RECORD_CASE = 'C',   // the case that is about to run
    RECORD_FAIL = 'F',   // the message of the failed test
    RECORD_DAMAGE = 'D', // the same, of a test that found an input changed or a guard word written
    RECORD_FOUND = 'N',  // the same, of a test whose kernel was ended at a line that it names
    RECORD_SKIP = 'S',   // why the test cannot be run here
    RECORD_PASS = 'P'    // the nonce
};

// The environment's variable with the seed of random cases, a hexadecimal number; 0 or none: the
// fixed cases.
#define SEED_VARIABLE "GRADE_SEED"

// Exit statuses of a suite. They are unusual numbers so that they differ from a learner's exit.
enum {
    EXIT_TEST_FAILED = 81,
    EXIT_NO_CHANNEL = 82, // the record pipe is closed
    EXIT_SANITIZER = 83,  // AddressSanitizer or UBSan ended the process
    EXIT_USAGE = 84
};

#endif
