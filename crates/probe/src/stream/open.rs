//! The session of a stream and its sockets, all of them proved.

use super::{HEARTBEAT_MS, longest};
use crate::document::PathInfo;
use crate::peer::{SHOW, UnprovedPath};
use crate::session::{OPENING, Session};
use crate::{Context, ProbeError, peer};
use model::worker::ProbeTask;
use model::{Finding, FindingId, Protocol, Role, SocketSpec, StreamSpec};
use net::DataSocket;
use std::net::SocketAddr;
use wire::{OpenRequest, StreamRequest};

/// From this part of a limit on, the limit and not the network may have been what held a stream back.
const NEARLY: f64 = 0.8;
pub(super) struct OpenStream {
    pub(super) session: Session,
    pub(super) sockets: Vec<DataSocket>,
    pub(super) stream: StreamSpec,
    pub(super) datagrams: bool,
    pub(super) tag: u64,
    pub(super) path_info: PathInfo,
}

pub(super) fn open(task: &ProbeTask, context: &Context, size: u32) -> Result<OpenStream, ProbeError> {
    let spec = &task.spec;
    let stream = spec.stream().cloned().unwrap_or_default();
    let options = spec.socket()?;
    let datagrams = options.protocol == Protocol::Udp;
    // Only a connected socket receives from one peer alone.
    let socket = SocketSpec { connected: true, ..options.clone() };
    let longest_ms = u32::try_from(longest(task).as_millis()).unwrap_or(u32::MAX);
    let request = OpenRequest {
        socket: socket.clone(),
        pings: 1,
        pongs: 1,
        max_size: size,
        connect_each: false,
        stream: Some(StreamRequest { spec: stream.clone(), longest_ms, live: true, heartbeat_ms: Some(HEARTBEAT_MS) }),
        ..peer::request(spec)?
    };
    let UnprovedPath { mut session, opened, address, one_machine } =
        peer::request_path(spec, &task.target, context, request)?;
    let count = stream.sockets() as usize;
    let ports = if datagrams { opened.ports.clone() } else { vec![opened.port; count] };
    if ports.len() != count {
        return Err(session.out_of_order(OPENING));
    }
    for port in ports.iter().filter(|port| **port != address.port()) {
        context.capture_data(spec, SocketAddr::new(address.ip(), *port), None)?;
    }
    let connect =
        |port: &u16| peer::connect_data(&socket, &spec.initiator, SocketAddr::new(address.ip(), *port), context);
    let mut sockets = ports.iter().map(connect).collect::<Result<Vec<_>, _>>()?;
    session.check_source(sockets.first().and_then(DataSocket::local_address))?;
    let mut shown = false;
    let seen_as = session.prove(options.protocol, || {
        // A connection delivers it; datagrams may be lost.
        if !datagrams && std::mem::replace(&mut shown, true) {
            return Ok(());
        }
        for (socket, number) in sockets.iter_mut().zip(0..) {
            socket.send_once(&wire::stream::prove(&opened.token, number), SHOW)?;
        }
        Ok(())
    })?;
    let own = sockets.first().and_then(peer::local_address);
    let path_info = PathInfo { one_machine, ..peer::path_info(context, own.or(seen_as), address) };
    Ok(OpenStream { session, sockets, stream, datagrams, tag: opened.token.tag(), path_info })
}

impl OpenStream {
    /// That the owner's limit decided how fast it went: nothing slower was asked for, and it was nearly reached. `went_bps`:
    /// sent up, and arrived of what came down.
    pub(super) fn held_back(&self, size: u32, went_bps: [Option<f64>; 2]) -> Option<Finding> {
        let of = |down| flow::limit(&self.session.limits, &self.stream, size, self.datagrams, down);
        let reached = [false, true].into_iter().zip(went_bps);
        reached.filter_map(|(down, went)| self.held_to(size, of(down)?, went?)).next()
    }

    fn held_to(&self, size: u32, ceiling: f64, went_bps: f64) -> Option<Finding> {
        let limit = ceiling * f64::from(self.stream.flows.max(1));
        let bits = limit * 8.0 * if self.datagrams { f64::from(size) } else { 1.0 };
        // A limit of millions of datagrams a second is no bound that a sender is likely to meet.
        let distant = self.datagrams && limit >= f64::from(flow::BEYOND_REACH_PPS);
        let asked = record::stream::asked(&self.stream, size, self.datagrams).0;
        let reached = went_bps >= NEARLY * bits;
        (!distant && reached && asked.is_none_or(|asked| asked > bits)).then(|| {
            Finding::at(
                FindingId::NotPermitted,
                Role::Reflector,
                format!(
                    "the endpoint's owner allows {:.1} Mbit/s of this, so no more was sent: have --max-rate or --max-bandwidth raised there",
                    bits / 1e6
                ),
            )
        })
    }
}
