//! Factors of both ends: how they wait and where they run, and the options of their sockets.

use super::Record::Always;
use super::flag::Gives::{After, Local, Remote};
use super::flag::{ENDS, IDLE, SOCKET, TOP};
use super::{NAMED, PLAIN, Shown, Value, address, on, parsed, text, unless_unset, whole, word};
use crate::Probe::{Cycle, Pace, Ping, Pingpong, Rr, Stream, Wake};
use crate::{EndSpec, ModelError, Multicast, Probe, ProbeSpec, Protocol, SocketSpec};

/// The commands with an endpoint.
const ENDED: &[Probe] = &[Pingpong, Rr, Pace, Stream, Cycle];
/// Those of them whose sockets are bound to devices and have a time to live.
const ROUTED: &[Probe] = &[Pingpong, Rr, Pace, Stream];
/// Those that send single messages.
const MESSAGES: &[Probe] = &[Pingpong, Rr, Pace];

fn cpu(end: &mut EndSpec, value: &Value) -> Result<(), ModelError> {
    let text = word(value);
    let number = text.parse::<u32>().ok().filter(|&cpu| cpu <= crate::cpus::MAX_CPU);
    if number.is_none() && text != "any" {
        return Err(ModelError::grammar("CPU", text, "use a number, 'any', or 'initiator;reflector' such as \"0;1\""));
    }
    end.cpu = number;
    Ok(())
}

fn ttl(socket: &mut SocketSpec, value: &Value) -> Result<(), ModelError> {
    let ttl = whole(value)?;
    socket.ttl = Some(u8::try_from(ttl).map_err(|_| ModelError::range("ttl", ttl, "0 to 255"))?);
    Ok(())
}

fn multicast(socket: &mut SocketSpec, value: &Value) -> Result<(), ModelError> {
    socket.multicast = Some(Multicast { group: address(value)?, interface: None, loopback: false });
    Ok(())
}

/// The group that others of its settings belong to.
fn group<'a>(spec: &'a mut ProbeSpec, what: &str) -> Result<&'a mut Multicast, ModelError> {
    let none = || format!("{what} is about a multicast group, and there is none");
    spec.socket
        .as_mut()
        .and_then(|socket| socket.multicast.as_mut())
        .ok_or_else(|| ModelError::conflict(none(), "give mcast, or leave it out"))
}

fn loops_back(spec: &mut ProbeSpec, value: &Value) -> Result<(), ModelError> {
    if on(value)? {
        group(spec, "mcast_loop")?.loopback = true;
    }
    Ok(())
}

