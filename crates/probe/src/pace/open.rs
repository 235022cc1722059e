//! The ways to one or several reflectors: a control session each; a data socket each, or one for a multicast group.

use super::group::Group;
use crate::document::PathInfo;
use crate::peer::{self, DataPath, Peer, UnprovedPath};
use crate::session::Session;
use crate::{Context, ProbeError, check, local};
use clock::Clock;
use model::worker::{ProbeTask, Target};
use model::{ProbeSpec, Protocol, StampClock, Stamps};
use net::DataSocket;
use net::stamps::SentStamps;
use std::net::SocketAddr;
use wire::{OpenRequest, Token, data};

/// Reflectors at most: each has a session, and a slot for each message in flight.
pub(crate) const MOST_PEERS: usize = 256;

pub(crate) struct Remote {
    pub session: Session,
    pub path_info: PathInfo,
    /// Its process, where this one started it.
    pub _child: Option<local::Reflector>,
}

pub(crate) struct Sockets {
    pub list: Vec<DataSocket>,
    /// The tags that messages carry: one each, or one for all where one message goes to all.
    pub tags: Vec<u64>,
    pub peers: u16,
    stamps: Stamps,
}

impl Sockets {
    pub(crate) fn stamped(&self) -> bool {
        self.stamps != Stamps::None
    }

    /// The stamps of what is sent from now on, by socket; each phase asks anew, as the kernel's numbers begin anew.
    pub(crate) fn sent_stamps(&mut self, bytes: usize) -> Result<Vec<SentStamps>, ProbeError> {
        let mut all = Vec::with_capacity(self.list.len());
        for socket in &mut self.list {
            socket.stamp(self.stamps, true)?;
            all.extend(socket.sent_stamps(bytes)?);
        }
        Ok(all)
    }

    pub(crate) fn stamp_clock(&self) -> Option<StampClock> {
        let clocks = self.list.iter().filter_map(DataSocket::stamp_clock);
        clocks.max_by_key(|clock| (clock.stamps == Stamps::Kernel, clock.error_ns))
    }
}

/// All that a measurement is made over. The sessions end after their data paths.
pub(crate) struct PacePaths {
    pub sockets: Sockets,
    pub remotes: Vec<Remote>,
    /// The PGM transport, which replaces the sockets.
    pub group: Option<Group>,
    link: Option<Link>,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    bits_per_second: f64,
    mtu: u32,
    v6: bool,
    protocol: Protocol,
}

impl PacePaths {
    /// Datagrams that our sockets dropped so far for want of room.
    pub(crate) fn dropped(&self) -> u64 {
        let of_sockets = self.sockets.list.iter().map(|socket| u64::from(socket.dropped().unwrap_or(0)));
        of_sockets.sum::<u64>() + self.group.as_ref().map_or(0, Group::dropped)
    }

    /// Messages of a size that the link carries in a second, where it reports its speed.
    pub(crate) fn line_pps(&self, size: u32) -> Option<f64> {
        let link = self.link?;
        Some(
            link.bits_per_second
                / 8.0
                / super::wire_size::bytes_on_the_wire(size, link.mtu, link.protocol, link.v6) as f64,
        )
    }

    pub(crate) fn close(self) {
        if let Some(group) = self.group {
            group.close();
        }
        for remote in self.remotes {
            remote.session.close();
        }
    }
}

