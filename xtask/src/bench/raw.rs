//! What raw files of paced messages say: the same figures for every tool that writes them.

use anyhow::{Context as _, Result};
use std::path::Path;

/// A message; times in ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) intended: f64,
    pub(crate) sent: f64,
    /// NaN where no answer came, or none was asked for.
    rtt: f64,
}

/// Lines of intended send, actual send and RTT, in the order of the messages.
pub(crate) fn read(file: &Path) -> Result<Vec<Message>> {
    let text = crate::files::read(file)?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let number = |word: &str| if matches!(word, "-" | ".") { Ok(f64::NAN) } else { word.parse::<f64>() };
    lines
        .map(|line| {
            let mut numbers = line.split_whitespace().map(number);
            let mut next = || numbers.next().context("three numbers")?.context("a number");
            Ok(Message { intended: next()?, sent: next()?, rtt: next()? })
        })
        .collect::<Result<_>>()
        .with_context(|| file.display().to_string())
}

pub(crate) fn answered(mut messages: Vec<Message>) -> Vec<Message> {
    messages.retain(|one| !one.rtt.is_nan());
    messages
}

/// From the intended send to the answer, in µs.
pub(crate) fn intended_us(messages: &[Message]) -> Vec<f64> {
    messages.iter().map(|one| (one.sent + one.rtt - one.intended) / 1e3).collect()
}

pub(crate) fn rtt_us(messages: &[Message]) -> Vec<f64> {
    messages.iter().map(|one| one.rtt / 1e3).collect()
}

/// RTT in µs of messages after a pause of two intervals without an answer: in-order delivery waited there for a message
/// that was lost and sent again. Quicker repairs, and the second loss of one repair, are not among them.
pub(crate) fn repaired_us(messages: &[Message], interval_us: f64) -> Vec<f64> {
    let longest = 2.0 * interval_us * 1e3;
    let arrival = |one: &Message| one.sent + one.rtt;
    messages
        .windows(2)
        .filter(|pair| arrival(&pair[1]) - arrival(&pair[0]) >= longest && pair[1].rtt >= longest)
        .map(|pair| pair[1].rtt / 1e3)
        .collect()
}

/// The value that a share `share` of them does not exceed.
pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
    let at = (share * values.len().saturating_sub(1) as f64) as usize;
    values.get(at).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod unit {
    use super::*;

    /// Every 100 µs a message that takes 20 µs; those in `lost` come 1,500 µs late and hold what follows.
    fn stream(lost: &[usize]) -> Vec<Message> {
        let mut front = 0.0_f64;
        (0..1000)
            .map(|number| {
                let sent = number as f64 * 1e5;
                let late = if lost.contains(&number) { 1.5e6 } else { 0.0 };
                front = front.max(sent + 2e4 + late);
                Message { intended: sent - 5e3, sent, rtt: front - sent }
            })
            .collect()
    }

    #[test]
    fn what_others_waited_for_is_found_once() {
        assert_eq!(repaired_us(&stream(&[]), 100.0), Vec::<f64>::new());
        assert_eq!(repaired_us(&stream(&[100, 500]), 100.0), [1520.0, 1520.0]);
        // The second came with the first.
        assert_eq!(repaired_us(&stream(&[100, 101]), 100.0).len(), 1);
        let late = quantile(intended_us(&stream(&[100])), 0.5);
        assert!((late - 25.0).abs() < 1e-9, "{late}");
    }
}
