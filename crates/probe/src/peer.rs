//! Opens the connection to the peer: control session, data path, its proof, and the facts about its addresses.

use crate::document::PathInfo;
use crate::pace::mean_rate;
use crate::session::{OPENING, Session};
use crate::{Context, ProbeError, check, local, opening};
use model::worker::{ProbeTask, Target};
use model::{EndSpec, Probe, ProbeSpec, SocketSpec};
use net::{DataSocket, NetError};
use std::net::SocketAddr;
use std::time::Duration;
use wire::{Key, OpenRequest, Opened, PaceRequest, data};

/// How long a TCP data connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the token may take to leave.
pub(crate) const SHOW: Duration = Duration::from_secs(1);

pub(crate) enum DataPath {
    Data(Box<DataSocket>),
    ConnectEach(SocketAddr),
    Echo(SocketAddr),
}

/// The peer: its control session (absent for ICMP echo) and the data path to it.
pub(crate) struct Peer {
    /// The control session; none where a kernel or another tool answers.
    pub session: Option<Session>,
    pub data_path: DataPath,
    /// The tag of messages that have room for one.
    pub tag: u64,
    pub path_info: PathInfo,
    /// The reflector's process, where this one started it. Last, so that its data path is closed before it is waited for.
    pub _child: Option<local::Reflector>,
}

impl DataPath {
    /// The only socket that carries messages.
    pub(crate) fn socket(&self) -> Option<&DataSocket> {
        if let Self::Data(socket) = self { Some(socket) } else { None }
    }
}

impl Peer {
    pub(crate) fn name(&self) -> String {
        match (&self.session, &self.path_info.peer) {
            (Some(session), _) => session.name.clone(),
            (None, Some(address)) => address.clone(),
            (None, None) => "this machine".to_owned(),
        }
    }
}

pub(crate) fn open(task: &ProbeTask, context: &Context) -> Result<Peer, ProbeError> {
    open_at(&task.spec, &task.target, context, request(&task.spec)?)
}

/// Opens the data path to one of several targets.
pub(crate) fn open_at(
    spec: &ProbeSpec,
    target: &Target,
    context: &Context,
    request: OpenRequest,
) -> Result<Peer, ProbeError> {
    if spec.probe() == Probe::Ping {
        let target = net::resolve(&target.control, 0, None)?;
        return Ok(Peer {
            session: None,
            data_path: DataPath::Echo(target),
            tag: 0,
            // Echoes have no port.
            path_info: PathInfo { peer: Some(target.ip().to_string()), ..path_info(context, None, target) },
            _child: None,
        });
    }
    if let Some(port) = spec.peer.port() {
        return without_session(spec, target, context, port);
    }
    if spec.is_local() {
        check::same_machine(spec)?;
        return local::open(spec, context);
    }
    let unproved = request_path(spec, target, context, request)?;
    over_network(spec, context, unproved)
}

/// The data path to another tool's server, which has no session.
fn without_session(spec: &ProbeSpec, target: &Target, context: &Context, port: u16) -> Result<Peer, ProbeError> {
    let address = net::resolve(&target.control, port, None)?;
    // Before it connects, so that a capture has the first packet.
    context.capture_data(spec, address, None)?;
    let socket = connect_data(spec.socket()?, &spec.initiator, address, context).map_err(|error| match error {
        ProbeError::Net(NetError::Refused { .. }) => {
            ProbeError::SilentServer { address: address.to_string(), program: spec.peer }
        }
        other => other,
    })?;
    context.capture_data(spec, address, socket.local_address())?;
    let path_info = path_info(context, local_address(&socket), address);
    Ok(Peer { session: None, data_path: DataPath::Data(Box::new(socket)), tag: 0, path_info, _child: None })
}

/// A data path that a reflector has opened and that is not proved yet.
pub(crate) struct UnprovedPath {
    pub session: Session,
    pub opened: Opened,
    /// The reflector's data address.
    pub address: SocketAddr,
    pub one_machine: bool,
}

