//! What a report says of synthetic runs, in every form.

use super::sentences::{said, waited};
use crate::sample::{self, Recipe, Shape};
use digest::RunInput;
use model::{Finding, FindingId, LatencyKind, Probe, Role, Substrate};
use windhover_report::{Options, Report, SfntFacts, csv_columns};

pub(super) const SMALL: Recipe = Recipe {
    name: "small-20261121T214304Z",
    substrate: Substrate::Netns,
    protocols: &["tcp", "udp"],
    loads: &["none", "build"],
    policies: &["fifo:1"],
    sizes: &[32, 1024],
    repetitions: 3,
    messages: 3000,
    rr: true,
    ping: false,
};

pub(super) fn small() -> RunInput {
    sample::run(&SMALL)
}

pub(super) fn report(runs: &[RunInput]) -> Report {
    Report::from_inputs(runs.to_vec(), &Options::default())
}

#[test]
fn the_papers_table_as_text() {
    insta::assert_snapshot!(report(&[small()]).table_text(100));
}

#[test]
fn settings_that_are_empty_are_shown() {
    let mut run = small();
    for machine in run.document.machines.values_mut() {
        machine.sysctls.insert("kernel.empty_on_this_machine".into(), String::new());
    }
    assert!(report(&[run]).page().unwrap().html.contains("kernel.empty_on_this_machine"));
}

#[test]
fn repetitions_give_the_interval_of_a_rate() {
    let mut run = small();
    for result in &mut run.results {
        let repetition = f64::from(result.repetition.unwrap());
        if let Some(rate) = &mut result.transactions {
            rate.ci95_percent = None;
            rate.per_second = 1000.0 + 100.0 * repetition;
        }
    }
    let made = report(&[run]);
    let rate = made.document().cells.iter().find_map(|cell| cell.value("transactions-ci95")).unwrap();
    // 1100, 1200, 1300: standard deviation 100; t of 2 degrees of freedom is 4.303.
    let expected = 100.0 * 4.3027 * 100.0 / 3_f64.sqrt() / 1200.0;
    assert!((rate - expected).abs() < 0.01, "{rate:?} {expected}");
}

#[test]
fn text_stays_within_a_hundred_columns() {
    let mut run = small();
    run.document.labels.insert("nic".into(), "Solarflare SFN5121T 10GBit Ethernet with OpenOnload".into());
    for line in report(&[run]).table_text(100).lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

/// A table for people has lines no longer than the terminal; below 80 columns it may need what its keys need.
fn assert_fits(what: &str, columns: usize, text: &str) {
    let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap_or_default();
    assert!(widest.chars().count() <= columns, "{what}, {columns} columns, {}:\n{widest}", widest.chars().count());
}

#[test]
fn every_table_fits_the_terminal_from_eighty_columns() {
    let mut run = small();
    run.document.labels.insert("nic".into(), "Solarflare SFN5121T 10GBit Ethernet with OpenOnload".into());
    for (index, result) in run.results.iter_mut().enumerate() {
        // An axis whose heading is wider than all of its values.
        result.factors.insert("receive_cpu".into(), serde_json::Value::from(index % 2));
        result.verdict.add(Finding::at(FindingId::Loss, "initiator", "3 messages were lost of 3000 that were sent"));
    }
    let singles = |probe: Probe, protocol: &'static str| -> Vec<_> {
        let shape =
            |size| Shape { probe, protocol, load: "none", policy: "fifo:1", size, repetition: 1, messages: 5000 };
        [1, 65_507].map(|size| sample::result(&shape(size))).to_vec()
    };
    let single = [singles(Probe::Pingpong, "udp"), singles(Probe::Rr, "tcp"), singles(Probe::Ping, "icmp")];
    let report = report(&[run]);
    for columns in 80..=300 {
        assert_fits("the report", columns, &report.table_text(columns));
        for results in &single {
            assert_fits("a measurement", columns, &windhover_report::single_text(results, columns));
        }
    }
    // Nor does any width make it go on for ever.
    for columns in 1..80 {
        assert!(report.table_text(columns).contains("pingpong"));
    }
}

#[test]
fn the_same_input_gives_the_same_bytes_in_every_form() {
    let (a, b) = (report(&[small()]), report(&[small()]));
    assert_eq!(a.page().unwrap().html, b.page().unwrap().html);
    assert_eq!(a.json().unwrap(), b.json().unwrap());
    assert_eq!((a.csv(), a.markdown()), (b.csv(), b.markdown()));
}

