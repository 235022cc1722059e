use super::*;
use crate::cli::Cli;
use crate::cli::measure::{Cycle, Ping, Pingpong, Rr, Wake};
use crate::cli::pace::Pace;
use crate::cli::stream::Stream;
use clap::CommandFactory as _;
use model::plan::reference;
use model::{CpuList, Plan};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Flags of measuring commands that are no factors, and how a plan says the same or why it does not. `measure.pgm.KEY` is
/// a key of a plan.
const NO_FACTORS: [(&str, &str); 48] = [
    ("protocol", "the axis protocol"),
    ("address", "roles and hosts"),
    ("peers", "roles and hosts"),
    ("to", "roles.reflectors"),
    ("named", "roles and hosts"),
    ("stack", "the axis stack"),
    ("against", "two values of an axis"),
    ("at_most", "repetitions and seconds"),
    ("fork_both", "a lab of kind loopback"),
    ("key_file", "a campaign makes keys"),
    ("ipv4", "hosts have addresses"),
    ("ipv6", "hosts have addresses"),
    ("pcap", "the key capture"),
    ("pcap-snap", "the key capture has one"),
    ("format", "how results are printed"),
    ("json", "how results are printed"),
    ("jsonl", "how results are printed"),
    ("percentile", "how results are printed"),
    ("ladder", "how results are printed"),
    ("raw", "the key raw; the flag names the files"),
    ("schedule", "a plan reads no other file"),
    ("beyond_saturation", "each rate of a plan is a cell of its own"),
    ("smp", "the key cpus names them"),
    ("histogram", "how results are printed"),
    ("help", "how results are printed"),
    ("is_quiet", "how messages are printed"),
    ("always", "always so"),
    ("check_usage", "campaign plan"),
    ("color", "how messages are printed"),
    ("quiet", "how messages are printed"),
    ("reply_group", "measure.pgm.reply_group"),
    ("group_interface", "measure.pgm.interface"),
    ("carrier", "measure.pgm.carrier"),
    ("udp_port", "measure.pgm.udp_port"),
    ("packet", "measure.pgm.packet_bytes"),
    ("window", "measure.pgm.window_packets"),
    ("bandwidth", "measure.pgm.max_bytes_per_second"),
    ("ambient", "measure.pgm.ambient_ms"),
    ("heartbeat", "measure.pgm.heartbeat_us"),
    ("fec", "measure.pgm.fec"),
    ("fec_proactive", "measure.pgm.fec.proactive_packets"),
    ("fec_unasked", "measure.pgm.fec.on_demand"),
    ("fec_pause", "measure.pgm.fec.pause_us"),
    ("back_off", "measure.pgm.back_off_us"),
    ("repeat", "measure.pgm.repeat_us"),
    ("data", "measure.pgm.data_us"),
    ("retries", "measure.pgm.retries"),
    ("nak_path", "measure.pgm.nak_path"),
];

/// Each flag of a measuring command is a factor, which plans reach, or stands above with a reason.
#[test]
fn plans_reach_every_flag() {
    let root = crate::cli::parse::definition();
    let mut seen = BTreeSet::new();
    let mut unknown = Vec::new();
    for probe in Probe::ALL {
        let command = root.find_subcommand(probe.word()).unwrap();
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            let is_factor = flags(probe).any(|(_, flag)| flag.long == id);
            let reason = NO_FACTORS.iter().find(|(name, _)| *name == id);
            match (is_factor, reason) {
                (true, _) => {}
                (false, Some((name, _))) => drop(seen.insert(*name)),
                (false, None) => unknown.push(format!("{probe} --{id}")),
            }
        }
    }
    assert!(unknown.is_empty(), "neither a factor nor on the list: {unknown:?}");
    for (name, reason) in NO_FACTORS {
        let of_root = Cli::command().get_arguments().any(|arg| arg.get_id() == name);
        assert!(seen.contains(name) || of_root, "no measuring command has --{name} any more");
        if let Some(key) = reason.strip_prefix("measure.pgm.") {
            let path: Vec<&str> = ["measure", "pgm"].into_iter().chain(key.split('.')).collect();
            let is_key = reference::find(&path).is_some() || !reference::names(&path).is_empty();
            assert!(is_key, "{reason} is no key of a plan");
        }
    }
}

/// The specification of a command line.
fn by_flags(probe: Probe, protocol: Protocol, words: &[String]) -> serde_json::Value {
    static DEFINITION: LazyLock<Command> = LazyLock::new(crate::cli::parse::definition);
    let mut line = vec![probe.word().to_owned()];
    line.extend(probe.names_protocol().then(|| protocol.word().to_owned()));
    line.extend((probe != Probe::Wake).then(|| "10.0.0.2".to_owned()));
    line.extend_from_slice(words);
    let matches = DEFINITION.find_subcommand(probe.word()).unwrap().clone().try_get_matches_from(&line);
    let matches = matches.unwrap_or_else(|error| panic!("{line:?}: {error}"));
    let spec = match probe {
        Probe::Pingpong => Pingpong::from_arg_matches(&matches).unwrap().spec().unwrap(),
        Probe::Rr => Rr::from_arg_matches(&matches).unwrap().spec().unwrap(),
        Probe::Ping => Ping::from_arg_matches(&matches).unwrap().spec().unwrap(),
        Probe::Wake => Wake::from_arg_matches(&matches).unwrap().spec(CpuList::default).unwrap(),
        Probe::Cycle => Cycle::from_arg_matches(&matches).unwrap().spec().unwrap(),
        Probe::Pace => Pace::from_arg_matches(&matches).unwrap().spec().unwrap().0,
        Probe::Stream => Stream::from_arg_matches(&matches).unwrap().spec(|| Ok(1472)).unwrap().0,
    };
    serde_json::to_value(spec).unwrap()
}

