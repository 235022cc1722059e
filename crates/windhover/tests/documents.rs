//! The documents against the binary: each command line of README.md and docs/ is read by the real command line, and run
//! where it can be run here within a second. What is only read is in a table with the reason.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;
#[path = "documents/texts.rs"]
mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{
    Folder, Server, assert_run_measured, invalid_of, is_only_busy, is_root, run, run_directory, stderr, stdout,
    windhover,
};

/// A command line and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    /// Behind `windhover`.
    words: Vec<String>,
    place: String,
}

impl Line {
    fn text(&self) -> String {
        format!("windhover {}", self.words.join(" "))
    }
}

/// What stands for a value in the documents, and a value.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("ADDR", "10.0.0.2"),
    ("HOST", "10.0.0.2"),
    ("GROUP", "239.192.0.1"),
    ("PEER", "10.0.0.2"),
    ("PEER...", "10.0.0.2"),
    ("PLAN", "campaigns/heat-map.toml"),
    ("FILE", "capture.pcap"),
    ("TOOL", "cyclictest"),
    ("IF", "lo"),
    ("DEV", "lo"),
    ("N", "1"),
    ("LIST", "1"),
    ("PID", "1"),
    ("NAME", "four"),
    ("PROFILE", "latency"),
    ("PROGRAM", "true"),
    ("COMMAND", "true"),
    ("SETTING", "memory.ksm=0"),
    ("KEY=VALUE", "memory.ksm=0"),
    ("PREFIX", "raw"),
    ("US", "100"),
    ("RULE", "udp4 dst-port 7000"),
];

/// Left out of a line: they say that there may be more.
const AND_SO_ON: &[&str] = &["...", "…"];

/// Code in sentences that begins like a command of ours and is none.
const NO_COMMANDS: &[&str] = &["shield = ", "undo -s"];

/// What the command line says of a sentence's code that names some flags of a command and leaves its operands out.
const ABRIDGED: &[&str] = &["error: missing: ", "pgm needs a group and an endpoint"];

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md")];
    for folder in ["docs", "docs/compare"] {
        let entries = std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        found.extend(entries.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    }
    found.sort();
    found
}

/// The commands that the binary has, from its own help.
fn commands() -> BTreeSet<String> {
    let help = stdout(&run(&["--help"]));
    let names = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned));
    let names: BTreeSet<String> = names.filter(|name| name.chars().all(|c| c.is_ascii_lowercase())).collect();
    assert!(names.len() > 15 && names.contains("pingpong"), "{names:?}");
    names
}

/// Words as a shell splits them; `;`, `|`, `&&` and parentheses stand alone.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, ';' | '(' | ')' | '>' | '<') => {
                words.extend(word.take());
                words.push(c.to_string());
            }
            (None, '#') if word.is_none() => break,
            (None, '|') if word.is_none() => words.push(c.to_string()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The command lines in a text that a shell could run: each goes from the word `windhover` to the end of its part.
fn lines_of(text: &str, place: &str, found: &mut Vec<Line>) {
    let words = split(text);
    for part in words.split(|word| [";", "|", "&&", "(", ")", ">", "<"].contains(&word.as_str())) {
        // `windhover lab exec a -- windhover pingpong …` holds two.
        for at in (0..part.len()).filter(|at| part[*at] == "windhover") {
            found.push(Line { words: part[at + 1..].to_vec(), place: place.to_owned() });
        }
    }
}

/// Every command line of a document: lines of code blocks, and code within sentences.
fn extract(path: &Path, commands: &BTreeSet<String>, found: &mut Vec<Line>) {
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.strip_prefix(root()).unwrap().display().to_string();
    let (mut prose, mut fence, mut block) = (String::new(), None::<bool>, Vec::new());
    for (number, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", number + 1);
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = match fence {
                Some(is_shell) => {
                    typed(&block, is_shell, found);
                    block.clear();
                    None
                }
                None => Some(!["toml", "json", "rust", "csv"].contains(&language)),
            };
        } else if fence.is_some()
            || line.starts_with("    ") && (prose.trim_end_matches(' ').ends_with("\n\n") || !block.is_empty())
        {
            block.push((place, line.to_owned()));
        } else {
            if !block.is_empty() && line.trim().is_empty() {
                typed(&block, true, found);
                block.clear();
            }
            prose.push_str(line);
            prose.push('\n');
        }
    }
    assert!(fence.is_none(), "{name}: a code block without an end");
    typed(&block, true, found);
    for (place, code) in prose.split('`').enumerate().filter(|(place, _)| place % 2 == 1) {
        let before: usize = prose.split('`').take(place).map(|part| part.matches('\n').count()).sum();
        let place = format!("{name} (in a sentence, {before})");
        let code = code.split_whitespace().collect::<Vec<_>>().join(" ");
        let first = code.split(' ').next().unwrap_or_default();
        if first == "windhover" {
            lines_of(&code, &place, found);
        } else if commands.contains(first) && code.contains(' ') && !NO_COMMANDS.iter().any(|no| code.starts_with(no)) {
            lines_of(&format!("windhover {code}"), &place, found);
        }
    }
}

