/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The flight recorder for any program: what each CPU does, as in recorder.bpf.c, and of each receive call of one process when its data
 * came, when its thread was woken for it and ran, and when the call had it.
 *
 * What came is counted by socket, from the first receive call or the connection on. No system call is traced: a socket reports that data
 * came (sk_data_ready), and the socket layer that a call returns data (sock_recv_length). Both are there since Linux 6.3.
 */
#define LIVE
#include "recorder.bpf.c"

static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;

#define SOCKETS 16384u
#define ARRIVALS 65536u
/* A softirq that waited less than this is as good as one that did not wait. */
#define DEFERRED_NS 10000
/* A wake-up this long after data came on this CPU, in the same context, is by that data. */
#define WAKES_WITHIN_NS 100000

enum { STREAM = 1, TCP = 6, UDP = 17, ESTABLISHED = 1, CLOSED = 7, PEEK = 2, ERROR_QUEUE = 0x2000 };

struct wh_arrival {
	u64 at_ns;
	u64 cpu;
};

struct wh_socket {
	/* Of a stream: the first and the last time at which data came that no call has returned. */
	struct wh_arrival first;
	struct wh_arrival last;
	/* How many times data came, and the number of the next one that a call may return. */
	u64 arrived;
	u64 taken;
};

struct wh_datagram {
	u64 socket;
	u64 number;
};

struct { uint(type, LRU_HASH); u64 *key; struct wh_socket *value; uint(max_entries, SOCKETS); } sockets SEC(".maps");
struct { uint(type, LRU_HASH); struct wh_datagram *key; struct wh_arrival *value; uint(max_entries, ARRIVALS); } arrivals SEC(".maps");

/* User space gives it more places. */
struct { uint(type, LRU_HASH); u32 *key; struct wh_thread *value; uint(max_entries, 256); } threads SEC(".maps");

INLINE struct wh_thread *thread_at(u32 tid, int claims)
{
	struct wh_thread *thread = map_lookup(&threads, &tid);
	struct wh_thread none = {};
	if (thread || !claims)
		return thread;
	map_update(&threads, &tid, &none, 0);
	return map_lookup(&threads, &tid);
}

INLINE struct wh_thread *woken_thread(struct task_struct *task)
{
	struct wh_state *of = measured();
	if (!of || task->tgid != (s32)of->tgid)
		return 0;
	return thread_at(task->pid, 1);
}

/* A thread that sleeps for something else is woken by something else, whatever data it takes later. */
INLINE int is_woken_by_message(struct wh_cpu *lane, u64 now)
{
	return lane->ready_ns && now - lane->ready_ns < WAKES_WITHIN_NS && lane->ready_by == pid_tgid();
}

INLINE void new_socket(u64 socket)
{
	struct wh_socket none = {};
	map_update(&sockets, &socket, &none, 0);
}

SEC("tp_btf/inet_sock_set_state") int inet_sock_set_state(u64 *ctx)
{
	u64 socket = ctx[0];
	if (ctx[2] == ESTABLISHED)
		new_socket(socket);
	/* The memory of a socket may be that of the next one. */
	if (ctx[2] == CLOSED)
		map_delete(&sockets, &socket);
	return 0;
}

/* Buffers that a socket holds. */
INLINE u64 queued(struct sock *sk)
{
	u32 count = 0, in_reader = 0;
	read_kernel(&count, sizeof(count), &sk->sk_receive_queue.qlen);
	if (sk->sk_protocol == UDP)
		read_kernel(&in_reader, sizeof(in_reader), &((struct udp_sock *)sk)->reader_queue.qlen);
	return (u64)count + in_reader;
}

