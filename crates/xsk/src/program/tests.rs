//! The program run by a small interpreter over made frames. The kernel's own verifier sees it in `tests/wire.rs`.

use super::*;

const PORTS: i32 = 101;
const ADDRESSES: i32 = 102;
const SOCKETS: i32 = 103;
const FLOWS: i32 = 104;

/// What the program does with a frame: the queue it redirects to, or it passes.
fn run(frame: &[u8], ports: &[usize], addresses: &[IpAddr]) -> Option<u64> {
    run_with(frame, ports, addresses, IPV4_TAKEN | IPV6_TAKEN, &[])
}

/// The same with a value of the served ports, and the flows that are listed, each with its value.
fn run_with(frame: &[u8], ports: &[usize], addresses: &[IpAddr], value: u8, flows: &[([u8; 40], u8)]) -> Option<u64> {
    let code = assemble([PORTS, ADDRESSES, FLOWS, SOCKETS]).unwrap();
    // Memory: the frame at 1000, the context at 10, the stack ends at 100000, the value of a port at 50000, of a flow at 50001.
    let mut registers = [0_u64; 11];
    (registers[1], registers[10]) = (10, 100_000);
    let mut stack = [0_u8; 64];
    let mut of_flow = 0;
    let end = 1000 + frame.len() as u64;
    let mut at = 0;
    loop {
        let op = code[at];
        let (to, from) = (usize::from(op.registers & 15), usize::from(op.registers >> 4));
        let constant = i64::from(op.constant).cast_unsigned();
        let address = registers[from].wrapping_add_signed(i64::from(op.offset));
        let jump = |taken: bool| if taken { at.wrapping_add_signed(isize::from(op.offset)) } else { at };
        let load = |bytes: usize| -> u64 {
            match address {
                10 => 1000,
                14 => end,
                26 => 3,
                50_000 => u64::from(value),
                50_001 => u64::from(of_flow),
                _ => {
                    let start = usize::try_from(address - 1000).unwrap();
                    let mut word = [0; 8];
                    word[..bytes].copy_from_slice(&frame[start..start + bytes]);
                    u64::from_le_bytes(word)
                }
            }
        };
        match op.code {
            LOAD_BYTE => registers[to] = load(1),
            LOAD_HALF => registers[to] = load(2),
            LOAD_WORD => registers[to] = load(4),
            STORE_WORD | STORE_WORD_CONSTANT => {
                let value = if op.code == STORE_WORD { registers[from] } else { constant };
                let place = usize::try_from(64 + i64::from(op.offset)).unwrap();
                stack[place..place + 4].copy_from_slice(&value.to_le_bytes()[..4]);
            }
            MOVE => registers[to] = registers[from],
            MOVE_CONSTANT => registers[to] = constant,
            ADD_CONSTANT => registers[to] = registers[to].wrapping_add(constant),
            AND_CONSTANT => registers[to] &= constant,
            AND => registers[to] &= registers[from],
            TO_BIG_ENDIAN => registers[to] = u64::from(u16::try_from(registers[to]).unwrap().swap_bytes()),
            JUMP => at = jump(true),
            JUMP_EQUAL => at = jump(registers[to] == constant),
            JUMP_NOT_EQUAL => at = jump(registers[to] != constant),
            JUMP_GREATER => at = jump(registers[to] > registers[from]),
            LOAD_MAP => {
                registers[to] = constant;
                at += 1;
            }
            CALL if op.constant == REDIRECT_MAP => {
                assert_eq!((registers[1], registers[3]), (103, 2), "the table of sockets; passed where there is none");
                return Some(registers[2]);
            }
            CALL => {
                let key = usize::try_from(registers[2] - (100_000 - 64)).unwrap();
                let is = |found: bool| if found { 50_000 } else { 0 };
                registers[0] = match registers[1] {
                    101 => {
                        let port = u32::from_le_bytes(stack[key..key + 4].try_into().unwrap());
                        is(ports.contains(&(port as usize)))
                    }
                    102 => is(addresses.iter().any(|address| address_key(*address) == stack[key..key + 16])),
                    _ => match flows.iter().find(|(flow, _)| flow[..] == stack[key..key + 40]) {
                        Some((_, value)) => {
                            of_flow = *value;
                            50_001
                        }
                        None => 0,
                    },
                };
            }
            EXIT => {
                assert_eq!(registers[0], 2, "XDP_PASS");
                return None;
            }
            other => panic!("unknown operation {other:#x}"),
        }
        at += 1;
    }
}

