// Touched bytes, by page protection: see touch.h.
#include "common/touch.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static TouchBuffer *watched; // NULL while no watch is running
static int watched_count;
static size_t page_size;
static struct sigaction previous_segv,
    previous_bus; // some systems send SIGBUS for a protected page

static size_t whole_pages(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

AttnStatus touch_alloc(TouchBuffer *buffer, size_t bytes) {
    *buffer = (TouchBuffer){0};
    const size_t mapped = whole_pages(bytes > 0 ? bytes : 1);
    if (mapped < bytes) {
        return attn_fail(ATTN_ERR_MEMORY, "cannot map %zu bytes", bytes);
    }
    void *data = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        return attn_fail(ATTN_ERR_MEMORY, "cannot map %zu bytes", bytes);
    }
    *buffer = (TouchBuffer){.data = data, .bytes = bytes, .mapped = mapped};
    return ATTN_OK;
}

void touch_free(TouchBuffer *buffer) {
    if (buffer->data != NULL) {
        munmap(buffer->data, buffer->mapped);
    }
    *buffer = (TouchBuffer){0};
}

// The first access to a watched page: count it and open the page; the access is then repeated by
// the processor. Any other fault gets the action that was in force before.
static void on_fault(int signal_number, siginfo_t *info, void *context) {
    (void)context;
    const uintptr_t address = (uintptr_t)info->si_addr;
    for (int i = 0; i < watched_count; i++) {
        TouchBuffer *buffer = &watched[i];
        const uintptr_t start = (uintptr_t)buffer->data;
        if (address >= start && address - start < buffer->mapped) {
            const size_t offset = (address - start) / page_size * page_size;
            buffer->touched += page_size;
            if (mprotect((char *)buffer->data + offset, page_size, PROT_READ | PROT_WRITE) == 0) {
                return;
            }
        }
    }
    sigaction(signal_number, signal_number == SIGSEGV ? &previous_segv : &previous_bus, NULL);
}

AttnStatus touch_begin(TouchBuffer *buffers, int count) {
    if (watched != NULL || count < 1 || count > TOUCH_MAX_BUFFERS) {
        return attn_fail(ATTN_ERR_ARGUMENT,
                         "touch_begin: %d buffers (1 to %d, one watch at a time)", count,
                         TOUCH_MAX_BUFFERS);
    }
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    watched = buffers;
    watched_count = count;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
    for (int i = 0; i < count; i++) {
        buffers[i].touched = 0;
        if (mprotect(buffers[i].data, buffers[i].mapped, PROT_NONE) != 0) {
            touch_end();
            return attn_fail(ATTN_ERR_UNSUPPORTED, "this system does not let pages be protected");
        }
    }
    return ATTN_OK;
}

void touch_end(void) {
    for (int i = 0; i < watched_count; i++) {
        TouchBuffer *buffer = &watched[i];
        mprotect(buffer->data, buffer->mapped, PROT_READ | PROT_WRITE);
        if (buffer->touched > buffer->bytes) { // the last page may be used in part
            buffer->touched = buffer->bytes;
        }
    }
    if (watched != NULL) {
        sigaction(SIGSEGV, &previous_segv, NULL);
        sigaction(SIGBUS, &previous_bus, NULL);
    }
    watched = NULL;
    watched_count = 0;
}
