/* The real OpenPGM at the other end of Windhover's interop tests: sends numbered messages, or receives and checks them.
 *
 *   openpgm send|recv LOCAL GROUP[,GROUP...] DATA-PORT UDP-PORT COUNT BYTES RATE SECONDS [NUMBER]
 *
 * UDP-PORT 0: raw IP protocol 113. A receiver prints "ready" once it listens and ends a moment after it has message COUNT-1 of
 * NUMBER sources, or after SECONDS without a message (the library never tells of OPT_FIN); a sender, told apart by NUMBER, serves repairs for SECONDS after its last
 * message, then ends the session. Both end with one line of JSON.
 *
 * A message: its number in 8 bytes, the time of sending in 8 (ns since 1970), both big-endian, then bytes of (number + place).
 */
#define _GNU_SOURCE
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

#define MOST_BYTES 65536
#define MOST_SOURCES 8

static volatile sig_atomic_t stopped;
static _Alignas(16) unsigned char message[MOST_BYTES];

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
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

static void put(unsigned char *to, uint64_t value)
{
    for (int at = 0; at < 8; at++)
        to[at] = (unsigned char)(value >> (56 - 8 * at));
}

static uint64_t get(const unsigned char *from)
{
    uint64_t value = 0;
    for (int at = 0; at < 8; at++)
        value = value << 8 | from[at];
    return value;
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

/* The index of the interface with this address. */
static unsigned interface_of(struct in_addr address)
{
    struct ifaddrs *all, *one;
    unsigned index = 0;
    if (getifaddrs(&all) != 0)
        fail("getifaddrs", NULL);
    for (one = all; one != NULL; one = one->ifa_next) {
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != AF_INET)
            continue;
        if (((struct sockaddr_in *)one->ifa_addr)->sin_addr.s_addr == address.s_addr)
            index = if_nametoindex(one->ifa_name);
    }
    freeifaddrs(all);
    if (index == 0) {
        fprintf(stderr, "openpgm: no interface has that address\n");
        exit(1);
    }
    return index;
}

