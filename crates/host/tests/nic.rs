//! Network devices: maps from trees of files, and knobs of real veth devices in a namespace that the test makes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

use host::knob::{EthtoolPart, Knob, KnobError, Machine, Settings};
use host::nic::{NicError, NicMap};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::path::{Path, PathBuf};
use std::process::Command;
use windhover_host as host;

/// A folder that is removed at the end.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("windhover-nic-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, path: &str, content: &str) -> &Self {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{content}\n")).unwrap();
        self
    }

    fn link(&self, path: &str, target: &str) -> &Self {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
        self
    }

    fn irq(&self, number: u32, actions: &str, cpus: &str, effective: &str) -> &Self {
        self.file(&format!("sys/kernel/irq/{number}/actions"), actions)
            .file(&format!("proc/irq/{number}/smp_affinity_list"), cpus)
            .file(&format!("proc/irq/{number}/effective_affinity_list"), effective)
    }

    fn machine(&self) -> Machine {
        Machine::at(&self.0)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn cpus(text: &str) -> Option<model::CpuList> {
    Some(text.parse().unwrap())
}

#[test]
fn a_pci_device_with_two_queues_on_the_second_node() {
    let tree = Tree::new("pci");
    let pci = "sys/devices/pci0000:80/0000:80:02.0/0000:81:00.0";
    tree.file(&format!("{pci}/net/ens1/ifindex"), "2")
        .link("sys/class/net/ens1", &format!("../../../{pci}/net/ens1"))
        .link(&format!("{pci}/net/ens1/device"), "../../../0000:81:00.0")
        .file(&format!("{pci}/numa_node"), "1")
        .file(&format!("{pci}/local_cpulist"), "8-15")
        // A bridge above has interrupts that are not the device's.
        .file("sys/devices/pci0000:80/0000:80:02.0/msi_irqs/25", "msi");
    for (number, name) in [(98, "mlx5_async@pci:0000:81:00.0"), (99, "mlx5_comp0@pci:0000:81:00.0"), (101, "")] {
        tree.file(&format!("{pci}/msi_irqs/{number}"), "msix").irq(number, name, "8-15", "9");
    }
    for queue in ["rx-0/rps_cpus", "rx-1/rps_cpus", "tx-0/xps_cpus", "tx-10/xps_cpus", "tx-2/xps_cpus"] {
        tree.file(&format!("{pci}/net/ens1/queues/{queue}"), "00000000,00000200");
    }
    tree.file("proc/4711/comm", "napi/ens1-8193").file("proc/4712/comm", "napi/ens10-1");
    let managed = tree.0.join("proc/irq/98/smp_affinity_list");
    let mut permissions = std::fs::metadata(&managed).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&managed, permissions).unwrap();

    let map = NicMap::of(&tree.machine(), "ens1").unwrap();
    assert_eq!(map.irqs.iter().map(|irq| irq.number).collect::<Vec<_>>(), [98, 99, 101]);
    assert_eq!(map.irqs[1].actions, ["mlx5_comp0@pci:0000:81:00.0"]);
    assert_eq!((map.irqs[1].cpus.clone(), map.irqs[1].effective.clone()), (cpus("8-15"), cpus("9")));
    assert_eq!((map.irqs[0].movable, map.irqs[1].movable), (false, true));
    assert!(map.irqs[2].actions.is_empty());
    assert_eq!((map.numa_node, map.local_cpus.clone()), (Some(1), cpus("8-15")));
    let queues: Vec<_> = map.queues.iter().map(|queue| (queue.transmits, queue.number)).collect();
    assert_eq!(queues, [(false, 0), (false, 1), (true, 0), (true, 2), (true, 10)]);
    assert_eq!(map.queues[0].steering, cpus("9"));
    assert_eq!(map.threads().collect::<Vec<_>>(), [4711]);
    assert_eq!(map.napis[0].id, 8193);
    let error = NicMap::of(&tree.machine(), "ens2").unwrap_err();
    assert_eq!(error, NicError::Absent { device: "ens2".to_owned(), known: "ens1".to_owned() });
}

#[test]
fn a_virtio_device_has_its_interrupts_one_level_up() {
    let tree = Tree::new("virtio");
    let pci = "sys/devices/pci0000:00/0000:00:03.0";
    tree.file(&format!("{pci}/virtio2/net/eth0/ifindex"), "2")
        .link("sys/class/net/eth0", &format!("../../../{pci}/virtio2/net/eth0"))
        .link(&format!("{pci}/virtio2/net/eth0/device"), "../../../virtio2")
        .file(&format!("{pci}/virtio2/modalias"), "virtio:d00000001v00001AF4")
        .file(&format!("{pci}/local_cpulist"), "0-1")
        .file(&format!("{pci}/msi_irqs/37"), "msix")
        .file(&format!("{pci}/msi_irqs/38"), "msix")
        .irq(37, "virtio2-config", "0-1", "0")
        .irq(38, "virtio2-input.0", "0-1", "1");
    let map = NicMap::of(&tree.machine(), "eth0").unwrap();
    assert_eq!(map.irqs.iter().map(|irq| irq.number).collect::<Vec<_>>(), [37, 38]);
    assert_eq!((map.numa_node, map.local_cpus), (None, cpus("0-1")));
}

