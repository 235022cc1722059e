//! From a setting of a network device to its knobs.

use super::key::QueueSetting;
use super::resolve::{Meaning, SettingRequest};
use super::{Key, TuneError};
use crate::{Kernel, flows};
use host::knob::{EthtoolPart, Form, Knob, Settings as _, features_of};
use host::nic::{NicError, NicMap};
use host::undo::Change;
use model::CpuList;
use std::cell::RefCell;
use std::path::PathBuf;

#[derive(Debug, Clone)]
pub(super) struct Device {
    map: NicMap,
    /// Why /sys does not show it, if so.
    hidden: Option<String>,
    /// Locations of its table of flow rules that the plan has given out.
    places: RefCell<Vec<u32>>,
}

impl Device {
    pub(super) fn of(kernel: &Kernel, name: &str) -> Result<Self, TuneError> {
        match NicMap::of(kernel.machine(), name) {
            Ok(map) => Ok(Self { map, hidden: None, places: RefCell::default() }),
            // What goes by system calls works nevertheless.
            Err(other @ NicError::OtherNamespace { .. }) => {
                Ok(Self { map: NicMap::by_netlink(name)?, hidden: Some(other.to_string()), places: RefCell::default() })
            }
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) fn meaning(asked: &SettingRequest<'_>, device: &Device, key: &Key) -> Meaning {
    let SettingRequest { kernel, value, why } = *asked;
    let name = &device.map.device;
    let change = |knob: Knob, wanted: &str| Change::new(knob, wanted, why);
    let ethtool = |part: EthtoolPart, property: String| Knob::Ethtool { device: name.clone(), part, name: property };
    let changes: Vec<Change> = match key {
        Key::Ethtool(EthtoolPart::Feature, feature) => features_of(feature)
            .into_iter()
            .map(|feature| change(ethtool(EthtoolPart::Feature, feature), value))
            .collect(),
        Key::Ethtool(EthtoolPart::Pause, property) if property != "autoneg" => {
            let pause = |name: &str| ethtool(EthtoolPart::Pause, name.to_owned());
            let is = |name: &str, value: &str| kernel.read(&pause(name)).is_ok_and(|now| now == value);
            let mut changes = vec![change(pause(property), value)];
            if is("autoneg", "on") && !is(property, value) {
                // While the two ends negotiate it, the driver takes no order.
                changes.insert(0, change(pause("autoneg"), "off"));
            }
            changes
        }
        Key::Ethtool(part, property) => {
            let wanted = match value {
                "max" => kernel.read(&ethtool(*part, format!("{property}-max"))).map_err(|error| error.to_string())?,
                value => value.to_owned(),
            };
            // Drivers round sizes of rings and times to what their hardware can do.
            let rounds = matches!(part, EthtoolPart::Ring | EthtoolPart::Coalesce | EthtoolPart::Eee);
            vec![Change { exact: !rounds, ..change(ethtool(*part, property.clone()), &wanted) }]
        }
        Key::Napi(property) => napi(device, property, value, &change),
        Key::Queues(QueueSetting::RpsCpus | QueueSetting::XpsCpus) => {
            let mask = cpus_of(kernel, device, value)?.to_mask();
            let transmits = *key == Key::Queues(QueueSetting::XpsCpus);
            let queues = device.map.queues.iter().filter(|queue| queue.transmits == transmits);
            let knobs = queues.filter(|queue| queue.steering.is_some()).map(host::nic::NicQueue::knob);
            knobs.map(|knob| change(knob, &mask)).collect()
        }
        Key::Queues(QueueSetting::IrqCpus) => {
            let cpus = cpus_of(kernel, device, value)?.to_string();
            let movable = device.map.irqs.iter().filter(|irq| irq.movable);
            movable.map(|irq| change(irq.knob(), &cpus)).collect()
        }
        Key::Queues(QueueSetting::ThreadPolicy) => {
            let knob = |task| Knob::Policy { task };
            device.map.all_threads(kernel.machine()).into_iter().map(|task| change(knob(task), value)).collect()
        }
        Key::Queues(QueueSetting::Flow) => {
            vec![change(flows::place(kernel, name, value, &mut device.places.borrow_mut())?, value)]
        }
        Key::Service(_) | Key::Machine(_) | Key::Sysctl(_) => Vec::new(),
    };
    let what = match key {
        _ if !changes.is_empty() => return Ok(changes),
        Key::Napi(_) => "no NAPI instance (the device is down, or has none)",
        Key::Queues(QueueSetting::IrqCpus) => "no interrupt that can be moved",
        Key::Queues(QueueSetting::ThreadPolicy) => {
            "no threads: those of interrupts need PREEMPT_RT or the boot parameter threadirqs, those that poll \
             nic.napi.threaded=on before"
        }
        _ => "no queue that can be steered (a single one has nothing to choose)",
    };
    Err(device.hidden.clone().unwrap_or_else(|| format!("{name} has {what}")))
}

/// Each instance over netlink; on older kernels the device's one file for all.
fn napi(device: &Device, property: &str, value: &str, change: &dyn Fn(Knob, &str) -> Change) -> Vec<Change> {
    let name = &device.map.device;
    let instances: Vec<_> = device.map.napis.iter().filter(|napi| napi.setting(property).is_some()).collect();
    if !instances.is_empty() {
        let knob = |id: u32| Knob::Napi { device: name.clone(), id, name: property.to_owned() };
        return instances.iter().map(|napi| change(knob(napi.id), value)).collect();
    }
    let (file, form) = match property {
        _ if device.hidden.is_some() => return Vec::new(),
        "threaded" => ("threaded", Form::Switch),
        "defer-hard-irqs" => ("napi_defer_hard_irqs", Form::Text),
        "gro-flush-timeout" => ("gro_flush_timeout", Form::Text),
        _ => return Vec::new(),
    };
    let wanted = match value {
        "on" => "1",
        "off" => "0",
        other => other,
    };
    vec![change(Knob::file(PathBuf::from("/sys/class/net").join(name).join(file), form), wanted)]
}

/// The CPUs of a value: a list, or `all`, `none`, `local`.
fn cpus_of(kernel: &Kernel, device: &Device, value: &str) -> Result<CpuList, String> {
    let online = || {
        let text = kernel.machine().text("/sys/devices/system/cpu/online").map_err(|error| error.to_string())?;
        text.trim().parse::<CpuList>().map_err(|error| error.to_string())
    };
    match value {
        "none" => Ok(CpuList::default()),
        "all" => online(),
        "local" => match &device.map.local_cpus {
            Some(cpus) if !cpus.is_empty() => Ok(cpus.clone()),
            _ => online(),
        },
        list => {
            let cpus: CpuList = list.parse().map_err(|error: model::ModelError| error.to_string())?;
            let online = online()?;
            let missing = cpus.iter().find(|&cpu| !online.contains(cpu));
            match missing {
                Some(cpu) => Err(format!("CPU {cpu} is not online: there are {online}")),
                None => Ok(cpus),
            }
        }
    }
}