static pgm_sock_t *open_socket(int sends, const char *local, char *groups, int data_port, int udp_port, int bytes_a_second,
                               unsigned gsi_number)
{
    pgm_error_t *error = NULL;
    pgm_sock_t *sock = NULL;
    struct in_addr address;
    if (inet_pton(AF_INET, local, &address) != 1)
        fail("local address", NULL);
    unsigned index = interface_of(address);
    if (!pgm_socket(&sock, AF_INET, SOCK_SEQPACKET, udp_port != 0 ? IPPROTO_UDP : IPPROTO_PGM, &error))
        fail("pgm_socket", error);
    if (udp_port != 0) {
        number(sock, PGM_UDP_ENCAP_UCAST_PORT, "unicast port", udp_port);
        number(sock, PGM_UDP_ENCAP_MCAST_PORT, "multicast port", udp_port);
    }
    number(sock, PGM_IP_ROUTER_ALERT, "router alert", 0);
    number(sock, PGM_MTU, "MTU", 1500);
    number(sock, PGM_NOBLOCK, "no blocking", 1);
    number(sock, PGM_MULTICAST_LOOP, "loop", 0);
    number(sock, PGM_MULTICAST_HOPS, "hops", 16);
    int room = 16 << 20;
    pgm_setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    pgm_setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (sends) {
        /* Heartbeats in microseconds: dense at first, so that a lost last packet is noticed soon. */
        const int heartbeats[] = { 4000, 4000, 8000, 16000, 32000, 64000, 128000, 256000, 512000, 1000000 };
        number(sock, PGM_SEND_ONLY, "send only", 1);
        number(sock, PGM_TXW_SQNS, "transmit window", 8192);
        number(sock, PGM_TXW_MAX_RTE, "rate", bytes_a_second);
        number(sock, PGM_AMBIENT_SPM, "ambient SPM", 1000000);
        option(sock, PGM_HEARTBEAT_SPM, "heartbeat SPM", heartbeats, sizeof heartbeats);
    } else {
        number(sock, PGM_RECV_ONLY, "receive only", 1);
        number(sock, PGM_RXW_SQNS, "receive window", 8192);
        number(sock, PGM_PEER_EXPIRY, "peer expiry", 30000000);
        number(sock, PGM_SPMR_EXPIRY, "SPMR expiry", 25000);
        number(sock, PGM_NAK_BO_IVL, "back-off", 2000);
        number(sock, PGM_NAK_RPT_IVL, "repeat", 20000);
        number(sock, PGM_NAK_RDATA_IVL, "data", 20000);
        number(sock, PGM_NAK_DATA_RETRIES, "data retries", 50);
        number(sock, PGM_NAK_NCF_RETRIES, "NCF retries", 50);
    }
    struct pgm_sockaddr_t who;
    memset(&who, 0, sizeof who);
    who.sa_port = (uint16_t)data_port;
    who.sa_addr.sport = 0;
    memcpy(who.sa_addr.gsi.identifier, &address, 4);
    who.sa_addr.gsi.identifier[4] = (uint8_t)(gsi_number >> 8);
    who.sa_addr.gsi.identifier[5] = (uint8_t)gsi_number;
    struct pgm_interface_req_t where;
    memset(&where, 0, sizeof where);
    where.ir_interface = index;
    struct sockaddr_in *ip = (struct sockaddr_in *)&where.ir_address;
    ip->sin_family = AF_INET;
    ip->sin_addr = address;
    if (!pgm_bind3(sock, &who, sizeof who, &where, sizeof where, &where, sizeof where, &error))
        fail("pgm_bind3", error);
    char *rest = NULL;
    for (char *group = strtok_r(groups, ",", &rest); group != NULL; group = strtok_r(NULL, ",", &rest)) {
        struct group_req wanted;
        memset(&wanted, 0, sizeof wanted);
        wanted.gr_interface = index;
        struct sockaddr_in *to = (struct sockaddr_in *)&wanted.gr_group;
        to->sin_family = AF_INET;
        if (inet_pton(AF_INET, group, &to->sin_addr) != 1)
            fail("group", NULL);
        option(sock, PGM_JOIN_GROUP, "join", &wanted, sizeof wanted);
        option(sock, PGM_SEND_GROUP, "send group", &wanted, sizeof wanted);
    }
    /* The library takes no more than the system's limit, with which it loses whole bursts. */
    int heard = -1;
    socklen_t heard_bytes = sizeof heard;
    if (pgm_getsockopt(sock, IPPROTO_PGM, PGM_RECV_SOCK, &heard, &heard_bytes))
        setsockopt(heard, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    if (!pgm_connect(sock, &error))
        fail("pgm_connect", error);
    return sock;
}

struct source {
    pgm_tsi_t tsi;
    uint64_t first, next, messages;
};

struct seen {
    struct source sources[MOST_SOURCES];
    unsigned count;
    uint64_t messages, bad, out_of_order, resets, fins;
    uint64_t last_ns;
};

static void check(struct seen *seen, const pgm_tsi_t *tsi, const unsigned char *data, size_t bytes, size_t wanted)
{
    struct source *source = NULL;
    for (unsigned at = 0; at < seen->count; at++)
        if (pgm_tsi_equal(&seen->sources[at].tsi, tsi))
            source = &seen->sources[at];
    seen->messages++;
    seen->last_ns = now(CLOCK_MONOTONIC);
    if (bytes < 16 || (wanted != 0 && bytes != wanted)) {
        seen->bad++;
        return;
    }
    uint64_t told = get(data);
    if (source == NULL) {
        if (seen->count == MOST_SOURCES) {
            seen->bad++;
            return;
        }
        source = &seen->sources[seen->count++];
        source->tsi = *tsi;
        source->first = source->next = told;
    }
    if (told != source->next)
        seen->out_of_order++;
    source->next = told + 1;
    source->messages++;
    for (size_t at = 16; at < bytes; at++)
        if (data[at] != (unsigned char)(told + at)) {
            seen->bad++;
            return;
        }
}

/* Takes all that is there; returns 0 when the socket has ended. */
static int serve(pgm_sock_t *sock, struct seen *seen, size_t wanted)
{
    static unsigned char taken[MOST_BYTES];
    for (;;) {
        pgm_error_t *error = NULL;
        struct pgm_sockaddr_t from;
        socklen_t from_bytes = sizeof from;
        size_t bytes = 0;
        int status = pgm_recvfrom(sock, taken, sizeof taken, MSG_DONTWAIT, &bytes, &from, &from_bytes, &error);
        switch (status) {
        case PGM_IO_STATUS_NORMAL:
            check(seen, &from.sa_addr, taken, bytes, wanted);
            break;
        case PGM_IO_STATUS_RESET:
            seen->resets++;
            break;
        case PGM_IO_STATUS_FIN:
            seen->fins++;
            break;
        case PGM_IO_STATUS_EOF:
            return 0;
        case PGM_IO_STATUS_ERROR:
            fail("pgm_recvfrom", error);
            break;
        default:
            return 1;
        }
        if (error != NULL)
            pgm_error_free(error);
    }
}

/* Waits until something can be read, a timer of the library is due, or so long. */
static void pause_for(pgm_sock_t *sock, uint64_t at_most_ns)
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
    pselect(most, &readable, NULL, NULL, &wait, NULL);
}

