//! The headers of a request as one text, kept for copies of the request.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

/// The longest text whose memory is kept for a later request.
const MOST_KEPT: usize = 4 * 1024;

/// The headers of a request, in the order of its map: of each its lengths, its name and its value.
///
/// A copy of a map counts a reference of each name and value that is not static, and allocates
/// twice. A text takes half of the instructions and of the memory; a map is made of it only if an
/// attempt fails.
#[derive(Default)]
pub(super) struct KeptHeaders(Vec<u8>);

/// What is before a header, in eight bytes: the length of its name (at most 65,535) in the lowest
/// 16 bits, that of its value in the next 32, and whether the value is sensitive.
#[derive(Clone, Copy)]
struct Lengths(u64);

const SENSITIVE: u64 = 1 << 48;

impl Lengths {
    fn name(self) -> usize {
        usize::from(self.0 as u16)
    }

    fn value(self) -> usize {
        (self.0 >> 16) as u32 as usize
    }
}

impl KeptHeaders {
    /// False where they take more than most requests' do, or a length does not fit: a copy of the
    /// map shares its values.
    pub(super) fn keep(&mut self, map: &HeaderMap) -> bool {
        let text = &mut self.0;
        text.clear();
        for (name, value) in map {
            let (name, bytes) = (name.as_str().as_bytes(), value.as_bytes());
            let sensitive = if value.is_sensitive() { SENSITIVE } else { 0 };
            let (of_name, of_value) = (name.len() as u64, bytes.len() as u64);
            let fits = text.len() + name.len() + bytes.len() <= MOST_KEPT;
            if !fits || of_name > u64::from(u16::MAX) || of_value > u64::from(u32::MAX) {
                return false;
            }
            let lengths = of_name | of_value << 16 | sensitive;
            text.extend_from_slice(&lengths.to_le_bytes());
            text.extend_from_slice(name);
            text.extend_from_slice(bytes);
        }
        true
    }

    /// Keeps no header, and memory only for as many as most requests have.
    pub(super) fn clear(&mut self) {
        self.0.clear();
        if self.0.capacity() > MOST_KEPT {
            self.0 = Vec::new();
        }
    }

    pub(super) fn to_map(&self) -> HeaderMap {
        let mut map = HeaderMap::new();
        let mut rest = &self.0[..];
        while let Some((name, value)) = next(&mut rest) {
            map.append(name, value);
        }
        debug_assert!(rest.is_empty(), "a header of a map is not valid");
        map
    }
}

/// The first of these headers. The names and values of a map are valid.
fn next(rest: &mut &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let (lengths, after) = rest.split_first_chunk()?;
    let lengths = Lengths(u64::from_le_bytes(*lengths));
    let (name, after) = after.split_at_checked(lengths.name())?;
    let (value, after) = after.split_at_checked(lengths.value())?;
    *rest = after;
    let mut value = HeaderValue::from_bytes(value).ok()?;
    value.set_sensitive(lengths.0 & SENSITIVE != 0);
    Some((HeaderName::from_lowercase(name).ok()?, value))
}

/// Values may be credentials.
impl fmt::Debug for KeptHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptHeaders").finish_non_exhaustive()
    }
}
