//! Starting processes: what to run, how it is scheduled, where, with which descriptors, and how it dies.
//!
//! Built on `std::process::Command`; everything that it cannot do happens in [`prepare`], between fork and exec.

mod child;
mod prepare;
pub(crate) mod spawn;

pub use child::{Child, Finished};
pub(crate) use spawn::process_descriptor;

use crate::TaskError;
use model::{CpuList, Policy};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Default)]
pub enum Stream {
    /// /dev/null; the default for stdin.
    #[default]
    Null,
    /// The starter's own.
    Inherit,
    /// A pipe, taken from the [`Child`].
    Pipe,
    File(OwnedFd),
}

/// How surely the child's descendants die with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Containment {
    /// Its process group is killed with it; a descendant outside the group, or SIGKILL of the starter, escapes that.
    Group,
    /// It is init of a pid namespace of its own: the kernel kills every descendant with it, whatever they do.
    PidNamespace,
    /// As before, made by way of a user namespace of its own, because the starter is not privileged.
    UserAndPidNamespace,
}

/// A process to start.
///
/// The child gets a process group of its own (a Ctrl-C in the terminal does not reach it), no descriptor but the three
/// standard ones and those named by [`Launch::inherit_fd`], and default signal dispositions.
#[derive(Debug)]
#[must_use = "it starts nothing by itself: call `start` or `finish`"]
pub struct Launch {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, Option<OsString>)>,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) policy: Option<Policy>,
    pub(crate) cpus: Option<CpuList>,
    pub(crate) netns: Option<PathBuf>,
    pub(crate) die_with_parent: bool,
    pub(crate) pid_namespace: bool,
    pub(crate) own_group: bool,
    pub(crate) streams: [Stream; 3],
    pub(crate) descriptors: Vec<(OwnedFd, i32)>,
}

impl Launch {
    /// A program, by path or by name on PATH, with stdin from /dev/null and the starter's stdout and stderr.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            environment: Vec::new(),
            directory: None,
            policy: None,
            cpus: None,
            netns: None,
            die_with_parent: false,
            pid_namespace: false,
            own_group: true,
            streams: [Stream::Null, Stream::Inherit, Stream::Inherit],
            descriptors: Vec::new(),
        }
    }

    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn args<I>(mut self, args: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the child's environment, which else is the starter's.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), Some(value.into())));
        self
    }

    /// Removes a variable from the child's environment.
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), None));
        self
    }

    /// The child's working directory; by default the starter's.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// The child's scheduling policy. Real-time ones carry SCHED_RESET_ON_FORK. Without this call the child gets the
    /// starter's, or SCHED_OTHER when the starter became real-time by [`crate::apply_policy`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The CPUs that the child may run on; by default the starter's.
    pub fn cpus(mut self, cpus: CpuList) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Makes the child a bystander: ordinary policy, and off the measuring CPU where there is another one.
    pub fn bystander(self, measuring: Option<u32>) -> Self {
        self.policy(Policy::Other).cpus(crate::housekeeping_cpus(measuring))
    }

    /// Enters this network namespace (such as /run/netns/NAME); mounts, and so /sys, stay the starter's.
    pub fn netns(mut self, path: impl Into<PathBuf>) -> Self {
        self.netns = Some(path.into());
        self
    }

    /// The kernel kills the child when the starting **thread** ends (PR_SET_PDEATHSIG): start it from one that stays.
    pub fn die_with_parent(mut self) -> Self {
        self.die_with_parent = true;
        self
    }

    /// Makes the child init of a pid namespace of its own, so that all its descendants die with it; implies
    /// [`Launch::die_with_parent`]. Where that is not permitted a user namespace is tried, then the process group has to
    /// do; [`Child::containment`] is what it became.
    ///
    /// An init gets no signal that it has no handler for except SIGKILL: end it by closing its stdin or by [`Child::kill`].
    pub fn pid_namespace(mut self) -> Self {
        self.pid_namespace = true;
        self.die_with_parent()
    }

    /// Leaves the child in the starter's process group, so that signals and input of the terminal reach it.
    pub fn in_our_group(mut self) -> Self {
        self.own_group = false;
        self
    }

    /// A program that a person starts through windhover: [`Launch::in_our_group`], with the starter's standard streams.
    pub fn in_foreground(self) -> Self {
        self.in_our_group().stdin(Stream::Inherit).stdout(Stream::Inherit).stderr(Stream::Inherit)
    }

    pub fn stdin(mut self, stream: Stream) -> Self {
        self.streams[0] = stream;
        self
    }

    pub fn stdout(mut self, stream: Stream) -> Self {
        self.streams[1] = stream;
        self
    }

    pub fn stderr(mut self, stream: Stream) -> Self {
        self.streams[2] = stream;
        self
    }

    /// Gives the child a descriptor under a number of 3 or more. The starter's own is closed once the child runs.
    pub fn inherit_fd(mut self, descriptor: OwnedFd, number: i32) -> Self {
        self.descriptors.push((descriptor, number));
        self
    }

    /// Starts the process. What cannot be done fails here, not in the child.
    pub fn start(self) -> Result<Child, TaskError> {
        spawn::spawn(self)
    }

    /// Starts the process, feeds it `input`, and collects what it prints until it ends; it is killed after `timeout`.
    pub fn finish(self, input: &[u8], timeout: Duration) -> Result<Finished, TaskError> {
        let stdin = if input.is_empty() { Stream::Null } else { Stream::Pipe };
        self.stdin(stdin).stdout(Stream::Pipe).stderr(Stream::Pipe).start()?.collect(input, timeout)
    }
}
