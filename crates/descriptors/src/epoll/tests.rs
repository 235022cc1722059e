//! Instances against a model of epoll(7), in random interleavings of calls and of what happens to sockets.

use super::*;
use random::SplitMix64;
use std::collections::BTreeMap;

const IN: u32 = bits::IN;
const OUT: u32 = bits::OUT;

/// What a wait reports, as the pairs of data and events.
fn wait(sets: &mut Sets, number: u32, most: usize, ready: &dyn Fn(u32) -> u32) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    sets.collect(number, most, &mut |id| ready(id), &mut |event| found.push((event.data, event.events)));
    found
}

fn on_stack(id: u32, events: u32, data: u64) -> Member {
    Member { id, events, data, ..Member::default() }
}

#[test]
fn levels_repeat_events_do_not_and_one_shot_is_silent_until_it_is_armed_again() {
    let mut sets = Sets::default();
    for (fd, id, flags) in [(10, 1, 0), (11, 2, bits::ET), (12, 3, bits::ONESHOT)] {
        assert!(sets.insert((100, 50), fd, on_stack(id, IN | flags, u64::from(id))));
    }
    let all = |_: u32| IN | OUT;
    assert_eq!(wait(&mut sets, 100, 8, &all), [(1, IN), (2, IN), (3, IN)]);
    assert_eq!(wait(&mut sets, 100, 8, &all), [(1, IN)]);
    (1..=3).for_each(|id| sets.happened(id));
    assert_eq!(wait(&mut sets, 100, 8, &all), [(1, IN), (2, IN)], "the order is that of the list");
    sets.insert((100, 50), 12, on_stack(3, IN | bits::ONESHOT, 9));
    assert_eq!(wait(&mut sets, 100, 8, &all), [(1, IN), (9, IN)]);
}

#[test]
fn errors_are_reported_unasked() {
    let mut sets = Sets::default();
    sets.insert((100, 50), 10, on_stack(1, 0, 7));
    assert_eq!(wait(&mut sets, 100, 8, &|_| IN | bits::ERR | bits::HUP), [(7, bits::ERR | bits::HUP)]);
}

#[test]
fn changes_are_refused_as_epoll_ctl_does() {
    let member = on_stack(1, IN, 7);
    let exclusive = Member { events: IN | bits::EXCLUSIVE, ..member };
    for (what, known, events, expected) in [
        (Some(What::Add), None, Some(IN | bits::EXCLUSIVE | bits::ET), None),
        (Some(What::Add), None, Some(IN | bits::EXCLUSIVE | bits::ONESHOT), Some(Refusal::Invalid)),
        (Some(What::Add), None, None, Some(Refusal::Fault)),
        (Some(What::Add), Some(&member), Some(IN), Some(Refusal::Exists)),
        (Some(What::Modify), None, Some(IN), Some(Refusal::Missing)),
        (Some(What::Modify), Some(&member), Some(OUT), None),
        (Some(What::Modify), Some(&member), Some(IN | bits::EXCLUSIVE), Some(Refusal::Invalid)),
        (Some(What::Modify), Some(&exclusive), Some(IN), Some(Refusal::Invalid)),
        (Some(What::Delete), Some(&exclusive), None, None),
        (Some(What::Delete), None, None, Some(Refusal::Missing)),
        (None, Some(&member), Some(IN), Some(Refusal::Invalid)),
    ] {
        assert_eq!(refusal(what, known, events), expected, "{what:?} {known:?} {events:?}");
    }
}

/// Two members of the kernel with EPOLLONESHOT and the same data: an event carries the data alone, so that without asking which
/// of them the kernel has silenced both would stay silent.
#[test]
fn of_two_one_shot_members_with_the_same_data_the_silent_one_is_asked_for() {
    let mut sets = Sets::default();
    let member = Member { events: IN | bits::ONESHOT, data: 7, in_kernel: true, ..Member::default() };
    sets.insert((100, 50), 10, member);
    sets.insert((100, 50), 11, member);
    sets.spend(100, &[Event { events: IN, data: 7 }], |set| {
        assert_eq!(set, 50);
        vec![11]
    });
    // Both come to the stack: the one that has not reported does, the other is silent.
    sets.to_stack(1, true, |fd| fd == 10);
    sets.to_stack(2, true, |fd| fd == 11);
    let asked = |id: u32| if id == 1 { IN } else { IN | OUT };
    assert_eq!(wait(&mut sets, 100, 8, &asked), [(7, IN)]);
    assert_eq!(wait(&mut sets, 100, 8, &asked), []);
    // What leaves the stack silent is silent in the kernel.
    while sets.poll_change().is_some() {}
    sets.to_kernel(2);
    let told = Change { set: 50, what: What::Add, fd: 11, events: bits::ONESHOT, data: 7 };
    assert_eq!((sets.poll_change(), sets.poll_change()), (Some(told), None));
}

