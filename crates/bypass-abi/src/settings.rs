//! The settings of the preload library: one table, from which profiles, variables, documentation and the library itself
//! follow.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// The variable that hands the effective settings to the library. Those that people set begin with it and `_`.
pub const VARIABLE: &str = "WINDHOVER_BYPASS";

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its name in profiles: `recv-us`.
    pub name: &'static str,
    /// Unit for people; empty for a plain number.
    pub unit: &'static str,
    /// Value of a library that was started without settings.
    pub default: u64,
    /// Largest value.
    pub max: u64,
    /// What it does: one sentence.
    pub what: &'static str,
}

impl Setting {
    /// The variable that overrides it: `WINDHOVER_BYPASS_RECV_US`.
    pub fn variable(&self) -> String {
        format!("{VARIABLE}_{}", self.name.to_uppercase().replace('-', "_"))
    }
}

/// One value for each [`Key`].
pub type Values = [u64; SETTINGS.len()];

macro_rules! settings {
    ($($key:ident $name:literal $unit:literal $default:literal to $max:literal $what:literal;)*) => {
        /// A setting, as an index into [`SETTINGS`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Key {
            $(#[doc = $what] $key,)*
        }

        /// All settings.
        pub const SETTINGS: [Setting; [$(Key::$key),*].len()] =
            [$(Setting { name: $name, unit: $unit, default: $default, max: $max, what: $what }),*];
    };
}

settings! {
    Recv "recv-us" "µs" 100_000 to 10_000_000
        "How long recv, recvfrom, recvmsg, recvmmsg, read and readv spin on a blocking socket before they sleep; 0: never";
    Accept "accept-us" "µs" 100_000 to 10_000_000
        "How long accept and accept4 spin on a blocking socket before they sleep; 0: never";
    Connect "connect-us" "µs" 100_000 to 10_000_000
        "How long connect spins on a blocking TCP socket before it sleeps; 0: never";
    Poll "poll-us" "µs" 100_000 to 10_000_000
        "How long poll, ppoll, select and pselect spin when a socket is among their descriptors; 0: never";
    Epoll "epoll-us" "µs" 100_000 to 10_000_000
        "How long epoll_wait, epoll_pwait and epoll_pwait2 spin when a socket is in the set; 0: never";
    Yield "yield-us" "µs" 50 to 10_000_000
        "After so long a spin the thread offers its CPU to others between attempts (sched_yield); 0: never";
    Contention "contention-us" "µs" 10_000 to 10_000_000
        "After another thread had the CPU of a spinning one, the calls of that one sleep at once for so long, and up to 64 times \
         longer while this goes on; 0: they always spin";
    Spinners "max-spinners" "threads" 0 to 4096
        "How many threads of a process may spin at once, the others sleep; 0: one for each CPU that it may run on";
    BusyPoll "busy-poll-us" "µs" 50 to 10_000
        "SO_BUSY_POLL of sockets whose packets come through a NAPI instance (more than net.core.busy_read needs CAP_NET_ADMIN); \
         0: left as it is";
    Xdp "xdp" "" 1 to 1
        "0: also with --stack xdp or auto sockets stay the kernel's, and spin";
    RtoMin "rto-min-us" "µs" 5_000 to 10_000_000
        "With --stack xdp: TCP sends again after the round-trip time and at least this without acknowledgment (the kernel: 200 ms); \
         a connection whose other end proves to be slower waits up to 50 ms longer";
}

/// What the library gets at the start of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start<'a> {
    /// Values by [`Key`].
    pub values: Values,
    /// Whether a socket that cannot be accelerated ends the process.
    pub require: bool,
    /// Whether the library reports on standard error what it could not do.
    pub verbose: bool,
    /// Whether sockets may come to a stack in the program's process.
    pub stack: bool,
    /// The network interface of that stack; empty: the only one that is up, or that of the default route.
    pub interface: &'a [u8],
    /// Its back-end as a number from 1 on, in `xsk`'s order; 0: the interface decides.
    pub backend: u32,
    /// The capture that gets the frames from the first one on, as [`crate::page::AT_CAPTURE`]; 0: none.
    pub capture: u64,
    /// Folder of the status pages; empty: no page.
    pub folder: &'a [u8],
}

