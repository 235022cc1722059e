//! Colours of counts.
//!
//! No messages are the background. One message already has a colour that stands out from it; more go up on a perceptual
//! palette by the logarithm of their number, evenly, or by rank, until the saturation point, which is always shown.
//!
//! Palettes: viridis and magma (Nathaniel Smith, Stéfan van der Walt, 2015) and cividis (Nuñez, Anderton, Renslow, 2018),
//! each from ten of its published control points (matplotlib, CC0), between which colours are interpolated evenly in
//! sRGB. All three grow evenly in lightness, so they survive print in grey and colour blindness. On a dark page many
//! messages are bright, on a light page dark; the end next to the background is cut off.

/// Red, green, blue.
pub type Rgb = [u8; 3];

/// Light or dark page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Theme {
    /// Dark on white: also for print.
    #[default]
    Light,
    /// Bright on black.
    Dark,
}

impl Theme {
    /// What stands for no messages.
    #[must_use]
    pub fn background(self) -> Rgb {
        match self {
            Self::Light => [0xff, 0xff, 0xff],
            Self::Dark => [0x0b, 0x0d, 0x12],
        }
    }

    /// What stands for lost messages: few to many, at least 4 : 1 against the background.
    #[must_use]
    pub fn lost(self) -> [Rgb; 2] {
        match self {
            Self::Light => [[0xe0, 0x4a, 0x1c], [0x8c, 0x16, 0x00]],
            Self::Dark => [[0xff, 0x6a, 0x3d], [0xff, 0xd0, 0xb8]],
        }
    }
}

/// A palette of counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Palette {
    /// Violet, blue, green, yellow.
    #[default]
    Viridis,
    /// Black, violet, red, cream.
    Magma,
    /// Blue, grey, yellow: nearly the same for all kinds of colour vision.
    Cividis,
}

impl Palette {
    pub const ALL: [Self; 3] = [Self::Viridis, Self::Magma, Self::Cividis];

    fn points(self) -> [u32; 10] {
        match self {
            Self::Viridis => [
                0x44_01_54, 0x48_28_78, 0x3e_49_89, 0x31_68_8e, 0x26_82_8e, 0x1f_9e_89, 0x35_b7_79, 0x6e_ce_58,
                0xb5_de_2b, 0xfd_e7_25,
            ],
            Self::Magma => [
                0x00_00_04, 0x18_0f_3d, 0x44_0f_76, 0x72_1f_81, 0x9e_2f_7f, 0xcd_40_71, 0xf1_60_5d, 0xfd_96_68,
                0xfe_ca_8d, 0xfc_fd_bf,
            ],
            Self::Cividis => [
                0x00_22_4e, 0x12_35_70, 0x3b_49_6c, 0x57_5d_6d, 0x70_71_73, 0x8a_86_78, 0xa5_9c_74, 0xc3_b3_69,
                0xe1_cc_55, 0xfe_e8_38,
            ],
        }
    }

    /// The part of the palette that is used, in thousandths: from the colour of one message to that of saturation.
    fn part(self, theme: Theme) -> (u32, u32) {
        match (self, theme) {
            (Self::Viridis, Theme::Dark) => (330, 1000),
            (Self::Magma, Theme::Dark) => (400, 1000),
            (Self::Cividis, Theme::Dark) => (300, 1000),
            (Self::Viridis, Theme::Light) => (610, 0),
            (Self::Magma, Theme::Light) => (680, 0),
            (Self::Cividis, Theme::Light) => (620, 0),
        }
    }

    /// 256 colours: the first is that of one message, the last that of the saturation point and above.
    #[must_use]
    pub fn table(self, theme: Theme) -> [Rgb; 256] {
        let (from, to) = self.part(theme);
        let points = self.points().map(rgb);
        // In units of 1/255,000 of the palette, so that all is done in integers.
        line_of(&points, 255_000, |level| from * (255 - level) + to * level)
    }
}

pub(crate) fn rgb(value: u32) -> Rgb {
    let [_, r, g, b] = value.to_be_bytes();
    [r, g, b]
}

/// So many colours on a line through points: that of each number at the `place` it has of `whole`.
fn line_of<const N: usize>(points: &[Rgb], whole: u32, place: impl Fn(u32) -> u32) -> [Rgb; N] {
    std::array::from_fn(|number| between(points, place(u32::try_from(number).unwrap_or(0)), whole))
}

