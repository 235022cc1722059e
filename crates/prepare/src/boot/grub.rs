//! An entry of GRUB's menu for one boot, by grub-reboot(8).

use super::{BootError, image_at, missing, refused, tool};
use crate::Kernel;
use model::KernelImage;
use std::path::{Path, PathBuf};

/// Where distributions have GRUB's folder, and what they call its tools.
const FOLDERS: [(&str, &str, &str); 2] =
    [("/boot/grub", "grub-reboot", "grub-editenv"), ("/boot/grub2", "grub2-reboot", "grub2-editenv")];

struct Place {
    folder: &'static str,
    reboot: &'static str,
    editenv: &'static str,
}

/// Checks that the entry is there, that GRUB heeds the choice, and that it can clear it again.
pub(super) fn check(machine: &Kernel, entry: &str) -> Result<KernelImage, BootError> {
    let files = machine.machine();
    let place = place(machine)?;
    let config = format!("{}/grub.cfg", place.folder);
    let Ok(text) = files.text(&config) else { return missing(config, "run update-grub, as root") };
    if !text.contains("next_entry") {
        return refused(format!("{config} does not look at next_entry"), "set GRUB_DEFAULT=saved and run update-grub");
    }
    for name in [place.reboot, place.editenv] {
        if machine.program(name).is_none() {
            return missing(format!("program {name}"), "install grub-common (grub2-tools)");
        }
    }
    let environment = format!("{}/grubenv", place.folder);
    if !files.exists(&environment) {
        return missing(&environment, format!("make it: {} {environment} create", place.editenv));
    }
    writable(machine, &environment)?;
    let entries = entries(&text);
    let Some(found) = entries.iter().find(|found| found.is(entry)) else {
        let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).filter(|id| !id.is_empty()).collect();
        return missing(format!("entry '{entry}' of {config}"), format!("use one of: {}", ids.join(", ")));
    };
    let Some(linux) = &found.linux else {
        return refused(format!("entry '{entry}' of {config} starts no Linux"), "use the entry of a kernel");
    };
    // Relative to the file system that GRUB reads, which may be that of /boot.
    image_at(machine, &[PathBuf::from(linux), PathBuf::from(format!("/boot{linux}"))])
}

/// Chooses the entry for the next boot alone; the default stays.
pub(super) fn choose(machine: &Kernel, entry: &str) -> Result<(), BootError> {
    check(machine, entry)?;
    let place = place(machine)?;
    let environment = machine.machine().path(format!("{}/grubenv", place.folder).as_ref());
    let environment = environment.to_string_lossy().into_owned();
    let list = || tool(machine, place.editenv, "install grub-common", &[&environment, "list"]);
    let saved = |text: &str| text.lines().find(|line| line.starts_with("saved_entry=")).map(str::to_owned);
    let before = saved(&list()?);
    let boot = machine.machine().path("/boot".as_ref());
    let boot = format!("--boot-directory={}", boot.display());
    tool(machine, place.reboot, "install grub-common", &[&boot, entry])?;
    let after = list()?;
    if saved(&after) != before {
        return refused(
            format!("{} changed the default entry", place.reboot),
            "see saved_entry in grubenv, and use kexec:PATH",
        );
    }
    if !after.lines().any(|line| line == format!("next_entry={entry}")) {
        return refused(format!("{} did not choose '{entry}'", place.reboot), "use kexec:PATH");
    }
    Ok(())
}

fn place(machine: &Kernel) -> Result<Place, BootError> {
    let found = FOLDERS.iter().find(|(folder, ..)| machine.machine().is_directory(folder));
    let Some(&(folder, reboot, editenv)) = found else {
        return missing("/boot/grub", "this machine does not boot by GRUB: use kexec:PATH or bootctl:ENTRY");
    };
    Ok(Place { folder, reboot, editenv })
}

/// GRUB clears the choice by writing its environment block, which it cannot on LVM, MD, btrfs and zfs: the entry would stay.
fn writable(machine: &Kernel, environment: &str) -> Result<(), BootError> {
    let files = machine.machine();
    let mounts = files.text("/proc/self/mountinfo").unwrap_or_default();
    let real = real(machine, environment);
    let Some((device, kind)) = mounted(&mounts, &real) else { return Ok(()) };
    let block = format!("/sys/dev/block/{device}");
    let mapped = files.trimmed(format!("{block}/dm/uuid")).unwrap_or_default();
    // A partition of an MD device is a device below it.
    let is_md = || files.is_directory(format!("{block}/md")) || files.is_directory(format!("{block}/../md"));
    let on = if mapped.starts_with("LVM-") {
        "LVM"
    } else if is_md() {
        "MD"
    } else if ["btrfs", "zfs"].contains(&kind) {
        kind
    } else {
        return Ok(());
    };
    let what = format!("{real} is on {on}, where GRUB cannot clear the choice of one boot: it would stay the default");
    refused(what, "use kexec:PATH, or put /boot on a partition of its own")
}

