//! A folder for a load's files, removed with it.

use crate::LoadError;
use std::path::Path;
use task::OwnFolder;

const PREFIX: &str = "windhover-load-";

/// A new folder in `base`, else in the system's temporary folder.
pub(crate) fn scratch(base: Option<&Path>) -> Result<OwnFolder, LoadError> {
    let base = base.map_or_else(std::env::temp_dir, Path::to_owned);
    OwnFolder::make(&base, PREFIX).map_err(|cause| LoadError::folder(&base, &cause))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn it_is_private_and_goes_with_its_owner() {
        let base = scratch(None).unwrap();
        let one = scratch(Some(base.path())).unwrap();
        let two = scratch(Some(base.path())).unwrap();
        assert_ne!(one.path(), two.path());
        assert_eq!(one.path().metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::create_dir(one.path().join("inner")).unwrap();
        std::fs::write(one.path().join("inner/file"), "x").unwrap();
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && two.path().exists());
    }

    #[test]
    fn orphans_are_swept_and_living_ones_are_not() {
        let base = scratch(None).unwrap();
        let [orphan, stranger] = ["windhover-load-1-999999999", "other-folder-1-1"].map(|name| base.path().join(name));
        [&orphan, &stranger].into_iter().for_each(|path| std::fs::create_dir(path).unwrap());
        let living = scratch(Some(base.path())).unwrap();
        assert!(!orphan.exists() && stranger.exists());
        let _next = scratch(Some(base.path())).unwrap();
        assert!(living.path().exists());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = scratch(Some(Path::new("/nonexistent-folder"))).unwrap_err().to_string();
        assert!(error.contains("/nonexistent-folder") && error.contains("name another"), "{error}");
    }
}
