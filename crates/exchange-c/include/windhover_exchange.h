/*
 * windhover_exchange.h: read topics of `windhover exchange` from C, and write those that a node publishes.
 *
 * A topic's latest value is in an image, a file in shared memory. The calls that read and write it make no system call and take no lock
 * (whx_reader_wait sleeps). Link with libwindhover_exchange.so (-lwindhover_exchange), or with libwindhover_exchange.a -lpthread -ldl -lm
 * -lgcc_s.
 *
 * Return values: 0 is done; above 0 something was copied, but see below; below 0 is an error, nothing was copied, and
 * whx_last_error() has a line that says why.
 *
 * Data are those of exchange.toml: fields are little-endian, at their offsets. Sizes are checked: `bytes` has to be the topic's size.
 *
 * A handle is used by one thread at a time. Different handles are independent. A handle that was closed must not be used again.
 */
#ifndef WINDHOVER_EXCHANGE_H
#define WINDHOVER_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WHX_OK 0
#define WHX_NO_SAMPLE 1       /* nothing was written yet: data and quality are what the topic's on_stale says */
#define WHX_TIMED_OUT 2       /* no new sample came in time: what was copied is as from whx_reader_latest */
#define WHX_ERROR_ARGUMENT (-1) /* a pointer is NULL, a string is not UTF-8, or a quality is unknown */
#define WHX_ERROR_SIZE (-2)     /* `bytes` is not the size of the topic's data */
#define WHX_ERROR_FILE (-3)     /* the file cannot be read, is wrong, or has no such node or topic */
#define WHX_ERROR_IMAGE (-4)    /* the image cannot be opened or made: absent, another user's, damaged, another layout, in use */
#define WHX_ERROR_BUSY (-5)     /* the writer was interrupted within a write, and no earlier sample is kept */
#define WHX_ERROR_INTERNAL (-6) /* a fault of the library */

#define WHX_GOOD 0        /* from the publisher, and in time */
#define WHX_STALE 1       /* the last value, older than the topic allows */
#define WHX_BAD 2         /* no value, or the publisher says that it is wrong */
#define WHX_SUBSTITUTED 3 /* what the topic says is to take the place of a value that is too old */

typedef struct whx_reader whx_reader;
typedef struct whx_writer whx_writer;

/* A sample beside its data. */
typedef struct whx_sample {
	uint64_t sequence;     /* the number of the frame within its epoch */
	uint64_t epoch;        /* one start of the publisher */
	uint64_t cycle;        /* the number of the publisher's cycle */
	uint64_t scheduled_ns; /* when the cycle was due, since 1970, by the publisher's clock */
	uint64_t sent_ns;      /* when it was sent, since 1970, by the publisher's clock */
	uint64_t stored_ns;    /* CLOCK_MONOTONIC of this host when the image was written */
	uint64_t age_ns;       /* from stored_ns to this read; UINT64_MAX where there has been no sample */
	uint32_t quality;      /* WHX_GOOD ... by the topic's stale_us and on_stale */
	uint32_t writer_alive; /* 1: the image's writer gave a sign of life within the last 500 ms */
} whx_sample;

/* The text of this thread's last error, never NULL. It is valid until the thread's next call of a function of this header. */
const char *whx_last_error(void);

/*
 * Opens the image of `topic` at `node` (its name, not its number), as the file `file` (exchange.toml) describes them. The layouts have to
 * be equal. A node makes its images when it starts, and removes them at its orderly end: while writer_alive is 0, close the reader and
 * open it again. On an error *reader is NULL.
 */
int whx_reader_open(const char *file, const char *node, const char *topic, whx_reader **reader);

/* The size of the topic's data in bytes, at most 1384. NULL has 0. */
size_t whx_reader_bytes(const whx_reader *reader);

/* Copies the latest data and sample. While a writer is within a write these are the ones before. */
int whx_reader_latest(whx_reader *reader, void *data, size_t bytes, whx_sample *sample);

/*
 * Waits for a sample that came after the opening and that this reader has not returned, and copies the latest. It looks at the image in
 * steps of a twentieth of the topic's period, 10 to 200 us, and sleeps between them; the kernel adds the thread's timer slack. A thread
 * that needs it earlier calls whx_reader_latest in a loop. With a time-out of 0 it looks once.
 */
int whx_reader_wait(whx_reader *reader, uint64_t timeout_ns, void *data, size_t bytes, whx_sample *sample);

/* NULL is left alone. */
void whx_reader_close(whx_reader *reader);

/*
 * Opens the image from which `node` publishes `topic`, /dev/shm/windhover.NODE.TOPIC.in, and makes it where it is not there. The file has
 * to say source = "image" for it. A node needs the image when it starts: open the writer before the first start of the node. An image has
 * one writer at a time. On an error *writer is NULL.
 */
int whx_writer_open(const char *file, const char *node, const char *topic, whx_writer **writer);

/* Writes a sample with a quality (WHX_GOOD ...). The node sends it in each cycle, as WHX_STALE once it is older than stale_us. */
int whx_writer_publish(whx_writer *writer, const void *data, size_t bytes, uint32_t quality);

/* The image stays for the next writer. NULL is left alone. */
void whx_writer_close(whx_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
