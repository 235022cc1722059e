//! The stamps of calls that carry messages, made by the threads that call: a BPF program would have to run at each system call.

use crate::recorder::{
    CPUS_AT, DONE_AT, FAR_AT, MESSAGE_BYTES, MESSAGES, OVER_AT, RAISED_AT, RECEIVED_AT, SENT_SEQ_AT, STAMPS_AT, TAG_AT,
    THREADS_AT, place,
};
use bpf::Mapping;
use explain::{Stage, Stamp};
use nix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::sync::Arc;

// The layout of a thread in recorder.bpf.c, in bytes.
pub(crate) const THREADS: usize = 256;
pub(crate) const THREAD_BYTES: usize = 72;
const TRIES: u64 = 4;
const RUNNING_AT: usize = 8;
const PLACE_AT: usize = 16;
/// The last wake-up that a call returned from: its times, and the CPUs.
const LAST_AT: usize = 32;
/// When that softirq was raised that woke it.
const WOKEN_BY_AT: usize = 64;

/// A thread that is woken by a message takes it within this time, where nothing keeps it from its CPU.
const FINDS_WITHIN_NS: u64 = 50_000;

thread_local! {
    /// The id of this thread, which costs a system call.
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// The memory that the programs share with the threads that call.
pub struct Calls {
    /// Whether a stack in the process carries them, so that no program sees them.
    pub(crate) are_past_kernel: bool,
    pub(crate) messages: Arc<Mapping>,
    pub(crate) state: Arc<Mapping>,
    pub(crate) threads: Arc<Mapping>,
}

/// What a message begins with.
struct Head {
    seq: u64,
    tag: u64,
}

impl Head {
    fn of(message: &[u8]) -> Self {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(message.iter().skip(at)).for_each(|(to, from)| *to = *from);
            u64::from_le_bytes(bytes)
        };
        Self { seq: word(0), tag: word(8) }
    }
}

impl Calls {
    /// A message is about to be sent by this thread.
    pub fn sends(&self, message: &[u8]) {
        let head = Head::of(message);
        if !self.knows(head.tag) {
            // The rest of a message that was sent in part.
            return;
        }
        if let Some(thread) = self.thread() {
            // A wake-up from a pause before the send is none by a message.
            self.clear(thread);
        }
        self.state.write(SENT_SEQ_AT, head.seq);
        let is_first = self.state.read(FAR_AT) == 0;
        self.stamp(head.seq, Stage::Send, is_first, now());
        self.has_thread(head.seq, 0);
    }

    /// This thread has sent a message. Where the kernel does not see it, that is when it is under way.
    pub fn sent(&self, message: &[u8]) {
        let head = Head::of(message);
        // Where another thread receives, it may have the answer already.
        if !self.are_past_kernel
            || !self.knows(head.tag)
            || self.at(head.seq, Stage::Returned) > self.at(head.seq, Stage::Send)
        {
            return;
        }
        let sent = now();
        [Stage::Queued, Stage::Sent].into_iter().for_each(|stage| self.stamp(head.seq, stage, false, sent));
        if self.state.read(FAR_AT) != 0 {
            self.state.write(RAISED_AT, sent.at_ns);
            self.is_over(head.seq);
        }
    }

    /// A call of this thread has returned a message.
    pub fn received(&self, message: &[u8]) {
        let returned = now();
        let head = Head::of(message);
        if !self.knows(head.tag) {
            return;
        }
        let is_far = self.state.read(FAR_AT) != 0;
        if is_far && !self.are_past_kernel {
            self.takes_frame(head.seq);
        }
        let thread = self.thread();
        let mut wake_up = thread.and_then(|thread| self.wake_up(thread, head.seq));
        if self.are_past_kernel {
            wake_up = wake_up.filter(|(_, running)| returned.at_ns.saturating_sub(running.at_ns) < FINDS_WITHIN_NS);
            // What woke the thread is received then, another message when the call has it, after what was sent last.
            let came = wake_up.map_or(returned, |(woken, _)| woken);
            let since_ns = match wake_up {
                Some(_) => thread.map_or(0, |thread| self.threads.read(thread + WOKEN_BY_AT)),
                None if is_far => self.state.read(RAISED_AT),
                None => self.at(head.seq, Stage::Sent),
            };
            self.stamp(head.seq, Stage::Received, is_far, came);
            self.stamp(head.seq, Stage::Raised, false, Stamp { at_ns: since_ns, ..came });
        }
        if let Some((woken, running)) = wake_up {
            self.stamp(head.seq, Stage::Waking, is_far, woken);
            self.stamp(head.seq, Stage::Running, is_far, running);
        }
        self.stamp(head.seq, Stage::Returned, is_far, returned);
        self.has_thread(head.seq, 32);
        if !is_far {
            self.is_over(head.seq);
        }
    }

