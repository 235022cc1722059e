/* Sockets that come to the stack or leave it while threads wait for them, and what fails on the way. The other end is that of `edges.c`. */
#include "edges.h"
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

/* A call of another thread, which waits for 3 s at most; its result. */
struct waits {
    int fd;
    long (*call)(int fd);
    pthread_t thread;
    volatile int began;
    long got;
};

static void *waiting(void *argument) {
    struct waits *one = argument;
    one->began = 1;
    one->got = one->call(one->fd);
    if (one->got < 0) one->got = -errno;
    return NULL;
}

static struct waits begin_to_wait(long (*call)(int), int fd) {
    return (struct waits){.fd = fd, .call = call};
}

/* Once it is begun it sleeps soon: budgets are up to 3 ms, or it spins on. */
static void start(struct waits *one) {
    pthread_create(&one->thread, NULL, waiting, one);
    wait_until(&one->began, 1, 2000);
    usleep(20000);
}

static void end(const char *what, struct waits *one) {
    pthread_join(one->thread, NULL);
    errno = -one->got;
    say(what, one->got < 0 ? -1 : one->got);
}

static long by_epoll(int set) {
    struct epoll_event found;
    double began = now();
    while (now() - began < 3) {
        int got = epoll_wait(set, &found, 1, 3000);
        if (got <= 0) return got;
        if (found.events & EPOLLIN) return found.data.u32;
        usleep(1000);
    }
    return 0;
}

static long by_poll(int fd) { return ready(fd, POLLIN, 3000); }
static long by_select(int fd) { return selects(fd, 3000); }
static long by_accept(int fd) { return accept(fd, NULL, NULL) >= 0; }
static long by_recv(int fd) {
    char bytes[16];
    return recv(fd, bytes, sizeof bytes, 0);
}

static void add(int set, int fd, unsigned events, int data) {
    struct epoll_event event = {events, {.u32 = data}};
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event)) say("EPOLL_CTL_ADD", -1);
}

static int echo_ready(void) {
    int fd = connected(7001);
    send(fd, "x", 1, 0);
    ready(fd, POLLIN, 2000);
    return fd;
}

/* Members of an instance that a thread waits for already: it had none, one that is no socket, one of the kernel's. */
static void members_come(void) {
    int port, listener = listening();
    port = port_of(listener);
    for (int kind = 0; kind < 4; kind++) {
        for (int how = 0; how < 3; how++) {
            int set = epoll_create1(0), other = kind == 0 ? -1 : kind == 1 ? eventfd(0, 0) : kind == 2 ? connect_here(port) : make(SOCK_STREAM);
            int fd = how == 2 ? make(SOCK_STREAM) : echo_ready();
            if (other >= 0) add(set, other, kind == 3 ? EPOLLPRI | EPOLLET : EPOLLIN, 1);
            struct waits one = begin_to_wait(how == 1 ? by_poll : by_epoll, set);
            start(&one);
            add(set, fd, EPOLLIN | EPOLLET, 2);
            if (how == 2) {
                usleep(5000);
                say("connect", connect(fd, to(7001), far_size));
                send(fd, "y", 1, 0);
            }
            end("a member that came later", &one);
            close(fd);
            close(other);
            close(set);
        }
    }
    close(listener);
}

/* An instance in another gets the member. */
static void an_inner_one_gets_it(void) {
    int inner = epoll_create1(0), outer = epoll_create1(0), fd = echo_ready();
    add(outer, inner, EPOLLIN, 7);
    struct waits one = begin_to_wait(by_epoll, outer);
    start(&one);
    add(inner, fd, EPOLLIN, 2);
    end("a member of an inner one", &one);
    close(inner);
    close(outer);
    close(fd);
}

/* Datagrams: the first call that sends binds the socket, and brings it to the stack. */
static void datagrams_come(void) {
    long (*calls[])(int) = {by_recv, by_poll, by_select};
    for (int i = 0; i < 3; i++) {
        int fd = make(SOCK_DGRAM);
        limit(fd, SO_RCVTIMEO, 3000);
        struct waits one = begin_to_wait(calls[i], fd);
        start(&one);
        say("sendto", sendto(fd, "four", 4, 0, to(7000), far_size));
        end("an answer to a socket that was not bound", &one);
        close(fd);
    }
}

