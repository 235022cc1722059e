//! Entering a network namespace, with the /sys that belongs to it.

use crate::TaskError;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::path::Path;

/// Brings the calling thread into a network namespace (/run/netns/NAME, /proc/PID/ns/net), and a mount namespace of its
/// own whose /sys shows its devices; control groups and debugfs are not below this /sys.
pub fn enter_network(file: &Path) -> Result<(), TaskError> {
    let failed = |step| {
        let what = format!("network namespace {} cannot be {step}", file.display());
        move |cause| TaskError::scheduling(what, cause)
    };
    let namespace = File::open(file).map_err(failed("opened"))?;
    setns(namespace, CloneFlags::CLONE_NEWNET).map_err(|errno| failed("entered")(errno.into()))?;
    let nothing = None::<&str>;
    let own_sys = || {
        unshare(CloneFlags::CLONE_NEWNS)?;
        // What is mounted here stays here.
        mount(nothing, "/", nothing, MsFlags::MS_SLAVE | MsFlags::MS_REC, nothing)?;
        mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), nothing)
    };
    own_sys().map_err(|errno: nix::Error| failed("given its own /sys")(errno.into()))
}
