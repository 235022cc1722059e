//! Debian's kernels: resolved from metapackages, downloaded and verified by apt, unpacked into the cache. Nothing is
//! installed, and the machine's own lists of packages stay as they are.

use crate::cache::need_space;
use crate::{Cache, GuestError};
use std::path::{Path, PathBuf};
use std::time::Duration;
use task::Launch;

/// A kernel of Debian's.
struct Package {
    name: &'static str,
    /// What depends on the newest build of it.
    metapackage: &'static str,
    /// The lists that have it: folder of the archive, suite.
    suites: &'static [(&'static str, &'static str)],
}

const BOOKWORM: &[(&str, &str)] = &[("debian", "bookworm"), ("debian-security", "bookworm-security")];
const BACKPORTS: &[(&str, &str)] = &[("debian", "bookworm-backports")];

/// A plain kernel and its PREEMPT_RT twin come from one source package, so of one version.
const PACKAGES: [Package; 4] = [
    Package { name: "debian-6.1", metapackage: "linux-image-amd64", suites: BOOKWORM },
    Package { name: "debian-6.1-rt", metapackage: "linux-image-rt-amd64", suites: BOOKWORM },
    Package { name: "debian-6.12", metapackage: "linux-image-amd64", suites: BACKPORTS },
    Package { name: "debian-6.12-rt", metapackage: "linux-image-rt-amd64", suites: BACKPORTS },
];

/// The archive of machines that have no mirror of their own.
const ARCHIVE: &str = "http://deb.debian.org/";
/// The keys that apt verifies the lists with.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// What a download and its unpacked content need at most.
const SPACE: u64 = 700_000_000;
/// How long apt may take for one step.
const FETCHING: Duration = Duration::from_secs(900);
/// Unpacked modules that no guest has hardware for: half of the package.
const UNUSED: [&str; 5] = ["sound", "drivers/gpu", "drivers/media", "drivers/staging", "drivers/net/wireless"];
/// Written last: a folder that has it is whole.
const RELEASE: &str = "release";

/// The names of all kernels that can be fetched.
#[must_use]
pub fn names() -> Vec<&'static str> {
    PACKAGES.iter().map(|package| package.name).collect()
}

/// The image of a kernel, fetched where the cache does not have it. To get a newer one, remove its folder.
pub(super) fn ready(name: &str, cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<PathBuf, GuestError> {
    let Some(package) = PACKAGES.iter().find(|package| package.name == name) else {
        let known = names().join(", ");
        return GuestError::refused(format!(
            "kernel '{name}' is not known: use {known}, or the path of a vmlinuz-RELEASE"
        ));
    };
    let kernels = cache.part("kernels")?;
    let folder = kernels.join(name);
    let image = |release: &str| folder.join("boot").join(format!("vmlinuz-{}", release.trim()));
    if let Ok(release) = std::fs::read_to_string(folder.join(RELEASE)) {
        return Ok(image(&release));
    }
    let _lock = Cache::lock(&kernels)?;
    if let Ok(release) = std::fs::read_to_string(folder.join(RELEASE)) {
        return Ok(image(&release));
    }
    need_space(&kernels, SPACE, &format!("kernel {name}"))?;
    let work = kernels.join(format!("{name}.new"));
    clear(&work)?;
    clear(&folder)?;
    let fetched = fetch(package, &work, note);
    let fetched = fetched.and_then(|release| {
        std::fs::rename(work.join("unpacked"), &folder).map_err(GuestError::file("write", &folder))?;
        Ok(release)
    });
    // Nothing of a download that failed is kept.
    let cleared = clear(&work);
    let release = fetched?;
    cleared?;
    Ok(image(&release))
}

fn clear(folder: &Path) -> Result<(), GuestError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(GuestError::file("remove", folder)(error)),
        _ => Ok(()),
    }
}

/// Downloads the package and unpacks it into `WORK/unpacked`; gives back the kernel's release.
fn fetch(package: &Package, work: &Path, note: &mut dyn FnMut(&str)) -> Result<String, GuestError> {
    let apt = Apt::new(package, work)?;
    note(&format!("fetching kernel {} by apt (once, 70 to 110 MB)", package.name));
    apt.run("apt-get", &["update"])?;
    let depends = apt.run("apt-cache", &["depends", "--important", package.metapackage])?;
    let newest = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: ")).next_back();
    let Some(newest) = newest else {
        return GuestError::failed(format!("apt knows no kernel behind {}", package.metapackage));
    };
    apt.run("apt-get", &["download", newest])?;
    let archive = file_in(work, |name| name.ends_with(".deb"))?;
    let unpacked = work.join("unpacked");
    run(Launch::new("dpkg-deb").arg("-x").arg(&archive).arg(&unpacked), "dpkg-deb -x")?;
    let image = file_in(&unpacked.join("boot"), |name| name.starts_with("vmlinuz-"))?;
    let release = image.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("vmlinuz-"));
    let release = release.unwrap_or_default().to_owned();
    let modules = unpacked.join("lib/modules").join(&release);
    if !modules.is_dir() {
        let newer = unpacked.join("usr/lib");
        std::fs::rename(&newer, unpacked.join("lib")).map_err(GuestError::file("move", &newer))?;
    }
    for unused in UNUSED {
        clear(&modules.join("kernel").join(unused))?;
    }
    let file = unpacked.join(RELEASE);
    std::fs::write(&file, &release).map_err(GuestError::file("write", &file))?;
    Ok(release)
}

