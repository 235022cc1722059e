use super::*;
use crate::table::{CANDIDATE, LISTENS, SOCKET, STREAM};
use random::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};

const ASKED: [i16; 5] = [0, IN, OUT, IN | OUT, IN | PRI];
const READY: [i16; 7] = [0, IN, OUT, HUP, ERR, IN | HUP, OUT | ERR];

/// A call that asks the stack and the kernel, once; what it returns for each descriptor.
fn revents(table: &Table<16>, fds: &[(i32, i16)], is_select: bool, stack: &[i16], kernel: &[i16]) -> Vec<i16> {
    let watched: Vec<Watched> = fds.iter().map(|one| Watched::new(table, *one, is_select)).collect();
    let mut asking = Asking::new(&watched, false, || 0);
    let of_stack: Vec<i16> =
        watched.iter().map(|one| if one.id == 0 { 0 } else { stack[one.id as usize] & one.ends }).collect();
    let asks = asking.asks_kernel(of_stack.iter().any(|ready| *ready != 0), true);
    let answer = |(one, ready): (&Watched, i16)| match usize::try_from(one.kernel_fd) {
        // The kernel reports errors and the end unasked.
        Ok(fd) if asks => ready | kernel[fd] & (one.kernel_events | ERR | HUP | NVAL) & one.ends,
        _ => ready,
    };
    watched.iter().zip(of_stack).map(answer).collect()
}

/// Catches: an event that was not asked for, one that is missed, and one of a kernel's half that is none of the socket.
#[test]
fn random_calls_find_what_poll_and_select_would() {
    for seed in 0..300 {
        let mut random = SplitMix64::new(seed);
        let table = Table::<16>::new();
        // 0 to 3 are the kernel's, 4 and 5 connections on the stack, 6 and 7 datagram sockets, 8 and 9 listeners.
        for fd in 0..10 {
            let _ = table.open(
                fd,
                SOCKET
                    | if fd < 4 {
                        0
                    } else {
                        [STREAM, CANDIDATE, STREAM | LISTENS][fd.unsigned_abs() as usize / 2 - 2]
                    },
            );
            if fd >= 4 {
                table.put_on_stack(table.entry(fd).unwrap(), fd.unsigned_abs());
            }
        }
        for _ in 0..100 {
            let mut one_of = |of: &[i16]| of[usize::try_from(random.below(of.len() as u64)).unwrap()];
            let stack: Vec<i16> = (0..10).map(|_| one_of(&READY)).collect();
            let kernel: Vec<i16> = (0..10).map(|fd| if fd < 4 { one_of(&READY) } else { one_of(&[0, IN]) }).collect();
            let fds: Vec<(i32, i16)> = (0..10).map(|fd| (fd, one_of(&ASKED))).collect();
            let is_select = random.below(2) == 0;
            let found = revents(&table, &fds, is_select, &stack, &kernel);
            for ((fd, events), found) in fds.into_iter().zip(found) {
                let at = usize::try_from(fd).unwrap();
                let ready = match fd {
                    0..4 => kernel[at],
                    4..6 => stack[at],
                    // The kernel's half brings what comes elsewhere; that it can be written to means nothing.
                    _ => stack[at] | kernel[at] & events & IN,
                };
                let unasked = match is_select {
                    false => HUP | ERR,
                    true => [(IN, HUP), (IN | OUT, ERR)]
                        .iter()
                        .filter(|(one, _)| events & one != 0)
                        .fold(0, |all, one| all | one.1),
                };
                assert_eq!(found, ready & (events | unasked), "seed {seed}: {fd}, {events:x} of {ready:x}");
            }
        }
    }
}

#[test]
fn a_busy_call_of_the_stack_asks_the_kernel_seldom_and_one_that_waits_asks_it() {
    let table = Table::<16>::new();
    for (fd, flags) in [(3, STREAM), (4, 0), (5, 0)] {
        let _ = table.open(fd, SOCKET | flags);
    }
    for fd in [3, 4] {
        table.put_on_stack(table.entry(fd).unwrap(), fd.unsigned_abs());
    }
    let of = |fds: &[i32]| -> Vec<Watched> { fds.iter().map(|fd| Watched::new(&table, (*fd, IN), false)).collect() };
    let asked = |fds: &[i32], is_ready, asks| {
        let mut asking = Asking::new(&of(fds), false, || 7);
        (0..330).filter(|_| asking.asks_kernel(is_ready, asks)).count()
    };
    assert_eq!(asked(&[3], false, true), 0, "of a connection the kernel knows nothing");
    assert_eq!((asked(&[4], false, false), asked(&[4], true, true), asked(&[4], false, true)), (10, 0, 330));
    assert_eq!((asked(&[4, 5], true, false), asked(&[4, -1], true, false)), (10, 0));
    assert!(Asking::new(&of(&[4, 5]), false, || 7).asks_kernel(true, false), "the first, where the kernel has some");
    assert!(Asking::new(&of(&[3]), true, || 0).asks_kernel(false, false), "its mask lets signals in");
}

#[test]
fn a_socket_that_comes_to_the_stack_or_leaves_it_is_seen() {
    let table = Table::<16>::new();
    let _ = table.open(3, SOCKET | CANDIDATE);
    let before = Watched::new(&table, (3, IN), false);
    assert!(!before.has_turned(&table, 3));
    table.put_on_stack(table.entry(3).unwrap(), 9);
    let on_stack = Watched::new(&table, (3, IN | OUT), false);
    assert!(before.has_turned(&table, 3) && !on_stack.has_turned(&table, 3));
    assert_eq!((on_stack.kernel_fd, on_stack.kernel_events), (3, IN));
    let _ = table.open(3, SOCKET);
    assert!(!on_stack.has_turned(&table, 3), "another file has the number");
}

#[test]
fn random_sets_of_select_are_as_counted_one_by_one() {
    for seed in 0..200 {
        let mut random = SplitMix64::new(seed);
        let mut sets: [Bits; 3] = [[0; MOST_SELECTED / 64]; 3];
        let mut model: BTreeMap<i32, i16> = BTreeMap::new();
        for _ in 0..random.below(60) {
            let (fd, set) = (usize::try_from(random.below(1024)).unwrap(), usize::try_from(random.below(3)).unwrap());
            sets[set][fd / 64] |= 1 << (fd % 64);
            *model.entry(i32::try_from(fd).unwrap()).or_default() |= [IN, OUT, PRI][set];
        }
        assert!(selected(&sets).eq(model.clone()));
        let mut answers: Vec<(i32, i16, i16)> = Vec::new();
        let mut expected = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
        for (fd, events) in &model {
            let ready = READY[usize::try_from(random.below(7)).unwrap()];
            answers.push((*fd, *events, ready));
            for (at, (asked, means)) in [(IN, IN | HUP | ERR), (OUT, OUT | ERR), (PRI, PRI)].into_iter().enumerate() {
                if events & asked != 0 && ready & means != 0 {
                    expected[at].insert(*fd);
                }
            }
        }
        let (found, count) = to_sets(answers.iter().copied()).unwrap();
        let has = |bits: &Bits, fd: i32| bits[fd.unsigned_abs() as usize / 64] >> (fd % 64) & 1 != 0;
        for (bits, expected) in found.iter().zip(&expected) {
            assert!((0..1024).all(|fd| has(bits, fd) == expected.contains(&fd)), "seed {seed}");
        }
        assert_eq!(usize::try_from(count).unwrap(), expected.iter().map(BTreeSet::len).sum());
        answers.push((7, IN, NVAL));
        assert_eq!(to_sets(answers.into_iter()), None);
    }
}
