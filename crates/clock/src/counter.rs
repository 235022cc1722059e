//! The processor's own counter: how to read it, and whether it may be trusted.
//!
//! On x86-64 the read is `lfence; rdtsc`. A bare `rdtsc` may execute before the instructions ahead of it, so that a
//! stamp meant for "the message is here" could be taken while the end of the receive call is still in flight; the fence
//! holds it back until all of them have completed. `rdtscp` gives the same order in one instruction, but it also
//! writes the processor's number to a register without need, needs a feature flag of its own, and costs as much. The kernel
//! accepts either for its own clocks (arch/x86/include/asm/tsc.h, `rdtsc_ordered`). Nothing holds back what follows
//! the read: that is a system call of hundreds of cycles, whose start can overlap by a few instructions at most.
//!
//! On AArch64 the read is `isb; mrs cntvct_el0` for the same reason.

use model::ClockSource;

/// Where the kernel names the clock that it keeps time by (Documentation/ABI/testing/sysfs-devices-system-clocksource).
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Reads the counter; always 0 on processors without one that is known here.
#[inline(always)]
pub(crate) fn read() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: both instructions exist on every x86-64 processor and touch no memory. Processes for which
        // PR_SET_TSC forbids `rdtsc` do not get here: `usable` asks.
        unsafe {
            core::arch::x86_64::_mm_lfence();
            core::arch::x86_64::_rdtsc()
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: Linux lets user space read the virtual counter (CNTKCTL_EL1.EL0VCTEN); no memory is touched.
        unsafe {
            core::arch::asm!("isb", "mrs {ticks}, cntvct_el0", ticks = out(reg) ticks, options(nostack, preserves_flags));
        }
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        0
    }
}

/// The counter, where time may be kept by it.
pub(crate) fn usable() -> Option<ClockSource> {
    judge(std::fs::read_to_string(CLOCKSOURCE).ok()?.trim(), invariant(), permitted())
}

/// The rule behind [`usable`], free of the machine it runs on: the kernel itself keeps time by it.
fn judge(clocksource: &str, invariant: bool, permitted: bool) -> Option<ClockSource> {
    if cfg!(target_arch = "aarch64") {
        return (clocksource == "arch_sys_counter").then_some(ClockSource::Cntvct);
    }
    // The last two are the counter, scaled as the hypervisor gives it; with the flag it is the host's own.
    let trusted = matches!(clocksource, "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page");
    (invariant && permitted && trusted).then_some(ClockSource::Tsc)
}

/// Whether the counter runs at one rate in all power states (Intel SDM vol. 3, 19.17.1; AMD APM vol. 3, E.4.7).
fn invariant() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::__cpuid;
        const POWER: u32 = 0x8000_0007;
        __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & (1 << 8) != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        cfg!(target_arch = "aarch64")
    }
}

/// Whether `rdtsc` works here rather than raising SIGSEGV (prctl(2), PR_GET_TSC).
fn permitted() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let mut state: libc::c_int = 0;
        // SAFETY: PR_GET_TSC stores one int at the address given, which is valid.
        let status = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut state) };
        status == 0 && state == libc::PR_TSC_ENABLE
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        true
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn only_an_invariant_counter_that_the_kernel_trusts_is_taken() {
        for (clocksource, invariant, permitted, taken) in [
            ("tsc", true, true, true),
            ("kvm-clock", true, true, true),
            ("tsc", false, true, false),
            ("kvm-clock", false, true, false),
            ("hpet", true, true, false),
            ("tsc", true, false, false),
        ] {
            let found = judge(clocksource, invariant, permitted);
            assert_eq!(found, taken.then_some(ClockSource::Tsc), "{clocksource} {invariant} {permitted}");
        }
    }

    #[test]
    fn the_counter_never_goes_back_on_one_thread() {
        let mut last = read();
        for _ in 0..10_000 {
            let now = read();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
    }
}
