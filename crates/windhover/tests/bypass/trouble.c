/* A wire with trouble: carries frames between two network devices, and loses, delays, doubles and damages TCP segments on the way.
   trouble DEVICE DEVICE SEED LOST DELAYED DOUBLED DAMAGED: shares in 1/10000, the same in both directions. Says "ready", goes on
   until its input ends, then says on standard error what it did. (netem is not in every kernel, and frames of AF_XDP pass by its queue.)
   trouble DEVICE: the device leaves neither checksums nor segmentation to others, so that damage is seen, and frames are short. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 2048, HELD = 512, LONGEST_US = 1000 };
enum { LOST, DELAYED, DOUBLED, DAMAGED, KINDS };
static const char *names[KINDS] = {"lost", "delayed", "doubled", "damaged"};

static struct { int64_t due; int to, length; unsigned char bytes[MOST]; } held[HELD];
static int waiting, sockets[2];
static long share[KINDS], done[KINDS], segments, carried, too_long;
static uint64_t state;

static uint64_t number(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % below;
}

static int happens(int kind) {
    int yes = (long)number(10000) < share[kind];
    done[kind] += yes;
    return yes;
}

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

static int open_device(const char *name) {
    int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), room = 64 << 20, on = 1;
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = if_nametoindex(name)};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) || bind(fd, (void *)&at, sizeof at)) {
        perror(name);
        exit(1);
    }
    return fd;
}

static void carry(int to, const unsigned char *bytes, int length) {
    while (send(sockets[to], bytes, length, 0) < 0 && (errno == EINTR || errno == ENOBUFS || errno == EAGAIN));
    carried++;
}

static int is_tcp(const unsigned char *bytes, int length) {
    int type = bytes[12] << 8 | bytes[13];
    return (length > 34 && type == ETH_P_IP && bytes[23] == IPPROTO_TCP) ||
           (length > 54 && type == ETH_P_IPV6 && bytes[20] == IPPROTO_TCP);
}

static void segment(int to, unsigned char *bytes, int length) {
    segments++;
    if (happens(LOST)) return;
    int twice = happens(DOUBLED);
    if (happens(DAMAGED)) {
        /* Behind the MAC addresses: a network does not deliver what is for others. */
        uint64_t bit = number((length - 12) * 8);
        bytes[12 + bit / 8] ^= 1 << bit % 8;
    }
    for (int i = 0; i <= twice; i++) {
        if (waiting < HELD && happens(DELAYED)) {
            held[waiting].due = now_us() + number(LONGEST_US);
            held[waiting].to = to;
            held[waiting].length = length;
            memcpy(held[waiting++].bytes, bytes, length);
        } else {
            carry(to, bytes, length);
        }
    }
}

/* Takes up to so many frames of a device; whether there were any. */
static int take(int from) {
    unsigned char bytes[MOST];
    for (int i = 0; i < 64; i++) {
        ssize_t length = recv(sockets[from], bytes, sizeof bytes, MSG_DONTWAIT | MSG_TRUNC);
        if (length < 0) return i;
        if (length > MOST) too_long++;
        else if (is_tcp(bytes, length)) segment(!from, bytes, length);
        else carry(!from, bytes, length);
    }
    return 1;
}

/* Lets go what was held for long enough; us until the next, or 0. */
static int64_t release(void) {
    int64_t first = 0, now = waiting ? now_us() : 0;
    for (int i = 0; i < waiting; i++) {
        if (held[i].due <= now) {
            carry(held[i].to, held[i].bytes, held[i].length);
            held[i--] = held[--waiting];
        } else if (!first || held[i].due - now < first) {
            first = held[i].due - now;
        }
    }
    return first;
}

static int finish_frames(const char *device) {
    const int settings[] = {ETHTOOL_SGSO, ETHTOOL_STSO, ETHTOOL_STXCSUM};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    for (int i = 0; i < 3; i++) {
        struct ethtool_value off = {settings[i], 0};
        struct ifreq request = {.ifr_data = (void *)&off};
        strncpy(request.ifr_name, device, IFNAMSIZ - 1);
        if (ioctl(fd, SIOCETHTOOL, &request)) {
            perror(device);
            return 1;
        }
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count == 2) return finish_frames(arguments[1]);
    if (count != 4 + KINDS) return 2;
    for (int i = 0; i < 2; i++) sockets[i] = open_device(arguments[1 + i]);
    state = strtoull(arguments[3], NULL, 10) * 0x9e3779b97f4a7c15ull | 1;
    for (int i = 0; i < KINDS; i++) share[i] = atol(arguments[4 + i]);
    puts("ready");
    fflush(stdout);
    for (;;) {
        int64_t us = release();
        struct timespec rest = {us / 1000000, us % 1000000 * 1000};
        struct pollfd fds[3] = {{sockets[0], POLLIN, 0}, {sockets[1], POLLIN, 0}, {0, POLLIN, 0}};
        ppoll(fds, 3, waiting ? &rest : NULL, NULL);
        for (int more = 1; more;) {
            more = take(0) | take(1);
            release();
        }
        if (fds[2].revents) break;
    }
    long overrun = too_long;
    for (int i = 0; i < 2; i++) {
        struct tpacket_stats seen;
        socklen_t size = sizeof seen;
        getsockopt(sockets[i], SOL_PACKET, PACKET_STATISTICS, &seen, &size);
        overrun += seen.tp_drops;
    }
    fprintf(stderr, "segments %ld carried %ld overrun %ld", segments, carried, overrun);
    for (int i = 0; i < KINDS; i++) fprintf(stderr, " %s %ld", names[i], done[i]);
    fprintf(stderr, "\n");
    return 0;
}
