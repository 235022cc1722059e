//! The command line of winpoint.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use clap::{Args, Parser, Subcommand};
use model::worker::Measured;
use model::{Limits, PaceSpec, Pacer, PgmSpec, Probe, ProbeOptions, ProbeSpec, Protocol, Receive, SizeList, Substrate};
use std::path::PathBuf;
use std::process::ExitCode;
use winpoint::platform::{self, Placement, PriorityClass};
use winpoint::{Labels, Server, Task, WinpointError, doctor};
use wire::Key;

#[derive(Debug, Parser)]
#[command(name = "winpoint", version, about = "Both ends of Windhover's measurements on Windows")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve as the reflector, until the program is ended
    Serve(Serve),
    /// Send one message at a time and time its way there and back
    Pingpong(Rounds),
    /// Send messages at a rate without waiting for answers
    Pace(Pace),
    /// Show the settings of Windows that the OpenPGM article changes; changes nothing
    Doctor,
}

#[derive(Debug, Args)]
struct Serve {
    /// Address to listen on; anything but loopback needs a key
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "127.0.0.1")]
    bind: String,
    /// Messages a second answered in one session
    #[arg(long, value_name = "PPS", default_value_t = Limits::default().max_rate_pps)]
    max_rate: u32,
    /// Longest session in seconds
    #[arg(long, value_name = "S", default_value_t = Limits::default().max_session_s)]
    max_session: u32,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// File with the shared key (see `windhover key`)
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Priority class of the process
    #[arg(long, value_name = "CLASS")]
    priority: Option<PriorityClass>,
    /// The one CPU of the measuring thread, 0 to 63
    #[arg(long, value_name = "CPU", value_parser = clap::value_parser!(u32).range(0..=63))]
    cpu: Option<u32>,
    /// Task of the Multimedia Class Scheduler Service that the measuring thread joins, such as "Pro Audio"
    #[arg(long, value_name = "TASK")]
    mmcss: Option<String>,
}

#[derive(Debug, Args)]
struct Measure {
    /// udp or tcp; with pace also pgm
    protocol: Protocol,
    /// The other end; with pgm the group comes before it
    #[arg(value_name = "ADDR[:PORT]", required = true, num_args = 1..=2)]
    address: Vec<String>,
    /// Message sizes in bytes
    #[arg(long, value_name = "LIST", default_value = "32", default_value_if("protocol", "pgm", "64"))]
    size: SizeList,
    /// Time for each size (of pace: each rate)
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Messages for each size at most
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    count: u64,
    /// Untimed messages before, for so long
    #[arg(long, value_name = "S", default_value_t = 0.2)]
    warmup: f64,
    /// A message without an answer for so long is lost
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    timeout: u32,
    /// How the reflector waits: block or spin, or any mode that its system has
    #[arg(long, value_name = "MODE", default_value = "block")]
    remote_receive: Receive,
    /// Folder to write a run directory to, for `windhover report` and `windhover compare`
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Name of the run
    #[arg(long, default_value = "winpoint")]
    name: String,
    /// What the hosts are: metal, vm …; under Wine always wine [default: unknown]
    #[arg(long, value_name = "WORD")]
    substrate: Option<Substrate>,
    /// Free labels of the run, such as nic=X710
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Print result documents, one a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Rounds {
    /// How this end waits: block, spin or iocp (overlapped calls and an I/O completion port)
    #[arg(long, value_name = "MODE", default_value = "block")]
    receive: Receive,
    /// Report the round trip rather than half of it
    #[arg(long)]
    rtt: bool,
    #[command(flatten)]
    measure: Measure,
}

#[derive(Debug, Args)]
struct Pace {
    /// Messages a second: one rate or several
    #[arg(long, value_name = "LIST", default_value = "10000")]
    rate: model::schedule::RateList,
    /// How answers are waited for: spin, in the thread that sends, or block or iocp in another one
    #[arg(long, value_name = "MODE", default_value = "spin")]
    receive: Receive,
    /// Go on with higher rates although one was not reached
    #[arg(long)]
    beyond_saturation: bool,
    #[command(flatten)]
    measure: Measure,
    // Last: its heading is for all flags that follow.
    #[command(flatten)]
    group: Group,
}

/// What only PGM has, the same at both ends.
#[derive(Debug, Args)]
#[command(next_help_heading = "PGM (pace pgm GROUP ADDR)")]
struct Group {
    /// Group that the reflector publishes on [default: the address after GROUP]
    #[arg(long, value_name = "GROUP")]
    reply_group: Option<std::net::IpAddr>,
    /// UDP port of both ends
    #[arg(long, value_name = "PORT", default_value_t = PgmSpec::new(NOWHERE).udp_port)]
    udp_port: u16,
    /// Packets that each source can repair, and that each receiver keeps behind a gap; a power of two
    #[arg(long, value_name = "PACKETS", default_value_t = PgmSpec::new(NOWHERE).window_packets)]
    window: u32,
    /// Longest packet in bytes, without headers of IP and UDP
    #[arg(long, value_name = "BYTES", default_value_t = PgmSpec::new(NOWHERE).packet_bytes)]
    packet: u16,
}

const NOWHERE: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

impl Group {
    /// Whether anything was said that is not so anyway.
    fn is_told(&self) -> bool {
        let usual = PgmSpec::new(NOWHERE);
        let own = (self.reply_group, self.udp_port, self.window, self.packet);
        own != (usual.reply_group, usual.udp_port, usual.window_packets, usual.packet_bytes)
    }

