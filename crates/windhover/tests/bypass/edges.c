/* Calls at the edges: threads, signals, options, accepted connections, epoll instances in others, files and pipes. As `ends.c`, which
   says what the other end does; besides: 7005 takes "PORT COUNT\n", connects so often to that port of this end, and echoes there;
   7006 says "!" and reads to the end, and 7007 says how the last of those ended. */
#include "edges.h"
#include <linux/errqueue.h>
#include <net/if.h>
#include <ucontext.h>

static void say_option(const char *what, int fd, int level, int name, int bytes) {
    int value[4] = {0, 0, 0, 0};
    socklen_t size = bytes;
    int got = getsockopt(fd, level, name, value, &size);
    if (got) say(what, got);
    else printf("%s: %d %d %d %d\n", what, value[0], value[1], value[2], value[3]);
}

enum { ACCEPTING = 8 };
static volatile int from_here, from_far, wanted;
static void *accept_all(void *argument) {
    struct sockaddr_in6 from;
    for (;;) {
        socklen_t size = sizeof from;
        int fd = accept(*(int *)argument, (void *)&from, &size);
        if (fd < 0) return NULL;
        close(fd);
        if (memcmp(&from, to(0), 2) || memcmp((char *)&from + (far_size == 16 ? 4 : 8), (char *)to(0) + (far_size == 16 ? 4 : 8), 4)) {
            __sync_fetch_and_add(&from_here, 1);
            continue;
        }
        int mine = wanted;
        __sync_fetch_and_add(&from_far, 1);
        while (mine == wanted) usleep(100);
    }
}

/* Each round has a connection of loopback, and one of the interface for each thread: none may wait for those of loopback alone. */
static void threads_accept(void) {
    int fd = listening(), port = port_of(fd), rounds = 0;
    pthread_t threads[ACCEPTING];
    for (int i = 0; i < ACCEPTING; i++) pthread_create(&threads[i], NULL, accept_all, &fd);
    while (rounds < 40 && from_far == wanted) {
        usleep(rounds++ % 8 * 500);
        close(connect_here(port));
        wait_until(&from_here, rounds, 20000);
        call_back(port, ACCEPTING);
        wait_until(&from_far, wanted + ACCEPTING, 20000);
        wanted += ACCEPTING;
    }
    printf("threads accept in %d rounds: %d here, %d from far\n", rounds, from_here, from_far);
    if (from_far != wanted) exit(1);
    shutdown(fd, SHUT_RDWR);
    for (int i = 0; i < ACCEPTING; i++) pthread_join(threads[i], NULL);
    close(fd);
}

/* Whether a handler ran before the thread was in its call: a number that is another's by then is rightly used. */
static volatile int early;
extern char __executable_start, etext;
static void pause_in_handler(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
#ifdef __x86_64__
    char *at = (char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    early = at >= &__executable_start && at < &etext;
#endif
    usleep(2500);
}

static volatile int receives;
static volatile long began_ns;
static long clock_ns(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * 1000000000L + at.tv_nsec;
}

/* Whether a thread is well within its call: it sleeps, or has run for 100 us since it began. Beside other work it may not have begun. */
static int is_in_call(pthread_t thread, int id) {
    char path[64], state = 0;
    clockid_t clock;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", id);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*[^)]) %c", &state) != 1) exit(1);
    fclose(file);
    return state == 'S' || (!pthread_getcpuclockid(thread, &clock) && clock_ns(clock) - began_ns > 100000);
}

static void *receive_once(void *argument) {
    char bytes[16];
    began_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    receives = gettid();
    long got = recv(*(int *)argument, bytes, sizeof bytes, 0);
    return (void *)(got > 0 ? 1L : 0L);
}

