//! `windhover key`: a fresh shared key on standard output.

use crate::output::{Failure, Output};
use anyhow::Context as _;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use wire::key::Key;

/// A key file has one line and comments.
const MOST_BYTES: u64 = 64 << 10;

pub(crate) fn run(output: &Output) -> Result<u8, Failure> {
    output.result(&fresh()?.to_file())?;
    Ok(0)
}

pub(crate) fn fresh() -> Result<Key, Failure> {
    Ok(Key::from_bytes(random()?))
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(bytes)
}

/// Reads a key file (hexadecimal). Refused: one that others can read, or of a user who could replace it.
pub(crate) fn read(path: Option<&Path>) -> Result<Option<String>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let name = path.display();
    let failed = || format!("cannot read the key file {name}");
    // A pipe without a writer is not waited for.
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).custom_flags(nix::libc::O_NONBLOCK).open(path);
    let file = file.with_context(failed).map_err(Failure::usage)?;
    let facts = file.metadata().with_context(failed).map_err(Failure::usage)?;
    if !facts.is_file() {
        refuse!("{name} is no regular file: write the key to a file (windhover key)");
    }
    let me = nix::unistd::geteuid().as_raw();
    if !is_trusted(facts.uid(), me) {
        let remedy =
            if me == 0 { format!("chown root {name}") } else { "make one of your own (windhover key)".to_owned() };
        refuse!("the key file {name} belongs to user {}, who can change it: {remedy}", facts.uid());
    }
    if let Some(who) = too_many_readers(facts.mode(), facts.gid(), &groups()) {
        let remedy = format!("chmod 600 {name}, and make a new key (windhover key) if it may have been read");
        refuse!("{who} can read the key file {name}: {remedy}");
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).with_context(failed).map_err(Failure::usage)?;
    let key = Key::parse_file(&text).with_context(|| format!("key file {name}")).map_err(Failure::usage)?;
    Ok(Some(key.to_hex()))
}

/// Whether a key file of a user may be used by another one: it is root's or their own.
fn is_trusted(owner: u32, me: u32) -> bool {
    owner == 0 || owner == me
}

/// Who may read (or change) a key file beside its owner and our groups.
fn too_many_readers(mode: u32, group: u32, ours: &[u32]) -> Option<String> {
    // Permissions of the group and of others, chmod(2).
    if mode & 0o007 != 0 {
        return Some("every user of this machine".to_owned());
    }
    (mode & 0o070 != 0 && !ours.contains(&group)).then(|| format!("group {group}, which is not yours,"))
}

/// The groups of this process, and the package's own, whose key root may use too.
fn groups() -> Vec<u32> {
    let ours = nix::unistd::getgroups().unwrap_or_default().into_iter().chain([nix::unistd::getegid()]);
    let package = nix::unistd::Group::from_name("windhover").ok().flatten().map(|group| group.gid);
    ours.chain(package).map(nix::unistd::Gid::as_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::too_many_readers;

    #[test]
    fn a_key_is_for_its_owner_and_our_groups() {
        for fine in [0o600, 0o400, 0o640] {
            assert_eq!(too_many_readers(fine, 7, &[3, 7]), None, "{fine:o}");
        }
        for (mode, who) in [(0o604, "every user"), (0o644, "every user"), (0o640, "group 8"), (0o620, "group 8")] {
            assert!(too_many_readers(mode, 8, &[3, 7]).unwrap().contains(who), "{mode:o}");
        }
    }
}
