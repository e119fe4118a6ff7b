//! Handling of one request on an HTTP/2 stream.

use std::sync::Arc;

use bytes::BytesMut;
use http::Version;
use tokio::time::Instant;

use super::desk::Desk;
use super::h2::{self, Inbound, Stream, Then};
use super::perform::perform;
use super::script::Next;
use super::seen::{Cancelled, SeenRequest};
use super::step::Step;

/// Records a request and answers it as scripted.
pub(crate) async fn answer(
    stream: Stream,
    connection: u64,
    desk: Arc<Desk<SeenRequest, Step>>,
) -> Then {
    let Stream {
        id,
        head,
        mut body,
        reply,
        mut ended,
    } = stream;
    let _open = desk.answers();
    let next = desk.next();
    let request = desk.log.push(|number| SeenRequest {
        number,
        connection,
        stream: id,
        version: Version::HTTP_2,
        method: head.method,
        path: head.path,
        headers: head.headers,
        body: bytes::Bytes::new(),
        body_complete: false,
        arrival: Instant::now(),
        cancelled: None,
    });
    let mut came = BytesMut::new();
    let skip_body = matches!(&next, Next::Step(step) if step.at_once);
    let work = async {
        let mut complete = false;
        while !complete && !skip_body {
            match body.recv().await {
                Some(Inbound::Data(data)) => came.extend_from_slice(&data),
                Some(Inbound::End) => complete = true,
                // The connection has ended; `ended` reports how.
                None => std::future::pending().await,
            }
        }
        desk.log.with(request, |seen| {
            seen.body = came.split().freeze();
            seen.body_complete = complete;
        });
        perform(&reply, &desk.step(next, request)).await
    };
    let gone = tokio::select! {
        biased;
        gone = h2::ended(&mut ended) => gone,
        then = work => return then,
    };
    desk.log.with(request, |seen| {
        if !seen.body_complete && !came.is_empty() {
            seen.body = came.freeze();
        }
        seen.cancelled = Cancelled::of(gone);
    });
    Then::Gone
}