#[test]
fn one_file_without_network_and_without_open_tags() {
    let html = report(&[small()]).page().unwrap().html;
    for word in ["http:", "https:", "src=", "@import", "url(", "<link"] {
        let found = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(word), "{word}");
    }
    for tag in ["table", "tr", "section", "details", "figure", "svg", "g", "dl", "ul", "td", "th", "tbody"] {
        let opened = html.matches(&format!("<{tag} ")).count() + html.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert!(html.contains("between network namespaces of one machine"));
    assert!(html.contains("prefers-color-scheme: dark") && html.contains("@media print"));
}

#[test]
fn nothing_from_outside_becomes_markup() {
    let evil = "<script>alert('x')</script>";
    let mut run = small();
    run.name = evil.into();
    run.document.title = Some(evil.into());
    run.document.labels.insert("nic".into(), evil.into());
    run.document.labels.insert("os".into(), evil.into());
    run.failed.push((evil.into(), evil.into()));
    for host in run.document.hosts.values_mut() {
        host.facts.hostname = Some(evil.into());
    }
    for (index, result) in run.results.iter_mut().enumerate() {
        result.ends.of_mut(Role::Initiator).for_each(|end| end.host = Some(evil.into()));
        result.factors.insert("load".into(), serde_json::Value::from(format!("{evil}{}", index % 2)));
        result.verdict.add(Finding::at(FindingId::Loss, evil, evil));
    }
    let report = report(&[run.clone()]);
    let html = report.page().unwrap().html;
    // The one script element is the template's own.
    assert_eq!(html.matches("<script").count(), 1);
    assert!(html.contains("&lt;script&gt;"));
    assert!(!report.markdown().contains("<script"), "{}", report.markdown());
    run.document.labels.insert("nic".into(), "\u{1b}[31mred".into());
    assert!(!Report::from_inputs(vec![run], &Options::default()).table_text(100).contains('\u{1b}'));
}

#[test]
fn figures_are_the_geometric_means_of_the_repetitions() {
    let run = small();
    let report = report(std::slice::from_ref(&run));
    let cell = report
        .document()
        .cells
        .iter()
        .find(|info| {
            info.probe == Probe::Pingpong
                && info.protocol == "udp"
                && info.size_bytes == 32
                && info.factors["load"] == "none"
        })
        .unwrap();
    let parts: Vec<_> = run
        .results
        .iter()
        .filter(|r| {
            r.probe == Probe::Pingpong
                && r.factor("protocol").as_deref() == Some("udp")
                && r.size() == Some(32)
                && r.factor("load").as_deref() == Some("none")
        })
        .map(|r| r.latency.clone().unwrap())
        .collect();
    assert_eq!((parts.len(), cell.repetitions, cell.count("count")), (3, 3, 9000));
    // One quantity has one value: tables show what comparisons test.
    let typical = |of: fn(&model::Latency) -> f64| (parts.iter().map(|p| of(p).ln()).sum::<f64>() / 3.0).exp();
    for (id, wanted) in [
        ("mean", typical(|p| p.mean_ns.unwrap())),
        ("stdev", typical(|p| p.stdev_ns.unwrap())),
        ("p50", typical(|p| p.p50_ns.unwrap() as f64)),
    ] {
        assert!((cell.value(id).unwrap() - wanted).abs() < 1e-6, "{id}");
    }
    let ([low, high], p50) = (cell.range("p50").unwrap(), cell.value("p50").unwrap());
    assert!(low <= p50 * 1.002 && p50 <= high * 1.002);
    assert_eq!(cell.value("max"), parts.iter().map(|p| p.max_ns.unwrap() as f64).reduce(f64::max));
    assert!(cell.value("p99.999").is_none(), "9000 messages say nothing about p99.999");
}

#[test]
fn rtt_is_twice_rtt_half() {
    let run = small();
    let half = Report::from_inputs(vec![run.clone()], &Options::default());
    let whole = Report::from_inputs(vec![run], &Options { rtt: true, reference: true, ..Options::default() });
    assert_eq!(whole.document().kind, LatencyKind::Rtt);
    for (a, b) in half.document().cells.iter().zip(&whole.document().cells) {
        for id in ["mean", "stdev", "p99"] {
            let (a, b) = (a.value(id).unwrap(), b.value(id).unwrap());
            assert!((b - 2.0 * a).abs() <= 2.0, "{a} {b}");
        }
    }
    let text = whole.table_text(100);
    assert!(text.contains("RTT and jitter") && !text.contains("RTT/2 and jitter"), "{text}");
    assert!(text.contains("twice the RTT/2 printed") && text.contains("34.000"), "{text}");
}

