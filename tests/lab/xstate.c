/* Lets User-Mode-Linux run on processors whose extended state is larger than it knows, such as those with AMX.
 *
 * Linux takes a thread's extended state as a whole or not at all: a buffer that ends before its end is EFAULT, and
 * UML up to 6.12 has one of fixed size, so that its first process dies. Preloaded, this fills in the rest as the thread
 * has it. Where the buffer is large enough already, nothing is changed.
 * See xstateregs_set() in Linux's arch/x86/kernel/fpu/regset.c, and put_fp_registers() in its arch/x86/um. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

/* More than any processor's: AMX has 11008 bytes. */
#define LARGEST 65536

typedef long ptrace_function(int request, pid_t pid, void *address, void *data);

static long set_extended_state(ptrace_function *ptrace_of_libc, pid_t pid, void *kind, struct iovec *given)
{
    static char whole[LARGEST] __attribute__((aligned(64)));
    struct iovec state = { whole, sizeof whole };
    if (ptrace_of_libc(PTRACE_GETREGSET, pid, kind, &state) != 0)
        return -1;
    memcpy(whole, given->iov_base, given->iov_len < state.iov_len ? given->iov_len : state.iov_len);
    return ptrace_of_libc(PTRACE_SETREGSET, pid, kind, &state);
}

long ptrace(enum __ptrace_request request, ...)
{
    static ptrace_function *ptrace_of_libc;
    va_list list;
    va_start(list, request);
    pid_t pid = va_arg(list, pid_t);
    void *address = va_arg(list, void *);
    void *data = va_arg(list, void *);
    va_end(list);

    if (!ptrace_of_libc)
        ptrace_of_libc = (ptrace_function *)dlsym(RTLD_NEXT, "ptrace");
    if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE)
        return set_extended_state(ptrace_of_libc, pid, address, data);
    return ptrace_of_libc(request, pid, address, data);
}
