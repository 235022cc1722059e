//! What disturbed a program that has ended, in words.

use host::ended;
use host::knob::Machine;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;
use task::ChildrenUsage;

/// Waiting that no other real-time task explains by itself: a hole of RT throttling or of the fair server is 50 ms.
const HOLE: Duration = Duration::from_millis(25);

#[derive(Debug)]
pub(super) struct Ended {
    pid: u32,
    lived: Duration,
    kernel: ended::Ended,
}

impl Ended {
    /// Reads what is left of it, before it is waited for.
    pub(super) fn read(pid: u32, before_exec: &ended::Ended, lived: Duration) -> Self {
        Self { pid, lived, kernel: ended::Ended::of(&Machine::running(), pid).since(before_exec) }
    }

    pub(super) fn text(&self, command: &[OsString], status: ExitStatus, usage: ChildrenUsage) -> String {
        let name = command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let number = |number: Option<u64>| number.map_or_else(|| "not known".to_owned(), |number| number.to_string());
        let ChildrenUsage { voluntary, involuntary, minor_faults, major_faults, .. } = usage;
        let [lived, user, system] = [self.lived, usage.user, usage.system].map(|time| time.as_secs_f64());
        let (pid, end, migrations) = (self.pid, end(status), number(self.kernel.migrations));
        let mut text = format!(
            "{name} (process {pid}) {end} after {lived:.3} s\n\
             \x20 CPU time          {user:.3} s user, {system:.3} s system\n\
             \x20 context switches  {voluntary} by waiting, {involuntary} by being put off the CPU\n\
             \x20 page faults       {minor_faults} without I/O, {major_faults} with I/O\n\
             \x20 migrations        {migrations} (first thread)\n"
        );
        let waited = match (self.kernel.waited, self.kernel.turns) {
            (Some(waited), Some(turns)) => {
                format!("{} ms ready but without a CPU, in {turns} turns (first thread)", ms(waited))
            }
            _ => "not known: this kernel has no /proc/PID/schedstat".to_owned(),
        };
        text.push_str(&format!("  run-queue wait    {waited}\n"));
        text.push_str(&format!("  throttling        {}", self.throttling(status)));
        text
    }

    fn throttling(&self, status: ExitStatus) -> String {
        const SIGXCPU: i32 = 24;
        if status.signal() == Some(SIGXCPU) {
            return "ended by its CPU-time limit (SIGXCPU): it never slept; see --rt-limit".to_owned();
        }
        match self.kernel.waited {
            None => "not known".to_owned(),
            Some(waited) if self.kernel.real_time && waited >= HOLE => format!(
                "likely: a real-time task waited {} ms for its CPU; RT throttling (sched_rt_runtime_us) or the fair server take \
                 50 ms a second from one that never sleeps, unless a task of higher priority held the CPU",
                ms(waited)
            ),
            Some(_) if self.kernel.real_time => "none seen".to_owned(),
            Some(_) => "none: not a real-time task".to_owned(),
        }
    }
}

fn ms(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e3)
}

fn end(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(real_time: bool, waited_ms: u64, status: i32) -> String {
        let kernel = ended::Ended {
            real_time,
            waited: Some(Duration::from_millis(waited_ms)),
            turns: Some(3),
            migrations: Some(1),
        };
        let ended = Ended { pid: 7, lived: Duration::from_secs(2), kernel };
        ended.text(&["spin".into()], ExitStatus::from_raw(status), ChildrenUsage::default())
    }

    #[test]
    fn throttling_is_named_only_where_it_can_be() {
        assert!(text(true, 100, 0).contains("likely: a real-time task waited 100.000 ms"));
        assert!(text(true, 1, 0).contains("none seen"));
        assert!(text(false, 100, 0).contains("not a real-time task"));
        assert!(text(true, 1, 24).contains("--rt-limit"));
        assert!(text(true, 1, 3 << 8).contains("ended with 3"));
    }
}