#[test]
fn the_same_conditions_from_two_runs_stay_apart() {
    let again = sample::run(&Recipe { name: "again", ..SMALL });
    let both = report(&[small(), again]);
    assert_eq!(both.document().axes.last().map(String::as_str), Some("run"));
    assert!(both.document().cells.iter().all(|info| info.repetitions == 3));
    let mut other = small();
    other.document.labels.insert("nic".into(), "another".into());
    let two = report(&[small(), other]);
    assert!(!two.document().axes.iter().any(|axis| axis == "run"), "the NIC tells them apart");
    assert_eq!(two.document().blocks.len(), 1);
    let text = said(&both);
    assert!(text.contains("B against A: the same jitter"), "{text}");
}

#[test]
fn published_rows_are_marked_and_only_on_request() {
    let plain = report(&[small()]);
    assert!(!plain.page().unwrap().html.contains("SFN5121T"));
    let with = Report::from_inputs(vec![small()], &Options { reference: true, ..Options::default() });
    let text = with.table_text(100);
    assert!(text.contains("Published, other hardware (2012)") && text.contains("Published, other hardware (2019)"));
    assert!(text.contains("114.756") && text.contains("313.876"), "{text}");
    assert!(with.page().unwrap().html.matches("published, other hardware").count() >= 2);
    let rows = with.csv().lines().filter(|line| line.contains("redhawk-")).count();
    // 36 rows with four figures each, 36 without netperf's.
    assert_eq!(rows, 36 * 4 + 36 * 2);
    assert!(with.document().summary == plain.document().summary, "published rows are never compared");
}

#[test]
fn csv_has_as_many_fields_as_columns() {
    let csv = Report::from_inputs(vec![small()], &Options { reference: true, ..Options::default() }).csv();
    let heads = csv.lines().next().unwrap().split(',').count();
    assert!(heads > csv_columns().len());
    for line in csv.lines().filter(|line| !line.contains('"')) {
        assert_eq!(line.split(',').count(), heads, "{line}");
    }
}

#[test]
fn a_damaged_histogram_costs_only_itself() {
    let mut run = small();
    run.results[0].histogram = Some("AAAA".into());
    let report = report(&[run]);
    assert!(report.document().remarks.iter().any(|remark| remark.contains("cannot be read")));
    assert!(report.page().is_ok());
}

pub(super) fn shape(probe: Probe, protocol: &'static str, size: u64, messages: u64) -> Shape {
    Shape { probe, protocol, load: "none", policy: "fifo:1", size, repetition: 1, messages }
}

#[test]
fn a_pingpong_typed_by_hand() {
    let sizes = [1, 32, 1024].map(|size| sample::result(&shape(Probe::Pingpong, "udp", size, 5000)));
    insta::assert_snapshot!(windhover_report::single_text(&sizes, 100));
    insta::assert_snapshot!("a_pingpong_in_sfnts_columns", windhover_report::sfnt_text(&sizes, &SfntFacts::default()));
}

#[test]
fn rr_and_ping_typed_by_hand() {
    let rr = windhover_report::single_text(&[sample::result(&shape(Probe::Rr, "tcp", 32, 5000))], 100);
    assert!(rr.contains("trans") && rr.contains("demand") && rr.contains("softirq"), "{rr}");
    let ping = windhover_report::single_text(&[sample::result(&shape(Probe::Ping, "icmp", 56, 500))], 100);
    assert!(ping.contains("RTT (round trip)") && ping.contains("rtt min/avg/max/mdev = 0."), "{ping}");
    assert!(ping.contains("500 packets transmitted, 500 received, 0% packet loss"), "{ping}");
}

