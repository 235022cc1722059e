//! The grammar of CPU lists.

use super::super::cpus;
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
    for (text, words) in [
        ("", ": a number or word is missing"),
        (",", ": a number or word is missing"),
        ("1,", ": a number or word is missing"),
        ("x", ": 'x' is no CPU: use numbers"),
        ("~0,~1", ": a list that begins with ~ is negated as a whole"),
        ("node:x", ": 'node:x' needs a number after the colon"),
        ("cpu:1", ": 'cpu:' is not known: use nic:IF"),
        ("1-", ": '1-' is no CPU"),
        ("3-1", ": '3-1' is no CPU"),
        ("nic", ": 'nic' is no CPU"),
        ("~~1", ": a list that begins with ~ is negated as a whole"),
        ("nic:eth1", ": network device 'eth1' is not here: there is eth0"),
        ("nic:../eth0", ": network device '../eth0' is not here: there is eth0"),
        ("node:7", ": NUMA node 7 is not here: there is node 0"),
        ("sibling:9", ": CPU 9 is not here: there is CPU 0-3"),
        ("~active", " names no CPU (online are 0-3)"),
        ("1,~1", " names no CPU (online are 0-3)"),
    ] {
        let error = cpus(text, tree.kernel().machine()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("CPU list '{text}'{words}")), "{error}");
    }
}
