//! Flags of other tools that mean something else here or nothing, each with the flag to use. Those that mean the same are aliases at
//! the flags themselves; docs/measuring.md has whole tables.

/// Commands, separated by spaces; the flags or values, or a flag that they have in another form, with `|` between them; whose they
/// are; what to write here.
const PEERS: &[(&str, &str, &str, &str)] = &[
    ("pingpong pace rr", "--spin", "sfnt-pingpong", "--receive spin"),
    ("pingpong pace rr", "--muxer", "sfnt-pingpong", "--receive select, poll, epoll, epoll-mod or epoll-adddel"),
    ("pingpong pace", "--port", "sfnt-pingpong", "the address, as ADDR:PORT"),
    ("pingpong pace", "--connect", "sfnt-pingpong", "the default; --unconnected turns it off"),
    ("pingpong pace rr", "--nodelay", "sfnt-pingpong", "the default; --no-nodelay turns it off"),
    ("pingpong pace", "--v6only", "sfnt-pingpong", "always on; -4 and -6 choose the family"),
    ("pingpong", "--tcpc-serv", "sfnt-pingpong", "not needed: idle TCP connections are made on their own host"),
    ("pace", "--samples", "sfnt-stream", "--every N: one message in N is answered"),
    ("pace", "--stop", "sfnt-stream", "--beyond-saturation, to go on after a rate that was not reached"),
    ("pace", "--maxburst", "sfnt-stream", "not needed: the schedule is never reset"),
    ("pace", "--rtt-iter", "sfnt-stream", "not needed: one-way times are measured"),
    ("pace", "--burst", "sockperf", "--shape burst:N"),
    ("pace", "--full-log", "sockperf", "--raw PREFIX"),
    ("pace", "--full-rtt", "sockperf", "the default"),
    ("pace", "--data-file", "sockperf", "--schedule FILE"),
    ("pingpong pace", "-m", "sockperf", "--size BYTES"),
    ("pingpong pace", "-i", "sockperf", "the address after the protocol: pingpong udp ADDR"),
    ("pingpong pace rr stream", "-p", "other tools", "the address, as ADDR:PORT"),
    ("pingpong pace", "--sender-affinity", "sockperf", "--cpu N"),
    ("pingpong pace", "--receiver-affinity", "sockperf", "--receive-cpu N of pace, or --remote-cpu N"),
    ("pingpong pace rr stream", "--tos", "other tools", "not supported"),
    ("stream pace rr pingpong", "-c", "iperf3", "the address after the protocol: stream tcp ADDR"),
    ("stream pace rr pingpong", "-s", "iperf3", "'windhover serve' on the other host"),
    ("stream pace rr pingpong", "-u", "iperf3", "the word udp: stream udp ADDR"),
    ("stream", "-l", "iperf3 and netperf", "--size BYTES (iperf3's -l) or --seconds S (netperf's)"),
    ("stream", "-d", "iperf", "--bidir"),
    ("stream", "-n|-k", "iperf3", "--seconds S: a stream ends by its time"),
    ("stream", "-i", "iperf3", "--jsonl: an interval a second"),
    ("stream", "-w", "iperf3", "--send-buffer BYTES and --receive-buffer BYTES"),
    ("stream", "-A", "iperf3", "--cpu N --remote-cpu N"),
    ("stream", "-B", "iperf3", "--bind ADDR"),
    ("stream", "--mptcp", "iperf3", "the word mptcp: stream mptcp ADDR"),
    ("stream", "--gsro", "iperf3", "--gso --gro"),
    ("stream", "--json-stream", "iperf3", "--jsonl"),
    ("stream", "-m", "netperf", "--size BYTES"),
    ("rr stream", "-H", "netperf", "the address after the protocol: rr tcp ADDR"),
    ("rr", "-r", "netperf", "--size REQUEST --response BYTES"),
    ("rr", "-I", "netperf", "--interval PERCENT"),
    ("rr stream", "-T", "netperf", "--cpu N --remote-cpu N"),
    ("rr stream", "-C", "netperf", "not needed: the CPU of both ends is always reported"),
    ("rr", "TCP_RR", "netperf", "the word tcp: rr tcp ADDR"),
    ("rr", "UDP_RR", "netperf", "the word udp: rr udp ADDR"),
    ("rr", "TCP_CRR", "netperf", "rr tcp ADDR --connect-each"),
    ("stream", "TCP_STREAM", "netperf", "stream tcp ADDR"),
    ("stream", "UDP_STREAM", "netperf", "stream udp ADDR"),
    ("stream", "TCP_MAERTS", "netperf", "stream tcp ADDR --reverse"),
    ("ping", "-W", "ping", "--timeout MS"),
    ("ping", "-w", "ping", "--count N and --interval S"),
    ("ping", "-I", "ping", "--device DEV, or --bind ADDR"),
    ("ping", "-t", "ping", "--ttl N"),
    ("ping", "-f", "ping", "--interval 0"),
    ("serve", "-s", "iperf3", "not needed: serve is the server"),
    ("serve", "-p", "iperf3", "--bind ADDR:PORT"),
    ("serve", "--port", "other tools", "--bind ADDR:PORT"),
    ("wake", "-t", "cyclictest", "--smp or --cpu LIST, a thread on each CPU; a time is --seconds S"),
    ("wake", "--threads", "cyclictest", "--smp or --cpu LIST, a thread on each CPU"),
    ("wake", "--affinity", "cyclictest", "--cpu LIST, a thread on each CPU"),
    ("wake", "-d|--distance", "cyclictest", "not needed: all threads have the same deadlines, as with -d 0"),
    ("wake", "-A|--secaligned", "cyclictest", "not needed: all threads have the same deadlines"),
    ("wake", "-b|--breaktrace|--spike", "cyclictest", "--over US, which keeps each wake-up that was later"),
    ("wake", "-M|--refresh_on_max|-u|--unbuffered", "cyclictest", "not needed: only results are printed"),
    ("wake", "-H|--histofall", "cyclictest", "--histogram US, with all threads in the last column"),
    ("wake", "-N|--nsecs", "cyclictest", "--format json, whose figures are in ns"),
    ("wake", "-v|--verbose", "cyclictest", "--raw PREFIX"),
    ("wake", "-c|--clock", "cyclictest", "not supported: the clock is CLOCK_MONOTONIC"),
    ("wake", "-r|--relative", "cyclictest", "not supported: threads sleep until absolute times"),
    ("wake", "-F|--fifo", "cyclictest", "not supported: figures are printed at the end"),
    ("wake", "-o|--oscope", "cyclictest", "--raw PREFIX, which keeps each wake-up"),
    (
        "wake",
        "-e|--latency",
        "cyclictest",
        "the setting cpuidle.latency-us=US of 'windhover tune': wake itself changes none",
    ),
    ("wake", "-s|--system|-x|--posix_timers", "cyclictest", "not supported: threads sleep by clock_nanosleep"),
    ("wake", "-y", "cyclictest", "--policy POLICY, such as fifo:80 or rr:80"),
    ("wake", "--spike-nodes", "cyclictest", "not needed: --over keeps as many as come"),
    ("wake", "--json FILE", "cyclictest", "--json > FILE"),
    ("wake", "--histfile", "cyclictest", "--histogram US > FILE"),
    ("wake", "-a alone", "cyclictest", "--smp, a thread on each CPU, or -a LIST"),
    ("wake", "--default-system", "cyclictest", "the default: no setting of the machine is changed"),
    ("wake", "--laptop", "cyclictest", "not needed: no setting of the machine is changed"),
    ("run", "-t", "RedHawk", "--tid TID,…: '-t' is seconds in the commands that have it"),
    ("run", "--affinity", "tuna", "--cpus LIST"),
    ("shield", "--cpu", "cset", "--all LIST"),
    ("shield", "--cpus", "tuna", "--all LIST"),
    ("shield", "--exec", "cset", "shield exec --all LIST -- COMMAND"),
];

