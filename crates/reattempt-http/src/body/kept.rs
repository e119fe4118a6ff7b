//! One frame that is kept for further attempts.

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;

/// A frame that is kept. Cheap to copy.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl Kept {
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Trailers(map) => map
                .iter()
                .map(|(name, value)| name.as_str().len() + value.len())
                .sum(),
        }
    }

    pub(super) fn into_frame(self) -> Frame<Bytes> {
        match self {
            Self::Data(data) => Frame::data(data),
            Self::Trailers(map) => Frame::trailers(map),
        }
    }
}
