/*
 * A foreign worker of Windhover: wake-up latency of an EVL thread (Xenomai 4). docs/foreign-workers.md is the contract.
 *
 *     cc -O2 -o evl_wake evl_wake.c $(pkg-config --cflags --libs evl)      # or: -levl
 *     windhover wake --foreign ./evl_wake --policy fifo:90 --cpu 1
 *
 * The thread sleeps on the EVL core's clock, out of band. It makes no in-band call between the first deadline and the last.
 */
#define _GNU_SOURCE
#include <evl/evl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000ull

struct sample {
	uint64_t due, woken;
};

static void fail(const char *why, int error)
{
	printf("{\"event\":\"failed\",\"message\":\"%s: %s\"}\n", why, strerror(error));
	fflush(stdout);
	exit(1);
}

static uint64_t number(const char *task, const char *key, uint64_t otherwise)
{
	char quoted[64];
	const char *at;

	snprintf(quoted, sizeof quoted, "\"%s\":", key);
	at = strstr(task, quoted);
	return at ? strtoull(at + strlen(quoted), NULL, 10) : otherwise;
}

static uint64_t now(void)
{
	struct timespec ts;

	evl_read_clock(EVL_CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS + (uint64_t)ts.tv_nsec;
}

static void sleep_until(uint64_t due)
{
	struct timespec ts = { .tv_sec = (time_t)(due / NS), .tv_nsec = (long)(due % NS) };

	evl_sleep_until(EVL_CLOCK_MONOTONIC, &ts);
}

int main(void)
{
	static char task[8192], word[64];
	uint64_t interval, count, warmup, max_ms, due;
	struct sample *samples;
	int efd;

	if (!fgets(task, sizeof task, stdin))
		return 2;
	if (number(task, "contract", 0) != 1 || !strstr(task, "\"measure\":\"wake\"")) {
		printf("{\"event\":\"failed\",\"message\":\"this worker measures wake, by version 1 of the contract\"}\n");
		return 1;
	}
	interval = number(task, "interval_us", 1000) * 1000;
	max_ms = number(task, "max_ms", UINT32_MAX);
	count = number(task, "max_count", UINT64_MAX);
	if (max_ms * 1000000 / interval < count)
		count = max_ms * 1000000 / interval;
	warmup = number(task, "warmup_ms", 0) * 1000000 / interval;
	samples = calloc(count, sizeof *samples);
	if (!samples)
		fail("no memory for the samples", ENOMEM);
	memset(samples, 1, count * sizeof *samples);
	mlockall(MCL_CURRENT | MCL_FUTURE);
	/* The thread keeps the real-time policy and the CPU that it was started with. */
	efd = evl_attach_self("windhover-wake:%d", getpid());
	if (efd < 0)
		fail("this is no thread of the EVL core", -efd);

	printf("{\"event\":\"ready\",\"contract\":1,\"name\":\"evl-wake\",\"version\":\"1.0\","
	       "\"clock\":\"EVL_CLOCK_MONOTONIC\",\"ticks_per_second\":1000000000}\n");
	fflush(stdout);
	if (!fgets(word, sizeof word, stdin))
		return 0;

	due = now() + NS / 10;
	for (uint64_t i = 0; i < warmup; i++, due += interval)
		sleep_until(due);
	for (uint64_t i = 0; i < count; i++, due += interval) {
		sleep_until(due);
		samples[i].due = due;
		samples[i].woken = now();
	}

	for (uint64_t i = 0; i < count; i++)
		printf("%llu %llu %llu\n", (unsigned long long)i, (unsigned long long)samples[i].due,
		       (unsigned long long)samples[i].woken);
	printf("{\"event\":\"end\"}\n");
	return fflush(stdout) ? 1 : 0;
}
