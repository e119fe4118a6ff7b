//! The Huffman code of HPACK (RFC 7541, Appendix B). Decoding only: this server never compresses.
//!
//! The code is canonical: codes of one length are consecutive, in symbol order. So the lengths
//! alone define the code, and decoding needs one short table per length.

use super::error::HpackError;

/// The end-of-string symbol; inside a string it is an error.
const EOS: usize = 256;

/// The longest code, in bits.
const LONGEST: usize = 30;

/// Code length in bits of each symbol, the last one being EOS.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// For each length: the first code, the number of codes, and the index of their first symbol.
struct Table {
    first: [u32; LONGEST + 1],
    count: [u32; LONGEST + 1],
    start: [usize; LONGEST + 1],
    symbols: [u16; 257],
}

static TABLE: Table = build();

const fn build() -> Table {
    let mut table = Table {
        first: [0; LONGEST + 1],
        count: [0; LONGEST + 1],
        start: [0; LONGEST + 1],
        symbols: [0; 257],
    };
    let (mut code, mut placed, mut length) = (0u32, 0usize, 1usize);
    while length <= LONGEST {
        code <<= 1;
        table.first[length] = code;
        table.start[length] = placed;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                table.symbols[placed] = symbol as u16;
                table.count[length] += 1;
                placed += 1;
                code += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    table
}

/// Decodes `input`; fails when the text exceeds `limit` bytes.
pub(super) fn decode(input: &[u8], limit: usize) -> Result<Vec<u8>, HpackError> {
    // The shortest code has five bits, so eight input bits give fewer than two symbols.
    let mut text = Vec::with_capacity(input.len().saturating_mul(2).min(limit));
    let (mut code, mut length) = (0u32, 0usize);
    let mut padding_of_ones = true;
    for byte in input {
        for shift in (0..8).rev() {
            let bit = u32::from(byte >> shift & 1);
            padding_of_ones &= bit == 1;
            code = code << 1 | bit;
            length += 1;
            if length > LONGEST {
                return Err(HpackError::Huffman);
            }
            // Wraps to a large number when the code is below the first one: not found.
            let offset = code.wrapping_sub(TABLE.first[length]);
            if offset < TABLE.count[length] {
                let symbol = usize::from(TABLE.symbols[TABLE.start[length] + offset as usize]);
                if symbol == EOS {
                    return Err(HpackError::Huffman);
                }
                if text.len() == limit {
                    return Err(HpackError::TooLarge);
                }
                text.push(symbol as u8);
                (code, length, padding_of_ones) = (0, 0, true);
            }
        }
    }
    // The remaining bits must be a prefix of EOS (all ones), shorter than a byte (RFC 7541, 5.2).
    if length >= 8 || !padding_of_ones {
        Err(HpackError::Huffman)
    } else {
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541, C.4.1
    #[test]
    fn decodes_the_example_of_the_specification() {
        let input = [
            0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
        ];
        assert_eq!(decode(&input, 100).unwrap(), b"www.example.com");
    }

    #[test]
    fn refuses_long_padding_zero_padding_and_too_much_text() {
        assert!(matches!(decode(&[0xff], 100), Err(HpackError::Huffman)));
        assert!(matches!(decode(&[0xff; 4], 100), Err(HpackError::Huffman)));
        // "0" is 00000; the three bits after it must be ones.
        assert!(matches!(
            decode(&[0b0000_0000], 100),
            Err(HpackError::Huffman)
        ));
        assert_eq!(decode(&[0b0000_0111], 100).unwrap(), b"0");
        assert!(matches!(decode(&[0; 50], 10), Err(HpackError::TooLarge)));
    }
}
