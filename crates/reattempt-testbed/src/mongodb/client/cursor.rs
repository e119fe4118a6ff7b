//! Reading a cursor to its end.

use bson::{Bson, Document};
use tower_service::Service;

use super::{MongoReply, MongoRequest};
use crate::mongodb::number;

/// The most documents read from one cursor.
const MAX_DOCUMENTS: usize = 100_000;

/// The most batches read from one cursor; a change stream has no last one.
const MAX_BATCHES: usize = 10_000;

/// What a cursor gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Drained {
    /// The documents of all batches.
    pub documents: Vec<Document>,
    /// How many batches there were, the first one too.
    pub batches: usize,
    /// Whether the cursor came to its end, and not to the bound of 100,000 documents or 10,000
    /// batches.
    pub complete: bool,
}

/// Reads the rest of the cursor that `first` opened, from the server that holds it.
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
    let mut drained = Drained::default();
    let mut reply = first;
    loop {
        drained.batches += 1;
        drained
            .documents
            .extend(reply.batch().iter().filter_map(Bson::as_document).cloned());
        let Some(cursor) = reply.cursor_id() else {
            drained.complete = true;
            return Ok(drained);
        };
        if drained.documents.len() >= MAX_DOCUMENTS || drained.batches >= MAX_BATCHES {
            return Ok(drained);
        }
        let collection = reply.collection().unwrap_or_default().to_owned();
        let more = request.get_more(&reply.server, cursor, &collection, batch_size);
        std::future::poll_fn(|cx| service.poll_ready(cx)).await?;
        reply = service.call(more).await?;
    }
}