impl Default for Start<'_> {
    fn default() -> Self {
        Self {
            values: SETTINGS.map(|setting| setting.default),
            require: false,
            verbose: false,
            stack: false,
            interface: b"",
            backend: 0,
            capture: 0,
            folder: b"",
        }
    }
}

impl<'a> Start<'a> {
    /// Reads [`VARIABLE`]. Words that are not understood are left out: a program does not fail because of them.
    pub fn parse(text: &'a [u8]) -> Self {
        let mut start = Self::default();
        let mut rest = text;
        loop {
            if let Some(folder) = rest.strip_prefix(b"folder=") {
                start.folder = folder;
                return start;
            }
            let (word, more) = split(rest, b' ').unwrap_or((rest, b""));
            if let Some((name, value)) = split(word, b'=') {
                if name == b"interface" {
                    start.interface = value;
                }
                start.set(name, value);
            }
            if more.is_empty() {
                return start;
            }
            rest = more;
        }
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        let Some(value) = number(value) else { return };
        if name == b"require" {
            self.require = value != 0;
        }
        if name == b"verbose" {
            self.verbose = value != 0;
        }
        if name == b"stack" {
            self.stack = value != 0;
        }
        if name == b"backend" {
            self.backend = u32::try_from(value).unwrap_or(0);
        }
        if name == b"capture" {
            self.capture = value;
        }
        for (known, slot) in SETTINGS.iter().zip(&mut self.values) {
            if known.name.as_bytes() == name {
                *slot = value.min(known.max);
            }
        }
    }

    /// What [`Start::parse`] reads.
    pub fn to_variable(&self) -> OsString {
        let mut text = format!("require={} verbose={} ", u8::from(self.require), u8::from(self.verbose));
        for (setting, value) in SETTINGS.iter().zip(self.values) {
            text.push_str(&format!("{}={value} ", setting.name));
        }
        let Self { backend, capture, .. } = self;
        text.push_str(&format!("stack={} backend={backend} capture={capture} interface=", u8::from(self.stack)));
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(self.interface);
        // The last word, because a path may hold blanks.
        bytes.extend_from_slice(b" folder=");
        bytes.extend_from_slice(self.folder);
        OsString::from_vec(bytes)
    }

    /// The same with another folder.
    #[must_use]
    pub fn with_folder(self, folder: &'a OsStr) -> Self {
        Self { folder: folder.as_bytes(), ..self }
    }
}

/// The parts before and after the first `mark`.
fn split(text: &[u8], mark: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == mark)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_is_read_back() {
        let mut values = Start::default().values;
        values[Key::Poll as usize] = 7;
        let start = Start {
            values,
            require: true,
            verbose: true,
            stack: true,
            interface: b"eth0",
            backend: 3,
            capture: u64::MAX - 1,
            folder: b"/run/a place with recv-us=3 ",
        };
        let text = start.to_variable();
        assert_eq!(Start::parse(text.as_bytes()), start);
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        assert_eq!(Start::parse(b""), Start::default());
        let odd =
            Start::parse(b"recv-us=12 nonsense recv-us= poll-us=-1 epoll-us=99999999999999999999 accept-us=x  =3");
        assert_eq!(odd.values[Key::Recv as usize], 12);
        let others = |values: Values| values.into_iter().skip(1).collect::<Vec<_>>();
        assert_eq!(others(odd.values), others(Start::default().values));
        let most = Start::parse(b"recv-us=18446744073709551615");
        assert_eq!(most.values[Key::Recv as usize], SETTINGS[Key::Recv as usize].max);
    }

    #[test]
    fn names_are_unique_and_have_variables() {
        for (at, setting) in SETTINGS.iter().enumerate() {
            assert!(SETTINGS.iter().skip(at + 1).all(|other| other.name != setting.name), "{}", setting.name);
            assert!(setting.default <= setting.max, "{}", setting.name);
        }
        assert_eq!(SETTINGS[Key::BusyPoll as usize].variable(), "WINDHOVER_BYPASS_BUSY_POLL_US");
    }
}
