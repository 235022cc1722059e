/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The flight recorder: what each CPU does, in a ring of its own that is overwritten, and when a message passes each stage.
 *
 * Nothing is consumed and no one is woken: user space reads the maps, which are mapped into its memory. Intervals are written once, at
 * their end. Every program is optional: a kernel that lacks a tracepoint only has less to tell. Layouts are those of
 * crates/explain/src/event.rs and crates/trace/src/recorder.rs.
 */
#include "kernel.h"

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define ARRAY 2
#define LRU_HASH 9
#define MAPPED 1024
#define uint(name, value) int (*name)[value]

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const now_ns)(void) = (void *)5;
static u32 (*const cpu_id)(void) = (void *)8;
static u64 (*const pid_tgid)(void) = (void *)14;
static long (*const read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* As many as are online; user space says so when it loads the object. Ids are masked because the verifier of Linux 6.1 does not know
 * their range. */
#define CPUS 1024u
#define EVENTS 32768u
#define MESSAGES 65536u
#define VECTORS 5
#define SOFTIRQS 10
/* Places where a thread is looked for. */
#define TRIES 4

enum { SWITCH = 1, WAKING, HARDIRQ, VECTOR, SOFTIRQ, RAN = 7, MIGRATED, PAGE_FAULT };
/* Bits of a task's state. */
enum { INTERRUPTIBLE = 1 };
enum { SEND, QUEUED, SENT, RAISED, RECEIVED, WOKEN, RUNNING, RETURNED, STAGES };

struct wh_event {
	u64 at_ns;
	u64 value;
	u32 tid;
	u32 other;
	u32 extra;
	u16 cpu;
	u8 kind;
	u8 sub;
	u64 name[2];
};

struct wh_cpu {
	u64 written;
	u64 hardirq_ns;
	u64 vector_ns[VECTORS];
	u64 softirq_ns;
	u64 raised_ns[SOFTIRQS];
	/* When that was raised which runs now; 0 where none does. */
	u64 running_raised_ns;
	/* When a socket had data last, and who runs meanwhile (live.bpf.c). */
	u64 ready_ns;
	u64 ready_by;
	u64 unused[3];
	struct wh_event ring[EVENTS];
};

struct wh_message {
	u64 seq;
	u64 at_ns[STAGES];
	u16 cpu[STAGES];
	/* Threads. */
	u32 sender;
	u32 receiver;
};

struct wh_state {
	/* What is measured: the process, and the local port of its data socket. */
	u32 tgid;
	u32 port;
	/* Whether a message is over when it is sent rather than when its receive call has returned. */
	u64 far;
	u64 tag;
	/* What is written for each message has other cache lines than what is only read. */
	u64 unused[5];
	/* Numbers of messages that are over. */
	u64 over;
	u64 done[MESSAGES];
	u64 unused_too[7];
	/* Of a stream: the message that was sent last, of sleeps how many ended, and when data came that no call has returned yet. */
	u64 sent_seq;
	u64 raised_ns;
	u64 received_ns;
	u64 received_cpu;
};

struct wh_thread {
	u64 woken_ns;
	u64 running_ns;
	u16 woken_cpu;
	u16 running_cpu;
	u32 tid;
	/* Of a sleep: the time that it lasts until. */
	u64 until_ns;
	/* The last wake-up that a call returned from (recorder.rs). */
	u64 last[4];
	/* When that softirq was raised that woke it; 0 where none did. */
	u64 raised_ns;
};

struct { uint(type, ARRAY); u32 *key; struct wh_cpu *value; uint(max_entries, 64); uint(map_flags, MAPPED); } cpus SEC(".maps");
struct { uint(type, ARRAY); u32 *key; struct wh_message *value; uint(max_entries, MESSAGES); uint(map_flags, MAPPED); } messages SEC(".maps");
struct { uint(type, ARRAY); u32 *key; struct wh_state *value; uint(max_entries, 1); uint(map_flags, MAPPED); } state SEC(".maps");
/* live.bpf.c includes this file: it follows all threads of a process, and has stages of its own. */
#ifndef LIVE
#define THREADS 256u
struct { uint(type, ARRAY); u32 *key; struct wh_thread *value; uint(max_entries, THREADS); uint(map_flags, MAPPED); } threads SEC(".maps");
#endif

INLINE struct wh_cpu *this_cpu(u16 *cpu)
{
	u32 id = cpu_id();
	asm volatile("%0 &= 1023" : "+r"(id));
	*cpu = id;
	return map_lookup(&cpus, &id);
}

INLINE struct wh_event *next(struct wh_cpu *lane, u16 cpu, u8 kind, u64 at_ns)
{
	u64 at = __sync_fetch_and_add(&lane->written, 1);
	asm volatile("%0 &= 32767" : "+r"(at));
	struct wh_event *event = &lane->ring[at];
	event->at_ns = at_ns;
	event->cpu = cpu;
	event->kind = kind;
	return event;
}

INLINE struct wh_state *measured(void)
{
	u32 zero = 0;
	return map_lookup(&state, &zero);
}

/* An interval that has just ended. */
INLINE struct wh_event *interval(struct wh_cpu *lane, u16 cpu, u8 kind, u64 start_ns)
{
	u64 now = now_ns();
	if (!start_ns || start_ns > now)
		return 0;
	struct wh_event *event = next(lane, cpu, kind, start_ns);
	event->value = now - start_ns;
	return event;
}

/* Interrupts */

SEC("tp_btf/irq_handler_entry") int irq_handler_entry(u64 *ctx)
{
	u16 cpu;
	struct wh_cpu *lane = this_cpu(&cpu);
	if (lane)
		lane->hardirq_ns = now_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit") int irq_handler_exit(u64 *ctx)
{
	u16 cpu;
	struct wh_cpu *lane = this_cpu(&cpu);
	struct irqaction *action = (void *)ctx[1];
	struct wh_event *event = lane ? interval(lane, cpu, HARDIRQ, lane->hardirq_ns) : 0;
	if (event) {
		event->other = ctx[0];
		read_kernel(event->name, sizeof(event->name), action->name);
	}
	return 0;
}

#define VECTOR_PROGRAMS(vector, number)                                                    \
	SEC("tp_btf/" #vector "_entry") int vector##_entry(u64 *ctx)                       \
	{                                                                                  \
		u16 cpu;                                                                   \
		struct wh_cpu *lane = this_cpu(&cpu);                                      \
		if (lane)                                                                  \
			lane->vector_ns[number] = now_ns();                                \
		return 0;                                                                  \
	}                                                                                  \
	SEC("tp_btf/" #vector "_exit") int vector##_exit(u64 *ctx)                         \
	{                                                                                  \
		u16 cpu;                                                                   \
		struct wh_cpu *lane = this_cpu(&cpu);                                      \
		struct wh_event *event = lane ? interval(lane, cpu, VECTOR, lane->vector_ns[number]) : 0; \
		if (event)                                                                 \
			event->sub = number;                                               \
		return 0;                                                                  \
	}

VECTOR_PROGRAMS(local_timer, 0)
VECTOR_PROGRAMS(reschedule, 1)
VECTOR_PROGRAMS(call_function, 2)
VECTOR_PROGRAMS(call_function_single, 2)
VECTOR_PROGRAMS(irq_work, 3)
VECTOR_PROGRAMS(x86_platform_ipi, 4)
VECTOR_PROGRAMS(thermal_apic, 4)

SEC("tp_btf/softirq_raise") int softirq_raise(u64 *ctx)
{
	u16 cpu;
	struct wh_cpu *lane = this_cpu(&cpu);
	u32 vector = ctx[0];
	/* The first of several raises is the one that waits. */
	if (lane && vector < SOFTIRQS && !lane->raised_ns[vector])
		lane->raised_ns[vector] = now_ns();
	return 0;
}

SEC("tp_btf/softirq_entry") int softirq_entry(u64 *ctx)
{
	u16 cpu;
	struct wh_cpu *lane = this_cpu(&cpu);
	u32 vector = ctx[0];
	if (!lane || vector >= SOFTIRQS)
		return 0;
	/* One that is raised while it runs waits anew. */
	lane->running_raised_ns = lane->raised_ns[vector];
	lane->raised_ns[vector] = 0;
	lane->softirq_ns = now_ns();
	return 0;
}

SEC("tp_btf/softirq_exit") int softirq_exit(u64 *ctx)
{
	u16 cpu;
	struct wh_cpu *lane = this_cpu(&cpu);
	u32 vector = ctx[0];
	if (!lane || vector >= SOFTIRQS)
		return 0;
	u64 start = lane->softirq_ns, raised = lane->running_raised_ns;
	lane->running_raised_ns = 0;
	struct wh_event *event = interval(lane, cpu, SOFTIRQ, start);
	if (event) {
		event->sub = vector;
		event->extra = raised && raised < start ? start - raised : 0;
	}
	return 0;
}

/* Tasks */

/* Of a measured thread; of a new one from here on where it is to be claimed. */
INLINE struct wh_thread *thread_at(u32 tid, int claims);

INLINE struct wh_thread *thread_of(u32 tid)
{
	return thread_at(tid, 0);
}

#ifdef LIVE
INLINE struct wh_thread *woken_thread(struct task_struct *task);
INLINE int is_woken_by_message(struct wh_cpu *lane, u64 now);
#else
INLINE struct wh_thread *woken_thread(struct task_struct *task)
{
	return thread_of(task->pid);
}

INLINE int is_woken_by_message(struct wh_cpu *lane, u64 now)
{
	return 1;
}

/* A thread has the place of its id, or one of the next where another has that. A lookup by hash costs more than the event. */
INLINE struct wh_thread *thread_at(u32 tid, int claims)
{
	for (u32 next = 0; tid && next < TRIES; next++) {
		u32 place = (tid + next) & (THREADS - 1);
		struct wh_thread *thread = map_lookup(&threads, &place);
		if (!thread)
			return 0;
		u32 found = thread->tid;
		if (!found && claims)
			found = __sync_val_compare_and_swap(&thread->tid, 0, tid) ?: tid;
		if (found == tid)
			return thread;
		if (!found)
			return 0;
	}
	return 0;
}
#endif

SEC("tp_btf/sched_switch") int sched_switch(u64 *ctx)
{
	u16 cpu;
	struct wh_cpu *lane = this_cpu(&cpu);
	if (!lane)
		return 0;
	struct task_struct *from = (void *)ctx[1], *to = (void *)ctx[2];
	u64 now = now_ns();
	struct wh_event *event = next(lane, cpu, SWITCH, now);
	event->tid = to->pid;
	event->other = from->pid;
	event->extra = to->prio;
	/* A preempted task stays runnable, whatever state it was about to sleep in. */
	event->value = ctx[0] ? 0 : (u32)ctx[3];
	event->sub = 0;
	if (__builtin_preserve_field_info(from->throttled, 2))
		event->sub = from->throttled != 0;
	/* Two loads, where a helper would cost as much as the rest. */
	const u64 *name = (const u64 *)to->comm;
	event->name[0] = name[0];
	event->name[1] = name[1];
	struct wh_thread *thread = thread_of(to->pid);
	if (thread && thread->woken_ns > thread->running_ns) {
		thread->running_ns = now;
		thread->running_cpu = cpu;
	}
	return 0;
}

SEC("tp_btf/sched_waking") int sched_waking(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct wh_thread *thread = woken_thread(task);
	if (!thread)
		return 0;
	u16 cpu;
	struct wh_cpu *lane = this_cpu(&cpu);
	if (!lane)
		return 0;
	u64 now = now_ns();
	struct wh_event *event = next(lane, cpu, WAKING, now);
	event->tid = task->pid;
	event->other = (u32)pid_tgid();
	/* One that was stopped, or slept for memory or a lock, is not woken by its message. */
	if (!(task->__state & INTERRUPTIBLE) || !is_woken_by_message(lane, now))
		return 0;
	thread->woken_ns = now;
	thread->woken_cpu = cpu;
	thread->raised_ns = lane->running_raised_ns;
	return 0;
}

SEC("tp_btf/sched_stat_runtime") int sched_stat_runtime(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	/* A wake-up accounts the task that runs on the CPU of the woken one, which may be another than this. */
	u32 cpu = task->thread_info.cpu;
	asm volatile("%0 &= 1023" : "+r"(cpu));
	struct wh_cpu *lane = map_lookup(&cpus, &cpu);
	if (!lane)
		return 0;
	struct wh_event *event = next(lane, cpu, RAN, now_ns());
	event->tid = task->pid;
	event->value = ctx[1];
	return 0;
}

SEC("tp_btf/sched_migrate_task") int sched_migrate_task(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 from = task->thread_info.cpu, cpu = ctx[1];
	asm volatile("%0 &= 1023" : "+r"(cpu));
	if (from == cpu || !thread_of(task->pid))
		return 0;
	/* Any CPU may move it. The event is one of the CPU on which the thread goes on. */
	struct wh_cpu *lane = map_lookup(&cpus, &cpu);
	if (lane) {
		struct wh_event *event = next(lane, cpu, MIGRATED, now_ns());
		event->tid = task->pid;
		event->other = cpu;
		event->extra = from;
	}
	return 0;
}

INLINE int page_fault(void)
{
	u32 tid = pid_tgid();
	u16 cpu;
	if (!thread_of(tid))
		return 0;
	struct wh_cpu *lane = this_cpu(&cpu);
	if (lane)
		next(lane, cpu, PAGE_FAULT, now_ns())->tid = tid;
	return 0;
}

SEC("tp_btf/page_fault_user") int page_fault_user(u64 *ctx)
{
	return page_fault();
}

/* A system call touches memory of its caller. */
SEC("tp_btf/page_fault_kernel") int page_fault_kernel(u64 *ctx)
{
	return page_fault();
}

/* Messages */

INLINE struct wh_message *slot(u64 seq)
{
	u32 at = seq & (MESSAGES - 1);
	return map_lookup(&messages, &at);
}

/* The first stage that is seen of a message makes its place new. */
INLINE void stamp(u64 seq, int stage, int first, u64 at_ns, u16 cpu)
{
	struct wh_message *message = slot(seq);
	if (!message)
		return;
	if (message->seq != seq + 1) {
		if (!first)
			return;
		__builtin_memset(message, 0, sizeof(*message));
		message->seq = seq + 1;
	}
	message->at_ns[stage] = at_ns;
	message->cpu[stage] = cpu;
}

INLINE void over(struct wh_state *measured, u64 seq)
{
	u64 at = __sync_fetch_and_add(&measured->over, 1);
	at &= MESSAGES - 1;
	measured->done[at] = seq;
}

#ifndef LIVE

struct wh_head {
	u64 seq;
	u64 tag;
};

/* How most frames begin, read at once: each read costs as much as a program. */
struct wh_frame {
	u32 unused;
	u8 ip[20];
	u16 ports[2];
	u32 length_checksum;
	struct wh_head head;
};

enum { INET = 2, INET6 = 10 };
enum { NO_MESSAGE, NUMBERED, NUMBERED_LATER };

/* The number of the message in a frame of the measured port. The data of a stream lies in pages that cannot be read here: a frame out
 * belongs to the send call before it, as the answer does; a request has its number once the receive call returns. */
INLINE int in_frame(struct wh_state *measured, struct sk_buff *skb, int outwards, u64 *seq)
{
	struct wh_frame frame;
	/* What is received has its network header where its data begins: the offset is set only later. */
	const unsigned char *at = outwards ? skb->head + skb->network_header : skb->data;
	if (read_kernel(frame.ip, sizeof(frame) - sizeof(frame.unused), at))
		return NO_MESSAGE;
	int is_v4 = (frame.ip[0] >> 4) == 4;
	u32 length = is_v4 ? (frame.ip[0] & 15) * 4 : 40;
	u8 protocol = is_v4 ? frame.ip[9] : frame.ip[6];
	int is_whole = length == sizeof(frame.ip);
	at += length;
	if (!is_whole && read_kernel(frame.ports, sizeof(frame.ports), at))
		return NO_MESSAGE;
	u16 port = outwards ? frame.ports[0] : frame.ports[1];
	if (__builtin_bswap16(port) != measured->port)
		return NO_MESSAGE;
	u32 header = 8;
	if (protocol == 6) {
		u8 offset = 0;
		read_kernel(&offset, 1, at + 12);
		header = (offset >> 4) * 4;
		u32 bytes = is_v4 ? frame.ip[2] << 8 | frame.ip[3] : 40 + (frame.ip[4] << 8 | frame.ip[5]);
		*seq = measured->sent_seq;
		if (bytes <= length + header)
			return NO_MESSAGE;
		return outwards || !measured->far ? NUMBERED : NUMBERED_LATER;
	}
	if (protocol != 17 && protocol != 136)
		return NO_MESSAGE;
	if (!is_whole && read_kernel(&frame.head, sizeof(frame.head), at + header))
		return NO_MESSAGE;
	if (measured->tag && frame.head.tag != measured->tag)
		return NO_MESSAGE;
	*seq = frame.head.seq;
	return NUMBERED;
}

/* Whether a frame out is surely one of another socket. */
INLINE int is_of_other(struct wh_state *measured, struct sock *sk)
{
	u16 family = sk ? sk->__sk_common.skc_family : 0;
	return (family == INET || family == INET6) && sk->__sk_common.skc_num != measured->port;
}

INLINE void frame(u64 *ctx, int stage, int outwards)
{
	struct wh_state *of = measured();
	struct sk_buff *skb = (void *)ctx[0];
	u16 cpu;
	u64 seq;
	if (!of || !of->port || (outwards && is_of_other(of, skb->sk)))
		return;
	int found = in_frame(of, skb, outwards, &seq);
	if (found == NO_MESSAGE)
		return;
	struct wh_cpu *lane = this_cpu(&cpu);
	if (!lane)
		return;
	if (found == NUMBERED_LATER) {
		if (!of->received_ns) {
			of->raised_ns = lane->running_raised_ns;
			of->received_cpu = cpu;
			of->received_ns = now_ns();
		}
		return;
	}
	/* The first frame of a message counts. */
	struct wh_message *message = slot(seq);
	if (message && message->seq == seq + 1 && message->at_ns[stage])
		return;
	stamp(seq, stage, stage == RECEIVED && of->far, now_ns(), cpu);
	if (stage == RECEIVED)
		stamp(seq, RAISED, 0, lane->running_raised_ns, cpu);
	if (stage == SENT && of->far)
		over(of, seq);
}

SEC("tp_btf/net_dev_queue") int net_dev_queue(u64 *ctx)
{
	frame(ctx, QUEUED, 1);
	return 0;
}

SEC("tp_btf/net_dev_start_xmit") int net_dev_start_xmit(u64 *ctx)
{
	frame(ctx, SENT, 1);
	return 0;
}

SEC("tp_btf/netif_receive_skb") int netif_receive_skb(u64 *ctx)
{
	frame(ctx, RECEIVED, 0);
	return 0;
}

/* Sleeps of the measured process until a time (x86-64). The calls that carry messages stamp them themselves: a program at each system
 * call would cost a thread that spins at each look. */
enum { NR_clock_nanosleep = 230 };
/* Arguments of clock_nanosleep(2). */
enum { MONOTONIC = 1, ABSOLUTE = 1 };

/* One whose time has passed makes no sleep. */
SEC("tp_btf/sys_enter") int sys_enter(u64 *ctx)
{
	struct wh_state *of = measured();
	u64 id = pid_tgid();
	struct pt_regs *regs = (void *)ctx[0];
	struct timespec64 until;
	if (!of || (u32)(id >> 32) != of->tgid || ctx[1] != NR_clock_nanosleep)
		return 0;
	if (regs->di != MONOTONIC || regs->si != ABSOLUTE || read_user(&until, sizeof(until), (void *)regs->dx))
		return 0;
	struct wh_thread *thread = thread_at(id, 1);
	u64 until_ns = until.tv_sec * 1000000000ull + until.tv_nsec;
	if (!thread || until_ns <= now_ns())
		return 0;
	thread->woken_ns = 0;
	thread->running_ns = 0;
	thread->until_ns = until_ns;
	return 0;
}

SEC("tp_btf/sys_exit") int sys_exit(u64 *ctx)
{
	struct wh_state *of = measured();
	u64 id = pid_tgid();
	if (!of || (u32)(id >> 32) != of->tgid)
		return 0;
	struct wh_thread *thread = thread_of(id);
	u16 cpu;
	if (!thread || !thread->until_ns)
		return 0;
	u64 until = thread->until_ns;
	thread->until_ns = 0;
	if (ctx[1] || !thread->running_ns || !this_cpu(&cpu))
		return 0;
	u64 seq = __sync_fetch_and_add(&of->sent_seq, 1);
	stamp(seq, SEND, 1, until, thread->woken_cpu);
	stamp(seq, WOKEN, 0, thread->woken_ns, thread->woken_cpu);
	stamp(seq, RUNNING, 0, thread->running_ns, thread->running_cpu);
	stamp(seq, RETURNED, 0, now_ns(), cpu);
	struct wh_message *message = slot(seq);
	if (message)
		message->receiver = (u32)id;
	over(of, seq);
	return 0;
}

#endif
