//! cpio archives of form "newc" for the kernel (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::collections::BTreeSet;
use std::path::Path;

/// File types of the mode field (stat(2)).
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTERS: u32 = 0o020_000;
/// Archives are padded to blocks, so that another one may follow.
const BLOCK: usize = 512;

/// An archive in memory. Everything in it belongs to root; folders are made as files need them.
#[derive(Debug, Clone, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    names: BTreeSet<String>,
}

impl Archive {
    /// A file with its permission bits, such as 0o755. A name that is there already stays as it is.
    pub fn file(&mut self, name: &str, permissions: u32, content: &[u8]) {
        self.entry(name, FILE | permissions, (0, 0), content);
    }

    pub fn link(&mut self, name: &str, to: &str) {
        self.entry(name, LINK | 0o777, (0, 0), to.as_bytes());
    }

    /// A folder that files may or may not follow into.
    pub fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER | 0o755, (0, 0), &[]);
    }

    pub fn device(&mut self, name: &str, permissions: u32, device: (u32, u32)) {
        self.entry(name, CHARACTERS | permissions, device, &[]);
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name.trim_start_matches('/'))
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.header("TRAILER!!!", 0, (0, 0), 0, 0);
        self.pad(BLOCK);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        let name = name.trim_start_matches('/');
        if name.is_empty() || self.names.contains(name) {
            return;
        }
        // The kernel makes no folder by itself.
        if let Some(parent) = Path::new(name).parent().and_then(Path::to_str) {
            self.folder(parent);
        }
        self.names.insert(name.to_owned());
        // Files of one number and more than one link would be one file.
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.header(name, mode, device, number, content.len());
        self.bytes.extend_from_slice(content);
        self.pad(4);
    }

    fn header(&mut self, name: &str, mode: u32, device: (u32, u32), number: u32, length: usize) {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let name_length = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        // inode, mode, uid, gid, links, time, size, device of the file (2), device that it is (2), name, checksum
        let fields = [number, mode, 0, 0, 1, 0, length, 0, 0, device.0, device.1, name_length, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad(4);
    }

    fn pad(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, mode and content of each entry, as the kernel would read them.
    fn read(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let (mut at, mut entries) = (0, Vec::new());
        loop {
            let header = &bytes[at..at + 110];
            assert_eq!(&header[..6], b"070701");
            let field = |index: usize| {
                let digits = std::str::from_utf8(&header[6 + 8 * index..14 + 8 * index]).unwrap();
                u32::from_str_radix(digits, 16).unwrap()
            };
            let (mode, length, name_length) = (field(1), field(6) as usize, field(11) as usize);
            let name = String::from_utf8(bytes[at + 110..at + 110 + name_length - 1].to_vec()).unwrap();
            let content = (at + 110 + name_length).next_multiple_of(4);
            if name == "TRAILER!!!" {
                assert!(bytes[content..].iter().all(|byte| *byte == 0));
                return entries;
            }
            entries.push((name, mode, bytes[content..content + length].to_vec()));
            at = (content + length).next_multiple_of(4);
        }
    }

    #[test]
    fn an_archive_holds_what_was_put_into_it_and_the_folders_on_the_way() {
        let mut archive = Archive::default();
        archive.file("/usr/bin/x", 0o755, b"12345");
        archive.file("usr/bin/x", 0o600, b"again");
        archive.link("init", "/usr/bin/x");
        archive.device("dev/console", 0o600, (5, 1));
        assert!(archive.has("/usr/bin/x") && archive.has("usr") && !archive.has("etc"));
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 512, 0);
        let entries = read(&bytes);
        let expected = [
            ("usr", 0o040_755, b"".as_slice()),
            ("usr/bin", 0o040_755, b""),
            ("usr/bin/x", 0o100_755, b"12345"),
            ("init", 0o120_777, b"/usr/bin/x"),
            ("dev", 0o040_755, b""),
            ("dev/console", 0o020_600, b""),
        ];
        let expected: Vec<_> =
            expected.into_iter().map(|(name, mode, content)| (name.to_owned(), mode, content.to_vec())).collect();
        assert_eq!(entries, expected);
    }
}
