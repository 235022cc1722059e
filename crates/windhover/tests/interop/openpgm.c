/* The real OpenPGM at the other end of Windhover's interop tests: sends numbered messages, or receives and checks them.
 *
 *   openpgm send|recv LOCAL GROUP[,GROUP...] DATA-PORT UDP-PORT COUNT BYTES RATE SECONDS [NUMBER]
 *
 * UDP-PORT 0: raw IP protocol 113. A receiver prints "ready" once it listens and ends a moment after it has message COUNT-1 of
 * NUMBER sources, or after SECONDS without a message (the library never tells of OPT_FIN). It also tells which number the
 * first SPM called the last one sent ("lead"): the library does not say when it has heard one. A sender, told apart by
 * NUMBER, serves repairs until nobody has asked for SECONDS, then ends the session. Both end with one line of JSON.
 *
 * A message: its number in 8 bytes, the time of sending in 8 (ns since 1970), both big-endian, then bytes of (number + place).
 */
#define _GNU_SOURCE
#include "openpgm.h"

#define MOST_BYTES 65536
#define MOST_SOURCES 8
#define MOST_LINGER_NS 20000000000u

static _Alignas(16) unsigned char message[MOST_BYTES];

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

struct source {
    pgm_tsi_t tsi;
    /* "whole" is the first message after the last gap. */
    uint64_t first, next, messages, whole;
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
        source->first = source->next = source->whole = told;
    }
    if (told < source->next)
        seen->out_of_order++;
    else if (told > source->next)
        source->whole = told;
    source->next = told + 1;
    source->messages++;
    for (size_t at = 16; at < bytes; at++)
        if (data[at] != (unsigned char)(told + at)) {
            seen->bad++;
            return;
        }
}

/* Another socket on the group, which gets what the library's gets: both after the same losses. */
struct watcher {
    int fd;
    size_t skipped; /* -1: an IPv4 header */
    int64_t lead;
};

static struct watcher watch(const struct setup *setup)
{
    struct watcher watcher = { .skipped = 0, .lead = -1 };
    struct sockaddr_storage local = address_of(setup->local);
    char group[256];
    snprintf(group, sizeof group, "%s", setup->receive_groups);
    group[strcspn(group, ",")] = 0;
    struct group_req wanted = { .gr_interface = interface_of(&local), .gr_group = address_of(group) };
    struct sockaddr_storage place = wanted.gr_group;
    int six = place.ss_family == AF_INET6, raw = setup->udp_port == 0, on = 1;
    watcher.fd = socket(place.ss_family, raw ? SOCK_RAW : SOCK_DGRAM, raw ? IPPROTO_PGM : 0);
    if (raw && !six)
        watcher.skipped = (size_t)-1;
    setsockopt(watcher.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(watcher.fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    /* The port is at the same place in both families. */
    ((struct sockaddr_in *)&place)->sin_port = htons((uint16_t)setup->udp_port);
    if (six)
        ((struct sockaddr_in6 *)&place)->sin6_scope_id = wanted.gr_interface;
    if (watcher.fd < 0 || bind(watcher.fd, (struct sockaddr *)&place, sizeof place) != 0 ||
        setsockopt(watcher.fd, six ? IPPROTO_IPV6 : IPPROTO_IP, MCAST_JOIN_GROUP, &wanted, sizeof wanted) != 0)
        fail("watching the group", NULL);
    return watcher;
}

/* RFC 3208, 8.1: the type is at byte 4 of a packet, the leading edge at byte 24 of an SPM. */
static void look(struct watcher *watcher)
{
    unsigned char packet[2048];
    ssize_t bytes;
    while (watcher->lead < 0 && (bytes = recv(watcher->fd, packet, sizeof packet, MSG_DONTWAIT)) >= 0) {
        size_t at = watcher->skipped == (size_t)-1 ? 4u * (packet[0] & 15) : watcher->skipped;
        if ((size_t)bytes >= at + 28 && packet[at + 4] == 0)
            watcher->lead = (int64_t)packet[at + 24] << 24 | packet[at + 25] << 16 | packet[at + 26] << 8 | packet[at + 27];
    }
    if (watcher->lead >= 0 && watcher->fd >= 0) {
        close(watcher->fd);
        watcher->fd = -1;
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
    stop_on_signals();
    pgm_error_t *error = NULL;
    if (!pgm_init(&error))
        fail("pgm_init", error);
    struct setup setup = {
        .sends = sends,
        .receives = !sends,
        .local = words[2],
        .send_groups = words[3],
        .receive_groups = words[3],
        .data_port = data_port,
        .udp_port = udp_port,
        .bytes_a_second = 64 << 20,
        .buffer_bytes = 16 << 20,
        .gsi = gsi_number,
    };
    pgm_sock_t *sock = open_socket(&setup);
    struct watcher watcher = { .fd = -1, .lead = -1 };
    if (!sends)
        watcher = watch(&setup);
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
        /* Receivers on a busy machine ask for repairs late. */
        const uint64_t end = now(CLOCK_MONOTONIC) + MOST_LINGER_NS;
        uint64_t until = now(CLOCK_MONOTONIC) + patience;
        for (uint64_t time; !stopped && (time = now(CLOCK_MONOTONIC)) < until && time < end;) {
            serve(sock, &seen, 0);
            if (pause_for(sock, until - time < 10000000u ? until - time : 10000000u))
                until = now(CLOCK_MONOTONIC) + patience;
        }
    } else {
        while (!stopped && serve(sock, &seen, bytes)) {
            look(&watcher);
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
           ",\"fins\":%" PRIu64 ",\"lead\":%" PRId64 ",\"sources\":[",
           sent, seen.messages, seen.bad, seen.out_of_order, seen.resets, seen.fins, watcher.lead);
    for (unsigned at = 0; at < seen.count; at++)
        printf("%s{\"first\":%" PRIu64 ",\"next\":%" PRIu64 ",\"messages\":%" PRIu64 ",\"whole\":%" PRIu64 "}", at == 0 ? "" : ",",
               seen.sources[at].first, seen.sources[at].next, seen.sources[at].messages, seen.sources[at].whole);
    printf("]}\n");
    return 0;
}
