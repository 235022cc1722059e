//! Writes `target/sample-pace.html` from a synthetic run of two policies at four rates, to look at while working on the
//! page. Argument: seconds of each cell (10 where there is none), or a run directory to report instead.

#[path = "../tests/sample/mod.rs"]
mod sample;

use sample::paced::Cell;
use std::error::Error;
use std::path::Path;
use windhover_report::{Options, Report};

fn main() -> Result<(), Box<dyn Error>> {
    let argument = std::env::args().nth(1);
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    if let Some(path) = argument.as_deref().filter(|path| Path::new(path).is_dir()) {
        let run = store::Run::load(Path::new(path))?;
        let html = Report::from_runs([run], &Options::default()).page()?.html;
        std::fs::write(target.join("sample-pace.html"), html)?;
        return Ok(());
    }
    let seconds = argument.and_then(|text| text.parse().ok()).unwrap_or(10);
    let mut cells = Vec::new();
    for policy in ["other", "fifo:50"] {
        for rate in [10_000, 20_000, 30_000, 40_000] {
            cells.push(Cell { policy, rate, repetition: 1, seconds });
        }
    }
    let parent = target.join("sample-runs");
    if parent.exists() {
        std::fs::remove_dir_all(&parent)?;
    }
    std::fs::create_dir_all(&parent)?;
    let run = store::Run::load(&sample::paced::write(&parent, "heat-map", &cells, |_, _| ()))?;
    let report = Report::from_runs([run], &Options::default());
    std::fs::write(target.join("sample-pace.html"), report.page()?.html)?;
    Ok(())
}
