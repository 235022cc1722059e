/* One end of streams of data. flows ADDRESS WORD, with the other end of `ends.c` at the address:
   give: standard input to its port 7004; take: what comes to port 7005 of the address, to standard output; phases: connections
   without end; fork: the same, each shared with a child; objects: no connection, but the eBPF objects of this machine. */
#include "ends.h"
#include <linux/bpf.h>
#include <sys/syscall.h>

/* All that comes from one descriptor into the other. */
static void copy(int from, int to) {
    long got;
    while ((got = read(from, buffer, sizeof buffer)) > 0)
        for (long at = 0, put; at < got; at += put)
            if ((put = write(to, buffer + at, got - at)) < 0) { perror("write"); exit(1); }
    if (got < 0) { perror("read"); exit(1); }
}

/* Standard input to whoever takes it, until the other end has all. */
static void give(void) {
    int fd = connected(7004);
    copy(0, fd);
    shutdown(fd, SHUT_WR);
    copy(fd, 1);
    exit(0);
}

/* The stream of whoever connects to this address, to standard output. */
static void take(void) {
    int fd = make(SOCK_STREAM);
    if (bind(fd, to(7005), far_size) || listen(fd, 1)) { perror("listen"); exit(1); }
    int one = accept(fd, NULL, NULL);
    if (one < 0) { perror("accept"); exit(1); }
    copy(one, 1);
    exit(0);
}

/* Connections one after the other, with a word before each phase; a second process may have the connection. */
static void phases(int fork_each) {
    for (int round = 0;; round++) {
        printf("attach\n");
        fflush(stdout);
        int fd = connected(7004);
        printf("transfer\n");
        fflush(stdout);
        pid_t child = fork_each ? fork() : 1;
        if (child < 0) { perror("fork"); exit(1); }
        if (child == 0) { for (;;) pause(); }
        for (int i = 0; i < 20 + rand() % 50; i++) send(fd, buffer, sizeof buffer, 0);
        printf("close\n");
        fflush(stdout);
        shutdown(fd, SHUT_WR);
        recv(fd, buffer, 1, 0);
        close(fd);
        if (fork_each) { kill(child, SIGKILL); waitpid(child, NULL, 0); }
    }
}

/* What eBPF objects this machine has, a line each, but for the maps of programs: these live as long as their program. */
static void objects(void) {
    static unsigned char used[1 << 24];
    const int next[] = {BPF_PROG_GET_NEXT_ID, BPF_LINK_GET_NEXT_ID, BPF_MAP_GET_NEXT_ID};
    const char *names[] = {"prog_id", "link_id", "map_id"};
    for (int kind = 0; kind < 3; kind++) {
        union bpf_attr at;
        memset(&at, 0, sizeof at);
        while (!syscall(SYS_bpf, next[kind], &at, sizeof at)) {
            unsigned id = at.start_id = at.next_id;
            if (kind < 2 || !used[id % sizeof used]) printf("%s %u\n", names[kind], id);
            if (kind > 0) continue;
            union bpf_attr one = {.prog_id = id};
            int fd = syscall(SYS_bpf, BPF_PROG_GET_FD_BY_ID, &one, sizeof one);
            unsigned maps[64];
            struct bpf_prog_info info = {.nr_map_ids = 64, .map_ids = (unsigned long)maps};
            union bpf_attr ask = {.info = {.bpf_fd = fd, .info_len = sizeof info, .info = (unsigned long)&info}};
            if (fd >= 0 && !syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &ask, sizeof ask))
                for (unsigned i = 0; i < info.nr_map_ids && i < 64; i++) used[maps[i] % sizeof used] = 1;
            close(fd);
        }
        if (errno != ENOENT) { perror("bpf"); exit(1); }
    }
    exit(0);
}

int main(int count, char **arguments) {
    begin(count, arguments);
    const char *what = count > 2 ? arguments[2] : "";
    if (!strcmp(what, "give")) give();
    if (!strcmp(what, "take")) take();
    if (!strcmp(what, "phases")) phases(0);
    if (!strcmp(what, "fork")) phases(1);
    if (!strcmp(what, "objects")) objects();
    return 2;
}