#[test]
fn an_instance_in_an_instance_is_ready_while_one_of_its_members_is() {
    let mut sets = Sets::default();
    sets.insert((100, 50), 10, on_stack(1, IN, 1));
    sets.insert((101, 51), 50, Member { inner: 100, events: IN, data: 5, in_kernel: true, ..Member::default() });
    assert_eq!(wait(&mut sets, 101, 8, &|_| IN), [(5, IN)]);
    assert_eq!(wait(&mut sets, 101, 8, &|_| 0), []);
    sets.happened(1);
    assert_eq!(wait(&mut sets, 101, 8, &|_| IN), [(5, IN)]);
    // Its last descriptor is closed: no process has it any more.
    sets.close(50, Some((100, None)));
    assert_eq!(wait(&mut sets, 101, 8, &|_| IN), []);
    assert!(!sets.has(100) && sets.member(101, 50).is_none());
}

#[test]
fn the_kernel_is_asked_where_it_has_members_and_not_each_time() {
    let mut sets = Sets::default();
    sets.insert((100, 50), 10, on_stack(1, IN, 1));
    assert!(!sets.asks_kernel(100, 0, true, false, || 0), "it has none");
    sets.insert((100, 50), 11, Member { in_kernel: true, ..on_stack(2, IN, 2) });
    assert!(sets.asks_kernel(100, 0, true, false, || 0));
    let asked = (0..330).filter(|_| sets.asks_kernel(100, 1, false, false, || 0)).count();
    assert_eq!(asked, 10, "a busy program asks once in 33 waits");
    // A pipe beside a ready socket: every 5 us.
    sets.add_other(100, 50);
    let asked = (0..1000).filter(|ns| sets.asks_kernel(100, 1, false, false, || 1_000_000 + ns * 1000)).count();
    assert!((200..=240).contains(&asked), "{asked}");
}

#[test]
fn what_comes_to_the_stack_silent_or_exclusive_is_told_the_kernel_so() {
    let mut sets = Sets::default();
    let member = |events| Member { events, data: 7, in_kernel: true, ..Member::default() };
    sets.insert((100, 50), 10, member(IN | OUT | bits::ONESHOT));
    sets.spend(100, &[Event { events: OUT, data: 7 }], |_| Vec::new());
    sets.to_stack(1, false, |fd| fd == 10);
    let told = |what, events| Some(Change { set: 50, what, fd: 10, events, data: 7 });
    assert_eq!((sets.poll_change(), sets.poll_change()), (told(What::Modify, bits::ONESHOT), None));
    sets.insert((100, 50), 10, Member { id: 1, ..member(IN | OUT | bits::EXCLUSIVE) });
    sets.to_kernel(1);
    assert_eq!(
        (sets.poll_change(), sets.poll_change()),
        (told(What::Delete, 0).map(|one| Change { data: 0, ..one }), told(What::Add, IN | OUT | bits::EXCLUSIVE))
    );
    sets.to_stack(2, false, |fd| fd == 10);
    assert_eq!(
        (sets.poll_change(), sets.poll_change()),
        (told(What::Delete, 0), told(What::Add, IN | bits::EXCLUSIVE))
    );
}