/// The specification of the one cell of a plan.
fn by_plan(probe: Probe, protocol: Protocol, settings: &str) -> serde_json::Value {
    let head = "name = \"t\"\n[lab]\nkind = \"netns\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n[measure]\n";
    let text = format!("{head}{settings}[[grid]]\nprobe = [\"{probe}\"]\nprotocol = [\"{protocol}\"]\n");
    let cells = Plan::parse("t", &text).unwrap_or_else(|error| panic!("{text}: {error}")).cells().unwrap();
    assert_eq!(cells.len(), 1, "{text}");
    serde_json::to_value(&cells[0].spec).unwrap()
}

/// Every value in a document by its path.
fn leaves(value: &serde_json::Value, path: &str, found: &mut BTreeMap<String, serde_json::Value>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                leaves(value, &format!("{path}.{key}"), found);
            }
        }
        value => drop(found.insert(path.to_owned(), value.clone())),
    }
}

/// A value of a factor that is not its default, as a plan and as a flag write it.
fn sample(factor: &Factor) -> String {
    match factor.name {
        "size" => "100".to_owned(),
        "rate" => "2000".to_owned(),
        "receive" => "spin".to_owned(),
        // Its example is the default.
        "foreign" => "./worker".to_owned(),
        "min_size" | "max_size" => "50".to_owned(),
        name => {
            let example = reference::find(&["measure", name]).unwrap().example;
            let value = toml_value(&example);
            factor::word(&value)
        }
    }
}

/// The value of `KEY = VALUE`, read as a plan's.
fn toml_value(example: &str) -> Value {
    let text = example.split_once('=').unwrap().1.trim();
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{example}"))
}

/// The same option by flag and by plan gives the same specification, wherever either of them changes it.
#[test]
fn flags_and_plans_fill_the_same_specification() {
    let mut tried = 0;
    for (probe, factor, flag) in
        Probe::ALL.into_iter().flat_map(|probe| flags(probe).map(move |(factor, flag)| (probe, factor, flag)))
    {
        let protocol = factor.protocols.first().copied().unwrap_or(Protocol::Udp);
        let sample = sample(factor);
        let (this, far) = sample.split_once(';').unwrap_or((&sample, &sample));
        let far = if far == "default" || Some(far) == factor.default { this } else { far };
        let (typed, planned) = match flag.gives {
            Gives::Word(word) => (None, word.to_owned()),
            Gives::After(beginning) => (sample.strip_prefix(beginning).map(str::to_owned), sample.clone()),
            Gives::Value => (Some(sample.clone()), sample.clone()),
            Gives::Thousandths => (Some((sample.parse::<f64>().unwrap() * 1000.0).to_string()), sample.clone()),
            Gives::Local("") => (Some(this.to_owned()), this.to_owned()),
            Gives::Local(alone) => (Some(this.to_owned()), format!("{this};{alone}")),
            Gives::Remote => (Some(far.to_owned()), format!("{};{far}", factor.default.unwrap_or("default"))),
        };
        // What it needs beside it.
        let (with, settings): (&[&str], &str) = match factor.name {
            "mcast_interface" | "mcast_loop" => (&["--mcast", "224.1.2.48"], "mcast = \"224.1.2.48\"\n"),
            // Without a length that of the flags follows these.
            "interval_percent" | "rate" | "every" => (&["--seconds", "3"], "seconds = 3\n"),
            "min_size" | "max_size" => (&["--size", "8,100"], "size = \"8,100\"\n"),
            _ => (&[], ""),
        };
        let with: Vec<String> = with.iter().map(|&word| word.to_owned()).collect();
        let words: Vec<String> = with.iter().cloned().chain([format!("--{}", flag.long)]).chain(typed).collect();
        let plain = planned.parse::<f64>().is_ok() || planned.parse::<bool>().is_ok();
        let is_text = !plain || matches!(factor.kind, ValueType::Text);
        let planned = if is_text { format!("\"{planned}\"") } else { planned };
        let settings_with = format!("{settings}{} = {planned}\n", factor.name);
        let [mut flag_before, mut flag_after, mut plan_after] = [(); 3].map(|()| BTreeMap::new());
        leaves(&by_flags(probe, protocol, &with), "", &mut flag_before);
        leaves(&by_flags(probe, protocol, &words), "", &mut flag_after);
        leaves(&by_plan(probe, protocol, &settings_with), "", &mut plan_after);
        let paths: BTreeSet<&String> = flag_before.keys().chain(flag_after.keys()).collect();
        let changed: Vec<&String> =
            paths.into_iter().filter(|path| flag_before.get(*path) != flag_after.get(*path)).collect();
        assert!(!changed.is_empty(), "{probe} {words:?} changes nothing");
        for path in changed {
            assert_eq!(flag_after.get(path), plan_after.get(path), "{probe} {words:?} and {settings_with}: {path}");
        }
        tried += 1;
    }
    assert!(tried > 140, "{tried}");
}

#[test]
fn what_was_typed_wrong_is_said_in_the_words_of_the_factor() {
    for (line, words) in [
        ("windhover pingpong udp x --pings x", "use a whole number from 0"),
        ("windhover pingpong udp x --policy fifo:0", "use 1 to 99"),
        ("windhover pace udp x --shape square", "even, poisson or burst:N"),
        ("windhover rr udp x --cpu 0;1", "each end has a flag of its own"),
        ("windhover stream udp x --bandwidth fast", "with k, M or G"),
        ("windhover ping x --interval 4000", "0.001 to 3600 seconds"),
    ] {
        let error = crate::cli::parse::definition().try_get_matches_from(line.split(' ')).unwrap_err().to_string();
        assert!(error.contains(words), "{line}: {error}");
    }
}
