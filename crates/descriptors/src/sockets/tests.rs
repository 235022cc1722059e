use super::*;
use crate::table::{CANDIDATE, LISTENS, SOCKET, STREAM, USED};
use random::SplitMix64;
use std::collections::BTreeMap;

/// Catches: a number that two sockets have one after the other, so that a late call hits the wrong one.
#[test]
fn numbers_are_as_in_a_map_and_are_not_given_again() {
    for seed in 0..50 {
        let mut random = SplitMix64::new(seed);
        let (mut sockets, mut model, mut ended) = (Sockets::new(), BTreeMap::new(), Vec::new());
        for step in 0_u32..2000 {
            if random.below(2) == 0 {
                let id = sockets.insert(step, step).unwrap();
                assert!(
                    id != 0 && model.insert(id, step).is_none() && !ended.contains(&id),
                    "seed {seed}, step {step}"
                );
            } else if let Some(id) = model.keys().nth(usize::try_from(random.below(20)).unwrap()).copied() {
                let handle = model.remove(&id).unwrap();
                assert_eq!((sockets.remove(id), sockets.remove(id)), (Some(handle), None));
                assert_eq!(sockets.id(&handle), None);
                ended.push(id);
            }
            assert!(ended.iter().all(|id| sockets.get(*id).is_none()));
            assert!(model.iter().all(|(id, handle)| sockets.id(handle) == Some(*id)));
            assert!(model.iter().all(|(id, handle)| sockets.get(*id) == Some(&mut handle.clone())));
            assert_eq!(sockets.all().count(), model.len());
        }
        let mut ids = sockets.ids(|handle| handle % 2 == 0);
        ids.sort_unstable();
        assert_eq!(ids, model.iter().filter(|(_, handle)| *handle % 2 == 0).map(|(id, _)| *id).collect::<Vec<_>>());
        sockets.clear();
        assert!(sockets.is_empty() && ids.iter().all(|id| sockets.get(*id).is_none()));
    }
}

#[test]
fn more_sockets_than_numbers_are_refused() {
    let mut sockets = Sockets::new();
    assert!((1..=u32::from(u16::MAX)).all(|one| sockets.insert(one, ()).is_some()));
    assert_eq!(sockets.insert(0, ()), None);
    let id = sockets.ids(|one| one == 77)[0];
    sockets.remove(id);
    assert!(sockets.insert(0, ()).is_some_and(|new| new != id && new & 0xffff == id & 0xffff));
}

#[test]
fn what_another_process_gets_leaves_the_stack() {
    let table = Table::<16>::new();
    for (fd, flags) in [(3, STREAM), (4, STREAM | LISTENS), (5, STREAM | LISTENS | USED), (6, CANDIDATE)] {
        let _ = table.open(fd, SOCKET | flags);
        table.put_on_stack(table.entry(fd).unwrap(), fd.unsigned_abs());
    }
    use Kind::{Connection, Datagrams, Listener};
    use Leaving::{GiveBack, HandOver};
    use Transfer::{Exec, Fork, One, Spawn};
    for (fd, kind, by) in [
        (3_i32, Connection, [Some(HandOver), Some(HandOver), Some(HandOver), Some(HandOver)]),
        (4, Listener, [Some(GiveBack), None, Some(GiveBack), Some(GiveBack)]),
        (5, Listener, [None, None, Some(GiveBack), None]),
        (6, Datagrams, [None, None, Some(GiveBack), None]),
    ] {
        let of = |transfer| table.leaving(fd.unsigned_abs(), kind, transfer, |one: i32| one == fd);
        assert_eq!([Fork, Spawn, Exec, One].map(of), by, "{kind:?}");
        assert_eq!(table.leaving(fd.unsigned_abs(), kind, One, |one| one != fd), None);
    }
}
