//! Factors of `stream`.

use super::Record::{Always, Changed};
use super::flag::{DATA, TOP};
use super::{Value, on, parsed, scaled_number, some, whole};
use crate::Probe::Stream;
use crate::error::within;
use crate::{ModelError, Protocol, StreamSpec};

fn bandwidth(stream: &mut StreamSpec, value: &Value) -> Result<(), ModelError> {
    let bits = scaled_number(value)?.round();
    within("bandwidth", bits, 0.0..=1e13, "1 bit to 10,000 Gbit a second")?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above; `as` saturates")]
    let bits = bits as u64;
    stream.rate_bps = Some(bits);
    Ok(())
}

factors! { FACTORS =
    "direction" Text Stream(direction = parsed), default("up"), record(Always),
        about("Direction of a stream: `up`, `down` or `both`.");
        flag "direction" <DIRECTION> on [Stream] DATA "Direction: up (from here), down (from the far end), both", default("up");
        flag "bidir" = "both" on [Stream] DATA "Both directions at once: --direction both", conflicts(&["direction", "reverse"]);
        flag "reverse" = "down" on [Stream] DATA "From the far end: --direction down", short(&['R']), conflicts(&["direction"]), daily();
    "flows" Whole Stream(flows = whole), default("1"), record(Changed), about("Parallel flows of a stream.");
        flag "flows" <N> on [Stream] DATA "Parallel flows in each direction", short(&['P']), default("1"), aliases(&["parallel"]),
            daily();
    "bandwidth_bps" Scaled Stream(bandwidth), record(Changed), recorded_as("bandwidth"),
        about("Payload bits a second of a stream in each direction, a number or a text such as `\"100M\"` (default: as fast as it goes).");
        flag "bandwidth" <BITS> on [Stream] DATA
            "Payload bits a second in each direction, such as 500k, 100M, 2.5G [default: as fast as it goes]",
            short(&['b']), aliases(&["bitrate"]), daily();
    "datagrams_pps" Scaled Stream(rate_pps = some(scaled_number)), over(&[Protocol::Udp]),
        about("Datagrams a second of a stream over udp in each direction, instead of `bandwidth_bps`.");
        flag "rate" <PPS> on [Stream] DATA "Datagrams a second in each direction instead, such as 50k; udp only",
            conflicts(&["bandwidth"]);
    "batch" Whole Stream(batch = whole), default("1"), record(Changed), over(&[Protocol::Udp]),
        about("Datagrams a system call of a stream over udp.");
        flag "batch" <N> on [Stream] DATA "Datagrams a system call at most (sendmmsg, recvmmsg); udp only [default: 1]";
    "gso" Switch Stream(gso = on), default("false"), record(Changed), over(&[Protocol::Udp]),
        about("The kernel cuts long sends of a stream over udp into datagrams.");
        flag "gso" = "true" on [Stream] DATA "The kernel splits long sends into datagrams (UDP_SEGMENT); udp only";
    "gro" Switch Stream(gro = on), default("false"), record(Changed), over(&[Protocol::Udp]),
        about("The kernel joins datagrams of a stream over udp.");
        flag "gro" = "true" on [Stream] DATA "The kernel joins datagrams for the receiver (UDP_GRO): jitter is then unknown; udp only";
    "working_latency" Switch Stream(working_latency = on), default("false"), about("A UDP ping-pong beside a stream.");
        flag "working-latency" = "true" on [Stream] TOP
            "A UDP ping-pong before and beside the stream shows what the load does to latency";
}
