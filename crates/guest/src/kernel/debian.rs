//! Debian's kernels: resolved from metapackages.

use crate::apt::{self, Apt, BACKPORTS, BOOKWORM, CacheFolder, Suite};
use crate::{Cache, GuestError};
use std::path::{Path, PathBuf};

struct Package {
    name: &'static str,
    /// What depends on the newest build of it.
    metapackage: &'static str,
    suites: &'static [Suite],
}

/// A plain kernel and its PREEMPT_RT twin come from one source package, so of one version.
const PACKAGES: [Package; 4] = [
    Package { name: "debian-6.1", metapackage: "linux-image-amd64", suites: BOOKWORM },
    Package { name: "debian-6.1-rt", metapackage: "linux-image-rt-amd64", suites: BOOKWORM },
    Package { name: "debian-6.12", metapackage: "linux-image-amd64", suites: BACKPORTS },
    Package { name: "debian-6.12-rt", metapackage: "linux-image-rt-amd64", suites: BACKPORTS },
];

/// Unpacked modules that no guest has hardware for: half of the package.
const UNUSED: [&str; 5] = ["sound", "drivers/gpu", "drivers/media", "drivers/staging", "drivers/net/wireless"];

/// The names of all kernels that can be fetched.
pub fn names() -> Vec<&'static str> {
    PACKAGES.iter().map(|package| package.name).collect()
}

/// The image of a kernel, fetched where the cache does not have it.
pub(super) fn ready(name: &str, cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<PathBuf, GuestError> {
    let Some(package) = PACKAGES.iter().find(|package| package.name == name) else {
        let known = names().join(", ");
        return GuestError::refused(format!(
            "kernel '{name}' is not known: use {known}, or the path of a vmlinuz-RELEASE"
        ));
    };
    let wanted = CacheFolder {
        what: format!("kernel {name}"),
        part: "kernels",
        name,
        suites: package.suites,
        size: "70 to 110 MB",
        space: 700_000_000,
        otherwise: "or name a kernel by the path of a vmlinuz-RELEASE",
    };
    let (folder, release) = apt::ready(&wanted, cache, note, |apt, unpacked| unpack(package, apt, unpacked))?;
    Ok(folder.join("boot").join(format!("vmlinuz-{release}")))
}

/// Gives back the kernel's release.
fn unpack(package: &Package, apt: &Apt<'_>, unpacked: &Path) -> Result<String, GuestError> {
    let Some(newest) = apt.depends(package.metapackage)?.pop() else {
        return GuestError::failed(format!("apt knows no kernel behind {}", package.metapackage));
    };
    apt.unpack(&[&newest], unpacked)?;
    let images = apt::files_in(&unpacked.join("boot"), |name| name.starts_with("vmlinuz-"))?;
    let release = images.first().and_then(|image| image.file_name()?.to_str()?.strip_prefix("vmlinuz-"));
    let Some(release) = release.map(str::to_owned) else {
        return GuestError::failed(format!("package {newest} has no kernel"));
    };
    let modules = unpacked.join("lib/modules").join(&release);
    if !modules.is_dir() {
        let newer = unpacked.join("usr/lib");
        std::fs::rename(&newer, unpacked.join("lib")).map_err(GuestError::file("move", &newer))?;
    }
    UNUSED.iter().try_for_each(|unused| apt::clear(&modules.join("kernel").join(unused)))?;
    Ok(release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_of_the_cache_is_found_by_its_release() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("kernels/debian-6.1");
        std::fs::create_dir_all(&kept).unwrap();
        std::fs::write(kept.join("release"), "6.1.0-1-amd64").unwrap();
        let image = ready("debian-6.1", &Cache::at(folder.path()), &mut |_| panic!("it was fetched")).unwrap();
        assert_eq!(image, kept.join("boot/vmlinuz-6.1.0-1-amd64"));
    }
}
