//! `cargo xtask ci`: all that a change has to pass.

use crate::{arrows, bpf, commits, package, process, tests, tools, words};
use anyhow::{Context as _, Result, anyhow};
use std::thread;
use std::time::Instant;

pub(crate) fn run() -> Result<()> {
    let cargo = process::cargo();
    let steps: [(&str, &dyn Fn() -> Result<()>); 10] = [
        ("format", &|| process::run(&cargo, &["fmt", "--all", "--check"])),
        ("arrows", &arrows::run),
        ("words", &words::run),
        ("BPF object", &|| bpf::run(&bpf::Arguments { check: true })),
        ("commits", &commits::run),
        ("licences and bans", &tools::deny),
        ("lints", &|| {
            process::run(
                &cargo,
                &["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"],
            )
        }),
        ("tests", &|| tests::run(&tests::Arguments::default()).map(|_| ())),
        ("tests in a guest, and builds", &beside_guests),
        ("package", &|| package::run(&package::Arguments::quick())),
    ];
    steps.into_iter().try_for_each(|(name, step)| timed(name, step))
}

fn timed(name: &str, step: &dyn Fn() -> Result<()>) -> Result<()> {
    let began = Instant::now();
    println!("== {name}");
    step().with_context(|| format!("{name} failed"))?;
    println!("== {name}: done in {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Guests mostly keep one CPU busy, so what only compiles goes on beside them.
fn beside_guests() -> Result<()> {
    thread::scope(|scope| {
        let builds = scope.spawn(|| {
            timed("fuzz targets compile", &tools::check_fuzz)?;
            timed("documentation", &documentation)
        });
        let guests = timed("tests in a guest", &|| tests::run(&tests::Arguments::in_a_guest()).map(|_| ()));
        let builds = builds.join().map_err(|_| anyhow!("a build step panicked"))?;
        match (builds, guests) {
            (Err(one), Err(other)) => Err(anyhow!("{one:#}; {other:#}")),
            (one, other) => one.and(other),
        }
    })
}

fn documentation() -> Result<()> {
    let arguments = ["doc", "--workspace", "--no-deps", "--locked", "--quiet"];
    process::finish(process::command(&process::cargo(), &arguments).env("RUSTDOCFLAGS", "-D warnings"))
}