fn file_in(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf, GuestError> {
    let entries = std::fs::read_dir(folder).map_err(GuestError::file("list", folder))?;
    let found = entries.flatten().map(|entry| entry.path());
    let mut found = found.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted));
    found.next().ok_or_else(|| GuestError::Failed(format!("{} has no kernel", folder.display())))
}

/// apt with lists and caches of its own.
struct Apt<'a> {
    options: Vec<String>,
    folder: &'a Path,
}

impl<'a> Apt<'a> {
    fn new(package: &Package, work: &'a Path) -> Result<Self, GuestError> {
        let by_path = "or name a kernel by the path of a vmlinuz-RELEASE";
        for (program, of) in [("apt-get", "apt"), ("apt-cache", "apt"), ("dpkg-deb", "dpkg")] {
            if !is_on_path(program) {
                return GuestError::refused(format!(
                    "kernel {}: there is no {program}: install {of}, {by_path}",
                    package.name
                ));
            }
        }
        if !Path::new(KEYS).is_file() {
            let remedy = format!("install debian-archive-keyring, {by_path}");
            return GuestError::refused(format!("kernel {} cannot be verified without {KEYS}: {remedy}", package.name));
        }
        for folder in ["lists/partial", "cache/archives/partial"] {
            let folder = work.join(folder);
            std::fs::create_dir_all(&folder).map_err(GuestError::file("make", &folder))?;
        }
        let known = ["indextargets", "--format", "$(REPO_URI) $(ORIGIN)", "Created-By: Packages"];
        let known = run(Launch::new("apt-get").args(known), "apt-get indextargets").unwrap_or_default();
        let sources = work.join("sources.list");
        std::fs::write(&sources, sources_list(&known, package.suites)).map_err(GuestError::file("write", &sources))?;
        let set = |key: &str, value: &Path| format!("{key}={}", value.display());
        let options = [
            set("Dir::Etc::sourcelist", &sources),
            "Dir::Etc::sourceparts=-".to_owned(),
            set("Dir::State::lists", &work.join("lists")),
            set("Dir::Cache", &work.join("cache")),
            "APT::Sandbox::User=root".to_owned(),
        ];
        let options = options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect();
        Ok(Self { options, folder: work })
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, GuestError> {
        let launch = Launch::new(program).arg("-q").args(&self.options).args(arguments).directory(self.folder);
        run(launch.env("DEBIAN_FRONTEND", "noninteractive"), &format!("{program} {}", arguments.join(" ")))
    }
}

/// What a program printed; its last complaint as the error, on one line.
fn run(launch: Launch, what: &str) -> Result<String, GuestError> {
    let done = launch.env("LC_ALL", "C.UTF-8").finish(b"", FETCHING)?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    // apt's warnings say what its errors follow from.
    let said = said.lines().map(str::trim).find(|line| line.starts_with("E:")).or(said.lines().next_back());
    GuestError::failed(format!("{what}: {}", said.unwrap_or("failed without a word")))
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A sources file for these suites, on the mirrors that apt uses already for them, else on Debian's own.
fn sources_list(known: &str, suites: &[(&str, &str)]) -> String {
    let line = |(folder, suite): &(&str, &str)| {
        let mirrors = known.lines().filter_map(|line| line.strip_suffix(" Debian"));
        let mirror = mirrors.into_iter().find(|uri| uri.trim_end_matches('/').rsplit('/').next() == Some(folder));
        let uri = mirror.map_or_else(|| format!("{ARCHIVE}{folder}/"), str::to_owned);
        format!("deb [signed-by={KEYS}] {uri} {suite} main\n")
    };
    suites.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_read_from_the_mirrors_that_apt_uses() {
        let known = "http://one/debian/ Debian\nhttp://two/debian-security/ Other\nhttp://three/debian Debian\n";
        let text = sources_list(known, BOOKWORM);
        let lines: Vec<&str> = text.lines().map(|line| line.split_once("] ").unwrap().1).collect();
        assert_eq!(
            lines,
            ["http://one/debian/ bookworm main", "http://deb.debian.org/debian-security/ bookworm-security main"]
        );
        assert!(text.lines().all(|line| line.starts_with("deb [signed-by=/usr/share/keyrings/")));
    }

    #[test]
    fn a_kernel_of_the_cache_is_not_fetched_again() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("kernels/debian-6.1");
        std::fs::create_dir_all(&kept).unwrap();
        std::fs::write(kept.join(RELEASE), "6.1.0-1-amd64").unwrap();
        let mut notes = Vec::new();
        let image = ready("debian-6.1", &Cache::at(folder.path()), &mut |note| notes.push(note.to_owned())).unwrap();
        assert_eq!(image, kept.join("boot/vmlinuz-6.1.0-1-amd64"));
        assert_eq!(notes, Vec::<String>::new());
    }
}
