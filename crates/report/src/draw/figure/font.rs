//! The font of pictures: Roboto (Apache-2.0), cut to the letters and signs of Latin text, or one that somebody names.

use std::sync::{Arc, LazyLock};
use ttf_parser::{Face, GlyphId, OutlineBuilder, name_id};

/// American English among the languages of a font's names.
const ENGLISH: u16 = 0x409;

/// Two weights of one family.
#[derive(Debug, Clone, PartialEq)]
pub struct Font {
    pub(crate) family: String,
    /// TrueType or OpenType.
    pub(crate) regular: Arc<[u8]>,
    pub(crate) bold: Arc<[u8]>,
}

static ROBOTO: LazyLock<Font> = LazyLock::new(|| Font {
    family: "Roboto".to_owned(),
    regular: Arc::from(include_bytes!("../../../fonts/Roboto-Regular.ttf").as_slice()),
    bold: Arc::from(include_bytes!("../../../fonts/Roboto-Bold.ttf").as_slice()),
});

impl Default for Font {
    fn default() -> Self {
        ROBOTO.clone()
    }
}

impl Font {
    /// A font from the bytes of a TrueType or OpenType file; `None` where they are no such font.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        let bytes: Arc<[u8]> = Arc::from(bytes);
        let names = Face::parse(&bytes, 0).ok()?.names();
        let named = |id| {
            let all = || names.into_iter().filter(move |name| name.name_id == id);
            all().filter(|name| name.language_id == ENGLISH).chain(all()).find_map(|name| name.to_string())
        };
        let family = named(name_id::TYPOGRAPHIC_FAMILY).or_else(|| named(name_id::FAMILY))?;
        Some(Self { family, regular: bytes.clone(), bold: bytes })
    }

    /// Its name, and the fonts that programs may show an SVG with where they do not have it.
    pub(crate) fn families(&self) -> String {
        let own = self.family.replace(['"', '\'', '<', '&', ','], "");
        format!("{own}, Noto Sans, Liberation Sans, DejaVu Sans, sans-serif")
    }

    pub(crate) fn bytes(&self, bold: bool) -> &[u8] {
        if bold { &self.bold } else { &self.regular }
    }

    /// The glyph of each letter and its width for a font size of 1000.
    pub(crate) fn glyphs(&self, text: &str, bold: bool) -> Vec<(char, u16, f64)> {
        let Ok(face) = Face::parse(self.bytes(bold), 0) else { return Vec::new() };
        let glyph = |letter: char| {
            let id = face.glyph_index(letter).unwrap_or_default();
            let wide = face.glyph_hor_advance(id).unwrap_or(0);
            (letter, id.0, f64::from(wide) * 1000.0 / f64::from(face.units_per_em()))
        };
        text.chars().map(glyph).collect()
    }

    /// Draws the outline of a glyph with y upwards, in units of which a font size has so many.
    pub(crate) fn outline(&self, glyph: u16, bold: bool, pen: &mut impl OutlineBuilder) {
        let Ok(face) = Face::parse(self.bytes(bold), 0) else { return };
        // A glyph that cannot be drawn leaves a gap.
        let _ = face.outline_glyph(GlyphId(glyph), pen);
    }

    /// The units of a font size in which outlines are drawn.
    pub(crate) fn units(&self, bold: bool) -> u16 {
        Face::parse(self.bytes(bold), 0).map_or(1000, |face| face.units_per_em())
    }
}

/// Width of a text in the regular weight.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    ROBOTO.glyphs(text, false).iter().map(|(_, _, wide)| wide).sum::<f64>() * size / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_all_letters_and_signs_that_pictures_use() {
        for bold in [false, true] {
            for (letter, glyph, wide) in ROBOTO.glyphs("AZaz09 µμ·…–—≥≤×₂²±−\u{202f}", bold) {
                assert!(glyph > 0 && wide > 0.0, "{letter:?}");
            }
        }
        assert!(width("1,000", 12.0) > width("1,0", 12.0));
        assert!(Font::from_bytes(b"no font".to_vec()).is_none());
        assert_eq!(Font::from_bytes(ROBOTO.bold.to_vec()).unwrap().family, "Roboto");
    }
}
