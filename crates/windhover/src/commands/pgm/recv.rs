//! `windhover pgm recv`

use super::{open, tell};
use crate::cli::pgm::{MessageForm, Recv};
use crate::commands::signals;
use crate::output::{Failure, Output};
use model::Fate;
use pgm::receiver::Counts;
use pgm::zmtp;
use pgm_io::hand::{self, EndReason, HeardSource, MOST_BYTES, SubscribeOptions, SubscribeReport, SubscribedItem};
use pgm_io::{Delivered, PgmSocketCounts};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::ops::ControlFlow;

pub(super) fn run(arguments: &Recv, output: &Output) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let mut socket = open(&arguments.group_args, None, Some((arguments.group, &arguments.receiver)))?;
    output.note(format_args!("{} hears {}", socket.local(), arguments.group));
    let options = SubscribeOptions {
        count: arguments.count,
        lasts: arguments.lasts,
        idle: arguments.idle,
        until_fin: arguments.until_fin,
        check: arguments.check,
        zeromq: arguments.group_args.zeromq,
    };
    let mut printer = Printer { arguments, output, began_ns: socket.now_ns(), line: String::new() };
    let mut failed = None;
    let received = hand::subscribe(&mut socket, options, &stop, &mut |received| match printer.print(&received) {
        Ok(true) => ControlFlow::Continue(()),
        Ok(false) => ControlFlow::Break(()),
        Err(failure) => {
            failed = Some(failure);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(()), Err)?;
    socket.close(hand::CLOSE)?;
    finish(arguments, output, &received, &socket.counts())
}

struct Printer<'a> {
    arguments: &'a Recv,
    output: &'a Output,
    /// Time 0 of what is printed, on the socket's clock.
    began_ns: u64,
    line: String,
}

impl Printer<'_> {
    /// Prints one item; false once the reader has closed standard output.
    fn print(&mut self, received: &SubscribedItem<'_>) -> Result<bool, Failure> {
        let (arguments, output) = (self.arguments, self.output);
        let form = arguments.form.get();
        match received {
            SubscribedItem::Message { delivered, fate, bytes, parts } if !arguments.summary => {
                self.line.clear();
                match form {
                    MessageForm::Raw => return output.bytes(bytes),
                    MessageForm::Text => in_parts(bytes, parts, text, &mut self.line),
                    MessageForm::Hex => in_parts(bytes, parts, hex, &mut self.line),
                    MessageForm::Json => self.line.push_str(&self.json(delivered, *fate, bytes, parts).to_string()),
                }
                self.line.push('\n');
                return output.part(&self.line);
            }
            SubscribedItem::Event(event) if form == MessageForm::Json => {
                return output.part(&format!("{}\n", tell::event_json(event)));
            }
            SubscribedItem::Event(event) => output.note(tell::event_text(event)),
            SubscribedItem::Delivered(Delivered { tsi, first, repair: Some(repair), .. })
                if arguments.repairs && form != MessageForm::Json =>
            {
                output.note(format_args!("source {tsi}: packet {}: {}", first.0, tell::repair_text(repair)));
            }
            SubscribedItem::Cut(Delivered { tsi, bytes, .. }) => {
                output.warning(format_args!("source {tsi}: a message of {bytes} bytes is cut to {MOST_BYTES}"));
            }
            SubscribedItem::Dropped(Delivered { tsi, .. }) => {
                let most = zmtp::MOST_BYTES >> 20;
                output.warning(format_args!("source {tsi}: a ZeroMQ message of more than {most} MiB is dropped"));
            }
            SubscribedItem::Message { .. } | SubscribedItem::Delivered(_) => {}
        }
        Ok(true)
    }

    fn json(&self, delivered: &Delivered, fate: Fate, bytes: &[u8], parts: &[usize]) -> Value {
        let mut value = json!({
            "type": "message", "source": delivered.tsi.to_string(), "first": delivered.first.0, "bytes": bytes.len(),
            "at_s": delivered.received_ns.saturating_sub(self.began_ns) as f64 / 1e9, "fate": fate.word(),
        });
        let (name, shown) = match std::str::from_utf8(bytes) {
            Ok(text) if !text.chars().any(char::is_control) => ("text", text.to_owned()),
            _ => {
                let mut digits = String::new();
                hex(bytes, &mut digits);
                ("hex", digits)
            }
        };
        value[name] = shown.into();
        if parts.len() > 1 {
            value["parts"] = parts.into();
        }
        if let Some(repair) = &delivered.repair {
            value["repair"] = tell::repair_json(repair);
        }
        value
    }
}