/* A listener whose port the kernel has a connection of at first. */
static void a_listener_comes(void) {
    struct linger at_once = {1, 0};
    struct sockaddr_storage any = {.ss_family = far.ss_family};
    long (*calls[])(int) = {by_accept, by_poll, by_select, by_epoll};
    for (int i = 0; i < 4; i++) {
        int first = make(SOCK_STREAM);
        set(first, SOL_SOCKET, SO_REUSEADDR, 1);
        ((struct sockaddr_in *)&any)->sin_port = 0;
        if (bind(first, (void *)&any, far_size) || listen(first, 8)) say("listen", -1);
        int port = port_of(first), here = connect_here(port), there = accept(first, NULL, NULL);
        close(first);
        int fd = make(SOCK_STREAM);
        set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        ((struct sockaddr_in *)&any)->sin_port = htons(port);
        if (bind(fd, (void *)&any, far_size) || listen(fd, 8)) say("listen again", -1);
        limit(fd, SO_RCVTIMEO, 3000);
        int instance = epoll_create1(0);
        if (calls[i] == by_epoll) add(instance, fd, EPOLLIN, 3);
        struct waits one = begin_to_wait(calls[i], calls[i] == by_epoll ? instance : fd);
        start(&one);
        setsockopt(here, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(here);
        close(there);
        usleep(150000);
        /* This call takes it over. */
        say("nothing yet", ready(fd, POLLIN, 0));
        call_back(port, 1);
        end("a connection to a listener that came later", &one);
        close(instance);
        close(fd);
    }
}

static void connected_after_a_failure(void) {
    int listener = listening(), port = port_of(listener), fd = make(SOCK_STREAM);
    say("nobody listens", connect(fd, to(9), far_size));
    say("not connected", send(fd, "x", 1, MSG_NOSIGNAL));
    struct sockaddr_storage here = loopback(port);
    say("by loopback", connect(fd, (void *)&here, far_size));
    int got = accept(listener, NULL, NULL);
    say("send", send(fd, "here", 4, 0));
    text("there", recv(got, buffer, 10, 0));
    send(got, "back", 4, 0);
    text("and back", recv(fd, buffer, 10, 0));
    close(got);
    close(fd);
    fd = make(SOCK_STREAM);
    say("nobody listens", connect(fd, to(9), far_size));
    say("somebody does", connect(fd, to(7001), far_size));
    send(fd, "again", 5, 0);
    text("it", recv(fd, buffer, 10, 0));
    close(fd);
    close(listener);
}

static unsigned events_of(int set) {
    struct epoll_event found = {0};
    return epoll_wait(set, &found, 1, 500) == 1 ? found.events : 0;
}

/* Sockets that go back to the kernel while an instance has them. */
static void members_go(void) {
    for (int how = 0; how < 4; how++) {
        int set_of = epoll_create1(0), fd = bound(SOCK_DGRAM);
        unsigned more = how == 3 ? EPOLLONESHOT : how == 2 ? EPOLLEXCLUSIVE : 0;
        add(set_of, fd, EPOLLIN | EPOLLOUT | more, 4);
        printf("at first: %x\n", events_of(set_of));
        if (how == 1) {
            struct sockaddr_storage here = loopback(port_of(fd));
            say("connect", connect(fd, (void *)&here, far_size));
        } else if (far.ss_family == AF_INET) {
            set(fd, IPPROTO_IP, IP_RECVERR, 1);
        } else {
            set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
        }
        printf("then: %x\n", events_of(set_of));
        send_here(fd, "here");
        usleep(1000);
        printf("with a datagram: %x\n", events_of(set_of));
        struct epoll_event event = {EPOLLIN, {.u32 = 5}};
        say("a change", epoll_ctl(set_of, EPOLL_CTL_MOD, fd, &event));
        printf("with it: %x\n", events_of(set_of));
        text("it", recv(fd, buffer, 10, 0));
        printf("nothing: %x\n", events_of(set_of));
        say("no member any more", epoll_ctl(set_of, EPOLL_CTL_DEL, fd, NULL));
        say("again", epoll_ctl(set_of, EPOLL_CTL_DEL, fd, NULL));
        close(fd);
        close(set_of);
    }
    int set_of = epoll_create1(0), fd = listening();
    add(set_of, fd, EPOLLIN, 4);
    printf("a listener: %x\n", events_of(set_of));
    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3);
    int other = connect_here(port_of(fd));
    printf("of another device: %x\n", events_of(set_of));
    close(accept(fd, NULL, NULL));
    printf("nothing: %x\n", events_of(set_of));
    say("shutdown", shutdown(fd, SHUT_RDWR));
    printf("after it: %x\n", events_of(set_of));
    close(other);
    close(fd);
    fd = listening();
    add(set_of, fd, EPOLLIN, 4);
    printf("a listener: %x\n", events_of(set_of));
    say("shutdown", shutdown(fd, SHUT_RDWR));
    printf("after it: %x\n", events_of(set_of));
    close(fd);
    close(set_of);
}