int main(int count, char **words)
{
    if (count < 10) {
        fprintf(stderr, "openpgm send|recv LOCAL GROUPS DATA-PORT UDP-PORT COUNT BYTES RATE SECONDS [NUMBER]\n");
        return 2;
    }
    int sends = strcmp(words[1], "send") == 0;
    int data_port = atoi(words[4]), udp_port = atoi(words[5]);
    uint64_t messages = strtoull(words[6], NULL, 10);
    size_t bytes = strtoul(words[7], NULL, 10);
    double rate = atof(words[8]), seconds = atof(words[9]);
    unsigned expected = count > 10 ? (unsigned)atoi(words[10]) : 1;
    unsigned gsi_number = sends ? 256 + expected : 1;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = stop;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    pgm_error_t *error = NULL;
    if (!pgm_init(&error))
        fail("pgm_init", error);
    pgm_sock_t *sock = open_socket(sends, words[2], words[3], data_port, udp_port, 64 << 20, gsi_number);
    printf("ready\n");
    fflush(stdout);
    struct seen seen;
    memset(&seen, 0, sizeof seen);
    uint64_t sent = 0, began = now(CLOCK_MONOTONIC);
    seen.last_ns = began;
    const uint64_t patience = (uint64_t)(seconds * 1e9);
    if (sends) {
        while (!stopped && sent < messages) {
            uint64_t due = began + (uint64_t)((double)sent * 1e9 / rate), time = now(CLOCK_MONOTONIC);
            serve(sock, &seen, 0);
            if (time < due) {
                pause_for(sock, due - time);
                continue;
            }
            put(message, sent);
            put(message + 8, now(CLOCK_REALTIME));
            for (size_t at = 16; at < bytes; at++)
                message[at] = (unsigned char)(sent + at);
            size_t taken = 0;
            int status;
            /* A message that was begun has to be offered again as it is. */
            while ((status = pgm_send(sock, message, bytes, &taken)) != PGM_IO_STATUS_NORMAL && !stopped) {
                if (status != PGM_IO_STATUS_WOULD_BLOCK && status != PGM_IO_STATUS_RATE_LIMITED) {
                    fprintf(stderr, "openpgm: pgm_send: status %d\n", status);
                    return 1;
                }
                serve(sock, &seen, 0);
            }
            sent++;
        }
        uint64_t until = now(CLOCK_MONOTONIC) + patience;
        for (uint64_t time; !stopped && (time = now(CLOCK_MONOTONIC)) < until;) {
            serve(sock, &seen, 0);
            pause_for(sock, until - time < 10000000u ? until - time : 10000000u);
        }
    } else {
        while (!stopped && serve(sock, &seen, bytes)) {
            unsigned done = 0;
            for (unsigned at = 0; at < seen.count; at++)
                done += seen.sources[at].next >= messages;
            /* What comes after the last message would be a duplicate. */
            if (now(CLOCK_MONOTONIC) - seen.last_ns > (done == expected ? 200000000u : patience))
                break;
            pause_for(sock, 10000000u);
        }
    }
    pgm_close(sock, true);
    pgm_shutdown();
    printf("{\"sent\":%" PRIu64 ",\"messages\":%" PRIu64 ",\"bad\":%" PRIu64 ",\"out_of_order\":%" PRIu64 ",\"resets\":%" PRIu64
           ",\"fins\":%" PRIu64 ",\"sources\":[",
           sent, seen.messages, seen.bad, seen.out_of_order, seen.resets, seen.fins);
    for (unsigned at = 0; at < seen.count; at++)
        printf("%s{\"first\":%" PRIu64 ",\"next\":%" PRIu64 ",\"messages\":%" PRIu64 "}", at == 0 ? "" : ",",
               seen.sources[at].first, seen.sources[at].next, seen.sources[at].messages);
    printf("]}\n");
    return 0;
}
