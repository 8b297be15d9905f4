// Fibers: their stacks, and the switch from one to another.
#if !defined(__x86_64__) || !defined(__linux__) || defined(SIMT_PORTABLE_FIBERS)
#undef _FORTIFY_SOURCE // its longjmp refuses to go to another stack
#endif
#include "common/simt/fiber.h"

#include "common/simt/internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

#if SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

enum { STRIDE = FIBER_GUARD_BYTES + FIBER_STACK_BYTES };

static char *stacks;             // [FIBER_COUNT][STRIDE], each guard first; NULL: not mapped yet
static bool opened[FIBER_COUNT]; // the stack has been made accessible

// ---- what AddressSanitizer is told --------------------------------------------------------------

#if SIMT_ASAN
static Fiber *left; // the fiber of the last switch

// Between the two AddressSanitizer may not be told of another switch: a tick of the watchdog waits.
static void before_switch(Fiber *from, Fiber *to, bool for_good) {
    simt_held++;
    left = from;
    __sanitizer_start_switch_fiber(for_good ? NULL : &from->fake_stack, to->stack, to->stack_bytes);
}

static void after_switch(void *fake_stack) {
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
    if (left->stack == NULL) { // the host's, known from now on
        left->stack = (char *)(uintptr_t)bottom;
        left->stack_bytes = bytes;
    }
    simt_held--;
}

static void forget_stack(const Fiber *fiber) {
    ASAN_UNPOISON_MEMORY_REGION(fiber->stack, fiber->stack_bytes);
}
#else
static void before_switch(const Fiber *from, const Fiber *to, bool for_good) {
    (void)from, (void)to, (void)for_good;
}

static void after_switch(const void *fake_stack) {
    (void)fake_stack;
}

static void forget_stack(const Fiber *fiber) {
    (void)fiber;
}
#endif

// ---- the switch ---------------------------------------------------------------------------------

#if SIMT_ASSEMBLY_FIBERS
// void simt_fiber_swap(void **save, void *load): the registers that a call keeps go to the stack,
// its pointer to *save; then the same backwards from the stack `load`. Rounding modes are not
// saved: no kernel changes them.
__asm__(".text\n"
        ".p2align 4\n"
        ".globl simt_fiber_swap\n"
        ".hidden simt_fiber_swap\n"
        ".type simt_fiber_swap, @function\n"
        "simt_fiber_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size simt_fiber_swap, . - simt_fiber_swap\n");
void simt_fiber_swap(void **save, void *load);

static void prepare_registers(Fiber *fiber, char *top, void (*entry)(void)) {
    // Six registers, the address to return to, and where entry's caller would be: 0, the end for
    // whoever walks the stack. entry begins with the stack 8 bytes off 16, as after a call.
    uintptr_t *frame = (uintptr_t *)(void *)top - 8;
    for (int i = 0; i < 8; i++) {
        frame[i] = 0;
    }
    frame[6] = (uintptr_t)entry;
    fiber->stack_pointer = frame;
}

static void swap(Fiber *from, Fiber *to) {
    simt_fiber_swap(&from->stack_pointer, to->stack_pointer);
}
#else
static void prepare_registers(Fiber *fiber, char *top, void (*entry)(void)) {
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = (size_t)(top - fiber->stack);
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, entry, 0);
    fiber->started = false;
}

// A context costs two system calls a switch and is used for a fiber's first run only; under ASan,
// which takes longjmp for the end of everything on the stack, always.
static void swap(Fiber *from, Fiber *to) {
    if (SIMT_ASAN) {
        swapcontext(&from->context, &to->context);
        return;
    }
    from->started = true;
    if (_setjmp(from->registers) == 0) {
        if (to->started) {
            _longjmp(to->registers, 1);
        }
        setcontext(&to->context);
    }
}
#endif

void fiber_switch(Fiber *from, Fiber *to) {
    before_switch(from, to, false);
    swap(from, to);
    after_switch(from->fake_stack);
}

_Noreturn void fiber_leave(Fiber *to) {
    static Fiber nowhere;
    nowhere.stack = stacks; // anything but unknown
    before_switch(&nowhere, to, true);
    swap(&nowhere, to);
    abort();
}

void fiber_entered(void) {
    after_switch(NULL);
}

// ---- stacks -------------------------------------------------------------------------------------

static bool open_stack(int index) {
    if (stacks == NULL) {
        void *mapped = mmap(NULL, (size_t)FIBER_COUNT * STRIDE, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) {
            return false;
        }
        stacks = mapped;
    }
    char *stack = stacks + (size_t)index * STRIDE + FIBER_GUARD_BYTES;
    opened[index] =
        opened[index] || mprotect(stack, FIBER_STACK_BYTES, PROT_READ | PROT_WRITE) == 0;
    return opened[index];
}

bool fiber_prepare(Fiber *fiber, int index, void (*entry)(void)) {
    if (!open_stack(index)) {
        return false;
    }
    fiber->stack = stacks + (size_t)index * STRIDE + FIBER_GUARD_BYTES;
    fiber->stack_bytes = FIBER_STACK_BYTES;
    fiber->fake_stack = NULL;
    forget_stack(fiber);
    // The stacks' tops are spread over a page: at equal offsets all would share a few cache lines.
    const size_t spread = (size_t)(index % 32) * 128;
    prepare_registers(fiber, fiber->stack + FIBER_STACK_BYTES - spread, entry);
    return true;
}

bool fiber_is_guard(const void *address) {
    const uintptr_t offset = (uintptr_t)address - (uintptr_t)stacks;
    return stacks != NULL && offset < (size_t)FIBER_COUNT * STRIDE &&
           offset % STRIDE < FIBER_GUARD_BYTES;
}
