/* Calls of one end of UDP and TCP, with what each returns: run on the kernel's stack and on another, the output is the same. The
   other end, at the address in argv[1]: 7000 UDP echo; TCP: 7001 echo, 7002 closes with data unread, 7003 says "abcde", 100 ms
   later "fghij", then its end, 7004 takes everything. Nothing listens on 7009. */
#include "ends.h"

/* Waits until so many bytes are there. */
static void arrives(int fd, int bytes) {
    int waiting = 0;
    for (double began = now(); waiting < bytes && now() - began < 5; usleep(1000)) ioctl(fd, FIONREAD, &waiting);
}

static void datagrams(void) {
    int fd = make(SOCK_DGRAM);
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    say("recv of an unbound one", recv(fd, buffer, 10, MSG_DONTWAIT));
    say("send without an address", send(fd, "x", 1, 0));
    say("sendto", sendto(fd, "hello", 5, 0, to(7000), far_size));
    text("recvfrom", recvfrom(fd, buffer, 100, 0, (void *)&from, &size));
    printf("from the other end: %d, %d bytes\n", !memcmp(&from, to(7000), 8), (int)size);
    sendto(fd, "0123456789", 10, 0, to(7000), far_size);
    say("poll", ready(fd, POLLIN | POLLOUT, 2000) & POLLOUT);
    say("poll for data", ready(fd, POLLIN, 2000));
    int waiting = 0;
    ioctl(fd, FIONREAD, &waiting);
    say("FIONREAD", waiting);
    text("MSG_PEEK", recv(fd, buffer, 4, MSG_PEEK));
    text("MSG_TRUNC", recv(fd, buffer, 4, MSG_TRUNC));
    say("nothing is left", recv(fd, buffer, 4, MSG_DONTWAIT));
    sendto(fd, "", 0, 0, to(7000), far_size);
    text("an empty one", recv(fd, buffer, 4, 0));
    struct iovec parts[2] = {{"ab", 2}, {"cde", 3}}, into[2] = {{buffer, 3}, {buffer + 3, 1}};
    struct msghdr out = {.msg_name = to(7000), .msg_namelen = far_size, .msg_iov = parts, .msg_iovlen = 2};
    say("sendmsg", sendmsg(fd, &out, 0));
    struct msghdr in = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = into, .msg_iovlen = 2};
    text("recvmsg", recvmsg(fd, &in, 0));
    printf("flags %d, name of %d bytes\n", in.msg_flags & MSG_TRUNC, (int)in.msg_namelen);
    struct mmsghdr many[3] = {{out, 0}, {out, 0}, {out, 0}};
    say("sendmmsg", sendmmsg(fd, many, 3, 0));
    echoes();
    struct mmsghdr got[4];
    memset(got, 0, sizeof got);
    for (int i = 0; i < 4; i++) got[i].msg_hdr = (struct msghdr){.msg_iov = into, .msg_iovlen = 2};
    say("recvmmsg", recvmmsg(fd, got, 4, MSG_WAITFORONE, NULL));
    say("its lengths", got[0].msg_len * 100 + got[1].msg_len * 10 + got[2].msg_len);
    memset(buffer, 'm', 60000);
    say("one of many frames", sendto(fd, buffer, 20000, 0, to(7000), far_size));
    say("comes back", recv(fd, buffer, sizeof buffer, 0));
    limit(fd, SO_RCVTIMEO, 60);
    double began = now();
    say("SO_RCVTIMEO", recv(fd, buffer, 4, 0));
    took("its time", began, 0.055);
    limit(fd, SO_RCVTIMEO, 0);
    say("connect", connect(fd, to(7000), far_size));
    say("send", send(fd, "again", 5, 0));
    text("recv", recv(fd, buffer, 100, 0));
    int copy = dup(fd);
    say("write to a copy", write(copy, "copy", 4));
    text("read", read(fd, buffer, 100));
    close(copy);
    say("after the copy is closed", send(fd, "still", 5, 0));
    text("recv", recv(fd, buffer, 100, 0));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    say("O_NONBLOCK", recv(fd, buffer, 4, 0));
    fcntl(fd, F_SETFL, 0);
    close(fd);
    fd = make(SOCK_DGRAM);
    connect(fd, to(7009), far_size);
    send(fd, "x", 1, 0);
    limit(fd, SO_RCVTIMEO, 2000);
    say("the port is closed", recv(fd, buffer, 4, 0));
    close(fd);
}

