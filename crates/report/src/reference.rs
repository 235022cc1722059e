//! The published tables of the two white papers, kept as data in `reference/redhawk-tables.csv`.

const TABLES: &str = include_str!("../../../reference/redhawk-tables.csv");

/// One published row. Times are microseconds of RTT/2 at 32 bytes, as printed: mean and sample standard deviation.
pub(crate) struct PublishedRow {
    /// `redhawk-2012` or `redhawk-7.5`.
    pub(crate) source: &'static str,
    pub(crate) nic: &'static str,
    /// `kernel` or `onload`.
    pub(crate) stack: &'static str,
    /// `no` or `yes` (a compile load on both machines).
    pub(crate) load: &'static str,
    /// `na`, `no` or `yes`.
    pub(crate) shield: &'static str,
    pub(crate) os: &'static str,
    /// In the order of [`crate::papers::COLUMNS`].
    pub(crate) figures_us: [Option<(f64, Option<f64>)>; 4],
}

impl PublishedRow {
    pub(crate) fn year(&self) -> &'static str {
        if self.source == "redhawk-2012" { "2012" } else { "2019" }
    }
}

pub(crate) fn published() -> Vec<PublishedRow> {
    TABLES.lines().skip(1).filter_map(row).collect()
}

/// The file has no quoted fields.
fn row(line: &'static str) -> Option<PublishedRow> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [source, nic, stack, load, shield, os, netperf_tcp, netperf_udp, tcp, tcp_stdev, udp, udp_stdev] = fields[..]
    else {
        return None;
    };
    let of = |mean: &str, stdev: &str| Some((mean.parse().ok()?, stdev.parse().ok()));
    let figures_us = [of(netperf_tcp, ""), of(netperf_udp, ""), of(tcp, tcp_stdev), of(udp, udp_stdev)];
    Some(PublishedRow { source, nic, stack, load, shield, os, figures_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_file_is_a_row() {
        let rows = published();
        assert_eq!(rows.len(), TABLES.lines().count() - 1);
        assert_eq!(rows.iter().filter(|row| row.year() == "2012").count(), 36);
        assert_eq!(rows.iter().filter(|row| row.year() == "2019").count(), 36);
        let row = rows.iter().find(|row| row.os == "RHEL 7 RT" && row.load == "yes" && row.shield == "no").unwrap();
        assert_eq!(row.figures_us[2], Some((114.756, Some(313.876))));
        assert_eq!(row.figures_us[0], None);
    }
}
