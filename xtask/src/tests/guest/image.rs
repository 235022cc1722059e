//! What the tests need in a guest beside what `windhover lab boot` puts there: an archive that joins its image.

use crate::{files, process};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};

/// Tools that are not left to busybox: Windhover calls them, or the tests read the state with them.
const TOOLS: [&str; 4] = ["taskset", "chrt", "hwstamp_ctl", "dash"];
/// Tools that the guest has already.
const THERE: [&str; 4] = ["ip", "ethtool", "busybox", "sh"];

/// The program that boots guests, and what joins their images.
pub(super) struct Image {
    pub(super) binary: PathBuf,
    pub(super) overlay: PathBuf,
}

/// Builds Windhover and its guest tests and packs what they need; `volume_tools`: where [`super::VOLUME_TOOLS`] are.
pub(super) fn make(folder: &Path, volume_tools: Option<&Path>) -> Result<Image> {
    let built = build()?;
    let root = Root::make(folder.join("root"))?;
    root.program("usr/bin/guest-tests", &stripped(&built.tests, folder)?)?;
    // The tests start the binary by the path that cargo gave them when it built them.
    root.link(built.binary.to_string_lossy().trim_start_matches('/'), "/usr/bin/windhover")?;
    if let Some(tools) = volume_tools {
        for tool in ["mdadm", "lvm"] {
            root.program(&format!("usr/bin/{tool}"), &tools.join("sbin").join(tool))?;
        }
        for library in ["lib/x86_64-linux-gnu/libdevmapper-event.so.1.02.1", "usr/lib/x86_64-linux-gnu/libaio.so.1"] {
            root.program(library, &tools.join(library))?;
        }
    }
    let overlay = folder.join("overlay.cpio");
    root.pack(&overlay)?;
    Ok(Image { binary: built.binary, overlay })
}

/// Files of a guest in a folder: a shell, busybox and [`TOOLS`] to begin with.
pub(crate) struct Root {
    pub(super) folder: PathBuf,
    busybox: PathBuf,
}

impl Root {
    pub(crate) fn make(folder: PathBuf) -> Result<Self> {
        files::fresh(&folder)?;
        let root = Self { folder, busybox: find("busybox")? };
        for tool in TOOLS {
            root.program(&format!("usr/bin/{tool}"), &find(tool)?)?;
        }
        root.copy("bin/busybox", &root.busybox)?;
        for applet in process::output(&root.busybox.to_string_lossy(), &["--list"])?.lines() {
            if !TOOLS.contains(&applet) && !THERE.contains(&applet) {
                root.link(&format!("bin/{applet}"), "/bin/busybox")?;
            }
        }
        // Busybox's own shell would take its applets before the tools.
        root.link("bin/sh", "/usr/bin/dash")?;
        Ok(root)
    }

    pub(super) fn file(&self, name: &str, bytes: &[u8]) -> Result<()> {
        files::put(&self.folder, name, bytes, 0o755)
    }

    pub(super) fn copy(&self, name: &str, from: &Path) -> Result<()> {
        self.file(name, &std::fs::read(from).with_context(|| from.display().to_string())?)
    }

    /// A program with the libraries that it needs.
    pub(crate) fn program(&self, name: &str, from: &Path) -> Result<()> {
        self.copy(name, from)?;
        libraries_of(from)?.iter().try_for_each(|path| self.copy(path.trim_start_matches('/'), Path::new(path)))
    }

    pub(super) fn link(&self, name: &str, to: &str) -> Result<()> {
        let name = self.folder.join(name);
        name.parent().map_or(Ok(()), files::create)?;
        std::os::unix::fs::symlink(to, &name).with_context(|| name.display().to_string())
    }

    /// Packs everything so far into an archive that joins an image.
    pub(crate) fn pack(&self, archive: &Path) -> Result<()> {
        let pack = "cd \"$1\" && find . -mindepth 1 | \"$0\" cpio -o -H newc -R 0:0 > \"$2\"";
        let (busybox, folder) = (self.busybox.to_string_lossy(), self.folder.to_string_lossy());
        process::run("sh", &["-c", pack, &busybox, &folder, &archive.to_string_lossy()])
    }
}

pub(crate) struct Built {
    pub(crate) binary: PathBuf,
    tests: PathBuf,
}

/// Has cargo build the guest tests, and with them the binary; cargo reports where both are.
pub(crate) fn build() -> Result<Built> {
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
pub(crate) fn stripped(program: &Path, folder: &Path) -> Result<PathBuf> {
    let name = program.file_name().with_context(|| program.display().to_string())?;
    let copy = folder.join(name);
    process::output("strip", &["-o", &copy.to_string_lossy(), &program.to_string_lossy()])?;
    Ok(copy)
}

pub(super) fn find(program: &str) -> Result<PathBuf> {
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
