/* Ports that several listeners have. `ports share UDP|TCP PORT`: two threads, each with a socket of its own (SO_REUSEPORT), answer with
   their number; a thread that returns from its call though the process ends ends it with 1. `ports at KIND PORT`: the same with one
   thread on fd09::1. `ports dial PORT`: connects
   from that port of fd09::1 to port 7300 of fd09::2. `ports drain PORT`: takes one connection, closes its listener, and echoes on until the connection ends. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int is_stream, port, threads = 2;
static struct in6_addr address = IN6ADDR_ANY_INIT;

static int bound(int option) {
    int fd = socket(AF_INET6, is_stream ? SOCK_STREAM : SOCK_DGRAM, 0), on = 1;
    struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = address};
    if (setsockopt(fd, SOL_SOCKET, option, &on, sizeof on) || bind(fd, (void *)&own, sizeof own)) { perror("bind"); exit(1); }
    if (is_stream && listen(fd, 100)) { perror("listen"); exit(1); }
    return fd;
}

static void failed(const char *call) {
    perror(call);
    _exit(1);
}

static void *answer(void *number) {
    int fd = bound(threads > 1 ? SO_REUSEPORT : SO_REUSEADDR);
    char byte, reply = '0' + (long)number;
    for (;;) {
        struct sockaddr_in6 from;
        socklen_t size = sizeof from;
        if (is_stream) {
            int one = accept(fd, NULL, NULL);
            if (one < 0 || send(one, &reply, 1, 0) != 1) failed("accept");
            close(one);
        } else {
            if (recvfrom(fd, &byte, 1, 0, (void *)&from, &size) != 1) failed("recvfrom");
            sendto(fd, &reply, 1, 0, (void *)&from, size);
        }
    }
}

static int drain(void) {
    int listener = bound(SO_REUSEADDR);
    puts("ready");
    fflush(stdout);
    int fd = accept(listener, NULL, NULL);
    close(listener);
    char bytes[100];
    for (long got; (got = recv(fd, bytes, sizeof bytes, 0)) > 0;) send(fd, bytes, got, 0);
    return 0;
}

static int dial(void) {
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(7300)};
    inet_pton(AF_INET6, "fd09::1", &own.sin6_addr);
    inet_pton(AF_INET6, "fd09::2", &to.sin6_addr);
    if (bind(fd, (void *)&own, sizeof own)) failed("bind");
    if (connect(fd, (void *)&to, sizeof to) || send(fd, "dial", 4, 0) != 4) failed("connect");
    puts("ready");
    fflush(stdout);
    char byte;
    return recv(fd, &byte, 1, 0) != 1;
}

static void *drained(void *pipe_end) {
    char bytes[4096];
    usleep(300 * 1000);
    while (read(*(int *)pipe_end, bytes, sizeof bytes) > 0) {
    }
    return NULL;
}

/* The end of the process takes 0.3 s from here on: the C library writes to a full pipe after all libraries have ended. */
static void end_slowly(void) {
    static int ends[2];
    pthread_t reader;
    if (pipe2(ends, O_NONBLOCK)) failed("pipe2");
    while (write(ends[1], "x", 1) == 1) {
    }
    fcntl(ends[0], F_SETFL, 0);
    fcntl(ends[1], F_SETFL, 0);
    fputc('x', fdopen(ends[1], "w"));
    pthread_create(&reader, NULL, drained, ends);
}

int main(int count, char **arguments) {
    port = atoi(arguments[count - 1]);
    is_stream = strcmp(arguments[2], "UDP");
    if (!strcmp(arguments[1], "drain")) return drain();
    if (!strcmp(arguments[1], "dial")) return dial();
    if (!strcmp(arguments[1], "at")) {
        threads = 1;
        inet_pton(AF_INET6, "fd09::1", &address);
    }
    pthread_t thread;
    for (long i = 0; i < threads; i++) pthread_create(&thread, NULL, answer, (void *)i);
    puts("ready");
    fflush(stdout);
    while (read(0, &count, 1) > 0) {
    }
    end_slowly();
    return 0;
}
