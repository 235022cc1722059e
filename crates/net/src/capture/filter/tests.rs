//! The program run by a small interpreter over frames made by hand.

use super::*;

/// Runs a program over a frame; 0 lets nothing through.
fn run(program: &[Instruction], frame: &[u8], protocol: u16) -> u32 {
    let (mut a, mut x, mut at) = (0_u32, 0_u32, 0_usize);
    let load = |at: u32, bytes: usize| -> Option<u32> {
        let at = at as usize;
        Some(frame.get(at..at + bytes)?.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)))
    };
    loop {
        let Instruction { code, yes, no, value } = program[at];
        at += 1;
        let mut jump = |taken: bool| at += usize::from(if taken { yes } else { no });
        match code {
            LOAD_WORD if value == PROTOCOL => a = u32::from(protocol),
            LOAD_WORD | LOAD_HALF | LOAD_BYTE => {
                let bytes = match code {
                    LOAD_WORD => 4,
                    LOAD_HALF => 2,
                    _ => 1,
                };
                let Some(loaded) = load(value, bytes) else { return 0 };
                a = loaded;
            }
            LOAD_HALF_AT_X | LOAD_BYTE_AT_X => {
                let Some(loaded) = load(x + value, if code == LOAD_HALF_AT_X { 2 } else { 1 }) else { return 0 };
                a = loaded;
            }
            HEADER_LENGTH_TO_X => x = 4 * (load(value, 1).unwrap() & 0x0f),
            SET_X => x = value,
            JUMP => at += value as usize,
            IF_EQUAL => jump(a == value),
            IF_ANY_BIT => jump(a & value != 0),
            AND => a &= value,
            ADD => a += value,
            ADD_X => a += x,
            SHIFT_RIGHT => a >>= value,
            X_TO_A => a = x,
            RETURN => return value,
            RETURN_A => return a,
            other => panic!("unknown instruction {other:#x}"),
        }
    }
}