#[test]
fn whose_an_instance_is_follows_its_members_through_forks_and_closes() {
    let mut sets = Sets::default();
    let kernels = Member { events: IN, in_kernel: true, ..Member::default() };
    assert!(!sets.insert((100, 50), 10, kernels), "nobody has to look again for a member of the kernel");
    sets.insert((100, 50), 11, on_stack(2, IN, 2));
    sets.insert((101, 51), 50, Member { inner: 100, ..kernels });
    assert!(!sets.is_kernels(100, 0) && !sets.is_kernels(101, 0) && sets.is_kernels(102, 0));
    assert_eq!((sets.not_on_stack(100, 0), sets.not_on_stack(101, 0)), (vec![(10, 0)], vec![(50, 100)]));
    // A copy of the inner instance's descriptor is left: its members stay.
    sets.close(50, Some((100, Some(52))));
    assert!(sets.has(100) && sets.member(101, 50).is_none() && sets.member(100, 11).is_some());
    sets.fork();
    assert_eq!((sets.member(100, 11), sets.is_kernels(100, 0)), (None, true));
    assert_eq!(wait(&mut sets, 100, 8, &|_| IN), []);
    // In the child the kernel's instance has another descriptor now.
    sets.to_stack(3, true, |fd| fd == 10);
    assert_eq!(sets.poll_change().map(|change| (change.set, change.what)), Some((52, What::Delete)));
}

/// A model of epoll(7): members in the order in which something happened to them.
#[derive(Default)]
struct Model {
    members: BTreeMap<i32, (Member, bool)>,
    list: Vec<i32>,
    /// Members on the stack, in the order in which they came.
    order: Vec<i32>,
}

impl Model {
    fn add(&mut self, fd: i32) {
        if !self.order.contains(&fd) {
            self.order.push(fd);
        }
    }

    fn list(&mut self, fd: i32) {
        if self.members.contains_key(&fd) && !self.list.contains(&fd) {
            self.list.push(fd);
        }
    }

    fn wait(&mut self, most: usize, ready: &dyn Fn(u32) -> u32) -> Vec<(u64, u32)> {
        let (mut found, mut again) = (Vec::new(), Vec::new());
        while found.len() < most && !self.list.is_empty() {
            let fd = self.list.remove(0);
            let (member, silent) = self.members.get_mut(&fd).unwrap();
            let events = if member.id == 0 || *silent { 0 } else { ready(member.id) };
            let events = events & (member.events | bits::ERR | bits::HUP) & 0xffff;
            if events == 0 {
                continue;
            }
            found.push((member.data, events));
            *silent = member.events & bits::ONESHOT != 0;
            again.extend((!*silent && member.events & bits::ET == 0).then_some(fd));
        }
        self.list.extend(again);
        found
    }
}

/// What the kernel's instance has of a member.
fn expected_of_kernel(id: u32, events: u32, data: u64, is_silent: bool) -> (u32, u64) {
    let events = match (is_silent, id) {
        (true, _) => bits::ONESHOT,
        (false, 0) => events,
        (false, _) => kernel_events(events),
    };
    (events, data)
}

/// The counters of an instance, and what they count.
fn counters(sets: &Sets) -> ([usize; 3], [usize; 3]) {
    let Some(set) = sets.sets.get(&100) else { return ([0; 3], [0; 3]) };
    let count = |is: fn(&Member) -> bool| set.watches.values().filter(|watch| is(&watch.member)).count();
    let counted = [
        count(|member| member.inner != 0),
        count(|member| member.in_kernel),
        count(|member| member.id == 0 && member.inner == 0),
    ];
    ([set.inner, set.in_kernel, set.waiting], counted)
}

