//! What a guest's kernel and QEMU printed, and its last words for an error.

use crate::Cache;
use crate::emulator::QEMU;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

const CONSOLE_LINES: usize = 3;
/// Bytes at the end of a console in which they, and the line of a panic, are looked for.
pub(crate) const TAIL: usize = 1 << 20;
/// The beginning of the console's line with the reason why a kernel gave up.
const PANIC: &str = "Kernel panic";

pub(crate) fn console_file(folder: &Path) -> PathBuf {
    folder.join("console")
}

/// What QEMU writes to standard error.
pub(crate) fn errors_file(folder: &Path) -> PathBuf {
    folder.join("qemu")
}

pub(crate) fn console(folder: &Path) -> String {
    plain(&String::from_utf8_lossy(&std::fs::read(console_file(folder)).unwrap_or_default()))
}

/// A console's text without escape sequences (ECMA-48), each as a whole, and without other control characters.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek().copied()) {
            // A sequence with parameters (CSI) ends with a letter; a text (OSC and the like) with BEL or ESC \.
            ('\u{1b}', Some('[')) => {
                letters.next();
                while letters.next_if(|inside| (' '..='?').contains(inside)).is_some() {}
                letters.next_if(|end| ('@'..='~').contains(end));
            }
            ('\u{1b}', Some(']' | 'P' | 'X' | '^' | '_')) => {
                while let Some(inside) = letters.next_if(|inside| *inside != '\n') {
                    if inside == '\u{7}' || (inside == '\u{1b}' && letters.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            // Two or three letters: a character set, a cursor to keep.
            ('\u{1b}', _) => {
                while letters.next_if(|inside| (' '..='/').contains(inside)).is_some() {}
                letters.next_if(|end| ('0'..='~').contains(end));
            }
            ('\n' | '\t', _) => out.push(letter),
            _ if letter.is_control() => {}
            _ => out.push(letter),
        }
    }
    out
}

pub(crate) fn tail(path: &Path) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL as u64)))?;
        let mut bytes = Vec::new();
        file.take(TAIL as u64).read_to_end(&mut bytes)?;
        std::io::Result::Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// The last errors of QEMU, without its warnings.
pub(crate) fn last_errors(folder: &Path) -> Option<String> {
    let said = tail(&errors_file(folder));
    let errors = said.lines().filter(|line| !line.contains(": warning: "));
    last_words(&errors.collect::<Vec<_>>().join("\n"))
}

/// The last lines of QEMU and the console, as one line for an error, and where all of the console is kept.
pub fn last_lines(folder: &Path) -> String {
    let errors = last_errors(folder).map(|said| format!("; {QEMU} said: {said}")).unwrap_or_default();
    let Some(last) = last_words(&tail(&console_file(folder))) else { return format!("{errors}; its console is empty") };
    let kept = Cache::usual().and_then(|cache| cache.part("consoles")).ok().and_then(|consoles| {
        let kept = consoles.join("last");
        std::fs::copy(console_file(folder), &kept).ok().map(|_| kept)
    });
    match kept {
        Some(kept) => format!("{errors}; its console ends: {last} (all of it: {})", kept.display()),
        None => format!("{errors}; its console ends: {last}"),
    }
}

/// The last lines of a console, and before them that of a panic, behind which registers and calls are listed.
pub(crate) fn last_words(console: &str) -> Option<String> {
    let console = plain(console);
    let lines: Vec<&str> = console.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let (before, last) = lines.split_at(lines.len().saturating_sub(CONSOLE_LINES));
    let panic = before.iter().rev().find(|line| line.contains(PANIC) && !line.contains("end "));
    let shown: Vec<&str> = panic.into_iter().chain(last).copied().collect();
    (!shown.is_empty()).then(|| shown.join(" | "))
}
