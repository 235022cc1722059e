use super::*;
use crate::reflect::wanted_tag;
use crate::tests::{Act, Script, numbered, tagged};

/// Plays a script behind so many messages of the size before.
struct ScriptInbox<'a> {
    script: Script<'a>,
    stale: u32,
}

impl Inbox for ScriptInbox<'_> {
    fn wait(&mut self, buffer: &mut [u8]) -> Result<Arrival, PathError> {
        let message = |bytes| Message { bytes, stack_ns: 77, repaired: REPAIRED, ..Message::default() };
        Ok(self.script.next(buffer)?.map_or(Arrival::Interrupted, |bytes| Arrival::Message(message(bytes))))
    }

    fn look(&mut self, _buffer: &mut [u8]) -> Result<Arrival, PathError> {
        if self.stale == 0 {
            return Ok(Arrival::Nothing);
        }
        self.stale -= 1;
        if self.stale.is_multiple_of(3) { Err(PathError::Refused) } else { Ok(Arrival::Message(Message::default())) }
    }
}

/// What repairs cost each message of the script.
const REPAIRED: model::Repaired = model::Repaired { repair_ns: 5_000, held_ns: 70 };

#[derive(Default)]
struct Sent(Vec<Vec<u8>>);

impl Outbox for Sent {
    fn send(&mut self, _to: u16, message: &[u8]) -> Result<(), PathError> {
        self.0.push(message.to_vec());
        Ok(())
    }
}

fn shape(size: usize, every: u64, wall: bool) -> LoopShape {
    LoopShape { size, every, wall, counts_losses: true, tag: None, repairs: false }
}

fn play(shape: LoopShape, pps: u32, acts: Vec<Act>) -> (SizeOutcome, Vec<Vec<u8>>) {
    let halt = Halt::default();
    halt.enter();
    let mut inbox = ScriptInbox { script: Script { acts: acts.into(), halt: &halt }, stale: 4 };
    let mut outbox = Sent::default();
    let clock = Clock::raw();
    let mut told = 0;
    let plan = AnswerLoop {
        stamp_feedback: TxStampFeedback::new(None),
        shape,
        clock,
        budget: RateBudget::new(clock.rate(), pps),
        buffer: &mut [0; 64],
        around: Around {
            halt: &halt,
            observers: &mut flow::PassObservers::new(),
            size: 0,
            socket: None,
            cpu: None,
            started: || told += 1,
        },
    };
    let outcome = plan.visit(&mut outbox, &mut inbox);
    assert_eq!((told, inbox.stale), (1, 0), "what waited before is dropped");
    (outcome, outbox.0)
}

#[test]
fn only_the_asked_are_answered_and_answers_are_stamped() {
    let before = Clock::raw().now();
    let acts =
        (0..10).map(|number| numbered(number, 56)).chain([Act::Interrupt, Act::Fail(PathError::Refused)]).collect();
    let (outcome, sent) = play(shape(56, 4, true), u32::MAX, acts);
    assert_eq!(outcome.counts, MessageCounts { received: 10, sent: 3, ..MessageCounts::default() });
    assert_eq!(outcome.broken, None);
    assert_eq!(sent.iter().map(|answer| number(answer)).collect::<Vec<_>>(), [0, 4, 8]);
    for answer in &sent {
        let stamps = data::read_stamps(answer, true);
        assert!(before <= stamps.rx && stamps.rx <= stamps.tx, "{stamps:?}");
        assert!(stamps.stack_ns == 77 && 0 < stamps.received_ns && stamps.received_ns <= stamps.sent_ns, "{stamps:?}");
        assert_eq!(answer[8..16], 9_u64.to_le_bytes(), "the tag comes back");
    }
    let (_, sent) = play(shape(56, 1, false), u32::MAX, vec![numbered(3, 56)]);
    let stamps = data::read_stamps(&sent[0], true);
    assert!(stamps.rx > 0 && stamps.received_ns == 0, "nobody asked for the wall clock: {stamps:?}");
}

#[test]
fn on_a_group_only_what_carries_the_tag_is_answered_and_answers_say_what_repairs_cost() {
    let stranger = |number| tagged(number, 8, 64);
    let group = |tag, repairs| LoopShape { tag, repairs, ..shape(64, 1, false) };
    let (outcome, sent) =
        play(group(wanted_tag(64, 9), true), u32::MAX, vec![stranger(1), numbered(2, 64), stranger(3)]);
    assert_eq!(outcome.counts, MessageCounts { received: 1, sent: 1, ignored: 2, over_rate: 0 });
    assert_eq!((number(&sent[0]), data::read_repaired(&sent[0])), (2, REPAIRED));
    // Elsewhere these bytes are payload.
    let (outcome, sent) = play(group(None, false), u32::MAX, vec![stranger(1)]);
    assert_eq!((outcome.counts.sent, data::read_repaired(&sent[0])), (1, model::Repaired::default()));
}

