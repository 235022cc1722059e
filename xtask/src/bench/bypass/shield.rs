//! The latencies behind a shield.

use super::super::lab::Lab;
use super::Bench;
use anyhow::{Context as _, Result, ensure};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A shield that is up as long as the value, and not longer than this process.
struct Shield(Child);

impl Shield {
    fn up(windhover: &Path, cpus: &str) -> Result<Self> {
        let mut command = Command::new(windhover);
        // What runs behind it ends with its input: however this process ends, the shield is put back.
        command.args(["--quiet", "shield", "exec", "--all", cpus, "--", "cat"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("windhover shield exec")?;
        let sent = child.stdin.as_mut().map(|input| input.write_all(b"."));
        let mut answer = Vec::new();
        let answered = child.stdout.as_mut().map(|output| output.take(1).read_to_end(&mut answer));
        let shield = Self(child);
        ensure!(
            matches!((sent, answered), (Some(Ok(())), Some(Ok(1)))),
            "no shield over CPU {cpus}: windhover shield exec says why, above"
        );
        Ok(shield)
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// CPUs of the two ends, and those of them that are shielded: both where a CPU is left for everything else.
fn places(cpus: u32) -> ([u32; 2], Vec<u32>) {
    match cpus {
        0..3 => ([0, 1], vec![1]),
        more => ([more - 2, more - 1], vec![more - 2, more - 1]),
    }
}

pub(super) fn latency(bench: &Bench<'_>, lab: &mut Lab, windhover: &Path) -> Result<String> {
    let count = std::thread::available_parallelism().context("CPUs")?.get();
    ensure!(count > 1, "a shield needs 2 CPUs");
    let (cpus, shielded) = places(u32::try_from(count).context("CPUs")?);
    let list = shielded.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let shield = Shield::up(windhover, &list)?;
    lab.move_to(cpus, &shielded);
    let measured = super::latency(bench, lab);
    lab.move_to([0, 1], &[]);
    drop(shield);
    let [a, b] = cpus;
    let how = if shielded.len() == 2 {
        format!("Both ends are behind a shield, on CPUs {a} and {b}.")
    } else {
        format!(
            "Only host b, on CPU {b}, is behind a shield. The machine has 2 CPUs, and CPU {a} with host a carries everything else: \
             half of what disturbs is still there."
        )
    };
    Ok(format!("\n{how}\n{}", measured?))
}

#[cfg(test)]
mod unit {
    #[test]
    fn a_cpu_is_left_for_everything_else() {
        assert_eq!(super::places(2), ([0, 1], vec![1]));
        assert_eq!(super::places(3), ([1, 2], vec![1, 2]));
        assert_eq!(super::places(8), ([6, 7], vec![6, 7]));
    }
}
