//! The published tables of the two white papers, kept as data in `reference/redhawk-tables.csv`.

const TABLES: &str = include_str!("../../../reference/redhawk-tables.csv");

/// One published row. Times are microseconds of RTT/2 at 32 bytes, as printed; absent where the paper has none.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedRow {
    /// `redhawk-2012` or `redhawk-7.5`.
    pub source: String,
    /// Network controller.
    pub nic: String,
    /// `kernel` or `onload`.
    pub stack: String,
    /// `no` or `yes` (a compile load on both machines).
    pub load: String,
    /// `na`, `no` or `yes`.
    pub shield: String,
    /// Operating system.
    pub os: String,
    /// netperf TCP_RR.
    pub netperf_tcp_us: Option<f64>,
    /// netperf UDP_RR.
    pub netperf_udp_us: Option<f64>,
    /// sfnt-pingpong over TCP: mean and sample standard deviation.
    pub pingpong_tcp_us: Option<(f64, Option<f64>)>,
    /// sfnt-pingpong over UDP: mean and sample standard deviation.
    pub pingpong_udp_us: Option<(f64, Option<f64>)>,
}

impl PublishedRow {
    /// The year of publication.
    #[must_use]
    pub fn year(&self) -> &'static str {
        if self.source == "redhawk-2012" { "2012" } else { "2019" }
    }
}

/// All published rows, in the order of the papers.
#[must_use]
pub fn published() -> Vec<PublishedRow> {
    TABLES.lines().skip(1).filter_map(row).collect()
}

/// The file has no quoted fields.
fn row(line: &str) -> Option<PublishedRow> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [source, nic, stack, load, shield, os, netperf_tcp, netperf_udp, tcp, tcp_stdev, udp, udp_stdev] =
        fields.as_slice()
    else {
        return None;
    };
    let number = |text: &str| text.parse::<f64>().ok();
    Some(PublishedRow {
        source: (*source).to_owned(),
        nic: (*nic).to_owned(),
        stack: (*stack).to_owned(),
        load: (*load).to_owned(),
        shield: (*shield).to_owned(),
        os: (*os).to_owned(),
        netperf_tcp_us: number(netperf_tcp),
        netperf_udp_us: number(netperf_udp),
        pingpong_tcp_us: number(tcp).map(|mean| (mean, number(tcp_stdev))),
        pingpong_udp_us: number(udp).map(|mean| (mean, number(udp_stdev))),
    })
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
        assert_eq!(row.pingpong_tcp_us, Some((114.756, Some(313.876))));
        assert_eq!(row.netperf_tcp_us, None);
    }
}