    /// The frame of a stream that came last is that of this message.
    fn takes_frame(&self, seq: u64) {
        let came_ns = self.state.read(RECEIVED_AT);
        if came_ns != 0 {
            let [cpu, _] = halves(self.state.read(RECEIVED_AT + 8));
            self.stamp(seq, Stage::Received, true, Stamp { at_ns: came_ns, cpu });
            self.stamp(seq, Stage::Raised, false, Stamp { at_ns: self.state.read(RAISED_AT), cpu });
            self.state.write(RECEIVED_AT, 0);
        }
    }

    fn is_over(&self, seq: u64) {
        let over = self.state.read(OVER_AT);
        self.state.write(DONE_AT + 8 * place(over, MESSAGES), seq);
        self.state.write(OVER_AT, over + 1);
    }

    /// Whether a tag is that of the messages: the first one is.
    fn knows(&self, tag: u64) -> bool {
        let known = self.state.read(TAG_AT);
        if known == 0 {
            self.state.write(TAG_AT, tag);
        }
        known == 0 || known == tag
    }

    /// The place of this thread, whose wake-ups are stamped from here on; none where others have all those that it may have.
    fn thread(&self) -> Option<usize> {
        let id = THREAD.get();
        let id = if id == 0 { nix::unistd::gettid().as_raw().cast_unsigned() } else { id };
        THREAD.set(id);
        (0..TRIES).map(|next| THREAD_BYTES * place(u64::from(id) + next, THREADS)).find(|at| {
            let found = self.threads.read(at + PLACE_AT) >> 32;
            found == u64::from(id) || found == 0 && self.threads.claim(at + PLACE_AT, u64::from(id) << 32)
        })
    }

    fn clear(&self, thread: usize) {
        self.threads.write(thread, 0);
        self.threads.write(thread + RUNNING_AT, 0);
    }

    /// When this thread was woken and ran for a message.
    fn wake_up(&self, thread: usize, seq: u64) -> Option<(Stamp, Stamp)> {
        let read = |at| self.threads.read(thread + at);
        let (woken_ns, running_ns, cpus) = (read(0), read(RUNNING_AT), read(PLACE_AT));
        self.clear(thread);
        let is_own = running_ns != 0;
        let came_ns = self.at(seq, Stage::Received);
        let (woken_ns, running_ns, cpus) = if is_own {
            for (at, word) in [woken_ns, running_ns, cpus].into_iter().enumerate() {
                self.threads.write(thread + LAST_AT + 8 * at, word);
            }
            (woken_ns, running_ns, cpus)
        } else {
            // It may have come while the thread was about to run for a message before it.
            (read(LAST_AT), read(LAST_AT + 8), read(LAST_AT + 16))
        };
        let [woken, running] = halves(cpus);
        let stamps = (Stamp { at_ns: woken_ns.max(came_ns), cpu: woken }, Stamp { at_ns: running_ns, cpu: running });
        // One that was over before it came is by something else.
        (came_ns < running_ns && (is_own || came_ns != 0)).then_some(stamps)
    }

    /// When a message passed a stage; 0: it did not.
    fn at(&self, seq: u64, stage: Stage) -> u64 {
        let message = place(seq, MESSAGES) * MESSAGE_BYTES;
        let is_there = self.messages.read(message) == seq.wrapping_add(1);
        if is_there { self.messages.read(message + STAMPS_AT + 8 * stage as usize) } else { 0 }
    }

    /// The first stage that is seen of a message makes its place new.
    fn stamp(&self, seq: u64, stage: Stage, is_first: bool, stamp: Stamp) {
        let message = place(seq, MESSAGES) * MESSAGE_BYTES;
        if self.messages.read(message) != seq.wrapping_add(1) {
            if !is_first {
                return;
            }
            (8..MESSAGE_BYTES).step_by(8).for_each(|at| self.messages.write(message + at, 0));
            self.messages.write(message, seq.wrapping_add(1));
        }
        let stage = stage as usize;
        self.messages.write(message + STAMPS_AT + 8 * stage, stamp.at_ns);
        self.set(message + CPUS_AT + 8 * (stage / 4), 16 * (stage % 4), 0xffff, u64::from(stamp.cpu));
    }

    /// Keeps which thread sends (shift 0) or receives (32) a message.
    fn has_thread(&self, seq: u64, shift: usize) {
        let message = place(seq, MESSAGES) * MESSAGE_BYTES;
        if self.messages.read(message) == seq.wrapping_add(1) {
            self.set(message + THREADS_AT, shift, u64::from(u32::MAX), u64::from(THREAD.get()));
        }
    }

    /// A part of a word. The stages in a word are passed one after the other.
    fn set(&self, at: usize, shift: usize, mask: u64, value: u64) {
        let word = self.messages.read(at);
        self.messages.write(at, word & !(mask << shift) | value << shift);
    }
}

/// The first two u16 of a word.
fn halves(word: u64) -> [u16; 2] {
    let [a, b, c, d, ..] = word.to_ne_bytes();
    [u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d])]
}

fn now() -> Stamp {
    let cpu = nix::sched::sched_getcpu().unwrap_or(0);
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| now.tv_sec() * 1_000_000_000 + now.tv_nsec());
    Stamp { at_ns: now.cast_unsigned(), cpu: u16::try_from(cpu).unwrap_or(0) }
}
