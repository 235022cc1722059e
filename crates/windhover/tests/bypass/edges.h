/* What `edges.c` and `turns.c` have in common. */
#include "ends.h"
#include <netinet/in.h>
#include <pthread.h>

static void set(int fd, int level, int name, int value) {
    if (setsockopt(fd, level, name, &value, sizeof value)) say("setsockopt", -1);
}

static int port_of(int fd) {
    struct sockaddr_in6 name;
    socklen_t size = sizeof name;
    getsockname(fd, (void *)&name, &size);
    return ntohs(name.sin6_port);
}

/* A socket on any address, any port. */
static int bound(int kind) {
    int fd = make(kind);
    struct sockaddr_storage any = {.ss_family = far.ss_family};
    if (bind(fd, (void *)&any, far_size)) { perror("bind"); exit(1); }
    return fd;
}

static int listening(void) {
    int fd = bound(SOCK_STREAM);
    listen(fd, 50);
    return fd;
}

/* Asks the other end to connect here. */
static void call_back(int port, int count) {
    static int asked = -1;
    if (asked < 0) asked = connected(7005);
    char line[32];
    send(asked, line, sprintf(line, "%d %d\n", port, count), 0);
}

/* A port of this host by loopback. */
static struct sockaddr_storage loopback(int port) {
    struct sockaddr_storage here = far;
    if (here.ss_family == AF_INET) {
        ((struct sockaddr_in *)&here)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ((struct sockaddr_in *)&here)->sin_port = htons(port);
    } else {
        ((struct sockaddr_in6 *)&here)->sin6_addr = in6addr_loopback;
        ((struct sockaddr_in6 *)&here)->sin6_port = htons(port);
    }
    return here;
}

/* Connects to a listener of this process by loopback. */
static int connect_here(int port) {
    int fd = make(SOCK_STREAM);
    struct sockaddr_storage here = loopback(port);
    if (connect(fd, (void *)&here, far_size)) { perror("connect"); exit(1); }
    return fd;
}

static void wait_until(volatile int *count, int least, int ms) {
    for (double began = now(); *count < least && now() - began < ms / 1000.0;) usleep(100);
}

static void send_here(int fd, const char *text) {
    struct sockaddr_storage name = loopback(port_of(fd));
    sendto(fd, text, strlen(text), 0, (void *)&name, far_size);
}

static int selects(int fd, int ms) {
    fd_set read;
    struct timeval time = {ms / 1000, ms % 1000 * 1000};
    FD_ZERO(&read);
    FD_SET(fd, &read);
    return select(fd + 1, &read, NULL, NULL, &time);
}
