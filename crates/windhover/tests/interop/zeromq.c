/* The real ZeroMQ at the other end of Windhover's interop tests, over epgm://: publishes numbered messages, or subscribes
 * and checks them.
 *
 *   zeromq send|recv URL COUNT BYTES RATE SECONDS
 *
 * A receiver prints "ready" and ends a moment after message COUNT-1, or after SECONDS without a message; a sender serves
 * repairs for SECONDS after its last message. Both end with one line of JSON. Messages are those of openpgm.c.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#define MOST_BYTES 65536

static uint64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "zeromq: %s: %s\n", what, zmq_strerror(errno));
    exit(1);
}

static void option(void *socket, int name, const char *words, int value)
{
    if (zmq_setsockopt(socket, name, &value, sizeof value) != 0)
        fail(words);
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

/* Whether this network namespace is in a group beside that of all hosts, 224.0.0.1. */
static int has_joined(void) {
    char line[200], group[9];
    int joined = 0;
    FILE *groups = fopen("/proc/self/net/igmp", "r");
    while (groups != NULL && fgets(line, sizeof line, groups) != NULL)
        joined |= line[0] == '\t' && sscanf(line, " %8[0-9A-F] ", group) == 1 && strcmp(group, "010000E0") != 0;
    if (groups != NULL)
        fclose(groups);
    return joined;
}

int main(int count, char **words)
{
    static unsigned char message[MOST_BYTES];
    if (count < 7) {
        fprintf(stderr, "zeromq send|recv URL COUNT BYTES RATE SECONDS\n");
        return 2;
    }
    if (!zmq_has("pgm")) {
        fprintf(stderr, "zeromq: this library was built without PGM\n");
        return 3;
    }
    int sends = strcmp(words[1], "send") == 0;
    uint64_t messages = strtoull(words[3], NULL, 10);
    size_t bytes = strtoul(words[4], NULL, 10);
    double rate = atof(words[5]), seconds = atof(words[6]);
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, sends ? ZMQ_PUB : ZMQ_SUB);
    if (socket == NULL)
        fail("socket");
    option(socket, ZMQ_RATE, "rate", 200000);
    option(socket, ZMQ_RECOVERY_IVL, "recovery interval", 2000);
    option(socket, ZMQ_MULTICAST_HOPS, "hops", 4);
    option(socket, ZMQ_SNDHWM, "send mark", 0);
    option(socket, ZMQ_RCVHWM, "receive mark", 0);
    option(socket, ZMQ_LINGER, "linger", (int)(seconds * 1000));
    if (!sends && zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0) != 0)
        fail("subscribe");
    if (zmq_connect(socket, words[2]) != 0)
        fail(words[2]);
    // A thread of the library joins the group later than zmq_connect returns.
    while (!sends && strchr(words[2], '[') == NULL && !has_joined()) {
        struct timespec wait = { 0, 1000000 };
        nanosleep(&wait, NULL);
    }
    printf("ready\n");
    fflush(stdout);
    uint64_t sent = 0, seen = 0, bad = 0, out_of_order = 0, first = 0, next = 0;
    uint64_t began = now(CLOCK_MONOTONIC);
    if (sends) {
        for (; sent < messages; sent++) {
            uint64_t due = began + (uint64_t)((double)sent * 1e9 / rate), time = now(CLOCK_MONOTONIC);
            if (time < due) {
                struct timespec wait = { (time_t)((due - time) / 1000000000u), (long)((due - time) % 1000000000u) };
                nanosleep(&wait, NULL);
            }
            put(message, sent);
            put(message + 8, now(CLOCK_REALTIME));
            for (size_t at = 16; at < bytes; at++)
                message[at] = (unsigned char)(sent + at);
            if (zmq_send(socket, message, bytes, 0) < 0)
                fail("send");
        }
        struct timespec wait = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
        nanosleep(&wait, NULL);
    } else {
        const uint64_t patience = (uint64_t)(seconds * 1e9);
        uint64_t last = began;
        option(socket, ZMQ_RCVTIMEO, "time-out", 50);
        while (now(CLOCK_MONOTONIC) - last < (seen > 0 && next >= messages ? 200000000u : patience)) {
            int taken = zmq_recv(socket, message, sizeof message, 0);
            if (taken < 0) {
                if (errno == EAGAIN || errno == EINTR)
                    continue;
                fail("receive");
            }
            last = now(CLOCK_MONOTONIC);
            size_t length = (size_t)taken;
            if (length < 16 || (bytes != 0 && length != bytes)) {
                bad++;
                continue;
            }
            uint64_t told = get(message);
            if (seen == 0)
                first = next = told;
            out_of_order += told != next;
            next = told + 1;
            seen++;
            for (size_t at = 16; at < length; at++)
                if (message[at] != (unsigned char)(told + at)) {
                    bad++;
                    break;
                }
        }
    }
    printf("{\"sent\":%" PRIu64 ",\"messages\":%" PRIu64 ",\"bad\":%" PRIu64 ",\"out_of_order\":%" PRIu64
           ",\"resets\":0,\"fins\":0,\"sources\":[{\"first\":%" PRIu64 ",\"next\":%" PRIu64 ",\"messages\":%" PRIu64 "}]}\n",
           sent, seen, bad, out_of_order, first, next, seen);
    fflush(stdout);
    option(socket, ZMQ_LINGER, "linger", 0);
    zmq_close(socket);
    zmq_ctx_term(context);
    return 0;
}
