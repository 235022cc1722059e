//! What in the environment selects or tunes a user-space network stack, and whether what it names is really there.

use bypass_abi::Start;
use bypass_abi::page::{self, Reason};
use libc::{c_int, c_void, size_t};
use model::usage::{Carried, Preload};
use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

const PREFIXES: [&str; 8] = ["EF_", "VMA_", "XLIO_", "ONLOAD_", "SFNT_", "ZF_", "EXASOCK_", "LIBVMA_"];

/// Whether a variable belongs to a preloaded network stack or selects one.
pub fn is_stack_variable(name: &str) -> bool {
    matches!(name, "LD_PRELOAD" | "LD_LIBRARY_PATH" | "LD_AUDIT")
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The variables of this process that do, by name. Values that are not UTF-8 keep what can be read of them.
pub fn stack_environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .filter(|(name, _)| is_stack_variable(name))
        .collect()
}

/// LD_PRELOAD's libraries, and whether the loader has mapped each (not in static or privileged programs, or on errors).
pub fn preloads() -> Vec<Preload> {
    match std::env::var_os("LD_PRELOAD") {
        Some(value) if !value.is_empty() => {
            preloads_among(&value.to_string_lossy(), &loaded_objects(), |path| std::fs::canonicalize(path).ok())
        }
        _ => Vec::new(),
    }
}

/// Looks the names of an LD_PRELOAD value up among the names of loaded objects. `resolve` follows symbolic links.
pub fn preloads_among(value: &str, loaded: &[String], resolve: impl Fn(&Path) -> Option<PathBuf>) -> Vec<Preload> {
    let is_loaded = |library: &str| {
        // The loader finds a bare name along its search path, and replaces $LIB and the like.
        if !library.contains('/') || library.contains('$') {
            let wanted = Path::new(library).file_name();
            return loaded.iter().any(|object| Path::new(object).file_name() == wanted);
        }
        let real = resolve(Path::new(library));
        loaded.iter().any(|object| object == library || (real.is_some() && resolve(Path::new(object)) == real))
    };
    Preload::names(value).map(|name| Preload { library: name.to_owned(), loaded: is_loaded(name) }).collect()
}

/// What carries these sockets of this process, by our preload library's status page; `None` without library or page.
pub fn carried(sockets: &[RawFd]) -> Option<Vec<Carried>> {
    let started = std::env::var_os(bypass_abi::VARIABLE)?;
    let folder = OsStr::from_bytes(Start::parse(started.as_bytes()).folder);
    let file = Path::new(folder).join(std::process::id().to_string());
    match std::fs::read(file).ok().and_then(|bytes| page::words(&bytes)) {
        Some(words) => Some(carried_by(&words, sockets)),
        // It makes one with the first socket that it could accelerate.
        None if loaded_objects().iter().any(|object| object.contains("libwindhover-shim-")) => {
            let reason = Some("the library has no status page: no UDP or TCP socket, or its folder cannot be written");
            let sockets = u32::try_from(sockets.len()).unwrap_or(u32::MAX);
            Some(vec![Carried { by: "kernel".to_owned(), reason: reason.map(str::to_owned), sockets }])
        }
        None => None,
    }
}

/// The same from the words of a page.
pub fn carried_by(words: &[u64], sockets: &[RawFd]) -> Vec<Carried> {
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let state_of = |socket: RawFd| {
        let number = u64::from(socket.unsigned_abs()) + 1;
        (0..page::SOCKETS)
            .map(|record| word(page::at_socket(record)))
            .find(|state| state & u64::from(u32::MAX) == number)
    };
    let mut counted: BTreeMap<(&str, Option<&str>), u32> = BTreeMap::new();
    for socket in sockets {
        let (by, reason) = match state_of(*socket) {
            Some(state) => page::carrier(state),
            // The page may have had no room for it.
            None if word(page::AT_UNLISTED) > 0 => continue,
            None => ("kernel", Some(Reason::OtherSocket)),
        };
        *counted.entry((by, reason.map(Reason::what))).or_default() += 1;
    }
    if sockets.is_empty() {
        // A connection for each transaction is closed by now. What the library could not accelerate it has counted.
        for reason in Reason::ALL.iter().filter(|reason| reason.is_failure()) {
            let times = u32::try_from(word(page::AT_REASONS + *reason as usize)).unwrap_or(u32::MAX);
            counted.extend((times > 0).then_some((("kernel", Some(reason.what())), times)));
        }
    }
    let own = |text: &str| text.to_owned();
    let carried =
        |((by, reason), sockets): (_, u32)| Carried { by: own(by), reason: Option::map(reason, own), sockets };
    counted.into_iter().map(carried).collect()
}

