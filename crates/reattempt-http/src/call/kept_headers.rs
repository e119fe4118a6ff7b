//! The headers of a request as one text, kept for copies of the request.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

/// The longest text, whose memory is kept for a later request.
const MOST_KEPT: usize = 4 * 1024;
const LEAST_KEPT: usize = 64;

/// The headers of a request, in the order of its map: of each its lengths, its name and its value.
///
/// A copy of a map counts a reference of each name and value that is not static, and allocates
/// twice. A text takes half of the instructions and of the memory; a map is made of it only if an
/// attempt fails.
///
/// After them comes an empty name, which no header has. What follows is left of an earlier request
/// with the same memory.
#[derive(Default)]
pub(super) struct KeptHeaders(Vec<u8>);

/// What is before a header, in eight bytes: the length of its name (at most 65,535) in the lowest
/// 16 bits, that of its value in the next 32, and whether the value is sensitive. Both fit in
/// [`MOST_KEPT`].
#[derive(Clone, Copy)]
struct Lengths(u64);

const SENSITIVE: u64 = 1 << 48;

impl Lengths {
    /// Of no header.
    const NONE: Self = Self(0);

    fn name(self) -> usize {
        usize::from(self.0 as u16)
    }

    fn value(self) -> usize {
        (self.0 >> 16) as u32 as usize
    }
}

const LENGTHS: usize = size_of::<Lengths>();

impl KeptHeaders {
    /// False where they take more than most requests' do: a copy of the map shares its values.
    pub(super) fn keep(&mut self, map: &HeaderMap) -> bool {
        let mut room = &mut self.0[..];
        for (name, value) in map {
            let (name, bytes) = (name.as_str().as_bytes(), value.as_bytes());
            let Some(places) = places(room, name.len(), bytes.len()) else {
                return self.grow(map) && self.keep(map);
            };
            let sensitive = if value.is_sensitive() { SENSITIVE } else { 0 };
            let lengths = name.len() as u64 | (bytes.len() as u64) << 16 | sensitive;
            *places.lengths = lengths.to_le_bytes();
            places.name.copy_from_slice(name);
            places.value.copy_from_slice(bytes);
            room = places.behind;
        }
        if let Some(none) = room.first_chunk_mut() {
            *none = Lengths::NONE.0.to_le_bytes();
        }
        true
    }

    /// Makes room for these headers, if most requests' take no more: a length then fits.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, map: &HeaderMap) -> bool {
        let length = |(name, value): (&HeaderName, &HeaderValue)| {
            LENGTHS + name.as_str().len() + value.len()
        };
        let bytes = map.iter().map(length).sum::<usize>();
        let fits = bytes <= MOST_KEPT;
        if fits {
            self.0.resize(bytes.next_power_of_two().max(LEAST_KEPT), 0);
        }
        fits
    }

    pub(super) fn to_map(&self) -> HeaderMap {
        let mut map = HeaderMap::new();
        let mut rest = &self.0[..];
        while let Some((name, value)) = next(&mut rest) {
            map.append(name, value);
        }
        let at_end = rest.first_chunk() == Some(&[0; LENGTHS]) || rest.len() < LENGTHS;
        debug_assert!(at_end, "a header of a map is not valid");
        map
    }
}

/// Where a header is written.
struct Places<'a> {
    lengths: &'a mut [u8; LENGTHS],
    name: &'a mut [u8],
    value: &'a mut [u8],
    behind: &'a mut [u8],
}

#[inline]
fn places(room: &mut [u8], name: usize, value: usize) -> Option<Places<'_>> {
    let (lengths, room) = room.split_first_chunk_mut()?;
    let (name, room) = room.split_at_mut_checked(name)?;
    let (value, behind) = room.split_at_mut_checked(value)?;
    Some(Places {
        lengths,
        name,
        value,
        behind,
    })
}

/// The first of these headers. The names and values of a map are valid.
fn next(rest: &mut &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let (lengths, after) = rest.split_first_chunk()?;
    let lengths = Lengths(u64::from_le_bytes(*lengths));
    if lengths.name() == 0 {
        return None;
    }
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
