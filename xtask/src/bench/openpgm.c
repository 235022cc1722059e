/* The benchmarks' peer: OpenPGM at both ends, doing what `windhover pace pgm` does.
 *
 *   openpgm initiate LOCAL GROUP REPLY-GROUP UDP-PORT RATE SECONDS BYTES PRIORITY SEND-CPU RECEIVE-CPU [RAW-FILE]
 *   openpgm reflect  LOCAL GROUP REPLY-GROUP UDP-PORT 0 0 BYTES PRIORITY CPU CPU
 *
 * The initiator publishes on GROUP at absolute times and takes what comes on REPLY-GROUP in a second thread; the
 * reflector publishes there what it gets. UDP-PORT 0: raw IP protocol 113. Priority 0: SCHED_OTHER, else SCHED_FIFO.
 * The initiator prints one line of JSON; times in ns, CPU time of its whole process between its first and last message.
 * RAW-FILE gets a line for each answered message: intended send, actual send, RTT, in ns, as `windhover pace --raw` writes.
 */
#define _GNU_SOURCE
#include "openpgm.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define DATA_PORT 7500
/* An answer that comes later is lost. */
#define GRACE_NS 1000000000u

struct head {
    uint64_t number, intended, actual;
};

static pgm_sock_t *sock;
static uint64_t count;
static uint32_t *rtt, *rtt_intended;
static volatile uint64_t answered, strays, resets, last_answer;
static volatile sig_atomic_t sender_done;

static void place(int cpu, int priority)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0)
        fail("affinity", NULL);
    struct sched_param how = { .sched_priority = priority };
    if (priority > 0 && pthread_setschedparam(pthread_self(), SCHED_FIFO | SCHED_RESET_ON_FORK, &how) != 0)
        fail("SCHED_FIFO", NULL);
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

static uint64_t cpu_ns(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return ((uint64_t)used.ru_utime.tv_sec + (uint64_t)used.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)used.ru_utime.tv_usec + (uint64_t)used.ru_stime.tv_usec) * 1000u;
}