/* A signal handler keeps the thread in the middle of its call, while its descriptor is closed and the number is another socket's. */
static void the_number_is_anothers(int rounds) {
    struct sigaction action = {.sa_sigaction = pause_in_handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    int stolen = 0, same = 0;
    for (int round = 0; round < rounds;) {
        int fd = bound(SOCK_DGRAM), number = fd;
        pthread_t thread;
        receives = early = 0;
        pthread_create(&thread, NULL, receive_once, &fd);
        while (!receives) usleep(100);
        while (!is_in_call(thread, receives)) usleep(100);
        usleep(round % 16 * 30);
        pthread_kill(thread, SIGUSR1);
        usleep(500);
        close(fd);
        int other = bound(SOCK_DGRAM);
        struct sockaddr_in6 name;
        socklen_t size = sizeof name;
        getsockname(other, (void *)&name, &size);
        if (far.ss_family == AF_INET6) name.sin6_addr = in6addr_loopback;
        else ((struct sockaddr_in *)&name)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        sendto(other, "own", 3, 0, (void *)&name, far_size);
        void *got;
        pthread_join(thread, &got);
        close(other);
        if (early) continue;
        round++;
        same += other == number;
        stolen += got != NULL;
    }
    printf("same numbers %d, datagrams of others %d\n", same, stolen);
}

static void through_a_copy(void) {
    int fds[2] = {bound(SOCK_DGRAM), connected(7001)};
    for (int i = 0; i < 2; i++) {
        int copy = dup(fds[i]);
        recv(fds[i], buffer, 4, MSG_DONTWAIT);
        limit(fds[i], SO_RCVTIMEO, 400);
        fcntl(copy, F_SETFL, O_NONBLOCK);
        double began = now();
        say("O_NONBLOCK through a copy", recv(fds[i], buffer, 4, 0));
        say("at once", now() - began < 0.3);
        int off = 0;
        ioctl(copy, FIONBIO, &off);
        began = now();
        say("and back", recv(fds[i], buffer, 4, 0));
        took("its time", began, 0.39);
        close(copy);
        close(fds[i]);
    }
}

static void connected_with_some_waiting(void) {
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    for (int other = 0; other < 2; other++) {
        int fd = make(SOCK_DGRAM);
        sendto(fd, "first", 5, 0, to(7000), far_size);
        sendto(fd, "second", 6, 0, to(7000), far_size);
        echoes();
        say("waiting", ready(fd, POLLIN, 2000));
        sendto(fd, "third", 5, 0, to(7000), far_size);
        echoes();
        say("connect", connect(fd, to(other ? 7009 : 7000), far_size));
        for (int i = 0; i < 3; i++) text("what waited", recvfrom(fd, buffer, 100, MSG_DONTWAIT, (void *)&from, &size));
        printf("from the first: %d\n", !memcmp(&from, to(7000), 8));
        say("again", connect(fd, to(7000), far_size));
        send(fd, "fourth", 6, 0);
        text("fourth", recv(fd, buffer, 100, 0));
        struct sockaddr none = {.sa_family = AF_UNSPEC};
        say("disconnect", connect(fd, &none, sizeof none));
        say("send", send(fd, "x", 1, 0));
        sendto(fd, "fifth", 5, 0, to(7000), far_size);
        text("fifth", recv(fd, buffer, 100, 0));
        close(fd);
    }
}

static volatile int alarms;
static void once(int signal) {
    struct sigaction now;
    sigaction(signal, NULL, &now);
    alarms += now.sa_handler == SIG_DFL;
    struct sigaction again = {.sa_handler = once, .sa_flags = SA_RESETHAND | SA_RESTART};
    sigaction(signal, &again, NULL);
    /* Not before: the kernel ends the process where two come at once. */
    struct itimerval next = {{0, 0}, {0, 500}};
    setitimer(ITIMER_REAL, &next, NULL);
}

/* Handlers for one signal each, which install themselves again. */
static void handlers_for_one_signal(void) {
    int fd = bound(SOCK_DGRAM);
    struct itimerval none = {{0, 0}, {0, 0}};
    alarms = 0;
    once(SIGALRM);
    for (double began = now(); alarms < 100 && now() - began < 5;) recv(fd, buffer, 4, MSG_DONTWAIT);
    setitimer(ITIMER_REAL, &none, NULL);
    say("handlers for one signal", alarms >= 100);
    struct sigaction last;
    sigaction(SIGALRM, NULL, &last);
    printf("the last one: %d %d\n", last.sa_handler == once, (last.sa_flags & SA_RESETHAND) != 0);
    signal(SIGALRM, SIG_DFL);
    close(fd);
}

static void least_to_receive(void) {
    int fd = connected(7003), value = 0;
    set(fd, SOL_SOCKET, SO_RCVLOWAT, 8);
    for (double began = now(); !value && now() - began < 2; usleep(500)) ioctl(fd, FIONREAD, &value);
    say("not enough", ready(fd, POLLIN, 25));
    text("what is there", recv(fd, buffer, 100, MSG_DONTWAIT | MSG_PEEK));
    say("enough", ready(fd, POLLIN, 2000));
    text("SO_RCVLOWAT", recv(fd, buffer, 100, 0));
    close(fd);
    fd = make(SOCK_STREAM);
    set(fd, SOL_SOCKET, SO_RCVLOWAT, 8);
    connect(fd, to(7003), far_size);
    text("set before connect, peek", recv(fd, buffer, 9, MSG_PEEK));
    text("less than that", recv(fd, buffer, 3, 0));
    text("the rest", recv(fd, buffer, 100, 0));
    close(fd);
    fd = connected(7003);
    set(fd, SOL_SOCKET, SO_RCVLOWAT, 100);
    text("the end comes first", recv(fd, buffer, 200, 0));
    close(fd);
}

static void of_devices(void) {
    int fd = make(SOCK_DGRAM);
    say("SO_BINDTODEVICE", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "near", 5));
    sendto(fd, "device", 6, 0, to(7000), far_size);
    text("by the device", recv(fd, buffer, 100, 0));
    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3);
    limit(fd, SO_RCVTIMEO, 100);
    sendto(fd, "device", 6, 0, to(7000), far_size);
    say("by another one", recv(fd, buffer, 100, 0));
    close(fd);
    if (far.ss_family != AF_INET6) return;
    fd = make(SOCK_DGRAM);
    limit(fd, SO_RCVTIMEO, 3000);
    struct sockaddr_in6 link = *(struct sockaddr_in6 *)to(7000), name;
    socklen_t size = sizeof name;
    inet_pton(AF_INET6, "fe80::2", &link.sin6_addr);
    link.sin6_scope_id = if_nametoindex("near");
    say("to the link", sendto(fd, "link", 4, 0, (void *)&link, sizeof link));
    text("its answer", recvfrom(fd, buffer, 100, 0, (void *)&name, &size));
    printf("with its scope: %d\n", name.sin6_scope_id == link.sin6_scope_id);
    link.sin6_scope_id = if_nametoindex("lo");
    sendto(fd, "link", 4, 0, (void *)&link, sizeof link);
    say("to another link", recv(fd, buffer, 100, 0));
    close(fd);
}

