//! A kernel's modules: found by name, with those that they need, unpacked.

use super::Kernel;
use crate::GuestError;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use task::Launch;

/// How modules are packed, by the ending of the file, and what unpacks them to standard output with `-dc`.
const PACKERS: [(&str, &str); 3] = [("xz", "xz"), ("zst", "zstd"), ("gz", "gzip")];
/// How long one module may take to unpack.
const UNPACKING: Duration = Duration::from_secs(60);

/// The files of these modules and of those that they need, unpacked, in load order, without those built into the kernel.
pub(crate) fn load_order(kernel: &Kernel, wanted: &[&str]) -> Result<Vec<(String, Vec<u8>)>, GuestError> {
    let built_in = std::fs::read_to_string(kernel.modules.join("modules.builtin")).unwrap_or_default();
    let mut all = BTreeMap::new();
    list(&kernel.modules, &mut all)?;
    let built_in = built_in.lines().filter_map(|line| module_name(Path::new(line))).collect();
    let mut order = Order { kernel, all, done: built_in, files: Vec::new() };
    wanted.iter().try_for_each(|name| order.add(name))?;
    Ok(order.files)
}

/// A module's name by that of its file. File names have `-` where the kernel has `_`.
fn module_name(file: &Path) -> Option<String> {
    let (stem, packed) = file.file_name()?.to_str()?.split_once(".ko")?;
    (packed.is_empty() || packed.starts_with('.')).then(|| stem.replace('-', "_"))
}

fn list(folder: &Path, into: &mut BTreeMap<String, PathBuf>) -> Result<(), GuestError> {
    for entry in std::fs::read_dir(folder).map_err(GuestError::file("list", folder))?.flatten() {
        let path = entry.path();
        // Links lead to a kernel's source.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&path, into)?;
        } else if let Some(name) = module_name(&path) {
            into.insert(name, path);
        }
    }
    Ok(())
}

struct Order<'a> {
    kernel: &'a Kernel,
    all: BTreeMap<String, PathBuf>,
    done: BTreeSet<String>,
    files: Vec<(String, Vec<u8>)>,
}

impl Order<'_> {
    fn add(&mut self, name: &str) -> Result<(), GuestError> {
        let name = name.replace('-', "_");
        if !self.done.insert(name.clone()) {
            return Ok(());
        }
        let Some(path) = self.all.get(&name) else {
            let (release, folder) = (&self.kernel.release, self.kernel.modules.display());
            return GuestError::refused(format!(
                "kernel {release} has no module {name}, neither in {folder} nor built in: use a kernel that has it"
            ));
        };
        let content = unpacked(path)?;
        for needed in dependencies(&content) {
            self.add(&needed)?;
        }
        self.files.push((format!("{name}.ko"), content));
        Ok(())
    }
}

fn unpacked(path: &Path) -> Result<Vec<u8>, GuestError> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let Some((_, program)) = PACKERS.iter().find(|(packed, _)| *packed == ending) else {
        return std::fs::read(path).map_err(GuestError::file("read", path));
    };
    let done = Launch::new(*program).arg("-dc").arg(path).finish(b"", UNPACKING)?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    GuestError::failed(format!("{program} -dc {}: {}", path.display(), String::from_utf8_lossy(&done.stderr).trim()))
}

/// The dependencies in a module's `.modinfo` section.
fn dependencies(module: &[u8]) -> Vec<String> {
    let key = b"\0depends=";
    let Some(at) = module.windows(key.len()).position(|window| window == key) else { return Vec::new() };
    let value = module.get(at + key.len()..).unwrap_or_default();
    let value = value.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(value).split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_modinfo() {
        let module = b"\x7fELF\0license=GPL\0depends=ptp,mii\0retpoline=Y\0";
        assert_eq!(dependencies(module), ["ptp", "mii"]);
        assert_eq!(dependencies(b"\0depends=\0name=veth\0"), Vec::<String>::new());
        assert_eq!(dependencies(b"no module"), Vec::<String>::new());
    }

    #[test]
    fn modules_come_after_those_that_they_need_and_without_those_built_in() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("kernel/net")).unwrap();
        let module = |name: &str, needs: &str| {
            let content = format!("x\0depends={needs}\0");
            std::fs::write(root.join("kernel/net").join(name), content).unwrap();
        };
        module("virtio-net.ko", "failover,virtio,helper");
        module("failover.ko", "helper");
        module("helper.ko", "");
        std::fs::write(root.join("modules.builtin"), "kernel/drivers/virtio/virtio.ko\n").unwrap();
        let kernel = Kernel {
            name: "t".to_owned(),
            release: "6".to_owned(),
            image: root.join("vmlinuz-6"),
            modules: root.to_owned(),
        };
        let names = |wanted: &[&str]| -> Result<Vec<String>, GuestError> {
            Ok(load_order(&kernel, wanted)?.into_iter().map(|(name, _)| name).collect())
        };
        assert_eq!(names(&["virtio", "virtio_net"]).unwrap(), ["helper.ko", "failover.ko", "virtio_net.ko"]);
        let error = names(&["veth"]).unwrap_err();
        assert!(error.to_string().starts_with("kernel 6 has no module veth, neither in "), "{error}");
    }

    #[test]
    fn packed_modules_are_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ko.gz");
        let packed = Launch::new("gzip").arg("-c").finish(b"content", UNPACKING).unwrap();
        std::fs::write(&path, packed.stdout).unwrap();
        assert_eq!(unpacked(&path).unwrap(), b"content");
        std::fs::write(&path, "damaged").unwrap();
        assert!(unpacked(&path).unwrap_err().to_string().starts_with("gzip -dc "));
    }
}
