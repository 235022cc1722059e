/* A socket of OpenPGM as the tests and the benchmarks need it. */
#ifndef WINDHOVER_OPENPGM_H
#define WINDHOVER_OPENPGM_H
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pgm/pgm.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

/* Debian's libpgm 5.3.128 copies and sums in one go, and stores 16 bytes at a time to where only 4 or 8 are aligned: every
 * message in fragments ends the program. The library calls this function through its exported name, so a plain one in
 * the program stands in for it. Ones' complement sum of 16-bit words in the host's order (RFC 1071). */
uint32_t pgm_compat_csum_partial_copy(const void *from, void *to, uint16_t bytes, uint32_t sum)
{
    const unsigned char *source = from;
    uint64_t total = sum;
    memcpy(to, from, bytes);
    for (unsigned at = 0; at + 1 < bytes; at += 2) {
        uint16_t word;
        memcpy(&word, source + at, sizeof word);
        total += word;
    }
    if (bytes & 1) {
        uint16_t word = 0;
        memcpy(&word, source + bytes - 1, 1);
        total += word;
    }
    while (total >> 16)
        total = (total & 0xffff) + (total >> 16);
    return (uint32_t)total;
}

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

static void stop_on_signals(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = stop;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void fail(const char *what, pgm_error_t *error)
{
    fprintf(stderr, "openpgm: %s: %s\n", what, error != NULL && error->message != NULL ? error->message : strerror(errno));
    exit(1);
}

static uint64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void option(pgm_sock_t *sock, int name, const char *words, const void *value, size_t bytes)
{
    if (!pgm_setsockopt(sock, IPPROTO_PGM, name, value, (socklen_t)bytes))
        fail(words, NULL);
}

static void number(pgm_sock_t *sock, int name, const char *words, int value)
{
    option(sock, name, words, &value, sizeof value);
}

/* An IPv4 or IPv6 address without a port. */
static struct sockaddr_storage address_of(const char *words)
{
    struct sockaddr_storage address;
    memset(&address, 0, sizeof address);
    if (inet_pton(AF_INET, words, &((struct sockaddr_in *)&address)->sin_addr) == 1)
        address.ss_family = AF_INET;
    else if (inet_pton(AF_INET6, words, &((struct sockaddr_in6 *)&address)->sin6_addr) == 1)
        address.ss_family = AF_INET6;
    else {
        fprintf(stderr, "openpgm: %s is no address\n", words);
        exit(1);
    }
    return address;
}

/* Its bytes, and how many. */
static const unsigned char *bytes_of(const struct sockaddr *address, size_t *bytes)
{
    if (address->sa_family == AF_INET6) {
        *bytes = 16;
        return (const unsigned char *)&((const struct sockaddr_in6 *)address)->sin6_addr;
    }
    *bytes = 4;
    return (const unsigned char *)&((const struct sockaddr_in *)address)->sin_addr;
}

/* The index of the interface with this address. */
static unsigned interface_of(const struct sockaddr_storage *address)
{
    struct ifaddrs *all, *one;
    unsigned index = 0;
    size_t bytes;
    const unsigned char *wanted = bytes_of((const struct sockaddr *)address, &bytes);
    if (getifaddrs(&all) != 0)
        fail("getifaddrs", NULL);
    for (one = all; one != NULL; one = one->ifa_next) {
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != address->ss_family)
            continue;
        if (memcmp(bytes_of(one->ifa_addr, &bytes), wanted, bytes) == 0)
            index = if_nametoindex(one->ifa_name);
    }
    freeifaddrs(all);
    if (index == 0) {
        fprintf(stderr, "openpgm: no interface has that address\n");
        exit(1);
    }
    return index;
}

/* Joins, or sends to, one or several groups with commas between them. */
static void groups(pgm_sock_t *sock, int name, const char *words, const char *addresses, unsigned index)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%s", addresses);
    char *rest = NULL;
    for (char *address = strtok_r(copy, ",", &rest); address != NULL; address = strtok_r(NULL, ",", &rest)) {
        struct group_req wanted;
        memset(&wanted, 0, sizeof wanted);
        wanted.gr_interface = index;
        wanted.gr_group = address_of(address);
        option(sock, name, words, &wanted, sizeof wanted);
    }
}

/* Waits until something can be read, a timer of the library is due, or so long. Returns whether something can be read. */
static int pause_for(pgm_sock_t *sock, uint64_t at_most_ns)
{
    struct timeval timer;
    socklen_t bytes = sizeof timer;
    if (pgm_getsockopt(sock, IPPROTO_PGM, PGM_TIME_REMAIN, &timer, &bytes)) {
        uint64_t due = (uint64_t)timer.tv_sec * 1000000000u + (uint64_t)timer.tv_usec * 1000u;
        if (due < at_most_ns)
            at_most_ns = due;
    }
    fd_set readable;
    int most = 0;
    FD_ZERO(&readable);
    pgm_select_info(sock, &readable, NULL, &most);
    struct timespec wait = { (time_t)(at_most_ns / 1000000000u), (long)(at_most_ns % 1000000000u) };
    return pselect(most, &readable, NULL, NULL, &wait, NULL) > 0;
}