#[test]
fn a_tree_of_files_stands_in_for_devices() {
    let tree = Tree::new("knobs");
    tree.file("devices/eth0/coalesce/rx-usecs", "50").file("devices/eth0/feature/rx-gro", "on");
    let machine = tree.machine();
    assert_eq!(machine.read(&ethtool("eth0", EthtoolPart::Coalesce, "rx-usecs")).unwrap(), "50");
    machine.write(&ethtool("eth0", EthtoolPart::Coalesce, "rx-usecs"), "0").unwrap();
    assert_eq!(machine.read(&ethtool("eth0", EthtoolPart::Coalesce, "rx-usecs")).unwrap(), "0");
    assert_eq!(machine.read(&ethtool("eth0", EthtoolPart::Feature, "generic-receive-offload")).unwrap(), "on");
    let absent = machine.read(&ethtool("eth0", EthtoolPart::Ring, "rx"));
    assert!(matches!(absent, Err(KnobError::Absent { .. })), "{absent:?}");
    let flow = Knob::Flow { device: "eth0".to_owned(), location: 3 };
    assert!(matches!(machine.read(&flow), Err(KnobError::Absent { .. })));
}

fn ethtool(device: &str, part: EthtoolPart, name: &str) -> Knob {
    Knob::Ethtool { device: device.to_owned(), part, name: name.to_owned() }
}

/// Puts the test's thread into network and mount namespaces of its own, with a /sys that shows them and a pair of veth
/// devices of two queues. They go when the thread ends.
fn namespace(test: &str) -> bool {
    if unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).is_err() {
        eprintln!("SKIPPED {test}: network namespaces cannot be made here (not root?)");
        return false;
    }
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    ip("link add v0 numrxqueues 2 numtxqueues 2 type veth peer name v1 numrxqueues 2 numtxqueues 2");
    ip("link set v0 up");
    ip("link set v1 up");
    true
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

fn show_own_devices() {
    let none: Option<&str> = None;
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), none).unwrap();
}

/// Writes a value, reads it back, and puts the old one back.
fn there_and_back(knob: &Knob, value: &str) {
    let machine = Machine::running();
    let before = machine.read(knob).unwrap();
    assert_ne!(before, value, "{knob}");
    machine.write(knob, value).unwrap();
    assert_eq!(machine.read(knob).unwrap(), value, "{knob}");
    machine.write(knob, &before).unwrap();
    assert_eq!(machine.read(knob).unwrap(), before, "{knob}");
}

#[test]
fn a_veth_pair_is_set_and_put_back() {
    if !namespace("a_veth_pair_is_set_and_put_back") {
        return;
    }
    let machine = Machine::running();
    there_and_back(&ethtool("v0", EthtoolPart::Channels, "rx"), "1");
    there_and_back(&ethtool("v0", EthtoolPart::Feature, "tx-tcp-segmentation"), "off");
    there_and_back(&ethtool("v0", EthtoolPart::Feature, "gro"), "on");
    assert_eq!(machine.read(&ethtool("v0", EthtoolPart::Channels, "rx-max")).unwrap(), "2");

    // What the driver has not.
    for (part, name) in [(EthtoolPart::Coalesce, "rx-usecs"), (EthtoolPart::Pause, "rx"), (EthtoolPart::Eee, "enabled")]
    {
        let knob = ethtool("v0", part, name);
        assert!(matches!(machine.read(&knob), Err(KnobError::Absent { .. })), "{knob}");
        let refused = machine.write(&knob, "0").unwrap_err();
        assert!(matches!(refused, KnobError::Absent { .. } | KnobError::Unsupported { .. }), "{refused}");
    }
    let flow = Knob::Flow { device: "v0".to_owned(), location: 0 };
    assert!(matches!(machine.read(&flow), Err(KnobError::Absent { .. })));
    assert_eq!(host::knob::free_location("v0", &[]), None);
    // A feature that it can never have, and one that no kernel has.
    for name in ["rx-ntuple-filter", "no-such-feature"] {
        let knob = ethtool("v0", EthtoolPart::Feature, name);
        assert!(matches!(machine.read(&knob), Err(KnobError::Absent { .. })), "{name}");
        let refused = machine.write(&knob, "on").unwrap_err();
        assert_eq!(refused.errno(), Some(libc::EOPNOTSUPP), "{refused}");
    }
    let gone = ethtool("v9", EthtoolPart::Feature, "rx-gro");
    assert!(matches!(machine.read(&gone), Err(KnobError::Absent { .. })));
    // Values that it refuses, and values that are none.
    let channels = ethtool("v0", EthtoolPart::Channels, "rx");
    let refused = machine.write(&channels, "9").unwrap_err();
    assert!(matches!(&refused, KnobError::Write { .. }) && refused.errno() == Some(libc::EINVAL), "{refused}");
    assert!(matches!(machine.write(&channels, "many"), Err(KnobError::Unsupported { .. })));
    assert!(matches!(
        machine.write(&ethtool("v0", EthtoolPart::Channels, "rx-max"), "1"),
        Err(KnobError::Unsupported { .. })
    ));
    let several = machine.read(&ethtool("v0", EthtoolPart::Feature, "tso")).unwrap_err().to_string();
    assert!(several.contains("tx-tcp6-segmentation"), "{several}");
}

