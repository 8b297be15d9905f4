// The record pipe, read: what the harness reports, and the proof that the report is the harness's.
#include "tests/grade/sandbox.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ENTRIES = 1000 };

static void set_text(char **where, const char *payload, size_t length) {
    free(*where);
    *where = format_text("%.*s", (int)length, payload);
}

static void take_record(Run *run, const Records *records, char type, const char *payload,
                        size_t length) {
    char *entry = NULL;

    switch (type) {
    case RECORD_TITLE:
        set_text(&run->title, payload, length);
        break;
    case RECORD_DEBUG:
        run->debugging = true;
        break;
    case RECORD_CASE:
        set_text(&run->in_case, payload, length);
        break;
    case RECORD_FAIL:
    case RECORD_DAMAGE:
    case RECORD_FOUND:
    case RECORD_SKIP:
        set_text(&run->failure, payload, length);
        run->damaged = type == RECORD_DAMAGE;
        run->found = type == RECORD_FOUND;
        run->not_run = type == RECORD_SKIP;
        break;
    case RECORD_ENTRY:
        if (run->entries.count == MAX_ENTRIES) {
            run->garbled = true;
            break;
        }
        set_text(&entry, payload, length);
        names_add(&run->entries, entry);
        free(entry);
        break;
    case RECORD_PASS:
        run->passed = length == NONCE_BYTES && memcmp(payload, records->nonce, NONCE_BYTES) == 0;
        run->garbled = run->garbled || !run->passed;
        break;
    default:
        run->garbled = true;
    }
}

void take_bytes(Run *run, Records *records, const char *bytes, size_t count) {
    for (size_t i = 0; i < count && !run->garbled; i++) {
        unsigned length;

        records->frame[records->frame_length++] = bytes[i];
        if (records->frame_length < FRAME_HEADER) {
            continue;
        }
        memcpy(&length, records->frame + 1, sizeof(length));
        if (length > MAX_PAYLOAD) {
            run->garbled = true;
        } else if (records->frame_length == FRAME_HEADER + length) {
            take_record(run, records, records->frame[0], records->frame + FRAME_HEADER, length);
            records->frame_length = 0;
        }
    }
}