/// Where a file is after following links: Fedora's environment block is one to the EFI system partition.
fn real(machine: &Kernel, path: &str) -> String {
    let files = machine.machine();
    let (root, file) = (files.path(Path::new("/")).canonicalize(), files.path(Path::new(path)).canonicalize());
    let inside = root.and_then(|root| Ok(file?.strip_prefix(root).map(Path::to_owned))).ok().and_then(Result::ok);
    inside.map_or_else(|| path.to_owned(), |inside| Path::new("/").join(inside).display().to_string())
}

/// Device and kind of the file system that a file is on (proc_pid_mountinfo(5)).
fn mounted<'a>(mountinfo: &'a str, file: &str) -> Option<(&'a str, &'a str)> {
    let of = |line: &'a str| {
        let (mount, rest) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(2);
        let (device, point) = (fields.next()?, fields.nth(1)?);
        let below = point == "/" || file.strip_prefix(point).is_some_and(|rest| rest.starts_with('/'));
        below.then_some((point.len(), device, rest.split(' ').next()?))
    };
    // Of mounts on one point the last one is seen.
    let found = mountinfo.lines().filter_map(of).max_by_key(|(length, ..)| *length)?;
    Some((found.1, found.2))
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Ids with those of the submenus above, separated by `>`.
    id: String,
    /// The same with titles.
    title: String,
    /// The same with numbers.
    number: String,
    linux: Option<String>,
}

impl Entry {
    fn is(&self, name: &str) -> bool {
        // grub-reboot takes the last id alone, too.
        let last = |path: &str| path.rsplit('>').next() == Some(name);
        [&self.id, &self.title, &self.number].contains(&&name.to_owned()) || last(&self.id)
    }
}

/// The entries of a grub.cfg as grub-mkconfig(8) writes it.
fn entries(config: &str) -> Vec<Entry> {
    struct Level {
        id: String,
        title: String,
        number: String,
        count: u32,
        depth: u32,
    }
    let mut levels = vec![Level { id: String::new(), title: String::new(), number: String::new(), count: 0, depth: 0 }];
    let mut found: Vec<Entry> = Vec::new();
    let (mut depth, mut inside) = (0_u32, None);
    for line in config.lines().map(str::trim) {
        let is_submenu = line.starts_with("submenu ");
        if is_submenu || line.starts_with("menuentry ") {
            let quoted: Vec<&str> = line.split('\'').skip(1).step_by(2).collect();
            let title = quoted.first().copied().unwrap_or_default();
            let id =
                line.split_once("$menuentry_id_option").and_then(|(_, rest)| rest.split('\'').nth(1)).unwrap_or(title);
            let Some(level) = levels.last_mut() else { continue };
            let under =
                |path: &str, name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}>{name}") };
            let (id, title) = (under(&level.id, id), under(&level.title, title));
            let number = under(&level.number, &level.count.to_string());
            level.count += 1;
            depth += 1;
            if is_submenu {
                levels.push(Level { id, title, number, count: 0, depth });
            } else {
                inside = Some(depth);
                found.push(Entry { id, title, number, linux: None });
            }
            continue;
        }
        if line.ends_with('{') {
            depth += 1;
        } else if line == "}" {
            inside = inside.filter(|own| *own != depth);
            if levels.len() > 1 && levels.last().is_some_and(|level| level.depth == depth) {
                levels.pop();
            }
            depth = depth.saturating_sub(1);
        } else if let (Some(_), Some(rest)) = (inside, line.strip_prefix("linux"))
            && let Some(entry) = found.last_mut().filter(|entry| entry.linux.is_none())
        {
            entry.linux = rest.split_ascii_whitespace().find(|word| word.starts_with('/')).map(str::to_owned);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_menu() {
        let config = "menuentry 'Debian' --class debian $menuentry_id_option 'gnulinux-simple-1' {\n\
                      \tif [ x = x ]; then\n\tfi\n\tlinux\t/boot/vmlinuz-6.12 root=UUID=1 ro quiet\n}\n\
                      submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-1' {\n\
                      \tmenuentry 'Debian, with Linux 6.12' $menuentry_id_option 'gnulinux-6.12-advanced-1' {\n\
                      \t\tlinux /boot/vmlinuz-6.12 root=UUID=1\n\t}\n\
                      \tmenuentry 'Debian, with Linux 6.1' $menuentry_id_option 'gnulinux-6.1-advanced-1' {\n\
                      \t\tlinux /boot/vmlinuz-6.1 root=UUID=1\n\t}\n}\nmenuentry 'UEFI Firmware Settings' {\n\tfwsetup\n}\n";
        let entries = entries(config);
        let numbers: Vec<&str> = entries.iter().map(|entry| entry.number.as_str()).collect();
        assert_eq!(numbers, ["0", "1>0", "1>1", "2"]);
        let kernel = |name: &str| entries.iter().find(|entry| entry.is(name)).and_then(|entry| entry.linux.as_deref());
        for name in [
            "1>1",
            "gnulinux-6.1-advanced-1",
            "gnulinux-advanced-1>gnulinux-6.1-advanced-1",
            "Advanced options>Debian, with Linux 6.1",
        ] {
            assert_eq!(kernel(name), Some("/boot/vmlinuz-6.1"), "{name}");
        }
        assert_eq!((kernel("0"), kernel("2"), kernel("1>2")), (Some("/boot/vmlinuz-6.12"), None, None));
    }
}
