//! Distributions: by their tail, and whole.

use super::{Apart, Panel, Picture, panels, tip};
use crate::Report;
use crate::cells::Cell;
use crate::document::CellInfo;
use crate::svg::{Curve, Domain, Shares, TailChart};

/// A distribution as counts, ascending.
type Counts = Vec<(f64, u64)>;

/// Which distributions are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Pingpong,
    /// `pace`, from the actual send time.
    Sent,
    /// `pace`, from the intended send time: what waiting for the sender costs is in it.
    Intended,
}

impl Of {
    const ALL: [Self; 3] = [Self::Pingpong, Self::Sent, Self::Intended];

    fn probe(self) -> &'static str {
        if self == Self::Pingpong { "pingpong" } else { "pace" }
    }

    fn points(self, cell: &Cell) -> &[(u64, u64)] {
        if self == Self::Intended { &cell.intended } else { &cell.points }
    }

    fn counts(self, cell: &Cell) -> Counts {
        self.points(cell).iter().map(|(ns, count)| (*ns as f64 * cell.of_rtt, *count)).collect()
    }

    fn kind(self, report: &Report) -> &'static str {
        match self {
            Self::Pingpong => report.document.kind.title(),
            Self::Sent => "RTT",
            Self::Intended => "RTT from the intended send",
        }
    }

    fn id(self, word: &str, number: usize) -> String {
        match self {
            Self::Pingpong => format!("{word}-{number}"),
            Self::Sent => format!("{word}-pace-{number}"),
            Self::Intended => format!("{word}-pace-intended-{number}"),
        }
    }

    /// What stands on one scale with it.
    fn beside(self) -> &'static [Self] {
        if self == Self::Pingpong { &[Self::Pingpong] } else { &[Self::Sent, Self::Intended] }
    }
}

/// The value below which a share of the messages lies.
fn quantile(counts: &Counts, share: f64) -> Option<f64> {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let mut seen = 0;
    counts.iter().find_map(|(ns, count)| {
        seen += count;
        (seen as f64 >= share * total as f64).then_some(*ns)
    })
}

/// Ping-pong at the table's size, or all cells of `pace`, each of their sizes and rates apart.
fn groups(report: &Report, of: Of) -> Vec<Panel<'_>> {
    let size = report.document.size_bytes;
    let paced = of != Of::Pingpong;
    let keep = |info: &CellInfo| info.probe == of.probe() && (paced || info.size_bytes == size);
    let apart = |info: &CellInfo| -> Apart {
        if !paced {
            return Vec::new();
        }
        let rate = info.factors.get("rate").cloned().unwrap_or_default();
        vec![("size", info.size_bytes.to_string()), ("rate", rate)]
    };
    let mut found = panels(&report.cells, keep, apart);
    found.retain(|panel| panel.lines.values().flatten().any(|cell| !of.points(cell).is_empty()));
    found
}

/// What is drawn with `of` on one scale, as counts.
fn shown(panels: &[Panel<'_>], of: Of) -> Vec<Counts> {
    let cells = || panels.iter().flat_map(|panel| panel.lines.values().flatten());
    let all = of.beside().iter().flat_map(|one| cells().map(|cell| one.counts(cell)));
    all.filter(|counts| !counts.is_empty()).collect()
}

/// The tail of the distributions, one panel a protocol (of `pace` a size and rate too), all of a probe on one scale.
pub(crate) fn tails(report: &Report) -> Vec<Picture> {
    Of::ALL.into_iter().flat_map(|of| tails_of(report, of)).collect()
}

fn tails_of(report: &Report, of: Of) -> Vec<Picture> {
    let panels = groups(report, of);
    let shown = shown(&panels, of);
    let low = shown.iter().filter_map(|counts| counts.first().map(|(ns, _)| *ns)).reduce(f64::min);
    let high = shown.iter().filter_map(|counts| counts.last().map(|(ns, _)| *ns)).reduce(f64::max);
    let (Some(low), Some(high)) = (low, high) else { return Vec::new() };
    let domain = Domain::log(low.max(1.0), high.max(low.max(1.0) * 1.5));
    let most = shown.iter().map(|counts| counts.iter().map(|(_, count)| count).sum::<u64>()).max().unwrap_or(1);
    let depth = most.max(10).ilog10() + u32::from(!is_power_of_ten(most.max(10)));
    let what = format!("share of messages that took longer{}", which(report, of));
    draw(report, &panels, of, "tail", "Tail", domain, Shares::Longer(depth), &what)
}

/// The distribution functions of the same, up to the largest p99.9: what lies beyond is the tail's.
pub(crate) fn functions(report: &Report) -> Vec<Picture> {
    Of::ALL.into_iter().flat_map(|of| functions_of(report, of)).collect()
}

fn functions_of(report: &Report, of: Of) -> Vec<Picture> {
    let panels = groups(report, of);
    let shown = shown(&panels, of);
    let low = shown.iter().filter_map(|counts| quantile(counts, 0.001)).reduce(f64::min);
    // One cell far beyond the others must not squeeze these into a wall: it leaves at the right edge.
    let mut highs: Vec<f64> = shown.iter().filter_map(|counts| quantile(counts, 0.99)).collect();
    highs.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (low, highs.last().copied()) else { return Vec::new() };
    let domain = if high > low * 2.0 { Domain::log(low.max(1.0), high) } else { Domain::between(low, high) };
    let what = format!("share of messages that took no longer, up to the largest p99{}", which(report, of));
    draw(report, &panels, of, "function", "Distribution function", domain, Shares::Within, &what)
}

fn which(report: &Report, of: Of) -> String {
    match of {
        Of::Pingpong => format!(", {} bytes", report.document.size_bytes),
        Of::Sent => String::new(),
        Of::Intended => ", from the intended send".to_owned(),
    }
}

#[expect(clippy::too_many_arguments, reason = "what two kinds of picture have in common")]
fn draw(
    report: &Report,
    panels: &[Panel<'_>],
    of: Of,
    word: &str,
    name: &str,
    domain: Domain,
    shares: Shares,
    what: &str,
) -> Vec<Picture> {
    panels
        .iter()
        .enumerate()
        .map(|(number, panel)| {
            let curves: Vec<Curve> = panel
                .lines
                .iter()
                .filter_map(|(style, cells)| {
                    let cell = cells.iter().find(|cell| !of.points(cell).is_empty())?;
                    Some(Curve {
                        label: panel.label(cell),
                        style: *style,
                        counts: of.counts(cell),
                        tip: tip(&cell.info),
                    })
                })
                .collect();
            let words: Vec<String> = curves.iter().map(|curve| curve.tip.clone()).collect();
            let chart = TailChart {
                id: of.id(word, number),
                title: format!("{name} of {}, {}", of.kind(report), panel.heading),
                description: format!("{}.", words.join("; ")),
                quantity: of.kind(report).to_owned(),
                domain,
                shares,
                curves,
            };
            Picture { heading: format!("{} · {what}", panel.heading), svg: chart.svg() }
        })
        .collect()
}

fn is_power_of_ten(value: u64) -> bool {
    10u64.checked_pow(value.max(1).ilog10()) == Some(value)
}
