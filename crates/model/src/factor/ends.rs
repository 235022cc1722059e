//! Factors of both ends: how they wait and where they run, and the options of their sockets.

use super::flag::{ENDS, Flag, Gives, IDLE, SOCKET};
use super::{
    Factor, NAMED, PLAIN, Record, Sets, Shown, ValueType, address, on, parsed, sets, text, unless_unset, whole, word,
};
use crate::Probe::{Pace, Ping, Pingpong, Rr, Stream, Wake};
use crate::{EndSpec, ModelError, Multicast, Probe, ProbeSpec, Protocol};

/// The commands with an endpoint.
const ENDED: &[Probe] = &[Pingpong, Rr, Pace, Stream];
/// Those that send single messages.
const MESSAGES: &[Probe] = &[Pingpong, Rr, Pace];

const fn this(long: &'static str, value_name: &'static str, help: &'static str, far: &'static str) -> Flag {
    Flag::value(long, ENDED, value_name, help).gives(Gives::Local(far)).heading(ENDS)
}

const fn far(long: &'static str, value_name: &'static str, help: &'static str) -> Flag {
    Flag::value(long, ENDED, value_name, help).gives(Gives::Remote).heading(ENDS)
}

const fn both(long: &'static str, on: &'static [Probe], value_name: &'static str, help: &'static str) -> Flag {
    Flag::value(long, on, value_name, help).heading(ENDS)
}

/// A flag of `ping`, which has one end.
const fn echo(long: &'static str, value_name: &'static str, help: &'static str, far: &'static str) -> Flag {
    alone(long, &[Ping], value_name, help, far)
}

/// A flag of probes that have one end.
const fn alone(
    long: &'static str,
    on: &'static [Probe],
    value_name: &'static str,
    help: &'static str,
    far: &'static str,
) -> Flag {
    Flag::value(long, on, value_name, help).gives(Gives::Local(far))
}

const fn socket(flag: Flag) -> Flag {
    flag.heading(SOCKET)
}

/// Idle descriptors of one kind.
macro_rules! idle {
    ($name:literal, $field:ident, $long:literal, $what:literal, $alias:literal) => {
        Factor::new($name, ValueType::Whole, sets!(Ends, idle.$field = whole))
            .about(concat!($what, " of each end."))
            .default("0")
            .of(&[Pingpong])
            .flags(&[
                Flag::value($long, &[Pingpong], "N", concat!($what, " of this end"))
                    .gives(Gives::Local(""))
                    .default("0")
                    .aliases(&[$alias])
                    .heading(IDLE),
                Flag::value(
                    concat!("remote-", $long),
                    &[Pingpong],
                    "N",
                    concat!($what, " of the far end [default: as this end]"),
                )
                .gives(Gives::Remote)
                .heading(IDLE),
            ])
    };
}

