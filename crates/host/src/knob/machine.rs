//! The running system, or a tree of files that looks like one.

use super::{Form, Knob, KnobError, Settings, device, group, member};
use model::CpuList;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag};
use nix::sys::stat::Mode;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// The most that is read of a file; /proc/interrupts of a large server has a few MiB.
const MOST_BYTES: u64 = 32 << 20;
/// How often a file of a tree is opened while others rename and mount.
const OPENS: u32 = 1000;

/// Reads and writes the knobs that are files, control groups and network devices below a root.
///
/// In a tree of files that is not the running system, a symbolic link never leads out of the tree, and control groups
/// behave a little like the kernel's: a new one is furnished with files, and a task's group is read from the tree.
/// Errors are the kernel's.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    pub fn running() -> Self {
        Self::at("/")
    }

    /// A tree of files: `at("/tmp/t")` reads /tmp/t/proc/sys/….
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn is_running(&self) -> bool {
        self.root == Path::new("/")
    }

    /// A path of the system, in this tree. Links below it are followed by whoever opens it: rather use [`Self::text`].
    pub fn path(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The content of a file, 32 MiB of it at most; bytes that are no UTF-8 are replaced.
    pub fn text(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let mut content = Vec::new();
        self.open(path.as_ref(), OFlag::O_RDONLY)?.take(MOST_BYTES).read_to_end(&mut content)?;
        Ok(match String::from_utf8(content) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// The content of a file without white space and zero bytes around it.
    pub fn trimmed(&self, path: impl AsRef<Path>) -> io::Result<String> {
        Ok(self.text(path)?.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned())
    }

    /// A CPU list in a file; `None` where there is none. A kernel without an option prints `(null)`.
    pub fn cpu_list(&self, path: impl AsRef<Path>) -> Option<CpuList> {
        match self.trimmed(path).ok()?.as_str() {
            "(null)" => Some(CpuList::default()),
            text => text.parse().ok(),
        }
    }

    /// Numbers of the entries of a directory whose names are `prefix` and a number, ascending; none where it cannot be read.
    pub fn numbers(&self, path: impl AsRef<Path>, prefix: &str) -> Vec<u32> {
        let names = self.names(path).unwrap_or_default();
        let mut found: Vec<u32> = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        found.sort_unstable();
        found
    }

    /// Version and patch level of the kernel: `6.18.44-x` is (6, 18).
    pub fn kernel_version(&self) -> Option<(u32, u32)> {
        model::known::version(&self.trimmed("/proc/sys/kernel/osrelease").ok()?)
    }

    /// Writes a file that exists by one write(2) of the value and a newline: the kernel parses each write on its own. In
    /// the running system only files of the kernel are written, else [`io::ErrorKind::PermissionDenied`];
    /// [`io::ErrorKind::WriteZero`] when the kernel took only a part.
    pub fn put(&self, path: impl AsRef<Path>, value: &str) -> io::Result<()> {
        let path = path.as_ref();
        let mut file = if self.is_running() {
            // Looked at before it is opened for writing, which alone may do something to a device.
            let place = self.open(path, OFlag::O_PATH)?;
            if !is_of_kernel(path, &place)? {
                return Err(no_setting());
            }
            std::fs::OpenOptions::new().write(true).open(format!("/proc/self/fd/{}", place.as_raw_fd()))?
        } else {
            self.open(path, OFlag::O_WRONLY | OFlag::O_TRUNC)?
        };
        let line = format!("{value}\n");
        let taken = file.write(line.as_bytes())?;
        // Some files of the kernel answer with the length of what they parsed, without the newline.
        if taken < value.len() {
            let why = format!("only {taken} of {} bytes were taken", value.len());
            return Err(io::Error::new(io::ErrorKind::WriteZero, why));
        }
        Ok(())
    }

    /// The names in a directory, sorted.
    pub fn names(&self, path: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let directory = self.open(path.as_ref(), OFlag::O_PATH | OFlag::O_DIRECTORY)?;
        let mut names = Vec::new();
        for entry in std::fs::read_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// Whether there is a file or directory, after following links.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.open(path.as_ref(), OFlag::O_PATH).is_ok()
    }

    /// Whether there is a directory, after following links.
    pub fn is_directory(&self, path: impl AsRef<Path>) -> bool {
        self.open(path.as_ref(), OFlag::O_PATH | OFlag::O_DIRECTORY).is_ok()
    }

    /// Opens what exists, without ever leaving the tree.
    pub fn open(&self, path: &Path, flags: OFlag) -> io::Result<File> {
        let flags = flags | OFlag::O_CLOEXEC;
        if self.is_running() {
            return Ok(nix::fcntl::open(path, flags, Mode::empty())?.into());
        }
        let root = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = nix::fcntl::openat(AT_FDCWD, &self.root, root, Mode::empty())?;
        let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_IN_ROOT);
        // A concurrent rename or mount makes the kernel give up: "the caller may choose to retry" (openat2(2)).
        let open = || nix::fcntl::openat2(&root, path, how);
        let is_final = |opened: &nix::Result<_>| !matches!(opened, Err(Errno::EAGAIN));
        Ok((1..OPENS).map(|_| open()).find(is_final).unwrap_or_else(open)?.into())
    }
}

impl Settings for Machine {
    fn read(&self, knob: &Knob) -> Result<String, KnobError> {
        match knob {
            Knob::File { .. } if !knob.is_possible() => Err(KnobError::reading(knob, no_setting())),
            Knob::File { path, form } => match self.text(path) {
                Ok(content) => Ok(form.value(&content)),
                Err(cause) => Err(KnobError::reading(knob, cause)),
            },
            Knob::Group { path } => Ok(group::read(self, path).to_owned()),
            Knob::Member { hierarchy, task } => member::read(self, knob, hierarchy, task),
            Knob::Ethtool { .. } | Knob::Flow { .. } | Knob::Napi { .. } => device::read(self, knob),
            Knob::CpuLatency => Ok(crate::holders::allowed(self)),
            Knob::Policy { task } => match crate::tasks::of(self, task.tid) {
                Some(now) if task.lives(self) => Ok(now.policy_words()),
                _ => Err(KnobError::absent(knob)),
            },
            Knob::Affinity { .. } | Knob::Service { .. } => Err(unsupported(knob)),
        }
    }

    fn write(&self, knob: &Knob, value: &str) -> Result<(), KnobError> {
        match knob {
            Knob::File { path, form: Form::Controllers } if self.is_running() => {
                let text = Form::Controllers.to_write(&self.read(knob)?, value);
                self.put(path, &text).map_err(|cause| KnobError::writing(knob, value, cause))
            }
            Knob::File { .. } if !knob.is_possible() => Err(KnobError::writing(knob, value, no_setting())),
            Knob::File { path, .. } => self.put(path, value).map_err(|cause| KnobError::writing(knob, value, cause)),
            Knob::Group { path } => {
                group::write(self, path, value).map_err(|cause| KnobError::writing(knob, value, cause))
            }
            Knob::Member { hierarchy, task } => member::write(self, knob, hierarchy, task, value),
            Knob::Ethtool { .. } | Knob::Flow { .. } | Knob::Napi { .. } => device::write(self, knob, value),
            Knob::Affinity { .. } | Knob::Policy { .. } | Knob::Service { .. } | Knob::CpuLatency => {
                Err(unsupported(knob))
            }
        }
    }

    fn suspects(&self, knob: &Knob) -> Option<String> {
        super::suspects::running(self, knob)
    }
}

/// Whether an open file is a setting of the kernel: of sysfs, debugfs, a control group, /proc/sys or /proc/irq.
fn is_of_kernel(path: &Path, file: &File) -> io::Result<bool> {
    use nix::sys::statfs::{
        CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, PROC_SUPER_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC,
    };
    let kind = nix::sys::statfs::fstatfs(file)?.filesystem_type();
    let of_proc = ["/proc/sys", "/proc/irq"].iter().any(|folder| path.starts_with(folder))
        && !path.components().any(|part| part == std::path::Component::ParentDir);
    Ok([SYSFS_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC].contains(&kind)
        || (kind == PROC_SUPER_MAGIC && of_proc))
}

fn no_setting() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "it is no setting of the kernel, so it is not written")
}

