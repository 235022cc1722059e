//! Filters that keep kernel sockets quiet where they see the frames that the stack takes.

use super::state::Not;
use crate::kernel;
use bypass_abi::page::Reason;
use libc::c_int;
use user_stack::Engine;
use xsk::Backend;

/// Keeps a kernel socket quiet that sees the stack's frames: a filter drops unfragmented packets for this host from the
/// interface (AF_XDP takes frames away). Where the kernel refuses it (Linux 6.18.44: TCP without CAP_NET_ADMIN), the
/// socket would answer all segments with resets.
pub(super) fn quiet(engine: &Engine, fd: c_int, is_stream: bool) -> Result<(), Not> {
    if engine.backend() != Backend::Packet || filter(engine, fd, is_stream) {
        return Ok(());
    }
    Err(Not::Ever(Reason::NoFilter))
}

/// Undoes [`quiet`].
pub(super) fn unquiet(engine: &Engine, fd: c_int) {
    if engine.backend() == Backend::Packet {
        kernel::detach_filter(fd);
    }
}

/// Drops what comes through the interface for this host alone. Whether the kernel allows it.
pub(super) fn filter(engine: &Engine, fd: c_int, is_stream: bool) -> bool {
    const LOAD: u16 = 0x20;
    const LOAD_LENGTH: u16 = 0x80;
    const JUMP_EQUAL: u16 = 0x15;
    const JUMP_GREATER: u16 = 0x25;
    const RETURN: u16 = 0x06;
    /// SKF_AD_OFF + SKF_AD_IFINDEX, SKF_AD_PKTTYPE of linux/filter.h.
    const INTERFACE: u32 = 0xffff_f008;
    const PACKET_TYPE: u32 = 0xffff_f004;
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut code = [
        op(LOAD, 0, 0, INTERFACE),
        op(JUMP_EQUAL, 0, 5, engine.interface().index),
        op(LOAD, 0, 0, PACKET_TYPE),
        op(JUMP_EQUAL, 0, 3, 0),
        op(LOAD_LENGTH, 0, 0, 0),
        // The kernel puts segments of a stream together, too.
        op(JUMP_GREATER, 1, 0, if is_stream { u32::MAX } else { engine.interface().mtu - 20 }),
        op(RETURN, 0, 0, 0),
        op(RETURN, 0, 0, u32::MAX),
    ];
    kernel::attach_filter(fd, &mut code)
}
