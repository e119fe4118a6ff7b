//! What the client's request has to know of the attempt that it is sent in.

use reattempt::{Annotated, Call};
use reattempt_mongodb::MIN_WIRE_VERSION;

use super::client::MongoRequest;

/// For a `map_request` right above the client, inside the recovery layer: a further attempt is not sent to a server that
/// does not support retryable reads (M23).
#[must_use]
pub fn prepare(mut call: Call<MongoRequest>) -> Call<MongoRequest> {
    let again = call.context().is_some_and(|context| context.attempt() > 1);
    if again {
        let wanted = call.request.requires_wire_version.unwrap_or(0);
        call.request.requires_wire_version = Some(wanted.max(MIN_WIRE_VERSION));
    }
    call
}