pub(super) fn answer(command: &str, wrong: &str) -> Option<String> {
    let is_one = |all: &str, separator: char, word: &str| all.split(separator).any(|one| one == word);
    let is_meant = |commands: &str, flags: &str| is_one(flags, '|', wrong) && is_one(commands, ' ', command);
    let (.., tool, ours) = PEERS.iter().find(|(commands, flags, ..)| is_meant(commands, flags))?;
    Some(if ["not ", "the default", "always"].iter().any(|word| ours.starts_with(word)) {
        format!("{tool}'s '{wrong}' is {ours}")
    } else {
        format!("instead of {tool}'s '{wrong}', use {ours}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse::definition;

    /// Whatever is answered here must be unknown to the command; and each answer's own flags known.
    #[test]
    fn answers_are_about_flags_that_we_do_not_have() {
        for (commands, flags, _, ours) in PEERS {
            for command in commands.split(' ') {
                let definition = definition();
                let command = definition.find_subcommand(command).unwrap();
                let names = |arg: &clap::Arg| -> Vec<String> {
                    let longs = arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default());
                    let shorts = arg.get_short().into_iter().chain(arg.get_all_short_aliases().unwrap_or_default());
                    longs.map(|long| format!("--{long}")).chain(shorts.map(|short| format!("-{short}"))).collect()
                };
                let known: Vec<String> = command.get_arguments().flat_map(names).collect();
                for flag in flags.split('|') {
                    assert!(!known.contains(&flag.to_owned()), "{} knows {flag}", command.get_name());
                }
                let said =
                    ours.split(|c: char| c.is_whitespace() || ",;:".contains(c)).filter(|word| word.starts_with("--"));
                let all: Vec<String> = definition
                    .get_subcommands()
                    .filter(|sub| commands.contains(sub.get_name()))
                    .flat_map(|sub| sub.get_arguments().flat_map(names))
                    .collect();
                for word in said.filter(|word| *word != "--") {
                    assert!(all.contains(&word.to_owned()), "{ours}: {word} is no flag of {commands}");
                }
            }
        }
    }
}
