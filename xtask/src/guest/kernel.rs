//! A Debian kernel for the guest: resolved from the metapackage, downloaded and unpacked. Nothing is installed.

use crate::{files, process};
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The metapackage of the kernel with the drivers of real network devices (the cloud kernel has no e1000e).
const METAPACKAGE: &str = "linux-image-amd64";
/// Modules that tests need; those they depend on come with them.
const MODULES: [&str; 2] = ["e1000e", "veth"];

/// An unpacked kernel.
pub(super) struct Kernel {
    /// As `uname -r` prints it.
    pub(super) release: String,
    pub(super) image: PathBuf,
    /// Unpacked modules, in the order in which they load.
    pub(super) modules: Vec<PathBuf>,
}

/// The kernel of an earlier run, or one downloaded now. To get a newer one, remove the folder.
pub(super) fn ready(folder: &Path) -> Result<Kernel> {
    let kept = folder.join("kernel");
    if !kept.join("release").is_file() {
        let fresh = folder.join("kernel.new");
        files::fresh(&fresh)?;
        fetch(folder, &fresh)?;
        files::remove(&kept)?;
        std::fs::rename(&fresh, &kept).with_context(|| kept.display().to_string())?;
    }
    let read = |name: &str| files::read(&kept.join(name));
    let modules = read("modules")?.lines().map(|name| kept.join(name)).collect();
    Ok(Kernel { release: read("release")?, image: kept.join("vmlinuz"), modules })
}

/// Downloads the package and keeps of it what a guest needs.
fn fetch(folder: &Path, into: &Path) -> Result<()> {
    let work = folder.join("apt");
    files::fresh(&work)?;
    let apt = Apt::of_backports(&work).or_else(Apt::of_the_machine).context("apt knows no kernel package")?;
    println!("downloading {} for the guest", apt.package);
    apt.run("apt-get", &["download", &apt.package], &work)?;
    let package = file_in(&work, |name| name.starts_with("linux-image-") && name.ends_with(".deb"))?;
    let unpacked = work.join("unpacked");
    let arguments = ["-x", &package.to_string_lossy(), &unpacked.to_string_lossy()];
    process::output("dpkg-deb", &arguments)?;
    let image = file_in(&unpacked.join("boot"), |name| name.starts_with("vmlinuz-"))?;
    let release = image.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("vmlinuz-"));
    let release = release.context("the kernel image has no release in its name")?.to_owned();
    std::fs::copy(&image, into.join("vmlinuz")).context("copying the kernel image")?;
    let mut modules = Modules { all: files::below(&unpacked)?, into, done: BTreeSet::new(), order: Vec::new() };
    for name in MODULES {
        modules.add(name)?;
    }
    std::fs::write(into.join("modules"), modules.order.join("\n")).context("writing the list of modules")?;
    // Last, since its presence says that the folder is whole.
    std::fs::write(into.join("release"), release).context("writing the release")?;
    files::remove(&work)
}

/// How apt is asked for the kernel.
struct Apt {
    options: Vec<String>,
    package: String,
}

impl Apt {
    /// The backports of the machine's release, read by private lists so that the machine's own stay as they are. They
    /// have the newer kernel: that of bookworm itself (6.1) has not all of the partition interface yet.
    fn of_backports(work: &Path) -> Option<Self> {
        let lists = work.join("lists");
        std::fs::create_dir_all(lists.join("partial")).ok()?;
        std::fs::create_dir_all(work.join("cache/archives/partial")).ok()?;
        let known = process::output(
            "apt-get",
            &["indextargets", "--format", "$(REPO_URI) $(CODENAME) $(ORIGIN) $(COMPONENT)", "Created-By: Packages"],
        )
        .ok()?;
        let source = backports(&known)?;
        std::fs::write(work.join("sources.list"), source).ok()?;
        let set = |key: &str, value: &Path| format!("{key}={}", value.display());
        let options = [
            set("Dir::Etc::sourcelist", &work.join("sources.list")),
            "Dir::Etc::sourceparts=-".to_owned(),
            set("Dir::State::lists", &lists),
            set("Dir::Cache", &work.join("cache")),
            "APT::Sandbox::User=root".to_owned(),
        ];
        let options = options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect();
        let mut apt = Self { options, package: String::new() };
        apt.run("apt-get", &["update"], work).ok()?;
        apt.package = apt.resolve()?;
        Some(apt)
    }