    fn spec(&self, group: &str) -> Result<PgmSpec, WinpointError> {
        let what = || format!("'{group}' is no multicast group");
        let conflict =
            |_| WinpointError::Conflict { what: what(), remedy: "use pace pgm GROUP ADDR, such as 239.192.0.1" };
        Ok(PgmSpec {
            reply_group: self.reply_group,
            udp_port: self.udp_port,
            window_packets: self.window,
            packet_bytes: self.packet,
            ..PgmSpec::new(group.parse().map_err(conflict)?)
        })
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    parts.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or_else(|| format!("'{text}': use NAME=VALUE"))
}

impl Common {
    fn placement(&self) -> Placement {
        Placement { class: self.priority, cpu: self.cpu, mmcss: self.mmcss.clone() }
    }

    fn key(&self) -> Result<Option<Key>, WinpointError> {
        let Some(path) = &self.key_file else { return Ok(None) };
        let file = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|cause| WinpointError::KeyFile { file: file.clone(), cause })?;
        Key::parse_file(&text).map(Some).map_err(|cause| WinpointError::Key { file, cause })
    }
}

impl Measure {
    fn spec(&self, probe: Probe) -> ProbeSpec {
        let ms = |seconds: f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
            let ms = (seconds * 1e3).round() as u32;
            ms
        };
        let mut spec = ProbeSpec::new(probe, self.protocol);
        spec.sizes = self.size.clone();
        spec.stop.max_ms = ms(self.seconds);
        spec.stop.max_count = self.count;
        spec.warmup = model::Warmup { time_ms: ms(self.warmup), count: 0 };
        spec.timeout_ms = self.timeout;
        spec.initiator.cpu = self.common.cpu;
        spec.reflector.receive = self.remote_receive;
        spec
    }
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve(arguments) => serve(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Pingpong(arguments) => {
            let mut spec = arguments.measure.spec(Probe::Pingpong);
            (spec.initiator.receive, spec.rtt) = (arguments.receive, arguments.rtt);
            measure(spec, &arguments.measure)
        }
        Command::Pace(arguments) => {
            let mut spec = arguments.measure.spec(Probe::Pace);
            spec.initiator.receive = arguments.receive;
            let (rates_pps, beyond_saturation) = (arguments.rate.rates().to_vec(), arguments.beyond_saturation);
            let pace = PaceSpec { rates_pps, pacer: Pacer::Spin, beyond_saturation, ..PaceSpec::default() };
            spec.options = ProbeOptions::Pace { pace };
            group(&mut spec, &arguments).and_then(|()| measure(spec, &arguments.measure))
        }
        Command::Doctor => {
            examine();
            Ok(ExitCode::SUCCESS)
        }
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("winpoint: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// What `pgm` needs beside the address, which nothing else takes.
fn group(spec: &mut ProbeSpec, arguments: &Pace) -> Result<(), WinpointError> {
    let Some(socket) = spec.socket.as_mut().filter(|socket| socket.protocol == Protocol::Pgm) else {
        if arguments.group.is_told() {
            let what = format!("groups, windows and ports of PGM say nothing to {}", arguments.measure.protocol);
            return Err(WinpointError::Conflict { what, remedy: "leave them out" });
        }
        return Ok(());
    };
    let [group, _] = &arguments.measure.address[..] else {
        let what = "pgm needs a group and an endpoint".to_owned();
        return Err(WinpointError::Conflict { what, remedy: "use pace pgm GROUP ADDR" });
    };
    socket.pgm = Some(arguments.group.spec(group)?);
    Ok(())
}

fn serve(arguments: &Serve) -> Result<(), WinpointError> {
    let key = arguments.common.key()?;
    let mut placement = arguments.common.placement();
    // The class is the process' and is set once; the rest is for each reflector's thread.
    let class = Placement { class: placement.class.take(), ..Placement::default() };
    platform::place(&class)?;
    let limits = Limits { max_rate_pps: arguments.max_rate, max_session_s: arguments.max_session, ..Limits::default() };
    let server = Server::bind(winpoint::resolve(&arguments.bind)?, key, &limits, placement)?;
    let facts = platform::facts();
    eprintln!("serving on {} ({}, {})", server.local_address()?, facts.os, platform::CLOCK);
    server.serve();
    Ok(())
}

/// As `windhover` does, it ends with 4 when a figure cannot be trusted.
fn measure(spec: ProbeSpec, arguments: &Measure) -> Result<ExitCode, WinpointError> {
    if let Some(protocol) = spec.protocol().filter(|protocol| !winpoint::PROTOCOLS.contains(protocol)) {
        let what = format!("winpoint does not measure {protocol}");
        return Err(WinpointError::Conflict { what, remedy: "use tcp, udp, or pace pgm" });
    }
    let is_pgm = spec.protocol() == Some(Protocol::Pgm);
    if arguments.address.len() > 1 && !is_pgm {
        let what = format!("'{}' is one address too many", arguments.address.join(" "));
        return Err(WinpointError::Conflict { what, remedy: "only pgm has a group before the address" });
    }
    let address = arguments.address.last().map(String::as_str).unwrap_or_default();
    let task = Task { spec, control: winpoint::resolve(address)?, key: arguments.common.key()? };
    winpoint::substrate(arguments.substrate)?;
    platform::place(&arguments.common.placement())?;
    let started_ns = winpoint::now_ns();
    if let Some(folder) = &arguments.output {
        winpoint::try_run(folder, &arguments.name, started_ns)?;
    }
    let mut results: Vec<Measured> = Vec::new();
    let outcome = winpoint::measure(&task, &mut |measured| {
        print(&measured, arguments.json);
        results.push(measured);
    });
    if let Some(folder) = arguments.output.as_deref().filter(|_| !results.is_empty()) {
        let labels = Labels {
            name: arguments.name.clone(),
            substrate: arguments.substrate,
            labels: arguments.labels.iter().cloned().collect(),
        };
        let path = winpoint::write_run(folder, &labels, &mut results, started_ns, outcome.is_ok())?;
        println!("{}", path.display());
    }
    outcome?;
    let is_trusted = results.iter().all(|measured| measured.result.verdict.trusted);
    Ok(if is_trusted { ExitCode::SUCCESS } else { ExitCode::from(4) })
}

fn print(measured: &Measured, json: bool) {
    let result = &measured.result;
    if json {
        // It cannot fail: all of it has a form in JSON.
        println!("{}", serde_json::to_string(result).unwrap_or_default());
        return;
    }
    let us = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3));
    let (size, messages) = (result.size().unwrap_or(0), &result.messages);
    let rate = result.factor("rate").map(|rate| format!(" at {rate}/s")).unwrap_or_default();
    if let Some(latency) = &result.latency {
        println!(
            "{size} bytes{rate}: {} of {} answered; {} in µs: median {}, p99 {}, max {}",
            messages.received,
            messages.sent,
            latency.kind.title(),
            us(latency.p50_ns),
            us(latency.p99_ns),
            us(latency.max_ns)
        );
    }
    for finding in result.verdict.iter() {
        eprintln!("{}: {}", finding.id.word(), finding.detail);
    }
}

fn examine() {
    let Some(reader) = platform::reader() else {
        println!("these settings are of Windows; on Linux use 'windhover doctor'");
        return;
    };
    println!("{}", platform::facts().os);
    print!("{}", doctor::text(&doctor::examine(&reader)));
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::{CommandFactory as _, Parser as _};

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn remedies_name_flags_that_there_are() {
        // A finding that sends its reader to a flag of windhover on Linux.
        let command = Arguments::command();
        let commands: Vec<_> = command.get_subcommands().collect();
        let has =
            |flag: &str| commands.iter().flat_map(|one| one.get_arguments()).any(|arg| arg.get_long() == Some(flag));
        for remedy in record::Program::Winpoint.remedies() {
            let flags =
                remedy.split(|c: char| !(c.is_alphanumeric() || c == '-')).filter_map(|word| word.strip_prefix("--"));
            flags.for_each(|flag| assert!(has(flag), "--{flag}: {remedy}"));
        }
    }

    #[test]
    fn commands_of_the_documents_parse() {
        // An example that names a flag which there is not.
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/windows.md");
        let text = std::fs::read_to_string(path).unwrap();
        let commands: Vec<&str> = text
            .split(['`', '\n'])
            .map(|part| part.split('#').next().unwrap_or_default().trim())
            .filter(|part| part.starts_with("winpoint ") && !part.contains('…'))
            .collect();
        assert!(commands.len() >= 5, "{commands:?}");
        for command in commands {
            // What is quoted is one word.
            let parts = (0..).zip(command.split('"'));
            let words =
                parts.flat_map(|(at, part)| if at % 2 == 1 { vec![part] } else { part.split_whitespace().collect() });
            Arguments::try_parse_from(words).unwrap_or_else(|error| panic!("{command}: {error}"));
        }
    }
}