/// Objects that the dynamic loader has mapped, by its names: /proc/self/maps has those that symbolic links end at.
fn loaded_objects() -> Vec<String> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _size: size_t, names: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr(3) passes a valid record and the vector below, which nothing else uses.
        let (info, names) = unsafe { (&*info, &mut *names.cast::<Vec<String>>()) };
        if !info.dlpi_name.is_null() {
            // SAFETY: the name ends with a zero and lives as long as the object is loaded; the loader holds its lock.
            let name = unsafe { CStr::from_ptr(info.dlpi_name) };
            names.push(name.to_string_lossy().into_owned());
        }
        0
    }
    let mut names: Vec<String> = Vec::new();
    // SAFETY: the callback keeps to the signature and does not unwind; the vector outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut names).cast()) };
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(value: &str, objects: &[&str]) -> Vec<(String, bool)> {
        let objects: Vec<String> = objects.iter().map(|&object| object.to_owned()).collect();
        // libvma.so is a link to libvma.so.9 in the same folder; nothing else exists.
        let resolve = |path: &Path| match path.to_str()? {
            "/usr/lib/libvma.so" | "/usr/lib/libvma.so.9" => Some(PathBuf::from("/usr/lib/libvma.so.9")),
            _ => None,
        };
        preloads_among(value, &objects, resolve).into_iter().map(|found| (found.library, found.loaded)).collect()
    }

    #[test]
    fn paths_names_links_and_tokens() {
        for (asked, object) in [
            ("/opt/shim.so", "/opt/shim.so"),
            ("./shim.so", "./shim.so"),
            ("libonload.so", "/usr/lib/x86_64-linux-gnu/libonload.so"),
            ("/usr/lib/libvma.so", "/usr/lib/libvma.so.9"),
            ("/opt/$LIB/shim.so", "/opt/lib/x86_64-linux-gnu/shim.so"),
        ] {
            assert_eq!(loaded(asked, &["", object, "/lib/libc.so.6"]), [(asked.to_owned(), true)]);
            assert_eq!(loaded(asked, &["", "/lib/libc.so.6"]), [(asked.to_owned(), false)]);
        }
        // Another file of that name is not the one asked for, and neither is one whose name only begins so.
        assert_eq!(loaded("/opt/shim.so", &["/usr/lib/shim.so"]), [("/opt/shim.so".to_owned(), false)]);
        assert_eq!(loaded("libonload.so", &["/usr/lib/libonload.so.old"]), [("libonload.so".to_owned(), false)]);
        assert_eq!(loaded("/nowhere/a.so", &["/nowhere/b.so"]), [("/nowhere/a.so".to_owned(), false)]);
    }

    #[test]
    fn several_names_in_one_value() {
        let found = loaded(" a.so:/x/b.so  c.so:", &["/lib/a.so", "/lib/c.so"]);
        let words: Vec<(&str, bool)> = found.iter().map(|(name, loaded)| (name.as_str(), *loaded)).collect();
        assert_eq!(words, [("a.so", true), ("/x/b.so", false), ("c.so", true)]);
        assert!(loaded("  : ", &["/lib/a.so"]).is_empty());
    }

    #[test]
    fn a_page_says_what_carries_which_socket() {
        let mut words = vec![0; page::WORDS];
        let left = |reason: Reason| (reason as u64 + 1) << page::REASON_SHIFT;
        for (record, state) in [(0, 4 | page::STREAM), (3, 8 | left(Reason::NonBlocking)), (4, 10), (9, 6)] {
            words[page::at_socket(record)] = state;
        }
        words[page::AT_REASONS + Reason::PartialReceive as usize] = 2;
        words[page::AT_REASONS + Reason::Contention as usize] = 7;
        let found = |words: &[u64], sockets: &[RawFd]| -> Vec<(String, Option<String>, u32)> {
            carried_by(words, sockets).into_iter().map(|one| (one.by, one.reason, one.sockets)).collect()
        };
        let spin = |count| ("spin".to_owned(), None, count);
        let kernel = |reason: Reason, count| ("kernel".to_owned(), Some(reason.what().to_owned()), count);
        assert_eq!(found(&words, &[3, 9, 5]), [spin(3)]);
        assert_eq!(found(&words, &[3, 7]), [kernel(Reason::NonBlocking, 1), spin(1)]);
        assert_eq!(found(&words, &[11]), [kernel(Reason::OtherSocket, 1)]);
        assert_eq!(found(&words, &[]), [kernel(Reason::PartialReceive, 2)], "contention is no failure");
        words[page::AT_UNLISTED] = 1;
        assert_eq!(found(&words, &[11, 3]), [spin(1)], "nobody knows what carries the first");
    }

    #[test]
    fn the_loader_names_the_c_library() {
        let objects = loaded_objects();
        assert!(objects.iter().any(|object| object.contains("libc.so")), "{objects:?}");
    }
}
