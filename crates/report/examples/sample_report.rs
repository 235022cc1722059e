//! Writes `target/sample-report.html` and its siblings from a synthetic run, to look at while working on the report.
//! Arguments: `reference` adds the published rows, `small` makes a run of one policy and one size, `many` one of
//! so many rows that panels are split.

#[path = "../tests/sample/mod.rs"]
mod sample;

use model::{Finding, FindingId, Substrate};
use sample::Recipe;
use std::error::Error;
use std::fs;
use std::path::Path;
use windhover_report::{self as report, Options, Report};

fn main() -> Result<(), Box<dyn Error>> {
    let wants = |word: &str| std::env::args().any(|argument| argument == word);
    let small = wants("small");
    let mut run = sample::run(&Recipe {
        name: "white-paper-20261121T214304Z",
        substrate: Substrate::Netns,
        protocols: &["tcp", "udp"],
        loads: &["none", "build"],
        policies: match () {
            () if small => &["fifo:1"],
            () if wants("many") => &["other", "batch", "fifo:1", "fifo:50"],
            () => &["other", "fifo:1"],
        },
        sizes: if small { &[32] } else { &[1, 32, 256, 1024, 4096, 16384] },
        repetitions: 3,
        messages: 40_000,
        rr: true,
        ping: !small,
    });
    // One repetition that cannot be trusted and one cell with losses.
    if let Some(result) = run.results.iter_mut().find(|result| result.factor("load").as_deref() == Some("build")) {
        result.verdict.add(Finding::at(
            FindingId::Migrated,
            "initiator",
            "the thread moved from CPU 0 to CPU 1 twice: pin it with --cpu 0",
        ));
    }
    if let Some(result) = run.results.last_mut() {
        result.messages.lost = 3;
        result.verdict.add(Finding::new(
            FindingId::Loss,
            "3 of 40000 messages were lost, 3 of them at the reflector's socket (SO_RXQ_OVFL)",
        ));
    }
    let report =
        Report::from_inputs(vec![run.clone()], &Options { reference: wants("reference"), ..Options::default() });
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    fs::write(target.join("sample-report.html"), report.page()?.html)?;
    fs::write(target.join("sample-report.txt"), format!("{}\n{}", report.table_text(100), report.cells_text(120)))?;
    fs::write(target.join("sample-report.md"), report.markdown())?;
    fs::write(target.join("sample-report.csv"), report.csv())?;
    fs::write(target.join("sample-report.json"), report.json()?)?;
    let of =
        |probe: &str| -> Vec<_> { run.results.iter().filter(|r| r.probe.word() == probe).take(6).cloned().collect() };
    let single = ["pingpong", "rr", "ping"].map(|probe| report::single_text(&of(probe), 100)).join("\n\n");
    let sfnt = report::sfnt_text(&of("pingpong"), &report::SfntFacts::default());
    let markdown = report::single_markdown(&of("pingpong"));
    fs::write(target.join("sample-single.txt"), format!("{single}\n\n{sfnt}\n\n{markdown}"))?;
    Ok(())
}
