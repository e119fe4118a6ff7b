//! The framing extras and the extras of a request.

use std::sync::Arc;

/// Both, one behind the other, as a frame has them. Reads have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Extras {
    bytes: Option<Arc<[u8]>>,
    /// Where the extras begin.
    framing: usize,
}

impl Extras {
    fn split(&self) -> (&[u8], &[u8]) {
        let bytes = self.bytes.as_deref().unwrap_or_default();
        bytes.split_at(self.framing)
    }

    pub(super) fn framing(&self) -> &[u8] {
        self.split().0
    }

    pub(super) fn extras(&self) -> &[u8] {
        self.split().1
    }

    pub(super) fn with(framing: &[u8], extras: &[u8]) -> Self {
        let bytes = match (framing, extras) {
            ([], []) => None,
            ([], alone) | (alone, []) => Some(alone.into()),
            _ => Some([framing, extras].concat().into()),
        };
        Self {
            bytes,
            framing: framing.len(),
        }
    }
}
