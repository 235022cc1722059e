//! `windhover pgm`: one end of a PGM conversation by hand.

mod ping;
mod recv;
mod reflect;
mod send;
mod tell;

use super::capture::Recording;
use crate::cli::pgm::{GroupArgs, Pgm, Receiver, Source};
use crate::output::{Failure, Output};
use anyhow::{Context as _, anyhow};
use model::{PgmCarrier, PgmSpec};
use net::capture::{GroupCarrier, GroupFlow};
use pgm::{Gsi, ReceiverConfig, SourceConfig, Sqn, Tsi};
use pgm_io::spec::{self, PROTOCOL};
use pgm_io::{PgmIoError, PgmSocket, PgmSocketOptions};
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub(crate) fn run(command: Pgm, output: &Output) -> Result<u8, Failure> {
    let recording = capture(&command)?;
    let code = match command {
        Pgm::Send(arguments) => send::run(&arguments, output),
        Pgm::Recv(arguments) => recv::run(&arguments, output),
        Pgm::Ping(arguments) => ping::run(&arguments, output),
        Pgm::Reflect(arguments) => reflect::run(&arguments, output),
    };
    if let Some(recording) = recording {
        recording.finish(output);
    }
    code
}

/// The capture of both ways that --pcap asks for.
fn capture(command: &Pgm) -> Result<Option<Recording>, Failure> {
    let (name, flags, group, reply) = match command {
        Pgm::Send(arguments) => ("send", &arguments.group_args, arguments.group, None),
        Pgm::Recv(arguments) => ("recv", &arguments.group_args, arguments.group, None),
        Pgm::Ping(arguments) => (
            "ping",
            &arguments.group_args,
            arguments.group,
            Some(reply_group(arguments.group, arguments.reply.reply_group)?),
        ),
        Pgm::Reflect(arguments) => (
            "reflect",
            &arguments.group_args,
            arguments.group,
            Some(reply_group(arguments.group, arguments.reply.reply_group)?),
        ),
    };
    let spec = flags.spec(group, None, None);
    let carrier = match spec.carrier {
        PgmCarrier::Udp => GroupCarrier::Udp(spec.udp_port),
        PgmCarrier::Raw => GroupCarrier::Ip(PROTOCOL),
    };
    let groups = std::iter::once(group).chain(reply).collect();
    let comment = format!("pgm {name} {group}");
    Recording::of_group(&flags.pcap, comment, GroupFlow { carrier, groups }, flags.interface.as_deref())
}

/// A group to publish on, and how.
struct Publishes<'a> {
    group: IpAddr,
    flags: &'a Source,
}

/// A group to hear, and how.
struct Hears<'a> {
    group: IpAddr,
    flags: &'a Receiver,
}

/// Opens one end.
fn open(flags: &GroupArgs, publishes: Option<&Publishes<'_>>, hears: Option<&Hears<'_>>) -> Result<PgmSocket, Failure> {
    let groups = [publishes.map(|publishes| publishes.group), hears.map(|hears| hears.group)];
    if let Some(group) = groups.into_iter().flatten().find(|group| !group.is_multicast()) {
        return Err(Failure::usage(anyhow!("{group} is no multicast group: use one of 224.0.0.0/4 or ff00::/8")));
    }
    let group = groups.into_iter().flatten().next().context("neither a source nor a receiver")?;
    let (local, interface) = own(flags, group)?;
    let spec =
        flags.spec(group, publishes.map(|publishes| &publishes.flags.timers), hears.map(|hears| &hears.flags.timers));
    let mut options = PgmSocketOptions::new(spec::carrier(&spec), local);
    options.interface = interface;
    options.loopback = !flags.no_loop;
    options.ttl = flags.ttl;
    if let Some(publishes) = publishes {
        options.source = Some(source(&spec, publishes, local)?);
    }
    if let Some(hears) = hears {
        options.receiver = Some(receiver(&spec, hears)?);
    }
    PgmSocket::open(&options).map_err(|error| match error {
        PgmIoError::Source(_) | PgmIoError::Receiver(_) => asked(&error),
        PgmIoError::Memory { .. } => Failure::usage(error),
        PgmIoError::Family { .. } | PgmIoError::AddressInUse { .. } => Failure::usage(error),
        error => Failure::new(1, error),
    })
}

/// Parameters that make no sense: the cause is in the words already.
fn asked(error: &PgmIoError) -> Failure {
    Failure::usage(anyhow!("{error}"))
}

/// The own address, and the number of the interface where it was asked for.
fn own(flags: &GroupArgs, group: IpAddr) -> Result<(IpAddr, Option<u32>), Failure> {
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
        return Ok((local, None));
    };
    let index = net::interface::named(text).map_err(Failure::usage)?;
    let given = flags.local.or_else(|| text.parse().ok());
    if let Some(local) = given {
        return Ok((local, Some(index)));
    }
    let name = net::interface::name_of(index).map_err(Failure::usage)?;
    let found = net::interface::addresses()?.into_iter().find(|own| own.name == name && same_family(&own.address));
    let family = if group.is_ipv4() { "IPv4" } else { "IPv6" };
    let found = found.ok_or_else(|| Failure::usage(anyhow!("interface {name} has no {family} address")))?;
    Ok((found.address, Some(index)))
}

fn source(spec: &PgmSpec, publishes: &Publishes<'_>, local: IpAddr) -> Result<SourceConfig, Failure> {
    let random = random()?;
    let [a, b, c, d, port @ ..] = random;
    let gsi = publishes.flags.gsi.unwrap_or(match local {
        // People know the source by its address then.
        IpAddr::V4(local) => {
            let [first, second, third, fourth] = local.octets();
            Gsi([first, second, third, fourth, a, b])
        }
        IpAddr::V6(_) => Gsi([a, b, c, d, port[0] ^ 0x5a, port[1] ^ 0x5a]),
    });
    let port = publishes.flags.source_port.unwrap_or_else(|| u16::from_be_bytes([port[2], port[3]]).max(1));
    let mut config = spec::source(spec, Tsi { gsi, port }, publishes.group, local);
    config.first = Sqn(publishes.flags.first);
    config.check().map_err(|error| asked(&PgmIoError::Source(error)))?;
    Ok(config)
}

fn receiver(spec: &PgmSpec, hears: &Hears<'_>) -> Result<ReceiverConfig, Failure> {
    let sources = usize::from(hears.flags.sources);
    let mut config = spec::receiver(spec, hears.group, sources, u64::from_be_bytes(random()?));
    config.expiry_ns = ns(hears.flags.expiry);
    config.parity = hears.flags.use_fec;
    config.check().map_err(|error| asked(&PgmIoError::Receiver(error)))?;
    Ok(config)
}

fn random() -> Result<[u8; 8], Failure> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(bytes)
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The group that answers go to.
fn reply_group(group: IpAddr, asked: Option<IpAddr>) -> Result<IpAddr, Failure> {
    let reply = PgmSpec { reply_group: asked, ..PgmSpec::new(group) }.reply_group();
    if reply == group || !reply.is_multicast() || reply.is_ipv4() != group.is_ipv4() {
        let why = anyhow!("answers cannot go to {reply}: give another group of the same family with --reply-group");
        return Err(Failure::usage(why));
    }
    Ok(reply)
}