fn finish(
    arguments: &Recv,
    output: &Output,
    received: &SubscribeReport,
    counts: &PgmSocketCounts,
) -> Result<u8, Failure> {
    let sum = |pick: fn(&HeardSource) -> u64| received.sources.iter().map(pick).sum::<u64>();
    let (damaged, out_of_order) = (sum(|source| source.damaged), sum(|source| source.out_of_order));
    if arguments.form.get() == MessageForm::Json {
        output.result(&format!("{}\n", summary_json(arguments, received, counts)))?;
    } else if arguments.summary {
        output.result(&summary_text(arguments, received, counts))?;
    } else {
        output.note(summary_text(arguments, received, counts).trim_end());
    }
    let short = arguments.count.is_some_and(|count| received.messages < count);
    Ok(match received.ended {
        EndReason::Stopped => 130,
        _ if counts.receiver.lost > 0 || counts.receiver.sources_refused > 0 => 3,
        _ if damaged > 0 || out_of_order > 0 => 3,
        EndReason::Time | EndReason::Idle | EndReason::Fin if short => 1,
        _ => 0,
    })
}

fn summary_json(arguments: &Recv, received: &SubscribeReport, counts: &PgmSocketCounts) -> Value {
    let sources: Vec<Value> = received
        .sources
        .iter()
        .map(|source| {
            let [untouched, held, repaired] = source.fates;
            let mut value = fields!(source; messages, bytes, sessions, ended;
                "source": source.tsi.to_string(), "untouched": untouched, "held": held, "repaired": repaired);
            if arguments.check {
                value["first"] = source.first.into();
                value["next"] = source.next.into();
                value["out_of_order"] = source.out_of_order.into();
                value["damaged"] = source.damaged.into();
            }
            value
        })
        .collect();
    json!({
        "type": "summary", "messages": received.messages, "seconds": received.lasted.as_secs_f64(),
        "ended_by": received.ended.word(), "sources": sources, "receiver": tell::receiver_counts(&counts.receiver),
        "repairs": tell::steps_json(&received.repairs), "overflowed": counts.overflowed, "naks_unsent": counts.naks_unsent,
    })
}

fn summary_text(arguments: &Recv, received: &SubscribeReport, counts: &PgmSocketCounts) -> String {
    let receiver = &counts.receiver;
    let mut text = format!("{} messages in {:.3} s\n", received.messages, received.lasted.as_secs_f64());
    for source in &received.sources {
        let HeardSource { tsi, messages, bytes, next, out_of_order, damaged, sessions, .. } = source;
        let ([untouched, held, repaired], ended) = (source.fates, source.ended.unwrap_or("not ended"));
        let _ = write!(
            text,
            "source {tsi}: {messages} messages, {bytes} bytes; {untouched} untouched, {held} held, {repaired} repaired; {ended}"
        );
        if arguments.check {
            let first = source.first.map_or_else(|| "none".to_owned(), |first| first.to_string());
            let _ = write!(text, "; first {first}, next {next}, {out_of_order} out of order, {damaged} damaged");
        }
        if *sessions > 1 {
            let _ = write!(text, "; {sessions} sessions");
        }
        text.push('\n');
    }
    let Counts { packets, missing, recovered, lost, duplicates, naks, numbers_asked, ncfs, spms, .. } = receiver;
    let _ = writeln!(
        text,
        "packets {packets}: {missing} missing, {recovered} recovered, {lost} lost, {duplicates} duplicates; {naks} NAKs for \
         {numbers_asked} packets, {ncfs} NCFs, {spms} SPMs"
    );
    if receiver.parity_packets + receiver.parity_naks > 0 {
        let _ = writeln!(
            text,
            "parity: {} packets computed from {}, {} asked for by {} NAKs",
            receiver.recovered_by_parity, receiver.parity_packets, receiver.parity_asked, receiver.parity_naks
        );
    }
    if counts.overflowed + receiver.overflows > 0 {
        let (kernel, window) = (counts.overflowed, receiver.overflows);
        let _ = writeln!(
            text,
            "dropped here: {kernel} datagrams in the receive buffer, {window} packets beyond the window"
        );
    }
    let trouble = [
        (receiver.sources_refused, "sources were refused, and their messages dropped: --sources makes room for more"),
        (receiver.restarts, "sessions began under the identifier of another"),
        (receiver.doubted, "packets fitted no session: copies of old ones, or forged"),
        (counts.naks_unsent, "NAKs and SPM requests could not be sent"),
        (receiver.naks_deferred, "times NAKs waited for the NAK budget"),
        (receiver.paths_refused, "SPMs named an address that NAKs cannot go to"),
    ];
    for (count, what) in trouble.into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(text, "{count} {what}");
    }
    text.push_str(&tell::steps_text("repairs", &received.repairs));
    text
}

/// Parts of one message, with ` | ` between them.
fn in_parts(bytes: &[u8], parts: &[usize], form: fn(&[u8], &mut String), out: &mut String) {
    if parts.len() < 2 {
        return form(bytes, out);
    }
    let mut rest = bytes;
    for (at, length) in parts.iter().enumerate() {
        let (part, after) = rest.split_at((*length).min(rest.len()));
        rest = after;
        out.push_str(if at > 0 { " | " } else { "" });
        form(part, out);
    }
}

fn text(bytes: &[u8], out: &mut String) {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|letter| letter.is_control() && letter != '\t') => out.push_str(text),
        _ => out.extend(bytes.iter().flat_map(|byte| byte.escape_ascii().map(char::from))),
    }
}

fn hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
}
