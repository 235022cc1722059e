//! CRC-32C (Castagnoli, RFC 3720 appendix B.4), eight bytes at a step.

/// The polynomial, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Table `n` advances a byte by `n` further zero bytes.
const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0_u32; 256]; 8];
    let mut byte = 0_u32;
    while byte < 256 {
        let mut value = byte;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ (POLYNOMIAL & (value & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][byte as usize] = value;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of `parts`, one behind the other.
#[inline]
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    !parts.iter().fold(!0, |crc, part| update(crc, part))
}

fn update(mut crc: u32, bytes: &[u8]) -> u32 {
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        let [a, b, c, d] = crc.to_le_bytes();
        let [e, f, g, h, tail @ ..] = chunk;
        crc = TABLES[7][usize::from(a ^ e)]
            ^ TABLES[6][usize::from(b ^ f)]
            ^ TABLES[5][usize::from(c ^ g)]
            ^ TABLES[4][usize::from(d ^ h)]
            ^ TABLES[3][usize::from(tail[0])]
            ^ TABLES[2][usize::from(tail[1])]
            ^ TABLES[1][usize::from(tail[2])]
            ^ TABLES[0][usize::from(tail[3])];
    }
    for byte in rest {
        crc = (crc >> 8) ^ TABLES[0][usize::from(crc.to_le_bytes()[0] ^ byte)];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_rfc_3720() {
        assert_eq!(crc32c(&[b"123456789"]), 0xe306_9283);
        assert_eq!(crc32c(&[&[0; 32]]), 0x8a91_36aa);
        assert_eq!(crc32c(&[&[0xff; 32]]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&[&ascending]), 0x46dd_794e);
        assert_eq!(crc32c(&[b"1234", b"", b"56789"]), 0xe306_9283, "parts are one text");
        assert_eq!(crc32c(&[]), 0);
    }
}
