//! The flags of factors, as data: the command line is made of them.

use crate::Probe;

/// What a flag gives to its factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    /// The value, of both ends where there are two.
    Value,
    /// The value in thousandths: ms where the factor has seconds.
    Thousandths,
    /// The value behind this beginning: `fifo:`.
    After(&'static str),
    /// This value: the flag takes none.
    Word(&'static str),
    /// The value of this end. The far end's, unless that is given too, is the word; empty: the same.
    Local(&'static str),
    /// The value of the far end.
    Remote,
}

/// A flag of one or several measuring commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "a field without a line is what its name says")]
pub struct Flag {
    /// Its name without the dashes.
    pub long: &'static str,
    /// One letter, and further ones that are not shown.
    pub short: &'static [char],
    /// The commands that have it.
    pub on: &'static [Probe],
    /// The name of the value in help; empty for a flag that takes none.
    pub value_name: &'static str,
    pub help: &'static str,
    pub default: Option<&'static str>,
    pub gives: Gives,
    /// Other names, of peers' commands.
    pub aliases: &'static [&'static str],
    /// The heading in help, one of [`HEADINGS`].
    pub heading: &'static str,
    /// Flags that it cannot be given with.
    pub conflicts: &'static [&'static str],
    /// A flag that it needs.
    pub requires: Option<&'static str>,
    pub is_hidden: bool,
    /// The commands where it is one of the few of every day, which `-h` shows; `--help` shows all.
    pub daily_on: &'static [Probe],
}

/// First, without a heading.
pub(super) const TOP: &str = "";
pub(super) const MESSAGES: &str = "Messages";
pub(super) const DATA: &str = "Data";
pub(super) const SCHEDULE: &str = "Schedule";
pub(super) const STOP: &str = "Warm-up and stop rule (for each size)";
pub(super) const ENDS: &str = "Ends";
pub(super) const SOCKET: &str = "Socket options";
pub(super) const IDLE: &str = "Idle descriptors (pad the set of select, poll and epoll)";
pub(super) const OUTPUT: &str = "Output";

/// The headings of flags in the order of help; flags without one come first.
pub const HEADINGS: [&str; 9] = [TOP, MESSAGES, DATA, SCHEDULE, STOP, ENDS, SOCKET, IDLE, OUTPUT];

impl Flag {
    /// One that takes the value of its factor, unless others of these functions say otherwise.
    pub(super) const fn new(
        long: &'static str,
        on: &'static [Probe],
        heading: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            long,
            short: &[],
            on,
            value_name: "",
            help,
            default: None,
            gives: Gives::Value,
            aliases: &[],
            heading,
            conflicts: &[],
            requires: None,
            is_hidden: false,
            daily_on: &[],
        }
    }

    setters! {
        value(value_name: &'static str),
        gives(gives: Gives),
        short(short: &'static [char]),
        aliases(aliases: &'static [&'static str]),
        conflicts(conflicts: &'static [&'static str]),
        daily_on(daily_on: &'static [Probe])
    }

    pub(super) const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    pub(super) const fn requires(mut self, requires: &'static str) -> Self {
        self.requires = Some(requires);
        self
    }

    pub(super) const fn hidden(mut self) -> Self {
        self.is_hidden = true;
        self
    }

    /// In `-h` of every command that has it.
    pub(super) const fn daily(self) -> Self {
        let on = self.on;
        self.daily_on(on)
    }
}
