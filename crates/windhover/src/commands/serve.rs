//! `windhover serve`.

use super::{child, identity, key, signals};
use crate::cli::serve::Serve;
use crate::output::{Failure, Output};
use anyhow::{Context as _, anyhow};
use model::worker::EndpointTask;
use model::{Limits, PeerProgram, WorkerEvent};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use task::{Launch, Stream};

/// Serves until it is asked to end, or until the process that does is started.
pub(crate) fn run(arguments: &Serve, output: &Output) -> Result<u8, Failure> {
    match (arguments.daemon, arguments.detached) {
        (false, _) => serve(arguments, None, output),
        (true, false) => start_daemon(arguments, output),
        (true, true) => {
            task::own_session();
            let starter = task::keep_stdout().context("cannot keep standard output")?;
            let to_starter = starter.try_clone().context("cannot keep standard output")?;
            serve(arguments, Some(starter), output).inspect_err(|failure| {
                let message = failure.line();
                // The starter has ended where this comes after the event that it listens.
                let _ = tell(&to_starter, &WorkerEvent::Failed { code: failure.code, message });
            })
        }
    }
}

fn tell(mut starter: &File, event: &WorkerEvent) -> std::io::Result<()> {
    starter.write_all(event.line().as_bytes())
}

/// Starts the process that serves in the background, and waits until it listens.
fn start_daemon(arguments: &Serve, output: &Output) -> Result<u8, Failure> {
    let log = match &arguments.log {
        Some(file) => {
            let opened = OpenOptions::new().create(true).append(true).open(file);
            Stream::File(
                opened.with_context(|| format!("cannot open --log {}", file.display())).map_err(Failure::usage)?.into(),
            )
        }
        None => Stream::Null,
    };
    let mut daemon = Launch::new(identity::executable()?)
        .args(child::arguments_with("serve", "--detached"))
        .in_our_group()
        .stdout(Stream::Pipe)
        .stderr(log)
        .start()?;
    let said = daemon.take_stdout().context("the process in the background has no output")?;
    let events = BufReader::new(said).lines().map_while(Result::ok);
    let mut events = events.filter_map(|line| WorkerEvent::from_line(line.as_bytes()).ok().flatten());
    match events.next() {
        Some(WorkerEvent::Ready { address }) => {
            let (address, pid) = (address.unwrap_or_default(), daemon.pid());
            output.note(format_args!("serving on {address} in the background, process {pid}; 'kill {pid}' ends it"));
            // It outlives this one.
            std::mem::forget(daemon);
            Ok(0)
        }
        Some(WorkerEvent::Failed { code, message }) => Err(Failure::new(code, anyhow!(message))),
        _ => Err(Failure::from(anyhow!("the process in the background ended before it listened: {}", daemon.wait()?))),
    }
}

/// What serves, its address, and a description for people.
type Server = (Box<dyn FnOnce(&endpoint::Stop) -> Result<(), endpoint::EndpointError>>, SocketAddr, String);

fn own(arguments: &Serve, lab: &[IpAddr]) -> Result<Server, Failure> {
    let task = EndpointTask {
        bind: arguments.bind.clone(),
        key: key::read(arguments.key_file.as_deref())?,
        limits: arguments.limits(),
    };
    let mut endpoint = endpoint::Endpoint::bind_in_lab(&task, lab).map_err(failed)?;
    if arguments.once {
        endpoint = endpoint.once();
    }
    let keyed = if task.key.is_some() { ", clients need the key" } else { "" };
    let (address, allowed) = (endpoint.local_address(), words(&task.limits));
    Ok((Box::new(move |stop| endpoint.serve(stop)), address, format!("{keyed}; limits: {allowed}")))
}

fn of_other_tool(program: PeerProgram, arguments: &Serve, lab: &[IpAddr]) -> Result<Server, Failure> {
    let server = endpoint::SockperfServer::bind(&arguments.bind, lab, arguments.open).map_err(failed)?;
    let address = server.local_address();
    Ok((Box::new(move |stop| server.serve(stop)), address, format!(" as {program}, over UDP and TCP")))
}