/* What a socket shall be. The library wants groups to join and to send to at every socket, also where it only sends or
 * only receives. A UDP port of 0 is raw IP protocol 113. */
struct setup {
    int sends, receives;
    const char *local, *send_groups, *receive_groups;
    int data_port, udp_port, bytes_a_second, buffer_bytes;
    unsigned gsi;
};

static pgm_sock_t *open_socket(const struct setup *setup)
{
    pgm_error_t *error = NULL;
    pgm_sock_t *sock = NULL;
    struct sockaddr_storage address = address_of(setup->local);
    unsigned index = interface_of(&address);
    if (!pgm_socket(&sock, address.ss_family, SOCK_SEQPACKET, setup->udp_port != 0 ? IPPROTO_UDP : IPPROTO_PGM, &error))
        fail("pgm_socket", error);
    if (setup->udp_port != 0) {
        number(sock, PGM_UDP_ENCAP_UCAST_PORT, "unicast port", setup->udp_port);
        number(sock, PGM_UDP_ENCAP_MCAST_PORT, "multicast port", setup->udp_port);
    }
    /* With IPv6 it is never set, and setting it to nothing fails too. */
    if (address.ss_family == AF_INET)
        number(sock, PGM_IP_ROUTER_ALERT, "router alert", 0);
    number(sock, PGM_MTU, "MTU", 1500);
    number(sock, PGM_NOBLOCK, "no blocking", 1);
    number(sock, PGM_MULTICAST_LOOP, "loop", 0);
    number(sock, PGM_MULTICAST_HOPS, "hops", 16);
    int room = setup->buffer_bytes;
    pgm_setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    pgm_setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (setup->sends) {
        /* Heartbeats in microseconds: dense at first, so that a lost last packet is noticed soon. */
        const int heartbeats[] = { 4000, 4000, 8000, 16000, 32000, 64000, 128000, 256000, 512000, 1000000 };
        number(sock, PGM_TXW_SQNS, "transmit window", 8192);
        number(sock, PGM_TXW_MAX_RTE, "rate", setup->bytes_a_second);
        number(sock, PGM_AMBIENT_SPM, "ambient SPM", 1000000);
        option(sock, PGM_HEARTBEAT_SPM, "heartbeat SPM", heartbeats, sizeof heartbeats);
        if (!setup->receives)
            number(sock, PGM_SEND_ONLY, "send only", 1);
    }
    if (setup->receives) {
        number(sock, PGM_RXW_SQNS, "receive window", 8192);
        number(sock, PGM_PEER_EXPIRY, "peer expiry", 30000000);
        number(sock, PGM_SPMR_EXPIRY, "SPMR expiry", 25000);
        number(sock, PGM_NAK_BO_IVL, "back-off", 2000);
        number(sock, PGM_NAK_RPT_IVL, "repeat", 20000);
        number(sock, PGM_NAK_RDATA_IVL, "data", 20000);
        number(sock, PGM_NAK_DATA_RETRIES, "data retries", 50);
        number(sock, PGM_NAK_NCF_RETRIES, "NCF retries", 50);
        if (!setup->sends)
            number(sock, PGM_RECV_ONLY, "receive only", 1);
    }
    struct pgm_sockaddr_t who;
    memset(&who, 0, sizeof who);
    who.sa_port = (uint16_t)setup->data_port;
    who.sa_addr.sport = 0;
    size_t address_bytes;
    const unsigned char *end = bytes_of((struct sockaddr *)&address, &address_bytes) + address_bytes;
    memcpy(who.sa_addr.gsi.identifier, end - 4, 4);
    who.sa_addr.gsi.identifier[4] = (uint8_t)(setup->gsi >> 8);
    who.sa_addr.gsi.identifier[5] = (uint8_t)setup->gsi;
    struct pgm_interface_req_t where;
    memset(&where, 0, sizeof where);
    where.ir_interface = index;
    where.ir_address = address;
    if (!pgm_bind3(sock, &who, sizeof who, &where, sizeof where, &where, sizeof where, &error))
        fail("pgm_bind3", error);
    groups(sock, PGM_JOIN_GROUP, "join", setup->receive_groups, index);
    groups(sock, PGM_SEND_GROUP, "send group", setup->send_groups, index);
    if (!pgm_connect(sock, &error))
        fail("pgm_connect", error);
    /* The library takes no more than the system's limit, with which it loses whole bursts. */
    int heard = -1;
    socklen_t heard_bytes = sizeof heard;
    if (pgm_getsockopt(sock, IPPROTO_PGM, PGM_RECV_SOCK, &heard, &heard_bytes))
        setsockopt(heard, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    return sock;
}
#endif
