//! Counts as few bytes, for pages that draw them.

use super::Grid;

/// A grid as bytes: for each column the number of cells that hold messages, then for each of them the distance to the
/// row before (the first: to row -1) less one, and its count. All numbers are varints: seven bits a byte, lowest first,
/// the highest bit set on all bytes but the last. Rows above `top` are left out.
#[must_use]
pub fn pack(grid: &Grid, top: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for column in &grid.columns {
        let cells = column.iter().take_while(|(row, _)| *row <= top);
        varint(&mut bytes, cells.clone().count() as u64);
        let mut next = 0;
        for (row, count) in cells {
            varint(&mut bytes, u64::from(row - next));
            varint(&mut bytes, *count);
            next = row + 1;
        }
    }
    bytes
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or(0);
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::heat::Layout;

    #[test]
    fn columns_become_varints() {
        let grid = Grid { layout: Layout::Log, columns: vec![vec![(3, 1), (4, 300), (900, 2)], vec![], vec![(0, 5)]] };
        assert_eq!(pack(&grid, u32::MAX), [3, 3, 1, 0, 0xac, 2, 0xff, 6, 2, 0, 1, 0, 5]);
        assert_eq!(pack(&grid, 10), [2, 3, 1, 0, 0xac, 2, 0, 1, 0, 5]);
    }
}
