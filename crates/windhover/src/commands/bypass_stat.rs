//! `windhover bypass stat`: what the pages of running programs say.

use crate::output::{Failure, Output, json_in_order, paragraph, width};
use bypass::{Calls, Carrier, Process, Socket};
use report::{Column, Grid, commas};
use std::net::SocketAddr;

pub(super) fn run(program: Option<&str>, json: bool, output: &Output) -> Result<u8, Failure> {
    let folder = bypass::folder();
    let _ = bypass::clear(&folder);
    let processes = match program {
        Some(program) => bypass::named(&folder, program)?,
        None => bypass::pages(&folder),
    };
    if json {
        output.result(&json_in_order(&processes)?)?;
    } else if processes.is_empty() {
        output.note("no program runs behind `windhover bypass run` with a socket");
    } else {
        let texts: Vec<String> = processes.iter().map(|process| process_text(process, width())).collect();
        output.result(&texts.join("\n"))?;
    }
    Ok(0)
}

/// A process in blocks with a blank line between them: what carries it, its calls, its sockets, reasons.
fn process_text(process: &Process, width: usize) -> String {
    let mut notes = Vec::new();
    if process.unlisted > 0 {
        notes.push(format!("{} more sockets found no room in the list", commas(process.unlisted)));
    }
    notes.extend(process.fall_backs.iter().map(|one| format!("{} × {}: {}", commas(one.times), one.reason, one.what)));
    let notes: String = notes.iter().map(|note| report::paragraph("", note, width)).collect();
    let blocks = [heading(process), calls(process, width), sockets(&process.sockets, width), notes];
    blocks.into_iter().filter(|block| !block.is_empty()).collect::<Vec<_>>().join("\n")
}

fn heading(process: &Process) -> String {
    let who = format!("{} (process {}), stack", process.name, process.pid);
    let Some(Carrier { interface, backend, received, sent, dropped, ring_full }) = &process.carrier else {
        return paragraph("", &format!("{who} spin"));
    };
    let [received, sent, dropped, ring_full] = [received, sent, dropped, ring_full].map(|count| commas(*count));
    let frames = format!("frames: {received} received, {sent} sent, {dropped} dropped, ring full {ring_full} times");
    paragraph("", &format!("{who} xdp on {interface} ({backend})")) + &paragraph("", &frames)
}

fn figures(heading: &str) -> Column {
    Column { heading: vec![heading.to_owned()], right: true, max: None }
}

fn calls(process: &Process, width: usize) -> String {
    const HEADS: [&str; 7] = ["ready", "found", "slept", "interrupted", "timed out", "not spun", "attempts"];
    if process.calls.is_empty() {
        return String::new();
    }
    let row = |(kind, calls): (&&str, &Calls)| {
        let Calls { ready, found, slept, interrupted, timed_out, not_spun, attempts } = *calls;
        let counts = [ready, found, slept, interrupted, timed_out, not_spun, attempts].map(commas);
        std::iter::once((*kind).to_owned()).chain(counts).collect()
    };
    let columns = std::iter::once(Column::words("calls")).chain(HEADS.map(figures)).collect();
    Grid { columns, rows: process.calls.iter().map(row).collect(), ..Grid::default() }.text(width)
}

/// Columns in which every row has 0 or nothing are left out where the table is too wide.
fn sockets(sockets: &[Socket], width: usize) -> String {
    const WORDS: [&str; 5] = ["fd", "type", "local", "remote", "stack"];
    const FIGURES: [&str; 6] = ["ready", "found", "slept", "unsent B", "unread B", "sent again"];
    if sockets.is_empty() {
        return String::new();
    }
    let mut rows: Vec<Vec<String>> = sockets.iter().map(row).collect();
    let mut columns: Vec<Column> = WORDS.map(Column::words).into_iter().chain(FIGURES.map(figures)).collect();
    let text = Grid { columns: columns.clone(), rows: rows.clone(), ..Grid::default() }.text(usize::MAX);
    if text.lines().any(|line| line.chars().count() > width) {
        let has_figure =
            |at: usize| rows.iter().any(|row| row.get(at).is_some_and(|cell| !matches!(cell.as_str(), "" | "0")));
        let kept: Vec<bool> = (0..columns.len()).map(|at| at < WORDS.len() || has_figure(at)).collect();
        let stays = |at: usize| kept.get(at).copied().unwrap_or(true);
        let mut at = 0..;
        columns.retain(|_| at.next().is_none_or(stays));
        for row in &mut rows {
            let mut at = 0..;
            row.retain(|_| at.next().is_none_or(stays));
        }
    }
    Grid { columns, rows, ..Grid::default() }.text(width)
}

fn row(socket: &Socket) -> Vec<String> {
    let address = |address: Option<SocketAddr>| address.map_or_else(String::new, |one| one.to_string());
    let remote = match (socket.remote, socket.state) {
        (None, Some(state)) => state.to_owned(),
        (remote, _) => address(remote),
    };
    let stack = socket.reason.map_or_else(|| socket.backend.to_owned(), |reason| format!("kernel: {reason}"));
    let words = [socket.descriptor.to_string(), socket.protocol.to_owned(), address(socket.local), remote, stack];
    let counted = [socket.calls.ready, socket.calls.found, socket.calls.slept].map(commas);
    let queued = socket
        .connection
        .map_or_else(<[String; 3]>::default, |one| [one.unsent_bytes, one.unread_bytes, one.retransmits].map(commas));
    words.into_iter().chain(counted).chain(queued).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bypass::{Connection, FallBack};

    fn process() -> Process {
        let connection = Connection { unsent_bytes: 5, unread_bytes: 0, retransmits: 0, round_trip_ns: 9000 };
        let socket = |descriptor, state| Socket {
            descriptor,
            protocol: "tcp",
            local: Some("10.9.0.1:6379".parse().unwrap()),
            remote: Some("10.9.0.2:60928".parse().unwrap()).filter(|_| state == "established"),
            state: Some(state),
            backend: "xdp",
            reason: None,
            busy_polled: false,
            calls: Calls { ready: 98_148, ..Calls::default() },
            connection: Some(connection).filter(|_| state == "established"),
        };
        Process {
            pid: 4711,
            name: "redis-server".to_owned(),
            settings: std::collections::BTreeMap::new(),
            calls: [("epoll", Calls { ready: 142_553, attempts: 506_071, ..Calls::default() })].into(),
            fall_backs: vec![FallBack { reason: "contention", what: "another thread needed the CPU", times: 77_427 }],
            sockets: vec![socket(6, "listen"), socket(7, "established")],
            unlisted: 0,
            carrier: Some(Carrier {
                interface: "near".to_owned(),
                backend: "generic",
                received: 142_553,
                sent: 142_663,
                dropped: 0,
                ring_full: 0,
            }),
        }
    }

    /// Catches: lines that are wider than the terminal, addresses that are broken although zeros have columns, digits without groups.
    #[test]
    fn a_process_fits_80_columns_and_shows_all_at_120() {
        for (columns, has_zeros) in [(80, false), (120, true)] {
            let text = process_text(&process(), columns);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
            for words in ["10.9.0.1:6379", "10.9.0.2:60928", "listen", "98,148", "506,071", "77,427 ×", "unsent B"] {
                assert!(text.contains(words), "'{words}' at {columns}: {text}");
            }
            assert_eq!(text.contains("sent again"), has_zeros, "{text}");
            assert_eq!(text.lines().filter(|line| line.is_empty()).count(), 3, "{text}");
        }
    }
}
