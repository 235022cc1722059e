//! What in the environment selects or tunes a user-space network stack, and whether what it names is really there.

use libc::{c_int, c_void, size_t};
use model::usage::Preload;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::path::{Path, PathBuf};

/// Prefixes of the variables that preloaded stacks read.
const PREFIXES: [&str; 8] = ["EF_", "VMA_", "XLIO_", "ONLOAD_", "SFNT_", "ZF_", "EXASOCK_", "LIBVMA_"];

/// Whether a variable belongs to a preloaded network stack or selects one.
#[must_use]
pub fn is_stack_variable(name: &str) -> bool {
    matches!(name, "LD_PRELOAD" | "LD_LIBRARY_PATH" | "LD_AUDIT")
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The variables of this process that do, by name. Values that are not UTF-8 keep what can be read of them.
#[must_use]
pub fn stack_environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .filter(|(name, _)| is_stack_variable(name))
        .collect()
}

/// The libraries that LD_PRELOAD names in this process, and whether the dynamic loader has mapped each. The loader skips
/// one that it cannot load with a warning, and all of them in a statically linked program; in a program that gains
/// privileges when it starts (setuid, file capabilities) it skips those named by a path.
#[must_use]
pub fn preloads() -> Vec<Preload> {
    match std::env::var_os("LD_PRELOAD") {
        Some(value) if !value.is_empty() => {
            preloads_among(&value.to_string_lossy(), &loaded_objects(), |path| std::fs::canonicalize(path).ok())
        }
        _ => Vec::new(),
    }
}

/// Looks the names of an LD_PRELOAD value up among the names of loaded objects. `resolve` follows symbolic links.
#[must_use]
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

/// Names of the objects that the dynamic loader has mapped, as the loader calls them. Its own list rather than
/// /proc/self/maps: there a library carries the name that its symbolic links end at, which nobody asked for.
fn loaded_objects() -> Vec<String> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _size: size_t, names: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr(3) passes a valid record, and the pointer that it was given: the vector below, which
        // nobody else uses meanwhile.
        let (info, names) = unsafe { (&*info, &mut *names.cast::<Vec<String>>()) };
        if !info.dlpi_name.is_null() {
            // SAFETY: the name is a string that ends with a zero and lives as long as the object is loaded; the loader
            // holds its lock during the call.
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
    fn the_loader_names_the_c_library() {
        let objects = loaded_objects();
        assert!(objects.iter().any(|object| object.contains("libc.so")), "{objects:?}");
    }
}
