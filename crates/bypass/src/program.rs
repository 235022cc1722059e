//! Whether a library can be preloaded into a program, from its file: the loader ignores LD_PRELOAD without a word.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The machine of ELF files that this build's library can be loaded into (elf.h, EM_*).
const MACHINE: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
/// More interpreters of interpreters than there are.
const MOST_SCRIPTS: usize = 4;

/// Why a program cannot be accelerated, with the remedy. It follows "not accelerated, because ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {why}", path.display())]
pub struct Obstacle {
    path: PathBuf,
    why: String,
}

impl Obstacle {
    fn new(path: &Path, why: impl Into<String>) -> Self {
        Self { path: path.to_owned(), why: why.into() }
    }

    /// The same of a program that was looked at by another path.
    #[must_use]
    pub fn of(self, program: &Path) -> Self {
        Self { path: program.to_owned(), ..self }
    }
}

/// The file that a program's name means: a path, or a name on PATH.
pub fn find(program: &OsStr) -> Option<PathBuf> {
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0);
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(is_program);
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(program)).find(is_program)
}

/// Looks at a program's file, or at that of its interpreter. What is neither is left to the kernel. Errors: what prevents the library
/// from being loaded into the program.
pub fn examine(path: &Path) -> Result<(), Obstacle> {
    let mut path = path.to_owned();
    for _ in 0..MOST_SCRIPTS {
        let Ok(file) = File::open(&path) else { return Ok(()) };
        let mut head = [0; 256];
        let length = file.read_at(&mut head, 0).unwrap_or(0);
        let head = head.get(..length).unwrap_or_default();
        // Of scripts the interpreter's permissions count.
        if let Some(line) = head.strip_prefix(b"#!") {
            let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
            let interpreter = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            path = PathBuf::from(OsStr::from_bytes(interpreter));
            continue;
        }
        if !head.starts_with(b"\x7fELF") {
            return Ok(());
        }
        return privileges(&path).and_then(|()| of_elf(&path, &file, head));
    }
    Ok(())
}

fn privileges(path: &Path) -> Result<(), Obstacle> {
    let Ok(facts) = path.metadata() else { return Ok(()) };
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let takes_user = facts.mode() & 0o4000 != 0 && facts.uid() != user.as_raw();
    let takes_group = facts.mode() & 0o2000 != 0 && facts.gid() != group.as_raw();
    if takes_user || takes_group {
        let why = "is set-user-ID or set-group-ID, so the loader ignores the library: start it as its owner";
        return Err(Obstacle::new(path, why));
    }
    if !user.is_root() && host::has_file_capabilities(path) {
        let why = "has file capabilities, so the loader ignores the library: start it as root, or grant capabilities by \
                   systemd's AmbientCapabilities=";
        return Err(Obstacle::new(path, why));
    }
    Ok(())
}

/// A 64-bit little-endian ELF file (elf(5)).
fn of_elf(path: &Path, file: &File, head: &[u8]) -> Result<(), Obstacle> {
    const INTERPRETER: u64 = 3;
    const NOTE: u64 = 4;
    let machine = || Obstacle::new(path, "is of another architecture than windhover: use a build for this one");
    let is_64_little = head.get(4..6) == Some(&[2, 1]);
    if !is_64_little || number(head, 18, 2) != Some(u64::from(MACHINE)) {
        return Err(machine());
    }
    let field = |at: usize, size: usize| number(head, at, size).ok_or_else(machine);
    let (table, each, count) = (field(32, 8)?, field(54, 2)?, field(56, 2)?);
    let mut loader = None;
    let mut is_go = false;
    for index in 0..count {
        let mut header = [0; 56];
        if file.read_exact_at(&mut header, table.saturating_add(index * each)).is_err() {
            break;
        }
        let part = |at: usize, size: usize| number(&header, at, size).unwrap_or(0);
        let content = || {
            let mut bytes = vec![0; usize::try_from(part(32, 8).min(4096)).unwrap_or(0)];
            file.read_exact_at(&mut bytes, part(8, 8)).map(|()| bytes).unwrap_or_default()
        };
        match part(0, 4) {
            INTERPRETER => loader = Some(String::from_utf8_lossy(&content()).trim_end_matches('\0').to_owned()),
            NOTE => is_go |= notes(&content()).any(|name| name == b"Go\0\0"),
            _ => {}
        }
    }
    let why = match loader {
        _ if is_go => "is a Go program, which calls the kernel without the C library: no remedy".to_owned(),
        None => "is statically linked: build it with shared libraries".to_owned(),
        Some(loader) if !loader.contains("ld-linux") => {
            format!("is loaded by {loader}, and the library needs glibc: use a build for glibc")
        }
        Some(_) => return Ok(()),
    };
    Err(Obstacle::new(path, why))
}

