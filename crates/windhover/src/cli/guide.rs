//! The help's guide: commands by purpose, and examples of each.

use clap::Command;
use std::fmt::Write as _;

/// Purposes in the order of a first experiment, each with its commands.
pub(super) const GROUPS: [(&str, &[&str]); 4] = [
    ("Measure", &["serve", "pingpong", "rr", "ping", "pace", "stream", "wake", "pgm", "key"]),
    ("Prepare a host", &["doctor", "irq", "shield", "tune", "run", "bypass", "load", "undo"]),
    ("Experiment", &["lab", "campaign", "agent"]),
    ("Look at results", &["show", "report", "compare", "plot", "import", "dump"]),
];

/// Examples of each command, by its path below `windhover`: command lines, each with what it does below it, as help shows
/// them. Documents are tested with them.
const EXAMPLES: &str = "
key
  (umask 077; windhover key > key)
      a key that only its owner can read
  windhover key | ssh b 'umask 077; cat > key'
      the same key is needed at both ends
serve
  windhover serve
      on loopback, without a key
  windhover serve --bind 10.0.0.2 --key-file key
      for other hosts, with a key
  windhover serve --bind 10.0.0.2 --key-file key --max-rate 100000 --no-spin
      with limits
  windhover serve --once
      for one client
  windhover serve --bind 10.0.0.2 --key-file key --daemon --pid-file serve.pid --log serve.log
      in the background; kill $(cat serve.pid) ends it
pingpong
  windhover pingpong udp --fork-both
      this host with itself
  windhover pingpong tcp 10.0.0.2 --key-file key --size default
      sfnt-pingpong's sizes
  windhover pingpong udp 10.0.0.2 --key-file key --foreign ./udp_pingpong
      with a program of your own as the initiator
  windhover pingpong udp 10.0.0.2 --key-file key --policy fifo:1 --cpu 1 --receive spin
      real-time policy, one CPU, spinning
  windhover pingpong udp 10.0.0.2 --key-file key --against '--policy fifo:1'
      what that policy brings: both measured in turn, for a minute at most
rr
  windhover rr tcp 10.0.0.2 --key-file key -t 10
      netperf's TCP_RR for 10 s
  windhover rr tcp 10.0.0.2 --key-file key --connect-each
      netperf's TCP_CRR
ping
  windhover ping 10.0.0.2 -c 100 -i 0.01
      100 echoes, one each 10 ms
  windhover ping ::1 --policy fifo:10 --cpu 1
      from a real-time thread on CPU 1
pace
  windhover pace udp --fork-both --rate 1k --seconds 2
      this host with itself
  windhover pace udp 10.0.0.2 --key-file key --rate 10k-50k+10k --size 1000
      five rates, one after the other
  windhover pace pgm 239.192.0.1 10.0.0.2 10.0.0.3 --key-file key
      reliable multicast to two far ends
stream
  windhover stream tcp 10.0.0.2 --key-file key -t 10 -P 4
      four TCP flows for 10 s
  windhover stream udp 10.0.0.2 --key-file key -b 500M -R --working-latency
      UDP from there, and what it does to latency
wake
  windhover wake --policy fifo:80 --cpu 1
      a real-time thread on CPU 1 that shall wake up each ms, for 10 s
  windhover wake --policy fifo:80 --cpu 0-1 --interval-us 200 --seconds 60
      a thread on each of two CPUs
pgm send
  windhover pgm send 239.192.0.1 --count 10000 --rate 1k
      numbered messages
  seq 10 | windhover pgm send 239.192.0.1
      a message a line
pgm recv
  windhover pgm recv 239.192.0.1
      print what is published
  windhover pgm recv 239.192.0.1 --check --summary --until-fin
      check numbered messages
pgm ping
  windhover pgm ping 239.192.0.1
      ten messages
  windhover pgm ping 239.192.0.1 --count 1000 --rate 1k --reflectors 2
      wait for two reflectors first
pgm reflect
  windhover pgm reflect 239.192.0.1
      answers on 239.192.0.2, until interrupted
  windhover pgm reflect 239.192.0.1 --for 60s --interface eth0
      for a minute, over eth0
dump
  windhover dump capture.pcap
      decode a file
  windhover dump eth0 --count 100 --host 10.0.0.2
      listen to one host
load
  windhover load build --seconds 60
      compile for a minute
  windhover load memory --cpus 2-3 --jobs 2
      memory bandwidth on CPU 2 and 3, until interrupted