#[test]
fn sfnt_rows_are_integers_led_by_tabs_even_with_few_messages() {
    let mut result = sample::result(&shape(Probe::Pingpong, "udp", 32, 50));
    assert_eq!(result.latency.as_ref().unwrap().p99_ns, None);
    let text = windhover_report::sfnt_text(std::slice::from_ref(&result), &SfntFacts::default());
    let row: Vec<&str> = text.lines().last().unwrap().split('\t').collect();
    assert_eq!((row.len(), row[0]), (9, ""));
    assert!(row[1..].iter().all(|field| field.parse::<u64>().is_ok()), "{row:?}");
    assert!(text.contains("# percentile=99\n# reporting: 1/2 RTT\n"));
    let latency = result.latency.as_mut().unwrap();
    (latency.kind, latency.max_ns) = (LatencyKind::Rtt, Some(latency.min_ns.unwrap() + 1));
    let largest = latency.max_ns.unwrap().to_string();
    let text = windhover_report::sfnt_text(&[result], &SfntFacts::default());
    assert!(text.contains("# reporting: RTT\n"));
    let row: Vec<&str> = text.lines().last().unwrap().split('\t').collect();
    assert_eq!((row[5], row[6]), (largest.as_str(), largest.as_str()), "no percentile is above the largest value");
}