static void how_it_ended(void) {
    int fd = connected(7007);
    text("the other end says", recv(fd, buffer, 100, MSG_WAITALL));
    close(fd);
}

static void lingering(void) {
    struct linger at_once = {1, 0};
    int fd = connected(7006);
    recv(fd, buffer, 1, 0);
    close(fd);
    how_it_ended();
    fd = make(SOCK_STREAM);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    connect(fd, to(7006), far_size);
    recv(fd, buffer, 1, 0);
    close(fd);
    how_it_ended();
}

static void inheritance(void) {
    int fd = listening(), port = port_of(fd);
    struct linger linger = {1, 3};
    limit(fd, SO_RCVTIMEO, 70);
    limit(fd, SO_SNDTIMEO, 2000);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, SOL_SOCKET, SO_RCVBUF, 40000);
    set(fd, SOL_SOCKET, SO_SNDBUF, 50000);
    set(fd, SOL_SOCKET, SO_PRIORITY, 3);
    set(fd, SOL_SOCKET, SO_RCVLOWAT, 2);
    set(fd, SOL_SOCKET, SO_OOBINLINE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 33);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 44);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 9000);
    if (far.ss_family == AF_INET) {
        set(fd, IPPROTO_IP, IP_TTL, 77);
        set(fd, IPPROTO_IP, IP_TOS, 16);
    } else {
        set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 77);
        set(fd, IPPROTO_IPV6, IPV6_TCLASS, 16);
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (int here = 0; here < 2; here++) {
        int other = here ? connect_here(port) : -1;
        if (!here) call_back(port, 1);
        say("poll of the listener", ready(fd, POLLIN, 2000));
        int got = accept(fd, NULL, NULL);
        printf("O_NONBLOCK %d\n", (fcntl(got, F_GETFL) & O_NONBLOCK) != 0);
        say_option("SO_RCVTIMEO", got, SOL_SOCKET, SO_RCVTIMEO, 16);
        say_option("SO_SNDTIMEO", got, SOL_SOCKET, SO_SNDTIMEO, 16);
        say_option("SO_LINGER", got, SOL_SOCKET, SO_LINGER, 8);
        int names[] = {SO_KEEPALIVE, SO_RCVBUF, SO_SNDBUF, SO_PRIORITY, SO_RCVLOWAT, SO_OOBINLINE, SO_REUSEADDR, SO_ERROR, SO_TYPE};
        for (unsigned i = 0; i < sizeof names / sizeof *names; i++) say_option("of the socket", got, SOL_SOCKET, names[i], 4);
        int of_tcp[] = {TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_NODELAY, TCP_USER_TIMEOUT};
        for (unsigned i = 0; i < sizeof of_tcp / sizeof *of_tcp; i++) say_option("of TCP", got, IPPROTO_TCP, of_tcp[i], 4);
        int is_v6 = far.ss_family == AF_INET6;
        say_option("hops", got, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP, is_v6 ? IPV6_UNICAST_HOPS : IP_TTL, 4);
        say_option("class", got, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP, is_v6 ? IPV6_TCLASS : IP_TOS, 4);
        double began = now();
        say("its time-out", recv(got, buffer, 4, 0));
        took("its time", began, 0.065);
        if (here) close(other);
        close(got);
    }
    set(fd, IPPROTO_TCP, TCP_NODELAY, 0);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
    call_back(port, 1);
    ready(fd, POLLIN, 2000);
    int got = accept(fd, NULL, NULL);
    say_option("TCP_NODELAY of the next", got, IPPROTO_TCP, TCP_NODELAY, 4);
    say_option("SO_KEEPALIVE", got, SOL_SOCKET, SO_KEEPALIVE, 4);
    close(got);
    close(fd);
}

