//! `windhover exchange`: cyclic data between control PCs.

mod tables;
mod top;

use super::signals;
use crate::cli::exchange::{Bench, Check, Exchange, Run};
use crate::output::{Failure, Output, json_in_order};
use anyhow::anyhow;
use exchange::{Budget, ExchangeFile};
use exchange_io::{Node, NodeError};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(20);
/// How long after the last publisher of this process its frames are waited for.
const LINGER: Duration = Duration::from_millis(100);

pub(super) fn run(command: &Exchange, output: &Output) -> Result<u8, Failure> {
    match command {
        Exchange::Check(arguments) => check(arguments, output),
        Exchange::Run(arguments) => run_nodes(arguments, output),
        Exchange::Top(arguments) => top::run(arguments, output),
        Exchange::Bench(arguments) => bench(arguments, output),
    }
}

fn read(file: &Path) -> Result<ExchangeFile, Failure> {
    let named = |error: &dyn std::fmt::Display| Failure::usage(anyhow!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| named(&error))?;
    ExchangeFile::read(&text).map_err(|error| named(&error))
}

fn check(arguments: &Check, output: &Output) -> Result<u8, Failure> {
    let budget = Budget::new(&read(&arguments.file)?);
    let text = if arguments.form.is_json() { json_in_order(&budget)? } else { tables::budget(&budget) };
    output.result(&text)?;
    refuse_faults(&budget)
}

fn refuse_faults(budget: &Budget) -> Result<u8, Failure> {
    if budget.faults.is_empty() { Ok(0) } else { Err(Failure::usage(anyhow!("{}", budget.faults.join("; ")))) }
}

fn run_nodes(arguments: &Run, output: &Output) -> Result<u8, Failure> {
    let file = read(&arguments.file)?;
    refuse_faults(&Budget::new(&file))?;
    if let Some(address) = file.public_address().filter(|_| !arguments.allow_public) {
        refuse!("{address} is a public address, and frames have no key: use private ones, or give --allow-public");
    }
    let mut nodes = Vec::new();
    for name in &arguments.node {
        let Some(node) = file.node(name) else {
            let known: Vec<&str> = file.nodes.iter().map(|node| node.name.as_str()).collect();
            refuse!("there is no node '{name}' in {}: use {}", arguments.file.display(), known.join(", "));
        };
        if nodes.iter().any(|other: &&exchange::Node| other.name == node.name) {
            refuse!("--node {name} is given twice");
        }
        nodes.push(node);
    }
    if nodes.is_empty() {
        nodes = file.nodes.iter().collect();
    }
    let stop = signals::stop_flag()?;
    // Receivers are there before anything is sent.
    nodes.sort_by_key(|node| !node.publish.is_empty());
    let start = |node: &&exchange::Node| Node::start(&file, node);
    let running = nodes.iter().map(start).collect::<Result<Vec<Node>, NodeError>>()?;
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    output.note(format_args!("running: {}", names.join(", ")));
    let begun = Instant::now();
    let lasts = arguments.seconds.map(Duration::from_secs_f64);
    let is_over = || stop.load(Ordering::Relaxed) || lasts.is_some_and(|lasts| begun.elapsed() >= lasts);
    while !is_over() && !running.iter().any(Node::has_ended) {
        std::thread::sleep(LOOK);
    }
    let is_cut = lasts.is_some() && stop.load(Ordering::Relaxed);
    running.iter().for_each(Node::stop_publishing);
    while !running.iter().all(Node::is_silent) {
        std::thread::sleep(LOOK);
    }
    std::thread::sleep(LINGER);
    let mut reports = running.into_iter().map(Node::finish).collect::<Result<Vec<_>, NodeError>>()?;
    reports.sort_by_key(|report| file.nodes.iter().position(|node| node.name == report.node));
    let text = if arguments.form.is_json() { json_in_order(&reports)? } else { tables::reports(&reports) };
    output.result(&text)?;
    Ok(if is_cut { 130 } else { 0 })
}

fn bench(arguments: &Bench, output: &Output) -> Result<u8, Failure> {
    let time = Duration::from_secs_f64(arguments.seconds);
    let figures = exchange_io::bench(usize::from(arguments.size), time)?;
    let text = if arguments.form.is_json() { json_in_order(&figures)? } else { tables::bench(&figures) };
    output.result(&text)?;
    Ok(0)
}