/* The same with a thread that waits in a call of the socket. */
static void sockets_go(void) {
    long (*calls[])(int) = {by_recv, by_poll, by_select};
    for (int i = 0; i < 12; i++) {
        int fd = bound(SOCK_DGRAM);
        limit(fd, SO_RCVTIMEO, 3000);
        struct waits one = begin_to_wait(calls[i % 3], fd);
        start(&one);
        if (far.ss_family == AF_INET) set(fd, IPPROTO_IP, IP_RECVERR, 1);
        else set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
        usleep(5000);
        sendto(fd, "four", 4, 0, to(7000), far_size);
        end("a datagram of the interface to a socket that went", &one);
        close(fd);
    }
    for (int i = 0; i < 2; i++) {
        int fd = listening();
        struct waits one = begin_to_wait(i ? by_poll : by_accept, fd);
        start(&one);
        shutdown(fd, SHUT_RDWR);
        end("a listener that is shut down", &one);
        close(fd);
    }
}

static void flags_that_are_not_known(void) {
    int fd = echo_ready();
    say("close_range", close_range(fd, fd, 1 << 9));
    text("it is open", recv(fd, buffer, 10, 0));
    say("close_range", close_range(fd + 1, fd, 0));
    send(fd, "more", 4, 0);
    text("it works", recv(fd, buffer, 10, 0));
    say("close_range", close_range(fd, fd, 0));
    say("it is closed", send(fd, "more", 4, 0));
}

static int open_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

/* What a forked child has, and that its end sends no signal: streams of stdio still hold something. */
static void children(void) {
    int fd = connected(7001);
    FILE *stream = fdopen(fd, "r+");
    fprintf(stream, "some");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        printf("descriptors of the child: %d\n", open_descriptors());
        exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("the child's end: %d\n", status);
    fflush(stream);
    text("from the parent", recv(fd, buffer, 4, MSG_WAITALL));
    fclose(stream);
}

static int pair[2];

/* A signal ends a call that waits for room: what the pipe has stays there. */
static void *signals(void *thread) {
    for (int i = 0; i < 40; i++) {
        usleep(3000);
        pthread_kill(*(pthread_t *)thread, SIGUSR2);
    }
    return NULL;
}

static volatile long moved;
static void *moves(void *argument) {
    for (;;) {
        ready(*(int *)argument, POLLIN, 1000);
        long got = splice(*(int *)argument, NULL, pair[1], NULL, 3000, 0);
        if (!got || (got < 0 && errno != EAGAIN)) return NULL;
        if (got > 0) __sync_fetch_and_add(&moved, got);
    }
}

