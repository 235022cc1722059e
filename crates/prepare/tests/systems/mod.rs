//! Trees of files made from a text that describes a system.
//!
//! ```text
//! # a comment
//! /proc/cmdline: one line
//! /proc/stat:
//!     several lines, indented by four spaces
//! /sys/kernel/debug/x!              there, and cannot be read
//! /sys/class/net/eth0 -> ../../x    a symbolic link
//! task PID NAME [kernel] [fixed] cpus=LIST [fifo:N|rr:N] [locked=KB]
//! irq N cpus=LIST effective=LIST counts=A,B,… action=NAME [managed]
//! ```

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A tree in a folder of its own, removed with it.
pub(crate) struct System {
    folder: tempfile::TempDir,
    written: Vec<PathBuf>,
}

impl System {
    /// The system of that name.
    pub(crate) fn load(name: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../prepare/tests/fixtures/systems/{name}.txt"));
        let text = std::fs::read_to_string(&file).unwrap();
        let mut system = Self { folder: tempfile::tempdir().unwrap(), written: Vec::new() };
        let mut table = Vec::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split(' ');
            match words.next() {
                Some("task") => system.task(line),
                Some("irq") => system.irq(line, &mut table),
                _ => {
                    if let Some((path, target)) = line.split_once(" -> ") {
                        system.link(path, target);
                    } else if let Some(path) = line.strip_suffix('!') {
                        // A folder cannot be read as a file, not even by root.
                        std::fs::create_dir_all(system.path(path)).unwrap();
                    } else {
                        // Paths of devices have colons too.
                        let (path, rest) = line
                            .split_once(": ")
                            .or_else(|| Some((line.strip_suffix(':')?, "")))
                            .unwrap_or_else(|| panic!("{name}: {line}"));
                        let mut content = rest.to_owned();
                        while let Some(more) = lines.next_if(|next| next.starts_with("    ")) {
                            if !content.is_empty() {
                                content.push('\n');
                            }
                            content.push_str(&more[4..]);
                        }
                        content.push('\n');
                        system.put(path, &content);
                    }
                }
            }
        }
        if !table.is_empty() {
            let columns =
                table.iter().map(|(_, counts, _): &(String, Vec<String>, String)| counts.len()).max().unwrap();
            let mut text: String = (0..columns).map(|cpu| format!("       CPU{cpu}")).collect();
            text.push('\n');
            for (number, counts, action) in table {
                let _ =
                    writeln!(text, "{number:>4}: {}  PCI-MSIX-0000:00:01.0   0-edge      {action}", counts.join("  "));
            }
            let _ = writeln!(text, " LOC: {}  Local timer interrupts\n ERR: 0", "1000  ".repeat(columns));
            system.put("/proc/interrupts", &text);
        }
        system
    }

    /// Where the tree begins.
    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// All files with content.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.written.clone()
    }

    /// Writes a file of the tree.
    pub(crate) fn put(&mut self, path: &str, content: &str) {
        let file = self.path(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, content).unwrap();
        self.written.push(file);
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root().join(path.strip_prefix('/').unwrap())
    }

    fn link(&self, path: &str, target: &str) {
        assert!(!target.starts_with('/'), "{target} leaves the tree");
        let link = self.path(path);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, link).unwrap();
    }

    fn task(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let (pid, name) = (words[1], words[2]);
        let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
        let mut flags = 0x0040_0000_u64;
        flags |= if words.contains(&"kernel") { 0x0020_0000 } else { 0 };
        flags |= if words.contains(&"fixed") { 0x0400_0000 } else { 0 };
        let (policy, priority) = match (value("fifo:"), value("rr:")) {
            (Some(priority), _) => (1, priority),
            (_, Some(priority)) => (2, priority),
            _ => (0, "0"),
        };
        let zeros = |count: usize| "0 ".repeat(count);
        let stat =
            format!("{pid} ({name}) S 1 0 0 0 -1 {flags} 5 0 1 0 {}0 {priority} {policy} {}", zeros(25), zeros(10));
        let fields = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(41 - 3).unwrap().to_owned();
        assert_eq!(fields, policy.to_string(), "the policy is field 41");
        self.put(&format!("/proc/{pid}/stat"), &stat);
        self.put(&format!("/proc/{pid}/comm"), &format!("{name}\n"));
        let status = format!(
            "Name:\t{name}\nVmLck:\t{:>8} kB\nCpus_allowed_list:\t{}\n",
            value("locked=").unwrap_or("0"),
            value("cpus=").unwrap()
        );
        self.put(&format!("/proc/{pid}/status"), &status);
    }

    fn irq(&mut self, line: &str, table: &mut Vec<(String, Vec<String>, String)>) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = words[1];
        let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)).unwrap().to_owned();
        self.put(&format!("/proc/irq/{number}/smp_affinity_list"), &value("cpus="));
        self.put(&format!("/proc/irq/{number}/effective_affinity_list"), &value("effective="));
        self.put(&format!("/sys/kernel/irq/{number}/actions"), &value("action="));
        if words.contains(&"managed") {
            let file = self.path(&format!("/proc/irq/{number}/smp_affinity_list"));
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o444)).unwrap();
        }
        table.push((number.to_owned(), value("counts=").split(',').map(str::to_owned).collect(), value("action=")));
    }
}
