// Attaches an XDP program that passes everything (generic XDP) to the interface of the argument, says so, and holds it until
// its standard input ends.
#include <linux/bpf.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bpf(int command, union bpf_attr *attributes) {
    return syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

int main(int count, char **arguments) {
    struct bpf_insn code[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr load, link;
    char rest[1];
    memset(&load, 0, sizeof load);
    load.prog_type = BPF_PROG_TYPE_XDP;
    load.insns = (unsigned long)code;
    load.insn_cnt = 2;
    load.license = (unsigned long)"";
    int program = bpf(BPF_PROG_LOAD, &load);
    memset(&link, 0, sizeof link);
    link.link_create.prog_fd = program;
    link.link_create.target_ifindex = count > 1 ? if_nametoindex(arguments[1]) : 0;
    link.link_create.attach_type = BPF_XDP;
    link.link_create.flags = 2; /* XDP_FLAGS_SKB_MODE */
    if (program < 0 || bpf(BPF_LINK_CREATE, &link) < 0) {
        perror("bpf");
        return 1;
    }
    puts("attached");
    fflush(stdout);
    while (read(0, rest, 1) > 0) {}
    return 0;
}
