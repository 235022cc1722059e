//! One case: a sender, a receiver, what is between them, and what has to come out.

use crate::network::{Network, address, address6, obstacle, obstacle6};
use crate::process::{Process, Program};
use serde_json::Value;
use std::fmt;
use std::process::Command;
use std::time::Duration;

/// The group of all cases but those of two groups.
pub(crate) const GROUP: &str = "239.192.0.1";
/// The same over IPv6, of organisation scope.
pub(crate) const GROUP6: &str = "ff08::77:1";
/// No program may take longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// No program takes longer to begin.
pub(crate) const BEGIN: Duration = Duration::from_secs(10);
/// Port of PGM, and for ZeroMQ of UDP.
const PORT: &str = "7500";

/// Who is at one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Windhover,
    OpenPgm,
    ZeroMq,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Windhover => "windhover",
            Self::OpenPgm => "OpenPGM",
            Self::ZeroMq => "ZeroMQ",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    Udp,
    Raw,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Udp => "UDP",
            Self::Raw => "raw 113",
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) carrier: Carrier,
    /// Multicast packets lost on their way to the receiver, in percent.
    pub(crate) loss: u32,
    pub(crate) bytes: usize,
    pub(crate) count: u64,
    pub(crate) rate: u32,
    pub(crate) v6: bool,
    /// The receiver comes when the sender has sent for so long.
    pub(crate) late: Option<Duration>,
}

impl Case {
    pub(crate) fn new(from: End, to: End, carrier: Carrier, loss: u32, bytes: usize) -> Self {
        Self { from, to, carrier, loss, bytes, count: 2000, rate: 2000, v6: false, late: None }
    }

    pub(crate) fn over_ipv6(self) -> Self {
        Self { v6: true, ..self }
    }

    /// Prints what was seen; panics when it is wrong.
    pub(crate) fn run(&self) {
        let network = if self.v6 { Network::of(2).with_ipv6() } else { Network::of(2) };
        network.lose(1, self.loss);
        let mut sender = None;
        if let Some(late) = self.late {
            // Counted from its first packet on, not from the start of a program that waits for a CPU.
            let mut early = self.sender(&network);
            early.says(if self.from == End::Windhover { "publishes" } else { "ready" }, BEGIN);
            std::thread::sleep(late);
            sender = Some(early);
        }
        let mut receiver = self.receiver(&network);
        receiver.says(if self.to == End::Windhover { "hears" } else { "ready" }, BEGIN);
        let sender = sender.unwrap_or_else(|| self.sender(&network));
        let (sent_status, sent) = sender.finish(LIMIT);
        let (status, seen) = receiver.finish(LIMIT);
        let (came, lost) = network.came_and_lost(1);
        let row = self.row(&sent, &seen, lost);
        println!("INTEROP {row}");
        assert!(sent_status.success(), "{row}\nsender {sent_status}: {sent}");
        assert!(status.success(), "{row}\nreceiver {status}: {seen}");
        self.check(&row, &sent, &seen);
        // The losses were real. A busy sender puts several messages into a packet.
        let least = u64::from(self.loss) * came / 100 / 4;
        assert!(row.lost >= least, "{row}\nonly {} of {came} packets were dropped", row.lost);
    }

    /// OpenPGM that joins late under losses.
    fn may_miss_some(&self) -> bool {
        self.to == End::OpenPgm && self.late.is_some() && self.loss > 0
    }

    /// Where everything goes, and where this end is.
    fn places(&self, host: usize) -> (&'static str, String) {
        if self.v6 { (GROUP6, address6(host)) } else { (GROUP, address(host)) }
    }

    fn check(&self, row: &Row, sent: &Value, seen: &Value) {
        let told = format!("{row}\nsender {sent}\nreceiver {seen}");
        assert_eq!(self.late.is_some(), row.first > 0, "{told}");
        assert_eq!((row.bad, row.out_of_order, row.next), (0, 0, self.count), "{told}");
        if self.may_miss_some() {
            // The library gives up what it misses before it has heard an SPM; nothing after it.
            let source = &seen["sources"][0];
            let lead = seen["lead"].as_u64().unwrap_or_else(|| panic!("no SPM came: {told}"));
            let (whole, least) = (number(&source["whole"]), self.count - lead - 1);
            assert!(whole <= lead + 1 && row.delivered >= least, "not all after the first SPM: {told}");
            // It was there in time to say something.
            assert!(least > self.count / 8, "{told}");
        } else {
            assert_eq!((row.delivered, row.gone), (self.count - row.first, 0), "{told}");
        }
        if self.from == End::Windhover {
            assert_eq!(sent["finished"], true, "{told}");
            assert_eq!(number(&sent["source"]["numbers_outside"]), 0, "{told}");
        }
        if self.to == End::Windhover && self.from == End::OpenPgm {
            // Its end of the session is understood.
            assert_eq!(seen["sources"][0]["ended"], "finished", "{told}");
        }
        if self.loss > 0 && self.late.is_none() && self.to == End::Windhover {
            assert!(number(&seen["receiver"]["recovered"]) > 0, "{told}");
        }
        if self.loss > 0 && self.late.is_none() && self.from == End::Windhover {
            assert!(number(&sent["source"]["rdata"]) > 0, "{told}");
        }
    }

