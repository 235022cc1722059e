//! A guest's first file system: what it holds, and the file that keeps it.

use crate::cache::{has, keep, need_space};
use crate::kernel::load_order;
use crate::{Archive, Cache, GuestError, Kernel, elf};
use std::hash::Hasher as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use task::Launch;

pub(crate) const PROGRAM: &str = "/usr/bin/windhover";
pub(crate) const INIT: &str = "/init";
/// The fingerprint of this program outside: symbols are cut off inside, which changes that of the file.
pub(crate) const BUILD: &str = "/etc/windhover-build";
/// The modules, and the order in which they load.
pub(crate) const MODULES: &str = "/modules";
/// What a guest always needs: its pipes to the host, and links between its hosts.
const NEEDED: [&str; 4] = ["virtio_pci", "virtio_console", "veth", "bridge"];
/// Programs that this one calls; in a guest without them what needs them fails with the reason.
const TOOLS: [(&str, bool); 2] = [("ip", true), ("ethtool", false)];
/// Folders that are mounted upon.
const FOLDERS: [&str; 7] = ["dev", "proc", "sys", "run", "tmp", "root", "var"];
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";
/// How many images and unpacked kernels are kept beside a new one, the last used ones.
const KEPT: usize = 11;
/// Of an image, for the check of the disk.
const SPACE: u64 = 300_000_000;
/// How long `ldd` may take.
const LISTING: Duration = Duration::from_secs(20);

/// The program that guests run, and the fingerprint by which both ends know that they are the same build.
#[derive(Debug, Clone)]
pub struct Program {
    pub path: PathBuf,
    pub build: String,
}

/// The image of a kernel with these modules beside the usual ones: an earlier one while nothing in it changed, else new.
pub(crate) fn ready(
    kernel: &Kernel,
    modules: &[&str],
    program: &Program,
    cache: &Cache,
) -> Result<PathBuf, GuestError> {
    let folder = cache.part("images")?;
    let parts = Parts::gather(kernel, modules, program)?;
    let path = folder.join(format!("{}-{:016x}.cpio", kernel.release, parts.fingerprint()));
    let _lock = Cache::lock(&folder)?;
    if has(&path) {
        return Ok(path);
    }
    need_space(&folder, SPACE, "an image")?;
    remove_old(&folder);
    keep(&path, &parts.archive(program)?.finish()).map(|()| path)
}

/// Distinguishes contents; no protection against forgery.
pub(crate) fn fingerprint_of(content: &[u8]) -> u64 {
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    hasher.write(content);
    hasher.finish()
}

fn remove_old(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_image = |path: &Path| path.extension().is_some_and(|ending| ending == "cpio" || ending == "elf");
    let images = entries.filter(|entry| is_image(&entry.path()));
    let mut by_age: Vec<(SystemTime, PathBuf)> =
        images.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    by_age.sort_unstable();
    let old = by_age.len().saturating_sub(KEPT);
    for (_, path) in by_age.iter().take(old) {
        let _ = std::fs::remove_file(path);
    }
}

/// Everything that decides what an image is; the program only by its fingerprint.
struct Parts {
    /// Name in the guest, permission bits, content.
    files: Vec<(String, u32, Vec<u8>)>,
    build: String,
}

impl Parts {
    fn gather(kernel: &Kernel, modules: &[&str], program: &Program) -> Result<Self, GuestError> {
        let mut files = Vec::new();
        let mut add = |name: &str, permissions, content: Vec<u8>| files.push((name.to_owned(), permissions, content));
        let wanted: Vec<&str> = NEEDED.iter().chain(modules).copied().collect();
        let mut order = String::new();
        for (name, content) in load_order(kernel, &wanted)? {
            order.push_str(&format!("{name}\n"));
            add(&format!("{MODULES}/{name}"), 0o644, content);
        }
        add(&format!("{MODULES}/order"), 0o644, order.into_bytes());
        add(BUILD, 0o644, program.build.clone().into_bytes());
        for (name, text) in [("etc/passwd", PASSWD), ("etc/group", GROUP)] {
            add(name, 0o644, text.as_bytes().to_vec());
        }
        if let Some(text) = os_release(kernel) {
            add("etc/os-release", 0o644, text);
        }
        if let Some(configuration) = kernel.configuration() {
            add(&format!("boot/config-{}", kernel.release), 0o644, configuration);
        }
        let mut programs = vec![program.path.clone()];
        for (tool, is_needed) in TOOLS {
            match find_program(tool) {
                Some(path) => {
                    add(&format!("usr/bin/{tool}"), 0o755, read(&path)?);
                    programs.push(path);
                }
                None if is_needed => {
                    return GuestError::refused(format!("there is no {tool}, which guests need: install iproute2"));
                }
                None => {}
            }
        }
        for program in &programs {
            for library in libraries(program)? {
                add(&library, 0o755, read(Path::new(&library))?);
            }
        }
        Ok(Self { files, build: program.build.clone() })
    }