fn unsupported(knob: &Knob) -> KnobError {
    KnobError::unsupported(knob, "it is not a setting of this kind")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_files_of_a_tree_say() {
        let tree = tempfile::tempdir().unwrap();
        let machine = Machine::at(tree.path());
        let put = |path: &str, content: &str| {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        assert_eq!(machine.kernel_version(), None);
        for (release, version) in [("6.18.44-fc\n", Some((6, 18))), ("4.18.0-372.el8", Some((4, 18))), ("x", None)] {
            put("proc/sys/kernel/osrelease", release);
            assert_eq!(machine.kernel_version(), version, "{release}");
        }
        put("list", "0-2,7\n");
        put("none", "(null)\n");
        assert_eq!(machine.cpu_list("/list"), "0-2,7".parse().ok());
        assert_eq!(machine.cpu_list("/none"), Some(CpuList::default()));
        assert_eq!(machine.cpu_list("/absent"), None);

        std::fs::File::create(tree.path().join("endless")).unwrap().set_len(MOST_BYTES + 1).unwrap();
        assert_eq!(machine.text("/endless").unwrap().len() as u64, MOST_BYTES);
        for name in ["rx-10", "rx-9", "rx-x", "tx-1"] {
            put(&format!("queues/{name}/file"), "");
        }
        assert_eq!(machine.numbers("/queues", "rx-"), [9, 10]);
        put("word", " \0text\0\n");
        assert_eq!(machine.trimmed("/word").unwrap(), "text");
    }

    /// Catches: a file that is not found because somebody renames another file meanwhile.
    #[test]
    fn a_tree_is_read_while_others_rename_files() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("a/b")).unwrap();
        std::fs::write(tree.path().join("a/file"), "1\n").unwrap();
        std::os::unix::fs::symlink("../../a/b/../file", tree.path().join("a/b/link")).unwrap();
        let machine = Machine::at(tree.path());
        let ends = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let names = ["x", "y"].map(|name| tree.path().join(name));
                std::fs::write(&names[0], "").unwrap();
                while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                    std::fs::rename(&names[0], &names[1]).unwrap();
                    std::fs::rename(&names[1], &names[0]).unwrap();
                }
            });
            let failed = (0..20_000).find_map(|_| machine.text("/a/b/link").err());
            ends.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(failed.is_none(), "{failed:?}");
        });
    }
}