    fn row(&self, sent: &Value, seen: &Value, lost: u64) -> Row {
        let source = &seen["sources"][0];
        let ours = self.to == End::Windhover;
        let word = |ours_name: &str, name: &str| number(if ours { &source[ours_name] } else { &seen[name] });
        Row {
            case: *self,
            lost,
            delivered: number(&source["messages"]),
            first: number(&source["first"]),
            next: number(&source["next"]),
            bad: word("damaged", "bad"),
            out_of_order: word("out_of_order", "out_of_order"),
            gone: number(if ours { &seen["receiver"]["lost"] } else { &seen["resets"] }),
            repairs: match (self.from, self.to) {
                (End::Windhover, _) => Some(number(&sent["source"]["rdata"])),
                (_, End::Windhover) => Some(number(&seen["receiver"]["recovered"])),
                _ => None,
            },
        }
    }

    fn sender(&self, network: &Network) -> Process {
        let command = match self.from {
            End::Windhover => {
                let mut command = self.windhover(network, 0, "send");
                command.args(["--count", &self.count.to_string(), "--size", &self.bytes.to_string()]);
                command.args(["--rate", &self.rate.to_string(), "--json", "--linger", "1s"]);
                command
            }
            End::OpenPgm => self.openpgm(network, 0, "send", "1"),
            End::ZeroMq => self.zeromq(network, 0, "send", "1"),
        };
        Process::start("sender", command)
    }

    fn receiver(&self, network: &Network) -> Process {
        let command = match self.to {
            End::Windhover => {
                let mut command = self.windhover(network, 1, "recv");
                command.args([
                    "--check",
                    "--summary",
                    "--format",
                    "json",
                    "--until-fin",
                    "--for",
                    "50s",
                    "--idle",
                    "5s",
                ]);
                command
            }
            End::OpenPgm => self.openpgm(network, 1, "recv", "5"),
            End::ZeroMq => self.zeromq(network, 1, "recv", "5"),
        };
        Process::start("receiver", command)
    }

    fn windhover(&self, network: &Network, host: usize, what: &str) -> Command {
        let mut command = network.command(host, env!("CARGO_BIN_EXE_windhover"));
        let (group, local) = self.places(host);
        command.args(["pgm", what, group]);
        if self.v6 {
            command.args(["--local", &local]);
        }
        if self.carrier == Carrier::Raw {
            command.args(["--carrier", "raw"]);
        }
        if self.from == End::ZeroMq || self.to == End::ZeroMq {
            command.arg("--zeromq");
        }
        command
    }

    fn openpgm(&self, network: &Network, host: usize, what: &str, seconds: &str) -> Command {
        let mut command = network.command(host, Program::OpenPgm.built().unwrap());
        let udp = if self.carrier == Carrier::Udp { "3056" } else { "0" };
        let (group, local) = self.places(host);
        command.args([what, &local, group, PORT, udp, &self.count.to_string(), &self.bytes.to_string()]);
        command.args([&self.rate.to_string(), seconds]);
        command
    }

    fn zeromq(&self, network: &Network, host: usize, what: &str, seconds: &str) -> Command {
        let mut command = network.command(host, Program::ZeroMq.built().unwrap());
        let kind = if self.carrier == Carrier::Udp { "epgm" } else { "pgm" };
        let (group, local) = self.places(host);
        let url = format!("{kind}://{local};{group}:{PORT}");
        command.args([what, &url, &self.count.to_string(), &self.bytes.to_string(), &self.rate.to_string(), seconds]);
        command
    }
}

/// What was seen of a case.
pub(crate) struct Row {
    case: Case,
    /// Packets lost by the network.
    pub(crate) lost: u64,
    delivered: u64,
    first: u64,
    next: u64,
    bad: u64,
    out_of_order: u64,
    /// Packets given up, or resets.
    gone: u64,
    /// Not known where neither end is ours.
    repairs: Option<u64>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { from, to, carrier, loss, bytes, count, v6, late, .. } = self.case;
        let family = if v6 { "IPv6" } else { "IPv4" };
        let repairs = self.repairs.map_or_else(|| "-".to_owned(), |repairs| repairs.to_string());
        let late = if late.is_some() { "late join, first message " } else { "first message " };
        write!(
            f,
            "{from:<9} to {to:<9} {carrier:<7} {family} loss {loss:>2} %, {bytes:>4} B: {:>6} of {count:>6} in order, {:>5} packets \
             dropped, {repairs:>5} repaired, {} given up or reset, {} bad; {late}{}",
            self.delivered,
            self.lost,
            self.gone,
            self.bad + self.out_of_order,
            self.first
        )
    }
}

/// Runs all cases, also when one is wrong; panics at the end then.
pub(crate) fn run_all(cases: impl IntoIterator<Item = Case>) {
    let wrong = |case: &Case| std::panic::catch_unwind(|| case.run()).is_err();
    let wrong: Vec<Case> = cases.into_iter().filter(wrong).collect();
    assert!(wrong.is_empty(), "{} cases went wrong: {wrong:?}", wrong.len());
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// As [`can_run`], with IPv6.
pub(crate) fn can_run_over_ipv6(test: &str, programs: &[Program]) -> bool {
    if let Some(reason) = obstacle6() {
        eprintln!("SKIPPED {test}: {reason}");
        return false;
    }
    can_run(test, programs)
}

/// Whether all this is here; otherwise the test names itself as skipped.
pub(crate) fn can_run(test: &str, programs: &[Program]) -> bool {
    let missing = obstacle().or_else(|| programs.iter().find_map(|program| program.built().err()));
    if let Some(reason) = &missing {
        eprintln!("SKIPPED {test}: {reason}");
    }
    missing.is_none()
}
