//! The guest's initramfs: a cpio archive with all that its tests need.

use super::kernel::Kernel;
use crate::process;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What runs first in the guest.
const INIT: &str = include_str!("init.sh");
/// Tools that are not left to busybox: Windhover calls them, or the tests read the state with them.
const TOOLS: [&str; 5] = ["ip", "ethtool", "taskset", "chrt", "dash"];
/// Users that tests can name.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";

/// Builds Windhover and its guest tests and writes the initramfs; returns where it is. It is not compressed: unpacking
/// costs an emulated CPU more than copying.
pub(super) fn make(folder: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let built = build()?;
    let mut archive = Archive::default();
    for directory in ["dev", "proc", "sys", "run", "tmp", "root"] {
        archive.directory(directory);
    }
    archive.file("init", INIT.as_bytes());
    archive.file("etc/passwd", PASSWD.as_bytes());
    archive.file("etc/group", GROUP.as_bytes());
    let mut programs = vec![("usr/bin/guest-tests".to_owned(), stripped(&built.tests, folder)?)];
    // The tests start the binary by the path that cargo told them when it built them.
    let binary = built.binary.to_string_lossy().trim_start_matches('/').to_owned();
    archive.link("usr/bin/windhover", &format!("/{binary}"));
    programs.push((binary, stripped(&built.binary, folder)?));
    for tool in TOOLS {
        programs.push((format!("usr/bin/{tool}"), find(tool)?));
    }
    let mut libraries = BTreeSet::new();
    for (name, program) in &programs {
        archive.copy(name, program)?;
        libraries.extend(libraries_of(program)?);
    }
    for library in libraries {
        archive.copy(library.trim_start_matches('/'), Path::new(&library))?;
    }
    let busybox = find("busybox")?;
    archive.copy("bin/busybox", &busybox)?;
    for applet in process::output(&busybox.to_string_lossy(), &["--list"])?.lines() {
        if !TOOLS.contains(&applet) && !["busybox", "sh"].contains(&applet) {
            archive.link(&format!("bin/{applet}"), "/bin/busybox");
        }
    }
    // Busybox's own shell would take its applets before the tools.
    archive.link("bin/sh", "/usr/bin/dash");
    let mut order = String::new();
    for module in &kernel.modules {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        archive.copy(&format!("modules/{name}"), module)?;
        order.push_str(&format!("{name}\n"));
    }
    archive.file("modules/order", order.as_bytes());
    let path = folder.join("initramfs.cpio");
    crate::files::write(&path, archive.finish())?;
    Ok(path)
}

struct Built {
    binary: PathBuf,
    tests: PathBuf,
}

/// Has cargo build the guest tests, and with them the binary; where both are is what cargo says.
fn build() -> Result<Built> {
    let cargo = process::cargo();
    let arguments = ["test", "--locked", "--package", "windhover", "--test", "guest", "--no-run"];
    eprintln!("$ {cargo} {}", arguments.join(" "));
    let told = process::output(&cargo, &[&arguments[..], &["--message-format", "json-render-diagnostics"]].concat())?;
    let (mut binary, mut tests) = (None, None);
    for line in told.lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let Some(executable) = message.get("executable").and_then(serde_json::Value::as_str) else { continue };
        let target = |key: &str| message.pointer(&format!("/target/{key}")).cloned().unwrap_or_default();
        if target("name") == "guest" {
            tests = Some(PathBuf::from(executable));
        } else if target("name") == "windhover" && target("kind/0") == "bin" {
            binary = Some(PathBuf::from(executable));
        }
    }
    match (binary, tests) {
        (Some(binary), Some(tests)) => Ok(Built { binary, tests }),
        _ => bail!("cargo built no windhover with guest tests"),
    }
}

/// A copy without debug information, a quarter of the size.
fn stripped(program: &Path, folder: &Path) -> Result<PathBuf> {
    let name = program.file_name().with_context(|| program.display().to_string())?;
    let copy = folder.join(name);
    process::output("strip", &["-o", &copy.to_string_lossy(), &program.to_string_lossy()])?;
    Ok(copy)
}

fn find(program: &str) -> Result<PathBuf> {
    // Not every PATH has the folders of the system's tools.
    process::find(program)
        .or_else(|| {
            ["/usr/sbin", "/sbin"].iter().map(|folder| Path::new(folder).join(program)).find(|file| file.is_file())
        })
        .with_context(|| format!("there is no {program}"))
}

/// The libraries and the loader that a dynamically linked program needs, by absolute path.
fn libraries_of(program: &Path) -> Result<Vec<String>> {
    let told = process::output("ldd", &[&program.to_string_lossy()])?;
    Ok(told.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect())
}

/// A cpio archive in the kernel's format (newc, as in the kernel's buffer-format document).
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    known: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    fn directory(&mut self, name: &str) {
        if self.known.contains(name) {
            return;
        }
        self.add(name, 0o040_755, &[]);
    }

    /// A file that can be executed.
    fn file(&mut self, name: &str, content: &[u8]) {
        self.add(name, 0o100_755, content);
    }

    fn link(&mut self, name: &str, to: &str) {
        self.add(name, 0o120_777, to.as_bytes());
    }

    fn copy(&mut self, name: &str, from: &Path) -> Result<()> {
        let content = std::fs::read(from).with_context(|| from.display().to_string())?;
        self.file(name, &content);
        Ok(())
    }

    /// An entry, after the folders above it.
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        if let Some((above, _)) = name.rsplit_once('/') {
            self.directory(above);
        }
        self.known.insert(name.to_owned());
        self.entry(name, mode, content);
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name_size = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        // inode, mode, uid, gid, links, time, size, device (major, minor), its device (major, minor), name, checksum
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod unit {
    use super::Archive;

    #[test]
    fn an_entry_comes_after_its_folders_and_is_padded() {
        let mut archive = Archive::default();
        archive.file("a/b/c", b"hello");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        let names: Vec<usize> =
            ["a\0", "a/b\0", "a/b/c\0", "TRAILER!!!\0"].iter().filter_map(|name| text.find(name)).collect();
        assert_eq!(names.len(), 4);
        assert!(names.is_sorted());
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(text.matches("070701").count(), 4);
        // Mode and size of the file stand at their places in its header, which is 110 bytes long.
        let header = &text[names[2] - 110..names[2]];
        assert_eq!((&header[14..22], &header[54..62]), ("000081ED", "00000005"));
    }
}
