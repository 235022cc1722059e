/* Sends itself datagrams and takes them back by the calls that its argument names. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static long direct(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#endif
}

/* Ends the process at system calls that it has no use for: it reads and polls only. */
static int shut_in(const char *how) {
    int needless[] = {SYS_recvfrom, SYS_sched_yield, SYS_sched_getscheduler, SYS_prlimit64, SYS_unlinkat
#ifdef SYS_unlink
                      , SYS_unlink
#endif
    };
    struct sock_filter code[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};
    unsigned short length = 1;
    for (unsigned at = 0; at < sizeof needless / sizeof *needless; at++) {
        code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, needless[at], 0, 1);
        code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {length, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || !strcmp(how, "privileges")) return 0;
    if (!strcmp(how, "seccomp")) return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "library";
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof own;
    if (!strcmp(how, "setup")) prctl(PR_SET_NAME, "MainThread");
    int fd = socket(AF_INET, SOCK_DGRAM, 0), pair[2];
    if (fd < 0 || bind(fd, (struct sockaddr *)&own, size) || getsockname(fd, (struct sockaddr *)&own, &size)) return 1;
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) return 1;
    char buffer[16];
    if (!strcmp(how, "sandbox") || !strcmp(how, "seccomp") || !strcmp(how, "privileges")) {
        struct pollfd one = {fd, POLLIN};
        if (shut_in(how)) return 5;
        for (int round = 0; round < 5; round++) {
            if (poll(&one, 1, 30) || sendto(fd, "internet", 8, 0, (struct sockaddr *)&own, size) != 8) return 6;
            if (read(fd, buffer, 16) != 8) return 6;
        }
        return 7;
    }
    if (!strcmp(how, "setup")) {
        char parameters[120] = {0};
        puts(syscall(SYS_io_uring_setup, 1, parameters) < 0 && errno == ENOSYS ? "none" : "not refused");
        fflush(stdout);
        return read(0, buffer, 1) + 7;
    }
    for (int round = 0; round < 5; round++) {
        /* No internet socket: of no interest. */
        if (send(pair[0], "unix", 4, 0) != 4 || direct(SYS_recvfrom, pair[1], (long)buffer, 16, 0, 0, 0) != 4) return 2;
        if (sendto(fd, "internet", 8, 0, (struct sockaddr *)&own, size) != 8) return 3;
        long got = !strcmp(how, "library") ? recv(fd, buffer, 16, 0)
                 : !strcmp(how, "syscall") ? syscall(SYS_recvfrom, fd, buffer, 16, 0, 0, 0)
                 : direct(SYS_recvfrom, fd, (long)buffer, 16, 0, 0, 0);
        if (got != 8) return 4;
    }
    if (!strcmp(how, "ring")) {
        char parameters[120] = {0};
        syscall(SYS_io_uring_setup, 1, parameters);
    }
    return 7;
}
