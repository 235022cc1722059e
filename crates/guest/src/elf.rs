//! Programs as the loader sees them: what it never reads is left out of images.

/// Cuts symbols and debug information, which lie behind what is loaded, off a little-endian 64-bit ELF file.
pub(crate) fn loaded_part(program: &mut Vec<u8>) {
    if let Some(end) = end_of_segments(program).filter(|end| *end <= program.len()) {
        program.truncate(end);
        // e_shoff (8 bytes at 40), e_shnum and e_shstrndx (4 bytes at 60): there are no sections.
        for range in [40..48, 60..64] {
            program[range].fill(0);
        }
    }
}

/// Where the last segment ends in the file (elf(5): program headers at e_phoff, each with p_offset and p_filesz).
fn end_of_segments(program: &[u8]) -> Option<usize> {
    let number = |at: usize, length: usize| -> Option<usize> {
        let bytes = program.get(at..at.checked_add(length)?)?;
        let value = bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        usize::try_from(value).ok()
    };
    // Magic, 64 bits, little endian.
    if program.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut end = table.checked_add(size.checked_mul(count)?)?;
    for index in 0..count {
        let header = table + index * size;
        end = end.max(number(header + 8, 8)?.checked_add(number(header + 32, 8)?)?);
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::loaded_part;

    #[test]
    fn this_program_loses_its_symbols_and_still_runs() {
        use std::os::unix::fs::PermissionsExt as _;
        let mut program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let before = program.len();
        loaded_part(&mut program);
        assert!(program.len() < before, "{} of {before} bytes", program.len());
        let folder = tempfile::tempdir().unwrap();
        let (cut, path) = (folder.path().join("cut"), folder.path().join("program"));
        std::fs::write(&cut, program).unwrap();
        std::fs::set_permissions(&cut, std::fs::Permissions::from_mode(0o700)).unwrap();
        // Written by another process: a child that a test beside this one forks would keep the file open for writing.
        let limit = std::time::Duration::from_secs(30);
        assert!(task::Launch::new("cp").arg(&cut).arg(&path).finish(b"", limit).unwrap().status.success());
        let listed = task::Launch::new(&path).arg("--list").finish(b"", limit).unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains("this_program_loses_its_symbols"), "{listed:?}");
    }

    #[test]
    fn other_files_stay_as_they_are() {
        for content in [b"".to_vec(), b"#!/bin/sh".to_vec(), b"\x7fELF\x02\x01 and no more".to_vec()] {
            let mut cut = content.clone();
            loaded_part(&mut cut);
            assert_eq!(cut, content);
        }
    }
}
