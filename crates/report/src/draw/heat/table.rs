//! A map as CSV (RFC 4180): a line a cell that holds messages, then a line a column that lost some.

use super::{Layout, Map};

/// The time and length of a column of the map, the range of a row, messages and lost ones. In the linear layout `low_ns`
/// itself belongs to the row below. A line of lost messages has no row.
pub(crate) const HEAD: &str = "at_ns,length_ns,low_ns,high_ns,messages,lost\r\n";

pub(crate) fn csv(map: &Map, layout: Layout) -> String {
    format!("{HEAD}{}", lines(map, layout, ""))
}

/// The lines alone, each with some fields before it.
pub(crate) fn lines(map: &Map, layout: Layout, before: &str) -> String {
    let mut out = String::new();
    let strip = &map.whole;
    let grid = strip.grid(layout);
    for (place, (cells, column)) in (0_u64..).zip(grid.columns.iter().zip(&strip.columns)) {
        let (at, length) = (strip.start_ns + strip.column_ns * place, strip.column_ns);
        for (row, count) in cells {
            let (low, high) = (grid.layout.low_ns(*row), grid.layout.high_ns(*row));
            out.push_str(&format!("{before}{at},{length},{low},{high},{count},\r\n"));
        }
        if column.lost > 0 {
            out.push_str(&format!("{before}{at},{length},,,,{}\r\n", column.lost));
        }
    }
    out
}
