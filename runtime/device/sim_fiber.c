/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_fiber.c - stacks, and the switch between two of them.
 *
 * On x86-64 we use our own switch: it saves the six callee-saved registers and
 * the stack pointer, and jumps. It takes about 8 ns including the cache misses
 * of the other stack. Other processors use swapcontext, which makes two system
 * calls for the signal mask and takes 20 times as long.
 */
#include "device/sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__) || defined(SPC__SIM_UCONTEXT)
#define USE_UCONTEXT 1
#include <ucontext.h>
#else
#define USE_UCONTEXT 0
#endif

#if SPC__SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if SPC__SIM_TSAN
#include <sanitizer/tsan_interface.h>
void __tsan_read16_pc(void *p, void *pc);
void __tsan_write16_pc(void *p, void *pc);
#endif

/* ---- stacks ---------------------------------------------------------- */

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Makes a page of each stack inaccessible. */
static bool guard(char *stacks, int slots)
{
    /* The lowest page of a stack: an overflow faults instead of writing to the
     * neighbour. */
    for (int i = 0; i < slots; i++)
        if (mprotect(stacks + (size_t)i * SPC_SIM_SLOT, page_bytes(),
                     PROT_NONE) != 0)
            return false;
    return true;
}

char *spc__sim_stacks_map(int slots)
{
    size_t bytes = (size_t)slots * SPC_SIM_SLOT;
    /* One slot more, so that the start can be rounded up to a multiple of
     * SPC_SIM_SLOT. */
    char *raw = mmap(NULL, bytes + SPC_SIM_SLOT, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
        return NULL;
    /* The record of a thread is found by masking its stack pointer, hence the
     * alignment. */
    size_t before = -(uintptr_t)raw & (SPC_SIM_SLOT - 1);
    if (before > 0)
        munmap(raw, before);
    munmap(raw + before + bytes, SPC_SIM_SLOT - before);
    if (!guard(raw + before, slots)) {
        munmap(raw + before, bytes);
        return NULL;
    }
    return raw + before;
}

void spc__sim_stacks_unmap(char *stacks, int slots)
{
    if (stacks)
        munmap(stacks, (size_t)slots * SPC_SIM_SLOT);
}

/* Replaces pages by fresh ones, which read as zeros. */
static bool renew_pages(char *from, char *to)
{
    size_t bytes = (size_t)(to - from);
    return mmap(from, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                0) == from;
}

/* Only the touched part, since new memory costs the checker four times its
 * size. */
bool spc__sim_stacks_renew(char *stacks, int slots)
{
    size_t page = page_bytes(), pages = SPC_SIM_SLOT / page;
    unsigned char *resident = malloc(pages);
    bool done = resident != NULL;
    for (int i = 0; i < slots && done; i++) {
        char *slot = stacks + (size_t)i * SPC_SIM_SLOT;
        size_t first = 1; /* after the guard page */
        done = mincore(slot, SPC_SIM_SLOT, resident) == 0;
        /* A stack grows down, so everything from the first touched page on was
         * used. */
        while (first < pages && !(resident[first] & 1))
            first++;
        if (done && first < pages)
            done = renew_pages(slot + first * page, slot + SPC_SIM_SLOT);
    }
    free(resident);
    return done;
}

/* ---- the switch ------------------------------------------------------ */

#if USE_UCONTEXT

/* Calls the fiber's function with arguments that makecontext() can pass. */
static void trampoline(unsigned high, unsigned low, unsigned entry_high,
                       unsigned entry_low)
{
    /* makecontext() passes ints, so a pointer takes two. Two shifts by 16 are
     * defined even where pointers have 32 bits. */
    uintptr_t thread = (uintptr_t)high << 16 << 16 | low;
    uintptr_t entry = (uintptr_t)entry_high << 16 << 16 | entry_low;
    ((void (*)(spc_sim_thread *))entry)((spc_sim_thread *)thread);
}

/* Prepares a fiber with the functions of POSIX, where there is no code in
 * assembler. */
static bool prepare(spc_sim_thread *thread, void (*entry)(spc_sim_thread *))
{
    spc__sim_fiber *fiber = thread->fiber;
    uintptr_t t = (uintptr_t)thread, e = (uintptr_t)entry;
    if (!fiber->context && !(fiber->context = malloc(sizeof(ucontext_t))))
        return false;
    ucontext_t *context = fiber->context;
    if (getcontext(context) != 0)
        return false;
    context->uc_stack.ss_sp = fiber->stack_low;
    context->uc_stack.ss_size = fiber->stack_bytes;
    context->uc_link = NULL;
    makecontext(context, (void (*)(void))trampoline, 4,
                (unsigned)(t >> 16 >> 16), (unsigned)t,
                (unsigned)(e >> 16 >> 16), (unsigned)e);
    return true;
}

/* Prepares the record of an existing thread, so that fibers can return to
 * it. */
static bool prepare_own(spc_sim_thread *thread)
{
    spc__sim_fiber *fiber = thread->fiber;
    if (!fiber->context)
        fiber->context = malloc(sizeof(ucontext_t));
    return fiber->context != NULL;
}

static void jump(spc_sim_thread *from, spc_sim_thread *to)
{
    swapcontext(((spc__sim_fiber *)from->fiber)->context,
                ((spc__sim_fiber *)to->fiber)->context);
}

#else

void spc__sim_jump(void **from, void *to);
void spc__sim_first(void);

/* clang-format off */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl spc__sim_jump\n"
        ".hidden spc__sim_jump\n"
        ".type spc__sim_jump, @function\n"
        "spc__sim_jump:\n"
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
        /* Lanes wait at the same calls, so the processor's return prediction is
         * also right for the next lane. */
        "    ret\n"
        ".size spc__sim_jump, .-spc__sim_jump\n"
        /* The first switch to a fiber arrives here. r12 is the record, r13 the
         * function to call. */
        ".globl spc__sim_first\n"
        ".hidden spc__sim_first\n"
        ".type spc__sim_first, @function\n"
        "spc__sim_first:\n"
        "    movq %r12, %rdi\n"
        "    call *%r13\n"
        "    ud2\n"
        ".size spc__sim_first, .-spc__sim_first\n");