/// The lines of a block that are typed: those with a prompt, where it has any; else those that begin with a program.
fn typed(block: &[(String, String)], is_shell: bool, found: &mut Vec<Line>) {
    let prompt = |line: &str| {
        let line = line.trim_start();
        let end = line.find(['$', '#']).filter(|end| line[end + 1..].starts_with(" windhover"))?;
        let user = &line[..end];
        user.chars().all(|c| c.is_ascii_lowercase() || c == '-').then(|| line[end + 2..].to_owned())
    };
    let has_prompts = block.iter().any(|(_, line)| prompt(line).is_some());
    for (place, line) in block.iter().filter(|_| is_shell) {
        let command = if has_prompts { prompt(line) } else { Some(line.trim().to_owned()) };
        let begins = |text: &str| {
            ["windhover ", "(umask", "ssh ", "seq "].iter().any(|start| text.starts_with(start)) || text == "windhover"
        };
        if let Some(command) = command.filter(|text| begins(text)) {
            lines_of(&command, place, found);
        }
    }
}

/// A line for each choice of `a|b`, with values in the place of what stands for them.
fn filled(line: &Line) -> Vec<Line> {
    let mut all = vec![Vec::new()];
    for word in line.words.iter().filter(|word| !AND_SO_ON.contains(&word.as_str())) {
        let word = word.trim_start_matches('[').trim_end_matches(']');
        let choices: Vec<&str> =
            if word.contains('|') && !word.contains(' ') { word.split('|').collect() } else { vec![word] };
        all = all
            .into_iter()
            .flat_map(|words: Vec<String>| {
                choices.iter().map(move |choice| {
                    let mut words = words.clone();
                    let value =
                        PLACEHOLDERS.iter().find(|(name, _)| name == choice).map_or(*choice, |(_, value)| value);
                    words.push(value.to_owned());
                    words
                })
            })
            .collect();
    }
    all.into_iter().map(|words| Line { words, place: line.place.clone() }).collect()
}

