//! The grammar of CPU lists.

use super::super::{CpuListError, cpus};
use super::tree::Tree;

fn read(tree: &Tree, text: &str) -> String {
    cpus(text, tree.kernel().machine()).unwrap().to_string()
}

#[test]
fn words_are_those_of_the_machine() {
    let tree = Tree::new(8).with_smt(8).with_nodes(8);
    tree.put("sys/devices/system/cpu/online", "0-6");
    tree.put("sys/class/net/near/device/local_cpulist", "4-7");
    tree.put("sys/class/net/virtio/device/modalias", "virtio:d1");
    tree.put("sys/class/net/virtio/local", "");
    tree.put("sys/class/net/numa/device/numa_node", "1");
    for (text, meaning) in [
        ("1", "1"),
        ("0,2-4", "0,2-4"),
        ("0-6:2", "0,2,4,6"),
        ("boot", "0"),
        ("active", "0-6"),
        ("node:1", "4-6"),
        ("sibling:1", "1,5"),
        ("sibling:3", "3"),
        ("nic:near", "4-6"),
        ("nic:numa", "4-6"),
        ("nic:virtio", "0-6"),
        ("~1", "0,2-6"),
        ("~0,1", "2-6"),
        ("~sibling:1", "0,2-4,6"),
        ("0,2-4,~3", "0,2,4"),
        ("active,~boot", "1-6"),
        (" 1 , 2 ", "1-2"),
        ("1,boot", "0-1"),
    ] {
        assert_eq!(read(&tree, text), meaning, "{text}");
    }
}

#[test]
fn what_cannot_be_meant_is_named() {
    let tree = Tree::new(4);
    tree.put("sys/class/net/eth0/mtu", "1500");
    let error = |text: &str| cpus(text, tree.kernel().machine()).unwrap_err();
    for text in ["", ",", "1,", "x", "~0,~1", "node:x", "cpu:1", "1-", "3-1", "nic", "~~1"] {
        assert!(matches!(error(text), CpuListError::Grammar { .. }), "{text}: {:?}", error(text));
    }
    for (text, known) in [("nic:eth1", "eth0"), ("nic:../eth0", "eth0"), ("node:7", "node 0"), ("sibling:9", "0-3")] {
        assert!(matches!(error(text), CpuListError::Absent { .. }), "{text}");
        assert!(error(text).to_string().contains(known), "{}", error(text));
    }
    for text in ["~active", "1,~1"] {
        assert!(matches!(error(text), CpuListError::Empty { .. }), "{text}");
    }
}
