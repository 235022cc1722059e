//! The rows of the catalogue.

use super::Better::{Higher, Lower, Neither};
use super::Combine::{Deviation, First, Interval, Max, Mean, Middle, Never, Ratio, Sum};
use super::Unit::{Bits, Bytes, Count, Ns, Number, PerMillion, PerSecond, Percent, Share, Us};
use super::{
    Better, Combine, Compared, DISTRIBUTIONS, Distribution, Group, PgmSide, Quantity, Read, ReadEnd, ReadResult,
    Statistic, Unit, distribution,
};
use crate::result::EndReport;
use crate::{Direction, Fate, PgmCounts, PgmReport, ResultDocument, Role};

/// Id, CSV column, title, name, definition, with ` | ` between them; without a name (four parts) the title is it, and of three
/// parts there is no column. A column `a/b` is `a`, and `b` in files of a row a cell.
type Words = &'static str;
/// Unit, how repetitions combine, which direction is better.
type Nature = (Unit, Combine, Better);

/// Rows `words unit combine better => value;`, where a value is a number, a part and its whole, or `None`. Behind a value may
/// stand what `compare` shows unasked, and its words for the second side where that is larger and where it is smaller.
macro_rules! rows {
    (
        $of:expr, |$from:pat_param|
        $($words:literal $unit:ident $combine:ident $better:ident => $read:expr $(, $shown:ident $more:literal $less:literal)?;)+
    ) => {
        vec![$({
            #[allow(unused_variables, reason = "not each row needs all of what it may read")]
            let row = $of($words, ($unit, $combine, $better), |$from| Parts::parts($read));
            $(let row = compared(row, Compared::$shown, [$more, $less]);)?
            row
        }),+]
    };
}

/// A value of a result as a part and what it is a part of.
trait Parts {
    fn parts(self) -> Option<[f64; 2]>;
}

impl Parts for [f64; 2] {
    fn parts(self) -> Option<[f64; 2]> {
        Some(self)
    }
}

impl<T: Parts> Parts for Option<T> {
    fn parts(self) -> Option<[f64; 2]> {
        self?.parts()
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl Parts for $number {
            fn parts(self) -> Option<[f64; 2]> {
                Some([self as f64, 1.0])
            }
        })+
    };
}
numbers!(f64, u64, i64, u32);

fn quantity(group: Group, words: Words, (unit, combine, better): Nature, read: Read) -> Quantity {
    let parts: Vec<&str> = words.split('|').map(str::trim).collect();
    let [id, csv, title, name, definition] = match parts[..] {
        [id, csv, title, name, definition] => [id, csv, title, name, definition],
        [id, csv, title, definition] => [id, csv, title, title, definition],
        [id, title, definition] => [id, "", title, title, definition],
        _ => [""; 5],
    };
    let (csv, csv_cells) = csv.split_once('/').unwrap_or((csv, csv));
    let verbs = match unit {
        Ns => ["is slower", "is faster"],
        _ => ["has more", "has less"],
    };
    Quantity {
        id: id.to_owned(),
        csv: csv.to_owned(),
        csv_cells: csv_cells.to_owned(),
        title,
        name: name.to_owned(),
        definition: definition.to_owned(),
        unit,
        better,
        combine,
        group,
        compared: if better == Neither { Compared::Never } else { Compared::Asked },
        verbs,
        read,
    }
}

