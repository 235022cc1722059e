//! What a program's messages waited for after they had arrived: a line a second, and the answer.

use crate::causes::{Hints, sentences, table};
use crate::layout::paragraph;
use crate::say::answer::late::words;
use crate::units::{commas, plain, span};
use digest::causes::{by_class, lost_ns};
use model::{Blame, CauseClass, Explanation};

/// Causes in a line.
const FEW: usize = 3;
/// Rows of the final table.
const MOST_ROWS: usize = 20;

/// `3 s: 41,000 messages, wait p50 8.10 µs, p99 21.0 µs, max 5.10 ms; 3 late: run-queue rustc 4.1 ms, steal 210 µs`.
pub fn live_line(second: u64, explanation: &Explanation, max_ns: Option<u64>) -> String {
    let messages = messages(explanation);
    if explanation.messages == 0 {
        return format!("{second} s: {messages}");
    }
    let cause = |blame: &Blame| {
        let name = blame.name.as_deref().map(|name| format!(" {}", plain(name))).unwrap_or_default();
        format!("{}{name} {}", blame.class, span(blame.lost_ns as f64))
    };
    let others = explanation.causes.iter().filter(|blame| blame.class != CauseClass::Tracer);
    let causes: Vec<String> = others.take(FEW).map(cause).collect();
    let late = match (explanation.late, causes.as_slice()) {
        (0, _) => "none late".to_owned(),
        (late, []) => format!("{} late", commas(late)),
        (late, causes) => format!("{} late: {}", commas(late), causes.join(", ")),
    };
    format!("{second} s: {messages}, {}; {late}", waits(explanation, max_ns))
}

fn messages(explanation: &Explanation) -> String {
    format!("{} message{}", commas(explanation.messages), if explanation.messages == 1 { "" } else { "s" })
}

fn waits(explanation: &Explanation, max_ns: Option<u64>) -> String {
    let figures = [("p50", explanation.p50_ns), ("p99", explanation.p99_ns), ("max", max_ns)];
    let known = figures.iter().filter_map(|(word, ns)| ns.map(|ns| format!("{word} {}", span(ns as f64))));
    format!("wait {}", known.collect::<Vec<_>>().join(", "))
}

/// The answer, the causes, and what removes those that cost most. `program` is its name and process.
pub fn live_text(program: &str, explanation: &Explanation, max_ns: Option<u64>, width: usize) -> String {
    let program = plain(program);
    if explanation.messages == 0 {
        let nothing = format!("No message of {program} was seen: it received nothing, or not from a socket.");
        return [nothing].iter().chain(&sentences(explanation)).map(|line| paragraph("", line, width)).collect();
    }
    let late = format!(
        "{} of {} of {program} waited over {}",
        commas(explanation.late),
        messages(explanation),
        span(explanation.over_ns as f64)
    );
    let lost_ns = lost_ns(explanation) as f64;
    let losses = by_class(explanation);
    let share = |part: &digest::causes::ClassLoss<'_>| format!("{:.0} % {}", 100.0 * part.share, words(part));
    let parts: Vec<String> = losses.iter().take(FEW).map(share).collect();
    let why = match parts.as_slice() {
        [] => String::new(),
        parts => format!("; of the {} that they lost: {}", span(lost_ns), parts.join(", ")),
    };
    let mut out = paragraph("", &format!("{late}{why}."), width);
    out.push_str(&paragraph("", &format!("All messages: {}.", waits(explanation, max_ns)), width));
    if !explanation.causes.is_empty() {
        // There is one end, and no round trip.
        let mut here = explanation.clone();
        here.causes.iter_mut().for_each(|blame| blame.host.clear());
        let mut grid = table(&here, MOST_ROWS, Hints::Below);
        let headings = grid.columns.iter_mut().flat_map(|column| &mut column.heading);
        headings.for_each(|heading| *heading = heading.replace("RTT ", "wait "));
        out.push('\n');
        out.push_str(&grid.text(width));
        out.push('\n');
    }
    sentences(explanation).iter().for_each(|sentence| out.push_str(&paragraph("", sentence, width)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explanation() -> Explanation {
        let cause = |class, name: &str, lost_ns, share| Blame {
            class,
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            host: "redis-server".to_owned(),
            messages: 2,
            lost_ns,
            share,
            worst_ns: lost_ns,
            p99_without_ns: None,
            p99_9_without_ns: None,
        };
        let causes =
            vec![cause(CauseClass::RunQueue, "rustc", 8_200_000, 0.82), cause(CauseClass::Steal, "", 1_800_000, 0.18)];
        Explanation {
            over_ns: 1_000_000,
            messages: 41_000,
            late: 3,
            p50_ns: Some(8_100),
            causes,
            ..Explanation::default()
        }
    }

    /// Catches: an answer that is not first, round trips where there are none, a table that names the one end.
    #[test]
    fn the_answer_comes_first_and_speaks_of_waits() {
        let text = live_text("redis-server (process 7)", &explanation(), Some(5_100_000), 200);
        let first = "3 of 41,000 messages of redis-server (process 7) waited over 1.00 ms; of the 10.0 ms that they lost: \
                     82 % run-queue behind rustc, 18 % steal.";
        assert_eq!(text.lines().next(), Some(first), "{text}");
        assert!(text.contains("windhover shield") && text.contains("max 5.10 ms"), "{text}");
        assert!(!text.contains("RTT") && text.matches("redis-server").count() == 1, "{text}");
        let line = live_line(3, &explanation(), Some(5_100_000));
        assert!(
            line.starts_with("3 s: 41,000 messages, wait p50 8.10 µs, max 5.10 ms; 3 late: run-queue rustc"),
            "{line}"
        );
    }

    /// Catches: a sentence of percentiles where nothing was received.
    #[test]
    fn a_program_that_received_nothing_has_one_sentence() {
        let text = live_text("cat", &Explanation::default(), None, 200);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert_eq!(live_line(1, &Explanation::default(), None), "1 s: 0 messages");
    }
}
