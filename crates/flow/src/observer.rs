//! What happens around a pass at either end, outside its loop: counters, facts about a preloaded stack, a capture, the live line.

use host::CounterSampler;
use model::Counters;
use model::worker::Measured;
use wire::StopReport;

/// Watches passes of one end. None of its calls comes while messages are measured.
pub trait PassObserver: Send {
    /// The measured part of a pass with messages of `size` bytes begins.
    fn begin(&mut self, _size: u32) {}

    /// The measured part is over. Fills in what was seen meanwhile.
    fn end(&mut self, _report: &mut StopReport) {}

    /// The reports of all ends are here. Adds findings and fields before the result is judged.
    fn judge(&mut self, _report: &mut StopReport) {}

    /// Whether the pass that was just judged is to be measured once more for this observer alone, as one that slows messages
    /// down needs it.
    fn wants_further_pass(&mut self) -> bool {
        false
    }

    /// Takes that further pass, and adds to the result of the first what it explains.
    fn take_further_pass(&mut self, _result: &mut Measured, _further: &Measured) {}
}

/// Those of an end, in the order in which they are called.
pub type PassObservers = Vec<Box<dyn PassObserver>>;

impl PassObserver for PassObservers {
    fn begin(&mut self, size: u32) {
        self.iter_mut().for_each(|one| one.begin(size));
    }

    fn end(&mut self, report: &mut StopReport) {
        self.iter_mut().for_each(|one| one.end(report));
    }

    fn judge(&mut self, report: &mut StopReport) {
        self.iter_mut().for_each(|one| one.judge(report));
    }

    fn wants_further_pass(&mut self) -> bool {
        // Each is asked.
        let asked: Vec<bool> = self.iter_mut().map(|one| one.wants_further_pass()).collect();
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

/// Where the host dropped messages. Drops of the data sockets are added by their owners.
struct HostCounters(Option<CounterSampler>);

impl PassObserver for HostCounters {
    fn begin(&mut self, _: u32) {
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
