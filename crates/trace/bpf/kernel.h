/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The kernel types that the recorder reads, with only the fields that it reads: their offsets in the running kernel are found when the
 * programs are loaded (CO-RE). */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;

#define KERNEL __attribute__((preserve_access_index))

struct thread_info {
	u32 cpu;
} KERNEL;

struct task_struct {
	struct thread_info thread_info;
	int pid;
	int tgid;
	int prio;
	char comm[16];
	unsigned int __state;
	_Bool throttled; /* since Linux 6.18 */
} KERNEL;

struct irqaction {
	const char *name;
} KERNEL;

struct sock_common {
	u16 skc_num;
	u16 skc_family;
} KERNEL;

struct sk_buff_head {
	u32 qlen;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
	u16 sk_type;
	u16 sk_protocol;
	struct sk_buff_head sk_receive_queue;
} KERNEL;

struct sk_buff {
	struct sock *sk;
	unsigned char *head;
	unsigned char *data;
	u16 network_header;
} KERNEL;

struct tcp_sock {
	u32 rcv_nxt;
	u32 copied_seq;
} KERNEL;

struct udp_sock {
	struct sk_buff_head reader_queue;
} KERNEL;

struct pt_regs {
	unsigned long di;
	unsigned long si;
	unsigned long dx;
} KERNEL;

struct timespec64 {
	long long tv_sec;
	long tv_nsec;
};
