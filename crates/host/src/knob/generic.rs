//! Families of generic netlink (include/uapi/linux/genetlink.h), in the calling thread's network namespace.

use netlink::{Answer, Answers, Asks, Attributes, Request, Socket, u16_at};
use std::io;

/// Id of the family that knows the others (`GENL_ID_CTRL`).
const CONTROL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// `struct genlmsghdr`: command, version, two reserved bytes.
const GENERIC_BYTES: usize = 4;

#[derive(Debug)]
pub(crate) struct Family {
    socket: Socket,
    id: u16,
}

impl Family {
    /// `None` when this kernel has no such family.
    pub(crate) fn open(name: &str) -> io::Result<Option<Self>> {
        let mut family = Self { socket: Socket::generic()?, id: CONTROL };
        let mut zero_ended = name.as_bytes().to_vec();
        zero_ended.push(0);
        let request = family.request(CTRL_CMD_GETFAMILY, Asks::One).with(CTRL_ATTR_FAMILY_NAME, &zero_ended);
        let mut id = None;
        match family.exchange(request, |attributes| id = id.or_else(|| family_id(attributes))) {
            Ok(()) => {}
            Err(refused) if refused.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            Err(refused) => return Err(refused),
        }
        Ok(id.map(|id| {
            family.id = id;
            family
        }))
    }

    pub(crate) fn request(&self, command: u8, asks: Asks) -> Request {
        Request::new(self.id, asks, &[command, 1, 0, 0])
    }

    /// Sends a request and gives the attributes of each object of the answer to `take`.
    pub(crate) fn exchange(&self, request: Request, mut take: impl FnMut(Attributes<'_>)) -> io::Result<()> {
        self.socket.exchange(request, |_, body| take(attributes(body)))
    }
}

/// What `read` makes of the objects in one datagram of an answer.
pub(crate) fn objects<T>(bytes: &[u8], read: impl Fn(Attributes<'_>) -> Option<T>) -> Vec<T> {
    let object = |answer| if let Answer::Object(_, body) = answer { read(attributes(body)) } else { None };
    Answers(bytes).filter_map(object).collect()
}

fn attributes(body: &[u8]) -> Attributes<'_> {
    Attributes(body.get(GENERIC_BYTES..).unwrap_or_default())
}

fn family_id(attributes: Attributes<'_>) -> Option<u16> {
    u16_at(attributes.of(CTRL_ATTR_FAMILY_ID)?, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_its_own_families() {
        assert!(Family::open("nlctrl").unwrap().is_some());
        assert!(Family::open("no-such-family").unwrap().is_none());
    }
}