/// Names of the notes in a segment.
fn notes(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let size = |at: usize| number(bytes, at, 4).and_then(|size| usize::try_from(size).ok());
        let (name, content) = (size(0)?, size(4)?);
        let found = bytes.get(12..12 + name)?;
        bytes = bytes.get(12 + name.next_multiple_of(4) + content.next_multiple_of(4)..).unwrap_or_default();
        Some(found)
    })
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let mut word = [0; 8];
    word.get_mut(..size)?.copy_from_slice(bytes.get(at..at + size)?);
    Some(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    /// An ELF file with these program headers, each with its content.
    fn elf(machine: u16, segments: &[(u32, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&u16::try_from(segments.len()).unwrap().to_le_bytes());
        let mut content = Vec::new();
        for (kind, data) in segments {
            let at = 64 + 56 * segments.len() + content.len();
            let mut header = [0; 56];
            header[..4].copy_from_slice(&kind.to_le_bytes());
            header[8..16].copy_from_slice(&(at as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(data.len() as u64).to_le_bytes());
            bytes.extend(header);
            content.extend_from_slice(data);
        }
        bytes.extend(content);
        bytes
    }

    #[test]
    fn what_stands_in_the_way_is_seen_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let judge = |bytes: &[u8]| {
            let path = folder.path().join("program");
            std::fs::write(&path, bytes).unwrap();
            examine(&path).map_err(|obstacle| obstacle.to_string())
        };
        let glibc: (u32, &[u8]) = (3, b"/lib64/ld-linux-x86-64.so.2\0");
        let go: (u32, &[u8]) = (4, b"\x04\0\0\0\x04\0\0\0\x04\0\0\0Go\0\0abcd");
        let other: (u32, &[u8]) = (4, b"\x04\0\0\0\x01\0\0\0\x04\0\0\0GNU\0a\0\0\0\x04\0\0\0\0\0\0\0\x04\0\0\0Go\0\0");
        assert_eq!(judge(&elf(MACHINE, &[(6, b""), glibc])), Ok(()));
        for (bytes, words) in [
            (elf(MACHINE, &[(1, b"code")]), "statically linked"),
            (elf(MACHINE, &[glibc, go]), "Go program"),
            (elf(MACHINE, &[other]), "Go program"),
            (elf(MACHINE, &[(3, b"/lib/ld-musl-x86_64.so.1\0")]), "ld-musl-x86_64.so.1"),
            (elf(3, &[glibc]), "another architecture"),
        ] {
            let error = judge(&bytes).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(judge(b"no program"), Ok(()));
        assert_eq!(judge(b""), Ok(()));
        // Cut off anywhere, it is judged and does not end the judge.
        let whole = elf(MACHINE, &[other, glibc]);
        (4..whole.len()).for_each(|length| drop(judge(&whole[..length])));
        assert_eq!(judge(b"#!/bin/sh -e\n"), Ok(()));
        let inner = folder.path().join("interpreter");
        std::fs::write(&inner, elf(MACHINE, &[])).unwrap();
        assert!(judge(format!("#! {} x\n", inner.display()).as_bytes()).unwrap_err().contains("interpreter is static"));
        let itself = folder.path().join("program");
        assert_eq!(judge(format!("#!{}\n", itself.display()).as_bytes()), Ok(()), "ends");
    }

    #[test]
    fn programs_that_take_others_rights_are_named() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("SKIPPED programs_that_take_others_rights_are_named: only root gives files away");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, elf(MACHINE, &[(3, b"/lib64/ld-linux-x86-64.so.2")])).unwrap();
        std::os::unix::fs::chown(&path, Some(65534), Some(65534)).unwrap();
        for (mode, wrong) in [(0o755, false), (0o4755, true), (0o2755, true)] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(examine(&path).is_err(), wrong, "{mode:o}");
        }
    }

    #[test]
    fn programs_are_found_as_the_shell_finds_them() {
        assert!(find(OsStr::new("sh")).is_some_and(|path| path.is_absolute()));
        assert_eq!(find(OsStr::new("/no/such/program")), None);
        assert_eq!(find(OsStr::new("/tmp")), None);
    }
}
