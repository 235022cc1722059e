/* What the programs of calls have in common that run on the kernel's stack and on another: `far` is the other end's address. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_storage far;
static socklen_t far_size;
static char buffer[100000];

static void say(const char *what, long got) {
    if (got < 0) printf("%s: %s\n", what, strerrorname_np(errno));
    else printf("%s: %ld\n", what, got);
    fflush(stdout);
}

static void text(const char *what, long got) {
    if (got < 0) { say(what, got); return; }
    printf("%s: %ld '%.*s'\n", what, got, got > 40 ? 40 : (int)got, buffer);
    fflush(stdout);
}

static struct sockaddr *to(int port) {
    if (far.ss_family == AF_INET) ((struct sockaddr_in *)&far)->sin_port = htons(port);
    else ((struct sockaddr_in6 *)&far)->sin6_port = htons(port);
    return (struct sockaddr *)&far;
}

static int make(int kind) { return socket(far.ss_family, kind, 0); }

static int connected(int port) {
    int fd = make(SOCK_STREAM);
    if (connect(fd, to(port), far_size)) { perror("connect"); exit(1); }
    return fd;
}

/* Waits until the echo has sent all datagrams back that it had before: it answers one after the other. */
static void echoes(void) {
    int last = make(SOCK_DGRAM);
    struct pollfd one = {last, POLLIN, 0};
    sendto(last, "last", 4, 0, to(7000), far_size);
    poll(&one, 1, 5000);
    close(last);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void took(const char *what, double since, double least) {
    double s = now() - since;
    printf("%s: %s\n", what, s < least ? "too early" : s > least + 2 ? "too late" : "in time");
}

static void nothing(int signal) { (void)signal; }

static int asked_by_signal;
static void ask(int signal) {
    (void)signal;
    send(asked_by_signal, "late", 4, 0);
}

static void limit(int fd, int option, int ms) {
    struct timeval t = {ms / 1000, ms % 1000 * 1000};
    setsockopt(fd, SOL_SOCKET, option, &t, sizeof t);
}

static int ready(int fd, int events, int ms) {
    struct pollfd one = {fd, events, 0};
    int count = poll(&one, 1, ms);
    return count > 0 ? one.revents : count;
}

/* Reads the other end's address; exits where there is none. */
static void begin(int count, char **arguments) {
    struct addrinfo *found, hints = {.ai_flags = AI_NUMERICHOST};
    if (count < 2 || getaddrinfo(arguments[1], "7000", &hints, &found)) exit(2);
    memcpy(&far, found->ai_addr, found->ai_addrlen);
    far_size = found->ai_addrlen;
}