run
  windhover run -s fifo -P 10 -b 2 --mlock ./control
      SCHED_FIFO 10 on CPU 2, memory locked
  windhover run -i -n sshd
      how running processes are scheduled
bypass run
  windhover bypass run redis-server
      calls spin for up to 100 ms before they sleep
  windhover run -s fifo -b 2 windhover bypass run --profile latency-best --require ./control
      from a real-time thread on CPU 2, and only if it is accelerated
  windhover bypass run --stack xdp --capture start.pcapng redis-server
      with its packets in a file, from the first one on
bypass probe
  windhover bypass probe lo
      what each way past the kernel's stack takes here, over a veth pair made for it
  windhover bypass probe eth0 --to 10.0.0.2
      the same over eth0, to a host where 'windhover serve' runs
bypass capture
  windhover bypass capture redis-server -w redis.pcapng
      until the program ends or Ctrl-C; tcpdump -r reads the file, too
  windhover bypass capture 1234 -c 100 | windhover dump --all -
      the next 100 packets of process 1234 as lines
bypass profiles
  windhover bypass profiles
      names and what they are for
  windhover bypass profiles latency
      each setting with what it does
bypass stat
  windhover bypass stat
      all programs that run behind it
  windhover bypass stat 1234 --format json
      one process, for programs
shield
  windhover shield
      what is shielded now
  windhover shield --all 2-3 --nic eth0 --dry-run
      what would be changed
  windhover shield --reset
      everything as it was
shield exec
  windhover shield exec --all 2 -- ./experiment
      a shield for as long as a command runs
  windhover shield exec --all 2 -- windhover run -b 2 ./control
      the command itself behind it
tune list
  windhover tune list
      names and what they are for
  windhover tune list --format json
      for programs
tune show
  windhover tune show latency
      each setting with its reason
  windhover tune show network-latency --nic eth0
      with those of a device
tune active
  windhover tune active
      profiles in force, and that of each boot
  windhover tune active --format json
      for programs
tune recommend
  windhover tune recommend
      the profile, the reason, the command
  windhover tune recommend --format json
      for programs
tune diff
  windhover tune diff latency
      what would change here
  windhover tune diff --set sysctl.net.core.busy_read=50
      of one setting
tune apply
  windhover tune apply latency --dry-run
      look first
  windhover tune apply network-latency --nic eth0 --yes
      without being asked
  windhover tune apply latency --boot --yes
      now and at each boot, until tune undo
tune boot
  windhover tune boot
      what windhover-tune.service does
  windhover tune boot --format json
      for programs
tune verify
  windhover tune verify latency
      exit code 3 where a setting does not hold
  windhover tune verify network-latency --nic eth0 --format json
      for programs
tune undo
  windhover tune undo
      all profiles, newest first
  windhover tune undo latency
      only this one
tune emit
  windhover tune emit latency --grub
      kernel parameters for the next boot
  windhover tune emit latency --systemd
      a unit that applies the profile at boot
tune try
  windhover tune try latency --cpu '0;1'
      each setting of a profile
  windhover tune try --set sysctl.net.core.busy_read=50 --lab loopback --rounds 5
      one setting, quickly
doctor
  windhover doctor
      the machine as a whole
  windhover doctor --cpus 3 --nic eth0 --save a.json
      for one CPU and device, kept for a comparison
doctor diff
  windhover doctor diff a.json b.json
      two hosts, or one before and after
  windhover doctor diff a.json b.json --format json
      for programs
irq
  windhover irq
      live, until q
  windhover irq --cpu 1 --count 1 --interval 5
      what came to CPU 1 in five seconds
lab up
  windhover lab up
      two namespaces, a and b, joined by a veth pair
  windhover lab up four --hosts 4
      four on a bridge
  windhover lab up rt --guest debian-6.1-rt
      two in a virtual machine with another kernel
  windhover lab up pair --guest debian-6.1 --guest debian-6.12 --mode tcg
      two virtual machines on a wire
lab down
  windhover lab down four
      remove one
  windhover lab down --stale
      remove those whose owner is gone
  windhover lab down --all
      remove all
lab list
  windhover lab list
      labs, hosts and addresses
  windhover lab list --format json
      for programs
lab exec
  windhover lab exec b -- windhover serve --bind 198.18.0.2
      serve on host b of the lab called lab
  windhover lab exec four/c -- ip address
      host c of the lab four
  windhover lab exec rt/a -- windhover pingpong udp 198.18.0.2
      in a virtual machine