/// All lines of the documents and of the examples in the help, each once.
fn all_lines() -> Vec<Line> {
    let commands = commands();
    let mut found = Vec::new();
    for path in documents() {
        extract(&path, &commands, &mut found);
    }
    let folder = Folder::new("documents-generated");
    let output = run(&["generate", folder.path()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let reference = std::fs::read_to_string(folder.0.join("commands.md")).unwrap();
    for (number, line) in reference.lines().enumerate() {
        if let Some(example) =
            line.strip_prefix("  ").filter(|text| !text.starts_with(' ') && text.contains("windhover "))
        {
            lines_of(example, &format!("commands.md:{}", number + 1), &mut found);
        }
    }
    let mut seen = BTreeSet::new();
    found.iter().flat_map(filled).filter(|line| seen.insert(line.words.clone())).collect()
}

/// The first line of what the command line says against a line; nothing where it takes it.
fn refusal(line: &Line) -> Option<String> {
    let words: Vec<&str> = std::iter::once("--check-usage").chain(line.words.iter().map(String::as_str)).collect();
    let output = windhover(&words).output().unwrap();
    (!output.status.success()).then(|| stderr(&output).lines().next().unwrap_or_default().to_owned())
}

/// Whether a sentence names flags of a command without its operands. Unknown flags are refused before that.
fn is_abridged(line: &Line, refusal: &str) -> bool {
    line.place.contains("in a sentence") && ABRIDGED.iter().any(|words| refusal.contains(words))
}

/// Whether a line only names a command: `windhover tune`, `windhover shield exec`.
fn is_name(line: &Line) -> bool {
    let words: Vec<&str> = std::iter::once("help").chain(line.words.iter().map(String::as_str)).collect();
    line.words.iter().all(|word| word.chars().all(|c| c.is_ascii_lowercase()))
        && windhover(&words).output().unwrap().status.success()
}

#[test]
fn every_command_line_of_the_documents_is_one() {
    let lines = all_lines();
    assert!(lines.len() > 150, "only {} lines were found", lines.len());
    let mut wrong = Vec::new();
    for line in &lines {
        if let Some(refusal) = refusal(line)
            && !is_abridged(line, &refusal)
            && !is_name(line)
        {
            wrong.push(format!("{}: {}\n    {refusal}", line.place, line.text()));
        }
    }
    assert!(wrong.is_empty(), "{} of {} lines are wrong:\n{}", wrong.len(), lines.len(), wrong.join("\n"));
}

/// Lines that are read and not run: how they begin, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("serve", "runs until it is ended; every measuring line here has one"),
    ("agent", "serves its standard input for a campaign"),
    ("pgm recv", "runs until a source ends (tests/pgm.rs)"),
    ("pgm reflect", "runs until it is ended (tests/pgm.rs)"),
    ("pgm ping", "needs a reflector (tests/pgm.rs)"),
    ("pgm send", "needs a receiver to be of use (tests/pgm.rs)"),
    ("exchange run", "runs for seconds or until it is ended (tests/exchange.rs)"),
    ("exchange top", "runs until it is ended (tests/exchange.rs)"),
    ("exchange bench", "takes seconds (tests/exchange.rs)"),
    ("bypass run", "starts a program that is not here (tests/bypass)"),
    ("bypass capture", "needs a program behind it (tests/bypass)"),
    ("bypass stat", "needs a program behind it (tests/bypass)"),
    ("lab boot", "boots a guest (tests/guest_lab.rs)"),
    ("lab up", "makes namespaces (tests/lab.rs)"),
    ("lab down", "removes labs (tests/lab.rs)"),
    ("lab exec", "needs a lab (tests/lab.rs)"),
    ("shield exec", "shields CPUs of this machine (tests/shield)"),
    ("shield", "changes this machine unless --dry-run (tests/shield)"),
    ("tune apply", "changes this machine unless --dry-run (tests/tune.rs)"),
    ("tune boot", "changes this machine (tests/tune.rs)"),
    ("tune undo", "changes this machine (tests/tune.rs)"),
    ("tune try", "takes minutes (tests/tune.rs)"),
    ("undo", "changes this machine unless --list (tests/undo.rs)"),
    ("campaign run", "takes minutes; its plan is read"),
    ("campaign resume", "needs a run that was cut short (tests/campaign.rs)"),
    ("dump", "needs a capture or an interface (tests/dump.rs, tests/capture.rs)"),
    ("run", "changes tasks or starts a program (tests/run.rs)"),
    ("load", "keeps the machine busy (crates/load)"),
    ("explain", "takes minutes, or needs a run that was explained (tests/explain.rs)"),
    ("import", "needs what another tool wrote (tests/import.rs)"),
];

/// How the runs of the two sides of a comparison begin in the documents.
const BEFORE: &[&str] = &["before-", "runs/before-", "runs/baseline"];
const AFTER: &[&str] = &["after-", "runs/after-", "runs/ci-", "runs/pr"];

/// What the lines are run with.
struct Place {
    folder: Folder,
    server: Server,
    as_sockperf: Server,
}

/// A plan whose cells answer to the keys that the documents name.
const PLAN: &str = "name = \"documents\"\nrepetitions = 1\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\n\
    reflectors = [\"b\"]\n[measure]\nseconds = 0.3\nwarmup_ms = 20\n[[grid]]\nprobe = [\"pace\"]\nsize = [1000]\n\
    rate = [1000, 40000]\npolicy = [\"other\", \"fifo:50\"]\n";

/// What `compare --axis stack` needs.
const STACKS: &str = "[measure]\nseconds = 0.1\nwarmup_ms = 20\n[[grid]]\nstack = [\"kernel\", \"spin\"]\n";

impl Place {
    fn new() -> Self {
        let folder = Folder::new("documents");
        let link = |from: &Path, name: &str| std::os::unix::fs::symlink(from, folder.0.join(name)).unwrap();
        link(&root().join("campaigns"), "campaigns");
        link(&root().join("docs"), "docs");
        link(&root().join("examples/exchange/exchange.toml"), "exchange.toml");
        let plan = folder.file("plan.toml", PLAN);
        let stacks = PLAN.split("[measure]").next().unwrap().to_owned() + STACKS;
        let stacks = folder.file("stacks.toml", &stacks);
        let runs = folder.0.join("runs");
        std::fs::create_dir(&runs).unwrap();
        let made = [("first", &plan), ("second", &plan), ("third", &stacks)].map(|(name, plan)| {
            let place = folder.0.join(name);
            std::fs::create_dir(&place).unwrap();
            let output = run(&["campaign", "run", plan, "--output", place.to_str().unwrap()]);
            let made = run_directory(&place);
            assert_run_measured(&output, &made);
            // Where the documents have all runs.
            let kept = runs.join(made.file_name().unwrap());
            std::fs::rename(made, &kept).unwrap();
            kept
        });
        for (run, names) in made.iter().zip([&["RUN", "before"][..], &["RUN2", "after"], &["STACKS"]]) {
            names.iter().for_each(|name| link(run, name));
        }
        let before = windhover(&["doctor", "--save", "a.json"]).current_dir(&folder.0).output().unwrap();
        assert!(folder.0.join("a.json").exists(), "{}", stderr(&before));
        std::fs::copy(folder.0.join("a.json"), folder.0.join("b.json")).unwrap();
        Self { server: Server::start(&[]), as_sockperf: Server::start(&["--as", "sockperf"]), folder }
    }

    /// The words as they are run here, or why they are not.
    fn adapted(&self, line: &Line) -> Result<Vec<String>, &'static str> {
        let words = &line.words;
        let has = |flag: &str| words.iter().any(|word| word == flag);
        let head = |count: usize| words.iter().take(count).cloned().collect::<Vec<_>>().join(" ");
        if words.iter().any(|word| ["eth0", "nic.coalesce.rx-usecs=0"].contains(&word.as_str())) {
            return Err("needs the network device eth0");
        }
        if has("ff08::1") {
            return Err("needs the route that the sentence tells of");
        }
        if has("--against") {
            return Err("takes up to a minute (tests/against.rs)");
        }
        if has("--foreign") {
            return Err("needs a program of one's own (tests/foreign.rs)");
        }
        if has("--udev") {
            return Err("needs the network device eth0");
        }
        if has("--measure") {
            return Err("keeps a CPU busy for seconds (tests/doctor.rs)");
        }
        if refusal(line).is_some_and(|refusal| is_abridged(line, &refusal)) {
            return Err("names flags without operands");
        }
        let first = words.first().map(String::as_str).unwrap_or_default();
        if ["pingpong", "rr", "pace", "stream", "ping", "wake", "cycle"].contains(&first) {
            return Ok(self.measuring(words));
        }
        let only_looks =
            has("--dry-run") || has("-n") || has("--list") || first == "shield" && (words.len() == 1 || has("-c"));
        if let Some((_, why)) = NOT_RUN.iter().find(|(start, _)| *start == head(start.split(' ').count()))
            && !(only_looks && ["shield", "tune", "undo"].contains(&first))
        {
            return Err(why);
        }
        let names = |word: &String| match word.as_str() {
            "a" | "A" if first == "plot" => "rate=1000,policy=other".to_owned(),
            "b" | "B" if first == "plot" => "rate=1000,policy=fifo:50".to_owned(),
            "RUN" if first == "compare" && has("stack") => "STACKS".to_owned(),
            run if first == "compare" && (run == "A" || BEFORE.iter().any(|start| run.starts_with(start))) => {
                "RUN".to_owned()
            }
            run if first == "compare" && (run == "B" || AFTER.iter().any(|start| run.starts_with(start))) => {
                "RUN2".to_owned()
            }
            // A CPU that every machine has.
            "3" if first == "doctor" => "0".to_owned(),
            "a.json" | "b.json" if has("--save") => "saved.json".to_owned(),
            "capture.pcap" if first == "campaign" => "campaigns/heat-map.toml".to_owned(),
            other => other.to_owned(),
        };
        // Several lines write to the same file here.
        let page = first == "report" && !has("--format");
        let drawing = first == "plot" && (has("--output") || has("-o"));
        let force = (has("--save") || page || drawing).then(|| "--force".to_owned());
        let mut words: Vec<String> = words.iter().map(names).chain(force).collect();
        // There is one run a side here, and none may be given twice.
        words.dedup();
        Ok(words)
    }

    /// A measurement over loopback, for a moment.
    fn measuring(&self, words: &[String]) -> Vec<String> {
        let first = words[0].as_str();
        let multicast = words.get(1).is_some_and(|word| word == "pgm");
        let has_peer = words.iter().any(|word| word == "--peer");
        let mut made: Vec<String> = Vec::new();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match word.as_str() {
                "--key-file" | "--seconds" | "-t" | "--count" | "-c" => drop(rest.next()),
                "10.0.0.3" => {}
                "10.0.0.2" if first == "ping" => made.push("127.0.0.1".to_owned()),
                "10.0.0.2" | "198.18.0.2" if multicast => {}
                "10.0.0.2" if has_peer => made.push(self.as_sockperf.address.clone()),
                "10.0.0.2" | "198.18.0.2" => made.push(self.server.address.clone()),
                "--rate" if rest.clone().next().is_some_and(|list| list.contains('-')) => {
                    rest.next();
                    made.extend(["--rate".to_owned(), "1k".to_owned()]);
                }
                "default" | "1-65536x2" => made.push("32,64".to_owned()),
                _ => made.push(word.clone()),
            }
        }
        let more: &[&str] = match first {
            "ping" => &["--count", "5"],
            "stream" => &["--seconds", "1"],
            "rr" if made.iter().any(|word| word == "--interval") => &["--count", "100"],
            _ => &["--seconds", "0.2"],
        };
        made.extend(more.iter().map(|word| (*word).to_owned()));
        if multicast && !made.iter().any(|word| word == "--fork-both") {
            made.push("--fork-both".to_owned());
        }
        let servers = [&self.server.address, &self.as_sockperf.address];
        let addressed = made.iter().any(|word| servers.contains(&word) || word == "--fork-both");
        let protocol = made.get(1).map(String::as_str).unwrap_or_default();
        if !addressed && ["udp", "tcp"].contains(&protocol) {
            made.insert(2, self.server.address.clone());
        }
        made
    }

    fn run(&self, words: &[String]) -> Output {
        let binary = env!("CARGO_BIN_EXE_windhover");
        let mut command = Command::new("timeout");
        // Long enough for a busy machine: only what hangs is ended.
        command.args(["--signal=INT", "180", binary]).args(words).current_dir(&self.folder.0);
        command.env("NO_COLOR", "1").env_remove("WINDHOVER_KEY_FILE").stdin(std::process::Stdio::null());
        command.output().unwrap()
    }
}

