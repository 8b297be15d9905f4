// Fibers: functions that give up the processor and go on later, each on a stack of its own. A CUDA
// thread that waits for others is one (schedule.c). A switch is 15 instructions on x86-64 Linux;
// elsewhere, and with -DSIMT_PORTABLE_FIBERS, it is _setjmp and _longjmp.
#ifndef COMMON_SIMT_FIBER_H
#define COMMON_SIMT_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#endif
#endif
#ifndef SIMT_ASAN
#define SIMT_ASAN 0
#endif

#if defined(__x86_64__) && defined(__linux__) && !defined(SIMT_PORTABLE_FIBERS)
#define SIMT_ASSEMBLY_FIBERS 1
#else
#define SIMT_ASSEMBLY_FIBERS 0
#include <setjmp.h>
#include <ucontext.h>
#endif

// Redzones make frames larger.
enum {
    FIBER_STACK_BYTES = (SIMT_ASAN ? 256 : 64) * 1024,
    FIBER_GUARD_BYTES = 64 * 1024, // inaccessible, below each stack
    FIBER_COUNT = 1024,
};

typedef struct Fiber {
    char *stack; // [stack_bytes], its lowest address; of the host's: only known under ASan
    size_t stack_bytes;
    void *fake_stack; // ASan's
#if SIMT_ASSEMBLY_FIBERS
    void *stack_pointer; // while it does not run; its registers lie there
#else
    jmp_buf registers; // while it does not run
    ucontext_t context;
    bool started;
#endif
} Fiber;

// Prepares a fiber to run entry() on stack number `index`, 0..FIBER_COUNT-1, when it is first
// switched to; what that stack held is lost. entry calls fiber_entered first and does not return.
// false: there is no memory for the stack.
bool fiber_prepare(Fiber *fiber, int index, void (*entry)(void));
void fiber_entered(void);

// Leaves `from`, which is the one that runs, and goes on in `to`; returns when something switches
// to `from` again. The host's own stack is a Fiber that needs no preparation (all zero).
void fiber_switch(Fiber *from, Fiber *to);

// The same, but what runs now is never switched to again before it is prepared anew.
_Noreturn void fiber_leave(Fiber *to);

// Whether the address lies in the inaccessible bytes below a stack.
bool fiber_is_guard(const void *address);

#endif
