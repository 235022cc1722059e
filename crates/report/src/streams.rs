//! The cells of `stream` as one table: a row a direction.

use crate::document::{CellInfo, Document, FlowInfo, Quantiles};
use crate::layout::{Column, Grid};
use crate::units::{bits, commas, span, three_digits};

/// What stands above it.
pub(crate) const STREAMS: &str = "Streams: payload and datagrams delivered, and RTT of a ping-pong beside them";

fn count(value: Option<u64>) -> String {
    value.map_or_else(|| "–".to_owned(), commas)
}

/// Lost, in percent of what was sent.
fn lost(flow: &FlowInfo) -> String {
    match (flow.lost, flow.sent.filter(|sent| *sent > 0)) {
        (Some(lost), Some(sent)) => format!("{} %", three_digits(100.0 * lost as f64 / sent as f64)),
        _ => "–".to_owned(),
    }
}

fn two(own: Option<Quantiles>) -> [String; 2] {
    let own = own.unwrap_or_default();
    [own.p50_ns, own.p99_ns].map(|ns| ns.map_or_else(|| "–".to_owned(), span))
}

/// The table; `None` without a stream.
pub(crate) fn streams(document: &Document) -> Option<Grid> {
    let cells: Vec<&CellInfo> = document.cells.iter().filter(|cell| cell.stream.is_some()).collect();
    let mut grid = Grid::default();
    grid.columns.extend(["cell", "protocol"].map(Column::words));
    grid.columns.push(Column::figures("size", "B"));
    grid.columns.push(Column::words("way"));
    let heads = ["payload", "datagrams/s", "lost", "reordered", "jitter", "sent again", "TCP's RTT"];
    grid.columns.extend(heads.map(|title| Column { heading: vec![title.to_owned()], right: true, max: None }));
    let asks = cells.iter().filter_map(|cell| cell.stream.as_ref()).any(|stream| stream.working.is_some());
    if asks {
        let heads = ["idle p50", "p50", "p99"];
        grid.columns.extend(heads.map(|title| Column { heading: vec![title.to_owned()], right: true, max: None }));
    }
    grid.columns.push(Column::words(""));
    for cell in cells {
        let Some(stream) = &cell.stream else { continue };
        for flow in &stream.flows {
            let time = |ns: Option<f64>| ns.map_or_else(|| "–".to_owned(), span);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate; `as` saturates")]
            let datagrams = flow.datagrams_per_second.map(|rate| rate.round().max(0.0) as u64);
            let mut row = vec![
                cell.label.clone(),
                cell.protocol.to_uppercase(),
                cell.size_bytes.to_string(),
                flow.direction.clone(),
                bits(flow.bits_per_second),
                count(datagrams),
                lost(flow),
                count(flow.reordered),
                time(flow.rfc3550_jitter_ns),
                count(flow.retransmits),
                time(flow.tcp_rtt_mean_ns),
            ];
            if asks {
                let [idle, _] = two(stream.idle);
                row.push(idle);
                row.extend(two(stream.working));
            }
            row.push(cell.mark.sign().to_owned());
            grid.rows.push(row);
        }
    }
    (!grid.rows.is_empty()).then_some(grid)
}