/* Numbers of descriptors, after threads have waited. */
static void numbers(void) {
    int fd = make(SOCK_DGRAM), listener = listening();
    limit(fd, SO_RCVTIMEO, 30);
    sendto(fd, "x", 1, 0, to(7000), far_size);
    ready(fd, POLLIN, 3000);
    recv(fd, buffer, 4, 0);
    say("no more", recv(fd, buffer, 4, 0));
    call_back(port_of(listener), 1);
    int got = accept(listener, NULL, NULL), file = open("/dev/null", O_RDONLY), other = make(SOCK_STREAM);
    printf("numbers: %d %d %d %d %d\n", fd, listener, got, file, other);
    close(other);
    close(file);
    close(got);
    close(listener);
    close(fd);
}

static void nested(void) {
    int inner = epoll_create1(0), outer = epoll_create1(0), b = connected(7001), a = make(SOCK_DGRAM);
    connect(a, to(7000), far_size);
    struct epoll_event event = {EPOLLIN, {.u32 = 9}}, found[4];
    say("an instance in another", epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event));
    say("round about", epoll_ctl(inner, EPOLL_CTL_ADD, outer, &event));
    event.data.u32 = 1;
    say("a connection in it", epoll_ctl(inner, EPOLL_CTL_ADD, b, &event));
    event.data.u32 = 2;
    say("datagrams in it", epoll_ctl(inner, EPOLL_CTL_ADD, a, &event));
    say("nothing", epoll_wait(outer, found, 4, 30));
    say("poll of it", ready(inner, POLLIN, 30));
    for (int i = 0; i < 2; i++) {
        send(i ? a : b, "xyz", 3, 0);
        say("the outer one", epoll_wait(outer, found, 4, 2000) * 10 + found[0].data.u32);
        say("poll of it", ready(inner, POLLIN, 2000));
        say("poll of the outer one", ready(outer, POLLIN, 2000));
        say("select of it", selects(inner, 2000));
        say("the inner one", epoll_wait(inner, found, 4, 2000) * 10 + found[0].data.u32);
        recv(i ? a : b, buffer, 10, 0);
        say("taken", epoll_wait(outer, found, 4, 30));
        say("poll of it", ready(inner, POLLIN, 0));
    }
    event = (struct epoll_event){EPOLLIN | EPOLLET, {.u32 = 8}};
    epoll_ctl(outer, EPOLL_CTL_MOD, inner, &event);
    send(b, "x", 1, 0);
    say("an edge", epoll_wait(outer, found, 4, 2000) * 10 + found[0].data.u32);
    say("once", epoll_wait(outer, found, 4, 30));
    send(b, "x", 1, 0);
    say("another", epoll_wait(outer, found, 4, 2000));
    usleep(30000);
    recv(b, buffer, 10, 0);
    close(inner);
    send(b, "x", 1, 0);
    say("it is closed", epoll_wait(outer, found, 4, 60));
    recv(b, buffer, 10, 0);
    close(outer);
    close(a);
    close(b);
}