/* Nothing is lost, and nothing doubled, between a pipe and a connection. */
static void pipes_and_threads(void) {
    enum { ALL = 1500000 };
    int fd = connected(7001);
    if (pipe2(pair, O_NONBLOCK)) exit(1);
    say("nothing of an empty pipe", splice(pair[0], NULL, fd, NULL, 0, 0));
    say("an empty pipe that does not block", splice(pair[0], NULL, fd, NULL, 9, 0));
    while (write(pair[1], buffer, 4096) > 0) {
    }
    send(fd, "x", 1, 0);
    ready(fd, POLLIN, 2000);
    say("a full one", splice(fd, NULL, pair[1], NULL, 9, 0));
    text("it is there still", recv(fd, buffer, 9, 0));
    close(pair[0]);
    signal(SIGPIPE, SIG_IGN);
    send(fd, "y", 1, 0);
    ready(fd, POLLIN, 2000);
    say("one that nobody reads", splice(fd, NULL, pair[1], NULL, 9, 0));
    text("it is there still", recv(fd, buffer, 9, 0));
    close(pair[1]);

    /* The other end echoes, and nobody takes what it says: there is no room at some time. */
    if (pipe(pair)) exit(1);
    pthread_t self = pthread_self(), other;
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGUSR2, &action, NULL);
    limit(fd, SO_SNDTIMEO, 20);
    int value = 20000;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, sizeof value);
    pthread_create(&other, NULL, signals, &self);
    long into = 0, out = 0, stops = 0, back = 0, wrong = 0;
    while (stops < 30 && into < 30 << 20) {
        char bytes[4096];
        for (int i = 0; i < 4096; i++) bytes[i] = (into + i) * 7 >> 3;
        into += write(pair[1], bytes, 4096);
        while (out < into && stops < 30) {
            long got = splice(pair[0], NULL, fd, NULL, into - out, 0);
            if (got > 0) out += got;
            else stops++;
        }
    }
    printf("it stopped: %d\n", stops >= 30);
    pthread_join(other, NULL);
    int left = 0;
    ioctl(pair[0], FIONREAD, &left);
    printf("what was not sent is in the pipe: %d\n", left == into - out);
    shutdown(fd, SHUT_WR);
    limit(fd, SO_RCVTIMEO, 20000);
    for (long got; (got = recv(fd, buffer, sizeof buffer, 0)) > 0; back += got)
        for (long i = 0; i < got; i++) wrong += buffer[i] != (char)((back + i) * 7 >> 3);
    printf("all of it came back: %d, wrong %ld\n", back == out, wrong);
    close(pair[0]);
    close(pair[1]);
    close(fd);

    /* Two threads take from one connection. */
    fd = connected(7001);
    if (pipe(pair)) exit(1);
    pthread_t threads[2];
    moved = 0;
    /* The kernel keeps the pipe locked while splice waits for a connection. */
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, moves, &fd);
    long sent = 0, taken = 0;
    while (taken < ALL) {
        long got = sent < ALL ? send(fd, buffer, ALL - sent > 5000 ? 5000 : ALL - sent, MSG_DONTWAIT) : 0;
        if (got > 0) sent += got;
        while (ready(pair[0], POLLIN, sent < ALL ? 0 : 1000) > 0) taken += read(pair[0], buffer, sizeof buffer);
        if (sent == ALL && ready(pair[0], POLLIN, 1000) <= 0) break;
    }
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    while (ready(pair[0], POLLIN, 0) > 0) taken += read(pair[0], buffer, sizeof buffer);
    printf("by two threads: sent %ld, moved %ld, taken %ld\n", sent, moved, taken);
    close(pair[0]);
    close(pair[1]);
    close(fd);
}

/* From a sandbox on sockets are left to the kernel, but for those on the stack and theirs. */
static void in_a_sandbox(void) {
    int listener = listening(), set_of = epoll_create1(0), fd = connected(7001);
    add(set_of, listener, EPOLLIN, 1);
    add(set_of, fd, EPOLLIN, 2);
    struct epoll_event found;
    say("nothing yet", epoll_wait(set_of, &found, 1, 0));
    struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &all};
    say("PR_SET_NO_NEW_PRIVS", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    say("PR_SET_SECCOMP", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    send(fd, "sand", 4, 0);
    say("epoll_wait", epoll_wait(set_of, &found, 1, 2000) * 10 + found.data.u32);
    text("recv", recv(fd, buffer, 10, 0));
    call_back(port_of(listener), 1);
    say("epoll_wait", epoll_wait(set_of, &found, 1, 2000) * 10 + found.data.u32);
    int got = accept(listener, NULL, NULL), copy = dup(got);
    add(set_of, got, EPOLLIN, 3);
    say("send", send(got, "box", 3, 0));
    say("epoll_wait", epoll_wait(set_of, &found, 1, 2000) * 10 + found.data.u32);
    text("recv", recv(copy, buffer, 10, 0));
    close(got);
    send(copy, "copy", 4, 0);
    text("recv", recv(copy, buffer, 10, 0));
    close(copy);
    int later = connected(7001);
    send(later, "later", 5, 0);
    text("recv", recv(later, buffer, 10, 0));
    close(later);
    close(fd);
    close(set_of);
    close(listener);
}

int main(int count, char **arguments) {
    begin(count, arguments);
    int only = count > 2 ? atoi(arguments[2]) : -1;
    void (*all[])(void) = {members_come, an_inner_one_gets_it, datagrams_come, a_listener_comes, connected_after_a_failure, members_go,
                           sockets_go, flags_that_are_not_known, children, pipes_and_threads, in_a_sandbox};
    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++)
        if (only < 0 || i == only) all[i]();
    printf("done\n");
    return 23;
}
