/* Ping-pong of 32 bytes over one TCP connection, beside others that stay idle.
 * idle server ADDRESS PORT, idle client ADDRESS PORT IDLE SECONDS: prints the median of RTT/2 in ns. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

enum { BYTES = 32, MOST = 2000000 };

static int end(const char *address, const char *port, struct sockaddr_in *where) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    *where = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    inet_pton(AF_INET, address, &where->sin_addr);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return fd;
}

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    unsigned one = *(const unsigned *)a, other = *(const unsigned *)b;
    return (one > other) - (one < other);
}

int main(int count, char **words) {
    struct rlimit files = {8192, 8192};
    setrlimit(RLIMIT_NOFILE, &files);
    struct sockaddr_in where;
    char data[BYTES] = {0}, first;
    if (count < 4) return 2;
    int fd = end(words[2], words[3], &where);
    if (!strcmp(words[1], "server")) {
        if (bind(fd, (struct sockaddr *)&where, sizeof where) || listen(fd, 128)) return 1;
        for (;;) {
            /* The idle ones say 'i', the busy one 'b'. */
            int next = accept(fd, NULL, NULL), on = 1;
            if (next < 0 || recv(next, &first, 1, 0) != 1) return 1;
            setsockopt(next, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            if (send(next, &first, 1, 0) != 1) return 1;
            while (first == 'b' && recv(next, data, BYTES, MSG_WAITALL) == BYTES)
                if (send(next, data, BYTES, 0) != BYTES) return 1;
        }
    }
    int idle = atoi(words[4]);
    for (int at = 0; at <= idle; at++) {
        if (at) fd = end(words[2], words[3], &where);
        if (connect(fd, (struct sockaddr *)&where, sizeof where)) return 3;
        if (send(fd, at == idle ? "b" : "i", 1, 0) != 1 || recv(fd, &first, 1, 0) != 1) return 4;
    }
    static unsigned times[MOST];
    long taken = 0, until = now() + atol(words[5]) * 1000000000L;
    for (long round = 0; taken < MOST; round++) {
        long from = now();
        if (send(fd, data, BYTES, 0) != BYTES || recv(fd, data, BYTES, MSG_WAITALL) != BYTES) return 5;
        long to = now();
        if (round >= 1000) times[taken++] = to - from;
        if (to > until) break;
    }
    qsort(times, taken, sizeof times[0], ascending);
    printf("%.1f\n", times[taken / 2] / 2.0);
    return 0;
}
