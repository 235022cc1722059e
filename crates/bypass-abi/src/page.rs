//! The status page: one file a process, an array of 64-bit words that the library adds to and anybody who may read the
//! file reads. A capture is asked for there, too. Words are in the machine's byte order. A word that is not described here is 0.

use crate::SETTINGS;

/// First word of a page.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"WHBYPASS");
/// Version of the layout; a reader ignores other versions.
pub const VERSION: u64 = 3;

/// Index of the word that holds [`MAGIC`], written last; 0 again at the process' orderly end.
pub const AT_MAGIC: usize = 0;
/// Index of the word that holds [`VERSION`].
pub const AT_VERSION: usize = 1;
/// Index of the process id.
pub const AT_PID: usize = 2;
/// Index of the process' start in clock ticks since boot (field 22 of /proc/PID/stat): the id alone may be another's.
pub const AT_STARTED: usize = 3;
/// Index of the number of sockets that found no free record.
pub const AT_UNLISTED: usize = 4;
/// Index of the first of two words with the process' name, NUL-padded.
pub const AT_NAME: usize = 6;
/// Index of the effective settings, by `Key`.
pub const AT_SETTINGS: usize = 8;
/// Index of the counters of each [`Kind`], [`COUNTERS`] words each.
pub const AT_KINDS: usize = AT_SETTINGS + 24;
/// Index of the number of times that each [`Reason`] applied.
pub const AT_REASONS: usize = AT_KINDS + Kind::ALL.len() * COUNTERS;
/// Index of what is known of the stack in the process: [`ENGINE_WORDS`] words.
pub const AT_ENGINE: usize = 112;
/// Words of it: the interface's name (2), back-end + 1, frames received, sent, dropped, times the ring was full.
pub const ENGINE_WORDS: usize = 7;
/// Index of the capture that is asked for: what `xsk::TapReader::request` gives, 0 for none. A capture writes
/// it; besides, forked children count in their parent's [`AT_REASONS`] what stayed behind there. Nobody else writes.
pub const AT_CAPTURE: usize = 120;
/// Index of the error number with which the last one was refused.
pub const AT_CAPTURE_REFUSED: usize = 121;
/// Index of the sockets' records, [`SOCKET_WORDS`] words each.
pub const AT_SOCKETS: usize = 128;
/// Records of sockets.
pub const SOCKETS: usize = 256;
/// Words of a socket's record: first its descriptor + 1 in the low 32 bits (0: free) with flags above, then counters as of a
/// [`Kind`].
pub const SOCKET_WORDS: usize = 20;
/// Words of a page.
pub const WORDS: usize = AT_SOCKETS + SOCKETS * SOCKET_WORDS;
/// Bytes of a page.
pub const BYTES: usize = WORDS * 8;

/// Flag of a record: a stream socket (TCP); else datagrams.
pub const STREAM: u64 = 1 << 32;
/// Flag of a record: IPv6.
pub const IPV6: u64 = 1 << 33;
/// Flag of a record: its packets come through a NAPI instance, and busy polling was asked for.
pub const BUSY_POLLED: u64 = 1 << 34;
/// Flag of a record: on the stack in the process.
pub const ON_STACK: u64 = 1 << 35;
/// In a record of a connection on the stack: its state as the kernel numbers them, 0: none.
pub const SOCKET_TCP: usize = 8;
/// Bytes that wait to be sent or acknowledged.
pub const SOCKET_UNSENT: usize = 9;
/// Bytes that wait to be received.
pub const SOCKET_UNREAD: usize = 10;
/// Segments sent again.
pub const SOCKET_RETRANSMITS: usize = 11;
/// Smoothed round-trip time, ns.
pub const SOCKET_ROUND_TRIP: usize = 12;
/// Both ends, own one first: each an address as IPv6 has it (2 words of bytes). Then both ports, own one in the upper half.
pub const SOCKET_ENDS: usize = 13;
/// SND.UNA + 2^32: what whoever outlives the process needs to ask the other end.
pub const SOCKET_NUMBER: usize = 18;
/// Shift of [`Reason`] + 1 why it is not accelerated; 0 when it is.
pub const REASON_SHIFT: u32 = 40;

/// Counters of a kind of call or a socket.
pub const COUNTERS: usize = 7;

const _: () = assert!(SOCKET_ENDS + 5 <= SOCKET_NUMBER && SOCKET_NUMBER < SOCKET_WORDS, "words of a socket overlap");
const _: () = assert!(SETTINGS.len() <= 24, "settings reach into the counters");
const _: () = assert!(AT_ENGINE + ENGINE_WORDS <= AT_CAPTURE && AT_CAPTURE_REFUSED < AT_SOCKETS, "words overlap");
const _: () = assert!(AT_REASONS + Reason::ALL.len() <= AT_ENGINE, "reasons reach into the stack's");

macro_rules! words {
    ($(#[$doc:meta])* $type:ident: $($variant:ident $word:literal $what:literal;)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $type {
            $(#[doc = $what] $variant,)*
        }

        impl $type {
            /// All, in the order of their indexes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its word in tables and JSON.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// What it means, for people: one sentence.
            pub fn what(self) -> &'static str {
                match self {
                    $(Self::$variant => $what,)*
                }
            }
        }
    };
}

words! {
    /// Kinds of calls that wait.
    Kind:
    Recv "recv" "recv, recvfrom, recvmsg, recvmmsg, read, readv on an accelerated socket";
    Accept "accept" "accept, accept4";
    Connect "connect" "connect of a TCP socket";
    Poll "poll" "poll, ppoll with an accelerated socket among the descriptors";
    Select "select" "select, pselect with an accelerated socket among the descriptors";
    Epoll "epoll" "epoll_wait, epoll_pwait, epoll_pwait2 with an accelerated socket in the set";
    Send "send" "send, sendto, sendmsg, sendmmsg, write, writev on the stack in the process";
}

