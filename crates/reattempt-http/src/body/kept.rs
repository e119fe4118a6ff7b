//! One frame that is kept for further attempts.

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::Frame;

/// A frame of the wrapped body. Cheap to copy, unless it is trailers.
#[derive(Clone, Debug)]
pub(super) enum Fresh {
    Data(Bytes),
    Trailers(HeaderMap),
}

/// The approximate memory of a trailers map, and of each entry, besides its text.
const MAP: usize = 64;
const ENTRY: usize = 32;

impl Fresh {
    /// `None` for a frame of an unknown kind.
    pub(super) fn of<D: Buf>(frame: Frame<D>) -> Option<Self> {
        match frame.into_data() {
            Ok(mut data) => Some(Self::Data(data.copy_to_bytes(data.remaining()))),
            Err(frame) => frame.into_trailers().ok().map(Self::Trailers),
        }
    }

    /// Empty data frames are neither forwarded nor kept, and count towards no limit.
    pub(super) fn is_empty_data(&self) -> bool {
        matches!(self, Self::Data(data) if data.is_empty())
    }

    /// The size that counts towards the limits.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Trailers(map) => map.iter().fold(MAP, |sum, (name, value)| {
                sum + ENTRY + name.as_str().len() + value.len()
            }),
        }
    }

    pub(super) fn into_frame(self) -> Frame<Bytes> {
        match self {
            Self::Data(data) => Frame::data(data),
            Self::Trailers(map) => Frame::trailers(map),
        }
    }
}

/// A frame or several merged frames.
#[derive(Debug)]
pub(super) enum Kept {
    Whole(Bytes),
    /// Short frames, copied one behind the other.
    Gathered(Vec<u8>),
    Trailers(Box<HeaderMap>),
}

/// Shorter frames than this are copied, but for the first: most bodies have no more. A frame is a
/// piece of the buffer that it was read into, 8 KiB of hyper's, and holds all of it.
const SHORT: usize = 4096;

impl Kept {
    /// Keeps a frame after `before` others.
    pub(super) fn new(fresh: &Fresh, before: usize) -> Self {
        match fresh {
            Fresh::Data(data) if before > 0 && data.len() < SHORT => Self::Gathered(data.to_vec()),
            Fresh::Data(data) => Self::Whole(data.clone()),
            Fresh::Trailers(map) => Self::Trailers(Box::new(map.clone())),
        }
    }

    /// Appends the frame if there is room; false if not.
    pub(super) fn gathers(&mut self, fresh: &Fresh) -> bool {
        match (self, fresh) {
            (Self::Gathered(gathered), Fresh::Data(data))
                if gathered.len() + data.len() <= SHORT =>
            {
                gathered.extend_from_slice(data);
                true
            }
            _ => false,
        }
    }

    /// The offset at which a copy has read all of it so far.
    pub(super) fn end(&self) -> usize {
        match self {
            Self::Gathered(gathered) => gathered.len(),
            Self::Whole(_) | Self::Trailers(_) => 1,
        }
    }

    /// The rest from this offset on.
    pub(super) fn read(&self, from: usize) -> Option<Frame<Bytes>> {
        match self {
            Self::Gathered(gathered) => match gathered.get(from..) {
                None | Some([]) => None,
                Some(rest) => Some(Frame::data(Bytes::copy_from_slice(rest))),
            },
            _ if from > 0 => None,
            Self::Whole(data) => Some(Frame::data(data.clone())),
            Self::Trailers(map) => Some(Frame::trailers((**map).clone())),
        }
    }

    /// Bytes of data from this offset on.
    pub(super) fn data_from(&self, from: usize) -> u64 {
        match self {
            Self::Gathered(gathered) => gathered.len().saturating_sub(from) as u64,
            Self::Whole(data) if from == 0 => data.len() as u64,
            Self::Whole(_) | Self::Trailers(_) => 0,
        }
    }

    /// The size that it returns to the limits.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Gathered(gathered) => gathered.len(),
            Self::Whole(data) => data.len(),
            Self::Trailers(map) => Fresh::Trailers((**map).clone()).size(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_piece_after_the_first_holds_no_buffer() {
        let holds = |length: usize, before: usize| {
            let buffer = Bytes::from(vec![7; 8192]);
            let piece = Fresh::Data(buffer.slice(..length));
            let kept = Kept::new(&piece, before);
            drop(piece);
            assert_eq!(kept.size(), length);
            !buffer.is_unique()
        };
        assert!(holds(1460, 0), "most bodies have one piece");
        assert!(!holds(1460, 1));
        assert!(!holds(1, 1));
        assert!(holds(4096, 1), "half of the buffer is counted");
    }
}