#[test]
fn a_rate_is_printed_in_sfnt_streams_columns() {
    let mut one = waited(1, 40, true);
    one.messages =
        model::Messages { sent: 1010, received: 1000, lost: 10, reordered: Some(2), ..model::Messages::default() };
    let text = windhover_report::sfnt_text(&[one.clone(), one], &SfntFacts::default());
    assert!(text.contains("# percentile=99\n# reporting: RTT\n"), "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("# ")).collect();
    let [groups, heads, first, second] = lines[..] else { panic!("{text}") };
    assert!(groups.starts_with("#mps\tmps\tmps\tlatency") && groups.ends_with("gaps\tgaps\tgaps"), "{groups}");
    assert!(heads.starts_with("#target\tsend\trecv\tmean\tmin\tmedian\tmax\t%ile"), "{heads}");
    let columns: Vec<&str> = heads[1..].split('\t').collect();
    let cells: Vec<u64> = first.split('\t').map(|cell| cell.parse().unwrap()).collect();
    assert_eq!((columns.len(), cells.len(), groups.split('\t').count(), first), (17, 17, 17, second));
    let at = |name: &str| cells[columns.iter().position(|column| *column == name).unwrap()];
    assert_eq!((at("target"), at("send"), at("recv")), (20_000, 20_000, 19_802));
    assert_eq!((at("n_gaps"), at("n_drops"), at("n_ooo")), (3, 10, 2));
}

#[test]
fn markdown_rows_have_as_many_cells_as_heads() {
    let markdown = report(&[small()]).markdown();
    let mut heads = None;
    for line in markdown.lines() {
        if line.starts_with('|') {
            let cells = line.matches(" |").count();
            assert_eq!(*heads.get_or_insert(cells), cells, "{line}");
        } else {
            heads = None;
        }
    }
}

/// A stream of both ways and a schedule, twice each: every form has their figures.
#[test]
fn streams_and_schedules_are_in_every_form() {
    let mut run = sample::run(&Recipe { sizes: &[], rr: false, loads: &["none"], repetitions: 1, ..SMALL });
    let base = sample::result(&shape(Probe::Pingpong, "udp", 1000, 3000));
    for repetition in 1..=2_u32 {
        let by = f64::from(repetition);
        let mut stream = base.clone();
        (stream.probe, stream.repetition, stream.latency) = (Probe::Stream, Some(repetition), None);
        let working = base.latency.clone().map(|latency| model::Latency { kind: LatencyKind::Rtt, ..latency });
        let flow = |direction, bits: f64| model::FlowReport {
            direction,
            flows: 1,
            bits_per_second: bits,
            sent: Some(1000),
            lost: Some(10),
            datagrams_per_second: Some(5_000.0),
            rfc3550_jitter_ns: Some(4_000.0 * by),
            ..model::FlowReport::default()
        };
        stream.stream = Some(model::StreamReport {
            flows: vec![flow(model::Direction::Up, 900e6 + by * 10e6), flow(model::Direction::Down, 100e6)],
            working_latency: working,
            ..model::StreamReport::default()
        });
        let mut pace = base.clone();
        (pace.probe, pace.repetition) = (Probe::Pace, Some(repetition));
        pace.factors.insert("rate".into(), 20_000.into());
        pace.rate = Some(model::RateReport {
            asked_pps: 20_000.0,
            achieved_pps: 19_990.0 + by * 2.0,
            intended: 3000,
            behind: 7,
            most_behind: 3,
            gaps: None,
            longest_gap: None,
            line_pps: None,
            saturated: None,
        });
        pace.latency.as_mut().unwrap().kind = LatencyKind::Rtt;
        pace.latency_intended.clone_from(&pace.latency);
        pace.lateness.clone_from(&pace.latency);
        run.results.extend([stream, pace]);
    }
    let report = report(&[run]);
    let of = |probe: &str| report.document().cells.iter().find(|cell| cell.probe.word() == probe).unwrap();
    let stream = of("stream");
    assert_eq!((stream.count("up.sent"), stream.count("up.lost")), (2000, 20));
    assert!((stream.value("up.bits").unwrap() - 915e6).abs() < 1.0 && stream.range("up.bits") == Some([910e6, 920e6]));
    let pace = of("pace");
    assert!((pace.value("achieved").unwrap() - 19_993.0).abs() < 1e-6);
    assert_eq!(pace.range("achieved"), Some([19_992.0, 19_994.0]));
    assert_eq!((pace.count("behind"), pace.count("intended")), (14, 6000));
    let (text, markdown) = (report.table_text(120), report.markdown());
    for words in ["915 Mbit/s", "1.00 %", "Streams: payload", "Messages at a rate"] {
        assert!(text.contains(words) && markdown.contains(words), "{words}: {text}");
    }
    let csv = report.csv();
    let mut lines = csv.split("\r\n");
    let heads: Vec<&str> = lines.next().unwrap().split(',').collect();
    let field = |line: &str, name: &str| {
        let at = heads.iter().position(|head| *head == name).unwrap();
        line.split(',').nth(at).unwrap().to_owned()
    };
    let line = |probe: &str| csv.split("\r\n").find(|line| line.contains(&format!(",{probe},"))).unwrap();
    assert_eq!(field(line("stream"), "up_bits_per_second"), "915000000");
    assert_eq!(field(line("stream"), "down_lost_share"), "0.01");
    assert_eq!((field(line("pace"), "asked_pps"), field(line("pace"), "behind")), ("20000".into(), "14".into()));
    assert!(!field(line("pace"), "lateness_p99_ns").is_empty() && field(line("pace"), "up_bits_per_second").is_empty());
}

/// Through the store and back: what is on disk gives the same report as what was in memory.
#[test]
fn a_run_directory_gives_the_same_report() {
    let input = small();
    let folder = tempfile::tempdir().unwrap();
    let mut run = store::RunDir::create(folder.path(), &input.document.name, input.document.started_ns).unwrap();
    run.write_plan("name = \"white-paper\"\n").unwrap();
    run.write_run(&input.document).unwrap();
    for (step, result) in input.document.order.iter().zip(&input.results) {
        let files =
            store::CellFiles { result, hlog: "", outliers: &[], windows: &[], events: &[], raw: None, capture: None };
        run.write_cell(step.index, &files, result.started_ns).unwrap();
    }
    let path = run.path().to_owned();
    drop(run);
    let stored = store::Run::load(&path).unwrap();
    assert_eq!(stored.problems, Vec::<String>::new());
    let from_disk = Report::from_runs([stored], &Options::default());
    let mut named = input;
    named.name = path.file_name().unwrap().to_string_lossy().into_owned();
    named.folder = Some(path);
    named.steps = named.document.order.clone();
    assert_eq!(from_disk.table_text(100), report(&[named.clone()]).table_text(100));
    assert_eq!(from_disk.page().unwrap().html, report(&[named]).page().unwrap().html);
}

#[test]
fn panels_with_too_many_lines_are_split_by_load() {
    let many = sample::run(&Recipe { policies: &["other", "batch", "fifo:1", "rr:1"], repetitions: 2, ..SMALL });
    let html = report(&[many]).page().unwrap().html;
    assert!(html.contains("UDP, load build") && html.contains("UDP, no load"));
    let few = report(&[small()]).page().unwrap().html;
    assert!(!few.contains("UDP, load build"));
}

#[test]
fn every_picture_says_what_it_shows_in_words() {
    let html = report(&[small()]).page().unwrap().html;
    let pictures = html.matches("role=\"img\"").count();
    assert!(pictures >= 7, "{pictures}");
    let parts = html.split("role=\"img\">\n<title>").skip(1);
    let told = parts.filter(|part| {
        let words =
            part.split_once("</title>\n<desc>").and_then(|(title, rest)| Some((title, rest.split_once('<')?.0)));
        words.is_some_and(|(title, description)| title.len() > 8 && description.len() > 20)
    });
    assert_eq!(told.count(), pictures);
}
