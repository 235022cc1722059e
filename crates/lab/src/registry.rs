//! The registry of labs: one JSON file a lab in a folder of /run, changed only under a lock.

use crate::build::{LabHost, LabRecord, check_name};
use crate::{LabError, Subnet};
use host::private;
use std::fs::{self, File, OpenOptions};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where labs are written down. What cannot be used of it is [`LabError::Registry`], of a single file [`LabError::Damaged`].
#[derive(Debug, Clone)]
pub struct Registry {
    folder: PathBuf,
}

impl Default for Registry {
    fn default() -> Self {
        let folder = private::of_user().unwrap_or_else(|| PathBuf::from("/run/windhover"));
        Self { folder: folder.join("labs") }
    }
}

/// The registry's lock, free again when dropped or when the process ends; programs do not inherit it (O_CLOEXEC).
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Registry {
    /// A registry in another folder than the usual one: /run/windhover/labs, for users other than root that of their session.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits for the lock. Makes the folder where needed.
    pub fn lock(&self) -> Result<Lock, LabError> {
        self.trust(self.folder.parent())?;
        private::folder(&self.folder).map_err(|cause| self.failed("use", &self.folder, cause))?;
        let path = self.folder.join(".lock");
        let file = private::open(&path, OpenOptions::new().create(true).truncate(false).write(true))
            .map_err(|cause| self.failed("open", &path, cause))?;
        file.lock().map_err(|cause| self.failed("lock", &path, cause))?;
        Ok(Lock { _file: file })
    }

    /// What others may write to decides nothing here.
    fn trust(&self, folder: Option<&Path>) -> Result<(), LabError> {
        match folder.map(|folder| (folder, private::check(folder))) {
            Some((folder, Err(error))) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(self.failed("use", folder, error))
            }
            _ => Ok(()),
        }
    }

    fn failed(&self, step: &'static str, path: &Path, cause: std::io::Error) -> LabError {
        LabError::Registry { step, path: path.to_owned(), cause }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    /// A lab by name; `None` when there is none.
    pub fn get(&self, name: &str) -> Result<Option<LabRecord>, LabError> {
        check_name(name)?;
        self.read(&self.file(name))
    }

    fn read(&self, path: &Path) -> Result<Option<LabRecord>, LabError> {
        let damaged = |why: String| LabError::Damaged { path: path.to_owned(), why };
        match private::read(path) {
            Ok(text) => {
                let record = parse(path, &String::from_utf8_lossy(&text))?;
                let is_named = path.file_stem().is_some_and(|name| name == record.name.as_str());
                if is_named { Ok(Some(record)) } else { Err(damaged(format!("it is about lab '{}'", record.name))) }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            // Not to be trusted: see [`private::check`].
            Err(error) if error.kind() == std::io::ErrorKind::Other => Err(damaged(error.to_string())),
            Err(cause) => Err(self.failed("read", path, cause)),
        }
    }

    /// All labs by name; and the files that describe none, which block nothing.
    pub fn all(&self) -> Result<(Vec<LabRecord>, Vec<LabError>), LabError> {
        let (mut records, mut damaged) = (Vec::new(), Vec::new());
        self.trust(self.folder.parent())?;
        self.trust(Some(&self.folder))?;
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((records, damaged)),
            Err(cause) => return Err(self.failed("list", &self.folder, cause)),
        };
        for entry in entries {
            let path = entry.map_err(|cause| self.failed("list", &self.folder, cause))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                match self.read(&path) {
                    Ok(record) => records.extend(record),
                    Err(error) => damaged.push(error),
                }
            }
        }
        records.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((records, damaged))
    }

    /// Addresses that labs gave to the calling process' network namespace, which only hosts of the same lab reach.
    pub fn own_addresses(&self) -> Vec<IpAddr> {
        let namespace = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        let own = namespace(Path::new("/proc/self/ns/net"));
        let is_own = |host: &LabHost| host.netns_path().is_some_and(|path| own.is_some() && namespace(&path) == own);
        let labs = self.all().unwrap_or_default().0;
        let hosts = labs.iter().flat_map(|lab| &lab.hosts).filter(|host| is_own(host));
        hosts.flat_map(|host| [Some(IpAddr::V4(host.ipv4)), host.ipv6.map(IpAddr::V6)]).flatten().collect()
    }

    /// The first network that no lab has.
    pub fn free_subnet(&self) -> Result<Subnet, LabError> {
        let taken: Vec<Subnet> = self.all()?.0.iter().filter_map(|record| record.subnet).collect();
        Subnet::first_free(&taken).ok_or_else(|| {
            let remedy = "remove some with windhover lab down --stale";
            LabError::Refused(format!("all 512 networks of 198.18.0.0/15 are taken by labs: {remedy}"))
        })
    }

    /// Writes a lab down; call it under the lock. The file is complete or not there.
    pub fn put(&self, record: &LabRecord) -> Result<(), LabError> {
        let path = self.file(&record.name);
        let text = serde_json::to_vec_pretty(record).unwrap_or_default();
        private::replace(&path, &text).map_err(|cause| self.failed("write", &path, cause))
    }

    /// Takes a damaged record out of the way; call it under the lock. Returns its new place.
    pub fn set_aside(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.file(name);
        let kept = path.with_extension("damaged");
        fs::rename(&path, &kept).map_err(|cause| self.failed("rename", &path, cause))?;
        Ok(kept)
    }

    /// Forgets a lab; call it under the lock.
    pub fn forget(&self, name: &str) -> Result<(), LabError> {
        let path = self.file(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.failed("remove", &path, error)),
            _ => Ok(()),
        }
    }
}

