//! Raw samples as lines of text, one file a size.

use crate::StoreError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Probe, ResultDocument, SampleFlags};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

/// Whether files of this prefix have a folder, asked before anything is measured. Errors: [`StoreError::NoFolder`].
pub fn check_samples(prefix: &Path) -> Result<(), StoreError> {
    let folder = match prefix.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    if folder.is_dir() {
        return Ok(());
    }
    Err(StoreError::NoFolder { prefix: prefix.to_owned(), folder: folder.to_owned() })
}

/// Writes PREFIX-SIZE.dat: send time since the first timed send and RTT, both in ns, in the order of sending; a lost
/// message has `-` for its RTT. Of `pace` it is PREFIX-SIZE-RATE.dat with the intended send time before them, and a
/// message that asked for no answer has `.` for its RTT; where there are several reflectors, the number of each, from 0,
/// is the last column. Of `wake` it is PREFIX-wake.dat with deadlines and latencies. `raw` is what `record` keeps. Errors:
/// [`StoreError::Samples`] for samples that cannot be read, else of the file. Where the disk is full, what fits stays there, up to its
/// last whole line, and [`StoreError::SamplesCut`] says how much that is.
pub fn write_samples(prefix: &Path, result: &ResultDocument, raw: &str) -> Result<(), StoreError> {
    let unreadable = |why: &dyn std::fmt::Display| StoreError::Samples(why.to_string());
    let bytes = STANDARD.decode(raw).map_err(|error| unreadable(&error))?;
    let paced = result.probe == Probe::Pace;
    let head = match result.probe {
        Probe::Pace => "# intended_ns sent_ns rtt_ns",
        Probe::Wake => "# deadline_ns wake_up_ns",
        _ => "# sent_ns rtt_ns",
    };
    let lines = text(&bytes, head, paced).ok_or_else(|| unreadable(&"they are damaged"))?;
    let size = result.size().map_or_else(|| result.probe.to_string(), |size| size.to_string());
    let rate = result.factor("rate").filter(|_| paced).map(|rate| format!("-{rate}")).unwrap_or_default();
    let name = prefix.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let path = prefix.with_file_name(format!("{name}-{size}{rate}.dat"));
    let failed = |cause| StoreError::Write { path: path.clone(), cause };
    let mut file = File::create(&path).map_err(failed)?;
    let mut written = 0;
    while written < lines.len() {
        match file.write(&lines.as_bytes()[written..]) {
            Ok(count) if count > 0 => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            ended => {
                let cause = ended.err().unwrap_or_else(|| ErrorKind::WriteZero.into());
                return Err(cut(&file, &lines, written, &path, cause));
            }
        }
    }
    // A file system may notice only now that it has no room.
    file.sync_all().map_err(failed)
}

/// Ends the file with its last whole line.
fn cut(file: &File, lines: &str, written: usize, path: &Path, cause: std::io::Error) -> StoreError {
    let samples = |text: &[u8]| text.iter().filter(|&&byte| byte == b'\n').count().saturating_sub(1);
    let kept = lines.as_bytes().get(..written).unwrap_or_default();
    let whole = kept.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    // The half line is then all that is wrong with the file.
    let _ = file.set_len(whole as u64);
    StoreError::SamplesCut { path: path.to_owned(), kept: samples(kept), all: samples(lines.as_bytes()), cause }
}

/// Columns as `record` lays them out: mark, count, seq, intended, sent, received, peer_rx, peer_tx, flags; of `pace` in the
/// order that outcomes were known, the number of the reflector above the flags.
fn text(bytes: &[u8], columns: &str, paced: bool) -> Option<String> {
    let (head, body) = bytes.split_at_checked(16)?;
    let count = usize::try_from(u64::from_le_bytes(head[8..].try_into().ok()?)).ok()?;
    let eight = |column: usize, row: usize| -> Option<i64> {
        let at = (column * count + row) * 8;
        Some(i64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?))
    };
    let flags = |row: usize| -> Option<(SampleFlags, u32)> {
        let at = 6 * count * 8 + row * 4;
        let word = u32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?);
        Some((SampleFlags(word & 0xffff), word >> 16))
    };
    let mut order: Vec<usize> = (0..count).collect();
    let mut several = false;
    if paced {
        let keys = order.iter().map(|&row| Some((eight(0, row)?, flags(row)?.1))).collect::<Option<Vec<_>>>()?;
        several = keys.iter().any(|(_, reflector)| *reflector > 0);
        order.sort_by_key(|&row| keys[row]);
    }
    let mut text = columns.to_owned();
    text.push_str(if several { " reflector\n" } else { "\n" });
    for row in order {
        let (intended, sent, received) = (eight(1, row)?, eight(2, row)?, eight(3, row)?);
        let (flags, reflector) = flags(row)?;
        if paced {
            let _ = write!(text, "{intended} ");
        }
        let _ = if flags.has(SampleFlags::UNASKED) {
            write!(text, "{sent} .")
        } else if flags.has(SampleFlags::LOST) {
            write!(text, "{sent} -")
        } else {
            write!(text, "{sent} {}", received - sent)
        };
        if several {
            let _ = write!(text, " {reflector}");
        }
        text.push('\n');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    #[test]
    fn damaged_columns_are_refused() {
        let text = |bytes: &[u8]| super::text(bytes, "# sent_ns rtt_ns", false);
        assert_eq!(text(b"short"), None);
        let mut bytes = b"WHRAW001".to_vec();
        bytes.extend(5u64.to_le_bytes());
        assert_eq!(text(&bytes), None);
        bytes[8..16].fill(0);
        assert_eq!(text(&bytes).unwrap(), "# sent_ns rtt_ns\n");
    }

    #[test]
    fn messages_of_a_schedule_stand_in_its_order() {
        use model::SampleFlags;
        // seq, intended, sent, received, flags with the reflector above them
        let rows: [(u64, i64, i64, i64, u32); 4] = [
            (1, 100, 110, 190, 0),
            (0, 0, 5, 905, SampleFlags::LOST.0),
            (0, 0, 5, 45, 1 << 16),
            (2, 200, 201, 201, SampleFlags::UNASKED.0),
        ];
        let mut bytes = b"WHRAW001".to_vec();
        bytes.extend(4u64.to_le_bytes());
        rows.iter().for_each(|row| bytes.extend(row.0.to_le_bytes()));
        for column in 1..6 {
            let value = |row: &(u64, i64, i64, i64, u32)| [0, row.1, row.2, row.3, 0, 0][column];
            rows.iter().for_each(|row| bytes.extend(value(row).to_le_bytes()));
        }
        rows.iter().for_each(|row| bytes.extend(row.4.to_le_bytes()));
        let text = super::text(&bytes, "# intended_ns sent_ns rtt_ns", true).unwrap();
        assert_eq!(text, "# intended_ns sent_ns rtt_ns reflector\n0 5 - 0\n0 5 40 1\n100 110 80 0\n200 201 . 0\n");
    }
}
