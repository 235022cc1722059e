//! Tables at every width.

use super::*;
use proptest::prelude::*;

#[test]
fn merged_words_flow_down_beside_the_rows() {
    let mut grid = Grid {
        columns: vec![Column::words("NIC"), Column::words("Load"), Column::figures("RTT/2", "µs")],
        bands: vec![vec![(2, 2, "TCP".to_owned())]],
        rows: vec![
            vec!["a long name".into(), "no".into(), "5.125".into()],
            vec!["a long name".into(), "yes".into(), "116.250".into()],
        ],
        merged: 2,
        ..Grid::default()
    };
    grid.columns[0].max = Some(6);
    assert_eq!(
        grid.lines(),
        [
            "              TCP",
            "NIC     Load    RTT/2",
            "                   µs",
            "------  ----  -------",
            "a long  no      5.125",
            "name    yes   116.250"
        ]
        .map(|line| line.replace("              TCP", "              - TCP -"))
        .to_vec()
    );
}

#[test]
fn cells_that_repeat_are_one() {
    let of = |rows: &[&[&str]], column: usize| -> Vec<(String, usize)> {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|word| (*word).to_owned()).collect()).collect();
        let grid = Grid { columns: vec![Column::words(""); 3], rows, merged: 3, ..Grid::default() };
        grid.spans(column).into_iter().map(|span| (span.lines.concat(), span.last - span.first)).collect()
    };
    let shared: [&[&str]; 2] = [&["veth", "no", "Debian"], &["veth", "build", "Debian"]];
    assert_eq!((of(&shared, 0), of(&shared, 2)), (vec![("veth".into(), 2)], vec![("Debian".into(), 2)]));
    assert_eq!(of(&shared, 1), [("no".into(), 1), ("build".into(), 1)]);
    // Below another group it is written again.
    let groups: [&[&str]; 3] = [&["no", "RHEL"], &["yes", "RHEL"], &["yes", "MRG"]];
    assert_eq!(of(&groups, 0), [("no".into(), 1), ("yes".into(), 2)]);
    assert_eq!(of(&groups, 1), [("RHEL".into(), 1), ("RHEL".into(), 1), ("MRG".into(), 1)]);
}

#[test]
fn a_heading_wider_than_its_body_ends() {
    // `pace` beside `pingpong` with `receive_cpu`: the heading is the widest word of a narrow line.
    let grid = Grid {
        columns: vec![Column::words("receive_cpu of the reflector"), Column::figures("RTT/2", "µs")],
        rows: vec![vec!["0".into(), "5.125".into()], vec!["1".into(), "116.2".into()]],
        merged: 1,
        ..Grid::default()
    };
    for total in 20..=300 {
        assert!(grid.text(total).lines().all(|line| width(line) <= total), "{total}:\n{}", grid.text(total));
    }
}

#[test]
fn a_table_of_many_figures_goes_on_below_with_its_keys() {
    let figures = ["p50", "p99", "p99.9", "max", "mean", "stdev"].map(|name| Column::figures(name, "µs"));
    let grid = Grid {
        columns: std::iter::once(Column::words("cell")).chain(figures).collect(),
        bands: vec![vec![(1, 2, "RTT".to_owned()), (3, 4, "late".to_owned())]],
        rows: vec![["build", "5.125", "9.250", "–", "116.2", "7.100", "2.100"].map(str::to_owned).to_vec()],
        merged: 1,
        ..Grid::default()
    };
    let expected = "       --- RTT ----  late
cell     p50    p99    max
          µs     µs     µs
-----  -----  -----  -----
build  5.125  9.250  116.2

cell    mean  stdev
          µs     µs
-----  -----  -----
build  7.100  2.100
";
    assert_eq!(grid.text(26), expected);
}