static void instances(void) {
    int set = epoll_create1(0), b = connected(7001), a = bound(SOCK_DGRAM);
    struct epoll_event event = {EPOLLIN, {.u32 = 1}}, found[4];
    epoll_ctl(set, EPOLL_CTL_ADD, b, &event);
    int copy = dup(set);
    send(b, "x", 1, 0);
    say("a copy of an instance", epoll_wait(copy, found, 4, 2000));
    close(set);
    say("the other is closed", epoll_wait(copy, found, 4, 2000));
    event.data.u32 = 7;
    say("a change by the copy", epoll_ctl(copy, EPOLL_CTL_MOD, b, &event));
    say("its data", epoll_wait(copy, found, 4, 2000) * 10 + found[0].data.u32);
    recv(b, buffer, 4, 0);
    close_range(copy, copy, 0);
    set = epoll_create1(0);
    int second = epoll_create1(0);
    say("nothing in a new one", epoll_ctl(second, EPOLL_CTL_MOD, b, &event));
    say("it can be added", epoll_ctl(second, EPOLL_CTL_ADD, b, &event));
    send(b, "x", 1, 0);
    say("and is ready", epoll_wait(second, found, 4, 2000));
    event = (struct epoll_event){EPOLLIN | EPOLLET, {.u32 = 3}};
    epoll_ctl(second, EPOLL_CTL_MOD, b, &event);
    say("an edge by the change", epoll_wait(second, found, 4, 2000));
    say("once", epoll_wait(second, found, 4, 20));
    epoll_ctl(second, EPOLL_CTL_MOD, b, &event);
    say("again by the change", epoll_wait(second, found, 4, 2000));
    epoll_ctl(second, EPOLL_CTL_DEL, b, NULL);
    event.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT;
    say("EPOLLEXCLUSIVE with more", epoll_ctl(second, EPOLL_CTL_ADD, b, &event));
    event.events = EPOLLIN | EPOLLEXCLUSIVE;
    say("EPOLLEXCLUSIVE", epoll_ctl(second, EPOLL_CTL_ADD, b, &event));
    say("its event", epoll_wait(second, found, 4, 2000));
    say("cannot be changed", epoll_ctl(second, EPOLL_CTL_MOD, b, &event));
    event.events = EPOLLIN;
    say("not even so", epoll_ctl(second, EPOLL_CTL_MOD, b, &event));
    recv(b, buffer, 4, 0);
    event = (struct epoll_event){EPOLLIN | EPOLLONESHOT, {.u32 = 5}};
    epoll_ctl(set, EPOLL_CTL_ADD, a, &event);
    for (int i = 0; i < 2; i++) {
        if (i) sendto(a, "far", 3, 0, to(7000), far_size);
        else send_here(a, "here");
        say("one shot", epoll_wait(set, found, 4, 2000));
        if (i) send_here(a, "here");
        else sendto(a, "far", 3, 0, to(7000), far_size);
        say("spent", epoll_wait(set, found, 4, 60));
        say("armed again", epoll_ctl(set, EPOLL_CTL_MOD, a, &event));
        say("one shot", epoll_wait(set, found, 4, 2000));
        recv(a, buffer, 4, 0);
        recv(a, buffer, 4, 0);
        epoll_ctl(set, EPOLL_CTL_MOD, a, &event);
    }
    /* Two members with the same data: the shot of one is not that of the other. */
    int alike = bound(SOCK_DGRAM);
    epoll_ctl(set, EPOLL_CTL_ADD, alike, &event);
    sendto(alike, "far", 3, 0, to(7000), far_size);
    say("on the stack", epoll_wait(set, found, 4, 2000));
    recv(alike, buffer, 4, 0);
    epoll_ctl(set, EPOLL_CTL_MOD, alike, &event);
    send_here(a, "here");
    say("one of two", epoll_wait(set, found, 4, 2000));
    sendto(alike, "far", 3, 0, to(7000), far_size);
    say("the other of two", epoll_wait(set, found, 4, 2000));
    close(alike);
    close(set);
    close(second);
    close(a);
    close(b);
}

static pthread_barrier_t both;
static void *receive_nothing(void *argument) {
    char byte;
    pthread_barrier_wait(&both);
    recv(*(int *)argument, &byte, 1, MSG_DONTWAIT);
    return NULL;
}

/* A socket comes to an instance in the moment in which another thread uses it for the first time. */
static void used_while_it_is_added(void) {
    enum { ROUNDS = 300 };
    int set = epoll_create1(0), rounds = 0, told = 1;
    pthread_barrier_init(&both, NULL, 2);
    for (; rounds < ROUNDS && told == 1; rounds++) {
        int fd = bound(SOCK_DGRAM);
        struct epoll_event event = {.events = EPOLLIN};
        pthread_t thread;
        pthread_create(&thread, NULL, receive_nothing, &fd);
        pthread_barrier_wait(&both);
        for (volatile int wait = rounds % 30 * 100; wait > 0; wait--) {
        }
        epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
        pthread_join(thread, NULL);
        sendto(fd, "x", 1, 0, to(7000), far_size);
        told = epoll_wait(set, &event, 1, 2000);
        close(fd);
    }
    printf("added while it is used: %d of %d told\n", told == 1 ? rounds : rounds - 1, ROUNDS);
    close(set);
}