static void many(void) {
    int a = make(SOCK_DGRAM), b = connected(7001), pipes[2], set = epoll_create1(0);
    if (pipe(pipes)) exit(1);
    connect(a, to(7000), far_size);
    struct epoll_event event = {EPOLLIN, {.u32 = 1}}, found[4];
    epoll_ctl(set, EPOLL_CTL_ADD, a, &event);
    event.data.u32 = 2;
    say("EPOLL_CTL_ADD", epoll_ctl(set, EPOLL_CTL_ADD, b, &event));
    say("twice", epoll_ctl(set, EPOLL_CTL_ADD, b, &event));
    event.data.u32 = 3;
    epoll_ctl(set, EPOLL_CTL_ADD, pipes[0], &event);
    double began = now();
    say("nothing", epoll_wait(set, found, 4, 60));
    took("its time", began, 0.055);
    send(a, "x", 1, 0);
    say("a datagram", epoll_wait(set, found, 4, 2000) * 10 + found[0].data.u32);
    say("level-triggered", epoll_wait(set, found, 4, 2000) * 10 + found[0].data.u32);
    recv(a, buffer, 10, 0);
    say("taken", epoll_wait(set, found, 4, 0));
    event = (struct epoll_event){EPOLLIN | EPOLLET | EPOLLOUT, {.u32 = 2}};
    epoll_ctl(set, EPOLL_CTL_MOD, b, &event);
    say("edge: it can be written to", epoll_wait(set, found, 4, 2000) == 1 && found[0].events == EPOLLOUT);
    say("once", epoll_wait(set, found, 4, 30));
    send(b, "four", 4, 0);
    say("edge: data", epoll_wait(set, found, 4, 2000) == 1 && (found[0].events & EPOLLIN));
    text("a part", recv(b, buffer, 2, 0));
    say("no edge", epoll_wait(set, found, 4, 30));
    send(b, "more", 4, 0);
    say("an edge", epoll_wait(set, found, 4, 2000) == 1 && (found[0].events & EPOLLIN));
    text("all", recv(b, buffer, 100, 0));
    event = (struct epoll_event){EPOLLIN | EPOLLONESHOT, {.u32 = 2}};
    epoll_ctl(set, EPOLL_CTL_MOD, b, &event);
    send(b, "one", 3, 0);
    say("one shot", epoll_wait(set, found, 4, 2000));
    say("spent", epoll_wait(set, found, 4, 30));
    epoll_ctl(set, EPOLL_CTL_MOD, b, &event);
    say("armed again", epoll_wait(set, found, 4, 2000));
    recv(b, buffer, 100, 0);
    say("a pipe", write(pipes[1], "p", 1) + epoll_wait(set, found, 4, 2000) * 10 + found[0].data.u32);
    struct pollfd fds[3] = {{a, POLLIN, 0}, {pipes[0], POLLIN, 0}, {b, POLLIN | POLLOUT, 0}};
    say("poll of all", poll(fds, 3, 0) * 100 + fds[1].revents * 10 + (fds[2].revents == POLLOUT));
    send(a, "x", 1, 0);
    send(b, "y", 1, 0);
    echoes();
    arrives(b, 1);
    say("poll of all", poll(fds, 3, 100) * 100 + fds[0].revents * 10 + (fds[2].revents & POLLIN));
    fd_set read, write;
    FD_ZERO(&read);
    FD_ZERO(&write);
    FD_SET(a, &read);
    FD_SET(b, &read);
    FD_SET(pipes[0], &read);
    FD_SET(b, &write);
    int most = (a > b ? a : b) > pipes[0] ? (a > b ? a : b) : pipes[0];
    struct timeval time = {1, 0};
    say("select of all", select(most + 1, &read, &write, NULL, &time));
    say("in the sets", FD_ISSET(a, &read) + FD_ISSET(b, &read) + FD_ISSET(pipes[0], &read) + FD_ISSET(b, &write));
    say("EPOLL_CTL_DEL", epoll_ctl(set, EPOLL_CTL_DEL, b, NULL));
    say("twice", epoll_ctl(set, EPOLL_CTL_DEL, b, NULL));
    close(a);
    say("of a closed one", epoll_ctl(set, EPOLL_CTL_DEL, a, NULL));
    close(b);
    close(set);
}

