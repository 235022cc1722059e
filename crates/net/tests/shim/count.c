/* Counts the calls of a program's data path, as a preloaded network stack would take them over. Each name is looked up
 * behind this library and called; the counts are written to the file named by COUNT_FILE when the program ends. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>

static unsigned long sockets, sends, recvs, sendtos, recvfroms, connects, accepts, bytes_sent;

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int socket(int domain, int type, int protocol)
{
    static __typeof__(&socket) next;
    if (!next) next = NEXT(socket);
    __atomic_add_fetch(&sockets, 1, __ATOMIC_RELAXED);
    return next(domain, type, protocol);
}

int connect(int fd, const struct sockaddr *to, socklen_t length)
{
    static __typeof__(&connect) next;
    if (!next) next = NEXT(connect);
    __atomic_add_fetch(&connects, 1, __ATOMIC_RELAXED);
    return next(fd, to, length);
}

int accept4(int fd, struct sockaddr *from, socklen_t *length, int flags)
{
    static __typeof__(&accept4) next;
    if (!next) next = NEXT(accept4);
    __atomic_add_fetch(&accepts, 1, __ATOMIC_RELAXED);
    return next(fd, from, length, flags);
}

ssize_t send(int fd, const void *data, size_t length, int flags)
{
    static __typeof__(&send) next;
    if (!next) next = NEXT(send);
    ssize_t done = next(fd, data, length, flags);
    __atomic_add_fetch(&sends, 1, __ATOMIC_RELAXED);
    if (done > 0) __atomic_add_fetch(&bytes_sent, (unsigned long)done, __ATOMIC_RELAXED);
    return done;
}

ssize_t recv(int fd, void *data, size_t length, int flags)
{
    static __typeof__(&recv) next;
    if (!next) next = NEXT(recv);
    ssize_t done = next(fd, data, length, flags);
    if (done > 0) __atomic_add_fetch(&recvs, 1, __ATOMIC_RELAXED);
    return done;
}

ssize_t sendto(int fd, const void *data, size_t length, int flags, const struct sockaddr *to, socklen_t to_length)
{
    static __typeof__(&sendto) next;
    if (!next) next = NEXT(sendto);
    ssize_t done = next(fd, data, length, flags, to, to_length);
    __atomic_add_fetch(&sendtos, 1, __ATOMIC_RELAXED);
    if (done > 0) __atomic_add_fetch(&bytes_sent, (unsigned long)done, __ATOMIC_RELAXED);
    return done;
}

ssize_t recvfrom(int fd, void *data, size_t length, int flags, struct sockaddr *from, socklen_t *from_length)
{
    static __typeof__(&recvfrom) next;
    if (!next) next = NEXT(recvfrom);
    ssize_t done = next(fd, data, length, flags, from, from_length);
    if (done > 0) __atomic_add_fetch(&recvfroms, 1, __ATOMIC_RELAXED);
    return done;
}

__attribute__((destructor)) static void report(void)
{
    const char *name = getenv("COUNT_FILE");
    FILE *file = name ? fopen(name, "w") : NULL;
    if (!file) return;
    fprintf(file, "socket %lu\nconnect %lu\naccept4 %lu\nsend %lu\nrecv %lu\nsendto %lu\nrecvfrom %lu\nbytes_sent %lu\n",
            sockets, connects, accepts, sends, recvs, sendtos, recvfroms, bytes_sent);
    fclose(file);
}