static uint32_t capped(uint64_t ns)
{
    return ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

static void take(const unsigned char *data, size_t bytes)
{
    struct head head;
    uint64_t time = now(CLOCK_MONOTONIC);
    memcpy(&head, data, sizeof head);
    if (bytes < sizeof head || head.number >= count || rtt[head.number] != 0) {
        strays++;
        return;
    }
    rtt[head.number] = capped(time - head.actual);
    rtt_intended[head.number] = capped(time - head.intended);
    last_answer = time;
    answered++;
}

/* Everything that is there; each message goes to `use`. */
static void serve(void (*use)(const unsigned char *, size_t))
{
    static unsigned char taken[65536];
    for (;;) {
        pgm_error_t *error = NULL;
        size_t bytes = 0;
        int status = pgm_recvfrom(sock, taken, sizeof taken, MSG_DONTWAIT, &bytes, NULL, NULL, &error);
        if (error != NULL)
            pgm_error_free(error);
        if (status == PGM_IO_STATUS_NORMAL)
            use(taken, bytes);
        else if (status == PGM_IO_STATUS_RESET)
            resets++;
        else
            return;
    }
}

static void publish(const unsigned char *data, size_t bytes)
{
    for (;;) {
        size_t taken = 0;
        int status = pgm_send(sock, data, bytes, &taken);
        if (status == PGM_IO_STATUS_NORMAL || stopped)
            return;
        if (status != PGM_IO_STATUS_WOULD_BLOCK && status != PGM_IO_STATUS_RATE_LIMITED)
            fail("pgm_send", NULL);
    }
}

static void reflect(const unsigned char *data, size_t bytes)
{
    static _Alignas(16) unsigned char answer[65536];
    memcpy(answer, data, bytes);
    publish(answer, bytes);
}

struct receiver {
    int cpu, priority;
};

static void *receive(void *words)
{
    struct receiver *mine = words;
    place(mine->cpu, mine->priority);
    while (!stopped && !(sender_done && (answered == count || now(CLOCK_MONOTONIC) > last_answer + GRACE_NS))) {
        serve(take);
        pause_for(sock, 10000000u);
    }
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return one < other ? -1 : one > other;
}

static void print_quantiles(const char *name, uint32_t *values, uint64_t known)
{
    qsort(values, count, sizeof *values, ascending);
    /* What never came is 0 and sorted first. */
    const uint32_t *came = values + (count - known);
    const double wanted[] = { 0.5, 0.9, 0.99, 0.999 };
    const char *names[] = { "p50", "p90", "p99", "p99_9" };
    printf(",\"%s\":{", name);
    for (int at = 0; at < 4; at++)
        printf("\"%s_ns\":%u,", names[at], known == 0 ? 0 : came[(uint64_t)(wanted[at] * (double)(known - 1))]);
    printf("\"max_ns\":%u}", known == 0 ? 0 : came[known - 1]);
}

static void write_raw(const char *name, double rate)
{
    FILE *file = fopen(name, "w");
    if (file == NULL)
        fail(name, NULL);
    for (uint64_t number = 0; number < count; number++) {
        uint64_t intended = (uint64_t)((double)number * 1e9 / rate);
        if (rtt[number] != 0)
            fprintf(file, "%" PRIu64 " %" PRIu64 " %" PRIu32 "\n", intended, intended + (rtt_intended[number] - rtt[number]), rtt[number]);
    }
    if (fclose(file) != 0)
        fail(name, NULL);
}

int main(int words, char **word)
{
    if (words != 12 && words != 13) {
        fprintf(stderr, "openpgm initiate|reflect LOCAL GROUP REPLY-GROUP UDP-PORT RATE SECONDS BYTES PRIORITY SEND-CPU RECEIVE-CPU [RAW-FILE]\n");
        return 2;
    }
    int initiates = strcmp(word[1], "initiate") == 0;
    double rate = atof(word[6]), seconds = atof(word[7]);
    size_t bytes = strtoul(word[8], NULL, 10);
    int priority = atoi(word[9]);
    stop_on_signals();
    pgm_error_t *error = NULL;
    if (!pgm_init(&error))
        fail("pgm_init", error);
    mlockall(MCL_CURRENT | MCL_FUTURE);
    struct setup setup = {
        .sends = 1,
        .receives = 1,
        .local = word[2],
        .send_groups = initiates ? word[3] : word[4],
        .receive_groups = initiates ? word[4] : word[3],
        .data_port = DATA_PORT,
        .udp_port = atoi(word[5]),
        .bytes_a_second = 500000000,
        .buffer_bytes = 4 << 20,
        .gsi = initiates ? 1 : 2,
    };
    sock = open_socket(&setup);
    place(atoi(word[10]), priority);
    if (!initiates) {
        while (!stopped) {
            serve(reflect);
            pause_for(sock, 10000000u);
        }
        pgm_close(sock, true);
        return 0;
    }
    count = (uint64_t)(rate * seconds);
    rtt = calloc(count, sizeof *rtt);
    rtt_intended = calloc(count, sizeof *rtt_intended);
    static _Alignas(16) unsigned char message[65536];
    if (rtt == NULL || rtt_intended == NULL || bytes < sizeof(struct head) || bytes > sizeof message)
        fail("arguments", NULL);
    /* The reflector learns of this source, and this end of the reflector. */
    struct receiver receiver = { atoi(word[11]), priority };
    pthread_t thread;
    last_answer = now(CLOCK_MONOTONIC);
    for (int warm = 0; warm < 200; warm++) {
        struct head head = { UINT64_MAX, 0, 0 };
        memcpy(message, &head, sizeof head);
        publish(message, bytes);
        struct timespec while_ = { 0, 1000000 };
        nanosleep(&while_, NULL);
        serve(take);
    }
    strays = 0;
    if (pthread_create(&thread, NULL, receive, &receiver) != 0)
        fail("thread", NULL);
    uint64_t used = cpu_ns(), begin = now(CLOCK_MONOTONIC) + 3000000u;
    for (uint64_t number = 0; number < count && !stopped; number++) {
        struct head head = { number, begin + (uint64_t)((double)number * 1e9 / rate), 0 };
        struct timespec due = { (time_t)(head.intended / 1000000000u), (long)(head.intended % 1000000000u) };
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR && !stopped)
            ;
        head.actual = now(CLOCK_MONOTONIC);
        memcpy(message, &head, sizeof head);
        publish(message, bytes);
    }
    uint64_t took = now(CLOCK_MONOTONIC) - begin;
    last_answer = now(CLOCK_MONOTONIC);
    sender_done = 1;
    pthread_join(thread, NULL);
    used = cpu_ns() - used;
    printf("{\"asked_pps\":%.0f,\"achieved_pps\":%.1f,\"sent\":%" PRIu64 ",\"answered\":%" PRIu64 ",\"strays\":%" PRIu64
           ",\"resets\":%" PRIu64 ",\"cpu_ns\":%" PRIu64,
           rate, (double)count * 1e9 / (double)took, count, (uint64_t)answered, (uint64_t)strays, (uint64_t)resets, used);
    uint64_t known = answered;
    if (words == 13)
        write_raw(word[12], rate);
    print_quantiles("rtt", rtt, known);
    print_quantiles("rtt_intended", rtt_intended, known);
    printf("}\n");
    fflush(stdout);
    pgm_close(sock, true);
    return 0;
}
