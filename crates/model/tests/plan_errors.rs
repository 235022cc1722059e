//! Bad plans: each error names its line, its key and what is allowed there.
#![allow(clippy::unwrap_used, reason = "tests panic")]

use windhover_model::Plan;

/// A good plan. Lines are counted from its first one.
const GOOD: &str = "\
name = \"t\"

[lab]
kind = \"netns\"

[roles]
initiator = \"a\"
reflectors = [\"b\"]

[measure]
seconds = 0.5
cpu = \"0;1\"

[[grid]]
protocol = [\"udp\"]

[[grid]]
probe = [\"rr\"]
protocol = [
    \"tcp\",
    \"udp\",
]
policy = [\"other\", \"fifo:10\"]
size = [64, 128]
";

/// What is replaced by what, and the words that the error has: its lines first.
const BAD: &[(&str, &str, &[&str])] = &[
    // The parser's.
    ("seconds = 0.5", "seconds = \"x\"", &["line 11: measure.seconds = \"x\": use a number, such as seconds = 2.5"]),
    ("seconds = 0.5", "secnds = 0.5", &["line 11: measure.secnds = 0.5: unknown key: did you mean seconds?"]),
    ("size = [64, 128]", "colour = [1]", &["line 24: grid.colour = [1]: unknown key: use ", ", cpu, ", "stack"]),
    ("size = [64, 128]", "size = [-1]", &["line 24: grid.size = -1: use whole numbers from 0 or a text"]),
    ("size = [64, 128]", "size = [\"a\"]", &["line 24: grid.size = \"a\"", "whole numbers"]),
    ("size = [64, 128]", "size = 64", &["line 24: grid.size = 64", "a list of whole numbers"]),
    ("size = [64, 128]", "rate = [true]", &["line 24: grid.rate = true", "numbers", "rate = [5000, \"10k-40k+10k\"]"]),
    ("kind = \"netns\"", "kind = \"vm\"", &["line 4: lab.kind = \"vm\": use netns, loopback or guest"]),
    ("kind = \"netns\"", "kind = \"netns\"\nhosts = -2", &["line 5: lab.hosts = -2: use a whole number from 0"]),
    ("initiator = \"a\"\n", "", &["line 6: roles: the key initiator is missing: write initiator = \"a\""]),
    ("name = \"t\"\n", "", &["plan t.toml: the key name is missing: write name = "]),
    (
        "[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n",
        "",
        &["[roles] is missing: say", "initiator = \"a\", reflectors = [\"b\"]"],
    ),
    ("cpu = \"0;1\"", "cpu = \"0;1", &["line 12:"]),
    ("cpu = \"0;1\"", "seconds = 2", &["line 12:", "duplicate key"]),
    // The checks'.
    (
        "\"fifo:10\"",
        "\"fifo:100\"",
        &["line 23: grid.policy = \"fifo:100\": priority 100 is out of range: use 1 to 99"],
    ),
    ("    \"udp\",", "    \"xdp\",", &["line 21: grid.protocol = \"xdp\": protocol 'xdp' is not known"]),
    ("size = [64, 128]", "size = [64, 65508]", &["grid.size = 65508", "line 21: grid.protocol = \"udp\"", "65507"]),
    ("size = [64, 128]", "size = []", &["line 24: grid.size = []: axis 'size' has no value"]),
    ("size = [64, 128]", "size = [64, 64]", &["line 24: grid.size = 64: cell", "twice"]),
    ("cpu = \"0;1\"", "cpu = \"0;x\"", &["line 12: measure.cpu = \"0;x\": CPU 'x' cannot be read"]),
    (
        "cpu = \"0;1\"",
        "cpu = \"1\"\nreceive = \"spin\"",
        &["line 12: measure.cpu", "line 13: measure.receive", "CPU 1"],
    ),
    ("seconds = 0.5", "seconds = -0.5", &["line 11: measure.seconds = -0.5: seconds -0.5 is out of range: use 0.001"]),
    ("seconds = 0.5", "pacer = \"spin\"", &["line 11: measure.pacer = \"spin\"", "no grid has pace"]),
    (
        "initiator = \"a\"",
        "initiator = \"zz\"",
        &["line 7: roles.initiator = \"zz\": host 'zz' is not known: use one of: a, b"],
    ),
    ("kind = \"netns\"", "kind = \"netns\"\nhosts = 30", &["line 5: lab.hosts = 30", "use 1 to 26"]),
    ("name = \"t\"", "name = \"a b\"", &["line 1: name = \"a b\"", "use letters"]),
    ("name = \"t\"", "name = \"t\"\nrepetitions = 0", &["line 2: repetitions = 0", "use 1 or more"]),
    // The first of two.
    (
        "size = [64, 128]\n",
        "size = [64, 0]\nload = [\"heavy\"]\n",
        &["line 25: grid.load = [\"heavy\"]: load 'heavy' is not known: add [loads.heavy], or use none, build"],
    ),
];

fn refused(plan: &str) -> String {
    Plan::parse("t.toml", plan).unwrap_err().to_string()
}

#[test]
fn bad_plans_name_line_key_and_what_is_allowed() {
    Plan::parse("t.toml", GOOD).unwrap();
    for (from, to, words) in BAD {
        assert!(GOOD.contains(from), "{from}");
        let text = refused(&GOOD.replace(from, to));
        assert!(text.starts_with("plan t.toml: ") && !text.contains('\n'), "{from} -> {to}: {text}");
        for word in *words {
            assert!(text.contains(word), "{from} -> {to}: '{word}' is not in: {text}");
        }
        assert!(!text.contains("untagged"), "{text}");
    }
}

#[test]
fn what_comes_from_no_key_names_none() {
    let text = refused(&GOOD.replace("reflectors = [\"b\"]\n", ""));
    assert_eq!(text, "plan t.toml: the plan has no reflector: set roles.reflectors = [\"b\"]");
}

/// A plan of many keys is answered at once, whatever is wrong with it.
#[test]
fn long_plans() {
    let grids: String = (1000..1100)
        .map(|size| format!("[[grid]]\nprobe = [\"rr\"]\nprotocol = [\"tcp\"]\nsize = [{size}, {}]\n", size + 1000))
        .collect();
    let text = refused(&format!("{GOOD}{}", grids.replace("1050, 2050]", "1050, 0]")));
    assert!(text.contains("line 228: grid.size = 0: size 0 is out of range"), "{text}");
}
