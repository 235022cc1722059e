//! PGM packets as `record::repairs` takes them.

use crate::Frame;
use pgm::packet::{Body, Sum};
use record::repairs::{CapturedPacket, CarriedMessage, GroupOptions, PacketKind, PacketNotes, Repairs};
use wire::dissect::Sighted;

/// What the packets before say of this one. Nothing is learned from packets with a wrong checksum.
pub(crate) fn see(repairs: &mut Repairs, frame: &Frame<'_>, sighted: &Sighted<'_>) -> PacketNotes {
    let observed = &sighted.packet;
    let mut captured = CapturedPacket {
        source: sighted.source.0,
        kind: PacketKind::Other,
        numbers: &[],
        parity: false,
        group: GroupOptions::default(),
        bytes: 0,
        leaving: frame.leaving,
        clock: frame.interface,
        time_ns: frame.time_ns,
        carried: sighted.carried.map(|one| CarriedMessage { seq: one.seq, tag: one.tag, answer: one.answer }),
    };
    let Some(packet) = observed.packet.ok().filter(|_| observed.sum != Sum::Bad) else {
        return repairs.see(&captured);
    };
    let options = &packet.options;
    let (kind, numbers): (_, Vec<u32>) = match &packet.body {
        Body::Odata(data) => (PacketKind::Odata, vec![data.sqn.0]),
        Body::Rdata(data) => (PacketKind::Rdata, vec![data.sqn.0]),
        Body::Spm(spm) => (PacketKind::Spm, vec![spm.trail.0, spm.lead.0]),
        Body::Nak(nak) => (PacketKind::Nak, options.numbers(nak).collect()),
        Body::Ncf(nak) => (PacketKind::Ncf, options.numbers(nak).collect()),
        Body::Nnak(nak) => (PacketKind::Nnak, options.numbers(nak).collect()),
        Body::Spmr => (PacketKind::Spmr, Vec::new()),
        Body::Poll(_) => (PacketKind::Poll, Vec::new()),
        Body::Polr(_) => (PacketKind::Polr, Vec::new()),
        Body::Ack(_) => (PacketKind::Ack, Vec::new()),
    };
    captured.kind = kind;
    captured.numbers = &numbers;
    captured.parity = options.parity;
    captured.group = GroupOptions {
        packets: options.parity_parameters.map(|parity| parity.group_size),
        round: options.parity_group.unwrap_or(0),
        short: options.current_group_size,
    };
    captured.bytes = u64::from(observed.head.payload_bytes);
    repairs.see(&captured)
}
