use super::*;
use crate::console::{TAIL, last_words, plain, tail};

#[test]
fn each_mode_has_its_rule() {
    assert!(GuestMode::ALL.iter().all(|mode| rule(*mode).mode == *mode));
}

#[test]
fn instruction_counting_has_one_cpu() {
    let spec = GuestSpec { cpus: 2, ..GuestSpec::new("debian-6.1") };
    assert!(spec.check().unwrap_err().to_string().starts_with("mode icount cannot run 2 CPUs"));
}

/// Catches: the second guest of a wire, which has host b alone, had a port for an agent of host a.
#[test]
fn each_host_of_a_wire_has_its_agents_port() {
    for (number, own, other) in
        [(0, "windhover.agent.a", "windhover.agent.b"), (1, "windhover.agent.b", "windhover.agent.a")]
    {
        let spec = crate::wire::joined(&GuestSpec::new("debian-6.1"), number, Path::new("/f"));
        let line = arguments(&spec, Path::new("/k"), Path::new("/i"), Path::new("/f")).join(" ");
        assert!(line.contains(&format!("name={own} ")) && !line.contains(other), "{line}");
        assert!(line.contains(&format!("windhover.hosts=1 windhover.first={number} ")), "{line}");
    }
}

/// Catches: a comma in the folder for temporary files ended the value of a QEMU option.
#[test]
fn a_comma_in_a_path_ends_no_option() {
    let folder = Path::new("/a,b");
    let spec = crate::wire::joined(&GuestSpec::new("debian-6.1"), 0, folder);
    let arguments = arguments(&spec, Path::new("/k"), Path::new("/i"), folder);
    let mut paths = Vec::new();
    for option in arguments.iter().filter(|argument| argument.contains("/a")) {
        // As QEMU reads options: two commas are one of the value.
        for part in option.replace(",,", "\0").split(',') {
            let value = part.split_once('=').map_or("", |(_, value)| value);
            if value.starts_with("/a") {
                paths.push(value.replace('\0', ","));
            }
        }
    }
    let names: Vec<&str> = paths.iter().map(|path| path.strip_prefix("/a,b/").unwrap()).collect();
    assert_eq!(names, ["console", "control", "agent-a", "agent-machine", "wire-0", "wire-1"]);
}

/// Catches: of a QEMU that ended once its sockets were there, only the status was told.
#[test]
fn what_qemu_said_last_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let ended_by = |script: &str| {
        let errors = OwnedFd::from(File::create(errors_file(folder.path())).unwrap());
        let launch = Launch::new("sh").args(["-c", script]).stderr(Stream::File(errors));
        ended("the guest ended", &mut launch.start().unwrap(), folder.path())
    };
    let said = ended_by("echo 'qemu: warning: no x' >&2; echo 'qemu: a' >&2; echo 'qemu: b' >&2; exit 3");
    let words =
        format!("the guest ended ({QEMU}: exit status: 3); {QEMU} said: qemu: a | qemu: b; its console is empty");
    assert_eq!(said, words);
    assert_eq!(ended_by("echo 'qemu: warning: no x' >&2"), "the guest ended; its console is empty");
}

/// Catches: a console of any length was read as a whole for its last lines.
#[test]
fn only_the_end_of_a_console_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("console");
    let long = format!("first\n{}\nlast\n", "x".repeat(TAIL));
    std::fs::write(&path, &long).unwrap();
    assert_eq!(tail(&path), long[long.len() - TAIL..]);
    std::fs::write(&path, "short").unwrap();
    assert_eq!((tail(&path).as_str(), tail(&folder.path().join("none")).as_str()), ("short", ""));
}

#[test]
fn silence_ends_with_each_line() {
    let began = Instant::now();
    let mut heard = ConsoleState { bytes: 0, at: began };
    let at = |seconds| began + Duration::from_secs(seconds);
    let seen: Vec<u64> = [(0, 5), (10, 20), (10, 25), (11, 49), (11, 79)]
        .into_iter()
        .map(|(bytes, seconds)| heard.silence(bytes, at(seconds)).as_secs())
        .collect();
    assert_eq!(seen, [5, 0, 5, 0, 30]);
}

#[test]
fn a_panic_is_told_before_the_last_lines() {
    let panic = "[ 1.0] Kernel panic - not syncing: VFS";
    let console = format!("one\n{panic}\nCPU: 0\n\n a \nb\n---[ end Kernel panic - not syncing: VFS ]---\n");
    let last = "a | b | ---[ end Kernel panic - not syncing: VFS ]---";
    assert_eq!(last_words(&console).unwrap(), format!("{panic} | {last}"));
    assert_eq!(last_words("a\nb\n").unwrap(), "a | b");
    assert_eq!(last_words(" \n"), None);
}

/// Catches: of an escape sequence on the console only ESC was taken out, and `[0;31m` stayed.
#[test]
fn escape_sequences_are_taken_out_as_a_whole() {
    for (text, expected) in [
        ("\u{1b}[0;1;31mFAILED\u{1b}[0m to start", "FAILED to start"),
        ("\u{1b}[2J\u{1b}[01;01H\u{1b}[?25lBooting", "Booting"),
        ("\u{1b}]0;a title\u{7}x\u{1b}]2;y\u{1b}\\z", "xz"),
        ("\u{1b}(B\u{1b}7a\u{1b}8\u{8}\r\nb\tc", "a\nb\tc"),
        ("\u{1b}[31", ""),
        ("\u{1b}", ""),
        ("\u{1b}]never ended\nnext", "\nnext"),
        ("\u{9b}31mred µs", "31mred µs"),
    ] {
        assert_eq!(plain(text), expected, "{text:?}");
    }
    assert_eq!(last_words("\u{1b}[31mend\u{1b}[0m\n").unwrap(), "end");
}

/// Catches: words behind the kernel's name were a part of the name in `lab boot`.
#[test]
fn words_behind_a_kernel_join_its_command_line() {
    let spec = GuestSpec::new("debian-6.12 preempt=full  threadirqs");
    assert_eq!(
        (spec.kernel.as_str(), spec.words),
        ("debian-6.12", vec!["preempt=full".to_owned(), "threadirqs".to_owned()])
    );
}

/// Catches: an emulated kernel, which takes several times as long, was given up as soon as another.
#[test]
fn emulated_guests_may_boot_longer_and_say_that_their_times_are_simulated() {
    for mode in GuestMode::ALL {
        let is_emulated = mode != GuestMode::Kvm;
        assert_eq!((rule(mode).patience > 1, simulated(mode).is_some()), (is_emulated, is_emulated), "{mode}");
        assert!(simulated(mode).is_none_or(|words| words.contains("simulated")));
    }
}
