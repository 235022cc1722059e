//! How the kernel makes a socket of a protocol that goes over the network, and what to do where it lacks the protocol.

use crate::{NetError, options, sys};
use libc::c_int;
use model::Protocol;
use std::os::fd::{OwnedFd, RawFd};

/// SOCK_DCCP of linux/net.h.
const SOCK_DCCP: c_int = 6;
/// SCTP_NODELAY of linux/sctp.h.
const SCTP_NODELAY: c_int = 3;

struct Row {
    name: &'static str,
    /// The name over IPv4 and IPv6, in errors.
    over: [&'static str; 2],
    kind: c_int,
    number: c_int,
    /// The option against Nagle's algorithm, where there is one.
    nodelay: Option<(c_int, c_int, &'static str)>,
    /// What to do where the kernel lacks it; empty: it lacks it nowhere.
    remedy: &'static str,
}

const fn row(protocol: Protocol) -> Row {
    const TCP: Row = Row {
        name: "TCP",
        over: ["TCP/IPv4", "TCP/IPv6"],
        kind: libc::SOCK_STREAM,
        number: 0,
        nodelay: Some((libc::IPPROTO_TCP, libc::TCP_NODELAY, "TCP_NODELAY")),
        remedy: "",
    };
    const SCTP: Row = Row {
        name: "SCTP",
        over: ["SCTP/IPv4", "SCTP/IPv6"],
        number: libc::IPPROTO_SCTP,
        nodelay: Some((libc::IPPROTO_SCTP, SCTP_NODELAY, "SCTP_NODELAY")),
        remedy: "load it with 'modprobe sctp' (CONFIG_IP_SCTP), or use tcp",
        ..TCP
    };
    match protocol {
        Protocol::Tcp => TCP,
        Protocol::Mptcp => Row {
            name: "MPTCP",
            number: libc::IPPROTO_MPTCP,
            remedy: "use a kernel with CONFIG_MPTCP (Linux 5.16 and later), or tcp",
            ..TCP
        },
        Protocol::Sctp => SCTP,
        Protocol::SctpSeqpacket => Row { kind: libc::SOCK_SEQPACKET, ..SCTP },
        Protocol::Dccp => Row {
            name: "DCCP",
            over: ["DCCP/IPv4", "DCCP/IPv6"],
            kind: SOCK_DCCP,
            number: libc::IPPROTO_DCCP,
            nodelay: None,
            remedy: "use a kernel with CONFIG_IP_DCCP (removed in Linux 6.16), or udp",
        },
        // What is no connection has a UDP socket.
        _ => Row { name: "UDP", over: ["UDP/IPv4", "UDP/IPv6"], kind: libc::SOCK_DGRAM, nodelay: None, ..TCP },
    }
}

pub(crate) fn name(protocol: Protocol) -> &'static str {
    row(protocol).name
}

pub(crate) fn set_nodelay(fd: RawFd, protocol: Protocol) -> Result<(), NetError> {
    row(protocol).nodelay.map_or(Ok(()), |(level, name, option)| options::int(fd, level, name, option, 1))
}

pub(crate) fn socket(protocol: Protocol, v6: bool) -> Result<OwnedFd, NetError> {
    let Row { name, over: [v4_name, v6_name], kind, number, remedy, .. } = row(protocol);
    sys::socket(sys::domain(v6), kind, number).map_err(|cause| match cause.raw_os_error() {
        Some(libc::ENOPROTOOPT) if protocol == Protocol::Mptcp => {
            NetError::NotInKernel { name, cause, remedy: "switch it on with 'sysctl net.mptcp.enabled=1'" }
        }
        Some(libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT | libc::EINVAL) if !remedy.is_empty() => {
            NetError::NotInKernel { name, cause, remedy }
        }
        _ => NetError::Socket { what: if v6 { v6_name } else { v4_name }, cause },
    })
}

/// Whether this kernel makes sockets of an optional protocol. Errors: [`NetError::NotInKernel`], with the remedy.
pub fn check_kernel(protocol: Protocol) -> Result<(), NetError> {
    if row(protocol).remedy.is_empty() {
        return Ok(());
    }
    match socket(protocol, false) {
        Err(error @ NetError::NotInKernel { .. }) => Err(error),
        // What else may fail is said where the socket is needed.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{DataSocket, SocketKind};
    use crate::{Path, PathError, PathOptions, PathVisitor, Received, with_path};
    use clock::Clock;
    use model::Receive;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    /// A UNIX pair in the place of a connection that keeps the borders of its messages, which not every kernel has.
    fn pair() -> (DataSocket, DataSocket) {
        let (one, other) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let end = |fd| DataSocket::connection(Protocol::Sctp, fd, None);
        (end(one), end(other))
    }

    /// Receives until the path is broken.
    struct Lengths;

    impl PathVisitor for Lengths {
        type Output = (Vec<usize>, PathError);

        fn visit<P: Path>(self, path: &mut P) -> Self::Output {
            let mut lengths = Vec::new();
            loop {
                match path.receive(&mut [0; 64]) {
                    Ok(Received::Bytes(bytes)) => lengths.push(bytes),
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => return (lengths, error),
                }
            }
        }
    }

    /// Catches: messages of such a connection that are joined as bytes of a stream, and its end that is taken for an empty message,
    /// of which there is no end.
    #[test]
    fn a_connection_may_keep_the_borders_of_its_messages() {
        for receive in Receive::LINUX {
            let (mut here, mut there) = pair();
            assert_eq!(here.kind, SocketKind::Connected);
            for bytes in [3, 40, 100] {
                here.send_once(&vec![0x5a; bytes], Duration::from_secs(1)).unwrap();
            }
            let first = there.receive_once(&mut [0; 64], Duration::from_secs(1)).unwrap();
            assert_eq!(first.map(|(bytes, _)| bytes), Some(3));
            drop(here);
            let stop = AtomicBool::new(false);
            let options =
                PathOptions { receive, idle: Default::default(), clock: Clock::raw(), timeout_ns: 0, stop: &stop };
            let (lengths, end) = with_path(&mut there, &options, Lengths).unwrap();
            // That of a message with its end cut off is the true one.
            assert_eq!((lengths.as_slice(), end), (&[40, 100][..], PathError::Closed), "{receive}");
        }
    }

    /// Catches: a refusal without a remedy; rows whose type and number do not belong together are refused as unknown otherwise.
    #[test]
    fn a_kernel_without_a_protocol_is_one_line_with_the_remedy() {
        for (protocol, remedy) in
            [(Protocol::Sctp, "modprobe sctp"), (Protocol::SctpSeqpacket, "modprobe sctp"), (Protocol::Dccp, "6.16")]
        {
            for v6 in [false, true] {
                match socket(protocol, v6) {
                    Ok(_) => check_kernel(protocol).unwrap(),
                    Err(error) => {
                        let text = error.to_string();
                        assert!(matches!(error, NetError::NotInKernel { .. }), "{text}");
                        assert!(text.contains(remedy) && !text.contains('\n'), "{text}");
                        assert_eq!(check_kernel(protocol).unwrap_err().to_string(), text);
                    }
                }
            }
        }
        for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Shm, Protocol::Icmp] {
            check_kernel(protocol).unwrap();
        }
    }
}
