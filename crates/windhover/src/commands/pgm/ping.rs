//! `windhover pgm ping`

use super::{open, random, reply_group, tell};
use crate::cli::pgm::Ping;
use crate::commands::signals;
use crate::output::{Failure, Output, wrapped};
use anyhow::anyhow;
use model::Fate;
use pgm::receiver::Counts;
use pgm_io::PgmSocketCounts;
use pgm_io::hand::{self, PingOptions, Pinger};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long reflectors are waited for.
const SEARCH: Duration = Duration::from_secs(10);

pub(super) fn run(arguments: &Ping, output: &Output) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let reply = reply_group(arguments.group, arguments.reply.reply_group)?;
    let (publishes, hears) = ((arguments.group, &arguments.source), (reply, &arguments.receiver));
    let mut socket = open(&arguments.group_args, Some(publishes), Some(hears))?;
    let options = PingOptions {
        count: arguments.count,
        rate_pps: arguments.rate,
        bytes: usize::try_from(arguments.size).unwrap_or(hand::MOST_BYTES),
        linger: arguments.linger,
        reflectors: arguments.reflectors,
    };
    let mut on_event = |event: &pgm::receiver::Event| {
        output.note(tell::event_text(event));
    };
    let mut pinger = Pinger::new(&mut socket, options, u64::from_be_bytes(random()?), &stop, &mut on_event);
    if !pinger.search(SEARCH)? {
        let (found, wanted) = (pinger.reflectors.len(), arguments.reflectors);
        if found == 0 {
            let why = anyhow!(
                "no reflector is heard on {reply}: start 'windhover pgm reflect {}' at the other end, with the same ports and carrier",
                arguments.group
            );
            return Err(Failure::new(1, why));
        }
        output.warning(format_args!("{found} of {wanted} reflectors are heard on {reply}"));
    }
    pinger.run()?;
    let closed = pinger.socket.close(hand::CLOSE);
    let counts = pinger.socket.counts();
    if arguments.form.is_json() {
        output.result(&format!("{}\n", json(arguments, &pinger, &counts)))?;
    } else {
        output.result(&wrapped(&text(arguments, &pinger, &counts)))?;
    }
    closed?;
    Ok(match (stop.load(Ordering::Relaxed), pinger.silent(&counts)) {
        (true, _) => 130,
        (false, 0) => 0,
        (false, _) => 1,
    })
}

fn text(arguments: &Ping, pinger: &Pinger<'_>, counts: &PgmSocketCounts) -> String {
    let (Ping { size, group, .. }, answered, silent) = (arguments, pinger.answered(), pinger.silent(counts));
    let mut text = format!("{} messages of {size} bytes to {group}, answered by {answered}", pinger.sent);
    text.push_str(&if silent > 0 { format!(", not by {silent}\n") } else { "\n".to_owned() });
    let _ = writeln!(text, "{:<44}{}", "round trip", tell::heading());
    for reflector in &pinger.reflectors {
        let tsi = reflector.tsi.to_string();
        let _ = writeln!(text, "{tsi:<33} {:<10}{}", "all", tell::row(&reflector.all()));
        for (fate, histogram) in Fate::ALL.iter().zip(&reflector.rtt) {
            if !histogram.is_empty() {
                let _ = writeln!(text, "{:<33} {:<10}{}", "", fate.word(), tell::row(histogram));
            }
        }
        let (missing, reordered) = (pinger.sent.saturating_sub(reflector.answers()), reflector.out_of_order);
        let _ = writeln!(text, "{:<33} {missing} without an answer, {reordered} out of order", "");
    }
    let Counts { missing, recovered, lost, naks, .. } = counts.receiver;
    let (out, asked) = (counts.source.naks, tell::asked_text(&counts.source));
    let _ = writeln!(
        text,
        "out: {out} NAKs for {asked}; back: {missing} missing, {recovered} recovered, {lost} lost, {naks} NAKs sent"
    );
    text.push_str(&tell::steps_text("repairs back", &pinger.repairs));
    text
}

fn json(arguments: &Ping, pinger: &Pinger<'_>, counts: &PgmSocketCounts) -> Value {
    let reflectors: Vec<Value> = pinger
        .reflectors
        .iter()
        .map(|reflector| {
            let fates = Fate::ALL.iter().zip(&reflector.rtt);
            let fates = fates.map(|(fate, rtt)| (fate.word().to_owned(), tell::figures(rtt)));
            json!({
                "source": reflector.tsi.to_string(), "answers": reflector.answers(),
                "out_of_order": reflector.out_of_order, "rtt": tell::figures(&reflector.all()),
                "rtt_by_fate": Value::Object(fates.collect()),
            })
        })
        .collect();
    json!({
        "type": "ping", "sent": pinger.sent, "bytes": arguments.size, "reflectors": reflectors,
        "answered": pinger.answered(), "silent": pinger.silent(counts),
        "source": tell::source_counts(&counts.source), "receiver": tell::receiver_counts(&counts.receiver),
        "repairs_back": tell::steps_json(&pinger.repairs),
    })
}