/// The colour at `place` of `whole` on a line through points at equal distances.
pub(super) fn between(points: &[Rgb], place: u32, whole: u32) -> Rgb {
    let parts = u32::try_from(points.len().saturating_sub(1)).unwrap_or(0);
    let scaled = u64::from(place) * u64::from(parts);
    let index = usize::try_from(scaled / u64::from(whole)).unwrap_or(0);
    let rest = scaled % u64::from(whole);
    let (Some(a), b) = (points.get(index), points.get(index + 1)) else { return [0; 3] };
    let b = b.unwrap_or(a);
    let whole = u64::from(whole);
    std::array::from_fn(|part| {
        let mixed = (u64::from(a[part]) * (whole - rest) + u64::from(b[part]) * rest + whole / 2) / whole;
        u8::try_from(mixed).unwrap_or(u8::MAX)
    })
}

/// Blue where the first has more, orange where the second has more, grey where both have the same: told apart with any
/// kind of colour vision. The ends are darker (on a dark page brighter) than the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Diverging;

impl Diverging {
    /// 255 colours; number 127 is the middle.
    #[must_use]
    pub fn table(theme: Theme) -> [Rgb; 255] {
        let points = match theme {
            Theme::Light => [0x08_30_6b, 0x2b_74_b8, 0x8f_bc_e0, 0xe4_e4_e1, 0xf2_b4_79, 0xcf_62_15, 0x64_24_00],
            Theme::Dark => [0xb8_dc_ff, 0x4f_a0_e6, 0x25_5e_96, 0x3a_3d_42, 0x9c_54_18, 0xf0_8c_3c, 0xff_dc_b4],
        };
        line_of(&points.map(rgb), 254, |level| level)
    }

    /// The colour number of a ratio's logarithm to base 2; saturated at ±`reach`.
    #[must_use]
    pub fn level(log2: f64, reach: f64) -> usize {
        let share = (log2 / reach).clamp(-1.0, 1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 254")]
        let level = (127.0 + 127.0 * share).round() as usize;
        level
    }
}

/// How colours follow counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// By the logarithm of the count.
    #[default]
    Log,
    /// Evenly.
    Linear,
    /// By rank among the cells that hold messages, so that each colour is used equally often; for print.
    Rank,
}

/// From which count on all cells look the same.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Saturation {
    /// The largest count.
    #[default]
    Max,
    Count(u64),
    /// The count that this share of the cells that hold messages stays below, such as 0.995.
    Share(f64),
}

/// One scale of colours for all maps that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    pub mode: Mode,
    /// The count from which on all cells look the same, at least 1.
    pub saturation: u64,
    /// The largest count there is.
    pub most: u64,
    /// Counts by rank: each with the colour number of its middle rank; for [`Mode::Rank`].
    ranks: Vec<(u64, u8)>,
}

impl Scale {
    /// The scale of these counts (zeros do not count).
    #[must_use]
    pub fn new(mode: Mode, saturation: Saturation, counts: impl IntoIterator<Item = u64>) -> Self {
        let mut counts: Vec<u64> = counts.into_iter().filter(|count| *count > 0).collect();
        counts.sort_unstable();
        let most = counts.last().copied().unwrap_or(1);
        let saturation = match saturation {
            Saturation::Max => most,
            Saturation::Count(count) => count.max(1),
            Saturation::Share(share) => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the counts")]
                let rank = (counts.len() as f64 * share.clamp(0.0, 1.0)).ceil() as usize;
                counts.get(rank.saturating_sub(1)).copied().unwrap_or(most)
            }
        };
        let mut ranks: Vec<(u64, u8)> = Vec::new();
        if mode == Mode::Rank {
            let all = counts.len().max(1);
            let mut at = 0;
            while let Some(count) = counts.get(at) {
                let end = counts.partition_point(|other| other <= count);
                // One message keeps the first colour, the largest number the last.
                let level = if end == counts.len() { 255 } else { (at + end) * 255 / (2 * all) };
                let level = if *count == 1 && end < counts.len() { 0 } else { level };
                ranks.push((*count, u8::try_from(level).unwrap_or(u8::MAX)));
                at = end;
            }
        }
        Self { mode, saturation, most, ranks }
    }

    /// The number of the colour of a count in [`Palette::table`]; `None` for 0, which is the background.
    #[must_use]
    pub fn level(&self, count: u64) -> Option<u8> {
        if count == 0 {
            return None;
        }
        if self.mode == Mode::Rank {
            let at = self.ranks.partition_point(|(of, _)| *of < count);
            return Some(self.ranks.get(at).or(self.ranks.last()).map_or(255, |(_, level)| *level));
        }
        if count >= self.saturation {
            return Some(255);
        }
        let share = match self.mode {
            Mode::Linear => (count - 1) as f64 / (self.saturation - 1) as f64,
            _ => (count as f64).ln() / (self.saturation as f64).ln(),
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 255")]
        let level = (share * 255.0).round().clamp(0.0, 255.0) as u8;
        Some(level)
    }

    /// Counts for a legend, ascending: 1, 2, 5, 10 … (or even steps) to the saturation point.
    #[must_use]
    pub fn legend(&self) -> Vec<Legend> {
        let mut counts = Vec::new();
        match self.mode {
            Mode::Log => {
                let coarse = self.saturation > 2000;
                let mut decade = 1_u64;
                while decade < self.saturation {
                    let digits: &[u64] = if coarse { &[1] } else { &[1, 2, 5] };
                    counts.extend(digits.iter().map(|digit| decade * digit).filter(|count| *count < self.saturation));
                    let Some(next) = decade.checked_mul(10) else { break };
                    decade = next;
                }
            }
            Mode::Linear => {
                let parts = self.saturation.min(5);
                counts.extend((0..parts).map(|part| (self.saturation * part / parts).max(1)));
            }
            Mode::Rank => {
                let few = self.ranks.len().div_ceil(6).max(1);
                counts.extend(self.ranks.iter().step_by(few).map(|(count, _)| *count));
            }
        }
        counts.push(if self.mode == Mode::Rank { self.most } else { self.saturation });
        counts.dedup();
        counts
            .into_iter()
            .map(|count| Legend {
                count,
                level: self.level(count).unwrap_or(0),
                and_more: self.mode != Mode::Rank && count == self.saturation && self.most > self.saturation,
            })
            .collect()
    }
}

