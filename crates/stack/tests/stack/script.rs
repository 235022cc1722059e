//! Scripts: one stack, and another end that is played line by line.
//!
//! | line | meaning |
//! |---|---|
//! | `< SA 0 ack 1 win 1000 mss 1460` | this segment arrives; `1:101` has 100 bytes |
//! | `> PA 1:101 ack 1` | the stack has sent this segment; only what the line names is compared, PSH where it is named |
//! | `none` | it has sent nothing |
//! | `+200ms` | time passes (us, ms, s) |
//! | `connect`, `listen`, `accept`, `send 100 [more]`, `recv 100`, `recv end`, `recv none`, `recv ConnectionReset`, `shutdown`, `shutdown read`, `close`, `abort`, `urgent` | calls |
//! | `state Established`, `info unsent 0`, `ready hang_up`, `not readable`, `error TimedOut`, `gone` | what has to be |
//! | `icmp TYPE CODE REST` | an ICMP message about the last frame that was sent |
//!
//! Numbers are relative: 0 is the SYN of the end that sends. Options of a line: `mss N`, `ws N`, `sackok`, `ts VALUE ECHO`,
//! `sack FROM-TO…`, `urg N`; in `>` lines `ts` is compared by its echo alone, and `no OPTION` means that it is not there.

use crate::wire::{ACK, Ends, FIN, PSH, RST, SYN, Tcp, URG, icmp, option, read_tcp, tcp, value};
use crate::world::{MS, SECOND, config, socket};
use stack::{Error, Hop, Instant, Listener, Shutdown, Stack, TcpOptions, TcpSocket};
use std::collections::VecDeque;

const PEER_INITIAL: u32 = 0xffff_fff0;

pub(crate) struct Script {
    pub(crate) stack: Stack,
    pub(crate) now: Instant,
    pub(crate) options: TcpOptions,
    pub(crate) ends: Ends,
    pub(crate) socket: Option<TcpSocket>,
    pub(crate) listener: Option<Listener>,
    initial: Option<u32>,
    sent: VecDeque<Vec<u8>>,
    last: Vec<u8>,
    timestamp: u32,
    /// Bytes that the application gave and took.
    given: u32,
    taken: u32,
}

/// Plays a script with the stack at the address and port of the calls in it.
pub(crate) fn play(options: TcpOptions, text: &str) -> Script {
    let mut script = Script::new(options, false);
    script.run(text);
    script
}

/// A byte of the stream at a relative number.
fn byte(number: u32) -> u8 {
    (number.wrapping_mul(31) >> 2).to_le_bytes()[0]
}

fn bytes(from: u32, count: u32) -> Vec<u8> {
    (from..from + count).map(byte).collect()
}