static void streams_of_stdio(void) {
    int fd = connected(7001);
    FILE *both = fdopen(fd, "r+");
    say("fileno", fileno(both) == fd);
    setvbuf(both, NULL, _IOLBF, 0);
    say("fprintf", fprintf(both, "line %d\n", 1));
    say("fgets", fgets(buffer, 100, both) != NULL);
    text("it", strlen(buffer));
    errno = 0;
    say("fseek", fseek(both, 0, SEEK_SET));
    say("fwrite", fwrite("abc\ndef\n", 1, 8, both));
    say("fread", fread(buffer, 1, 8, both));
    say("dprintf", dprintf(fd, "%s %d %g %s %s %s %d\n", "many", 7, 1.5, "a", "b", "c", -1));
    say("fgets", fgets(buffer, 100, both) != NULL);
    text("it", strlen(buffer));
    shutdown(fd, SHUT_WR);
    say("the end", fgets(buffer, 100, both) == NULL && feof(both) && !ferror(both));
    say("fclose", fclose(both));
    say("it is closed", fcntl(fd, F_GETFD));
    fd = connected(7001);
    FILE *in = fdopen(dup(fd), "r"), *out = fdopen(fd, "w");
    for (int i = 0; i < 3000; i++) fprintf(out, "%d\n", i);
    fflush(out);
    long sum = 0;
    for (int i = 0; i < 3000 && fgets(buffer, 100, in); i++) sum += atoi(buffer);
    say("the sum of many lines", sum);
    say("a wrong mode", fdopen(fd, "x") != NULL);
    fclose(out);
    fclose(in);
    FILE *file = tmpfile();
    say("dprintf to a file", dprintf(fileno(file), "%s %.2f\n", "file", 2.25));
    fclose(file);
}

static void pipes(void) {
    int fd = connected(7001), pair[2];
    loff_t offset = 0;
    if (pipe(pair)) exit(1);
    say("into the pipe", write(pair[1], "through a pipe", 14));
    say("splice to a connection", splice(pair[0], NULL, fd, NULL, 100, SPLICE_F_MOVE | SPLICE_F_MORE));
    send(fd, "!", 1, 0);
    for (int waiting = 0; waiting < 15; usleep(1000)) ioctl(fd, FIONREAD, &waiting);
    say("splice from it", splice(fd, NULL, pair[1], NULL, 9, SPLICE_F_MOVE));
    text("out of the pipe", read(pair[0], buffer, 100));
    text("what is left", recv(fd, buffer, 100, 0));
    say("an offset", splice(fd, &offset, pair[1], NULL, 9, 0));
    say("no pipe", splice(fd, NULL, fd, NULL, 9, 0));
    say("an empty pipe", splice(pair[0], NULL, fd, NULL, 9, SPLICE_F_NONBLOCK));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    say("nothing received", splice(fd, NULL, pair[1], NULL, 9, 0));
    fcntl(fd, F_SETFL, 0);
    long sent = 0, back = 0, sum = 0;
    for (int i = 0; i < 60000; i++) buffer[i] = i * 7;
    while (back < 60000) {
        if (sent < 60000) {
            long got = write(pair[1], buffer + sent, 60000 - sent > 5000 ? 5000 : 60000 - sent);
            for (long left = got; left > 0;) left -= splice(pair[0], NULL, fd, NULL, left, 0);
            sent += got;
        }
        long got = splice(fd, NULL, pair[1], NULL, 7000, 0);
        if (got <= 0) break;
        char bytes[7000];
        got = read(pair[0], bytes, got);
        for (long i = 0; i < got; i++) sum += bytes[i] == (char)((back + i) * 7);
        back += got;
    }
    say("much of it", back);
    say("all right", sum);
    shutdown(fd, SHUT_WR);
    say("the end", splice(fd, NULL, pair[1], NULL, 9, 0));
    close(pair[0]);
    close(pair[1]);
    close(fd);
}

/* What a datagram's control data say, in so much room. */
static void told(int fd, const char *what, size_t room) {
    char control[256], byte[8];
    struct iovec part = {byte, sizeof byte};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room};
    send(fd, "told", 4, 0);
    long got = recvmsg(fd, &message, 0);
    printf("%s: %ld bytes, flags %x, %zu of control\n", what, got, message.msg_flags, message.msg_controllen);
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
        unsigned char *bytes = CMSG_DATA(one);
        long length = one->cmsg_len - CMSG_LEN(0), stamp;
        printf("level %d, type %d, %ld bytes:", one->cmsg_level, one->cmsg_type, length);
        if (one->cmsg_level == SOL_SOCKET) {
            memcpy(&stamp, bytes, sizeof stamp);
            printf(" %s\n", labs(stamp - time(NULL)) < 100 ? "now" : "not now");
            continue;
        }
        for (long at = 0; at < length; at++) printf(" %d", bytes[at]);
        puts("");
    }
}