factors! { FACTORS =
    "receive" Text Ends(receive = parsed), default("block"), record(Always), applies_to(Probe::WITH_PEER),
        about("Receive mode: `block`, `spin`, `poll`, `select`, `epoll`, `epoll-mod` or `epoll-adddel`."),
        shown(Shown { values: &["block", "spin", "poll", "select", "epoll", "epoll-mod", "epoll-adddel"], ..PLAIN });
        flag "receive" <MODE> on ENDED ENDS "How this end waits for a message: block, spin, poll, select, epoll, epoll-mod, epoll-adddel",
            gives(Local("")), default("block"), daily_on(MESSAGES);
        flag "remote-receive" <MODE> on ENDED ENDS "How the far end waits [default: as this end]; iocp where it is winpoint on Windows",
            gives(Remote);
    "policy" Text Ends(policy = parsed), default("other"), record(Always),
        about("Scheduling policy: `other`, `batch`, `idle`, `fifo:N` or `rr:N`, N from 1 to 99."),
        shown(Shown { values: &["other", "batch", "idle"], labels: &[("other", "policy other")], ..PLAIN });
        flag "policy" <POLICY> on ENDED ENDS "Scheduling policy of this end: other, batch, idle, fifo:N, rr:N", gives(Local("other")),
            default("other"), daily_on(MESSAGES);
        flag "remote-policy" <POLICY> on ENDED ENDS "Scheduling policy of the far end [default: other]", gives(Remote);
        flag "policy" <POLICY> on [Ping, Wake] TOP "Scheduling policy: other, batch, idle, fifo:N, rr:N", gives(Local("other")),
            default("other"), daily();
        flag "priority" <N> on [Wake] TOP "SCHED_FIFO with this priority, 1 to 99: --policy fifo:N", gives(After("fifo:")), short(&['p']),
            conflicts(&["policy"]), daily();
    "cpu" Text Ends(cpu), default("any"), record(Always), about("CPU of each end: a number, or `any`."),
        shown(Shown { title: "CPU", values: &["any"], baselines: 1, labels: &[("any", "any CPU")], ..NAMED });
        flag "cpu" <N> on ENDED ENDS "CPU of this end", gives(Local("any")), aliases(&["cpus"]), daily();
        flag "remote-cpu" <N> on ENDED ENDS "CPU of the far end", gives(Remote);
        flag "affinity" on ENDED ENDS "CPU of each end as in sfnt-pingpong: THIS;FAR, or one number for both",
            value("N;N"), conflicts(&["cpu", "remote-cpu"]), hidden();
        flag "cpu" <N> on [Ping] TOP "CPU to run on", gives(Local("any")), aliases(&["cpus"]), daily();
    "busy_poll_us" Whole Ends(busy_poll_us = unless_unset(whole)), applies_to(Probe::WITH_PEER),
        about("SO_BUSY_POLL in µs (default: the system's).");
        flag "busy-poll" <US> on ENDED ENDS "SO_BUSY_POLL of this end in µs", gives(Local("default"));
        flag "remote-busy-poll" <US> on ENDED ENDS "SO_BUSY_POLL of the far end in µs", gives(Remote);
    "send_buffer" Whole Ends(send_buffer_bytes = unless_unset(whole)), applies_to(Probe::WITH_PEER),
        about("SO_SNDBUF of both ends in bytes (default: the system's).");
        flag "send-buffer" <BYTES> on ENDED ENDS "SO_SNDBUF of both ends in bytes";
    "receive_buffer" Whole Ends(receive_buffer_bytes = unless_unset(whole)), applies_to(Probe::WITH_PEER),
        about("SO_RCVBUF of both ends in bytes (default: the system's).");
        flag "receive-buffer" <BYTES> on ENDED ENDS "SO_RCVBUF of both ends in bytes";
    "bind" Address Ends(bind = unless_unset(address)), applies_to(Probe::WITH_PEER),
        about("Local address of the data socket of each end (default: as routed, for the reflector the one it serves at).");
        flag "bind" <ADDR> on ENDED ENDS "Local address of the data socket", gives(Local("default"));
        flag "remote-bind" <ADDR> on ENDED ENDS "Local address of the far end's data socket [default: the one that it serves at]",
            gives(Remote);
        flag "bind" <ADDR> on [Ping] TOP "Local address", gives(Local("default"));
    "device" Text Ends(device = unless_unset(text)), applies_to(Probe::WITH_PEER),
        about("Network device that the data socket of each end is bound to (default: none).");
        flag "device" <DEV> on ROUTED ENDS "Network device that the data socket is bound to", gives(Local("default")),
            aliases(&["bindtodev", "bind-dev"]);
        flag "remote-device" <DEV> on ROUTED ENDS "Network device that the far end's data socket is bound to", gives(Remote);
        flag "device" <DEV> on [Ping] TOP "Network device that the socket is bound to", gives(Local("default"));
    "idle_pipes" Whole Ends(idle.pipes = whole), default("0"), of(&[Pingpong]), about("Idle pipes of each end.");
        flag "idle-pipes" <N> on [Pingpong] IDLE "Idle pipes of this end", gives(Local("")), default("0"), aliases(&["n-pipe"]);
        flag "remote-idle-pipes" <N> on [Pingpong] IDLE "Idle pipes of the far end [default: as this end]", gives(Remote);
    "idle_unix_dgram" Whole Ends(idle.unix_datagrams = whole), default("0"), of(&[Pingpong]), about("Idle UNIX datagram sockets of each end.");
        flag "idle-unix-dgram" <N> on [Pingpong] IDLE "Idle UNIX datagram sockets of this end", gives(Local("")), default("0"), aliases(&["n-unix-d"]);
        flag "remote-idle-unix-dgram" <N> on [Pingpong] IDLE "Idle UNIX datagram sockets of the far end [default: as this end]", gives(Remote);
    "idle_unix_stream" Whole Ends(idle.unix_streams = whole), default("0"), of(&[Pingpong]), about("Idle UNIX stream sockets of each end.");
        flag "idle-unix-stream" <N> on [Pingpong] IDLE "Idle UNIX stream sockets of this end", gives(Local("")), default("0"), aliases(&["n-unix-s"]);
        flag "remote-idle-unix-stream" <N> on [Pingpong] IDLE "Idle UNIX stream sockets of the far end [default: as this end]", gives(Remote);
    "idle_udp" Whole Ends(idle.udp = whole), default("0"), of(&[Pingpong]), about("Idle UDP sockets of each end.");
        flag "idle-udp" <N> on [Pingpong] IDLE "Idle UDP sockets of this end", gives(Local("")), default("0"), aliases(&["n-udp"]);
        flag "remote-idle-udp" <N> on [Pingpong] IDLE "Idle UDP sockets of the far end [default: as this end]", gives(Remote);
    "idle_tcp" Whole Ends(idle.tcp_connected = whole), default("0"), of(&[Pingpong]), about("Idle connected TCP sockets of each end.");
        flag "idle-tcp" <N> on [Pingpong] IDLE "Idle connected TCP sockets of this end", gives(Local("")), default("0"), aliases(&["n-tcpc"]);
        flag "remote-idle-tcp" <N> on [Pingpong] IDLE "Idle connected TCP sockets of the far end [default: as this end]", gives(Remote);
    "idle_tcp_listen" Whole Ends(idle.tcp_listening = whole), default("0"), of(&[Pingpong]), about("Idle listening TCP sockets of each end.");
        flag "idle-tcp-listen" <N> on [Pingpong] IDLE "Idle listening TCP sockets of this end", gives(Local("")), default("0"), aliases(&["n-tcpl"]);
        flag "remote-idle-tcp-listen" <N> on [Pingpong] IDLE "Idle listening TCP sockets of the far end [default: as this end]", gives(Remote);
    "nodelay" Switch Socket(nodelay = on), applies_to(Probe::WITH_PEER), about("TCP_NODELAY (default true, for `stream` false).");
        flag "no-nodelay" = "false" on MESSAGES SOCKET "Leave Nagle's algorithm on (no TCP_NODELAY)";
        flag "nodelay" = "true" on [Stream] SOCKET
            "Turn Nagle's algorithm off (TCP_NODELAY); iperf and netperf leave it on for bulk data too", short(&['N']);
    "connected" Switch Socket(connected = on), default("true"), of(MESSAGES),
        about("Whether UDP sockets are connected: without it they use sendto and recvfrom.");
        flag "unconnected" = "false" on MESSAGES SOCKET "Do not connect UDP sockets: sendto and recvfrom";
    "more" Switch Socket(more = on), default("false"), of(MESSAGES);
        flag "more" = "true" on MESSAGES SOCKET "MSG_MORE on all but the last message of a round";
    "ttl" Whole Socket(ttl), applies_to(Probe::WITH_PEER), about("Time to live, or hop limit, of data (default: the system's, 1 for multicast).");
        flag "ttl" <N> on ROUTED SOCKET "Time to live, or hop limit, of data";
        flag "ttl" <N> on [Ping] TOP "Time to live, or hop limit";
    "frame_backend" Text Socket(frame_backend = unless_unset(parsed)), of(&[Pingpong, Rr]), over(&[Protocol::Frame]),
        about("How `frame` gets past the kernel at both ends: `zero-copy`, `native`, `generic` or `packet` (default: the first that opens)."),
        shown(Shown { values: &["zero-copy", "native", "generic", "packet"], ..PLAIN });
        flag "frame-backend" <BACKEND> on [Pingpong, Rr] SOCKET
            "How frames get past the kernel at both ends: zero-copy, native, generic (AF_XDP), packet (AF_PACKET) [default: the \
             first that opens]";
    "mcast" Address Socket(multicast), over(&[Protocol::Udp]), about("Multicast group for udp.");
        flag "mcast" <GROUP> on MESSAGES SOCKET
            "Multicast group that carries UDP messages both ways [sfnt-pingpong's are 224.1.2.48 and ff05::142]";
    "mcast_interface" Text Spec(|spec, value| group(spec, "mcast_interface")?.interface = Some(text(value)?)), of(MESSAGES),
        over(&[Protocol::Udp]);
        flag "mcast-interface" <IF> on MESSAGES SOCKET "Interface of the group by name or address", aliases(&["mcastintf"]),
            requires("mcast");
    "mcast_loop" Switch Spec(loops_back), default("false"), of(MESSAGES), over(&[Protocol::Udp]);
        flag "mcast-loop" = "true" on MESSAGES SOCKET "Loop sent multicast messages back to this host", aliases(&["mcastloop"]),
            requires("mcast");
}
