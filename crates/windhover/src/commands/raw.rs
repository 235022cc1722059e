//! Raw samples as lines of text, one file a size.

use crate::output::Failure;
use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{ResultDocument, SampleFlags};
use std::fmt::Write as _;
use std::path::Path;

/// Writes PREFIX-SIZE.dat: send time since the first timed send and RTT, both in ns, in the order of sending; a lost
/// message has `-` for its RTT.
pub(crate) fn write(prefix: &Path, result: &ResultDocument, raw: &str) -> Result<(), Failure> {
    let bytes = STANDARD.decode(raw).context("raw samples")?;
    let text = text(&bytes).ok_or_else(|| anyhow!("raw samples of this build cannot be read"))?;
    let size = result.size().unwrap_or_default();
    let name = prefix.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let path = prefix.with_file_name(format!("{name}-{size}.dat"));
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

/// Columns as `record` lays them out: mark, count, seq, intended, sent, received, peer_rx, peer_tx, flags.
fn text(bytes: &[u8]) -> Option<String> {
    let (head, body) = bytes.split_at_checked(16)?;
    let count = usize::try_from(u64::from_le_bytes(head[8..].try_into().ok()?)).ok()?;
    let eight = |column: usize, row: usize| -> Option<i64> {
        let at = (column * count + row) * 8;
        Some(i64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?))
    };
    let flags = |row: usize| -> Option<u32> {
        let at = 6 * count * 8 + row * 4;
        Some(u32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?))
    };
    let mut text = String::from("# sent_ns rtt_ns\n");
    for row in 0..count {
        let (sent, received) = (eight(2, row)?, eight(3, row)?);
        if SampleFlags(flags(row)?).has(SampleFlags::LOST) {
            let _ = writeln!(text, "{sent} -");
        } else {
            let _ = writeln!(text, "{sent} {}", received - sent);
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    #[test]
    fn damaged_columns_are_refused() {
        assert_eq!(super::text(b"short"), None);
        let mut bytes = b"WHRAW001".to_vec();
        bytes.extend(5u64.to_le_bytes());
        assert_eq!(super::text(&bytes), None);
        bytes[8..16].fill(0);
        assert_eq!(super::text(&bytes).unwrap(), "# sent_ns rtt_ns\n");
    }
}