#[test]
fn the_instances_of_a_veth_device_get_threads_over_netlink() {
    let test = "the_instances_of_a_veth_device_get_threads_over_netlink";
    if !namespace(test) {
        return;
    }
    let machine = Machine::running();
    // /sys is still that of the namespace before.
    assert!(matches!(NicMap::of(&machine, "v0"), Err(NicError::OtherNamespace { .. })));
    show_own_devices();
    // veth has NAPI instances only with GRO on.
    assert_eq!(NicMap::of(&machine, "v0").unwrap().napis, []);
    machine.write(&ethtool("v0", EthtoolPart::Feature, "gro"), "on").unwrap();
    let map = NicMap::of(&machine, "v0").unwrap();
    if map.napis.is_empty() {
        eprintln!("SKIPPED {test}: this kernel has no netlink family netdev");
        return;
    }
    assert_eq!(map.napis.len(), 2);
    assert_eq!(map.queues.iter().filter(|queue| !queue.transmits).count(), 2);
    assert!(map.irqs.is_empty() && map.numa_node.is_none());

    let id = map.napis[0].id;
    let knob = |name: &str| Knob::Napi { device: "v0".to_owned(), id, name: name.to_owned() };
    there_and_back(&knob("defer-hard-irqs"), "2");
    there_and_back(&knob("gro-flush-timeout"), "200000");
    if map.napis[0].irq_suspend_timeout_ns.is_some() {
        there_and_back(&knob("irq-suspend-timeout"), "20000000000");
    }
    if map.napis[0].threaded.is_some() {
        assert_eq!(map.threads().count(), 0);
        machine.write(&knob("threaded"), "on").unwrap();
        assert_eq!(machine.read(&knob("threaded")).unwrap(), "on");
        let threaded = NicMap::of(&machine, "v0").unwrap();
        let pid = threaded.threads().next().unwrap();
        let name = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("comm")).unwrap();
        assert_eq!(name.trim(), format!("napi/v0-{id}"));
        machine.write(&knob("threaded"), "off").unwrap();
        assert_eq!(machine.read(&knob("threaded")).unwrap(), "off");
    }
    assert!(matches!(machine.write(&knob("threaded"), "sometimes"), Err(KnobError::Unsupported { .. })));
    assert!(matches!(machine.read(&knob("speed")), Err(KnobError::Unsupported { .. })));
    // An id that is another device's, and one that is nobody's.
    for (device, id) in [("v1", id), ("v0", id + 1000)] {
        let other = Knob::Napi { device: device.to_owned(), id, name: "defer-hard-irqs".to_owned() };
        assert!(matches!(machine.read(&other), Err(KnobError::Absent { .. })), "{other}");
        assert!(matches!(machine.write(&other, "0"), Err(KnobError::Absent { .. })), "{other}");
    }
}

#[test]
fn queues_of_a_veth_device_are_steered() {
    if !namespace("queues_of_a_veth_device_are_steered") {
        return;
    }
    show_own_devices();
    let machine = Machine::running();
    let map = NicMap::of(&machine, "v0").unwrap();
    let steered: Vec<_> = map.queues.iter().filter(|queue| queue.steering.is_some()).collect();
    assert!(!steered.is_empty(), "{map:?}");
    for queue in steered {
        let before = machine.read(&queue.knob()).unwrap();
        machine.write(&queue.knob(), "1").unwrap();
        let now = NicMap::of(&machine, "v0").unwrap();
        let now = now.queues.iter().find(|now| (now.transmits, now.number) == (queue.transmits, queue.number));
        assert_eq!(now.unwrap().steering, cpus("0"), "{queue:?}");
        machine.write(&queue.knob(), &before).unwrap();
    }
}
