//! What happens around a pass at either end, outside its loop: counters, facts about a preloaded stack, a capture, the live line.

use crate::far::FarExplainer;
use host::CounterSampler;
use model::worker::Measured;
use model::{Counters, EndSpec, Limits};
use std::os::fd::RawFd;
use wire::StopReport;

/// Watches passes of one end. None of its calls comes while messages are measured.
pub trait PassObserver: Send {
    /// The measured part of a pass with messages of `size` bytes begins; `socket` is the only one that carries them.
    fn begin(&mut self, _size: u32, _socket: Option<RawFd>) {}

    /// The measured part is over. Fills in what was seen meanwhile.
    fn end(&mut self, _report: &mut StopReport) {}

    /// The reports of all ends are here; `others` are those of the other ends. Adds findings and fields before the result is judged.
    fn judge(&mut self, _report: &mut StopReport, _others: &[&StopReport]) {}

    /// Whether the pass just judged is to be measured once more for this observer alone, which slows messages down.
    fn wants_further_pass(&mut self, _result: &Measured) -> bool {
        false
    }

    /// Takes that further pass, and adds to the result of the first what it explains.
    fn take_further_pass(&mut self, _result: &mut Measured, _further: &Measured) {}
}

/// Those of an end, in the order in which they are called.
pub type PassObservers = Vec<Box<dyn PassObserver>>;

impl PassObserver for PassObservers {
    fn begin(&mut self, size: u32, socket: Option<RawFd>) {
        self.iter_mut().for_each(|one| one.begin(size, socket));
    }

    fn end(&mut self, report: &mut StopReport) {
        self.iter_mut().for_each(|one| one.end(report));
    }

    fn judge(&mut self, report: &mut StopReport, others: &[&StopReport]) {
        self.iter_mut().for_each(|one| one.judge(report, others));
    }

    fn wants_further_pass(&mut self, result: &Measured) -> bool {
        // Each is asked.
        let asked: Vec<bool> = self.iter_mut().map(|one| one.wants_further_pass(result)).collect();
        asked.contains(&true)
    }

    fn take_further_pass(&mut self, result: &mut Measured, further: &Measured) {
        self.iter_mut().for_each(|one| one.take_further_pass(result, further));
    }
}

/// What watches the passes of every end.
pub fn pass_observers() -> PassObservers {
    vec![Box::new(HostCounters(None)), Box::new(StackFacts)]
}

/// What watches the passes of an end that answers; with limits and its settings it records why it is late, as far as they allow.
pub fn far_observers(explain: Option<(&Limits, &EndSpec)>) -> PassObservers {
    let mut observers = pass_observers();
    observers.extend(explain.map(|(limits, end)| Box::new(FarExplainer::new(limits, end)) as Box<_>));
    observers
}

/// Where the host dropped messages. Drops of the data sockets are added by their owners.
struct HostCounters(Option<CounterSampler>);

impl PassObserver for HostCounters {
    fn begin(&mut self, _: u32, _: Option<RawFd>) {
        self.0 = Some(CounterSampler::start());
    }

    fn end(&mut self, report: &mut StopReport) {
        report.counters = self.0.take().map_or_else(Counters::default, CounterSampler::finish);
    }
}

/// What the process was preloaded with, and what carried its data sockets, asked while they are open.
struct StackFacts;

impl PassObserver for StackFacts {
    fn end(&mut self, report: &mut StopReport) {
        report.stack_environment = host::stack_environment();
        report.preloads = host::stack::preloads();
        report.carried = host::stack::carried(&net::data_sockets());
    }
}
