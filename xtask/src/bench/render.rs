//! How long a report of one hour at 40,000 messages a second takes, and how large it is.

use crate::{process, stats};
use anyhow::{Context as _, Result, ensure};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Makes the run, unless one is named, and renders it several times.
pub(crate) fn run(seconds: u32, rounds: u32, cells: u32, measured: Option<&Path>, output: Option<&Path>) -> Result<()> {
    let binary = process::release_binary()?;
    let folder = process::target().join("bench-render");
    let run = match measured {
        Some(run) => run.to_owned(),
        None => synthetic(&folder, seconds, cells)?,
    };
    let log: u64 = std::fs::read_dir(run.join("cells"))
        .with_context(|| run.display().to_string())?
        .filter_map(|entry| entry.ok())
        .filter(|entry| entry.path().extension().is_some_and(|ending| ending == "hlog"))
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.len())
        .sum();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{cells} cell(s) of {seconds} s at 40,000 messages a second, 3 tags, 100 ms intervals: {:.1} MB of interval logs; \
         {rounds} rounds after one that fills the file cache.\n",
        log as f64 / 1e6
    );
    let _ = writeln!(text, "| what | median s | worst s | size MB |\n|---|---|---|---|");
    let html = folder.join("report.html");
    let png = folder.join("plots");
    std::fs::create_dir_all(&png).with_context(|| png.display().to_string())?;
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let cases: [(&str, Vec<String>, &Path); 3] = [
        ("report (HTML)", vec!["report".into(), path(&run), "--force".into(), "--output".into(), path(&html)], &html),
        (
            "plot heat (PNG)",
            ["plot", &path(&run), "--figure", "heat", "--output", &path(&png)].map(str::to_owned).to_vec(),
            &png,
        ),
        (
            "plot all (SVG)",
            ["plot", &path(&run), "--format", "svg", "--output", &path(&png)].map(str::to_owned).to_vec(),
            &png,
        ),
    ];
    for (what, arguments, made) in cases {
        let mut times = Vec::new();
        for round in 0..=rounds {
            let begin = Instant::now();
            let status = Command::new(&binary).args(&arguments).stderr(Stdio::null()).status().context(what)?;
            ensure!(status.success(), "{what}: {status}");
            if round > 0 {
                times.push(begin.elapsed().as_secs_f64());
            }
        }
        let worst = times.iter().copied().fold(0.0, f64::max);
        let size = if made.is_dir() {
            "–".to_owned()
        } else {
            format!("{:.2}", made.metadata().with_context(|| made.display().to_string())?.len() as f64 / 1e6)
        };
        let _ = writeln!(text, "| {what} | {:.2} | {worst:.2} | {size} |", stats::median(&times));
    }
    println!("{text}");
    if let Some(file) = output {
        std::fs::write(file, &text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn synthetic(folder: &Path, seconds: u32, cells: u32) -> Result<PathBuf> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let (at, long) = (folder.to_string_lossy().into_owned(), seconds.to_string());
    let policies = ["other", "fifo:50", "rr:50", "batch", "fifo:1", "rr:1", "fifo:10", "fifo:80"];
    let count = usize::try_from(cells)?.clamp(1, policies.len());
    let mut arguments = vec![
        "run",
        "--release",
        "--locked",
        "--package",
        "windhover-report",
        "--example",
        "hour_run",
        "--",
        &at,
        &long,
    ];
    arguments.extend(policies.get(..count).unwrap_or_default());
    process::run(&process::cargo(), &arguments)?;
    let named = folder.join("run-directory");
    let run = std::fs::read_to_string(&named).with_context(|| named.display().to_string())?;
    Ok(PathBuf::from(run))
}