static void streams(void) {
    int fd = make(SOCK_STREAM), value = 0;
    socklen_t size = sizeof value;
    say("recv before connect", recv(fd, buffer, 4, 0));
    say("connect to a closed port", connect(fd, to(7009), far_size));
    close(fd);
    fd = socket(far.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    say("connect that does not wait", connect(fd, to(7009), far_size));
    say("poll", ready(fd, POLLOUT, 2000) & (POLLERR | POLLHUP));
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &size);
    say("SO_ERROR", value);
    close(fd);
    fd = socket(far.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    say("connect that does not wait", connect(fd, to(7001), far_size));
    say("poll", ready(fd, POLLOUT, 2000));
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &size);
    say("SO_ERROR", value);
    say("again", connect(fd, to(7001), far_size));
    say("recv of nothing", recv(fd, buffer, 4, 0));
    fcntl(fd, F_SETFL, 0);
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    say("getpeername", getpeername(fd, (void *)&peer, &length));
    printf("of the other end: %d, %d bytes\n", !memcmp(&peer, to(7001), 8), (int)length);
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &size);
    say("TCP_NODELAY", value != 0);
    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size);
    say("SO_ACCEPTCONN", value);
    struct tcp_info info;
    length = sizeof info;
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length);
    say("its state", info.tcpi_state);
    say("send", send(fd, "0123456789", 10, 0));
    text("MSG_WAITALL", recv(fd, buffer, 10, MSG_WAITALL));
    struct iovec parts[2] = {{"ab", 2}, {"cdefgh", 6}}, into[2] = {{buffer, 3}, {buffer + 3, 3}};
    say("writev", writev(fd, parts, 2));
    arrives(fd, 8);
    ioctl(fd, FIONREAD, &value);
    say("FIONREAD", value);
    text("MSG_PEEK", recv(fd, buffer, 3, MSG_PEEK));
    text("readv", readv(fd, into, 2));
    text("what is left", read(fd, buffer, 100));
    say("MSG_DONTWAIT", recv(fd, buffer, 4, MSG_DONTWAIT));
    send(fd, "1234", 4, 0);
    arrives(fd, 4);
    text("MSG_WAITALL that does not wait", recv(fd, buffer, 10, MSG_WAITALL | MSG_DONTWAIT));
    send(fd, "5678", 4, 0);
    arrives(fd, 4);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    text("MSG_WAITALL without blocking", recv(fd, buffer, 10, MSG_WAITALL));
    say("nothing left", recv(fd, buffer, 10, MSG_WAITALL));
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    limit(fd, SO_RCVTIMEO, 60);
    double began = now();
    say("SO_RCVTIMEO", recv(fd, buffer, 4, 0));
    took("its time", began, 0.055);
    limit(fd, SO_RCVTIMEO, 0);
    FILE *file = tmpfile();
    for (int i = 0; i < 5000; i++) fprintf(file, "%09d\n", i);
    fflush(file);
    off_t offset = 10;
    say("sendfile", sendfile(fd, fileno(file), &offset, 40000));
    say("its offset", offset);
    long sum = 0, total = 0, got;
    while (total < 40000 && (got = recv(fd, buffer, sizeof buffer, 0)) > 0) {
        for (long i = 0; i < got; i++) sum = (sum * 31 + buffer[i]) & 0xffffff;
        total += got;
    }
    say("comes back", total);
    say("its sum", sum);
    say("shutdown", shutdown(fd, SHUT_WR));
    signal(SIGPIPE, SIG_IGN);
    say("send after it", send(fd, "x", 1, 0));
    say("the end", recv(fd, buffer, 4, 0));
    say("poll after both ends", ready(fd, POLLIN | POLLOUT | POLLRDHUP, 1000) & (POLLIN | POLLHUP | POLLRDHUP));
    fd_set except;
    FD_ZERO(&except);
    FD_SET(fd, &except);
    struct timeval little = {0, 60000};
    began = now();
    say("select that asks for neither", select(fd + 1, NULL, NULL, &except, &little));
    took("its time", began, 0.055);
    close(fd);
    say("recv of a closed one", recv(fd, buffer, 4, 0));
    fd = connected(7003);
    text("in two parts", recv(fd, buffer, 10, MSG_WAITALL));
    say("the end", recv(fd, buffer, 4, MSG_WAITALL));
    close(fd);
    fd = connected(7003);
    text("less than asked for", recv(fd, buffer, 50, MSG_WAITALL));
    close(fd);
    fd = connected(7002);
    send(fd, "x", 1, 0);
    say("a reset", recv(fd, buffer, 4, 0));
    say("send after it", send(fd, "x", 1, MSG_NOSIGNAL));
    close(fd);
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval alarm = {{0, 0}, {0, 60000}};
    fd = connected(7001);
    setitimer(ITIMER_REAL, &alarm, NULL);
    say("a signal", recv(fd, buffer, 4, 0));
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &alarm, NULL);
    limit(fd, SO_RCVTIMEO, 0);
    struct pollfd one = {fd, POLLIN, 0};
    say("poll and a signal", poll(&one, 1, 2000));
    action.sa_handler = ask;
    sigaction(SIGALRM, &action, NULL);
    asked_by_signal = fd;
    setitimer(ITIMER_REAL, &alarm, NULL);
    text("recv goes on after a signal", recv(fd, buffer, 4, 0));
    int copy = dup(fd);
    close(fd);
    say("a copy", send(copy, "copy", 4, 0));
    text("recv", recv(copy, buffer, 4, MSG_WAITALL));
    pid_t child = fork();
    if (child == 0) _exit(7);
    int status;
    waitpid(child, &status, 0);
    say("a child", WEXITSTATUS(status));
    say("the parent goes on", send(copy, "fork", 4, 0));
    text("recv", recv(copy, buffer, 4, MSG_WAITALL));
    close(copy);
}