/// Opens a control session and asks for a data path.
pub(crate) fn request_path(
    spec: &ProbeSpec,
    target: &Target,
    context: &Context,
    request: OpenRequest,
) -> Result<UnprovedPath, ProbeError> {
    let key = target.key.as_deref().map(Key::from_hex).transpose()?;
    let control = net::resolve(&target.control, net::DEFAULT_PORT, None)?;
    if is_local(control) {
        check::same_machine(spec)?;
    }
    context.capture_control(control, None)?;
    let mut session = Session::connect(control, key, &context.stop)?;
    session.host = target.host.clone().unwrap_or(session.host);
    context.capture_control(control, session.own_address())?;
    check::fits_session(spec, session.limits.max_session_s, &session.name)?;
    let opened = session.open(request)?;
    // Another namespace of this machine, such as a lab's other host, shares its CPUs.
    let one_machine = opened.machine.is_some() && opened.machine == host::boot_id();
    if one_machine {
        check::same_machine(spec)?;
    }
    let Some(address) = session.data_address(&opened) else {
        return Err(session.out_of_order(OPENING));
    };
    context.capture_data(spec, address, None)?;
    Ok(UnprovedPath { session, opened, address, one_machine })
}

pub(crate) fn request(spec: &ProbeSpec) -> Result<OpenRequest, ProbeError> {
    let rr = spec.rr().cloned().unwrap_or_default();
    Ok(OpenRequest {
        probe: spec.probe(),
        socket: spec.socket()?.clone(),
        end: spec.reflector.clone(),
        pings: spec.pings,
        pongs: spec.pongs,
        max_size: spec.sizes.max().max(rr.response_size.unwrap_or(0)),
        connect_each: rr.connect_each,
        pace: pace_request(spec),
        stream: None,
        cycle: None,
    })
}

/// What a reflector must know of messages at a rate.
fn pace_request(spec: &ProbeSpec) -> Option<PaceRequest> {
    let pace = spec.pace()?;
    let rates = pace.rates_pps.iter().map(|rate| mean_rate(&pace.shape, *rate));
    let fastest = rates.fold(1.0, f64::max).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 or more; `as` saturates")]
    let rate_pps = fastest as u32;
    Some(PaceRequest { rate_pps, every: pace.every, stamps: pace.stamps, ..PaceRequest::default() })
}

fn over_network(spec: &ProbeSpec, context: &Context, unproved: UnprovedPath) -> Result<Peer, ProbeError> {
    let UnprovedPath { mut session, opened, address, one_machine } = unproved;
    let options = spec.socket()?;
    let protocol = options.protocol;
    let tag = opened.token.tag();
    if spec.rr().is_some_and(|rr| rr.connect_each) {
        session.prove(protocol, || Ok(()))?;
        let path_info = PathInfo { one_machine, ..path_info(context, None, address) };
        return Ok(Peer {
            session: Some(session),
            data_path: DataPath::ConnectEach(address),
            tag,
            path_info,
            _child: None,
        });
    }
    let mut socket = connect_data(options, &spec.initiator, address, context)?;
    session.check_source(socket.local_address())?;
    context.capture_data(spec, address, socket.local_address())?;
    let proof = data::prove(&opened.token);
    let mut shown = false;
    let seen_as = session.prove(protocol, || {
        // What loses nothing delivers it.
        if !protocol.counts_losses() && std::mem::replace(&mut shown, true) {
            return Ok(());
        }
        Ok(socket.send_once(&proof, SHOW)?)
    })?;
    let path_info = PathInfo {
        one_machine,
        frame_backend: socket.frame_backend(),
        ..path_info(context, local_address(&socket).or(seen_as), address)
    };
    Ok(Peer { session: Some(session), data_path: DataPath::Data(Box::new(socket)), tag, path_info, _child: None })
}

pub(crate) fn connect_data(
    socket: &SocketSpec,
    end: &EndSpec,
    address: SocketAddr,
    context: &Context,
) -> Result<DataSocket, ProbeError> {
    if !socket.protocol.is_connection() {
        return Ok(DataSocket::connect(socket, end, address, CONNECT)?);
    }
    let (socket, end) = (socket.clone(), end.clone());
    Ok(opening::unless_stopped(&context.stop, move || DataSocket::connect(&socket, &end, address, CONNECT))??)
}

pub(crate) fn path_info(context: &Context, local: Option<SocketAddr>, peer: SocketAddr) -> PathInfo {
    PathInfo {
        host: host_name(),
        local: local.map(|address| address.to_string()),
        peer: Some(peer.to_string()),
        is_local: is_local(peer),
        loopback_intended: context.claims_loopback || peer.ip().to_canonical().is_loopback(),
        one_machine: false,
        frame_backend: None,
    }
}

/// Whether the kernel delivers to an address locally; unknown counts as not.
fn is_local(address: SocketAddr) -> bool {
    net::route::is_local(address.ip()).unwrap_or(false)
}

/// Our address, where the socket has one.
pub(crate) fn local_address(socket: &DataSocket) -> Option<SocketAddr> {
    socket.local_address().filter(|own| !own.ip().is_unspecified())
}

pub(crate) fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