    fn of_the_machine() -> Option<Self> {
        let mut apt =
            Self { options: vec!["-o".to_owned(), "APT::Sandbox::User=root".to_owned()], package: String::new() };
        apt.package = apt.resolve().or_else(|| {
            apt.run("apt-get", &["update"], Path::new("/")).ok()?;
            apt.resolve()
        })?;
        Some(apt)
    }

    /// The package that the metapackage stands for today.
    fn resolve(&self) -> Option<String> {
        let depends = self.run("apt-cache", &["depends", "--important", METAPACKAGE], Path::new("/")).ok()?;
        depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: ")).next_back().map(str::to_owned)
    }

    fn run(&self, program: &str, arguments: &[&str], folder: &Path) -> Result<String> {
        let output = Command::new(program)
            .args(["-q"])
            .args(&self.options)
            .args(arguments)
            .current_dir(folder)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {program}"))?;
        if !output.status.success() {
            bail!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The line of a sources file for the backports of the Debian release whose main repository apt knows.
fn backports(index_targets: &str) -> Option<String> {
    let mut targets = index_targets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let (uri, codename) = targets.find_map(|words| match words.as_slice() {
        [uri, codename, "Debian", "main"] if !codename.contains('-') => Some((*uri, *codename)),
        _ => None,
    })?;
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    Some(format!("deb [signed-by={keys}] {uri} {codename}-backports main\n"))
}

/// Modules being collected.
struct Modules<'a> {
    all: Vec<PathBuf>,
    into: &'a Path,
    done: BTreeSet<String>,
    order: Vec<String>,
}

impl Modules<'_> {
    /// Unpacks a module, after those that it depends on.
    fn add(&mut self, name: &str) -> Result<()> {
        let name = name.replace('-', "_");
        if !self.done.insert(name.clone()) {
            return Ok(());
        }
        let is_it = |path: &&PathBuf| {
            let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
            file.split_once(".ko").is_some_and(|(stem, _)| stem.replace('-', "_") == name)
        };
        let packed = self.all.iter().find(is_it).with_context(|| format!("the kernel package has no module {name}"))?;
        let content = match packed.extension().and_then(|extension| extension.to_str()) {
            Some("xz") => Command::new("xz").args(["-dc"]).arg(packed).output().context("cannot start xz")?.stdout,
            _ => std::fs::read(packed).with_context(|| packed.display().to_string())?,
        };
        for needed in dependencies(&content) {
            self.add(&needed)?;
        }
        let file = format!("{name}.ko");
        std::fs::write(self.into.join(&file), content).with_context(|| file.clone())?;
        self.order.push(file);
        Ok(())
    }
}

/// What a module says in its `.modinfo` section that it depends on.
fn dependencies(module: &[u8]) -> Vec<String> {
    let key = b"depends=";
    let Some(at) = module.windows(key.len() + 1).position(|window| window.first() == Some(&0) && window.ends_with(key))
    else {
        return Vec::new();
    };
    let value = module.get(at + 1 + key.len()..).unwrap_or_default();
    let value = value.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(value).split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn file_in(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf> {
    files::listed(folder)?
        .into_iter()
        .find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted))
        .with_context(|| format!("{} has no such file", folder.display()))
}

#[cfg(test)]
mod unit {
    use super::{backports, dependencies};

    #[test]
    fn dependencies_are_read_from_modinfo() {
        let module = b"\x7fELF\0license=GPL\0depends=ptp,mii\0retpoline=Y\0";
        assert_eq!(dependencies(module), ["ptp", "mii"]);
        assert_eq!(dependencies(b"\0depends=\0name=veth\0"), Vec::<String>::new());
        assert_eq!(dependencies(b"no module"), Vec::<String>::new());
    }

    #[test]
    fn backports_are_those_of_the_main_repository() {
        let known =
            "http://one/ stable-updates Debian main\nhttp://two/ x Other main\nhttp://one/ stable Debian main\n";
        let line = backports(known).expect("the main repository is there");
        assert!(line.ends_with("] http://one/ stable-backports main\n"), "{line}");
        assert_eq!(backports("http://two/ x Other main\n"), None);
    }
}
