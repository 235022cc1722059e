/*
 * Reads or writes a topic of `windhover exchange` from C. The fields are those of exchange.toml beside it.
 *
 *     cargo build --release -p windhover-exchange-c
 *     cc -O2 -I crates/exchange-c/include -o image examples/exchange/image.c \
 *         -L target/release -lwindhover_exchange -Wl,-rpath,$PWD/target/release
 *     ./image read exchange.toml plant setpoint 10
 *     ./image write exchange.toml controller setpoint 1000
 *
 * `read` waits for samples of the topic "setpoint" and prints a line for each. `write` publishes so many, one a millisecond; the file says
 * publish = [{ topic = "setpoint", source = "image" }] for its node.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "windhover_exchange.h"

#define WAIT_NS UINT64_C(10000000000)

/* [[topic.field]] name = "force", type = "f64": offset 0. */
struct setpoint {
	double force;
};

static int failed(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, whx_last_error());
	return 1;
}

static int read_samples(const char *file, const char *node, const char *topic, long count)
{
	static const char *const qualities[] = {"GOOD", "STALE", "BAD", "SUBSTITUTED"};
	whx_reader *reader;
	struct setpoint setpoint;
	whx_sample sample;
	int code = whx_reader_open(file, node, topic, &reader);

	if (code < 0)
		return failed("open");
	/* Who waits for this line knows that the image is open. */
	puts("open");
	fflush(stdout);
	while (count-- > 0) {
		code = whx_reader_wait(reader, WAIT_NS, &setpoint, sizeof setpoint, &sample);
		if (code < 0) {
			failed("wait");
			break;
		}
		printf("%s sequence %" PRIu64 " force %g %s\n", code == WHX_TIMED_OUT ? "timeout" : "new", sample.sequence,
		       setpoint.force, qualities[sample.quality]);
		fflush(stdout);
	}
	whx_reader_close(reader);
	return code < 0;
}

static int write_samples(const char *file, const char *node, const char *topic, long count)
{
	whx_writer *writer;
	struct setpoint setpoint;
	struct timespec period = {0, 1000000};
	int code = whx_writer_open(file, node, topic, &writer);

	if (code < 0)
		return failed("open");
	for (long i = 0; i < count && code >= 0; i++) {
		setpoint.force = 0.5 * i;
		code = whx_writer_publish(writer, &setpoint, sizeof setpoint, WHX_GOOD);
		nanosleep(&period, NULL);
	}
	if (code < 0)
		failed("publish");
	whx_writer_close(writer);
	return code < 0;
}

int main(int argc, char **argv)
{
	if (argc == 6 && strcmp(argv[1], "read") == 0)
		return read_samples(argv[2], argv[3], argv[4], atol(argv[5]));
	if (argc == 6 && strcmp(argv[1], "write") == 0)
		return write_samples(argv[2], argv[3], argv[4], atol(argv[5]));
	fprintf(stderr, "usage: image read|write FILE NODE TOPIC COUNT\n");
	return 2;
}
