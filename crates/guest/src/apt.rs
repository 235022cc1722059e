//! Debian's packages: downloaded and verified by apt, unpacked into the cache; nothing is installed on this machine.

use crate::cache::need_space;
use crate::{Cache, GuestError};
use std::path::{Path, PathBuf};
use std::time::Duration;
use task::Launch;

/// A folder of the archive, and a suite in it.
pub(crate) type Suite = (&'static str, &'static str);

/// Of Debian 12, whose kernels and emulator these are on any machine.
pub(crate) const BOOKWORM: &[Suite] = &[("debian", "bookworm"), ("debian-security", "bookworm-security")];
/// Newer packages, built for Debian 12.
pub(crate) const BACKPORTS: &[Suite] = &[("debian", "bookworm-backports")];

/// The archive of machines that have no mirror of their own.
const ARCHIVE: &str = "http://deb.debian.org/";
/// The keys that apt verifies the lists with.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// How long apt may take for one step.
const FETCHING: Duration = Duration::from_secs(900);
/// Written last: a folder that has it is whole.
const RELEASE: &str = "release";

pub(crate) struct CacheFolder<'a> {
    pub(crate) what: String,
    /// The folder of the cache, and the one in it that is made.
    pub(crate) part: &'a str,
    pub(crate) name: &'a str,
    pub(crate) suites: &'a [Suite],
    /// What is downloaded, for people.
    pub(crate) size: &'a str,
    /// What the download and its unpacked content need at most, in bytes.
    pub(crate) space: u64,
    /// What else can be done where apt cannot fetch it.
    pub(crate) otherwise: &'a str,
}

/// The folder, filled by `unpack` where the cache does not have it, and what `unpack` returned. Remove it to renew it.
pub(crate) fn ready(
    wanted: &CacheFolder<'_>,
    cache: &Cache,
    note: &mut dyn FnMut(&str),
    unpack: impl FnOnce(&Apt<'_>, &Path) -> Result<String, GuestError>,
) -> Result<(PathBuf, String), GuestError> {
    let part = cache.part(wanted.part)?;
    let folder = part.join(wanted.name);
    let kept = || std::fs::read_to_string(folder.join(RELEASE)).map(|release| release.trim().to_owned());
    if let Ok(release) = kept() {
        return Ok((folder, release));
    }
    let _lock = Cache::lock(&part)?;
    if let Ok(release) = kept() {
        return Ok((folder, release));
    }
    need_space(&part, wanted.space, &wanted.what)?;
    let work = part.join(format!("{}.new", wanted.name));
    clear(&work)?;
    clear(&folder)?;
    let unpacked = work.join("unpacked");
    let fetched = Apt::new(wanted, &work).and_then(|apt| {
        note(&format!("fetching {} by apt (once, {})", wanted.what, wanted.size));
        apt.run("apt-get", &["update"])?;
        let release = unpack(&apt, &unpacked)?;
        let file = unpacked.join(RELEASE);
        std::fs::write(&file, &release).map_err(GuestError::file("write", &file))?;
        std::fs::rename(&unpacked, &folder).map_err(GuestError::file("write", &folder))?;
        Ok(release)
    });
    // Nothing of a download that failed is kept.
    let cleared = clear(&work);
    let release = fetched?;
    cleared?;
    Ok((folder, release))
}

pub(crate) fn clear(path: &Path) -> Result<(), GuestError> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(GuestError::file("remove", path)(error)),
        _ => Ok(()),
    }
}

pub(crate) fn files_in(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, GuestError> {
    let entries = std::fs::read_dir(folder).map_err(GuestError::file("list", folder))?;
    let found = entries.flatten().map(|entry| entry.path());
    Ok(found.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted)).collect())
}

pub(crate) struct Apt<'a> {
    options: Vec<String>,
    folder: &'a Path,
}

impl<'a> Apt<'a> {
    fn new(wanted: &CacheFolder<'_>, work: &'a Path) -> Result<Self, GuestError> {
        let CacheFolder { what, otherwise, .. } = wanted;
        for (program, of) in [("apt-get", "apt"), ("apt-cache", "apt"), ("dpkg-deb", "dpkg")] {
            if !is_on_path(program) {
                return GuestError::refused(format!("{what}: there is no {program}: install {of}, {otherwise}"));
            }
        }
        if !Path::new(KEYS).is_file() {
            let remedy = format!("install debian-archive-keyring, {otherwise}");
            return GuestError::refused(format!("{what} cannot be verified without {KEYS}: {remedy}"));
        }
        for folder in ["lists/partial", "cache/archives/partial"] {
            let folder = work.join(folder);
            std::fs::create_dir_all(&folder).map_err(GuestError::file("make", &folder))?;
        }
        let known = ["indextargets", "--format", "$(REPO_URI) $(ORIGIN)", "Created-By: Packages"];
        let known = run(Launch::new("apt-get").args(known), "apt-get indextargets").unwrap_or_default();
        let sources = work.join("sources.list");
        std::fs::write(&sources, sources_list(&known, wanted.suites)).map_err(GuestError::file("write", &sources))?;
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

    pub(crate) fn depends(&self, package: &str) -> Result<Vec<String>, GuestError> {
        let told = self.run("apt-cache", &["depends", "--important", package])?;
        Ok(told.lines().filter_map(|line| line.trim().strip_prefix("Depends: ")).map(str::to_owned).collect())
    }

    /// Downloads packages, verifies them and unpacks them into one folder.
    pub(crate) fn unpack(&self, packages: &[&str], into: &Path) -> Result<(), GuestError> {
        self.run("apt-get", &[&["download"], packages].concat())?;
        for archive in files_in(self.folder, |name| name.ends_with(".deb"))? {
            run(Launch::new("dpkg-deb").arg("-x").arg(&archive).arg(into), "dpkg-deb -x")?;
        }
        Ok(())
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

pub(crate) fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A sources file for these suites, on the mirrors that apt uses already for them, else on Debian's own.
fn sources_list(known: &str, suites: &[Suite]) -> String {
    let line = |(folder, suite): &Suite| {
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
    fn what_the_cache_has_is_not_fetched_again() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("things/one");
        std::fs::create_dir_all(&kept).unwrap();
        std::fs::write(kept.join(RELEASE), "6.1.0-1-amd64\n").unwrap();
        let mut notes = Vec::new();
        let wanted = CacheFolder {
            what: "thing one".to_owned(),
            part: "things",
            name: "one",
            suites: BACKPORTS,
            size: "1 MB",
            space: 1,
            otherwise: "or do without",
        };
        let mut note = |text: &str| notes.push(text.to_owned());
        let unpack = |_: &Apt<'_>, _: &Path| panic!("it was fetched");
        let (found, release) = ready(&wanted, &Cache::at(folder.path()), &mut note, unpack).unwrap();
        assert_eq!((found, release.as_str()), (kept, "6.1.0-1-amd64"));
        assert_eq!(notes, Vec::<String>::new());
    }
}
