//! The heading and the cells of a quantity, as every table has them.

use crate::units::{self, bits, commas, span, three_digits, us_or_dash, us_short};
use digest::Figures;
use model::quantity::{self, Unit};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Four significant digits in µs.
    Wide,
    /// A decimal in µs.
    Narrow,
    /// Each with its unit: figures of very different size.
    Units,
}

/// The heading of a quantity: two lines. Below a band nobody need say which distribution it is of.
pub(crate) fn heading(id: &str, banded: bool, room: Room) -> [&'static str; 2] {
    let Some(quantity) = quantity::find(id) else { return ["", ""] };
    match quantity.statistic() {
        Some((distribution, statistic)) if !banded && !distribution.id.is_empty() => {
            [distribution.title, statistic.word()]
        }
        _ => [quantity.title, if room == Room::Units { "" } else { unit(quantity.unit) }],
    }
}

pub(crate) fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Ns | Unit::Us => "µs",
        Unit::Share | Unit::Percent => "%",
        Unit::PerSecond => "1/s",
        Unit::Bits => "Mbit/s",
        Unit::PerMillion => "ppm",
        Unit::Bytes => "B",
        Unit::Count | Unit::Number => "",
    }
}

/// A figure below such a heading; a dash where it is not known.
pub(crate) fn text(unit: Unit, value: Option<f64>, room: Room) -> String {
    let Some(value) = value else { return "–".to_owned() };
    match (unit, room) {
        (Unit::Ns, Room::Wide) => us_or_dash(Some(value)),
        (Unit::Ns, Room::Narrow) => us_short(Some(value)),
        (Unit::Ns, Room::Units) => span(value),
        (Unit::Bits, Room::Units) => bits(value),
        (Unit::Share, Room::Units) => format!("{} %", three_digits(100.0 * value)),
        (Unit::Count | Unit::PerSecond, Room::Units) => commas(units::whole(value)),
        (Unit::Share, Room::Narrow) => format!("{:.2}", 100.0 * value),
        (Unit::Share, Room::Wide) if value == 0.0 => "0".to_owned(),
        (Unit::Share, Room::Wide) => units::percent(value, 1.0).trim_end_matches(" %").to_owned(),
        (Unit::Bits, _) => format!("{:.2}", value / 1e6),
        (Unit::Us | Unit::Number, _) => format!("{value:.2}"),
        (Unit::Percent, _) => format!("{value:.1}"),
        (Unit::PerSecond, _) if value < 100.0 && value.fract() != 0.0 => format!("{value:.2}"),
        (Unit::Count | Unit::Bytes | Unit::PerSecond | Unit::PerMillion, _) => format!("{value:.0}"),
    }
}

pub(crate) fn cell(figures: &Figures, id: &str, room: Room) -> String {
    // Between clocks of one machine there is no error to show.
    let value = figures.value(id).filter(|value| id != "one-way-error" || *value >= 0.5);
    quantity::find(id).map_or_else(String::new, |quantity| text(quantity.unit, value, room))
}