impl Script {
    pub(crate) fn new(options: TcpOptions, v6: bool) -> Self {
        let mut stack = Stack::new(config(0));
        let ends =
            Ends { macs: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]], from: socket(0, v6, 80), to: socket(1, v6, 7000) };
        stack.set_hop(ends.to.ip(), Hop { mac: ends.macs[1], mtu: 1500, source: ends.from.ip() });
        Self {
            stack,
            now: Instant(1000 * SECOND),
            options,
            ends,
            socket: None,
            listener: None,
            initial: None,
            sent: VecDeque::new(),
            last: Vec::new(),
            timestamp: 0,
            given: 0,
            taken: 0,
        }
    }

    pub(crate) fn run(&mut self, text: &str) {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            self.line(line, &words);
            self.pump();
        }
        assert!(self.sent.is_empty(), "sent beyond the script: {:?}", self.read_all());
    }

    fn read_all(&self) -> Vec<Tcp> {
        self.sent.iter().map(|frame| self.relative(&read_tcp(&self.ends, frame))).collect()
    }

    fn pump(&mut self) {
        let mut frame = [0; 2000];
        while let Some(length) = self.stack.poll_transmit(self.now, &mut frame) {
            self.last = frame[..length].to_vec();
            self.sent.push_back(frame[..length].to_vec());
        }
    }

    fn line(&mut self, line: &str, words: &[&str]) {
        let number = |at: usize| words.get(at).map_or(0, |word| word.parse().unwrap());
        match words[0] {
            "<" => self.arrives(words),
            ">" => self.expect(line, words),
            "none" => assert!(self.sent.is_empty(), "{line}: sent {:?}", self.read_all()),
            time if time.starts_with('+') => self.pass(time),
            "connect" => {
                let socket = self.stack.tcp_connect(self.now, self.ends.from, self.ends.to, self.options);
                self.socket = Some(socket.unwrap());
            }
            "listen" => {
                let backlog = if words.len() > 1 { number(1) } else { 8 };
                self.listener = Some(self.stack.tcp_listen(self.ends.from, false, backlog, self.options).unwrap());
            }
            "accept" => self.socket = Some(self.stack.tcp_accept(self.listener.unwrap()).unwrap()),
            "icmp" => {
                let rest = number(3);
                let (kind, code) = (u8::try_from(number(1)).unwrap(), u8::try_from(number(2)).unwrap());
                let message = icmp(&self.ends.reversed(), kind, code, u32::try_from(rest).unwrap(), &self.last);
                let _ = self.stack.handle_frame(self.now, &message);
            }
            _ => self.call(line, words),
        }
    }

    fn call(&mut self, line: &str, words: &[&str]) {
        let (socket, now) = (self.socket.unwrap(), self.now);
        let stack = &mut self.stack;
        match words {
            ["send", count, rest @ ..] => {
                let count: u32 = count.parse().unwrap();
                let got = stack.tcp_send(socket, &bytes(self.given + 1, count), rest == ["more"]);
                assert_eq!(got, Ok(count as usize), "{line}");
                self.given += count;
            }
            ["recv", "end"] => assert_eq!(stack.tcp_receive(socket, &mut [0; 1]), Ok(0), "{line}"),
            ["recv", "none"] => {
                assert_eq!(stack.tcp_receive(socket, &mut [0; 1]), Err(Error::WouldBlock), "{line}");
            }
            ["recv", what] => match what.parse::<usize>() {
                Ok(count) => {
                    let mut buffer = vec![0; count];
                    assert_eq!(stack.tcp_receive(socket, &mut buffer), Ok(count), "{line}");
                    let count = u32::try_from(count).unwrap();
                    assert_eq!(buffer, bytes(self.taken + 1, count), "{line}");
                    self.taken += count;
                }
                Err(_) => {
                    let error = stack.tcp_receive(socket, &mut [0; 1]).unwrap_err();
                    assert_eq!(format!("{error:?}"), *what, "{line}");
                }
            },
            ["shutdown"] => stack.tcp_shutdown(socket, Shutdown::Write).unwrap(),
            ["shutdown", "read"] => stack.tcp_shutdown(socket, Shutdown::Read).unwrap(),
            ["close"] => stack.tcp_close(now, socket).unwrap(),
            ["abort"] => stack.tcp_abort(socket).unwrap(),
            ["urgent"] => stack.tcp_mark_urgent(socket).unwrap(),
            ["state", state] => {
                // Also of one that the application has closed.
                let info = stack.tcp_connections().next().map(|(_, _, info)| format!("{:?}", info.state));
                assert_eq!(info.as_deref(), Some(*state), "{line}");
            }
            ["gone"] => assert_eq!(stack.tcp_connections().count(), 0, "{line}"),
            ["error", name] => {
                let error = stack.tcp_take_error(socket).unwrap().map(|error| format!("{error:?}"));
                assert_eq!(error.as_deref(), Some(*name), "{line}");
            }
            ["ready" | "not", name] => {
                let readiness = stack.tcp_readiness(socket).unwrap();
                let found = format!("{readiness:?}").contains(&format!("{name}: true"));
                assert_eq!(found, words[0] == "ready", "{line}: {readiness:?}");
            }
            ["info", name, value] => {
                let info = format!("{:?},", stack.tcp_info(socket).unwrap()).replace(" }", ",");
                assert!(info.contains(&format!("{name}: {value},")), "{line}: {info}");
            }
            _ => panic!("no such line: {line}"),
        }
    }

    /// Time passes, timer by timer.
    fn pass(&mut self, time: &str) {
        let digits = time.trim_start_matches('+').trim_end_matches(char::is_alphabetic);
        let unit = match time.trim_start_matches(|letter: char| !letter.is_alphabetic()) {
            "us" => 1000,
            "ms" => MS,
            "s" => SECOND,
            other => panic!("no unit: {other}"),
        };
        let until = self.now.after(digits.parse::<u64>().unwrap() * unit);
        while let Some(next) = self.stack.poll_timeout().filter(|next| *next < until) {
            self.now = self.now.max(next);
            self.stack.handle_timeout(self.now);
            self.pump();
        }
        self.now = until;
        self.stack.handle_timeout(self.now);
    }

    /// The segment of a line, with absolute numbers.
    fn segment(&self, words: &[&str]) -> Tcp {
        let own = self.initial.unwrap_or(0);
        let mut segment = Tcp { flags: flags(words[1]), window: 65_535, ..Tcp::default() };
        let (start, end) = range(words[2]);
        segment.sequence = PEER_INITIAL.wrapping_add(start);
        segment.payload = bytes(start, end - start);
        let mut at = 3;
        let mut options = Vec::new();
        while at < words.len() {
            let number = |after: usize| words[at + after].parse::<u32>().unwrap();
            let used = match words[at] {
                "ack" => {
                    segment.acknowledgment = own.wrapping_add(number(1));
                    2
                }
                "win" => {
                    segment.window = u16::try_from(number(1)).unwrap();
                    2
                }
                "urg" => {
                    segment.urgent = u16::try_from(number(1)).unwrap();
                    2
                }
                "mss" => {
                    options.extend([2, 4]);
                    options.extend(u16::try_from(number(1)).unwrap().to_be_bytes());
                    2
                }
                "ws" => {
                    options.extend([1, 3, 3, u8::try_from(number(1)).unwrap()]);
                    2
                }
                "sackok" => {
                    options.extend([1, 1, 4, 2]);
                    1
                }
                "raw" => {
                    options.extend(words[at + 1].split(',').map(|byte| byte.parse::<u8>().unwrap()));
                    2
                }
                "ts" => {
                    options.extend([1, 1, 8, 10]);
                    options.extend(number(1).to_be_bytes());
                    // 0: an echo of the newest value that was sent.
                    let echo = if number(2) == 0 { self.timestamp } else { number(2) };
                    options.extend(echo.to_be_bytes());
                    3
                }
                "sack" => {
                    let blocks = words[at + 1].split(',').map(range);
                    let blocks: Vec<u8> = blocks
                        .flat_map(|(from, to)| {
                            [own.wrapping_add(from).to_be_bytes(), own.wrapping_add(to).to_be_bytes()]
                        })
                        .flatten()
                        .collect();
                    options.extend([1, 1, 5, u8::try_from(2 + blocks.len()).unwrap()]);
                    options.extend(blocks);
                    2
                }
                other => panic!("no such field: {other}"),
            };
            at += used;
        }
        segment.options = options;
        segment
    }

    /// The frame of a `<` line, for tests that hand it in themselves.
    pub(crate) fn frame(&self, line: &str) -> Vec<u8> {
        let words: Vec<&str> = line.split_whitespace().collect();
        tcp(&self.ends.reversed(), &self.segment(&words))
    }

    /// As [`Script::run`], but what is sent waits for the next lines.
    pub(crate) fn run_kept(&mut self, text: &str) {
        for line in text.lines().map(str::trim) {
            self.line(line, &line.split_whitespace().collect::<Vec<_>>());
            self.pump();
        }
    }

    /// As [`Script::run`], but what is sent does not count.
    pub(crate) fn run_lossy(&mut self, text: &str) {
        self.run_kept(text);
        self.sent.clear();
    }

    /// Plays a line and acknowledges everything that is sent, a round trip of 10 ms later; adds the bytes.
    pub(crate) fn run_open(&mut self, line: &str, bytes: &mut u32) {
        self.run_kept(line);
        while !self.sent.is_empty() {
            self.pass("+10ms");
            let burst = self.sent.len();
            for _ in 0..burst {
                self.settle(bytes);
            }
        }
    }

    /// Reads a segment that was sent and acknowledges it; adds the bytes.
    pub(crate) fn settle(&mut self, bytes: &mut u32) {
        let Some(frame) = self.sent.pop_front() else { return };
        let segment = self.relative(&read_tcp(&self.ends, &frame));
        let length = u32::try_from(read_tcp(&self.ends, &frame).payload.len()).unwrap();
        *bytes += length;
        let line = format!("< A 1 ack {}", segment.sequence + length);
        self.line(&line, &line.split_whitespace().collect::<Vec<_>>());
        self.pump();
    }

    fn arrives(&mut self, words: &[&str]) {
        let frame = tcp(&self.ends.reversed(), &self.segment(words));
        let _ = self.stack.handle_frame(self.now, &frame);
    }

    fn relative(&self, segment: &Tcp) -> Tcp {
        let mut segment = segment.clone();
        segment.sequence = segment.sequence.wrapping_sub(self.initial.unwrap_or(0));
        if segment.flags & ACK != 0 {
            segment.acknowledgment = segment.acknowledgment.wrapping_sub(PEER_INITIAL);
        }
        segment.payload.clear();
        segment
    }

    /// The next segment that was sent; it has to be as in the line.
    fn expect(&mut self, line: &str, words: &[&str]) {
        let frame = self.sent.pop_front().unwrap_or_else(|| panic!("{line}: nothing was sent"));
        let absolute = read_tcp(&self.ends, &frame);
        if absolute.flags & SYN != 0 {
            self.initial = Some(absolute.sequence);
        }
        if let Some(stamps) = option(&absolute.options, 8) {
            self.timestamp = value(&stamps[..4]);
        }
        let found = self.relative(&absolute);
        let wanted = flags(words[1]);
        let compared = if wanted & PSH == 0 { found.flags & !PSH } else { found.flags };
        assert_eq!(compared, wanted, "{line}: flags of {found:?}");
        let (start, end) = range(words[2]);
        if wanted & RST == 0 || wanted & ACK == 0 || self.initial.is_some() {
            let length = u32::try_from(absolute.payload.len()).unwrap();
            assert_eq!((found.sequence, found.sequence.wrapping_add(length)), (start, end), "{line}: {found:?}");
        }
        assert_eq!(absolute.payload, bytes(start, end.wrapping_sub(start)), "{line}: bytes");
        let mut at = 3;
        while at < words.len() {
            let number = |after: usize| words[at + after].parse::<u32>().unwrap();
            at += match words[at] {
                "ack" => {
                    assert_eq!(found.acknowledgment, number(1), "{line}: {found:?}");
                    2
                }
                "win" => {
                    assert_eq!(u32::from(found.window), number(1), "{line}: {found:?}");
                    2
                }
                "urg" => {
                    assert_eq!(u32::from(found.urgent), number(1), "{line}: {found:?}");
                    2
                }
                "mss" | "ws" => {
                    let kind = if words[at] == "mss" { 2 } else { 3 };
                    let body = option(&found.options, kind).unwrap_or_else(|| panic!("{line}: not there"));
                    assert_eq!(value(&body), number(1), "{line}: {found:?}");
                    2
                }
                "sackok" => {
                    assert!(option(&found.options, 4).is_some(), "{line}: {found:?}");
                    1
                }
                "ts" => {
                    let stamps = option(&found.options, 8).unwrap_or_else(|| panic!("{line}: no time stamps"));
                    assert_eq!(value(&stamps[4..]), number(1), "{line}: echo");
                    2
                }
                "sack" => {
                    let body = option(&found.options, 5).unwrap_or_else(|| panic!("{line}: no SACK"));
                    let blocks: Vec<String> = body
                        .chunks(8)
                        .map(|block| {
                            let end = |at: usize| value(&block[at..at + 4]).wrapping_sub(PEER_INITIAL);
                            format!("{}:{}", end(0), end(4))
                        })
                        .collect();
                    assert_eq!(blocks.join(","), words[at + 1], "{line}");
                    2
                }
                "no" => {
                    let kind = match words[at + 1] {
                        "mss" => 2,
                        "ws" => 3,
                        "sackok" => 4,
                        "sack" => 5,
                        "ts" => 8,
                        other => panic!("no option {other}"),
                    };
                    assert!(option(&found.options, kind).is_none(), "{line}: {found:?}");
                    2
                }
                other => panic!("no such field: {other}"),
            };
        }
    }
}

fn flags(letters: &str) -> u8 {
    letters.chars().fold(0, |all, letter| {
        all | match letter {
            'S' => SYN,
            'F' => FIN,
            'R' => RST,
            'P' => PSH,
            'A' => ACK,
            'U' => URG,
            '-' => 0,
            other => panic!("no flag {other}"),
        }
    })
}

/// `5` is 5 to 5, `5:10` is 5 to 10.
fn range(text: &str) -> (u32, u32) {
    let (start, end) = text.split_once(':').unwrap_or((text, text));
    (start.parse().unwrap(), end.parse().unwrap())
}