/// Serves. `starter` gets an event once it listens.
fn serve(arguments: &Serve, starter: Option<File>, output: &Output) -> Result<u8, Failure> {
    let lab = lab::Registry::default().own_addresses();
    let (serve, address, told) = match arguments.program {
        Some(program) => of_other_tool(program, arguments, &lab)?,
        None => own(arguments, &lab)?,
    };
    let stop = endpoint::Stop::new().map_err(|error| Failure::new(1, error))?;
    let asked = stop.clone();
    let _stop = signals::on_stop(move || asked.stop())?;
    let _pid_file = arguments.pid_file.as_deref().map(PidFile::write).transpose()?;
    let end = match (arguments.once, starter.is_some()) {
        (true, _) => "it ends after the first client",
        (false, true) => "SIGTERM ends it",
        (false, false) => "Ctrl-C ends it",
    };
    output.note(format_args!("serving on {address}{told}; {end}"));
    if let Some(starter) = starter {
        // Nothing of the folder that the command was given in is needed any more.
        std::env::set_current_dir("/")?;
        tell(&starter, &WorkerEvent::Ready { address: Some(address.to_string()) })?;
    }
    serve(&stop).map_err(failed)?;
    Ok(0)
}

/// A file with this process's id, locked while it serves. Removed when dropped, unless it has another id by then.
struct PidFile {
    path: PathBuf,
    text: String,
    /// Locked, where it is a regular file.
    _locked: File,
}

impl PidFile {
    fn write(path: &Path) -> Result<Self, Failure> {
        let text = format!("{}\n", std::process::id());
        let step = || format!("cannot write --pid-file {}", path.display());
        let mut file = Self::locked(path, step)?;
        let written = file.set_len(0).or_else(|error| if is_regular(&file) { Err(error) } else { Ok(()) });
        let written = written.and_then(|()| file.write_all(text.as_bytes())).and_then(|()| std::fs::canonicalize(path));
        // The whole path, because this process may leave its folder.
        Ok(Self { path: written.with_context(step)?, text, _locked: file })
    }

    /// Opens the file and locks it. Refuses one that a server holds, whose id would be lost.
    fn locked(path: &Path, step: impl Fn() -> String) -> Result<File, Failure> {
        loop {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
            let file = file.with_context(&step)?;
            if !is_regular(&file) {
                return Ok(file);
            }
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                let holder = std::fs::read_to_string(path).unwrap_or_default();
                let holder = holder.trim();
                return Err(Failure::from(anyhow!(
                    "--pid-file {} is that of a running server, process {holder}: end it with 'kill {holder}', or name another file",
                    path.display()
                )));
            }
            // A server that ended meanwhile has removed the file that was opened.
            let is_there = || Some(std::fs::metadata(path).ok()?.ino() == file.metadata().ok()?.ino());
            if is_there() == Some(true) {
                return Ok(file);
            }
        }
    }
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|facts| facts.is_file())
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if std::fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            // An error has no place to go to any more.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn words(limits: &Limits) -> String {
    let mut words = vec![
        format!("{} sessions of {} s", limits.max_sessions, limits.max_session_s),
        format!("{} messages/s", limits.max_rate_pps),
    ];
    words.push(match (limits.stream_bps(true, false), limits.stream_bps(true, true)) {
        (Some(0), _) => "no streams".to_owned(),
        (Some(bits), _) => format!("streams of {:.0} Mbit/s", bits as f64 / 1e6),
        (None, Some(bits)) => format!("udp streams to clients of {:.0} Mbit/s", bits as f64 / 1e6),
        (None, None) => "streams of any bandwidth".to_owned(),
    });
    words.push(match (limits.allow_real_time, limits.max_priority) {
        (true, priority) => format!("real-time priority {priority}"),
        (false, _) => "no real-time policy".to_owned(),
    });
    for (allowed, word) in [(limits.allow_spin, "no spinning"), (limits.allow_cpu, "no CPU of its choice")] {
        if !allowed {
            words.push(word.to_owned());
        }
    }
    words.push(
        if limits.allow_other_addresses {
            "data to any address"
        } else {
            "data to the address of the control connection only"
        }
        .to_owned(),
    );
    words.join(", ")
}

/// What is wrong with the address or the key is a usage error.
pub(crate) fn failed(error: endpoint::EndpointError) -> Failure {
    use endpoint::EndpointError::{Address, Key, KeyNeeded, OpenToOthers};
    let code = if matches!(error, Address { .. } | KeyNeeded { .. } | OpenToOthers { .. } | Key(_)) { 2 } else { 1 };
    Failure::new(code, error)
}
