//! How long a report of one hour at 40,000 messages a second takes, and how large it is.

use super::Output;
use crate::files::create;
use crate::process;
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Length of the synthetic run in seconds.
    #[arg(long, default_value_t = 3600)]
    seconds: u32,
    /// How often each figure is made.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Cells of the run, up to 8.
    #[arg(long, default_value_t = 1)]
    cells: u32,
    /// Render this run directory instead of a synthetic one.
    #[arg(long, value_name = "RUN")]
    measured: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { seconds, rounds, cells, measured, output } = arguments;
    let binary = process::release_binary()?;
    let folder = process::target().join("bench-render");
    let run = match measured {
        Some(run) => run.clone(),
        None => synthetic(&folder, *seconds, *cells)?,
    };
    let log: u64 = crate::files::listed(&run.join("cells"))?
        .into_iter()
        .filter(|file| crate::files::has_ending(file, "hlog"))
        .filter_map(|file| file.metadata().ok())
        .map(|metadata| metadata.len())
        .sum();
    let mut text = format!(
        "{cells} cell(s) of {seconds} s at 40,000 messages a second, 3 tags, 100 ms intervals: {:.1} MB of interval logs; \
         {rounds} rounds after one that fills the file cache.\n\n| what | median s | worst s | size MB |\n|---|---|---|---|\n",
        log as f64 / 1e6
    );
    let html = folder.join("report.html");
    let png = folder.join("plots");
    create(&png)?;
    let (run, into) = (run.to_string_lossy(), png.to_string_lossy());
    let page = html.to_string_lossy();
    let cases: [(&str, &[&str], &Path); 3] = [
        ("report (HTML)", &["report", &run, "--force", "--output", &page], &html),
        ("plot heat (PNG)", &["plot", &run, "--figure", "heat", "--output", &into], &png),
        ("plot all (SVG)", &["plot", &run, "--format", "svg", "--output", &into], &png),
    ];
    for (what, arguments, made) in cases {
        let mut times = Vec::new();
        for round in 0..=*rounds {
            let begin = Instant::now();
            process::finish(Command::new(&binary).args(arguments).stderr(Stdio::null())).context(what)?;
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
    output.publish(&text)
}

fn synthetic(folder: &Path, seconds: u32, cells: u32) -> Result<PathBuf> {
    crate::files::fresh(folder)?;
    let (at, long) = (folder.to_string_lossy().into_owned(), seconds.to_string());
    let policies = ["other", "fifo:50", "rr:50", "batch", "fifo:1", "rr:1", "fifo:10", "fifo:80"];
    let count = usize::try_from(cells)?.clamp(1, policies.len());
    let fixed = "run --release --locked --package windhover-report --example hour_run --";
    let mut arguments: Vec<&str> = fixed.split(' ').chain([&*at, &*long]).collect();
    arguments.extend(policies.get(..count).unwrap_or_default());
    process::run(&process::cargo(), &arguments)?;
    let named = folder.join("run-directory");
    crate::files::read(&named).map(PathBuf::from)
}