    /// Distinguishes images; no protection against forgery.
    fn fingerprint(&self) -> u64 {
        let mut hasher = std::collections::hash_map::DefaultHasher::new();
        for (name, permissions, content) in &self.files {
            hasher.write(name.as_bytes());
            hasher.write_u32(*permissions);
            hasher.write_usize(content.len());
            hasher.write(content);
        }
        hasher.write(self.build.as_bytes());
        hasher.finish()
    }

    fn archive(&self, program: &Program) -> Result<Archive, GuestError> {
        let mut archive = Archive::default();
        FOLDERS.iter().for_each(|folder| archive.folder(folder));
        // The kernel opens it for the first process before that can mount anything.
        archive.device("dev/console", 0o600, (5, 1));
        let mut content = read(&program.path)?;
        elf::loaded_part(&mut content);
        archive.file(PROGRAM, 0o755, &content);
        archive.link(INIT, PROGRAM);
        for (name, permissions, content) in &self.files {
            archive.file(name, *permissions, content);
        }
        Ok(archive)
    }
}

/// The os-release of a kernel's folder, else of this machine.
fn os_release(kernel: &Kernel) -> Option<Vec<u8>> {
    let own = kernel.image.parent()?.parent()?.join("etc/os-release");
    [own, PathBuf::from("/etc/os-release")].iter().find_map(|path| std::fs::read(path).ok())
}

fn read(path: &Path) -> Result<Vec<u8>, GuestError> {
    std::fs::read(path).map_err(GuestError::file("read", path))
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Not every PATH has the folders of the system's tools.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The libraries and the loader that a program needs, by absolute path; none for one that is linked statically.
fn libraries(program: &Path) -> Result<Vec<String>, GuestError> {
    let told = Launch::new("ldd").arg(program).env("LC_ALL", "C").finish(b"", LISTING)?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    if let Some(missing) = told.lines().find(|line| line.contains("not found")) {
        return GuestError::refused(format!("{}: its library is missing: {}", program.display(), missing.trim()));
    }
    Ok(told.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(root: &Path) -> Kernel {
        let modules = root.join("lib/modules/6");
        std::fs::create_dir_all(&modules).unwrap();
        std::fs::create_dir_all(root.join("boot")).unwrap();
        std::fs::write(modules.join("modules.builtin"), NEEDED.map(|name| format!("kernel/{name}.ko\n")).concat())
            .unwrap();
        std::fs::write(root.join("boot/config-6"), "CONFIG_HZ=250\n").unwrap();
        Kernel { name: "t".to_owned(), release: "6".to_owned(), image: root.join("boot/vmlinuz-6"), modules }
    }

    #[test]
    fn an_image_is_made_again_only_when_something_in_it_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (kernel, cache) = (kernel(folder.path()), Cache::at(&folder.path().join("cache")));
        let mut program = Program { path: std::env::current_exe().unwrap(), build: "1".to_owned() };
        let first = ready(&kernel, &[], &program, &cache).unwrap();
        let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
        let made = inode(&first);
        assert_eq!(ready(&kernel, &[], &program, &cache).unwrap(), first);
        assert_eq!(inode(&first), made, "it was written again");
        program.build = "2".to_owned();
        let second = ready(&kernel, &[], &program, &cache).unwrap();
        assert_ne!(second, first);
        std::fs::write(folder.path().join("boot/config-6"), "CONFIG_HZ=1000\n").unwrap();
        assert_ne!(ready(&kernel, &[], &program, &cache).unwrap(), second);
        let error = ready(&kernel, &["igb"], &program, &cache).unwrap_err().to_string();
        assert!(error.starts_with("kernel 6 has no module igb"), "{error}");
    }

    #[test]
    fn the_images_used_last_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        for age in 0..15_u64 {
            let file = std::fs::File::create(folder.path().join(format!("{age}.cpio"))).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age * 60)).unwrap();
        }
        remove_old(folder.path());
        let left = (0..15).filter(|age| folder.path().join(format!("{age}.cpio")).exists());
        assert_eq!(left.collect::<Vec<_>>(), (0..KEPT).collect::<Vec<_>>());
    }
}