#[test]
fn another_size_is_ignored_and_never_answered() {
    let acts = vec![numbered(0, 9), numbered(0, 7), numbered(0, 0), numbered(0, 8)];
    let (outcome, sent) = play(shape(8, 1, false), u32::MAX, acts);
    assert_eq!(outcome.counts, MessageCounts { received: 1, sent: 1, ignored: 3, over_rate: 0 });
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].len(), 8);
}

#[test]
fn a_broken_path_ends_the_loop_with_the_reason() {
    let acts = vec![numbered(0, 16), Act::Fail(PathError::Closed)];
    let (outcome, sent) = play(shape(16, 1, false), u32::MAX, acts);
    assert_eq!((outcome.broken, sent.len()), (Some(PathError::Closed), 1));
}

#[test]
fn a_budget_holds_the_mean_and_lets_a_second_s_worth_come_at_once() {
    // Ticks are ns here.
    let clock = Clock::raw();
    let second = clock.ticks(1_000_000_000);
    let mut budget = RateBudget::new(clock.rate(), 1000);
    let allowed = |budget: &mut RateBudget, at: u64, count: u32| (0..count).filter(|_| budget.allows(at)).count();
    let start = 100 * second;
    assert_eq!(allowed(&mut budget, start, 5000), 1001);
    assert_eq!(allowed(&mut budget, start + second / 2, 5000), 500);
    assert_eq!(allowed(&mut budget, start + 50 * second, 5000), 1001, "no more than a second is saved up");
    let mut steady = RateBudget::new(clock.rate(), 3);
    let taken = (0..300_u64).filter(|at| steady.allows(start + at * second / 3)).count();
    assert_eq!(taken, 300, "a third of a second is no whole number of ticks, and none is refused for it");
    let mut open = RateBudget::new(clock.rate(), u32::MAX);
    assert_eq!(allowed(&mut open, start, 100_000), 100_000);
}

#[test]
fn messages_above_the_owner_s_limit_are_counted() {
    let acts = (0..200).map(|number| numbered(number, 16)).collect();
    let (outcome, sent) = play(shape(16, 1, false), 100, acts);
    assert_eq!((outcome.counts.received, outcome.counts.over_rate + outcome.counts.sent), (200, 200));
    assert!((100..120).contains(&sent.len()), "{}", sent.len());
}

/// Brings so many messages from nothing, then halts.
struct Endless<'a> {
    left: u64,
    halt: &'a Halt,
}

impl Inbox for Endless<'_> {
    fn wait(&mut self, buffer: &mut [u8]) -> Result<Arrival, PathError> {
        if self.left == 0 {
            self.halt.end();
            return Ok(Arrival::Stopped);
        }
        self.left -= 1;
        data::write(self.left, 9, buffer);
        Ok(Arrival::Message(Message { bytes: buffer.len(), ..Message::default() }))
    }

    fn look(&mut self, _buffer: &mut [u8]) -> Result<Arrival, PathError> {
        Ok(Arrival::Nothing)
    }
}

struct Nowhere(u64);

impl Outbox for Nowhere {
    fn send(&mut self, _to: u16, _message: &[u8]) -> Result<(), PathError> {
        self.0 += 1;
        Ok(())
    }
}

#[test]
fn the_loop_allocates_nothing() {
    let halt = Halt::default();
    let clock = Clock::raw();
    let (mut counts, mut buffer, mut outbox) = (MessageCounts::default(), [0; 64], Nowhere(0));
    let mut inbox = Endless { left: 100_000, halt: &halt };
    let mut budget = RateBudget::new(clock.rate(), u32::MAX);
    let mut looks = 0;
    let counted = allocation_counter::measure(|| {
        let end = answer(
            &mut outbox,
            &mut inbox,
            shape(64, 2, true),
            clock,
            &mut buffer,
            &mut budget,
            &mut TxStampFeedback::new(None),
            &halt,
            &mut counts,
            || looks += 1,
        );
        assert_eq!(end, Ok(()));
    });
    assert_eq!(counted.count_total, 0);
    assert_eq!((counts.received, counts.sent, outbox.0), (100_000, 50_000, 50_000));
    assert!(looks > 90);
    // The counter counts, or the figure above says nothing.
    assert!(allocation_counter::measure(|| drop(std::hint::black_box(vec![1; 10]))).count_total > 0);
}
