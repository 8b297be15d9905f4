// Bytes that code really touches, measured without a GPU or hardware counters: buffers on pages of
// their own are made inaccessible, and the first access to each page faults and is counted.
//
// What is counted is *unique* bytes: a page read a thousand times between touch_begin and touch_end
// counts once. That is what a traffic model counts which reads every tensor once per pass; it says
// nothing of how often a cache served the same page again. Granularity: one page, usually 4 KiB.
// Single-threaded; a debugger stops at each fault unless told "handle SIGSEGV nostop noprint".
#ifndef COMMON_TOUCH_H
#define COMMON_TOUCH_H

#include "common/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TOUCH_MAX_BUFFERS = 16 };

typedef struct TouchBuffer {
    void *data;     // starts on a page boundary, zero-filled
    size_t bytes;   // as asked for
    size_t mapped;  // whole pages
    size_t touched; // bytes touched since touch_begin: whole pages, at most `bytes`
} TouchBuffer;

// Maps `bytes` bytes (0 is legal). Errors: ATTN_ERR_MEMORY; *buffer is zeroed then.
AttnStatus touch_alloc(TouchBuffer *buffer, size_t bytes);
void touch_free(TouchBuffer *buffer); // a zeroed buffer is accepted

// Makes the buffers inaccessible until touched and sets their counts to 0. One watch at a time; the
// array stays in use until touch_end. Errors: ATTN_ERR_ARGUMENT (more than TOUCH_MAX_BUFFERS, or a
// watch is running), ATTN_ERR_UNSUPPORTED (the system does not let pages be protected).
AttnStatus touch_begin(TouchBuffer *buffers, int count);

// Makes them accessible again; each buffer's `touched` says what was touched.
void touch_end(void);

#ifdef __cplusplus
}
#endif

#endif