/* clang-format on */

/* Prepares a fiber so that the first jump to it enters its function. */
static bool prepare(spc_sim_thread *thread, void (*entry)(spc_sim_thread *))
{
    /* The stack as spc__sim_jump() would have left it: six registers in the
     * order of the pops, then the return address. */
    uintptr_t *sp = (uintptr_t *)thread;
    *--sp = 0; /* two words: the call finds an aligned stack */
    *--sp = 0;
    *--sp = (uintptr_t)spc__sim_first;
    *--sp = 0; /* rbp 0 marks the outermost frame */
    *--sp = 0;
    *--sp = (uintptr_t)thread;
    *--sp = (uintptr_t)entry;
    *--sp = 0;
    *--sp = 0;
    thread->sp = sp;
    return true;
}

static bool prepare_own(spc_sim_thread *thread)
{
    return true;
}

static inline void jump(spc_sim_thread *from, spc_sim_thread *to)
{
    spc__sim_jump(&from->sp, to->sp);
}

#endif

/* ---- reports to the sanitizers --------------------------------------- */

/*
 * To the race checker, successive blocks must be different threads, ordered
 * only by the kernel. Its threads are expensive (a megabyte, half a
 * millisecond). When it destroys one, it reuses the number for another and
 * confuses the two. Therefore a few sets are used in rotation.
 */
static void choose_race_fiber(spc__sim_fiber *fiber, int race_set)
{
#if SPC__SIM_TSAN
    void **one = &fiber->race_fibers[race_set];
    if (!*one)
        *one = __tsan_create_fiber(0);
    fiber->race_fiber = *one;
#endif
}

/* Tells the race checker that the fiber's threads have ended. */
static void destroy_race_fibers(spc__sim_fiber *fiber)
{
#if SPC__SIM_TSAN
    for (int i = 0; i < SPC__SIM_SETS; i++) {
        if (fiber->race_fibers[i])
            __tsan_destroy_fiber(fiber->race_fibers[i]);
        fiber->race_fibers[i] = NULL;
    }
#endif
}