/// An Ethernet frame: the type, IP and the first bytes of UDP or TCP.
fn frame(from: SocketAddr, to: SocketAddr, protocol: u8) -> (Vec<u8>, u16) {
    let mut frame = vec![0; 14];
    let kind = match (from.ip(), to.ip()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            // With four bytes of options.
            frame.extend([0x46, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
            frame.extend(a.octets());
            frame.extend(b.octets());
            frame.extend([1; 4]);
            0x0800
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            frame.extend([0x60, 0, 0, 0, 0, 0, protocol, 64]);
            frame.extend(a.octets());
            frame.extend(b.octets());
            0x86dd
        }
        _ => panic!("two families"),
    };
    frame.extend(from.port().to_be_bytes());
    frame.extend(to.port().to_be_bytes());
    frame.extend(if protocol == TCP { [0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0] } else { [0; 12] });
    frame.extend([0; 16]);
    (frame, kind)
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn flow(number: u8, far: &str, near_port: Option<u16>, group: Option<&str>) -> FlowFilter {
    FlowFilter::One(Flow { number, far: at(far), near_port, group: group.map(|group| group.parse().unwrap()) })
}

fn kept(flows: &[FlowFilter], from: &str, to: &str, number: u8) -> u32 {
    let (frame, kind) = frame(at(from), at(to), number);
    run(&program(flows, 14, 64), &frame, kind)
}

const UDP: u8 = 17;
const NEAR: &str = "192.0.2.1:5000";
const FAR: &str = "192.0.2.2:7413";
const NEAR6: &str = "[2001:db8::1]:5000";
const FAR6: &str = "[2001:db8::2]:7413";

#[test]
fn both_directions_pass_cut_behind_their_headers() {
    for near_port in [None, Some(5000)] {
        let flows = [flow(UDP, FAR, near_port, None)];
        // Ethernet 14, IPv4 with options 24, UDP 8, payload 64.
        assert_eq!(kept(&flows, NEAR, FAR, UDP), 14 + 24 + 8 + 64);
        assert_eq!(kept(&flows, FAR, NEAR, UDP), 14 + 24 + 8 + 64);
        let flows = [flow(TCP, FAR, near_port, None)];
        // TCP says that it has 32.
        assert_eq!(kept(&flows, NEAR, FAR, TCP), 14 + 24 + 32 + 64);
        assert_eq!(kept(&flows, FAR, NEAR, TCP), 14 + 24 + 32 + 64);
        let flows = [flow(UDP, FAR6, near_port, None)];
        assert_eq!(kept(&flows, NEAR6, FAR6, UDP), 14 + 40 + 8 + 64);
        assert_eq!(kept(&flows, FAR6, NEAR6, UDP), 14 + 40 + 8 + 64);
        let flows = [flow(TCP, FAR6, near_port, None)];
        assert_eq!(kept(&flows, NEAR6, FAR6, TCP), 14 + 40 + 32 + 64);
        assert_eq!(kept(&flows, FAR6, NEAR6, TCP), 14 + 40 + 32 + 64);
        for (number, header) in [(132, 12 + 16), (33, 16 + 8)] {
            let flows = [flow(number, FAR, near_port, None)];
            assert_eq!(kept(&flows, NEAR, FAR, number), 14 + 24 + header + 64);
            assert_eq!(kept(&flows, NEAR, FAR, UDP), 0);
        }
    }
}

#[test]
fn others_do_not_pass() {
    let flows = [flow(UDP, FAR, Some(5000), None), flow(TCP, FAR6, None, None)];
    for (from, to, number) in [
        (NEAR, "192.0.2.2:7414", UDP),
        ("192.0.2.2:7414", NEAR, UDP),
        (NEAR, "192.0.2.3:7413", UDP),
        ("192.0.2.1:5001", FAR, UDP),
        (FAR, "192.0.2.1:5001", UDP),
        (NEAR, FAR, TCP),
        (NEAR6, FAR6, UDP),
        (NEAR6, "[2001:db8::3]:7413", TCP),
        (NEAR6, "[2001:db8:0:1::2]:7413", TCP),
    ] {
        assert_eq!(kept(&flows, from, to, number), 0, "{from} {to} {number}");
    }
    assert_ne!(kept(&flows, NEAR6, FAR6, TCP), 0, "the second flow");
    assert_eq!(kept(&[], NEAR, FAR, UDP), 0, "no flow");
    let (arp, _) = frame(at(NEAR), at(FAR), UDP);
    assert_eq!(run(&program(&flows, 14, 64), &arp, 0x0806), 0);
}

#[test]
fn two_ends_of_one_host_with_one_address_pass_too() {
    let flows = [flow(UDP, "127.0.0.1:7413", Some(5000), None)];
    assert_ne!(kept(&flows, "127.0.0.1:5000", "127.0.0.1:7413", UDP), 0);
    assert_ne!(kept(&flows, "127.0.0.1:7413", "127.0.0.1:5000", UDP), 0);
    assert_eq!(kept(&flows, "127.0.0.1:5001", "127.0.0.1:7413", UDP), 0);
    let flows = [flow(TCP, "[::1]:7413", Some(5000), None)];
    assert_ne!(kept(&flows, "[::1]:5000", "[::1]:7413", TCP), 0);
    assert_ne!(kept(&flows, "[::1]:7413", "[::1]:5000", TCP), 0);
}

#[test]
fn messages_to_a_group_pass() {
    let flows = [flow(UDP, FAR, Some(5000), Some("239.1.2.3")), flow(UDP, FAR6, Some(5000), Some("ff05::142"))];
    assert_ne!(kept(&flows, NEAR, "239.1.2.3:7413", UDP), 0);
    // The answer goes to the group at the initiator's port.
    assert_ne!(kept(&flows, FAR, "239.1.2.3:5000", UDP), 0);
    assert_ne!(kept(&flows, NEAR, FAR, UDP), 0, "the proof");
    assert_eq!(kept(&flows, "192.0.2.9:5000", "239.1.2.3:7414", UDP), 0);
    assert_ne!(kept(&flows, NEAR6, "[ff05::142]:7413", UDP), 0);
    assert_ne!(kept(&flows, FAR6, "[ff05::142]:5000", UDP), 0);
    assert_ne!(kept(&flows, NEAR6, FAR6, UDP), 0);
    assert_eq!(kept(&flows, NEAR6, "[ff05::143]:7413", UDP), 0);
}

#[test]
fn later_fragments_pass_by_their_addresses() {
    let flows = [flow(UDP, FAR, Some(5000), None)];
    let (mut later, kind) = frame(at(NEAR), at(FAR), UDP);
    later[20..22].copy_from_slice(&[0, 185]);
    later[38..].fill(0xff);
    assert_eq!(run(&program(&flows, 14, 64), &later, kind), 14 + 24 + 8 + 64);
    let (mut strange, kind) = frame(at(NEAR), at("192.0.2.3:7413"), UDP);
    strange[20..22].copy_from_slice(&[0, 185]);
    assert_eq!(run(&program(&flows, 14, 64), &strange, kind), 0);
    let flows = [flow(UDP, FAR6, Some(5000), None)];
    let (mut six, kind) = frame(at(FAR6), at(NEAR6), UDP);
    six[20] = 44;
    six[54] = 17;
    assert_eq!(run(&program(&flows, 14, 64), &six, kind), 14 + 40 + 16 + 64);
    six[54] = 6;
    assert_eq!(run(&program(&flows, 14, 64), &six, kind), 0);
}

#[test]
fn the_link_header_may_be_missing_and_all_be_kept() {
    let flows = [flow(UDP, FAR, None, None)];
    let (frame, kind) = frame(at(NEAR), at(FAR), UDP);
    assert_eq!(run(&program(&flows, 0, 65_535), &frame[14..], kind), 24 + 8 + 65_535);
}

fn group(carrier: GroupCarrier, groups: &[&str]) -> [FlowFilter; 1] {
    [FlowFilter::Group(GroupFlow { carrier, groups: groups.iter().map(|group| group.parse().unwrap()).collect() })]
}

#[test]
fn a_group_based_protocol_passes_both_ways() {
    let flows = group(GroupCarrier::Udp(3056), &["239.192.0.1", "239.192.0.2", "ff05::7"]);
    let whole = 14 + 24 + 8 + GROUP_HEAD + 64;
    for (from, to) in [
        ("192.0.2.1:3056", "239.192.0.1:3056"),
        // A reflector's group, and a NAK that goes back.
        ("192.0.2.2:3056", "239.192.0.2:3056"),
        ("192.0.2.2:3056", "192.0.2.1:3056"),
        ("192.0.2.2:40000", "192.0.2.1:3056"),
        ("192.0.2.1:3056", "192.0.2.2:40000"),
    ] {
        assert_eq!(kept(&flows, from, to, UDP), whole, "{from} {to}");
        assert_eq!(kept(&flows, from, to, TCP), 0, "{from} {to}");
    }
    for (from, to) in [
        ("192.0.2.1:3056", "239.192.0.3:3056"),
        ("192.0.2.1:3057", "239.192.0.1:3057"),
        ("192.0.2.1:5000", "192.0.2.2:5001"),
        ("[2001:db8::1]:3056", "[ff05::8]:3056"),
        ("[2001:db8::1]:3057", "[ff05::7]:3055"),
    ] {
        assert_eq!(kept(&flows, from, to, UDP), 0, "{from} {to}");
    }
    for (from, to) in [("[2001:db8::1]:3056", "[ff05::7]:3056"), ("[2001:db8::2]:40000", "[2001:db8::1]:3056")] {
        assert_eq!(kept(&flows, from, to, UDP), 14 + 40 + 8 + GROUP_HEAD + 64, "{from} {to}");
    }
}

#[test]
fn a_protocol_of_ip_passes_without_ports_and_behind_a_router_alert() {
    let flows = group(GroupCarrier::Ip(113), &["239.192.0.1", "ff05::7"]);
    let of = |from: &str, to: &str| {
        let (mut made, kind) = frame(at(from), at(to), UDP);
        let place = if kind == 0x0800 { 23 } else { 20 };
        made[place] = 113;
        (made, kind)
    };
    let passes = |(made, kind): (Vec<u8>, u16)| run(&program(&flows, 14, 64), &made, kind) > 0;
    assert!(passes(of("192.0.2.1:0", "239.192.0.1:0")));
    assert!(passes(of("192.0.2.2:0", "192.0.2.1:0")));
    assert!(!passes(of("192.0.2.1:0", "239.192.0.9:0")));
    assert!(!passes(frame(at("192.0.2.1:0"), at("239.192.0.1:0"), UDP)), "UDP");
    assert!(passes(of("[2001:db8::1]:0", "[ff05::7]:0")));
    // Data are cut where the others are whole.
    let (mut data, kind) = of("192.0.2.1:0", "239.192.0.1:0");
    data[14 + 24 + 4] = 0x05;
    assert_eq!(run(&program(&flows, 14, 64), &data, kind), 14 + 24 + GROUP_DATA_HEAD + 64);
    let (mut data, kind) = of("[2001:db8::1]:0", "[ff05::7]:0");
    data[14 + 40 + 4] = 0x04;
    assert_eq!(run(&program(&flows, 14, 64), &data, kind), 14 + 40 + GROUP_DATA_HEAD + 64);
    let (mut later, kind) = of("192.0.2.1:0", "239.192.0.1:0");
    later[20..22].copy_from_slice(&[0, 185]);
    assert_eq!(run(&program(&flows, 14, 64), &later, kind), 14 + 24 + GROUP_HEAD + 64);
    let (mut alert, kind) = of("[2001:db8::1]:0", "[ff05::7]:0");
    alert[20] = 0;
    alert[54..62].copy_from_slice(&[113, 0, 5, 2, 0, 0, 1, 0]);
    assert!(passes((alert.clone(), kind)));
    alert[54] = 17;
    assert!(!passes((alert, kind)));
}

#[test]
fn many_flows_stay_within_what_the_kernel_takes() {
    let flows: Vec<FlowFilter> =
        (0..60).map(|port| flow(TCP, &format!("[2001:db8::2]:{}", 1000 + port), Some(9), Some("ff05::1"))).collect();
    let program = program(&flows, 14, 64);
    assert!(program.len() < 4096, "{}", program.len());
    assert!(program.iter().all(|instruction| instruction.yes < 255 && instruction.no < 255));
}
