//! `windhover pgm`: one end of a PGM conversation by hand.

mod ping;
mod recv;
mod reflect;
mod send;
mod tell;

use super::capture;
use super::key::random;
use crate::cli::pgm::{GroupArgs, Pgm, Receiver, Source};
use crate::output::{Failure, Output};
use anyhow::{Context as _, anyhow};
use model::{PgmCarrier, PgmSpec};
use net::capture::{GroupCarrier, GroupFlow};
use net::group::GroupOptions;
use pgm::{Gsi, ReceiverConfig, SourceConfig, Sqn, Tsi};
use pgm_io::spec::{self, PROTOCOL};
use pgm_io::{PgmIoError, PgmSocket, PgmSocketOptions};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub(crate) fn run(command: &Pgm, output: &Output) -> Result<u8, Failure> {
    let (name, flags, group, reply) = match command {
        Pgm::Send(send) => ("send", &send.group_args, send.group, None),
        Pgm::Recv(recv) => ("recv", &recv.group_args, recv.group, None),
        Pgm::Ping(ping) => ("ping", &ping.group_args, ping.group, Some(&ping.reply)),
        Pgm::Reflect(reflect) => ("reflect", &reflect.group_args, reflect.group, Some(&reflect.reply)),
    };
    // Of both directions.
    let reply = reply.map(|reply| reply_group(group, reply.reply_group)).transpose()?;
    let spec = flags.spec(group, None, None);
    let carrier = match spec.carrier {
        PgmCarrier::Udp => GroupCarrier::Udp(spec.udp_port),
        PgmCarrier::Raw => GroupCarrier::Ip(PROTOCOL),
    };
    let groups = std::iter::once(group).chain(reply).collect();
    let comment = format!("pgm {name} {group}");
    let flow = GroupFlow { carrier, groups };
    let recording = capture::of_group(&flags.pcap, comment, flow, flags.interface.as_deref())?;
    let code = match command {
        Pgm::Send(arguments) => send::run(arguments, output),
        Pgm::Recv(arguments) => recv::run(arguments, output),
        Pgm::Ping(arguments) => ping::run(arguments, output),
        Pgm::Reflect(arguments) => reflect::run(arguments, output),
    };
    if let Some(recording) = recording {
        capture::finish(&recording, &flags.pcap, output);
    }
    code
}

/// Opens one end: the group that it publishes on and the one that it hears, each with its flags.
fn open(
    flags: &GroupArgs,
    publishes: Option<(IpAddr, &Source)>,
    hears: Option<(IpAddr, &Receiver)>,
) -> Result<PgmSocket, Failure> {
    let groups = [publishes.map(|(group, _)| group), hears.map(|(group, _)| group)];
    if let Some(group) = groups.into_iter().flatten().find(|group| !group.is_multicast()) {
        return Err(Failure::usage(anyhow!("{group} is no multicast group: use one of 224.0.0.0/4 or ff00::/8")));
    }
    let group = groups.into_iter().flatten().next().context("neither a source nor a receiver")?;
    let (local, interface) = own(flags, group)?;
    let (source_timers, nak_timers) =
        (publishes.map(|(_, flags)| &flags.timers), hears.map(|(_, flags)| &flags.timers));
    let spec = flags.spec(group, source_timers, nak_timers);
    let mut options = PgmSocketOptions::new(spec::carrier(&spec), local);
    options.network = GroupOptions { interface, loopback: !flags.no_loop, ttl: flags.ttl, ..options.network };
    options.source = publishes.map(|(group, flags)| source(&spec, group, flags, local)).transpose()?;
    options.receiver = hears.map(|(group, flags)| receiver(&spec, group, flags)).transpose()?;
    PgmSocket::open(&options).map_err(|error| match error {
        PgmIoError::Source(_) | PgmIoError::Receiver(_) => asked(&error),
        PgmIoError::Memory { .. } | PgmIoError::Family { .. } | PgmIoError::AddressInUse { .. } => {
            Failure::usage(error)
        }
        error => Failure::new(1, error),
    })
}

/// Parameters that make no sense: the cause is in the words already.
fn asked(error: &PgmIoError) -> Failure {
    Failure::usage(anyhow!("{error}"))
}

/// The own address, and the number of the interface where it was asked for, else 0.
fn own(flags: &GroupArgs, group: IpAddr) -> Result<(IpAddr, u32), Failure> {
    if let Some(local) = flags.local.filter(|local| !local.is_loopback()) {
        net::interface::with_address(local).map_err(Failure::usage)?;
    }
    let same_family = |address: &IpAddr| address.is_ipv4() == group.is_ipv4();
    let Some(text) = &flags.interface else {
        const REMEDY: &str = "say which way to take with --interface";
        let local = match flags.local {
            Some(local) => local,
            None => {
                let source = net::route::source_for(SocketAddr::new(group, 9));
                let source = source.context(REMEDY).map_err(Failure::usage)?;
                if source.is_unspecified() {
                    let why = anyhow!("{REMEDY}: the route to {group} leads over an interface without an address");
                    return Err(Failure::usage(why));
                }
                source
            }
        };
        return Ok((local, 0));
    };
    let index = net::interface::named(text).map_err(Failure::usage)?;
    let given = flags.local.or_else(|| text.parse().ok());
    if let Some(local) = given {
        return Ok((local, index));
    }
    let name = net::interface::name_of(index).map_err(Failure::usage)?;
    let found = net::interface::addresses()?.into_iter().find(|own| own.name == name && same_family(&own.address));
    let family = if group.is_ipv4() { "IPv4" } else { "IPv6" };
    let found = found.ok_or_else(|| Failure::usage(anyhow!("interface {name} has no {family} address")))?;
    Ok((found.address, index))
}

fn source(spec: &PgmSpec, group: IpAddr, flags: &Source, local: IpAddr) -> Result<SourceConfig, Failure> {
    let [a, b, c, d, port @ ..]: [u8; 8] = random()?;
    let gsi = flags.gsi.unwrap_or(match local {
        // People know the source by its address then.
        IpAddr::V4(local) => {
            let [first, second, third, fourth] = local.octets();
            Gsi([first, second, third, fourth, a, b])
        }
        IpAddr::V6(_) => Gsi([a, b, c, d, port[0] ^ 0x5a, port[1] ^ 0x5a]),
    });
    let port = flags.source_port.unwrap_or_else(|| u16::from_be_bytes([port[2], port[3]]).max(1));
    let mut config = wire::pgm::source(spec, Tsi { gsi, port }, group, local);
    config.first = Sqn(flags.first);
    config.check().map_err(|error| asked(&PgmIoError::Source(error)))?;
    Ok(config)
}

fn receiver(spec: &PgmSpec, group: IpAddr, flags: &Receiver) -> Result<ReceiverConfig, Failure> {
    let sources = usize::from(flags.sources);
    let mut config = wire::pgm::receiver(spec, group, sources, u64::from_be_bytes(random()?));
    config.expiry_ns = ns(flags.expiry);
    config.parity = flags.use_fec;
    config.check().map_err(|error| asked(&PgmIoError::Receiver(error)))?;
    Ok(config)
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn reply_group(group: IpAddr, asked: Option<IpAddr>) -> Result<IpAddr, Failure> {
    let reply = PgmSpec { reply_group: asked, ..PgmSpec::new(group) }.reply_group();
    if reply == group || !reply.is_multicast() || reply.is_ipv4() != group.is_ipv4() {
        let why = anyhow!("answers cannot go to {reply}: give another group of the same family with --reply-group");
        return Err(Failure::usage(why));
    }
    Ok(reply)
}
