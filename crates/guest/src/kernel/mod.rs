//! Kernels: which there are, where they are, and their modules.

mod debian;
mod modules;
mod unpacked;

pub use debian::names;

use crate::{Cache, GuestError};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    pub name: String,
    /// As `uname -r` prints it.
    pub release: String,
    pub image: PathBuf,
    /// The folder with its modules (`…/lib/modules/RELEASE`).
    pub modules: PathBuf,
}

impl Kernel {
    /// A kernel by one of Debian's names ([`names`]), fetched where it is missing, or by the path of a
    /// `vmlinuz-RELEASE` with modules in `../lib/modules/RELEASE` or `/lib/modules/RELEASE`. `note` gets what takes
    /// long.
    pub fn find(name: &str, cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<Self, GuestError> {
        let image = if name.contains('/') { PathBuf::from(name) } else { debian::ready(name, cache, note)? };
        Self::at(name, &image)
    }

    fn at(name: &str, image: &Path) -> Result<Self, GuestError> {
        if !image.is_file() {
            let remedy = format!("name a vmlinuz-RELEASE that is there, or one of {}", names().join(", "));
            return GuestError::refused(format!("kernel {}: there is no such file: {remedy}", image.display()));
        }
        let release = image.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("vmlinuz-"));
        let Some(release) = release else {
            let remedy = "call the file vmlinuz-RELEASE, as uname -r prints it, so that its modules are found";
            return GuestError::refused(format!("kernel {}: its name has no release: {remedy}", image.display()));
        };
        let image = std::path::absolute(image).map_err(GuestError::file("find", image))?;
        let beside = image.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let places = [beside, Path::new("/")].map(|root| root.join("lib/modules").join(release));
        match places.iter().find(|place| place.join("modules.builtin").is_file()) {
            Some(modules) => {
                Ok(Self { name: name.to_owned(), release: release.to_owned(), modules: modules.clone(), image })
            }
            None => GuestError::refused(format!(
                "kernel {}: its modules are neither in {} nor in {}: copy them there",
                image.display(),
                places[0].display(),
                places[1].display()
            )),
        }
    }

    /// Its configuration, where it is beside the image or its modules.
    pub(crate) fn configuration(&self) -> Option<Vec<u8>> {
        let beside = self.image.with_file_name(format!("config-{}", self.release));
        [beside, self.modules.join("config")].iter().find_map(|path| std::fs::read(path).ok())
    }
}

pub(crate) use modules::load_order;
pub(crate) use unpacked::unpacked;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_by_path_has_its_modules_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let image = root.join("boot/vmlinuz-6.0.0-test");
        let find = |path: &Path| Kernel::find(&path.to_string_lossy(), &Cache::at(root), &mut |_| {});
        let said = |path: &Path| find(path).unwrap_err().to_string();
        assert!(
            said(&image).contains("there is no such file: name a vmlinuz-RELEASE that is there, or one of debian-6.1,")
        );
        std::fs::create_dir_all(root.join("boot")).unwrap();
        std::fs::write(&image, "").unwrap();
        assert!(said(&image).contains("its modules are neither in "), "{}", said(&image));
        let modules = root.join("lib/modules/6.0.0-test");
        std::fs::create_dir_all(&modules).unwrap();
        std::fs::write(modules.join("modules.builtin"), "").unwrap();
        let found = find(&image).unwrap();
        assert_eq!((found.release.as_str(), &found.modules, &found.image), ("6.0.0-test", &modules, &image));
        let nameless = root.join("boot/bzImage");
        std::fs::write(&nameless, "").unwrap();
        assert!(said(&nameless).contains("its name has no release"));
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let error = Kernel::find("debian-7", &Cache::at(folder.path()), &mut |_| {}).unwrap_err();
        assert_eq!(
            error.to_string(),
            "kernel 'debian-7' is not known: use debian-6.1, debian-6.1-rt, debian-6.12, debian-6.12-rt, or the path of a \
             vmlinuz-RELEASE"
        );
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing was made");
    }
}
