/* Connections that other processes get: hand_over ADDRESS, with the other end of `ends.c` at the address. Each process checks every
   byte, and the end. */
#include "ends.h"
#include <spawn.h>

enum { ALL = 3000000, HALF = 1000000 };

static unsigned char pattern(long at) { return (at * 2654435761 >> 13) & 255; }

/* Bytes to the echo and back until `until` were sent; with `ends`, until all are back and the end is. How many are wrong. */
static long carry(int fd, long *sent, long *got, long until, int ends) {
    long wrong = 0;
    for (int over = 0; ends ? !over : *sent < until;) {
        struct pollfd one = {fd, POLLIN | (*sent < until ? POLLOUT : 0)};
        if (poll(&one, 1, 20000) < 1) { say("stands still", *sent); return -1; }
        if (one.revents & POLLOUT) {
            long most = until - *sent < (long)sizeof buffer ? until - *sent : (long)sizeof buffer;
            for (long at = 0; at < most; at++) buffer[at] = pattern(*sent + at);
            long done = send(fd, buffer, most, MSG_DONTWAIT);
            if (done > 0) *sent += done;
            if (ends && *sent == until) shutdown(fd, SHUT_WR);
        }
        if (one.revents & (POLLIN | POLLERR | POLLHUP)) {
            long done = recv(fd, buffer, sizeof buffer / 3, MSG_DONTWAIT);
            if (done < 0 && errno != EAGAIN) { say("recv", done); return -1; }
            over = done == 0;
            for (long at = 0; at < done; at++) wrong += (unsigned char)buffer[at] != pattern(*got + at);
            if (done > 0) *got += done;
        }
    }
    return wrong;
}

static void waited(const char *what, pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    say(what, status);
}

static void set(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

static int get(int fd, int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    getsockopt(fd, level, name, &value, &size);
    return value;
}

/* In the middle of a transfer; the child goes on with it to the end. */
static void in_the_middle(void) {
    int fd = connected(7001);
    long sent = 0, got = 0;
    say("the first part", carry(fd, &sent, &got, HALF, 0));
    pid_t child = fork();
    if (child == 0) {
        say("the second part", carry(fd, &sent, &got, ALL, 1));
        say("all of it", got);
        _exit(3);
    }
    close(fd);
    waited("in the middle", child);
}

/* Parent and child in turn, by two descriptors each; what was set stays, and epoll has it still. */
static void both_of_them(void) {
    int fd = connected(7001), copy = fcntl(fd, F_DUPFD_CLOEXEC, 50), set_of = epoll_create1(0);
    struct linger lingers = {1, 7};
    struct epoll_event event = {EPOLLIN, {.u64 = 77}}, found = {0};
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 99);
    set(fd, SOL_SOCKET, SO_RCVBUF, 50000);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &lingers, sizeof lingers);
    limit(fd, SO_RCVTIMEO, 50);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    epoll_ctl(set_of, EPOLL_CTL_ADD, fd, &event);
    send(fd, "before", 6, 0);
    ready(fd, POLLIN, 5000);
    pid_t child = fork();
    if (child == 0) {
        text("the child receives", recv(copy, buffer, 6, 0));
        say("the child sends", send(fd, "child", 5, 0));
        _exit(0);
    }
    waited("the child", child);
    say("events", epoll_wait(set_of, &found, 1, 5000));
    say("of it", found.data.u64);
    text("the parent receives", recv(copy, buffer, 5, 0));
    say("nothing more", recv(fd, buffer, 5, 0));
    say("flags", (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    say("closes", fcntl(fd, F_GETFD) * 10 + fcntl(copy, F_GETFD));
    say("TCP_NODELAY", get(fd, IPPROTO_TCP, TCP_NODELAY));
    say("SO_KEEPALIVE", get(fd, SOL_SOCKET, SO_KEEPALIVE));
    say("TCP_KEEPIDLE", get(fd, IPPROTO_TCP, TCP_KEEPIDLE));
    say("SO_RCVBUF", get(fd, SOL_SOCKET, SO_RCVBUF));
    socklen_t size = sizeof lingers;
    lingers.l_linger = 0;
    getsockopt(fd, SOL_SOCKET, SO_LINGER, &lingers, &size);
    say("SO_LINGER", lingers.l_linger);
    fcntl(fd, F_SETFL, 0);
    double since = now();
    say("SO_RCVTIMEO", recv(fd, buffer, 1, 0));
    took("SO_RCVTIMEO", since, 0.04);
    struct sockaddr_storage name;
    size = sizeof name;
    say("getpeername", getpeername(fd, (void *)&name, &size));
    say("the same peer", memcmp(&((struct sockaddr_in *)&name)->sin_port, &((struct sockaddr_in *)to(7001))->sin_port, 2));
    epoll_ctl(set_of, EPOLL_CTL_DEL, fd, NULL);
    close(set_of);
    close(copy);
    close(fd);
}

/* Connections of which one direction is over, or both. */
static void half_closed(void) {
    int fd = connected(7003);
    while (!(ready(fd, POLLRDHUP, 5000) & POLLRDHUP)) {
    }
    pid_t child = fork();
    if (child == 0) {
        text("behind the end of the other", recv(fd, buffer, 99, MSG_WAITALL));
        text("its end", recv(fd, buffer, 99, 0));
        say("poll", ready(fd, POLLIN | POLLRDHUP, 0));
        _exit(0);
    }
    waited("the other has closed", child);
    close(fd);
    fd = connected(7001);
    send(fd, "last words", 10, 0);
    shutdown(fd, SHUT_WR);
    ready(fd, POLLIN, 5000);
    child = fork();
    if (child == 0) {
        text("behind the own end", recv(fd, buffer, 10, MSG_WAITALL));
        text("the end", recv(fd, buffer, 99, 0));
        signal(SIGPIPE, SIG_IGN);
        say("send", send(fd, "x", 1, 0));
        _exit(0);
    }
    waited("this end has closed", child);
    close(fd);
}

/* A server that forks for each connection, of which the other end makes several at once. */
static void a_server(void) {
    enum { COUNT = 8, PORT = 7999 };
    struct sockaddr_storage any = {.ss_family = far.ss_family};
    ((struct sockaddr_in *)&any)->sin_port = htons(PORT);
    int listener = make(SOCK_STREAM), good = 0;
    set(listener, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(listener, (void *)&any, far_size) || listen(listener, COUNT)) { perror("listen"); exit(1); }
    int asked = connected(7005), length = sprintf(buffer, "%d %d\n", PORT, COUNT);
    send(asked, buffer, length, 0);
    for (int i = 0; i < COUNT; i++) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) { say("accept", fd); break; }
        if (fork() == 0) {
            long sent = 0, got = 0;
            close(listener);
            _exit(carry(fd, &sent, &got, HALF / 4, 1) || got != HALF / 4);
        }
        close(fd);
    }
    for (int i = 0, status; i < COUNT; i++) good += wait(&status) > 0 && status == 0;
    say("connections of a server", good);
    close(asked);
    close(listener);
}

