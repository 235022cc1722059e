//! Writing PNG (ISO/IEC 15948): signature, header, text, colours, data, end.

use super::Pixels;
use crate::heat::Rgb;
use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use std::io::Write as _;

const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a];

fn chunk(out: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    out.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    let mut crc = Crc::new();
    crc.update(&kind);
    crc.update(data);
    out.extend(kind);
    out.extend(data);
    out.extend(crc.sum().to_be_bytes());
}

fn header(width: usize, height: usize, colour_type: u8) -> Vec<u8> {
    let mut data = Vec::with_capacity(13);
    for side in [width, height] {
        data.extend(u32::try_from(side).unwrap_or(u32::MAX).to_be_bytes());
    }
    // Eight bits a sample, the one compression and filter method there is, not interlaced.
    data.extend([8, colour_type, 0, 0, 0]);
    data
}

/// Text in Latin-1, or in UTF-8 where it must be.
fn fact(out: &mut Vec<u8>, name: &str, text: &str) {
    let mut data = name.as_bytes().to_vec();
    data.push(0);
    if text.is_ascii() {
        data.extend(text.as_bytes());
        chunk(out, *b"tEXt", &data);
    } else {
        // Not compressed, no language, no translated name.
        data.extend([0, 0, 0, 0]);
        data.extend(text.as_bytes());
        chunk(out, *b"iTXt", &data);
    }
}

fn packed(raw: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to a Vec cannot fail.
    let _ = encoder.write_all(raw);
    encoder.finish().unwrap_or_default()
}

/// An image of numbered colours.
pub(crate) fn indexed(pixels: &Pixels) -> Vec<u8> {
    let mut out = SIGNATURE.to_vec();
    chunk(&mut out, *b"IHDR", &header(pixels.width, pixels.height, 3));
    chunk(&mut out, *b"PLTE", pixels.palette.as_flattened());
    // No filter: cells repeat as they are.
    let mut raw = Vec::with_capacity(pixels.data.len() + pixels.height);
    for row in pixels.data.chunks(pixels.width.max(1)) {
        raw.push(0);
        raw.extend(row);
    }
    chunk(&mut out, *b"IDAT", &packed(&raw));
    chunk(&mut out, *b"IEND", &[]);
    out
}

/// An image of red, green and blue, with what it says of itself.
pub(crate) fn true_colour(width: usize, pixels: &[Rgb], facts: &[(&'static str, String)]) -> Vec<u8> {
    let height = pixels.len() / width.max(1);
    let mut out = SIGNATURE.to_vec();
    chunk(&mut out, *b"IHDR", &header(width, height, 2));
    for (name, text) in facts {
        fact(&mut out, name, text);
    }
    let mut raw = Vec::with_capacity((width * 3 + 1) * height);
    let mut above: Vec<u8> = vec![0; width * 3];
    for row in pixels.chunks_exact(width.max(1)) {
        let row = row.as_flattened();
        // Filter 2: less the pixel above, which suits cells and axes.
        raw.push(2);
        raw.extend(row.iter().zip(&above).map(|(now, before)| now.wrapping_sub(*before)));
        above.copy_from_slice(row);
    }
    chunk(&mut out, *b"IDAT", &packed(&raw));
    chunk(&mut out, *b"IEND", &[]);
    out
}