static void of_each_datagram(void) {
    int fd = make(SOCK_DGRAM);
    if (connect(fd, to(7000), far_size)) { perror("connect"); exit(1); }
    told(fd, "nothing asked for", 256);
    int v6 = far.ss_family == AF_INET6, level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
    set(fd, SOL_SOCKET, SO_TIMESTAMP, 1);
    told(fd, "a stamp", 256);
    set(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    set(fd, level, v6 ? IPV6_RECVPKTINFO : IP_PKTINFO, 1);
    set(fd, level, v6 ? IPV6_RECVHOPLIMIT : IP_RECVTTL, 1);
    set(fd, level, v6 ? IPV6_RECVTCLASS : IP_RECVTOS, 1);
    told(fd, "all", 256);
    for (size_t room = 0; room < 110; room += 7) told(fd, "less room", room);
    set(fd, SOL_SOCKET, SO_TIMESTAMPNS, 0);
    told(fd, "no stamp", 256);
    close(fd);
}

/* One call reports both a pipe and a connection. */
static void both_ready(void) {
    int fd = connected(7001), pair[2], set = epoll_create1(0), both = 0;
    struct epoll_event event = {EPOLLIN, {.u32 = 1}}, found[4];
    if (pipe(pair)) exit(1);
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    event.data.u32 = 2;
    epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event);
    for (int i = 0; i < 50; i++) {
        send(fd, "x", 1, 0);
        if (write(pair[1], "y", 1) != 1) exit(1);
        for (int waiting = 0; waiting < 1; usleep(100)) ioctl(fd, FIONREAD, &waiting);
        both += epoll_wait(set, found, 4, 2000) == 2;
        if (recv(fd, buffer, 1, 0) != 1 || read(pair[0], buffer, 1) != 1) exit(1);
    }
    say("both at once, of 50 times", both);
    close(pair[0]);
    close(pair[1]);
    close(set);
    close(fd);
}