pub(crate) fn open(task: &ProbeTask, context: &Context, clock: Clock) -> Result<PacePaths, ProbeError> {
    let spec = &task.spec;
    let options = spec.socket()?;
    let stamps = spec.pace().map_or(Stamps::None, |pace| pace.stamps);
    let targets: Vec<&Target> = std::iter::once(&task.target).chain(&task.others).collect();
    let peers = u16::try_from(targets.len()).unwrap_or(u16::MAX);
    if options.protocol == Protocol::Pgm {
        let (group, remotes) = super::group::open(task, &targets, context, clock)?;
        let sockets = Sockets { list: Vec::new(), tags: vec![group.tag], peers, stamps: Stamps::None };
        return Ok(PacePaths { sockets, remotes, group: Some(group), link: None });
    }
    // Several reflectors of one group listen on one port, so that one message reaches all.
    let shared = if options.multicast.is_some() && targets.len() > 1 { Some(group_port()?) } else { None };
    let (port, group) = shared.unzip();
    let mut list: Vec<DataSocket> = Vec::new();
    let (mut tags, mut remotes) = (Vec::new(), Vec::new());
    for target in targets {
        let mut request = peer::request(spec)?;
        if let Some(asked) = &mut request.pace {
            (asked.port, asked.group) = (port, group.clone());
        }
        // One message, so one socket and one tag, for the whole group.
        if let (Some(socket), Some(_)) = (list.first_mut(), port) {
            remotes.push(join(spec, target, context, request, socket)?);
            continue;
        }
        let Peer { session, data_path, tag, path_info, _child } = peer::open_at(spec, target, context, request)?;
        let (Some(session), DataPath::Data(socket)) = (session, data_path) else {
            return check::conflict(
                "pace needs a reflector and one way for all messages",
                &format!("use {}, without --connect-each", Protocol::words_for(spec.probe())),
            );
        };
        list.push(*socket);
        tags.push(group.as_ref().map_or(tag, Token::tag));
        remotes.push(Remote { session, path_info, _child });
    }
    for socket in &mut list {
        socket.stamp(stamps, true)?;
    }
    let link = list.first().and_then(|socket| link(spec, socket));
    Ok(PacePaths { sockets: Sockets { list, tags, peers, stamps }, remotes, group: None, link })
}

/// One more reflector of a group whose socket is there.
fn join(
    spec: &ProbeSpec,
    target: &Target,
    context: &Context,
    request: OpenRequest,
    socket: &mut DataSocket,
) -> Result<Remote, ProbeError> {
    let UnprovedPath { mut session, opened, address, one_machine } =
        peer::request_path(spec, target, context, request)?;
    if !socket.also_from(address)? {
        return check::conflict(
            format!("two reflectors of the group have one address, {}, so their answers look the same", address.ip()),
            "give each one an address of its own (serve --bind)",
        );
    }
    let proof = data::prove(&opened.token);
    // To the group: those who are proved already take it for a message of another size.
    let seen_as = session.prove(spec.socket()?.protocol, || Ok(socket.send_once(&proof, peer::SHOW)?))?;
    let local = peer::local_address(socket).or(seen_as);
    Ok(Remote {
        session,
        path_info: PathInfo { one_machine, ..peer::path_info(context, local, address) },
        _child: None,
    })
}

/// A port for all reflectors of a group, from the dynamic ports (RFC 6335, section 6), and the source of its tag.
fn group_port() -> Result<(u16, Token), ProbeError> {
    let mut random = [0; 18];
    getrandom::fill(&mut random).map_err(ProbeError::Random)?;
    let [low, high, token @ ..] = random;
    Ok((49_152 + u16::from_ne_bytes([low, high]) % 16_384, Token(token)))
}

/// The link towards the peer, where it reports its speed.
fn link(spec: &ProbeSpec, socket: &DataSocket) -> Option<Link> {
    let peer: SocketAddr = socket.peer_address()?;
    let route = net::route::lookup(peer).ok().filter(|route| !route.local)?;
    let name = spec.initiator.device.clone().or(route.interface)?;
    let nic = host::facts::host(&host::knob::Machine::running()).nics.into_iter().find(|nic| nic.name == name)?;
    // A veth or a bridge reports a speed that nothing keeps it to.
    nic.bus.as_ref()?;
    let speed = f64::from(nic.speed_mbps.filter(|speed| *speed > 0)?);
    let mtu = route.mtu.or(nic.mtu)?;
    Some(Link { bits_per_second: speed * 1e6, mtu, v6: peer.is_ipv6(), protocol: spec.protocol()? })
}
