//! The results of `pace` as text and Markdown: a summary, then rates, latencies from both send times, one-way times, reflectors.

use crate::layout::Column;
use crate::parts::Part;
use crate::result_tables::{About, Keys, Shape, rows, times};
use crate::units::{commas, each_once, percent, plain, pps, span, us_or_dash};
use digest::names::label_word;
use model::factor::{self, Factor, Sets, ValueType};
use model::quantity::{Group, Times};
use model::result::Latency;
use model::{OneWay, OneWayMethod, ResultDocument, Role, SegmentName, StampSource, Statistic};

/// The settings of the schedule, as labels have them; the rate is in the tables.
pub(crate) fn settings(result: &ResultDocument) -> Vec<String> {
    let of_schedule =
        |factor: &&Factor| matches!(factor.sets, Sets::Pace(_) | Sets::Timing(_)) && factor.kind != ValueType::Rates;
    let known = factor::all().filter(of_schedule).map(|factor| factor.recorded_as);
    known.filter_map(|name| Some(label_word(name, &result.factor(name)?))).collect()
}

/// What is said before any table: a few sentences for a result, one or two for each of several.
pub(crate) fn sentences(results: &[ResultDocument]) -> Vec<String> {
    results.iter().flat_map(|result| of_one(result, results.len() == 1)).collect()
}

fn of_one(result: &ResultDocument, alone: bool) -> Vec<String> {
    let mut out = Vec::new();
    let from = |latency: &Option<Latency>| latency.as_ref().map(quantiles).filter(|text| !text.is_empty());
    if alone {
        out.push(reached(result));
        if let Some(actual) = from(&result.latency) {
            let intended = from(&result.latency_intended);
            let intended = intended.map(|text| format!("; from the intended send {text}")).unwrap_or_default();
            out.push(format!("RTT {actual}{intended}."));
        }
        out.extend(late(result));
        out.extend(crate::pgm::sentence(result));
    } else {
        let p99 =
            |latency: &Option<Latency>| latency.as_ref().and_then(|latency| latency.p99_ns).map(|ns| span(ns as f64));
        let mut text = reached(result);
        if let (Some(actual), Some(intended)) = (p99(&result.latency), p99(&result.latency_intended)) {
            text.push_str(&format!(" RTT p99 {actual}, from the intended send {intended}."));
        }
        out.push(text);
    }
    out.extend(
        result
            .rate
            .as_ref()
            .and_then(|rate| rate.saturated.as_ref())
            .map(|saturated| format!("What could not keep up: the {} ({}).", saturated.who, plain(&saturated.why))),
    );
    out
}

/// `p50 11.0 µs, p99 39.0 µs, max 1.74 ms`.
fn quantiles(latency: &Latency) -> String {
    let shown = [Statistic::P50, Statistic::P99, Statistic::Max];
    let words = shown.iter().filter_map(|one| Some(format!("{one} {}", span(one.of(latency)?))));
    words.collect::<Vec<_>>().join(", ")
}

/// `20,000/s asked, 19,998/s reached (99.99 %); 200,000 messages of 1000 B, none lost.`
fn reached(result: &ResultDocument) -> String {
    let size = result.size().map(|size| format!(" of {size} B")).unwrap_or_default();
    let messages = &result.messages;
    let lost = match messages.lost {
        0 => "none lost".to_owned(),
        lost => format!("{} lost ({})", commas(lost), percent(lost as f64, messages.sent as f64)),
    };
    let rest = format!("{} messages{size}, {lost}.", commas(messages.sent));
    let Some(rate) = &result.rate else { return rest };
    format!(
        "{}/s asked, {}/s reached ({}); {rest}",
        pps(rate.asked_pps),
        pps(rate.achieved_pps),
        percent(rate.achieved_pps, rate.asked_pps)
    )
}

/// How the sender kept its schedule, and what that means for the figures.
fn late(result: &ResultDocument) -> Option<String> {
    let (lateness, rate) = (result.lateness.as_ref()?, result.rate.as_ref()?);
    let mut text = format!("The sender was late by {}", quantiles(lateness));
    if rate.behind > 0 {
        text.push_str(&format!(
            "; {} messages left more than an interval late, at most {} were due at once",
            commas(rate.behind),
            commas(rate.most_behind)
        ));
    }
    text.push('.');
    // Where the sender stalls, only the intended times show what its user would have waited.
    let p99 = |latency: &Option<Latency>| latency.as_ref().and_then(|latency| latency.p99_ns);
    if let (Some(actual), Some(intended)) = (p99(&result.latency), p99(&result.latency_intended))
        && intended >= actual.saturating_mul(2)
    {
        text.push_str(
            " Read the figures from the intended send: they hold what waiting for the sender costs its user.",
        );
    }
    Some(text)
}

