//! Disturbs a CPU until it is killed, about each 2 ms: `disturb hog|timers|packets CPU`.

use std::error::Error;
use windhover_load::{Disturbance, Disturber};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    // Timers of one thread take 40 ms from when they are set; more of them at once would fill the CPU.
    let (what, threads) = match arguments.next().as_deref() {
        Some("hog") => (Disturbance::Hog(300), 6),
        Some("timers") => (Disturbance::Timers, 2),
        Some("packets") => (Disturbance::Packets, 6),
        _ => return Err("hog, timers or packets, and a CPU".into()),
    };
    let cpu = arguments.next().unwrap_or_default().parse()?;
    let epoch_ns = clock::monotonic_ns();
    let started = (0..threads).map(|number| Disturber::start(what, cpu, epoch_ns + number * 2_000_000));
    let _disturbers = started.collect::<Result<Vec<_>, _>>()?;
    loop {
        std::thread::park();
    }
}
