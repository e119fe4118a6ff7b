//! Header compression (RFC 7541): a complete decoder, and an encoder that writes only literals
//! without indexing and so needs no state.

mod error;
mod huffman;
mod static_table;

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};

use error::HpackError;

/// Header fields in wire order, including pseudo-headers.
pub(crate) type Fields = Vec<(Bytes, Bytes)>;

/// The table size announced to the peer (the default of RFC 9113), and the maximum a peer may set.
const TABLE_SIZE: usize = 4096;

/// Overhead of each entry in bytes, beyond its name and value (RFC 7541, 4.1).
const ENTRY_OVERHEAD: usize = 32;

/// Decodes header blocks; holds the dynamic table of one connection.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Newest first.
    entries: VecDeque<(Bytes, Bytes)>,
    size: usize,
    capacity: Option<usize>,
}

impl Decoder {
    /// Decodes a complete header block into at most `limit` bytes of fields, including overhead.
    pub(crate) fn decode(&mut self, block: &[u8], limit: usize) -> Result<Fields, HpackError> {
        let mut input = Input { rest: block };
        let mut fields = Fields::new();
        let mut total = 0;
        while let Some(first) = input.rest.first().copied() {
            let field = if first & 0x80 != 0 {
                self.lookup(input.integer(7)?)?
            } else if first & 0xc0 == 0x40 {
                let field = self.literal(&mut input, 6, limit)?;
                self.insert(field.clone());
                field
            } else if first & 0xe0 == 0x20 {
                let size = input.integer(5)?;
                if size > TABLE_SIZE || !fields.is_empty() {
                    return Err(HpackError::TableSize);
                }
                self.capacity = Some(size);
                self.evict(size);
                continue;
            } else {
                // Without indexing (0000) and never indexed (0001) are decoded alike.
                self.literal(&mut input, 4, limit)?
            };
            total += field.0.len() + field.1.len() + ENTRY_OVERHEAD;
            if total > limit {
                return Err(HpackError::TooLarge);
            }
            fields.push(field);
        }
        Ok(fields)
    }

    fn literal(
        &self,
        input: &mut Input<'_>,
        prefix: u8,
        limit: usize,
    ) -> Result<(Bytes, Bytes), HpackError> {
        let name = match input.integer(prefix)? {
            0 => input.string(limit)?,
            index => self.lookup(index)?.0,
        };
        Ok((name, input.string(limit)?))
    }

    fn lookup(&self, index: usize) -> Result<(Bytes, Bytes), HpackError> {
        let place = index.checked_sub(1).ok_or(HpackError::Index)?;
        if let Some((name, value)) = static_table::ENTRIES.get(place) {
            return Ok((
                Bytes::from_static(name.as_bytes()),
                Bytes::from_static(value.as_bytes()),
            ));
        }
        let place = place - static_table::ENTRIES.len();
        self.entries.get(place).cloned().ok_or(HpackError::Index)
    }

    fn insert(&mut self, field: (Bytes, Bytes)) {
        let capacity = self.capacity.unwrap_or(TABLE_SIZE);
        let size = field.0.len() + field.1.len() + ENTRY_OVERHEAD;
        // An entry larger than the table empties it and is not stored (RFC 7541, 4.4).
        self.evict(capacity.saturating_sub(size));
        if size <= capacity {
            self.size += size;
            self.entries.push_front(field);
        }
    }

    fn evict(&mut self, down_to: usize) {
        while self.size > down_to {
            let Some((name, value)) = self.entries.pop_back() else {
                break;
            };
            self.size -= name.len() + value.len() + ENTRY_OVERHEAD;
        }
    }
}

struct Input<'a> {
    rest: &'a [u8],
}