static char pattern(long at) { return (at * 2654435761 >> 13) & 255; }

/* Bytes to the echo and back, as fast as it goes, each checked, until the standard input is closed. */
static int carry(void) {
    int fd = connected(7001), ends = 0;
    long sent = 0, got = 0;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (!ends || got < sent) {
        struct pollfd both[2] = {{fd, POLLIN | (ends ? 0 : POLLOUT)}, {ends ? -1 : 0, POLLIN}};
        if (poll(both, 2, 10000) < 1) { fprintf(stderr, "nothing for 10 s after %ld and %ld\n", sent, got); return 1; }
        ends |= both[1].revents != 0;
        if (both[0].revents & POLLOUT) {
            for (long at = 0; at < sizeof buffer; at++) buffer[at] = pattern(sent + at);
            long done = send(fd, buffer, sizeof buffer, 0);
            if (done > 0) sent += done;
        }
        if (both[0].revents & (POLLIN | POLLERR | POLLHUP)) {
            long done = recv(fd, buffer, sizeof buffer, 0);
            if (done <= 0 && errno != EAGAIN) { perror("recv"); return 1; }
            for (long at = 0; at < done; at++)
                if (buffer[at] != pattern(got + at)) { fprintf(stderr, "wrong byte %ld\n", got + at); return 1; }
            if (done > 0) {
                if (!got) say("carrying", 0);
                got += done;
            }
        }
    }
    return 0;
}

int main(int count, char **arguments) {
    begin(count, arguments);
    if (count > 2 && !strcmp(arguments[2], "carry")) return carry();
    if (count > 2) {
        /* Without end, to whoever takes it. */
        int fd = connected(7004);
        say("flooding", send(fd, buffer, 100, 0) * 0);
        for (;;) send(fd, buffer, sizeof buffer, 0);
    }
    datagrams();
    streams();
    many();
    printf("done\n");
    return 23;
}
