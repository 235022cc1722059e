//! `windhover pgm reflect`

use super::numbered::{Fate, Ping};
use super::{END, Hears, LOOK, MOST_BYTES, Publishes, open, reply_group, tell};
use crate::cli::pgm::Reflect;
use crate::commands::signals;
use crate::output::{Failure, Output};
use pgm_io::Incoming;
use std::sync::atomic::Ordering;
use std::time::Instant;

pub(super) fn run(arguments: &Reflect, output: &Output) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let reply = reply_group(arguments.group, arguments.reply.reply_group)?;
    let publishes = Publishes { group: reply, flags: &arguments.source };
    let hears = Hears { group: arguments.group, flags: &arguments.receiver };
    let mut way = open(&arguments.way, Some(&publishes), Some(&hears))?;
    output.note(format_args!("{} answers what comes from {} on {reply}", way.local(), arguments.group));
    let end = arguments.lasts.map(|lasts| Instant::now() + lasts);
    let mut messages = 0_u64;
    let mut buffer = vec![0; MOST_BYTES];
    while !stop.load(Ordering::Relaxed) && arguments.count.is_none_or(|count| messages < count) {
        let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()).min(LOOK));
        if left.is_zero() {
            break;
        }
        match way.receive(&mut buffer, left)? {
            Incoming::Message(delivered) => {
                let Some(message) = buffer.get_mut(..delivered.bytes) else { continue };
                Ping::note(message, Fate::of(&delivered));
                way.send(message)?;
                messages += 1;
            }
            Incoming::Event(event) => {
                output.note(tell::event_text(&event));
            }
            Incoming::TimedOut | Incoming::Interrupted => {}
        }
    }
    let closed = way.close(END)?;
    let counts = way.counts();
    if arguments.form.is_json() {
        let summary = serde_json::json!({
            "type": "summary", "messages": messages, "finished": closed.finished,
            "source": tell::source_counts(&counts.source), "receiver": tell::receiver_counts(&counts.receiver),
        });
        output.result(&format!("{summary}\n"))?;
    } else {
        output
            .note(format_args!("{messages} messages answered, {} packets lost on the way here", counts.receiver.lost));
    }
    Ok(if stop.load(Ordering::Relaxed) { 130 } else { 0 })
}