/// One entry of a legend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Legend {
    pub count: u64,
    /// The number of its colour.
    pub level: u8,
    /// Whether larger counts look the same.
    pub and_more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG 2.1).
    fn luminance(colour: Rgb) -> f64 {
        let linear = colour.map(|value| {
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    fn contrast(a: Rgb, b: Rgb) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn one_message_stands_out_and_more_go_on_in_the_same_direction() {
        for palette in Palette::ALL {
            for theme in [Theme::Light, Theme::Dark] {
                let table = palette.table(theme);
                let first = contrast(table[0], theme.background());
                assert!(first >= 2.2, "{palette:?} {theme:?}: {first}");
                let steps: Vec<f64> = table.iter().map(|colour| contrast(*colour, theme.background())).collect();
                assert!(steps.windows(2).all(|pair| pair[1] >= pair[0] * 0.985), "{palette:?} {theme:?}: {steps:?}");
                assert!(steps[255] > 2.5 * steps[0], "{palette:?} {theme:?}");
            }
        }
        for theme in [Theme::Light, Theme::Dark] {
            assert!(contrast(theme.lost()[0], theme.background()) >= 3.5, "{theme:?}");
        }
    }

    #[test]
    fn log_scale_from_one_to_saturation() {
        let scale = Scale::new(Mode::Log, Saturation::Max, [1, 10, 100, 10_000]);
        assert_eq!(
            [0, 1, 100, 10_000, 20_000].map(|count| scale.level(count)),
            [None, Some(0), Some(128), Some(255), Some(255)]
        );
        let counts: Vec<u64> = scale.legend().iter().map(|entry| entry.count).collect();
        assert_eq!(counts, [1, 10, 100, 1000, 10_000]);
    }

    #[test]
    fn saturation_is_shown() {
        let scale = Scale::new(Mode::Log, Saturation::Share(0.995), (1..=1000).map(|_| 7).chain([5000]));
        assert_eq!((scale.saturation, scale.most), (7, 5000));
        assert!(scale.legend().last().unwrap().and_more);
        let scale = Scale::new(Mode::Linear, Saturation::Count(101), [1, 3]);
        assert_eq!([1, 51, 101].map(|count| scale.level(count)), [Some(0), Some(128), Some(255)]);
    }

    #[test]
    fn ranks_use_the_colours_equally_often() {
        let scale = Scale::new(Mode::Rank, Saturation::Max, (0..100).chain([1_000_000]));
        assert_eq!(scale.level(1), Some(0));
        assert_eq!(scale.level(1_000_000), Some(255));
        assert!(scale.level(50).unwrap().abs_diff(127) < 4);
        assert_eq!(scale.level(0), None);
    }

    #[test]
    fn differences_have_a_grey_middle_and_ends_of_equal_weight() {
        for theme in [Theme::Light, Theme::Dark] {
            let table = Diverging::table(theme);
            let [r, g, b] = table[127].map(i32::from);
            assert!((r - g).abs() < 10 && (g - b).abs() < 10);
            assert!(
                (contrast(table[0], table[127]) / contrast(table[254], table[127]) - 1.0).abs() < 0.25,
                "{theme:?}"
            );
        }
        assert_eq!([-9.0, -4.0, 0.0, 4.0].map(|log2| Diverging::level(log2, 4.0)), [0, 0, 127, 254]);
    }
}
