//! What can go wrong before and after the measured loop. What goes wrong in it is [`crate::PathError`].

use model::Receive;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// A step that failed, with what it was done to and the remedy where a user can act.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    #[error("address '{given}' cannot be read: {why}")]
    Address { given: String, why: &'static str },
    #[error("host '{host}' is not known: {cause}: use an address, or add the name to DNS or /etc/hosts")]
    UnknownHost { host: String, cause: io::Error },
    #[error("host '{host}' has no {family} address: leave the family out, or use another name")]
    NoAddressOfFamily { host: String, family: &'static str },
    #[error("network interface '{name}' does not exist: see 'ip link' for those that do")]
    NoInterface { name: String },
    #[error("receive mode {mode} is for winpoint, on Windows: use epoll here")]
    OnlyWindows { mode: Receive },
    #[error("no network interface has the address {address}: see 'ip address' for those that exist")]
    NoInterfaceWithAddress { address: IpAddr },
    /// Time stamps that the system does not take.
    #[error("time stamps: {what}")]
    Stamps {
        /// What there is instead, and the remedy.
        what: String,
    },
    #[error("making a {what} socket failed: {cause}")]
    Socket { what: &'static str, cause: io::Error },
    #[error(transparent)]
    Hop(netlink::HopError),
    #[error(transparent)]
    Frames(xsk::XskError),
    #[error("{interface}: the frame session of {holder} has its frames, and one at a time can: wait for its end")]
    FramesHeld { interface: String, holder: SocketAddr },
    #[error("this kernel makes no {name} socket ({cause}): {remedy}")]
    NotInKernel { name: &'static str, cause: io::Error, remedy: &'static str },
    #[error("making {what} failed: {cause}: ask for fewer idle descriptors, or raise 'ulimit -n'")]
    Descriptors { what: &'static str, cause: io::Error },
    #[error(
        "making idle descriptors ({what}) failed: {cause}: the loopback interface must be up ('ip link set lo up')"
    )]
    Idle { what: &'static str, cause: io::Error },
    #[error("setting {option} to {value} failed: {cause}")]
    Option { option: &'static str, value: String, cause: io::Error },
    #[error(
        "setting SO_BUSY_POLL to {microseconds} us needs CAP_NET_ADMIN: run as root, or raise net.core.busy_read instead"
    )]
    BusyPoll { microseconds: u32 },
    #[error("{option} of {asked} bytes was cut to {got}: raise {sysctl} to at least {asked}")]
    BufferCut { option: &'static str, asked: u32, got: u32, sysctl: &'static str },
    #[error(
        "binding to network device '{device}' failed: {cause}: see 'ip link'; before Linux 5.7 it needs CAP_NET_RAW"
    )]
    Device { device: String, cause: io::Error },
    #[error("{protocol} address {address} is in use: choose another port, or end the program that has it ('ss -lpn')")]
    InUse { protocol: &'static str, address: SocketAddr },
    #[error("binding {protocol} address {address} failed: {cause}: use an address of this host ('ip address')")]
    Bind { protocol: &'static str, address: SocketAddr, cause: io::Error },
    #[error("{address} refused the connection: is 'windhover serve' running there?")]
    Refused { address: SocketAddr },
    #[error("{address} did not answer within {milliseconds} ms: check the address, the route and the firewall")]
    ConnectTimeout { address: SocketAddr, milliseconds: u128 },
    #[error(
        "no local port is left for a connection to {address}: widen net.ipv4.ip_local_port_range, or wait a minute"
    )]
    NoPort { address: SocketAddr },
    #[error("connecting to {address} failed: {cause}")]
    Connect { address: SocketAddr, cause: io::Error },
    #[error("accepting a data connection at {address} failed: {cause}")]
    Accept { address: SocketAddr, cause: io::Error },
    #[error("joining multicast group {group} on {interface} failed: {cause}: check that the interface is up")]
    Join { group: IpAddr, interface: String, cause: io::Error },
    /// The group has no route through the interface: IPv6 needs one each, and Linux makes none on loopback.
    #[error(
        "there is no route to multicast group {group} on {interface}: add one with 'ip -6 route add {kind} ff00::/8 dev {interface} table local'"
    )]
    NoGroupRoute { group: IpAddr, interface: String, kind: &'static str },
    #[error("{one} and {other} are of different families: use two IPv4 or two IPv6 addresses")]
    FamilyMismatch { one: IpAddr, other: IpAddr },
    #[error("select cannot watch descriptor {fd}: it ends at 1023: use fewer idle descriptors, or poll or epoll")]
    SelectLimit { fd: i32 },
    #[error("making the epoll set failed: {cause}")]
    Epoll { cause: io::Error },
    #[error("inherited descriptor {fd} is not usable as {protocol}: {cause}")]
    Inherited { fd: i32, protocol: model::Protocol, cause: io::Error },
    /// Something that this protocol cannot do.
    #[error("{protocol} {why}")]
    Unsupported {
        protocol: model::Protocol,
        /// What is not possible, with the remedy.
        why: &'static str,
    },
    #[error(
        "IP protocol {protocol} needs CAP_NET_RAW: run as root, let systemd give it (AmbientCapabilities=CAP_NET_RAW), or use UDP"
    )]
    RawNotPermitted { protocol: u8 },
    #[error("the IPv6 router alert needs CAP_NET_RAW: run as root, or do without it")]
    RouterAlertNotPermitted,
    #[error("the data socket has no peer yet")]
    NoPeer,
    #[error("{call} outside the measured loop failed: {cause}")]
    Exchange { call: &'static str, cause: io::Error },
    #[error(
        "capturing packets needs CAP_NET_RAW: run as root, or let systemd give it (AmbientCapabilities=CAP_NET_RAW)"
    )]
    CaptureNotPermitted,
    #[error("capturing on {interface} failed: {what}: {cause}")]
    Capture { interface: String, what: &'static str, cause: io::Error },
    #[error("the capture file {} cannot be written: {cause}: name another file", path.display())]
    CaptureFile { path: std::path::PathBuf, cause: io::Error },
    #[error("reading {what} failed: {cause}")]
    ReadOut { what: &'static str, cause: io::Error },
    #[error("there is no route to {address}: {cause}: check 'ip route get {address}'")]
    NoRoute { address: IpAddr, cause: io::Error },
    #[error(
        "ICMP echo is not permitted here: run as root, or allow this group with 'sysctl net.ipv4.ping_group_range=\"0 2147483647\"'"
    )]
    PingNotPermitted,
}