impl Input<'_> {
    fn byte(&mut self) -> Result<u8, HpackError> {
        let (first, rest) = self.rest.split_first().ok_or(HpackError::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    fn integer(&mut self, prefix: u8) -> Result<usize, HpackError> {
        let mask = u8::MAX >> (8 - prefix);
        let first = self.byte()? & mask;
        let mut value = usize::from(first);
        if first < mask {
            return Ok(value);
        }
        // Three more bytes allow about two million, more than any accepted length or index.
        for shift in [0, 7, 14] {
            let byte = self.byte()?;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(HpackError::Integer)
    }

    fn string(&mut self, limit: usize) -> Result<Bytes, HpackError> {
        let coded = self.rest.first().is_some_and(|byte| byte & 0x80 != 0);
        let length = self.integer(7)?;
        let raw = self.rest.get(..length).ok_or(HpackError::Truncated)?;
        self.rest = &self.rest[length..];
        if coded {
            huffman::decode(raw, limit).map(Bytes::from)
        } else if length > limit {
            Err(HpackError::TooLarge)
        } else {
            Ok(Bytes::copy_from_slice(raw))
        }
    }
}

/// Appends one field to a header block, as a literal without indexing.
pub(crate) fn encode(name: &[u8], value: &[u8], block: &mut BytesMut) {
    block.put_u8(0);
    for text in [name, value] {
        encode_length(text.len(), block);
        block.put_slice(text);
    }
}

fn encode_length(length: usize, block: &mut BytesMut) {
    let Some(mut rest) = length.checked_sub(0x7f) else {
        return block.put_u8(length as u8);
    };
    block.put_u8(0x7f);
    while rest >= 0x80 {
        block.put_u8(rest as u8 & 0x7f | 0x80);
        rest >>= 7;
    }
    block.put_u8(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(fields: &Fields) -> Vec<(&str, &str)> {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        fields
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect()
    }

    /// RFC 7541, C.4
    #[test]
    fn decodes_three_requests_that_share_a_table() {
        let mut decoder = Decoder::default();
        let first = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
        let request = [(":method", "GET"), (":scheme", "http"), (":path", "/")];
        let authority = [(":authority", "www.example.com")];
        let fields = decoder.decode(first, 1000).unwrap();
        assert_eq!(text(&fields), [&request[..], &authority].concat());
        let second = b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf";
        let fields = decoder.decode(second, 1000).unwrap();
        let cache = [("cache-control", "no-cache")];
        assert_eq!(text(&fields), [&request[..], &authority, &cache].concat());
        assert_eq!(decoder.size, 110);
    }

    #[test]
    fn reads_what_the_encoder_writes_whatever_its_length() {
        for length in [0, 1, 126, 127, 128, 254, 255, 20_000] {
            let mut block = BytesMut::new();
            let value = vec![b'v'; length];
            encode(b"name", &value, &mut block);
            let fields = Decoder::default().decode(&block, 30_000).unwrap();
            assert_eq!(fields, [(Bytes::from("name"), Bytes::from(value))]);
        }
    }

    #[test]
    fn refuses_what_is_cut_off_unknown_or_too_large() {
        let decode = |block: &[u8], limit| Decoder::default().decode(block, limit).unwrap_err();
        assert_eq!(decode(b"\x00\x04nam", 100), HpackError::Truncated);
        assert_eq!(decode(b"\xff\xff\xff\xff\xff", 100), HpackError::Integer);
        assert_eq!(decode(b"\x80", 100), HpackError::Index);
        assert_eq!(decode(b"\xbe", 100), HpackError::Index);
        assert_eq!(decode(b"\x82\x20", 100), HpackError::TableSize);
        assert_eq!(decode(b"\x82\x82\x82", 100), HpackError::TooLarge);
    }

    #[test]
    fn forgets_the_oldest_entries_when_the_table_is_full() {
        let mut decoder = Decoder::default();
        let mut block = BytesMut::new();
        for _ in 0..100 {
            block.put_slice(b"\x40\x01n\x7f\x01");
            block.put_bytes(b'v', 128);
        }
        decoder.decode(&block, 100_000).unwrap();
        assert!(decoder.size <= TABLE_SIZE && decoder.entries.len() == TABLE_SIZE / 161);
        decoder.decode(b"\x20", 100).unwrap();
        assert_eq!((decoder.size, decoder.entries.len()), (0, 0));
    }

    #[test]
    fn any_bytes_are_fields_or_an_error_and_leave_the_table_bounded() {
        use rand::{Rng, SeedableRng};
        let mut random = rand::rngs::SmallRng::seed_from_u64(7541);
        let mut decoder = Decoder::default();
        for _ in 0..20_000 {
            let mut block = vec![0; random.random_range(0..80)];
            random.fill(&mut block[..]);
            if let Ok(fields) = decoder.decode(&block, 500) {
                assert!(
                    fields
                        .iter()
                        .map(|(name, value)| name.len() + value.len())
                        .sum::<usize>()
                        <= 500
                );
            }
            assert!(decoder.size <= TABLE_SIZE);
        }
    }
}