/// Reads a registry file. Names in it become command lines, so those that do not follow the grammar are refused.
pub fn parse(path: &Path, text: &str) -> Result<LabRecord, LabError> {
    let damaged = |why: String| LabError::Damaged { path: path.to_owned(), why };
    let record: LabRecord = serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
    check_name(&record.name).map_err(|error| damaged(error.to_string()))?;
    let prefix = format!("wh-{}-", record.name);
    if record.namespaces().any(|netns| !netns.starts_with(&prefix) || netns.contains(['/', '\n', ' '])) {
        return Err(damaged(format!("its namespaces do not begin with {prefix}")));
    }
    let plain =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.@:/".contains(c));
    let ports = || record.hosts.iter().filter_map(|host| host.port.as_ref());
    let words = record.hosts.iter().map(|host| &host.device).chain(ports().map(|port| &port.name));
    let addresses = ports().flat_map(|port| &port.addresses).flat_map(|address| address.splitn(2, " peer "));
    if record.guests.iter().any(|guest| !guest.folder.is_absolute()) {
        return Err(damaged("a guest's folder in it is none".to_owned()));
    }
    if !words.map(String::as_str).chain(addresses).all(plain) {
        return Err(damaged("a device or an address in it is not one".to_owned()));
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LabSpec;

    fn record(name: &str, subnet: u16) -> LabRecord {
        LabRecord::plan(&LabSpec::new(name), Subnet::try_from(subnet).ok(), true, vec![])
    }

    #[test]
    fn keeps_and_forgets() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::at(&folder.path().join("labs"));
        assert_eq!(registry.all().unwrap().0, []);
        let _lock = registry.lock().unwrap();
        registry.put(&record("x", 0)).unwrap();
        registry.put(&record("y", 1)).unwrap();
        assert_eq!(registry.get("x").unwrap(), Some(record("x", 0)));
        assert_eq!(registry.free_subnet().unwrap(), Subnet::try_from(2).unwrap());
        assert!(registry.own_addresses().is_empty(), "this process is on no host of theirs");
        std::fs::write(folder.path().join("labs/broken.json"), "{").unwrap();
        let (labs, damaged) = registry.all().unwrap();
        assert_eq!((labs.len(), damaged.len()), (2, 1), "one broken file stands in nobody's way");
        registry.forget("x").unwrap();
        registry.forget("x").unwrap();
        assert_eq!(registry.get("x").unwrap(), None);
        assert_eq!(registry.free_subnet().unwrap(), Subnet::try_from(0).unwrap());
    }

    #[test]
    fn one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::at(folder.path());
        let lock = registry.lock().unwrap();
        let second = File::open(folder.path().join(".lock")).unwrap();
        assert!(second.try_lock().is_err());
        drop(lock);
        assert!(second.try_lock().is_ok());
    }

    #[test]
    fn a_file_that_names_other_namespaces_is_refused() {
        let path = Path::new("x.json");
        let text = serde_json::to_string(&record("x", 0)).unwrap();
        assert!(parse(path, &text).is_ok());
        assert!(parse(path, &text.replace("wh-x-a", "production")).is_err());
        assert!(parse(path, &text.replace("wh-x-a", "wh-x-a/../../etc")).is_err());
        assert!(parse(path, &text.replace("\"wh0\"", "\"wh0\\nlink del eth0\"")).is_err());
        assert!(parse(path, &text[..text.len() / 2]).is_err());
        assert!(parse(path, "").is_err());
    }
}
