//! A kernel without its wrapping: an emulated CPU would take seconds to unpack it at each boot.

use super::Kernel;
use crate::cache::{has, keep};
use crate::{Cache, GuestError};
use std::path::PathBuf;
use std::time::Duration;
use task::Launch;

/// What a kernel is packed by: its first bytes, and the program that unpacks it with `-dc`.
const PACKERS: [(&[u8], &str); 3] = [(b"\xfd7zXZ", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\x1f\x8b", "gzip")];
const UNPACKING: Duration = Duration::from_secs(120);
/// The last bytes of a packed kernel are its unpacked size, which belongs to no packer but gzip.
const SIZE: usize = 4;
/// The note by which an emulator finds where to enter a kernel (PVH, XEN_ELFNOTE_PHYS32_ENTRY): owner, and its type before.
const NOTE: &[u8] = b"\x12\0\0\0Xen\0";

/// The kernel as an ELF file, unpacked now or before; its image where it cannot be entered that way.
pub(crate) fn unpacked(kernel: &Kernel, cache: &Cache) -> Result<PathBuf, GuestError> {
    let packed = std::fs::read(&kernel.image).map_err(GuestError::file("read", &kernel.image))?;
    let folder = cache.part("images")?;
    let path = folder.join(format!("{}-{:016x}.elf", kernel.release, crate::image::fingerprint_of(&packed)));
    let _lock = Cache::lock(&folder)?;
    if has(&path) {
        return Ok(path);
    }
    match payload(&packed).and_then(unpack) {
        Some(elf) => keep(&path, &elf).map(|()| path),
        None => Ok(kernel.image.clone()),
    }
}

/// The packed kernel in its image (Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length).
fn payload(image: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| {
        let bytes = image.get(at..at + 4)?;
        usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let sectors = usize::from(*image.get(0x1f1)?);
    let start = (sectors + 1) * 512 + number(0x248)?;
    image.get(start..start.checked_add(number(0x24c)?)?)
}

fn unpack(payload: &[u8]) -> Option<Vec<u8>> {
    let (_, program) = PACKERS.iter().find(|(magic, _)| payload.starts_with(magic))?;
    let end = if *program == "gzip" { payload.len() } else { payload.len().checked_sub(SIZE)? };
    let done = Launch::new(*program).arg("-dc").finish(payload.get(..end)?, UNPACKING).ok()?;
    let enters = done.stdout.windows(NOTE.len()).any(|window| window == NOTE);
    (done.status.success() && done.stdout.starts_with(b"\x7fELF") && enters).then_some(done.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image of 2 sectors of setup with a packed kernel behind them.
    fn image(kernel: &[u8]) -> Vec<u8> {
        let mut packed = Launch::new("xz").arg("-c").finish(kernel, UNPACKING).unwrap().stdout;
        packed.extend(u32::try_from(kernel.len()).unwrap().to_le_bytes());
        let mut image = vec![0; 1024];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&7_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&u32::try_from(packed.len()).unwrap().to_le_bytes());
        image.extend(*b"padding");
        image.extend(packed);
        image
    }

    /// Catches: two boots of a new kernel at once, of which the second finds the file gone that both wrote.
    #[test]
    fn boots_at_once_unpack_one_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, path) = (Cache::at(folder.path()), folder.path().join("vmlinuz-6"));
        let (name, release) = ("t".to_owned(), "6".to_owned());
        let kernel = Kernel { name, release, image: path.clone(), modules: folder.path().to_owned() };
        let elf = [b"\x7fELF kernel ".as_slice(), NOTE].concat();
        std::fs::write(&path, image(&elf)).unwrap();
        std::thread::scope(|scope| {
            let boots: Vec<_> = (0..8).map(|_| scope.spawn(|| unpacked(&kernel, &cache).unwrap())).collect();
            for boot in boots {
                assert_eq!(std::fs::read(boot.join().unwrap()).unwrap(), elf);
            }
        });
    }

    #[test]
    fn a_kernel_is_unpacked_once_and_only_where_it_can_be_entered() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, path) = (Cache::at(folder.path()), folder.path().join("vmlinuz-6"));
        let kernel = Kernel {
            name: "t".to_owned(),
            release: "6".to_owned(),
            image: path.clone(),
            modules: folder.path().to_owned(),
        };
        let elf = [b"\x7fELF kernel ".as_slice(), NOTE].concat();
        std::fs::write(&path, image(&elf)).unwrap();
        let first = unpacked(&kernel, &cache).unwrap();
        assert_eq!(std::fs::read(&first).unwrap(), elf);
        // Catches: a kernel that each boot uses is the oldest file, which the next new image pushes out before QEMU reads it.
        let age = |path: &PathBuf| std::fs::metadata(path).unwrap().modified().unwrap().elapsed().unwrap_or_default();
        let file = std::fs::File::open(&first).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(3600)).unwrap();
        assert_eq!(unpacked(&kernel, &cache).unwrap(), first);
        assert!(age(&first) < Duration::from_secs(1800), "{:?}", age(&first));
        for other in [image(b"\x7fELF without a note"), b"no image".to_vec()] {
            std::fs::write(&path, other).unwrap();
            assert_eq!(unpacked(&kernel, &cache).unwrap(), path);
        }
    }
}
