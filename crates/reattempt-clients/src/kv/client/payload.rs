//! What a request has beside its key.

use std::sync::Arc;

use bytes::Bytes;

/// Behind one pointer, because each layer moves a request, and each attempt has a copy. Most reads
/// have nothing of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Payload(Option<Arc<Parts>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) value: Bytes,
    pub(super) cas: u64,
    pub(super) extras: Box<[u8]>,
    pub(super) framing: Box<[u8]>,
}

impl Payload {
    pub(super) fn get(&self) -> Option<&Parts> {
        self.0.as_deref()
    }

    /// Sets a part of this request alone.
    pub(super) fn set(mut self, set: impl FnOnce(&mut Parts)) -> Self {
        set(Arc::make_mut(self.0.get_or_insert_default()));
        self
    }
}

/// Nothing is the same as parts that are empty.
impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        match (self.get(), other.get()) {
            (Some(parts), Some(others)) => parts == others,
            (Some(parts), None) | (None, Some(parts)) => *parts == Parts::default(),
            (None, None) => true,
        }
    }
}

impl Eq for Payload {}
