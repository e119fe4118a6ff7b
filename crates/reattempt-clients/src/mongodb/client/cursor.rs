//! Reading a cursor to its end.

use tower_service::Service;

use super::{MongoReply, MongoRequest};
use crate::mongodb::wire::MAX_LISTED;
use crate::mongodb::wire::number;

/// The most batches read from one cursor, 10,000; a change stream has no last one.
const MAX_BATCHES: usize = 10_000;

/// The most bytes read from one cursor: 64 MiB, as the messages have them.
const MAX_BYTES: usize = 64 << 20;

/// What a cursor gave. Its documents are counted and not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// How many documents all batches had.
    pub documents: usize,
    /// How many batches there were, the first one too.
    pub batches: usize,
    /// How long their messages were.
    pub bytes: usize,
    /// The bound at which reading stopped; `None` when the cursor came to its end.
    pub stopped_at: Option<CursorBound>,
}

/// A bound on what is read from one cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CursorBound {
    /// Its documents, or the values of a result that is no cursor.
    #[error("the result has more than {MAX_LISTED} documents, the most that are read of one")]
    Documents,
    /// Its batches.
    #[error("the cursor has more than {MAX_BATCHES} batches, the most that are read from one")]
    Batches,
    /// Its bytes.
    #[error("the cursor has more than {MAX_BYTES} bytes, the most that are read from one")]
    Bytes,
}

impl Drained {
    /// Of one reply alone, as for a cursor of which only the first batch is wanted.
    #[must_use]
    pub fn of(reply: &MongoReply) -> Self {
        let mut drained = Self::default();
        drained.take(reply);
        drained
    }

    fn take(&mut self, reply: &MongoReply) {
        self.batches += 1;
        self.documents += reply.count();
        self.bytes += reply.bytes;
        self.stopped_at = self.bound();
    }

    /// The bound that this much has passed.
    const fn bound(&self) -> Option<CursorBound> {
        if self.bytes > MAX_BYTES {
            Some(CursorBound::Bytes)
        } else if self.documents > MAX_LISTED {
            Some(CursorBound::Documents)
        } else if self.batches > MAX_BATCHES {
            Some(CursorBound::Batches)
        } else {
            None
        }
    }
}

/// Reads the rest of the cursor that `first` opened, from the server that holds it.
///
/// Reads no more than 100,000 documents, 10,000 batches and 64 MiB, beyond which it stops
/// ([`Drained::stopped_at`]). A result without a cursor, such as that of `distinct`, counts as a
/// single batch.
///
/// `service` may be the client or layers around it. Each `getMore` is an operation of its own in
/// the session of `request`; it is for the layers not to send it again (M19).
///
/// # Errors
///
/// The first failure of a `getMore`.
pub async fn drain<S>(
    service: &mut S,
    request: &MongoRequest,
    first: MongoReply,
) -> Result<Drained, S::Error>
where
    S: Service<MongoRequest, Response = MongoReply>,
{
    // `aggregate` and the lists have it inside `cursor`.
    let options = request.command.get_document("cursor");
    let size = number(options.unwrap_or(&request.command).get("batchSize"));
    let batch_size = size.filter(|size| *size > 0.0).map(|size| size as i32);
    let mut collection = String::new();
    let mut drained = Drained::default();
    let mut reply = first;
    loop {
        drained.take(&reply);
        let cursor = reply.cursor_id();
        let (Some(cursor), None) = (cursor, drained.stopped_at) else {
            return Ok(drained);
        };
        if let Some(named) = reply.collection() {
            named.clone_into(&mut collection);
        }
        let more = request.get_more(&reply.server, cursor, &collection, batch_size);
        std::future::poll_fn(|cx| service.poll_ready(cx)).await?;
        reply = service.call(more).await?;
    }
}