pub(crate) const KEYS: Keys = (
    || vec![Column::figures("rate", "1/s"), Column::figures("size", "B")],
    |result| {
        let rate = result.rate.as_ref().map(|rate| rate.asked_pps);
        let rate = rate.or_else(|| result.factors.get("rate").and_then(serde_json::Value::as_f64));
        vec![rate.map_or_else(|| "–".to_owned(), pps), result.size().map(|size| size.to_string()).unwrap_or_default()]
    },
);

/// What the keys of tables say already.
const IN_KEYS: [&str; 2] = ["asked", "intended"];

pub(crate) fn parts(results: &[ResultDocument]) -> Vec<Part> {
    let counts = |about: About, groups: &[Group]| {
        let mut quantities = about.quantities(groups);
        quantities.retain(|quantity| !IN_KEYS.contains(&quantity.id.as_str()));
        rows(results, KEYS, Shape { about, heading: Role::Reflector.word(), ..Shape::WHOLE }, &quantities)
    };
    let both =
        "RTT from the actual and from the intended send time, and the lateness between them (stdev is the jitter)";
    let one_way = results.iter().filter_map(|result| result.one_way.as_ref());
    let mut parts = vec![
        Part::new("Rate", counts(About::Whole, &[Group::Schedule, Group::Messages])),
        Part::new(both, times(results, KEYS, &[Group::Latency, Group::Intended, Group::Lateness])),
        Part::new("One-way times (signed)", times(results, KEYS, &[Group::OneWay])).with(each_once(one_way.map(bound))),
        Part::new(
            "Parts of the round trip, each between two stamps of one host",
            times(results, KEYS, &[Group::Segments]),
        )
        .with(segments(results)),
    ];
    parts.extend(crate::pgm::parts(results, KEYS));
    parts.push(Part::new("Each reflector", counts(About::Reflectors, &[Group::Messages])).with(reflectors(results)));
    parts
}

fn bound(way: &OneWay) -> String {
    match way.method {
        OneWayMethod::SameClock => "Both ends read one clock, so one-way times are exact.".to_owned(),
        OneWayMethod::MinRtt => format!(
            "The clocks' offset ({} µs at the start, {:.3} ppm drift) is estimated from the fastest round trips between {}: \
             the true one-way times lie within ± {} of the figures, all of them to the same side.{}",
            us_or_dash(Some(way.offset_ns as f64)),
            way.drift_ppm,
            stamps_words(way.stamps),
            span(way.error_ns as f64),
            relations(way)
        ),
        OneWayMethod::Other => format!("One-way times by a method unknown here: ± {}.", span(way.error_ns as f64)),
    }
}

/// Which stamps an offset is from.
fn stamps_words(stamps: StampSource) -> &'static str {
    match stamps {
        StampSource::Application => "the applications' own time stamps",
        StampSource::Kernel => "time stamps of the kernels (driver and stack)",
        StampSource::Hardware => "time stamps of the NICs",
        StampSource::HardwareSent => "time stamps of the NICs (sent) and the kernels (received)",
        StampSource::Other => "time stamps unknown here",
    }
}

/// What NICs' clocks are worth.
fn relations(way: &OneWay) -> String {
    let of = |clock: &model::StampClock| {
        let relation = clock.relation.as_ref()?;
        Some(format!("{} (± {})", plain(relation), span(clock.error_ns as f64)))
    };
    let all: Vec<String> = way.clocks.iter().filter_map(of).collect();
    if all.is_empty() {
        return String::new();
    }
    format!(" NICs' clocks are related to the wall clock by {}, which is in that.", all.join(" and "))
}

fn segment_words(name: SegmentName) -> &'static str {
    match name {
        SegmentName::Send => "send call to the driver's stamp, here",
        SegmentName::Wire => "both ways and all that the others do not hold",
        SegmentName::FarKernel => "the far stack to its application",
        SegmentName::FarApplication => "the far application, receive to send",
        SegmentName::NearKernel => "the stack here to the application",
        SegmentName::Other => "a part unknown here",
    }
}

/// What the parts are, and where their stamps were taken.
fn segments(results: &[ResultDocument]) -> Vec<String> {
    let word = |segment: &model::Segment| {
        format!("{}: {} ({} stamps)", segment.name, segment_words(segment.name), segment.stamps)
    };
    let words = each_once(results.iter().flat_map(|result| &result.segments).map(word));
    vec![format!("{}.", words.join("; "))]
}

/// What the one-way times of each reflector are worth.
fn reflectors(results: &[ResultDocument]) -> Vec<String> {
    let sentence = |reflector: &model::ReflectorReport| {
        let one_way = reflector.one_way.as_ref()?;
        let median = |signed| Times::Signed(signed).statistic(Statistic::P50).map_or_else(|| "–".to_owned(), span);
        let worth = match one_way.error_ns {
            0 => "exact".to_owned(),
            error_ns => format!("± {}", span(error_ns as f64)),
        };
        let (out, back) = (median(&one_way.out), median(&one_way.back));
        Some(format!("{}: one way p50 out {out}, back {back} ({worth}).", plain(&reflector.host)))
    };
    results.iter().flat_map(|result| &result.reflectors).filter_map(sentence).collect()
}