#[test]
fn words_behind_figures_that_lead_are_keys_too() {
    // `pace`: rate and size, then what the row is about.
    let heads = [("rate", true), ("size", true), ("part", false), ("p50", true), ("p99", true), ("max", true)];
    let columns = heads.map(|(title, right)| Column { right, ..Column::words(title) });
    let rows = ["send", "wire"].map(|part| ["1000", "32", part, "5.125", "9.250", "116.2"].map(str::to_owned).to_vec());
    let grid = Grid { columns: columns.to_vec(), rows: rows.to_vec(), keys: 2, ..Grid::default() };
    let text = grid.text(32);
    let parts: Vec<&str> = text.split("\n\n").collect();
    assert!(parts.len() > 1, "{text}");
    for part in parts {
        for key in ["rate", "size", "part", "send", "wire"] {
            assert!(part.contains(key), "{key}: {text}");
        }
    }
}

fn grids() -> impl Strategy<Value = Grid> {
    let word = || "[a-zµ]{0,24}( [a-z]{1,9}){0,4}";
    let figure = "[0-9]{0,9}|–";
    let column = move || (word(), prop::option::of("[a-z/]{1,5}"), any::<bool>());
    let rows = move |columns: Vec<(String, Option<String>, bool)>| {
        let cells: Vec<BoxedStrategy<String>> =
            columns.iter().map(|(_, _, right)| if *right { figure.boxed() } else { word().boxed() }).collect();
        (Just(columns), prop::collection::vec(cells, 0..5), 0..3_usize, 0..9_usize, 0..4_usize, word())
    };
    prop::collection::vec(column(), 1..12).prop_flat_map(rows).prop_map(|(columns, rows, merged, first, more, band)| {
        let last = (first + more).min(columns.len() - 1);
        let first = first.min(last);
        let of = |(title, unit, right): (String, Option<String>, bool)| Column {
            heading: std::iter::once(title).chain(unit).collect(),
            right,
            max: None,
        };
        let merged = merged.min(columns.len());
        Grid {
            columns: columns.into_iter().map(of).collect(),
            bands: vec![vec![(first, last, band)]],
            rows,
            merged,
            keys: more.min(merged),
            keeps_empty: false,
        }
    })
}

/// The width that a table needs at least: its key columns beside the widest other one.
fn least_width(grid: &Grid) -> usize {
    let bare = grid.clone().unbanded();
    let floors = bare.floors(Breaks::Anywhere);
    let keys = bare.keys().min(floors.len());
    let rest = |column: usize| {
        let part = bare.part(column, column + 1);
        part.total(&part.floors(Breaks::Anywhere))
    };
    let widest = (keys..floors.len()).map(rest).max().unwrap_or(0);
    widest.max(bare.part(keys, keys).total(floors.get(..keys).unwrap_or(&[])))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_table_ends_and_fits_at_every_width(grid in grids()) {
        let mut shown = grid.clone();
        shown.drop_empty();
        let least = least_width(&shown);
        for total in 20..=300 {
            let text = grid.text(total);
            let widest = text.lines().map(width).max().unwrap_or(0);
            prop_assert!(widest <= total.max(least), "{widest} of {total}, at least {least}:\n{text}");
            // Nothing gets lost: every figure is there, whatever the width.
            for (index, cell) in shown.rows.iter().flat_map(|row| row.iter().enumerate()) {
                let is_figure = shown.columns.get(index).is_some_and(|column| column.right);
                prop_assert!(!is_figure || text.contains(cell.as_str()), "{cell} is missing:\n{text}");
            }
        }
    }
}

#[test]
fn words_wrap_and_long_words_are_cut() {
    assert_eq!(wrap("one two three", Some(7)), ["one two", "three"]);
    assert_eq!(wrap("abcdefgh", Some(3)), ["abc", "def", "gh"]);
    assert_eq!(wrap("far-application", Some(12)), ["far-", "application"]);
    assert_eq!(wrap("", Some(3)), [""]);
    // Catches: a line that ends with "15" and one that begins with "%".
    assert_eq!(wrap("p99 -15 %, p50 3 µs", Some(8)), ["p99", "-15 %,", "p50 3 µs"]);
    assert_eq!(wrap("12345 µs", Some(5)), ["12345", "µs"]);
    assert_eq!(paragraph("* ", "aaaa bbbb cccc dddd eeee ffff", 22), "* aaaa bbbb cccc dddd\n  eeee ffff\n");
}