SEC("tp_btf/sk_data_ready") int sk_data_ready(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	u64 key = ctx[0];
	struct wh_socket *socket = map_lookup(&sockets, &key);
	u16 cpu;
	struct wh_cpu *lane = this_cpu(&cpu);
	if (!socket || !lane)
		return 0;
	u64 now = now_ns(), raised = lane->running_raised_ns;
	lane->ready_ns = now;
	lane->ready_by = pid_tgid();
	/* What waited for its softirq came before that was raised, or while it waited. */
	int is_deferred = raised && raised + DEFERRED_NS < lane->softirq_ns;
	struct wh_arrival arrival = { .at_ns = is_deferred ? raised : now, .cpu = cpu };
	if (sk->sk_type == STREAM) {
		socket->last = arrival;
		/* What a Unix socket of this address left unread is not the next one's. */
		if (!socket->first.at_ns || (sk->sk_protocol != TCP && queued(sk) <= 1))
			socket->first = arrival;
		return 0;
	}
	struct wh_datagram datagram = { .socket = key, .number = __sync_fetch_and_add(&socket->arrived, 1) };
	map_update(&arrivals, &datagram, &arrival, 0);
	return 0;
}

/* When the data came that a call returns; 0 where that was not seen. */
INLINE struct wh_arrival of_stream(struct sock *sk, struct wh_socket *socket)
{
	struct wh_arrival first = socket->first;
	u32 next = 0, copied = 0;
	if (sk->sk_protocol == TCP) {
		struct tcp_sock *tcp = (void *)sk;
		read_kernel(&next, sizeof(next), &tcp->rcv_nxt);
		read_kernel(&copied, sizeof(copied), &tcp->copied_seq);
	} else {
		next = queued(sk);
	}
	/* What is left came last, unless it is the rest of what came at once: that is one message. */
	if (next != copied && socket->last.at_ns > first.at_ns)
		socket->first = socket->last;
	else
		socket->first.at_ns = 0;
	return first;
}

/* Numbers are counted from the last one that came: calls that return nothing, and data that no call takes, change none. */
INLINE struct wh_arrival of_datagram(struct sock *sk, struct wh_socket *socket)
{
	struct wh_arrival none = {};
	u64 left = queued(sk), arrived = socket->arrived;
	struct wh_datagram datagram = { .socket = (u64)sk, .number = socket->taken };
	/* It was there before its socket was followed. */
	if (arrived <= left)
		return none;
	if (arrived - left - 1 > datagram.number)
		datagram.number = arrived - left - 1;
	if (datagram.number >= arrived)
		return none;
	socket->taken = datagram.number + 1;
	struct wh_arrival *arrival = map_lookup(&arrivals, &datagram);
	return arrival ? *arrival : none;
}

SEC("tp_btf/sock_recv_length") int sock_recv_length(u64 *ctx)
{
	struct wh_state *of = measured();
	struct sock *sk = (void *)ctx[0];
	u64 key = ctx[0], id = pid_tgid();
	u32 tid = id;
	u16 cpu;
	if (!of || (u32)(id >> 32) != of->tgid || ctx[2] & (PEEK | ERROR_QUEUE) || !this_cpu(&cpu))
		return 0;
	struct wh_socket *socket = map_lookup(&sockets, &key);
	if (!socket) {
		new_socket(key);
		return 0;
	}
	int is_stream = sk->sk_type == STREAM;
	if ((s32)ctx[1] <= 0) {
		/* It is empty, or at its end. */
		if (is_stream)
			socket->first.at_ns = 0;
		return 0;
	}
	struct wh_arrival arrival = is_stream ? of_stream(sk, socket) : of_datagram(sk, socket);
	if (!arrival.at_ns)
		return 0;
	u64 seq = __sync_fetch_and_add(&of->sent_seq, 1);
	stamp(seq, RECEIVED, 1, arrival.at_ns, arrival.cpu);
	struct wh_thread *thread = thread_of(tid);
	/* A wake-up before the data came is by an earlier message; its thread may still wait for the CPU. */
	if (thread && thread->running_ns >= thread->woken_ns && thread->running_ns > arrival.at_ns) {
		stamp(seq, WOKEN, 0, thread->woken_ns, thread->woken_cpu);
		stamp(seq, RUNNING, 0, thread->running_ns, thread->running_cpu);
	}
	/* To send is what the far end's application does last. */
	stamp(seq, SEND, 0, now_ns(), cpu);
	struct wh_message *message = slot(seq);
	if (message)
		message->sender = message->receiver = tid;
	over(of, seq);
	return 0;
}
