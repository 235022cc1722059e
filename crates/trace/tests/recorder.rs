//! The recorder on this kernel: needs CAP_BPF and CAP_PERFMON.

use explain::{Side, Stage, Usual, explain_stay};
use std::net::UdpSocket;
use windhover_trace::{Recorder, Subject};

/// Catches: a layout that differs between the programs and their reader, stages that are not stamped, a clock that is another one.
#[test]
fn a_message_has_its_stages_in_order() {
    let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    near.connect(far.local_addr().unwrap()).unwrap();
    let port = near.local_addr().unwrap().port();
    let mut recorder = Recorder::start(&Subject::Near(port)).unwrap();
    let calls = recorder.calls(false).unwrap();
    println!("missing: {:?}", recorder.missing().collect::<Vec<_>>());
    let answering = std::thread::spawn(move || {
        let mut message = [0; 64];
        for _ in 0..2000 {
            let (bytes, from) = far.recv_from(&mut message).unwrap();
            far.send_to(&message[..bytes], from).unwrap();
        }
    });
    let mut usual = Usual::new(Side::Near);
    let mut message = [0; 32];
    let mut late = Vec::new();
    let mut complete = [0, 0];
    for seq in 0..2000_u64 {
        message[..8].copy_from_slice(&seq.to_le_bytes());
        message[8..16].copy_from_slice(&77_u64.to_le_bytes());
        calls.sends(&message);
        near.send(&message).unwrap();
        // Half of them by a thread that looks rather than sleeps.
        let spins = seq >= 1000;
        near.set_nonblocking(spins).unwrap();
        let bytes = loop {
            match near.recv(&mut message) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                received => break received.unwrap(),
            }
        };
        calls.received(&message[..bytes]);
        if seq % 100 == 99 {
            for seq in recorder.read(0) {
                let stay = recorder.stay(seq).unwrap();
                usual.add(&stay);
                let stages = [Stage::Send, Stage::Queued, Stage::Sent, Stage::Received, Stage::Returned];
                let times: Option<Vec<u64>> = stages.iter().map(|stage| Some(stay.at(*stage)?.at_ns)).collect();
                complete[usize::from(seq >= 1000)] += u32::from(times.is_some_and(|times| times.is_sorted()));
                assert!(seq <= 1000 || stay.at(Stage::Waking).is_none(), "a thread that never slept was woken");
                if stay.ns(Side::Near).unwrap() > 2 * usual.stay_ns() + 20_000 {
                    late.push(stay);
                }
            }
        }
    }
    answering.join().unwrap();
    println!("{} messages, median {} ns, p99 {:?}", usual.messages(), usual.stay_ns(), usual.stay_quantile(0.99));
    for stay in late.iter().rev().take(5) {
        let found = explain_stay(stay, &usual, 120, "initiator", &mut |cpu, from, to, thread| {
            explain::Timeline::new(&recorder.events(cpu, from, to, thread), from, to)
        });
        println!("{found:#?}");
    }
    assert!(usual.messages() > 1900);
    assert!(complete.iter().all(|count| *count > 950), "{complete:?}");
}