lab boot
  windhover lab boot debian-6.12-rt -- windhover doctor
      doctor in a virtual machine with Debian's PREEMPT_RT kernel
  windhover lab boot debian-6.1 --word preempt=full --host b -- ip address
      a word for the kernel's command line; the command is on host b
  windhover lab boot debian-6.12 --nic igb --host a -- ethtool -c eth0
      hosts with emulated NICs, driven by the kernel's own driver
campaign plan
  windhover campaign plan PLAN
      check a plan; show cells and time
  windhover campaign plan PLAN --quiet
      without notes
campaign run
  windhover campaign run PLAN
      as root, for labs of namespaces
  windhover campaign run PLAN --lab loopback --output runs --label nic=X520
      without namespaces; a label for what was swapped by hand
  windhover campaign run PLAN --lab rt
      on the lab of this name, which is up
campaign resume
  windhover campaign resume RUN
      go on after a kill
  windhover campaign resume RUN --jsonl
      with events as JSON lines
campaign list
  windhover campaign list
      runs in this folder
  windhover campaign list runs
      runs in another
report
  windhover report RUN
      RUN/report.html
  windhover report RUN RUN2 --format table --reference
      two runs and the papers' published rows
compare
  windhover compare RUN RUN2
      two runs, cell by cell
  windhover compare RUN --axis policy
      the values of one factor within a run
  windhover compare RUN RUN2 --fail-if 'p99 > +10%' --significant
      a gate: exit code 3
  windhover compare runs/before-* --with runs/after-* --fail-if 'p99 > +10%'
      several runs a side, and a gate over them
  windhover compare RUN --where policy=other --where-b policy=fifo:50
      two values of a factor within a run
plot
  windhover plot RUN --list
      which figures there are
  windhover plot RUN --figure heat --format svg
      heat maps as SVG
import
  windhover import cyclictest hist.txt --label os=EVL --output runs
      a histogram of cyclictest -q -h 400
  windhover import sockperf 1.csv 2.csv 3.csv --size 32 --substrate metal
      three repetitions of sockperf --full-log
show
  windhover show RUN
      the table
  windhover show RUN --cells
      figures and verdict of each cell
agent
  ssh b windhover agent
      as hosts.b.agent_command of a plan starts it
  windhover agent < /dev/null
      ends at once: it serves its standard input
undo
  windhover undo --list
      what is changed at the moment
  windhover undo
      put everything back
";

/// The examples of a command, by its path below `windhover`: a line and what it does.
pub(crate) fn examples(path: &str) -> Vec<(&'static str, &'static str)> {
    let of_command = EXAMPLES.lines().skip_while(|line| *line != path).skip(1);
    let lines: Vec<&str> = of_command.take_while(|line| line.starts_with(' ')).map(str::trim_start).collect();
    lines.chunks_exact(2).map(|two| (two[0], two[1])).collect()
}

/// The commands to begin with.
const FIRST: [&str; 6] = ["pingpong", "serve", "doctor", "tune recommend", "campaign run", "report"];

/// What `windhover` alone prints: what it is, the commands to begin with, and where the help is. Ten lines.
pub(super) fn overview(root: &Command) -> String {
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{}\n\n", about(root));
    for path in FIRST {
        let command = path.split(' ').try_fold(root, |command, name| command.find_subcommand(name));
        let line = examples(path).first().map_or("", |(line, _)| line);
        let _ = writeln!(text, "  {line:<34}  {}", command.map(about).unwrap_or_default());
    }
    text.push_str("\nwindhover help lists all commands; windhover help COMMAND, or COMMAND --help, explains one.\n");
    text
}

/// Adds a command's examples to its long help.
pub(super) fn with_examples(command: Command, path: &str) -> Command {
    let examples = examples(path);
    if examples.is_empty() {
        return command;
    }
    let mut text =
        command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string).unwrap_or_default();
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str("Examples:");
    for (line, words) in examples {
        let _ = write!(text, "\n  {line}\n      {words}");
    }
    command.after_long_help(text)
}

/// The overview with the commands by purpose.
pub(super) fn by_purpose(root: Command) -> Command {
    let mut text = String::new();
    for (purpose, names) in GROUPS {
        let _ = write!(text, "\n{purpose}:\n");
        for name in names {
            let about =
                root.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string).unwrap_or_default();
            text.push_str(&report::paragraph(&format!("  {name:<9} "), &about, 78));
        }
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{text}\nOptions:\n{{options}}\n\nwindhover help COMMAND, or COMMAND \
         --help, says more.{{after-help}}"
    );
    root.help_template(template)
        .mut_subcommands(|sub| if sub.has_subcommands() { sub.disable_help_subcommand(true) } else { sub })
}
