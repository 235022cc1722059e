//! The cells of stored plans stay what they are: their order, keys, factors and specifications. A run is resumed by them,
//! and runs of different versions are compared by them.
#![allow(clippy::unwrap_used, reason = "tests panic")]

use windhover_model::{Plan, plan::reference};

const HEAD: &str = "name = \"t\"\n[lab]\nkind = \"netns\"\nhosts = 3\n[roles]\ninitiator = \"a\"\n";

/// Grids that no stored plan has: each probe with settings of its own and of others.
const GRIDS: &str = "\
reflectors = [\"b\"]
[stacks.fast]
prefix = [\"env\"]
[stacks.fast.environment]
LD_PRELOAD = \"a.so\"
[knobs.ksm]
settings = [\"memory.ksm=0\"]
[measure]
count = 77
interval_percent = 2.0
warmup_count = 9
busy_poll_us = 0
nodelay = false
mcast = \"224.1.2.48\"
response_size = 7
connect_each = true
shape_seed = 3
[[grid]]
probe = [\"pingpong\", \"rr\", \"pace\"]
protocol = [\"tcp\", \"udp\"]
size = \"default\"
[[grid]]
probe = [\"pace\", \"pingpong\"]
protocol = [\"udp\"]
rate = \"1k-4kx2\"
size = [3, 1]
stack = [\"kernel\", \"fast\"]
receive = [\"spin;block\", \"epoll\"]
policy = [\"fifo:1;other\", \"rr:2\"]
cpu = [\"0;1\", \"any\"]
load = [\"none\", \"cpu\"]
shield = [\"off\"]
knob = [\"none\", \"ksm\"]
[[grid]]
protocol = [\"pipe\", \"unix-stream\", \"unix_dgram\"]
size = [40]
";

const STREAM: &str = "\
reflectors = [\"b\"]
[measure]
direction = \"down\"
flows = 3
batch = 4
gso = true
working_latency = true
timeout_ms = 9
raw = true
over_us = 1.5
[[grid]]
probe = [\"stream\"]
protocol = [\"udp\", \"tcp\"]
[[grid]]
probe = [\"stream\"]
size = [100]
policy = [\"batch\"]
[[grid]]
probe = [\"ping\"]
size = [100]
";

/// FNV-1a: the same on every machine and in every version.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn cells_of_stored_plans() {
    let campaigns = concat!(env!("CARGO_MANIFEST_DIR"), "/../../campaigns");
    let mut files: Vec<_> = std::fs::read_dir(campaigns).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    let stored = files.iter().map(|path| std::fs::read_to_string(path).unwrap());
    // The example of hosts has keys added to it over time.
    let examples = [reference::EXAMPLES[0], reference::EXAMPLES[2]].map(str::to_owned);
    let more = [GRIDS, STREAM].map(|rest| format!("{HEAD}{rest}"));
    let mut found = Vec::new();
    for text in stored.chain(examples).chain(more) {
        let plan = Plan::parse("plan", &text).unwrap();
        let cells = plan.cells().unwrap();
        let whole: Vec<String> = cells
            .iter()
            .map(|cell| {
                let parts = (&cell.key, &cell.factors, &cell.spec, &cell.load, cell.reflectors);
                let stacks = (&cell.stack_initiator, &cell.stack_reflector, &cell.settings);
                serde_json::to_value((parts, stacks)).unwrap().to_string()
            })
            .collect();
        found.push(format!("{} {} {:016x}", plan.name, cells.len(), digest(&whole.join("\n"))));
    }
    assert_eq!(found, EXPECTED);
}

/// Name, cells and digest of each, whatever the order of keys. Taken when the options of a probe became its own: cells with the order before
/// that were compared, and nothing but options of other probes was gone.
const EXPECTED: [&str; 13] = [
    "bypass 26 c8cb06631d66ab52",
    "control-loop 15 eb9e93e8b3772685",
    "heat-map 8 98738dc568e6a98d",
    "kernels 36 59545e5298955389",
    "nic 6 116a7046a8367f31",
    "pgm 10 fcd69726bfd510a7",
    "shield 10 c6c53efe876b179b",
    "white-paper-full 456 fb35419960d9e811",
    "white-paper 45 6b59c3305a3966f9",
    "everything 148 45a08e1a902f281b",
    "a-million 3 5a4d371b41a460c9",
    "t 623 6850a3f92324d90a",
    "t 4 e1511cb946c48b42",
];

/// The example that remakes the papers' OpenOnload rows: every stack in every row, claimed by both ends.
#[test]
fn the_example_of_the_bypass_stacks_is_a_plan() {
    let plan = Plan::parse("bypass.toml", include_str!("../../../campaigns/bypass.toml")).unwrap();
    let cells = plan.cells().unwrap();
    // The two more without a stack are shared memory and bare frames.
    for (stack, count) in [(None, 10), (Some("spin"), 8), (Some("xdp"), 8)] {
        let of_it = cells.iter().filter(|cell| cell.spec.initiator.stack.as_deref() == stack);
        assert_eq!(of_it.count(), count, "{stack:?}");
    }
}