/// Catches: an event that is lost or reported twice, a member that another one starves, a change that the kernel would refuse, a
/// member that the kernel has, lacks or watches against what is believed, and a counter that differs from the members.
#[test]
fn random_interleavings_are_as_the_model() {
    for seed in 0..300 {
        let mut random = SplitMix64::new(seed);
        let mut below = |most: u64| random.next_u64() % most;
        let (mut sets, mut model) = (Sets::default(), Model::default());
        let mut kernel: BTreeMap<i32, (u32, u64)> = BTreeMap::new();
        // Sockets 1 to 4 by descriptors 10 to 13, and 14, which is a copy of 10. Those of odd numbers are connections.
        let id_of = |fd: i32| u32::try_from(if fd == 14 { 1 } else { fd - 9 }).unwrap();
        let (mut ready, mut is_on_stack) = ([0_u32; 5], [true; 5]);
        for step in 0..400 {
            let fd = 10 + i32::try_from(below(5)).unwrap();
            let id = id_of(fd);
            let at = id as usize;
            match below(8) {
                0 | 1 => {
                    ready[at] |= [IN, OUT, bits::ERR, bits::HUP][usize::try_from(below(4)).unwrap()];
                    sets.happened(id);
                    let its: Vec<i32> = model.order.iter().copied().filter(|fd| id_of(*fd) == id).collect();
                    for fd in its {
                        model.list(fd);
                    }
                }
                2 => ready[at] = 0,
                3 => {
                    let flags =
                        [0, bits::ET, bits::ONESHOT, bits::ET | bits::ONESHOT][usize::try_from(below(4)).unwrap()];
                    let events = flags | [IN, OUT, IN | OUT][usize::try_from(below(3)).unwrap()];
                    let known = sets.member(100, fd);
                    // The kernel has datagram sockets and listeners, and whatever is its own.
                    let in_kernel = !is_on_stack[at] || id.is_multiple_of(2);
                    let member = Member {
                        id: if is_on_stack[at] { id } else { 0 },
                        inner: 0,
                        events,
                        data: below(3),
                        in_kernel,
                    };
                    if in_kernel {
                        // The owner tells the kernel first.
                        let told = expected_of_kernel(member.id, events, member.data, false);
                        assert_eq!(kernel.insert(fd, told).is_some(), known.is_some_and(|known| known.in_kernel));
                    }
                    sets.insert((100, 50), fd, member);
                    model.members.insert(fd, (member, false));
                    if member.id != 0 {
                        model.add(fd);
                        model.list(fd);
                    }
                }
                4 => {
                    sets.remove(100, fd, true);
                    model.members.remove(&fd);
                    model.list.retain(|listed| *listed != fd);
                    model.order.retain(|one| *one != fd);
                }
                5 if is_on_stack[at] => {
                    is_on_stack[at] = false;
                    sets.to_kernel(id);
                    model.order.retain(|fd| id_of(*fd) != id);
                    for (_, (member, _)) in model.members.iter_mut().filter(|(fd, _)| id_of(**fd) == id) {
                        (member.id, member.in_kernel) = (0, true);
                    }
                }
                5 => {
                    is_on_stack[at] = true;
                    let connected = !id.is_multiple_of(2);
                    sets.to_stack(id, connected, |fd| id_of(fd) == id);
                    // The order of two copies is the machine's own.
                    let mut its: Vec<i32> = sets.watched.get(&id).into_iter().flatten().map(|one| one.1).collect();
                    let all: Vec<i32> = model.members.keys().copied().filter(|fd| id_of(*fd) == id).collect();
                    its.retain(|fd| model.members.contains_key(fd));
                    let mut sorted = its.clone();
                    sorted.sort_unstable();
                    assert_eq!(sorted, all, "seed {seed}, step {step}");
                    for fd in its {
                        let (member, _) = model.members.get_mut(&fd).unwrap();
                        (member.id, member.in_kernel) = (id, member.in_kernel && !connected);
                        model.add(fd);
                        model.list(fd);
                    }
                }
                _ => {
                    let most = 1 + usize::try_from(below(4)).unwrap();
                    let ready_of = |id: u32| ready[id as usize];
                    let expected = model.wait(most, &ready_of);
                    assert_eq!(wait(&mut sets, 100, most, &ready_of), expected, "seed {seed}, step {step}");
                }
            }
            while let Some(change) = sets.poll_change() {
                assert_eq!(change.set, 50);
                let had = match change.what {
                    What::Add => kernel.insert(change.fd, (change.events, change.data)).is_none(),
                    What::Modify => kernel.insert(change.fd, (change.events, change.data)).is_some(),
                    What::Delete => kernel.remove(&change.fd).is_some(),
                };
                assert!(had, "seed {seed}, step {step}: the kernel refuses {change:?}");
            }
            let believed: BTreeMap<i32, (u32, u64)> = model
                .members
                .iter()
                .filter(|(_, (member, _))| member.in_kernel)
                .map(|(fd, (member, silent))| (*fd, expected_of_kernel(member.id, member.events, member.data, *silent)))
                .collect();
            assert_eq!(kernel, believed, "seed {seed}, step {step}");
            let (kept, counted) = counters(&sets);
            assert_eq!(kept, counted, "seed {seed}, step {step}");
        }
    }
}