/// A CPU, or `any`.
fn cpu(end: &mut EndSpec, value: &super::Value) -> Result<(), ModelError> {
    let text = word(value);
    let number = text.parse::<u32>().ok().filter(|&cpu| cpu <= crate::cpus::MAX_CPU);
    if number.is_none() && text != "any" {
        return Err(ModelError::grammar("CPU", text, "use a number, 'any', or 'initiator;reflector' such as \"0;1\""));
    }
    end.cpu = number;
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

pub(super) static FACTORS: [Factor; 22] = [
    Factor::new("receive", ValueType::Text, sets!(Ends, receive = parsed))
    .about("Receive mode: `block`, `spin`, `poll`, `select`, `epoll`, `epoll-mod` or `epoll-adddel`.")
    .default("block")
    .shown(Shown { values: &["block", "spin", "poll", "select", "epoll", "epoll-mod", "epoll-adddel"], ..PLAIN })
    .record(Record::Always)
    .of_messages()
    .flags(&[
        this(
            "receive",
            "MODE",
            "How this end waits for a message: block, spin, poll, select, epoll, epoll-mod, epoll-adddel",
            "",
        )
        .default("block")
        .daily_on(MESSAGES),
        far("remote-receive", "MODE", "How the far end waits [default: as this end]; iocp where it is winpoint on Windows"),
    ]),
    Factor::new("policy", ValueType::Text, sets!(Ends, policy = parsed))
    .about("Scheduling policy: `other`, `batch`, `idle`, `fifo:N` or `rr:N`, N from 1 to 99.")
    .default("other")
    .shown(Shown { values: &["other", "batch", "idle"], labels: &[("other", "policy other")], ..PLAIN })
    .record(Record::Always)
    .flags(&[
        this("policy", "POLICY", "Scheduling policy of this end: other, batch, idle, fifo:N, rr:N", "other")
            .default("other")
            .daily_on(MESSAGES),
        far("remote-policy", "POLICY", "Scheduling policy of the far end [default: other]"),
        alone("policy", &[Ping, Wake], "POLICY", "Scheduling policy: other, batch, idle, fifo:N, rr:N", "other")
            .default("other")
            .daily(),
        Flag::value("priority", &[Wake], "N", "SCHED_FIFO with this priority, 1 to 99: --policy fifo:N")
            .gives(Gives::After("fifo:"))
            .short(&['p'])
            .conflicts(&["policy"])
            .daily(),
    ]),
    Factor::new("cpu", ValueType::Text, Sets::Ends(cpu))
        .about("CPU of each end: a number, or `any`.")
        .default("any")
        .shown(Shown { title: "CPU", values: &["any"], baselines: 1, labels: &[("any", "any CPU")], ..NAMED })
        .record(Record::Always)
        .flags(&[
            this("cpu", "N", "CPU of this end", "any").aliases(&["cpus"]).daily(),
            far("remote-cpu", "N", "CPU of the far end"),
            both("affinity", ENDED, "N;N", "CPU of each end as in sfnt-pingpong: THIS;FAR, or one number for both")
                .conflicts(&["cpu", "remote-cpu"])
                .hidden(),
            echo("cpu", "N", "CPU to run on", "any").aliases(&["cpus"]).daily(),
        ]),
    Factor::new("busy_poll_us", ValueType::Whole, sets!(Ends, busy_poll_us = unless_unset(whole)))
    .about("SO_BUSY_POLL in µs (default: the system's).")
    .of_messages()
    .flags(&[
        this("busy-poll", "US", "SO_BUSY_POLL of this end in µs", "default"),
        far("remote-busy-poll", "US", "SO_BUSY_POLL of the far end in µs"),
    ]),
    Factor::new("send_buffer", ValueType::Whole, sets!(Ends, send_buffer_bytes = unless_unset(whole)))
    .about("SO_SNDBUF of both ends in bytes (default: the system's).")
    .of_messages()
    .flags(&[both("send-buffer", ENDED, "BYTES", "SO_SNDBUF of both ends in bytes")]),
    Factor::new("receive_buffer", ValueType::Whole, sets!(Ends, receive_buffer_bytes = unless_unset(whole)))
    .about("SO_RCVBUF of both ends in bytes (default: the system's).")
    .of_messages()
    .flags(&[both("receive-buffer", ENDED, "BYTES", "SO_RCVBUF of both ends in bytes")]),
    Factor::new("bind", ValueType::Address, sets!(Ends, bind = unless_unset(address)))
    .about("Local address of the data socket of each end (default: as routed, for the reflector the one it serves at).")
    .of_messages()
    .flags(&[
        this("bind", "ADDR", "Local address of the data socket", "default"),
        far("remote-bind", "ADDR", "Local address of the far end's data socket [default: the one that it serves at]"),
        echo("bind", "ADDR", "Local address", "default"),
    ]),
    Factor::new("device", ValueType::Text, sets!(Ends, device = unless_unset(text)))
    .about("Network device that the data socket of each end is bound to (default: none).")
    .of_messages()
    .flags(&[
        this("device", "DEV", "Network device that the data socket is bound to", "default")
            .aliases(&["bindtodev", "bind-dev"]),
        far("remote-device", "DEV", "Network device that the far end's data socket is bound to"),
        echo("device", "DEV", "Network device that the socket is bound to", "default"),
    ]),
    idle!("idle_pipes", pipes, "idle-pipes", "Idle pipes", "n-pipe"),
    idle!("idle_unix_dgram", unix_datagrams, "idle-unix-dgram", "Idle UNIX datagram sockets", "n-unix-d"),
    idle!("idle_unix_stream", unix_streams, "idle-unix-stream", "Idle UNIX stream sockets", "n-unix-s"),
    idle!("idle_udp", udp, "idle-udp", "Idle UDP sockets", "n-udp"),
    idle!("idle_tcp", tcp_connected, "idle-tcp", "Idle connected TCP sockets", "n-tcpc"),
    idle!("idle_tcp_listen", tcp_listening, "idle-tcp-listen", "Idle listening TCP sockets", "n-tcpl"),
    Factor::new("nodelay", ValueType::Switch, sets!(Socket, nodelay = on))
    .about("TCP_NODELAY (default true, for `stream` false).")
    .of_messages()
    .flags(&[
        socket(Flag::switch("no-nodelay", MESSAGES, "false", "Leave Nagle's algorithm on (no TCP_NODELAY)")),
        socket(Flag::switch(
            "nodelay",
            &[Stream],
            "true",
            "Turn Nagle's algorithm off (TCP_NODELAY); iperf and netperf leave it on for bulk data too",
        ))
        .short(&['N']),
    ]),
    Factor::new("connected", ValueType::Switch, sets!(Socket, connected = on))
    .about("Whether UDP sockets are connected: without it they use sendto and recvfrom.")
    .default("true")
    .of(MESSAGES)
    .flags(&[socket(Flag::switch(
        "unconnected",
        MESSAGES,
        "false",
        "Do not connect UDP sockets: sendto and recvfrom",
    ))]),
    Factor::new("more", ValueType::Switch, sets!(Socket, more = on))
    .default("false")
    .of(MESSAGES)
    .flags(&[socket(Flag::switch("more", MESSAGES, "true", "MSG_MORE on all but the last message of a round"))]),
    Factor::new(
        "ttl",
        ValueType::Whole,
        Sets::Socket(|socket, value| {
            let ttl = whole(value)?;
            let out = |_| ModelError::range("ttl", ttl, "0 to 255");
            socket.ttl = Some(u8::try_from(ttl).map_err(out)?);
            Ok(())
        }),
    )
    .about("Time to live, or hop limit, of data (default: the system's, 1 for multicast).")
    .of_messages()
    .flags(&[
        socket(Flag::value("ttl", ENDED, "N", "Time to live, or hop limit, of data")),
        Flag::value("ttl", &[Ping], "N", "Time to live, or hop limit"),
    ]),
    Factor::new("frame_backend", ValueType::Text, sets!(Socket, frame_backend = unless_unset(parsed)))
    .about("How `frame` gets past the kernel at both ends: `zero-copy`, `native`, `generic` or `packet` (default: the first that opens).")
    .of(&[Pingpong, Rr])
    .over(&[Protocol::Frame])
    .shown(Shown { values: &["zero-copy", "native", "generic", "packet"], ..PLAIN })
    .flags(&[socket(Flag::value(
        "frame-backend",
        &[Pingpong, Rr],
        "BACKEND",
        "How frames get past the kernel at both ends: zero-copy, native, generic (AF_XDP), packet (AF_PACKET) [default: the first that opens]",
    ))]),
    Factor::new(
        "mcast",
        ValueType::Address,
        Sets::Socket(|socket, value| {
            let group = address(value)?;
            socket.multicast = Some(Multicast { group, interface: None, loopback: false });
            Ok(())
        }),
    )
    .about("Multicast group for udp.")
    .over(&[Protocol::Udp])
    .flags(&[socket(Flag::value(
        "mcast",
        MESSAGES,
        "GROUP",
        "Multicast group that carries UDP messages both ways [sfnt-pingpong's are 224.1.2.48 and ff05::142]",
    ))]),
    Factor::new(
        "mcast_interface",
        ValueType::Text,
        Sets::Spec(|spec, value| {
            group(spec, "mcast_interface")?.interface = Some(text(value)?);
            Ok(())
        }),
    )
    .of(MESSAGES)
    .over(&[Protocol::Udp])
    .flags(&[socket(
        Flag::value("mcast-interface", MESSAGES, "IF", "Interface of the group by name or address")
            .aliases(&["mcastintf"])
            .requires("mcast"),
    )]),
    Factor::new(
        "mcast_loop",
        ValueType::Switch,
        Sets::Spec(|spec, value| {
            if on(value)? {
                group(spec, "mcast_loop")?.loopback = true;
            }
            Ok(())
        }),
    )
    .default("false")
    .of(MESSAGES)
    .over(&[Protocol::Udp])
    .flags(&[socket(
        Flag::switch("mcast-loop", MESSAGES, "true", "Loop sent multicast messages back to this host")
            .aliases(&["mcastloop"])
            .requires("mcast"),
    )]),
];