/// An Ethernet frame with one packet for `to`.
fn frame(to: IpAddr, protocol: u8, port: u16) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match to {
        IpAddr::V4(to) => {
            bytes.extend([8, 0, 0x45, 0, 0, 36, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 9]);
            bytes.extend(to.octets());
        }
        IpAddr::V6(to) => {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, protocol, 64]);
            bytes.extend([9; 16]);
            bytes.extend(to.octets());
        }
    }
    bytes.extend(7777_u16.to_be_bytes());
    bytes.extend(port.to_be_bytes());
    bytes.extend([0; 12]);
    bytes
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Catches: a frame for a served port that the kernel gets, and one for another port, protocol or address that is taken.
#[test]
fn served_ports_of_served_addresses_are_taken_and_nothing_else() {
    let ours = [address("10.0.0.1"), address("fd00::1")];
    let ports = [port_entry(Protocol::Udp, 5000), port_entry(Protocol::Tcp, 80)];
    for to in ours {
        assert_eq!(run(&frame(to, 17, 5000), &ports, &ours), Some(3), "{to} UDP");
        assert_eq!(run(&frame(to, 6, 80), &ports, &ours), Some(3), "{to} TCP");
        for (protocol, port) in [(17, 80), (6, 5000), (17, 5001), (1, 5000), (132, 80)] {
            assert_eq!(run(&frame(to, protocol, port), &ports, &ours), None, "{to} {protocol} {port}");
        }
    }
    for to in ["10.0.0.2", "fd00::2"] {
        assert_eq!(run(&frame(address(to), 17, 5000), &ports, &ours), None, "forwarded to {to}");
    }
}

/// Catches: a frame of a connection, or to a local address, that the kernel has and the stack gets, or the other way round.
#[test]
fn what_is_listed_for_a_port_decides_the_most_specific_first() {
    let ports = [port_entry(Protocol::Tcp, 80), port_entry(Protocol::Udp, 80)];
    for (to, from, other) in
        [("10.0.0.1", "10.0.0.9", "10.0.0.8"), ("fd00::1", "909:909:909:909:909:909:909:909", "fd00::9")]
    {
        let [to, from, other] = [to, from, other].map(address);
        let frame = frame(to, 6, 80);
        let key = |local, port, remote, remote_port| {
            flow_key(Protocol::Tcp, (local, port).into(), Some((remote, remote_port).into()))
        };
        let run = |value, listed: &[_]| run_with(&frame, &ports, &[to], value, listed).is_some();
        let [taken, other_family] = if to.is_ipv4() { [IPV4_TAKEN, IPV6_TAKEN] } else { [IPV6_TAKEN, IPV4_TAKEN] };
        assert!(run(taken, &[]) && !run(other_family, &[]), "{to}");
        let this = key(to, 80, from, 7777);
        let others =
            [key(to, 80, from, 7778), key(to, 80, other, 7777), key(to, 81, from, 7777), key(other, 80, from, 7777)];
        let end = |protocol, local, port| (flow_key(protocol, (local, port).into(), None), FLOW_TAKEN);
        let own_end = end(Protocol::Tcp, to, 80);
        let other_ends = [end(Protocol::Tcp, other, 80), end(Protocol::Tcp, to, 81), end(Protocol::Udp, to, 80)];
        for (without, value) in [(true, taken | HAS_FLOWS), (false, other_family | HAS_FLOWS), (false, HAS_FLOWS)] {
            assert!(run(value, &[(this, FLOW_TAKEN)]), "{to} {value}");
            assert!(!run(value, &[(this, FLOW_PASSES)]), "{to} {value}");
            for listed in [FLOW_TAKEN, FLOW_PASSES] {
                assert_eq!(run(value, &others.map(|key| (key, listed))), without, "{to} {value} {listed}");
            }
            assert_eq!(run(value, &[]), without, "{to} {value}");
            assert!(run(value | HAS_ENDS, &[own_end]), "{to} {value}");
            assert_eq!(run(value | HAS_ENDS, &other_ends), without, "{to} {value}");
            assert!(!run(value | HAS_ENDS, &[own_end, (this, FLOW_PASSES)]), "{to} {value}");
            assert!(run(value | HAS_ENDS, &[(this, FLOW_TAKEN)]), "{to} {value}");
        }
        assert!(run(HAS_ENDS, &[own_end]) && !run(HAS_ENDS, &other_ends), "{to}");
    }
}

/// Catches: multicast, fragments, options, VLANs or short frames that are taken, or read past their end.
#[test]
fn what_the_stack_does_not_understand_passes() {
    let ours = [address("10.0.0.1"), address("fd00::1")];
    let ports = [port_entry(Protocol::Udp, 5000)];
    for to in ours {
        let good = frame(to, 17, 5000);
        for length in 0..good.len() - 12 {
            assert_eq!(run(&good[..length], &ports, &ours), None, "{to}: {length} bytes");
        }
        let mut group = good.clone();
        group[0] |= 1;
        assert_eq!(run(&group, &ports, &ours), None, "{to}: a group's MAC address");
        let mut vlan = good.clone();
        vlan[12..14].copy_from_slice(&[0x81, 0]);
        assert_eq!(run(&vlan, &ports, &ours), None, "{to}: a VLAN");
    }
    let good = frame(ours[0], 17, 5000);
    for (at, value) in [(14, 0x46), (14, 0x65), (20, 0x20), (21, 1)] {
        let mut other = good.clone();
        other[at] = value;
        assert_eq!(run(&other, &ports, &ours), None, "byte {at} {value:#x}");
    }
    // "Do not fragment" is no fragment.
    assert_eq!(good[20], 0x40);
    assert_eq!(run(&good, &ports, &ours), Some(3));
}
