use super::*;
use crate::table::{OWN, SOCKET, Table};
use random::SplitMix64;
use std::collections::BTreeMap;

/// Where a thread that spins on descriptor 3 is.
#[derive(Clone, Copy)]
enum Spin {
    Away,
    Spins(Visit<'static>, u32),
    /// It goes on with this descriptor, which is to be the same open file.
    Inherited(i32, u32),
}

/// Where the thread that closes descriptor 3, and opens another file there, is.
#[derive(Clone, Copy)]
enum Close {
    Begins,
    Waits(i32),
    Ended,
}

/// Descriptors with their open files, as Linux has them.
struct Linux {
    fds: BTreeMap<i32, u32>,
    files: u32,
}

fn spin(table: &'static Table<16>, linux: &mut Linux, thread: Spin, random: &mut SplitMix64) -> Spin {
    let entry = table.entry(3).unwrap();
    match thread {
        Spin::Away => {
            let visit = Visit::begin(&entry.visitors);
            // The number may become another file's between the call's first attempt and this.
            if visit.is_valid() { Spin::Spins(visit, linux.fds[&3]) } else { Spin::Spins(visit, u32::MAX) }
        }
        // One attempt.
        Spin::Spins(visit, file) if visit.is_valid() => {
            assert_eq!(linux.fds.get(&3), Some(&file), "an attempt hits another file");
            if random.below(4) > 0 {
                return thread;
            }
            visit.leave();
            Spin::Away
        }
        Spin::Spins(visit, file) => {
            let heir = table.inherit(&visit);
            visit.leave();
            heir.map_or(Spin::Away, |heir| Spin::Inherited(heir, file))
        }
        Spin::Inherited(heir, file) => {
            let has = linux.fds.get(&heir).copied();
            assert!(has.is_some() && (has == Some(file) || file == u32::MAX), "the heir is another file, or closed");
            if random.below(4) > 0 {
                return thread;
            }
            release(table, linux, heir);
            Spin::Away
        }
    }
}

fn release(table: &Table<16>, linux: &mut Linux, heir: i32) {
    if table.entry(heir).unwrap().visitors.release() {
        let _ = table.open(heir, 0);
        assert!(linux.fds.remove(&heir).is_some(), "closed twice");
    }
}

fn close(table: &'static Table<16>, linux: &mut Linux, closing: Close) -> Close {
    let entry = table.entry(3).unwrap();
    match closing {
        Close::Begins if !entry.visitors.is_visited() => Close::Ended,
        Close::Begins => {
            let heir = (4..).find(|fd| !linux.fds.contains_key(fd)).unwrap();
            let file = linux.fds[&3];
            linux.fds.insert(heir, file);
            let _ = table.open(heir, OWN);
            entry.visitors.begin_closing(table.entry(heir).map(|of_heir| (heir, &of_heir.visitors)));
            Close::Waits(heir)
        }
        Close::Waits(_) if entry.visitors.is_visited() => closing,
        Close::Waits(heir) => {
            entry.visitors.end_closing();
            release(table, linux, heir);
            Close::Ended
        }
        Close::Ended => {
            linux.files += 1;
            linux.fds.insert(3, linux.files);
            let _ = table.open(3, SOCKET);
            Close::Begins
        }
    }
}

/// Catches: an attempt on a number that is another file's by now, a heir that is closed while a call has it, or never, and a close that waits
/// for ever.
#[test]
fn random_spins_and_closes_hit_the_file_that_they_began_with() {
    for seed in 0..300 {
        let table: &'static Table<16> = Box::leak(Box::new(Table::new()));
        let mut random = SplitMix64::new(seed);
        let mut linux = Linux { fds: BTreeMap::from([(3, 0)]), files: 0 };
        let _ = table.open(3, SOCKET);
        let (mut threads, mut closing, mut waited, mut closes) = ([Spin::Away; 3], Close::Begins, 0, 0);
        for _ in 0..400 {
            let at = usize::try_from(random.below(5)).unwrap();
            if let Some(thread) = threads.get_mut(at) {
                // A close that has seen no visitor is one step with what follows.
                *thread = spin(table, &mut linux, *thread, &mut random);
                continue;
            }
            closing = close(table, &mut linux, closing);
            if matches!(closing, Close::Ended) {
                closing = close(table, &mut linux, closing);
                closes += 1;
            }
            waited = if matches!(closing, Close::Waits(_)) { waited + 1 } else { 0 };
            assert!(waited < 200, "seed {seed}: the close waits for ever");
        }
        assert!(closes > 5, "seed {seed}: {closes} closes");
        // All come to an end: nothing is left but the number itself.
        for _ in 0..100 {
            if matches!(closing, Close::Waits(_)) {
                closing = close(table, &mut linux, closing);
            }
            for thread in &mut threads {
                match *thread {
                    Spin::Away => {}
                    Spin::Spins(visit, _) if visit.is_valid() => {
                        visit.leave();
                        *thread = Spin::Away;
                    }
                    _ => *thread = spin(table, &mut linux, *thread, &mut random),
                }
            }
        }
        assert_eq!(linux.fds.keys().copied().collect::<Vec<_>>(), [3], "seed {seed}");
        assert!(!table.entry(3).unwrap().visitors.is_visited(), "seed {seed}");
    }
}

#[test]
fn what_a_longjmp_left_of_a_visit_does_not_count_in_the_next_generation() {
    let table = Box::leak(Box::new(Table::<16>::new()));
    let entry = table.entry(3).unwrap();
    let left = Visit::begin(&entry.visitors);
    assert!(
        entry.visitors.is_visited() && left.is_of(&entry.visitors) && !left.is_of(&table.entry(4).unwrap().visitors)
    );
    entry.visitors.begin_closing(None);
    assert!(!left.is_valid() && table.inherit(&left).is_none());
    // The close loses patience.
    entry.visitors.end_closing();
    let next = Visit::begin(&entry.visitors);
    left.leave();
    assert!(entry.visitors.is_visited() && next.is_valid() && !left.is_valid());
    next.leave();
    assert!(!entry.visitors.is_visited());
}
