//! `cargo xtask demo`: from a clean clone to the white papers' table.

use crate::{files, packages, process};
use anyhow::{Context as _, Result, bail};
use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

struct Demo {
    plan: &'static str,
    /// What it starts besides Windhover.
    packages: &'static [&'static str],
    /// What it does to this machine.
    about: &'static str,
    needs_root: bool,
}

/// `ip` makes the lab, the compiler is part of the load.
const PAPERS: Demo = Demo {
    plan: "campaigns/white-paper.toml",
    packages: &["iproute2", "gcc", "libc6-dev"],
    about: "This demo changes this machine only while it runs: it makes two network namespaces joined by a veth pair,\n\
            runs workers at real-time priority on CPU 1 with a compile load beside them for a few minutes, shields CPU 1\n\
            in a part of that time (all other processes and interrupts leave it; real-time tasks may use all of it), and\n\
            puts all of that back at the end.",
    needs_root: true,
};

/// Guests: nothing of it touches the machine.
const KERNELS: Demo = Demo {
    plan: "campaigns/kernels.toml",
    packages: &["qemu-system-x86", "seabios"],
    about: "This demo boots Debian's kernels in virtual machines that count instructions, and changes nothing of this machine.\n\
            Kernels that are not in ~/.cache/windhover yet are fetched once, 70 to 110 MB each. The times are simulated.",
    needs_root: false,
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    /// The papers' table of operating systems instead: kernels in guests, in simulated time; needs no root.
    #[arg(long)]
    kernels: bool,
    /// The plan to run [default: campaigns/white-paper.toml, with --kernels campaigns/kernels.toml].
    #[arg(long)]
    plan: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let demo = if arguments.kernels { KERNELS } else { PAPERS };
    println!(
        "{} It writes a run directory under runs/. Missing Debian packages are named first and then installed: {}.",
        demo.about,
        demo.packages.join(", ")
    );
    if !consent(arguments.yes)? {
        bail!("not started; nothing was changed");
    }
    if demo.needs_root && !process::is_root() {
        bail!("network namespaces and real-time priority need root: run as root, or try 'windhover pingpong --help'");
    }
    packages::ensure(demo.packages, "for the demo")?;
    let binary = process::release_binary()?;
    let binary = binary.to_string_lossy().into_owned();
    let runs = process::root().join("runs");
    files::create(&runs)?;
    let began = Instant::now();
    let folder = runs.to_string_lossy().into_owned();
    process::run(&binary, &["campaign", "run", arguments.plan.as_deref().unwrap_or(demo.plan), "--output", &folder])?;
    println!("measured in {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Asks once when a person is at the terminal; `--yes` and `CI=true` answer.
fn consent(yes: bool) -> Result<bool> {
    if yes || std::env::var("CI").is_ok_and(|value| value == "true") {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        bail!("no terminal to ask, nothing was changed: add --yes");
    }
    print!("Go on? [Y/n] ");
    std::io::stdout().flush().context("terminal")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("terminal")?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "" | "y" | "yes"))
}
