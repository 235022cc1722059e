//! What two measuring threads cost together.

use model::EndUsage;

/// The sender's usage with what the receiver's thread counts added; what counts a process or machine is taken once.
/// `receive_ns`: the receiver's CPU time, which on the sender's CPU is no other task's.
pub(crate) fn together(sender: &EndUsage, receiver: &EndUsage, receive_ns: u64) -> EndUsage {
    let other_tasks_ns = match (sender.other_tasks_ns, receiver.other_tasks_ns) {
        (Some(here), Some(_)) if sender.cpu == receiver.cpu => Some(here.saturating_sub(receive_ns)),
        // Of two CPUs the one that was disturbed more.
        (here, there) => here.max(there),
    };
    EndUsage {
        other_tasks_ns,
        cpu_steal_ns: sender.cpu_steal_ns.max(receiver.cpu_steal_ns),
        run_queue_wait_ns: added(sender.run_queue_wait_ns, receiver.run_queue_wait_ns),
        voluntary_switches: sender.voluntary_switches + receiver.voluntary_switches,
        involuntary_switches: sender.involuntary_switches + receiver.involuntary_switches,
        migrations: sender.migrations + receiver.migrations,
        minor_faults: sender.minor_faults + receiver.minor_faults,
        major_faults: sender.major_faults + receiver.major_faults,
        ..*sender
    }
}

fn added(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one?.saturating_add(other?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_ours_is_no_other_task() {
        let sender = EndUsage {
            cpu: Some(1),
            other_tasks_ns: Some(700),
            minor_faults: 1,
            machine_busy_ns: 5000,
            run_queue_wait_ns: Some(10),
            ..EndUsage::default()
        };
        let receiver = EndUsage { other_tasks_ns: Some(300), minor_faults: 2, ..sender };
        let both = together(&sender, &receiver, 650);
        assert_eq!((both.other_tasks_ns, both.minor_faults, both.machine_busy_ns), (Some(50), 3, 5000));
        assert_eq!(both.run_queue_wait_ns, Some(20));
        let apart = EndUsage { cpu: Some(0), ..receiver };
        assert_eq!(together(&sender, &apart, 650).other_tasks_ns, Some(700));
    }
}
