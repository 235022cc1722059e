//! The reflector of protocols within one machine: a child of this process, which inherits its end of the data path.

use crate::document::PathInfo;
use crate::peer::{self, DataPath, Peer};
use crate::session::Session;
use crate::{Context, ProbeError};
use model::ProbeSpec;
use model::worker::{INHERITED_VARIABLE, Inherited};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use task::{Child, Launch, Stream};

/// Descriptor numbers in the child.
const CONTROL: i32 = 3;
const READ: i32 = 4;
const WRITE: i32 = 5;

/// How long the child may take to end once the session is closed.
const CHILD_EXIT: Duration = Duration::from_secs(2);

/// The reflector's process. It ends when its control connection does; what does not end is killed.
#[derive(Debug)]
pub(crate) struct Reflector(Child);

impl Drop for Reflector {
    fn drop(&mut self) {
        if !matches!(self.0.wait_timeout(CHILD_EXIT), Ok(Some(_))) {
            let _ = self.0.kill();
        }
    }
}

/// Starts the child and opens the session with it. The child dies with the calling thread.
pub(crate) fn open(spec: &ProbeSpec, context: &Context) -> Result<Peer, ProbeError> {
    let socket = spec.socket()?;
    let protocol = socket.protocol;
    let (here, there) = net::local_pair(socket, &spec.initiator, &spec.reflector)?;
    let (control, its_control) =
        UnixStream::pair().map_err(|cause| ProbeError::Connect { address: "the local reflector".to_owned(), cause })?;
    let (read, write) = there.into_fds();
    let inherited = Inherited { protocol, control: CONTROL, read: READ, write: write.as_ref().map(|_| WRITE) };
    let mut launch = Launch::new(context.worker_program.clone())
        .args(&context.worker_args)
        .env(INHERITED_VARIABLE, inherited.to_string())
        .die_with_parent()
        .stdout(Stream::Null)
        .inherit_fd(OwnedFd::from(its_control), CONTROL)
        .inherit_fd(read, READ);
    if let Some(write) = write {
        launch = launch.inherit_fd(write, WRITE);
    }
    let child = Reflector(launch.start()?);
    let mut session = Session::over(control, "the local reflector".to_owned(), &context.stop)?;
    let opened = session.open(peer::request(spec)?)?;
    session.prove(protocol, || Ok(()))?;
    let path_info =
        PathInfo { host: peer::host_name(), loopback_intended: true, one_machine: true, ..PathInfo::default() };
    Ok(Peer {
        session: Some(session),
        data_path: DataPath::Data(Box::new(here)),
        tag: opened.token.tag(),
        path_info,
        _child: Some(child),
    })
}