words! {
    /// What became of a call; the last one counts attempts instead.
    Outcome:
    Ready "ready" "the first attempt had a result: nothing to wait for";
    Found "found" "spinning had a result";
    Slept "slept" "the budget was used up: the kernel's blocking call took over";
    Interrupted "interrupted" "a signal handler interrupted the spin";
    TimedOut "timed_out" "the call's own time-out ended during the spin";
    NotSpun "not_spun" "it had to wait and slept at once, for a reason that is counted";
    Attempts "attempts" "system calls that spinning made";
}

const _: () = assert!(Outcome::ALL.len() == COUNTERS && COUNTERS < SOCKET_WORDS, "counters and outcomes differ");

words! {
    /// Why a socket or a call was left to the kernel.
    Reason:
    NonBlocking "non-blocking" "the socket is non-blocking: its receive calls never wait; poll, select and epoll still spin";
    PartialReceive "partial-receive" "SO_RCVLOWAT or SO_PEEK_OFF is set: an early receive call would give another result";
    Timeout "timeout" "SO_RCVTIMEO or SO_SNDTIMEO is set: accept and connect wait in the kernel";
    TooManySpinners "too-many-spinners" "other threads of the process spin already (max-spinners)";
    Contention "contention" "another thread needed the CPU of the spinning one (contention-us): give it a CPU of its own";
    CpuLimit "cpu-limit" "RLIMIT_RTTIME would end a thread that never sleeps, so it slept once";
    LargeDescriptor "large-descriptor" "its number is 65536 or more: lower the limit of open files (ulimit -n 65536)";
    LargeSet "large-set" "select with more than 1024 descriptors";
    SharedConnect "shared-connect" "connect of a socket that was duplicated or inherited";
    OtherSocket "other-socket" "neither UDP nor TCP (UNIX, raw, netlink …): passed on unchanged";
    NoInterface "no-interface" "the interface cannot be opened: bypass run says why";
    Route "route" "the other end is not reached through the interface";
    Local "local" "the other end, or its own address, is on this host: its packets pass no interface";
    OtherInterface "other-interface" "its address is none of the interface's";
    PortInUse "port-in-use" "another socket of the process has the port";
    ReusePort "reuse-port" "AF_PACKET with SO_REUSEPORT: the kernel's other sockets of the port would answer, too";
    Option "option" "only the kernel can do what it is for: multicast groups, SO_TIMESTAMPING, errors of the network, sends without copies";
    QueueTaken "queue-taken" "another process has the interface's queue: its parent or a sibling";
    SharedListener "shared-listener" "AF_PACKET: several processes listen on this socket, and all would answer";
    TooManySockets "too-many-sockets" "the stack in the process has no room for one more";
    Forked "forked" "its connection stayed with the process that forked this one, which lacks CAP_NET_ADMIN to give it to the kernel: set xdp = 0 for this program in a profile";
    Passed "passed" "its descriptor went to another process in a message, its data stay here, for want of CAP_NET_ADMIN: set xdp = 0 for this program in a profile";
    Sandbox "sandbox" "the process is about to give up system calls (seccomp): those of the library could end it";
    Closed "closed" "another thread closed the descriptor during the spin: the call went on in the kernel";
    HandedOver "handed-over" "another process got its descriptor (fork, exec, a message): the kernel has the connection from then on, with its data";
    IoUring "io-uring" "the program asked for io_uring and was told that there is none (ENOSYS), because rings pass by the library";
    NoFilter "no-filter" "AF_PACKET: the kernel's socket of TCP cannot be kept from answering, too: give the program CAP_NET_ADMIN";
}

impl Reason {
    /// Whether it means that a socket is not accelerated although its calls wait.
    pub fn is_failure(self) -> bool {
        matches!(
            self,
            Self::PartialReceive
                | Self::LargeDescriptor
                | Self::NoInterface
                | Self::Route
                | Self::OtherInterface
                | Self::PortInUse
                | Self::ReusePort
                | Self::Option
                | Self::TooManySockets
                | Self::QueueTaken
                | Self::SharedListener
                | Self::NoFilter
                | Self::Forked
                | Self::Passed
                | Self::Sandbox
        )
    }
}

/// What carries a socket, by the state in its record, and why it is left to the kernel.
pub fn carrier(state: u64) -> (&'static str, Option<Reason>) {
    let reason = usize::try_from(state >> REASON_SHIFT & 0xff).ok().and_then(|reason| reason.checked_sub(1));
    let reason = reason.and_then(|reason| Reason::ALL.get(reason)).copied();
    let carrier = match reason {
        Some(_) => "kernel",
        None if state & ON_STACK != 0 => "xdp",
        None => "spin",
    };
    (carrier, reason)
}

/// The words of a page's file; none where it is no page, or one of another version.
pub fn words(file: &[u8]) -> Option<Vec<u64>> {
    let words: Vec<u64> = file.as_chunks().0.iter().map(|eight| u64::from_ne_bytes(*eight)).collect();
    let is = |at: usize, wanted: u64| words.get(at) == Some(&wanted);
    (words.len() == WORDS && is(AT_MAGIC, MAGIC) && is(AT_VERSION, VERSION)).then_some(words)
}

/// Index of a counter of a kind of call.
pub const fn at_kind(kind: Kind, outcome: Outcome) -> usize {
    AT_KINDS + kind as usize * COUNTERS + outcome as usize
}

/// Index of the record of a socket.
pub const fn at_socket(record: usize) -> usize {
    AT_SOCKETS + record * SOCKET_WORDS
}