/* A program that sends without copies is told when its memory is free again: of a connection, and of one that gets the option before. */
static void without_copies(void) {
    for (int before = 0; before < 2; before++) {
        int fd = before ? make(SOCK_STREAM) : connected(7001);
        set(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
        if (before && connect(fd, to(7001), far_size)) { perror("connect"); exit(1); }
        say("without a copy", send(fd, "free soon", 9, MSG_ZEROCOPY));
        text("echo", recv(fd, buffer, 9, MSG_WAITALL));
        char control[200];
        struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
        struct pollfd one = {fd, 0, 0};
        say("something is reported", poll(&one, 1, 2000));
        say("read", recvmsg(fd, &message, MSG_ERRQUEUE));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        struct sock_extended_err *error = header ? (void *)CMSG_DATA(header) : NULL;
        if (error) printf("origin %d, messages %u to %u\n", error->ee_origin, error->ee_info, error->ee_data);
        close(fd);
    }
}

/* What another process does with a connection. */
static int shared(const char *how) {
    int fd = connected(7001), pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    if (!strcmp(how, "pass")) {
        char control[CMSG_SPACE(sizeof(int))], byte = 'x';
        struct iovec part = {&byte, 1};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
        say("passed", sendmsg(pair[0], &message, 0));
    } else if (fork() == 0) {
        signal(SIGPIPE, SIG_IGN);
        say("send", send(fd, "child", 5, 0));
        _exit(0);
    } else {
        wait(NULL);
    }
    puts("shared");
    fflush(stdout);
    while (read(0, buffer, 1) > 0) {
    }
    return 0;
}

static void exchanged(const char *what, int fd, int other) {
    send(fd, "there and back", 14, 0);
    ready(fd, POLLIN, 2000);
    text(what, recv(fd, buffer, 100, MSG_DONTWAIT));
    text("its neighbour", recv(other, buffer, 100, MSG_DONTWAIT));
}

/* Another socket of a port, which is used. */
static int bound_as(int port) {
    struct sockaddr_storage any = {.ss_family = far.ss_family};
    ((struct sockaddr_in *)&any)->sin_port = htons(port);
    int other = make(SOCK_DGRAM);
    set(other, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(other, (void *)&any, far_size)) perror("bind");
    recv(other, buffer, 1, MSG_DONTWAIT);
    return other;
}

/* A socket is closed in the moment in which another thread uses it for the first time: its port is free again. */
static void closed_while_it_is_used(void) {
    enum { ROUNDS = 300 };
    int rounds = 0, answered = 1;
    for (; rounds < ROUNDS && answered == 1; rounds++) {
        int fd = bound(SOCK_DGRAM), port = port_of(fd);
        pthread_t thread;
        pthread_create(&thread, NULL, receive_nothing, &fd);
        pthread_barrier_wait(&both);
        for (volatile int wait = rounds % 30 * 100; wait > 0; wait--) {
        }
        close(fd);
        pthread_join(thread, NULL);
        int next = bound_as(port);
        sendto(next, "x", 1, 0, to(7000), far_size);
        answered = ready(next, POLLIN, 2000);
        close(next);
    }
    printf("closed while it is used: %d of %d answered\n", answered == 1 ? rounds : rounds - 1, ROUNDS);
}

/* Sockets of one port, of which one wants what only the kernel has: as iperf 2 does by UDP. */
static void neighbours_of_a_port(void) {
    int fd = bound(SOCK_DGRAM);
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    recv(fd, buffer, 1, MSG_DONTWAIT);
    connect(fd, to(7000), far_size);
    int before = bound_as(port_of(fd));
    exchanged("two of a port", fd, before);
    set(fd, SOL_SOCKET, SO_TIMESTAMP, 1);
    exchanged("with time stamps", fd, before);
    close(before);
    int after = bound_as(port_of(fd));
    exchanged("a new neighbour", fd, after);
    close(after);
    close(fd);
}

static void small_buffers(void) {
    int fd = connected(7004);
    set(fd, SOL_SOCKET, SO_SNDBUF, 4096);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    long took = send(fd, buffer, sizeof buffer, 0);
    say("SO_SNDBUF", took > 0 && took < 60000);
    close(fd);
}

static void show(const char *what, int fd) { printf("%s %d\n", what, port_of(fd)); }

/* Datagram sockets, for who looks at how they are carried. */
static int shown(void) {
    int fds[4] = {bound(SOCK_DGRAM), bound(SOCK_DGRAM), bound(SOCK_DGRAM), bound(SOCK_DGRAM)};
    struct pollfd polled[2] = {{fds[0], POLLIN}, {fds[1], POLLIN}};
    say("polled", poll(polled, 2, 0));
    struct group_req join = {.gr_group = far};
    struct sockaddr_storage group = far;
    if (far.ss_family == AF_INET) inet_pton(AF_INET, "239.9.9.9", &((struct sockaddr_in *)&group)->sin_addr);
    else inet_pton(AF_INET6, "ff15::9", &((struct sockaddr_in6 *)&group)->sin6_addr);
    join.gr_group = group;
    join.gr_interface = if_nametoindex("near");
    recv(fds[2], buffer, 1, MSG_DONTWAIT);
    int level = far.ss_family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
    say("joined", setsockopt(fds[2], level, MCAST_JOIN_GROUP, &join, sizeof join));
    set(fds[3], level, level == IPPROTO_IP ? IP_MULTICAST_IF : IPV6_MULTICAST_IF, level == IPPROTO_IP ? 0 : join.gr_interface);
    say("sent to a group", sendto(fds[3], "x", 1, 0, (void *)&group, far_size));
    for (int i = 0; i < 4; i++) show(i < 2 ? "xdp" : "kernel", fds[i]);
    puts("shown");
    fflush(stdout);
    while (read(0, buffer, 1) > 0) {
    }
    return 0;
}

/* One short connection after the other. */
static int short_ones(void) {
    for (int i = 0; i < 1500; i++) {
        int fd = connected(7001);
        send(fd, "x", 1, 0);
        if (recv(fd, buffer, 1, 0) != 1) return 1;
        close(fd);
    }
    return 0;
}

int main(int count, char **arguments) {
    begin(count, arguments);
    if (count > 3 && !strcmp(arguments[3], "short")) return short_ones();
    if (count > 3) return strcmp(arguments[3], "show") ? shared(arguments[3]) : shown();
    numbers();
    threads_accept();
    the_number_is_anothers(count > 2 ? atoi(arguments[2]) : 200);
    through_a_copy();
    connected_with_some_waiting();
    handlers_for_one_signal();
    least_to_receive();
    of_devices();
    lingering();
    inheritance();
    nested();
    instances();
    used_while_it_is_added();
    closed_while_it_is_used();
    neighbours_of_a_port();
    small_buffers();
    streams_of_stdio();
    pipes();
    both_ready();
    of_each_datagram();
    without_copies();
    printf("done\n");
    return 23;
}
