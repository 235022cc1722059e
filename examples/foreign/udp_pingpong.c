/*
 * A foreign worker of Windhover: UDP ping-pong against its reflector. docs/foreign-workers.md is the contract.
 *
 *     cc -O2 -o udp_pingpong udp_pingpong.c
 *     windhover pingpong udp 10.0.0.2 --foreign ./udp_pingpong
 *
 * It shows all that a worker does: read its task, prove the path, wait for the word to start, measure without a system call but those
 * measured, and write its samples when it is done. Another network stack takes the place of socket, send and recv.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000ull

struct sample {
	uint64_t seq, sent, received; /* received 0: lost */
};

static void fail(const char *why)
{
	printf("{\"event\":\"failed\",\"message\":\"%s\"}\n", why);
	fflush(stdout);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS + (uint64_t)ts.tv_nsec;
}

/* The value of a key of the task, which is one flat object without escapes. */
static const char *value(const char *task, const char *key)
{
	static char quoted[64];
	const char *at;

	snprintf(quoted, sizeof quoted, "\"%s\":", key);
	at = strstr(task, quoted);
	return at ? at + strlen(quoted) : NULL;
}

static uint64_t number(const char *task, const char *key, uint64_t otherwise)
{
	const char *at = value(task, key);

	return at ? strtoull(at, NULL, 10) : otherwise;
}

static int text(const char *task, const char *key, char *into, size_t room)
{
	const char *at = value(task, key), *end;

	if (!at || *at != '"' || !(end = strchr(at + 1, '"')) || (size_t)(end - at) > room)
		return 0;
	memcpy(into, at + 1, (size_t)(end - at) - 1);
	into[end - at - 1] = 0;
	return 1;
}

/* Bytes written in hexadecimal; how many. */
static size_t bytes(const char *task, const char *key, uint8_t *into, size_t room)
{
	char digits[512];
	size_t count = 0;
	unsigned byte;

	if (!text(task, key, digits, sizeof digits))
		return 0;
	for (; count < room && sscanf(digits + 2 * count, "%2x", &byte) == 1; count++)
		into[count] = (uint8_t)byte;
	return count;
}

static int connected(const char *task)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	struct sockaddr_in four = { .sin_family = AF_INET };
	uint16_t port = htons((uint16_t)number(task, "peer_port", 0));
	char address[128];
	int fd;

	if (!text(task, "peer_address", address, sizeof address))
		fail("the task has no peer");
	four.sin_port = six.sin6_port = port;
	if (inet_pton(AF_INET, address, &four.sin_addr) == 1) {
		fd = socket(AF_INET, SOCK_DGRAM, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *)&four, sizeof four))
			fail("no socket to the peer");
	} else if (inet_pton(AF_INET6, address, &six.sin6_addr) == 1) {
		fd = socket(AF_INET6, SOCK_DGRAM, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *)&six, sizeof six))
			fail("no socket to the peer");
	} else {
		fail("the peer's address is none");
	}
	return fd;
}

/* Standard input has ended: the runner wants no more. */
static int unwanted(void)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	char rest[64];

	return poll(&in, 1, 0) > 0 && read(0, rest, sizeof rest) <= 0;
}

/* One message there and back. The first 8 bytes of a message are its number, the next 8 the tag, as far as there is room. */
static void round_trip(int fd, struct sample *sample, uint64_t seq, uint8_t *message, uint8_t *answer, size_t size)
{
	size_t head = size < 8 ? size : 8;

	/* Little endian, as this machine is. */
	memcpy(message, &seq, head);
	sample->seq = seq;
	sample->received = 0;
	sample->sent = now();
	if (send(fd, message, size, 0) < 0 && errno != ECONNREFUSED)
		fail("a message could not be sent");
	for (;;) {
		ssize_t got = recv(fd, answer, size, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return; /* Nothing within the time-out. */
		if ((size_t)got == size && !memcmp(answer, message, size < 16 ? head : 16))
			break; /* Others are late answers. */
	}
	sample->received = now();
}

int main(void)
{
	static char task[8192], word[64];
	static uint8_t hello[256], message[65536], answer[65536];
	uint64_t max_ns, warmup_ns, max_count, warmup_count, timeout_ms, seq = 1, count = 0, room, begun;
	struct sample *samples, untimed;
	struct timeval timeout;
	struct pollfd in = { .fd = 0, .events = POLLIN };
	size_t hello_bytes, size;
	int fd;

	if (!fgets(task, sizeof task, stdin))
		return 2;
	setvbuf(stdin, NULL, _IONBF, 0);
	if (number(task, "contract", 0) != 1)
		fail("this worker keeps version 1 of the contract");
	if (!text(task, "measure", word, sizeof word) || strcmp(word, "pingpong"))
		fail("this worker measures pingpong");
	if (!text(task, "protocol", word, sizeof word) || strcmp(word, "udp"))
		fail("this worker measures udp");
	size = number(task, "size", 32);
	if (size > sizeof message)
		fail("such a message is no datagram");
	max_ns = number(task, "max_ms", UINT32_MAX) * 1000000;
	max_count = number(task, "max_count", UINT64_MAX);
	warmup_ns = number(task, "warmup_ms", 0) * 1000000;
	warmup_count = number(task, "warmup_count", 0);
	timeout_ms = number(task, "timeout_ms", 1000);
	hello_bytes = bytes(task, "hello", hello, sizeof hello);
	bytes(task, "tag", message + 8, 8);

	fd = connected(task);
	timeout.tv_sec = (time_t)(timeout_ms / 1000);
	timeout.tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
	/* 2 us a round trip is faster than any. */
	room = max_ns / 2000 < 4000000 ? max_ns / 2000 + 1 : 4000000;
	if (max_count < room)
		room = max_count;
	samples = malloc(room * sizeof *samples);
	if (!samples)
		fail("no memory for the samples");
	memset(samples, 1, room * sizeof *samples); /* Each page is there before the first message. */
	mlockall(MCL_CURRENT); /* Where it is allowed. */

	printf("{\"event\":\"ready\",\"contract\":1,\"name\":\"udp-pingpong\",\"version\":\"1.0\","
	       "\"clock\":\"CLOCK_MONOTONIC\",\"ticks_per_second\":1000000000}\n");
	fflush(stdout);
	/* The reflector answers whoever shows the token; datagrams may be lost, so it is shown again. */
	for (;;) {
		if (hello_bytes && send(fd, hello, hello_bytes, 0) < 0 && errno != ECONNREFUSED)
			fail("the path could not be proved");
		if (poll(&in, 1, 50) > 0) {
			if (!fgets(word, sizeof word, stdin))
				return 0;
			if (!strncmp(word, "start", 5))
				break;
		}
	}

	begun = now();
	for (uint64_t done = 0; done < warmup_count || now() - begun < warmup_ns; done++) {
		round_trip(fd, &untimed, seq++, message, answer, size);
		if (!untimed.received)
			done += 99; /* Each loss takes a whole time-out. */
	}
	begun = now();
	while (count < room && (count == 0 || samples[count - 1].sent - begun < max_ns)) {
		round_trip(fd, &samples[count++], seq++, message, answer, size);
		if (count % 256 == 0 && unwanted())
			break;
	}

	for (uint64_t i = 0; i < count; i++) {
		printf("%llu %llu ", (unsigned long long)samples[i].seq, (unsigned long long)samples[i].sent);
		if (samples[i].received)
			printf("%llu\n", (unsigned long long)samples[i].received);
		else
			printf("-\n");
	}
	printf("{\"event\":\"end\"}\n");
	return fflush(stdout) ? 1 : 0;
}