/// What `compare` shows without being asked, and its words.
fn compared(mut quantity: Quantity, compared: Compared, verbs: [&'static str; 2]) -> Quantity {
    (quantity.compared, quantity.verbs) = (compared, verbs);
    quantity
}

/// Rows of a group that are read from the whole result.
fn figures(group: Group) -> impl Fn(Words, Nature, ReadResult) -> Quantity {
    move |words, nature, read| quantity(group, words, nature, Read::Result(read))
}

/// A part of a whole; `None` of nothing.
pub(super) fn share(part: u64, whole: u64) -> Option<[f64; 2]> {
    (whole > 0).then_some([part as f64, whole as f64])
}

pub(super) fn all() -> Vec<Quantity> {
    let mut out = rows! { figures(Group::Latency), |result|
        "count | latency_count/count | count | messages timed | Messages that the latency is of." Count Sum Neither => result.latency.as_ref()?.count;
    };
    out.extend(of_distributions(|group| group < Group::Messages));
    out.extend(intervals());
    out.extend(clocks());
    out.extend(messages());
    out.extend(schedule());
    out.extend(transactions());
    out.extend(streams());
    out.extend([Direction::Up, Direction::Down].into_iter().flat_map(flow));
    out.extend(of_distributions(|group| group > Group::Messages));
    out.extend(repairs());
    for side in [PgmSide::All, PgmSide::Initiator, PgmSide::Reflectors] {
        out.extend(packets(side));
    }
    for role in Role::ALL {
        out.extend(cpu(role));
        out.extend(drops(role));
    }
    out.extend(load());
    out.extend(tool());
    out
}

/// All statistics of the distributions of some groups.
fn of_distributions(keep: fn(Group) -> bool) -> Vec<Quantity> {
    let mut out = Vec::new();
    for distribution in DISTRIBUTIONS.iter().filter(|distribution| keep(distribution.group)) {
        if let (Group::Fates, Some(fate)) =
            (distribution.group, distribution::FATES.iter().find(|(fate, _)| fate.word() == distribution.id))
        {
            let mut count = quantity(Group::Fates, " |  | messages |  | ", (Count, Sum, Neither), Read::Fate(fate.0));
            count.id = format!("{}.messages", fate.0);
            count.csv = format!("pgm_{}_messages", fate.0);
            count.csv_cells.clone_from(&count.csv);
            count.name = format!("messages {}", fate.1);
            count.definition = format!("Answered messages {}.", fate.1);
            out.push(count);
        }
        out.extend(Statistic::IN_TABLES.map(|statistic| time(distribution, statistic)));
    }
    out
}

fn time(distribution: &'static Distribution, statistic: Statistic) -> Quantity {
    let point = if distribution.id.is_empty() { "" } else { "." };
    let csv = if distribution.in_csv.contains(&statistic) {
        format!("{}{}_ns", distribution.csv, statistic.word().replace('.', "_"))
    } else {
        String::new()
    };
    let [usual, headline] = distribution.compared;
    let named = if distribution.name.is_empty() { "RTT or RTT/2" } else { distribution.name };
    let what = match statistic {
        Statistic::Mean => "Exact mean".to_owned(),
        Statistic::Stdev => "Exact sample standard deviation (n-1), the jitter,".to_owned(),
        Statistic::Min => "Smallest".to_owned(),
        Statistic::Max => "Largest".to_owned(),
        percentile => format!(
            "Percentile {} from the histogram (3 significant digits)",
            percentile.word().trim_start_matches('p')
        ),
    };
    Quantity {
        id: format!("{}{point}{statistic}", distribution.id),
        csv_cells: csv.clone(),
        csv,
        title: statistic.word(),
        name: format!("{statistic} of {named}"),
        definition: format!("{what} of {named}."),
        unit: Ns,
        better: Lower,
        combine: match statistic {
            Statistic::Min => Combine::Min,
            Statistic::Max => Combine::Max,
            _ => Combine::Typical,
        },
        group: distribution.group,
        compared: match (headline.contains(&statistic), usual.contains(&statistic)) {
            (true, _) => Compared::Headline,
            (_, true) => Compared::Usual,
            _ => Compared::Asked,
        },
        verbs: if statistic == Statistic::Stdev { ["has more jitter", "has less jitter"] } else { distribution.verbs },
        read: Read::Time(distribution, statistic),
    }
}

fn intervals() -> Vec<Quantity> {
    rows! { figures(Group::Latency), |result|
        "p50.low | p50_ci95_low_ns | p50 from |  | Lower end of the 95 % interval of the median, from batches." Ns Never Neither => result.latency.as_ref()?.p50_ci95_ns?[0];
        "p50.high | p50_ci95_high_ns | p50 to |  | Upper end of the 95 % interval of the median, from batches." Ns Never Neither => result.latency.as_ref()?.p50_ci95_ns?[1];
        "mean.low | mean_ci95_low_ns | mean from |  | Lower end of the 95 % interval of the mean, from batches." Ns Never Neither => result.latency.as_ref()?.mean_ci95_ns?[0];
        "mean.high | mean_ci95_high_ns | mean to |  | Upper end of the 95 % interval of the mean, from batches." Ns Never Neither => result.latency.as_ref()?.mean_ci95_ns?[1];
    }
}

fn clocks() -> Vec<Quantity> {
    let of = |words, nature, read| quantity(Group::OneWay, words, nature, Read::OneWay(read));
    rows! { of, |one_way|
        "one-way-error | one_way_error_ns | ± | error of one-way times | Half the width within which the offset of the clocks lies; 0 with one clock." Ns Max Neither => one_way.error_ns;
        "one-way-offset | one_way_offset_ns | offset | offset of the clocks | The far clock less the near one at the start; 0 with one clock." Ns Middle Neither => one_way.offset_ns;
        "one-way-drift | one_way_drift_ppm | drift | drift of the clocks | How fast the far clock runs against the near one, in parts per million; 0 with one clock." Number Middle Neither => one_way.drift_ppm;
    }
}

/// Share of messages lost; of a stream that of its datagrams.
pub(super) fn loss(result: &ResultDocument) -> Option<[f64; 2]> {
    if let Some(stream) = &result.stream {
        let counted = stream.flows.iter().filter_map(|flow| Some((flow.sent?, flow.lost?)));
        let (sent, lost) = counted.fold((0, 0), |(sent, lost), flow| (sent + flow.0, lost + flow.1));
        return share(lost, sent);
    }
    share(result.messages.lost, result.messages.sent)
}

fn messages() -> Vec<Quantity> {
    let of = |words, nature, read| quantity(Group::Messages, words, nature, Read::Messages(read));
    let words = "loss | lost_share | lost | share of messages lost | Messages not answered in time by messages sent; of a stream its datagrams.";
    let loss = quantity(Group::Messages, words, (Share, Ratio, Lower), Read::Loss);
    let mut all = rows! { of, |messages|
        "sent | sent | sent | messages sent | Timed messages sent." Count Sum Neither => messages.sent;
        "received | received | answered | messages answered | Of them answered in time." Count Sum Neither => messages.received;
        "lost | lost | lost | messages lost | Of them not answered in time." Count Sum Lower => messages.lost;
    };
    all.push(compared(loss, Compared::Headline, ["loses more", "loses less"]));
    all.extend(rows! { of, |messages|
        "duplicated | duplicated | twice | answers that came twice | Answers that came twice; below the size of a header not known." Count Sum Lower => messages.duplicated;
        "reordered | reordered | disorder | answers out of order | Answers that came after a later one; below the size of a header not known." Count Sum Lower => messages.reordered;
        "reorder-depth | reorder_depth | depth | depth of reordering | The furthest that an answer came behind a later one, in message numbers." Count Max Lower => messages.reorder_depth, Asked "comes more out of order" "comes less out of order";
        "late | late | late | answers after the time-out | Of the lost, answered after the time-out; below the size of a header not known." Count Sum Lower => messages.late;
    });
    all
}

fn schedule() -> Vec<Quantity> {
    rows! { figures(Group::Schedule), |result|
        "asked | asked_pps | asked | rate asked for | Messages a second asked for (`pace`)." PerSecond First Neither => result.rate.as_ref()?.asked_pps;
        "achieved | achieved_pps | achieved | rate sent | Messages a second sent (`pace`)." PerSecond Mean Higher => result.rate.as_ref()?.achieved_pps, Headline "sends more" "sends less";
        "reached | reached_share | reached | share of the rate asked for | The rate sent by the rate asked for." Share Ratio Higher => {
            let rate = result.rate.as_ref()?;
            (rate.asked_pps > 0.0).then_some([rate.achieved_pps, rate.asked_pps])
        };
        "line | line_pps | line rate | rate that the link carries | Messages of this size a second that the link carries at the rate it reports; veth and loopback report none." PerSecond First Neither => result.rate.as_ref()?.line_pps;
        "intended | intended_messages | intended | messages of the schedule | Messages that the schedule held." Count Sum Neither => result.rate.as_ref()?.intended;
        "behind | behind | behind | messages sent late | Messages sent more than one interval of the schedule late." Count Sum Lower => result.rate.as_ref()?.behind;
        "most-behind | most_behind | at once | messages due at once | Largest number of messages that the sender was behind at once." Count Max Lower => result.rate.as_ref()?.most_behind;
        "gaps | gaps | gaps | runs of lost messages | Runs of messages lost one after the other, each reflector counted." Count Sum Lower => result.rate.as_ref()?.gaps;
        "longest-gap | longest_gap | longest gap | longest run of lost messages | Messages of the longest run lost one after the other, at one reflector." Count Max Lower => result.rate.as_ref()?.longest_gap;
    }
}

fn transactions() -> Vec<Quantity> {
    rows! { figures(Group::Transactions), |result|
        "transactions | transactions_per_s/transactions_per_second | trans | transactions | Transactions a second, mean of all passes (`rr`)." PerSecond Mean Higher => result.transactions.as_ref()?.per_second, Headline "does more" "does less";
        "transactions-ci95 | transactions_ci95_percent | ±95 % | interval of transactions | Half-width of the 95 % interval of the mean over passes, in percent of it." Percent Interval Neither => result.transactions.as_ref()?.ci95_percent;
        "passes | passes | passes | passes | Passes measured." Count Sum Neither => result.transactions.as_ref()?.passes;
        "request | request_bytes | request | request | Size of a request." Bytes First Neither => result.transactions.as_ref()?.request_bytes;
        "response | response_bytes | reply | response | Size of a response." Bytes First Neither => result.transactions.as_ref()?.response_bytes;
    }
}

fn streams() -> Vec<Quantity> {
    rows! { figures(Group::Stream), |result|
        "bits |  | payload | payload | Payload delivered in bits a second, all directions together (`stream`)." Bits Mean Higher => {
            let flows = &result.stream.as_ref()?.flows;
            (!flows.is_empty()).then(|| flows.iter().map(|flow| flow.bits_per_second).sum::<f64>())
        }, Headline "carries more" "carries less";
        "asked-bits | asked_bits_per_s | asked | payload asked for | Payload asked for in bits a second and direction." Bits First Neither => result.stream.as_ref()?.asked_bps;
        "asked-datagrams | asked_datagrams_per_s | asked | datagrams asked for | Datagrams asked for a second and direction." PerSecond First Neither => result.stream.as_ref()?.asked_pps;
        "initiator.us-per-kib | initiator_us_per_kib | demand a KiB | CPU of the initiator's machine a KiB | Busy time of all CPUs of the initiator's machine a KiB of payload, as netperf's service demand." Us Mean Lower => result.stream.as_ref()?.initiator_us_per_kib, Asked "costs more CPU" "costs less CPU";
        "reflector.us-per-kib | reflector_us_per_kib | demand a KiB | CPU of the reflector's machine a KiB | Busy time of all CPUs of the reflector's machine a KiB of payload, as netperf's service demand." Us Mean Lower => result.stream.as_ref()?.reflector_us_per_kib, Asked "costs more CPU" "costs less CPU";
    }
}

/// A quantity of each of several subjects: they stand before its id and column, and behind its name and definition.
fn of_subject(mut quantity: Quantity, [id, csv, words]: [&str; 3]) -> Quantity {
    quantity.id = format!("{id}.{}", quantity.id);
    for column in [&mut quantity.csv, &mut quantity.csv_cells] {
        if !column.is_empty() {
            *column = format!("{csv}_{column}");
        }
    }
    quantity.name = format!("{}, {words}", quantity.name);
    quantity.definition = format!("{}, {words}.", quantity.definition.trim_end_matches('.'));
    quantity
}

fn flow(direction: Direction) -> Vec<Quantity> {
    let of = |words, nature, read| {
        let row = quantity(Group::Flows, words, nature, Read::Flow(direction, read));
        of_subject(row, [direction.word(); 3])
    };
    rows! { of, |flow|
        "flows | flows | flows | parallel flows | Parallel flows." Count Max Neither => flow.flows;
        "bytes | bytes | transfer | payload | Payload that reached the receiving application." Bytes Sum Neither => flow.bytes;
        "elapsed | elapsed_ns | over | time | Time over which it was received; of datagrams the sending end's time, where that was longer." Ns Sum Neither => flow.elapsed_ns;
        "bits | bits_per_s/bits_per_second | payload | payload | Payload delivered, in bits a second." Bits Mean Higher => flow.bits_per_second, Asked "carries more" "carries less";
        "datagrams | datagrams_per_s | datagrams/s | datagrams | Datagrams delivered a second; not of TCP." PerSecond Mean Higher => flow.datagrams_per_second;
        "sent | sent | sent | datagrams sent | Datagrams sent; not of TCP." Count Sum Neither => flow.sent;
        "received | received | received | datagrams delivered | Datagrams delivered; not of TCP." Count Sum Neither => flow.received;
        "lost | lost | lost | datagrams lost | Datagrams lost; not of TCP." Count Sum Lower => flow.lost;
        "loss | lost_share | lost | share of datagrams lost | Datagrams lost by datagrams sent; not of TCP." Share Ratio Lower => share(flow.lost?, flow.sent?);
        "reordered | reordered | reordered | datagrams out of order | Datagrams that came after a later one; not of TCP." Count Sum Lower => flow.reordered;
        "duplicated | duplicated | twice | datagrams that came twice | Datagrams that came twice; not of TCP." Count Sum Lower => flow.duplicated;
        "rfc3550-jitter | rfc3550_jitter_ns | jitter | RFC 3550 jitter | Interarrival jitter at the end (RFC 3550, section 6.4.1); not of TCP nor with `gro`." Ns Middle Lower => flow.rfc3550_jitter_ns, Asked "has more jitter" "has less jitter";
        "rfc3550-jitter-first | rfc3550_jitter_first_ns | first | RFC 3550 jitter of the first second | Interarrival jitter at the end of the first second, while it still settles." Ns Middle Neither => flow.rfc3550_jitter_first_ns;
        "rfc3550-jitter-max | rfc3550_jitter_max_ns | largest | largest RFC 3550 jitter | Largest interarrival jitter." Ns Max Lower => flow.rfc3550_jitter_max_ns, Asked "has more jitter" "has less jitter";
        "retransmits | retransmits | sent again | segments sent again | Segments sent again (tcp_info); not of UDP." Count Sum Lower => flow.retransmits, Asked "sends more segments again" "sends fewer segments again";
        "tcp-rtt | tcp_rtt_mean_ns | TCP's RTT | RTT as TCP sees it | Smoothed RTT that TCP sees (tcp_info), mean over the seconds; not of UDP." Ns Middle Lower => flow.tcp_rtt_mean_ns;
        "tcp-rtt-max | tcp_rtt_max_ns | its largest | largest RTT as TCP sees it | Its largest value." Ns Max Lower => flow.tcp_rtt_max_ns;
    }
}

/// What all ends of PGM counted, for a number of something else.
fn per(pgm: &PgmReport, part: fn(&PgmCounts) -> u64, whole: u64, times: f64) -> Option<[f64; 2]> {
    (whole > 0).then(|| [pgm.sum(part) as f64 * times, whole as f64])
}

fn share_of_fate(result: &ResultDocument, fate: Fate) -> Option<[f64; 2]> {
    let pgm = result.pgm.as_ref()?;
    let messages = |fate| pgm.fate(fate).map_or(0, |fate| fate.messages);
    share(messages(fate), Fate::ALL.map(messages).iter().sum())
}

fn repairs() -> Vec<Quantity> {
    rows! { figures(Group::Repairs), |result|
        "repaired |  | repaired | share of messages repaired | Share of the answered messages that were lost and repaired on either way." Share Ratio Lower => share_of_fate(result, Fate::Repaired), Headline "repairs more" "repairs less";
        "held |  | held | share of messages held behind a repair | Share of the answered messages that came by themselves and waited behind a repair." Share Ratio Lower => share_of_fate(result, Fate::Held), Usual "holds back more" "holds back less";
        "untouched |  | untouched | share of messages untouched by repairs | Share of the answered messages that were neither." Share Ratio Higher => share_of_fate(result, Fate::Untouched), Asked "leaves more untouched" "leaves less untouched";
        "naks |  | NAKs | number of NAKs | NAKs that all ends sent, for a million messages." PerMillion Ratio Lower => per(result.pgm.as_ref()?, |counts| counts.naks_sent, result.messages.sent, 1e6), Usual "asks for repairs more often" "asks for repairs less often";
        "given-up |  | given up | number of packets lost for good | Packets that an end gave up, for a million messages." PerMillion Ratio Lower => per(result.pgm.as_ref()?, |counts| counts.lost, result.messages.sent, 1e6), Headline "gives up more" "gives up less";
        "rebuilt |  | rebuilt | share of repairs rebuilt from parity | Packets computed from parity by packets that came after all, at all ends." Share Ratio Neither => {
            let pgm = result.pgm.as_ref()?;
            per(pgm, |counts| counts.rebuilt, pgm.sum(|counts| counts.recovered), 1.0)
        }, Usual "rebuilds more" "rebuilds less";
        "parity |  | parity | parity packets as a share of data packets | Parity packets that all ends sent, asked for or not, by the data packets sent first." Share Ratio Neither => {
            let pgm = result.pgm.as_ref()?;
            let parity: fn(&PgmCounts) -> u64 = |counts| counts.parity_unasked_sent + counts.parity_asked_sent;
            per(pgm, parity, pgm.sum(|counts| counts.odata_sent), 1.0)
        }, Usual "sends more parity" "sends less parity";
    }
}

fn packets(side: PgmSide) -> Vec<Quantity> {
    let (group, subject) = match side {
        PgmSide::All => (Group::Pgm, ["pgm", "pgm", "all ends together"]),
        PgmSide::Initiator => (Group::PgmEnds, ["pgm-initiator", "pgm_initiator", "the initiator"]),
        PgmSide::Reflectors => (Group::PgmEnds, ["pgm-reflectors", "pgm_reflectors", "all reflectors together"]),
    };
    let of = |words, nature, read| {
        let mut one = of_subject(quantity(group, words, nature, Read::Pgm(side, read)), subject);
        if let "pgm.naks-sent" | "pgm.parity-sent" = one.id.as_str() {
            // As they have always been called.
            one.csv = one.csv.replace("_sent", "");
            one.csv_cells.clone_from(&one.csv);
        }
        one
    };
    rows! { of, |end|
        "odata-sent | odata_sent | ODATA sent | Packets of new data sent" Count Sum Neither => end.counts.odata_sent;
        "naks-received | naks_received | NAKs got | NAKs received" Count Sum Neither => end.counts.naks_received;
        "ncfs-sent | ncfs_sent | NCFs sent | Confirmations (NCF) sent" Count Sum Neither => end.counts.ncfs_sent;
        "repairs-sent | repairs_sent | repairs sent | Repairs sent" Count Sum Neither => end.counts.rdata_sent;
        "messages |  | delivered | Messages delivered" Count Sum Neither => end.counts.messages;
        "missing | missing | missed | Packets that were missing when a later one came" Count Sum Neither => end.counts.missing;
        "naks-sent | naks_sent | NAKs sent | NAKs sent" Count Sum Neither => end.counts.naks_sent;
        "naks-heard | naks_heard | NAKs heard | Of the NAKs sent, those that arrived" Count Sum Neither => end.naks_heard;
        "ncfs-received | ncfs_received | NCFs got | Confirmations (NCF) received" Count Sum Neither => end.counts.ncfs;
        "recovered | recovered | repaired | Of the missing packets, those that came after all" Count Sum Neither => end.counts.recovered;
        "lost | lost | given up | Of the missing packets, those lost for good" Count Sum Neither => end.counts.lost;
        "duplicates | duplicates | twice | Packets that came twice" Count Sum Neither => end.counts.duplicates;
        "parity-unasked |  | parity unasked | Parity packets sent that nobody had to ask for" Count Sum Neither => end.counts.parity_unasked_sent;
        "parity-asked |  | parity asked | Parity packets sent on demand, not among the repairs" Count Sum Neither => end.counts.parity_asked_sent;
        "parity-received | parity_received | parity got | Parity packets received and kept to repair with" Count Sum Neither => end.counts.parity_received;
        "rebuilt | rebuilt | rebuilt | Of the recovered packets, those computed from parity" Count Sum Neither => end.counts.rebuilt;
        "parity-sent | parity_sent | parity sent | Parity packets sent, asked for or not" Count Sum Neither => end.counts.parity_unasked_sent + end.counts.parity_asked_sent;
        "parity-naks-sent |  | NAKs for parity | Of the NAKs sent, those that ask for parity" Count Sum Neither => end.counts.parity_naks_sent;
        "parity-unneeded |  | parity unneeded | Parity packets of groups that lacked nothing, or too late" Count Sum Neither => end.counts.parity_unneeded;
        "spms-sent |  | SPMs sent | SPMs sent" Count Sum Neither => end.counts.spms_sent;
        "spms |  | SPMs got | SPMs received" Count Sum Neither => end.counts.spms;
        "packets |  | packets | Data packets received that were missing until then or new" Count Sum Neither => end.counts.packets;
        "asked-of-us |  | asked of it | Numbers in the NAKs received" Count Sum Neither => end.counts.numbers_asked_of_us;
        "asked-outside |  | outside | Of these, not in the window any more, or not yet" Count Sum Neither => end.counts.numbers_outside;
        "asked |  | asked | Numbers in the NAKs sent" Count Sum Neither => end.counts.numbers_asked;
        "overflows |  | overflows | Data packets dropped because the receive window was full" Count Sum Neither => end.counts.overflows;
        "unlogged |  | unlogged | Events and repairs that are in no figure of the steps" Count Sum Neither => end.counts.unlogged;
    }
}

fn per_elapsed(end: &EndReport, ns: Option<u64>) -> Option<f64> {
    (end.usage.elapsed_ns > 0).then_some(ns? as f64 / end.usage.elapsed_ns as f64)
}

/// A count of an end that has reported: a kernel that answers echoes, and a peer that vanished, have not.
fn told(end: &EndReport, count: u64) -> Option<f64> {
    (end.usage.elapsed_ns > 0).then_some(count as f64)
}

fn of_end(group: Group, role: Role) -> impl Fn(Words, Nature, ReadEnd) -> Quantity {
    move |words, nature, read| of_subject(quantity(group, words, nature, Read::End(role, read)), [role.word(); 3])
}

fn cpu(role: Role) -> Vec<Quantity> {
    let of = |words, nature, read| {
        compared(of_end(Group::Cpu, role)(words, nature, read), Compared::Asked, ["costs more CPU", "costs less CPU"])
    };
    let mut all = rows! { of, |(end, result)|
        "machine | machine_percent | machine busy | CPU of the whole machine | Busy share of all CPUs of the machine in netperf's definition, iowait and steal counted as busy (/proc/stat)." Percent Mean Lower => end.usage.machine_percent();
        "demand | service_demand_us | demand | service demand | netperf's service demand: CPU time of the machine a received message or transaction." Us Mean Lower => end.usage.service_demand_us(result.messages.received);
        "process | process_us | process | CPU of the measuring process | CPU time of the measuring process alone a received message or transaction (getrusage)." Us Mean Lower => end.usage.process_us(result.messages.received);
        "softirq | softirq_us | softirq | softirq time | Softirq time of the machine a received message or transaction (/proc/stat)." Us Mean Lower => end.usage.softirq_us(result.messages.received);
        "own-time |  | own CPU time | CPU time of the process | CPU time of the measuring process by wall time." Share Mean Lower => per_elapsed(end, Some(end.usage.process_user_ns + end.usage.process_system_ns));
        "softirq-time |  | softirq time | softirq time | Softirq time of the machine by wall time; more than 1 on several CPUs." Share Mean Lower => per_elapsed(end, Some(end.usage.machine_softirq_ns));
        "ksoftirqd |  | ksoftirqd | time of ksoftirqd | CPU time of the ksoftirqd threads of the machine by wall time: softirqs that waited for the scheduler." Share Mean Lower => per_elapsed(end, end.usage.ksoftirqd_ns);
        "irq-time |  | interrupt time | interrupt time | Hard interrupt time of the machine by wall time." Share Mean Lower => per_elapsed(end, Some(end.usage.machine_irq_ns));
        "steal-time |  | stolen from the machine | stolen time | Steal of all CPUs of the machine by wall time." Share Mean Lower => per_elapsed(end, Some(end.usage.machine_steal_ns));
        "other-tasks |  | other tasks on its CPU | time of other tasks | Time that other tasks ran on the measuring CPU by wall time; absent when not pinned." Share Mean Lower => per_elapsed(end, end.usage.other_tasks_ns);
        "steal |  | stolen by the hypervisor | stolen time of the measuring CPU | Steal of the measuring CPU by wall time; absent when not pinned." Share Mean Lower => per_elapsed(end, end.usage.cpu_steal_ns);
        "run-queue-wait |  | ready but not running | time ready but not running | Time that the measuring thread was ready but not running by wall time (schedstat)." Share Mean Lower => per_elapsed(end, end.usage.run_queue_wait_ns);
    };
    all.extend(rows! { of_end(Group::Cpu, role), |(end, _)|
        "voluntary-switches |  | waited | voluntary switches | Context switches because the thread waited." Count Sum Lower => told(end, end.usage.voluntary_switches);
        "involuntary-switches | involuntary_switches | displaced | involuntary switches | Context switches because the measuring thread was displaced." Count Sum Lower => told(end, end.usage.involuntary_switches);
        "migrations | migrations | moved to another CPU | migrations | Moves of the measuring thread to another CPU." Count Sum Lower => told(end, end.usage.migrations);
        "faults | faults | page faults | page faults | Page faults of the measuring thread, with and without I/O." Count Sum Lower => told(end, end.usage.minor_faults.saturating_add(end.usage.major_faults));
    });
    all
}

fn drops(role: Role) -> Vec<Quantity> {
    rows! { of_end(Group::Drops, role), |(end, _)|
        "socket-overflow | dropped at the socket | Datagrams dropped at the own socket because its buffer was full (SO_RXQ_OVFL)" Count Sum Lower => told(end, end.counters.socket_overflow);
        "udp-receive-buffer-errors | dropped for want of receive buffer | UDP datagrams dropped for want of receive buffer, host-wide (RcvbufErrors)" Count Sum Lower => told(end, end.counters.udp_receive_buffer_errors);
        "udp-receive-errors | other receive errors | UDP datagrams dropped for other receive errors (InErrors less the above)" Count Sum Lower => told(end, end.counters.udp_receive_errors);
        "udp-send-buffer-errors | send errors | UDP send errors for want of buffer (SndbufErrors)" Count Sum Lower => told(end, end.counters.udp_send_buffer_errors);
        "tcp-retransmits | TCP segments sent again | TCP segments sent again, host-wide (RetransSegs)" Count Sum Lower => told(end, end.counters.tcp_retransmits);
        "nic-receive-drops | dropped by devices on receiving | Received packets dropped by network devices" Count Sum Lower => told(end, end.counters.nic_receive_drops);
        "nic-send-drops | dropped by devices on sending | Packets dropped on sending by network devices" Count Sum Lower => told(end, end.counters.nic_send_drops);
        "qdisc-drops | dropped by queueing disciplines | Packets dropped by queueing disciplines of the devices" Count Sum Lower => told(end, end.counters.qdisc_drops);
        "backlog-drops | dropped by a full backlog | Packets dropped because a CPU's backlog was full (softnet_stat)" Count Sum Lower => told(end, end.counters.backlog_drops);
    }
}

fn load() -> Vec<Quantity> {
    rows! { figures(Group::Load), |result|
        "load.busy | load_busy_percent | busy share | busy share under the load | Busy share of the CPUs that the load may use, whoever used them, while it ran." Percent Mean Neither => result.load.as_ref()?.busy_percent;
        "load.evenness | load_work_cv | evenness | evenness of the load | Coefficient of variation of the load's work per 100 ms; of the CPU time that it got for `build`." Number Mean Neither => result.load.as_ref()?.work_cv;
        "load.work |  | work | work of the load | Work that the load did, in units of its profile." Count Sum Neither => result.load.as_ref()?.work;
        "load.steady-after |  | steady after | time until the load was steady | How long the load took until it was steady." Ns Max Neither => result.load.as_ref()?.steady_after_ns;
        "load.elapsed |  | ran | time of the load | How long the load ran after that." Ns Sum Neither => result.load.as_ref()?.elapsed_ns;
    }
}

fn tool() -> Vec<Quantity> {
    let mut all = rows! { figures(Group::Ping), |result|
        "mdev | mdev_ns | mdev | mean deviation | Mean deviation of RTT as ping prints it: root of mean square less square of mean." Ns Deviation Lower => result.mdev_ns;
    };
    all.extend(rows! { figures(Group::Wake), |result|
        "wake.interval | wake_interval_ns | interval | time between two deadlines | Time between two deadlines of a thread (`wake`)." Ns First Neither => result.wake.as_ref()?.interval_ns;
        "wake.slack | wake_slack_ns | timer slack | timer slack | By how much the kernel may delay the threads' timers (PR_SET_TIMERSLACK); 0 under a real-time policy." Ns First Neither => result.wake.as_ref()?.timer_slack_ns;
        "wake.deadlines | wake_deadlines | deadlines | deadlines | Deadlines of all threads." Count Sum Neither => result.wake.as_ref()?.deadlines;
        "wake.missed | wake_missed | missed | deadlines missed | Deadlines that passed while the thread had not yet woken up from the one before." Count Sum Lower => result.wake.as_ref()?.missed;
        "wake.overslept | wake_overslept | overslept | wake-ups after the next deadline | Wake-ups that came after the next deadline." Count Sum Lower => result.wake.as_ref()?.overslept;
        "wake.missed-share |  | missed | share of deadlines missed | Missed deadlines by all deadlines." Share Ratio Lower => {
            let wake = result.wake.as_ref()?;
            share(wake.missed?, wake.deadlines?)
        };
    });
    all.extend(rows! { figures(Group::Cycle), |result|
        "cycle.interval | cycle_interval_ns | interval | time between two cycles | Time between two cycles (`cycle`)." Ns First Neither => result.cycle.as_ref()?.interval_ns;
        "cycle.deadline | cycle_deadline_ns | deadline | deadline | By when an echo must have arrived after its cycle was due." Ns First Neither => result.cycle.as_ref()?.deadline_ns;
        "cycle.cycles | cycle_cycles | cycles | cycles | Cycles that were due, those that were left out too." Count Sum Neither => result.cycle.as_ref()?.cycles;
        "cycle.missed | cycle_missed | missed | deadlines missed | Cycles whose echo came after the deadline or not at all." Count Sum Lower => result.cycle.as_ref()?.missed;
        "cycle.misses | cycle_misses_per_million | misses/M | number of missed deadlines | Missed deadlines for a million cycles." PerMillion Ratio Lower => {
            let cycle = result.cycle.as_ref()?;
            (cycle.cycles > 0).then_some([1e6 * cycle.missed as f64, cycle.cycles as f64])
        }, Headline "misses more deadlines" "misses fewer deadlines";
        "cycle.runs | cycle_runs | runs | runs of missed deadlines | Runs of missed cycles, one after the other." Count Sum Lower => result.cycle.as_ref()?.runs;
        "cycle.longest-run | cycle_longest_run | longest run | longest run of missed deadlines | Missed cycles of the longest run." Count Max Lower => result.cycle.as_ref()?.longest_run;
        "cycle.skipped | cycle_skipped | skipped | cycles left out | Cycles that the publisher left out, because it was busy when they were due." Count Sum Lower => result.cycle.as_ref()?.skipped;
    });
    all.extend(rows! { figures(Group::Tool), |result|
        "elapsed | elapsed_ns | elapsed | time measured | From the first timed message to the last." Ns Sum Neither => result.elapsed_ns;
        "cost.clock-read |  | clock read | clock read | One clock read, median, measured just before." Ns Middle Neither => result.self_cost.clock_read_ns;
        "cost.loop |  | loop | loop | The loop around an empty send and receive, a round; it is in each latency." Ns Middle Neither => result.self_cost.loop_ns;
        "cost.record |  | record | record | Recording one sample, outside the timed part." Ns Middle Neither => result.self_cost.record_ns;
        "cost.startup |  | start | start | Start of the process to the first message, without warm-up." Ns Middle Neither => result.self_cost.startup_ns;
    });
    all
}