bool spc__sim_fiber_start(spc_sim_thread *thread, int race_set,
                          void (*entry)(spc_sim_thread *))
{
    spc__sim_fiber *fiber = thread->fiber;
    uintptr_t slot = (uintptr_t)thread & ~(SPC_SIM_SLOT - 1);

    fiber->stack_low = (char *)slot + page_bytes();
    fiber->stack_bytes = (size_t)((char *)thread - fiber->stack_low);
#if SPC__SIM_ASAN
    /* Clear the red zones of abandoned frames. */
    ASAN_UNPOISON_MEMORY_REGION(fiber->stack_low, fiber->stack_bytes);
    fiber->fake_stack = NULL;
#endif
    choose_race_fiber(fiber, race_set);
    return prepare(thread, entry);
}

bool spc__sim_fiber_adopt(spc_sim_thread *thread)
{
    spc__sim_fiber *fiber = thread->fiber;
#if SPC__SIM_ASAN
    pthread_attr_t attributes;
    void *low = NULL;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &low, &fiber->stack_bytes);
        pthread_attr_destroy(&attributes);
    }
    fiber->stack_low = low;
#endif
#if SPC__SIM_TSAN
    fiber->race_fiber = __tsan_get_current_fiber();
#endif
    (void)fiber;
    return prepare_own(thread);
}

void spc__sim_fiber_release(spc__sim_fiber *fiber)
{
    destroy_race_fibers(fiber);
    free(fiber->context);
}

void spc__sim_fiber_enter(spc_sim_thread *thread)
{
#if SPC__SIM_ASAN
    spc__sim_fiber *fiber = thread->fiber;
    __sanitizer_finish_switch_fiber(fiber->fake_stack, NULL, NULL);
#endif
}

/* Tells the sanitizers that the next instruction runs on another stack. */
static inline void announce(void **fake_stack, const spc_sim_thread *to)
{
#if SPC__SIM_ASAN || SPC__SIM_TSAN
    const spc__sim_fiber *fiber = to->fiber;
#endif
#if SPC__SIM_ASAN
    /* NULL tells the sanitizer that this fiber never resumes. */
    __sanitizer_start_switch_fiber(fake_stack, fiber->stack_low,
                                   fiber->stack_bytes);
#endif
#if SPC__SIM_TSAN
    __tsan_switch_to_fiber(fiber->race_fiber, __tsan_switch_to_fiber_no_sync);
#endif
}

void spc__sim_fiber_switch(spc_sim_thread *from, spc_sim_thread *to)
{
    announce(&((spc__sim_fiber *)from->fiber)->fake_stack, to);
    jump(from, to);
    spc__sim_fiber_enter(from);
}

void spc__sim_fiber_leave(spc_sim_thread *from, spc_sim_thread *to)
{
    announce(NULL, to);
    jump(from, to);
}

/* Freeing the memory also discards the checker's history of it. */
bool spc__sim_tokens_renew(char **tokens, size_t count)
{
    free(*tokens);
    *tokens = malloc(count);
    return *tokens != NULL;
}

void spc__sim_fiber_forget(spc_sim_thread *thread, spc_sim_thread *main,
                           void *token)
{
#if SPC__SIM_TSAN
    unsigned flags = __tsan_switch_to_fiber_no_sync;
    /* Called as the abandoned fiber, so that its accesses are ordered before
     * the end of the launch. */
    __tsan_switch_to_fiber(((spc__sim_fiber *)thread->fiber)->race_fiber,
                           flags);
    __tsan_release(token);
    __tsan_switch_to_fiber(((spc__sim_fiber *)main->fiber)->race_fiber, flags);
    destroy_race_fibers(thread->fiber);
#endif
}

void spc__sim_release(void *token)
{
#if SPC__SIM_TSAN
    __tsan_release(token);
#endif
}

void spc__sim_acquire(void *token)
{
#if SPC__SIM_TSAN
    __tsan_acquire(token);
#endif
}

/* `caller` is a return address. The call itself precedes it. */
void spc__sim_reads(const void *p, size_t bytes, const void *caller)
{
#if SPC__SIM_TSAN
    for (size_t at = 0; at < bytes; at += 16)
        __tsan_read16_pc((char *)p + at, (char *)caller - 1);
#endif
}

void spc__sim_writes(void *p, size_t bytes, const void *caller)
{
#if SPC__SIM_TSAN
    for (size_t at = 0; at < bytes; at += 16)
        __tsan_write16_pc((char *)p + at, (char *)caller - 1);
#endif
}
