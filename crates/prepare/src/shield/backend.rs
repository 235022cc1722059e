//! Which backend: what each needs, whether it is there, and why one was taken.

use super::ShieldError;
use super::layout::Layout;
use super::topology::Topology;
use model::{CpuList, ShieldBackend, ShieldSpec};

/// Whether a backend can be used, with the evidence.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Availability {
    pub backend: ShieldBackend,
    pub usable: bool,
    pub why: String,
}

pub(super) fn all(layout: &Layout, topology: &Topology) -> Vec<Availability> {
    let of = |backend, found: Result<String, String>| {
        let usable = found.is_ok();
        Availability { backend, usable, why: found.unwrap_or_else(|why| why) }
    };
    let isolated = if topology.isolated.is_empty() {
        Err("no CPU was isolated at boot: /sys/devices/system/cpu/isolated is empty".to_owned())
    } else {
        Ok(format!("CPU {} was isolated at boot (isolcpus=)", topology.isolated))
    };
    let v2 = layout.v2.as_ref().map_err(Clone::clone);
    let v1 = layout.v1.as_ref().map_err(Clone::clone);
    vec![
        of(ShieldBackend::V2, v2.map(|v2| format!("{} has the cpuset controller", v2.root.display()))),
        of(ShieldBackend::V1, v1.map(|v1| format!("cpusets of version 1 are mounted at {}", v1.root.display()))),
        of(ShieldBackend::Affinity, Ok("needs no control groups; only a guard keeps it up".to_owned())),
        of(ShieldBackend::Isolcpus, isolated),
    ]
}

pub(super) fn choose(
    spec: &ShieldSpec,
    layout: &Layout,
    topology: &Topology,
) -> Result<(ShieldBackend, Vec<String>), ShieldError> {
    let known = all(layout, topology);
    let why = |backend: ShieldBackend| {
        known.iter().find(|known| known.backend == backend).map(|known| known.why.clone()).unwrap_or_default()
    };
    let usable = |backend: ShieldBackend| known.iter().any(|known| known.backend == backend && known.usable);
    let isolated = spec.processes.common(&topology.isolated);
    match spec.backend {
        ShieldBackend::Isolcpus => {
            let missing = spec.processes.without(&topology.isolated);
            if missing.is_empty() {
                return Ok((ShieldBackend::Isolcpus, vec![why(ShieldBackend::Isolcpus)]));
            }
            ShieldError::refused(format!(
                "backend isolcpus needs CPU {missing} isolated at boot, and /sys/devices/system/cpu/isolated says '{}': boot with isolcpus=domain,managed_irq,{missing}, or use another backend",
                topology.isolated
            ))
        }
        ShieldBackend::Auto => {
            if !isolated.is_empty() && isolated == spec.processes {
                return Ok((ShieldBackend::Isolcpus, vec![why(ShieldBackend::Isolcpus)]));
            }
            let mut reasons = Vec::new();
            for backend in [ShieldBackend::V2, ShieldBackend::V1, ShieldBackend::Affinity] {
                if !usable(backend) {
                    reasons.push(format!("not {backend}: {}", why(backend)));
                    continue;
                }
                reasons.insert(0, why(backend));
                return if isolated.is_empty() { Ok((backend, reasons)) } else { boot_isolated(&isolated, backend) };
            }
            // Affinity needs nothing.
            Ok((ShieldBackend::Affinity, reasons))
        }
        backend if !usable(backend) => unusable(backend, &why(backend)),
        backend if !isolated.is_empty() => boot_isolated(&isolated, backend),
        backend => Ok((backend, vec!["asked for".to_owned(), why(backend)])),
    }
}

pub(super) fn unusable<T>(backend: ShieldBackend, why: &str) -> Result<T, ShieldError> {
    ShieldError::refused(format!("backend {backend} cannot be used here: {why}"))
}

fn boot_isolated<T>(isolated: &CpuList, backend: ShieldBackend) -> Result<T, ShieldError> {
    ShieldError::refused(format!(
        "CPU {isolated} was isolated at boot (/sys/devices/system/cpu/isolated; isolcpus=), and backend {backend} must not be mixed with that: shield {isolated} alone with --backend isolcpus, or boot without isolcpus="
    ))
}