/// Whether an exit code is one that the line may have, by what was printed.
fn is_fine(words: &[String], output: &Output) -> bool {
    let said = stdout(output);
    match (words[0].as_str(), output.status.code()) {
        (_, Some(0)) => true,
        ("pingpong" | "rr" | "pace" | "stream" | "ping" | "wake" | "cycle", Some(4)) => {
            is_only_busy(&invalid_of(output))
        }
        ("doctor", Some(3)) => said.contains("bad"),
        // A gate, of two short runs.
        ("compare", Some(3)) => words.iter().any(|word| word == "--fail-if") && said.contains("p99"),
        ("compare", Some(4)) => stderr(output).contains("gate") || said.contains("gate"),
        // Its rounds, too, say that the machine was busy.
        ("bypass", Some(4)) => words[1] == "probe" && said.contains("left out as not to be trusted"),
        ("tune", Some(3)) => words[1] == "verify",
        _ => false,
    }
}

#[test]
fn what_can_be_run_here_runs() {
    if !is_root() {
        eprintln!("SKIPPED what_can_be_run_here_runs: real-time policies and PGM need root");
        return;
    }
    let place = Place::new();
    let (mut ran, mut wrong) = (0, Vec::new());
    let mut not_run: BTreeMap<&str, usize> = BTreeMap::new();
    for line in all_lines().iter().filter(|line| !is_name(line) || line.words.len() == 1 && line.words[0] == "shield") {
        match place.adapted(line) {
            Err(why) => *not_run.entry(why).or_default() += 1,
            Ok(words) => {
                ran += 1;
                let output = place.run(&words);
                if !is_fine(&words, &output) {
                    wrong.push(format!(
                        "{}: {}\n  as windhover {}: exit code {:?}\n{}",
                        line.place,
                        line.text(),
                        words.join(" "),
                        output.status.code(),
                        stderr(&output)
                    ));
                }
            }
        }
    }
    let total: usize = not_run.values().sum();
    eprintln!("{ran} command lines were run, {total} only read:");
    not_run.iter().for_each(|(why, count)| eprintln!("  {count:3} {why}"));
    assert!(ran >= 40, "only {ran} were run");
    assert!(wrong.is_empty(), "{} of {ran} lines fail:\n{}", wrong.len(), wrong.join("\n"));
}