/* A process that is there already gets one in a message. */
static void in_a_message(void) {
    int pair[2];
    char control[CMSG_SPACE(sizeof(int))], byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    pid_t child = fork();
    if (child == 0) {
        recvmsg(pair[1], &message, 0);
        int fd;
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
        long sent, got;
        read(pair[1], &sent, sizeof sent);
        read(pair[1], &got, sizeof got);
        say("the rest", carry(fd, &sent, &got, ALL, 1));
        say("all of it", got);
        _exit(0);
    }
    int fd = connected(7001), other = connected(7001);
    long sent = 0, got = 0;
    say("the first part", carry(fd, &sent, &got, HALF, 0));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    say("passed", sendmsg(pair[0], &message, 0));
    write(pair[0], &sent, sizeof sent);
    write(pair[0], &got, sizeof got);
    close(fd);
    waited("in a message", child);
    send(other, "goes on", 7, 0);
    text("another", recv(other, buffer, 7, MSG_WAITALL));
    close(other);
}

/* The descriptor of the standard output, for programs whose own is a connection. */
enum { OUT = 9 };
static char *speaks[] = {"sh", "-c", "echo hello; head -c 6 >&9", NULL};

static pid_t started_by_fork(int fd) {
    pid_t child = fork();
    if (child) return child;
    dup2(fd, 0);
    dup2(fd, 1);
    execvp(speaks[0], speaks);
    _exit(1);
}

static pid_t started_by_vfork(int fd) {
    pid_t child = vfork();
    if (child) return child;
    dup2(fd, 0);
    dup2(fd, 1);
    execvp(speaks[0], speaks);
    _exit(1);
}

static pid_t started_by_spawn(int fd) {
    pid_t child = -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 0);
    posix_spawn_file_actions_adddup2(&actions, fd, 1);
    posix_spawnp(&child, speaks[0], &actions, NULL, speaks, environ);
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

/* A program gets a connection as its standard input and output. */
static void another_program(const char *what, pid_t start(int)) {
    int fd = connected(7001);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    pid_t child = start(fd);
    close(fd);
    waited(what, child);
}

/* By its number. */
static void a_shell(void) {
    int fd = connected(7001);
    dup2(fd, 8);
    close(fd);
    say("system", system("echo hello >&8; head -c 6 <&8"));
    FILE *pipe = popen("echo again >&8; head -c 6 <&8", "r");
    text("popen", fread(buffer, 1, 6, pipe));
    say("its end", pclose(pipe));
    close(8);
}

/* This program again, by each call with a list of arguments: the connection with the number 8 stays open. Returns after the last. */
static void this_program_again(char **arguments, const char *before) {
    const char *self = "/proc/self/exe", *name = arguments[0], *far = arguments[1];
    if (before) {
        send(8, before, strlen(before), 0);
        text("after it", recv(8, buffer, strlen(before), MSG_WAITALL));
        close(8);
    }
    int fd = connected(7001);
    dup2(fd, 8);
    close(fd);
    if (!before) execl(self, name, far, "execl", NULL);
    else if (!strcmp(before, "execl")) execlp(self, name, far, "execlp", NULL);
    else if (!strcmp(before, "execlp")) execle(self, name, far, "execle", NULL, environ);
    close(8);
}

int main(int count, char **arguments) {
    begin(count, arguments);
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count == 2) {
        dup2(1, OUT);
        in_the_middle();
        both_of_them();
        half_closed();
        a_server();
        in_a_message();
        another_program("by fork", started_by_fork);
        another_program("by vfork", started_by_vfork);
        another_program("by posix_spawn", started_by_spawn);
        a_shell();
    }
    this_program_again(arguments, count > 2 ? arguments[2] : NULL);
    int fd = connected(7001);
    dup2(fd, 0);
    dup2(fd, 1);
    close(fd);
    char *last[] = {"sh", "-c", "echo done; head -c 5 >&9; exit 23", NULL};
    execvp(last[0], last);
    return 1;
}
