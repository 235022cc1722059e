//! Stacks in the place of the kernel's.

use super::*;

fn preloads(all: &[(&str, bool)]) -> Vec<Preload> {
    all.iter().map(|&(library, loaded)| Preload { library: library.to_owned(), loaded }).collect()
}

#[test]
fn a_preloaded_stack_must_be_loaded() {
    let mut case = Case::new();
    case.preloads = [preloads(&[("/opt/a.so", true)]), preloads(&[("libb.so", true)])];
    case.ends[0].0.preload = Some("/opt/a.so".to_owned());
    case.clean();
    case.preloads[1] = preloads(&[("libb.so", true), ("/opt/c.so", false)]);
    assert_eq!(case.only(FindingId::PathNotAsClaimed, "…/opt/c.so…correct the path or install…"), "reflector");
    assert!(!case.find(FindingId::PathNotAsClaimed).unwrap().detail.contains("libb.so"));
    case.preloads[1] = preloads(&[("a", false), ("b", false), ("c", false), ("d", false), ("e", false)]);
    case.only(FindingId::PathNotAsClaimed, "…a and b and c and 2 more…");
}

#[test]
fn a_claimed_stack_must_carry_each_data_socket() {
    let mut case = Case::new();
    let carried = |by: &str, reason: Option<&str>, sockets| Carried {
        by: by.to_owned(),
        reason: reason.map(str::to_owned),
        sockets,
    };
    let all_spin = || Some(vec![carried("spin", None, 3)]);
    case.carried = [all_spin(), all_spin()];
    case.clean();
    case.ends.iter_mut().for_each(|(spec, ..)| spec.stack = Some("spin".to_owned()));
    case.clean();
    let id = FindingId::PathNotAsClaimed;
    case.carried[0] = Some(vec![carried("kernel", Some("it is multicast"), 1), carried("spin", None, 3)]);
    assert_eq!(case.only(id, "…and kernel carried 1 of 4 data sockets, because it is multicast"), "initiator");
    case.carried[0] = all_spin();
    case.ends[1].0.stack = Some("xdp".to_owned());
    assert_eq!(case.only(id, "…spin carried 3 of 3…"), "reflector");
    case.carried[1] = None;
    case.only(id, "…its preload library was not loaded…");
    case.ends[1].0.stack = None;
    case.clean();
    case.ends[0].0.receive = model::Receive::Spin;
    case.only(id, "…spins by itself…");
}

#[test]
fn a_claimed_stack_must_reach_the_process() {
    let mut case = Case::new();
    case.ends[0].0.preload = Some("/opt/a.so:libb.so".to_owned());
    case.preloads[0] = preloads(&[("libb.so", true), ("/opt/a.so", true), ("/lib/other.so", true)]);
    case.clean();
    case.preloads[0] = preloads(&[("libb.so", true)]);
    assert_eq!(case.only(FindingId::PathNotAsClaimed, "…to /opt/a.so, which did not reach…"), "initiator");
}
