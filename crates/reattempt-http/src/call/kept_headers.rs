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

/// The lengths before a header: of its name in two bytes (a name has at most 65,535), of its value
/// in four, with the mark of a sensitive value in their highest bit (a value of two GiB fits no
/// head).
const LENGTHS: usize = 6;
const SENSITIVE: u32 = 1 << 31;

impl KeptHeaders {
    /// False where a length does not fit.
    pub(super) fn keep(&mut self, map: &HeaderMap) -> bool {
        self.0.clear();
        map.iter()
            .all(|(name, value)| self.push(name.as_str().as_bytes(), value).is_some())
    }

    #[inline]
    fn push(&mut self, name: &[u8], value: &HeaderValue) -> Option<()> {
        let sensitive = if value.is_sensitive() { SENSITIVE } else { 0 };
        let length = u32::try_from(value.len())
            .ok()
            .filter(|n| n & SENSITIVE == 0)?;
        let [a, b] = u16::try_from(name.len()).ok()?.to_le_bytes();
        let [c, d, e, f] = (length | sensitive).to_le_bytes();
        let text = &mut self.0;
        text.reserve(LENGTHS + name.len() + value.len());
        text.extend_from_slice(&[a, b, c, d, e, f]);
        text.extend_from_slice(name);
        text.extend_from_slice(value.as_bytes());
        Some(())
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
        map
    }
}

/// The first of these headers. The names and values of a map are valid.
fn next(rest: &mut &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let (name_length, after) = rest.split_first_chunk()?;
    let (value_length, after) = after.split_first_chunk()?;
    let value_length = u32::from_le_bytes(*value_length);
    let (name, after) = after.split_at_checked(u16::from_le_bytes(*name_length).into())?;
    let length = usize::try_from(value_length & !SENSITIVE).ok()?;
    let (value, after) = after.split_at_checked(length)?;
    *rest = after;
    let mut value = HeaderValue::from_bytes(value).ok()?;
    value.set_sensitive(value_length & SENSITIVE != 0);
    Some((HeaderName::from_lowercase(name).ok()?, value))
}

/// Values may be credentials.
impl fmt::Debug for KeptHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptHeaders").finish_non_exhaustive()
    }
}
