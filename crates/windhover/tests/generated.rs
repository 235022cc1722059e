//! What is made from the command line's definition: man pages, and completions in the shells themselves.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use std::path::Path;
use std::process::Command;
use support::{Folder, assert_code, run, stderr, stdout};

/// Calls the function that bash would call, and prints what it would offer.
const BASH: &str = r#"
. "$1"
COMP_LINE=$2 COMP_POINT=${#2}
read -ra COMP_WORDS <<< "$2"
[[ $2 != *' ' ]] || COMP_WORDS+=("")
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
_windhover windhover "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// The same of zsh, whose own part of the work is not there outside a terminal: it only takes the words.
const ZSH: &str = r#"
compdef() { :; }
compadd() { shift 2; print -rl -- "${(@P)1}"; }
words=("${(@s: :)2}") CURRENT=${#words}
. "$1"
_windhover
"#;

const FISH: &str = "source $argv[1]; complete -C $argv[2]";

/// What a shell offers for a line that ends at the cursor, in the folder of the stored runs.
fn offered(shell: &str, script: &str, line: &str) -> Vec<String> {
    let code = match shell {
        "bash" => BASH,
        "zsh" => ZSH,
        _ => FISH,
    };
    let mut command = Command::new(shell);
    command.args((shell == "zsh").then_some("-f")).args(["-c", code]);
    // Of the others the first one behind the code is $0.
    command.args((shell != "fish").then_some("shell")).args([script, line]);
    let program = Path::new(env!("CARGO_BIN_EXE_windhover")).parent().unwrap();
    let path = std::env::join_paths([program].into_iter().chain(["/usr/bin", "/bin"].map(Path::new))).unwrap();
    command.env("PATH", path).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"));
    let output = command.output().unwrap();
    assert!(stderr(&output).is_empty(), "{shell}: '{line}': {}", stderr(&output));
    // fish has descriptions behind a tab, and offers a run as a folder, too.
    let word = |line: &str| line.split('\t').next().unwrap().trim_end_matches(['/', '\n']).to_owned();
    let mut words: Vec<String> = stdout(&output).lines().map(word).collect();
    words.dedup();
    words
}

fn has(shell: &str) -> bool {
    let there = Command::new(shell).args(["-c", "true"]).output().is_ok();
    if !there {
        eprintln!("PARTLY values_are_completed: {shell} is not installed");
    }
    there
}

fn scripts(folder: &Folder) -> [(&'static str, String); 3] {
    assert_code(&run(&["generate", folder.path()]), 0);
    [("bash", "windhover.bash"), ("zsh", "_windhover"), ("fish", "windhover.fish")]
        .map(|(shell, name)| (shell, format!("{}/completions/{name}", folder.path())))
}

#[test]
fn values_are_completed() {
    let folder = Folder::new("completions");
    for (shell, script) in scripts(&folder).iter().filter(|(shell, _)| has(shell)) {
        let offers = |line: &str| offered(shell, script, line);
        assert_eq!(offers("windhover tune apply network"), ["network-latency"], "{shell}");
        assert!(offers("windhover tune apply ").contains(&"paper-2019".to_owned()), "{shell}");
        assert!(offers("windhover bypass run --profile ").contains(&"latency-best".to_owned()), "{shell}");
        for line in
            ["report golden/", "show golden/", "compare golden/one golden/", "compare golden/one --with golden/"]
        {
            let runs = offers(&format!("windhover {line}"));
            assert_eq!(runs, ["golden/four", "golden/one", "golden/three", "golden/two"], "{shell}: {line}");
        }
        assert!(offers("windhover report ").contains(&"golden/one".to_owned()), "{shell}: runs a folder further down");
        assert!(offers("windhover compare golden/one --axis po").contains(&"policy".to_owned()), "{shell}");
        let cells = offers("windhover plot golden/one --cell ");
        assert!(cells.len() > 1 && cells.iter().all(|cell| cell.contains("probe=")), "{shell}: {cells:?}");
        assert!(offers("windhover shield --nic l").contains(&"lo".to_owned()), "{shell}");
    }
}

/// bash splits words at = and :, so that only what follows is replaced; the others take the whole word.
#[test]
fn values_behind_a_sign_are_completed() {
    let folder = Folder::new("completions-signs");
    for (shell, script) in scripts(&folder).iter().filter(|(shell, _)| has(shell)) {
        let offers = |line: &str| offered(shell, script, line);
        let whole =
            |before: &str, word: &str| if *shell == "bash" { word.to_owned() } else { format!("{before}{word}") };
        let policies = offers("windhover compare golden/one --where policy=o");
        assert_eq!(policies, [whole("policy=", "other")], "{shell}");
        let axis = offers("windhover compare golden/one --axis=poli");
        assert_eq!(axis, [whole("--axis=", "policy")], "{shell}");
    }
}

#[test]
fn labs_and_their_hosts_are_completed() {
    if !support::can_make_namespaces("labs_and_their_hosts_are_completed") {
        return;
    }
    let folder = Folder::new("completions-labs");
    let name = format!("c{}", std::process::id());
    assert_code(&run(&["lab", "up", &name]), 0);
    let tried = std::panic::catch_unwind(|| {
        for (shell, script) in scripts(&folder).iter().filter(|(shell, _)| has(shell)) {
            let offers = |line: &str| offered(shell, script, line);
            let hosts = [format!("{name}/a"), format!("{name}/b")];
            assert_eq!(offers(&format!("windhover lab exec {name}/")), hosts, "{shell}");
            assert_eq!(offers(&format!("windhover lab down {name}")), std::slice::from_ref(&name), "{shell}");
            assert!(offers("windhover campaign run plan.toml --lab ").contains(&"netns".to_owned()), "{shell}");
        }
    });
    assert_code(&run(&["lab", "down", &name]), 0);
    tried.unwrap();
}

/// What clap's scripts know goes on to be completed, without the commands that are for Windhover itself.
#[test]
fn words_of_the_command_line_are_completed() {
    let folder = Folder::new("completions-words");
    let [(shell, script), ..] = scripts(&folder);
    assert_eq!(offered(shell, &script, "windhover tu"), ["tune"]);
    assert!(offered(shell, &script, "windhover tune apply --dry").contains(&"--dry-run".to_owned()));
    assert_eq!(offered(shell, &script, "windhover tune apply latency --format j"), ["json"]);
    for hidden in ["keep", "guest", "complete"] {
        assert_eq!(offered(shell, &script, &format!("windhover {hidden}")), [""], "{hidden}");
    }
}

/// A synopsis said [--axis] and not of what, and examples stood behind everything under a heading of clap's.
#[test]
fn man_pages_name_values_and_have_examples() {
    let folder = Folder::new("man-pages");
    assert_code(&run(&["generate", folder.path()]), 0);
    let page = |name: &str| std::fs::read_to_string(format!("{}/man/{name}.1", folder.path())).unwrap();
    let synopsis = |name: &str| {
        let text = page(name).replace("\\fB", "").replace("\\fI", "").replace("\\fR", "").replace("\\-", "-");
        text.split(".SH SYNOPSIS\n").nth(1).unwrap().lines().next().unwrap().to_owned()
    };
    let compare = synopsis("windhover-compare");
    for words in ["windhover compare [", "[--axis FACTOR]", "[--with B ...]", "[--rtt]", "] A ..."] {
        assert!(compare.contains(words), "'{words}' is not in {compare}");
    }
    assert!(synopsis("windhover-shield").contains("[--guard[=SECS]]"), "{}", synopsis("windhover-shield"));
    assert!(synopsis("windhover-lab").ends_with(" COMMAND"), "{}", synopsis("windhover-lab"));
    let (mut seen, mut without) = (0, Vec::new());
    for file in std::fs::read_dir(folder.0.join("man")).unwrap().map(|file| file.unwrap().path()) {
        let (name, text) = (file.file_stem().unwrap().to_str().unwrap(), std::fs::read_to_string(&file).unwrap());
        assert!(!text.contains("Examples:") && !text.contains(".SH EXTRA"), "{name}");
        assert_eq!(text.matches(".ds Aq").count(), 2, "{name}: the head stands there once");
        // The pages of groups list their commands.
        let is_group = text.contains(".SH SUBCOMMANDS");
        if !is_group {
            seen += 1;
        }
        if !text.contains(".SH EXAMPLES\n.TP\n") && !is_group {
            without.push(name.to_owned());
        }
    }
    assert!(seen > 30 && without.is_empty(), "{seen} pages, without examples: {without:?}");
}
