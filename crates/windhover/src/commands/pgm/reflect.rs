//! `windhover pgm reflect`

use super::{open, reply_group, tell};
use crate::cli::pgm::Reflect;
use crate::commands::signals;
use crate::output::{Failure, Output};
use pgm_io::hand;
use std::sync::atomic::Ordering;

pub(super) fn run(arguments: &Reflect, output: &Output) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let reply = reply_group(arguments.group, arguments.reply.reply_group)?;
    let (publishes, hears) = ((reply, &arguments.source), (arguments.group, &arguments.receiver));
    let mut socket = open(&arguments.group_args, Some(publishes), Some(hears))?;
    output.note(format_args!("{} answers what comes from {} on {reply}", socket.local(), arguments.group));
    let messages = hand::reflect(&mut socket, (arguments.count, arguments.lasts), &stop, &mut |event| {
        output.note(tell::event_text(event));
    })?;
    let finished = socket.close(hand::CLOSE)?;
    let counts = socket.counts();
    if arguments.form.is_json() {
        let summary = serde_json::json!({
            "type": "summary", "messages": messages, "finished": finished,
            "source": tell::source_counts(&counts.source), "receiver": tell::receiver_counts(&counts.receiver),
        });
        output.result(&format!("{summary}\n"))?;
    } else {
        output
            .note(format_args!("{messages} messages answered, {} packets lost on the way here", counts.receiver.lost));
    }
    Ok(if stop.load(Ordering::Relaxed) { 130 } else { 0 })
}
