//! What the client's request has to know of the attempt that it is sent in, and what that has to know of the request.

use reattempt::{Annotated, Call, Stage};
use reattempt_mongodb::MIN_WIRE_VERSION;

use super::client::{MongoRequest, OnProgress, Progress};

/// For a `map_request` right above the client, inside the recovery layer.
///
/// A further attempt is not sent to a server that does not support retryable reads (M23). How far the attempt has come is
/// reported, also of one that is cut off: what was never sent leaves nothing open.
#[must_use]
pub fn prepare(mut call: Call<MongoRequest>) -> Call<MongoRequest> {
    let Some(context) = call.context() else {
        return call;
    };
    let reporter = context.reporter();
    if context.attempt() > 1 {
        let wanted = call.request.requires_wire_version.unwrap_or(0);
        call.request.requires_wire_version = Some(wanted.max(MIN_WIRE_VERSION));
    }
    reporter.stage(Stage::Dispatch);
    call.request.on_progress = OnProgress::new(move |progress| {
        reporter.stage(match progress {
            Progress::Unsent => Stage::Dispatch,
            Progress::Sending => Stage::InFlight,
            Progress::Answered => Stage::Response,
        });
    });
    call
}
