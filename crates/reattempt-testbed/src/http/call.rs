//! Handling of one request on an HTTP/2 stream.

use std::sync::Arc;

use bytes::BytesMut;
use http::Version;
use tokio::time::Instant;

use super::Http;
use super::ending::Ending;
use super::h2::{self, ErrorCode, Head, Inbound, Reply, Stream, Then};
use super::pause::pause;
use super::script::Next;
use super::seen::{Cancelled, SeenRequest};
use super::server::Desk;
use super::step::{Break, Kind, Step};

/// Records a request and answers it as scripted.
pub(crate) async fn answer(stream: Stream, connection: u64, desk: Arc<Desk<Http>>) -> Then {
    let Stream {
        id,
        head,
        mut body,
        reply,
        mut ended,
    } = stream;
    let _open = desk.answers();
    let Some(head) = Head::of(&head) else {
        reply.reset(ErrorCode::PROTOCOL_ERROR).await;
        return Then::Gone;
    };
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

async fn perform(reply: &Reply, step: &Step) -> Then {
    pause(step.before_head).await;
    let (content, length) = step.content();
    let status = step.status.to_string();
    let length = length.to_string();
    let framing = (!step.frames_itself()).then_some(("content-length", length.as_bytes()));
    let fields = || {
        let own = step
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), &value[..]));
        [(":status", status.as_bytes())]
            .into_iter()
            .chain(own)
            .chain(framing)
            .map(|(name, value)| (name.as_bytes(), value))
    };
    match step.kind {
        Kind::Answer | Kind::BreakBody(..) => {}
        Kind::Hang => std::future::pending().await,
        Kind::CloseBefore => return Then::End(Ending::Close),
        Kind::Reset(code) => {
            reply.reset(code).await;
            return Then::Gone;
        }
        Kind::RefuseStream => {
            reply.reset(ErrorCode::REFUSED_STREAM).await;
            return Then::Gone;
        }
        Kind::GoAway => return Then::GoAway,
        Kind::HalfFrame => {
            reply.half_headers(fields()).await;
            return Then::End(Ending::Close);
        }
    }
    let whole = step.kind == Kind::Answer;
    let bodiless = whole && content.is_empty();
    reply.headers(fields(), bodiless).await;
    if !bodiless {
        pause(step.before_body).await;
        let (pieces, apart) = step.pieces(&content);
        let last = pieces.len();
        for (at, piece) in (1..).zip(pieces) {
            if at > 1 {
                pause(apart).await;
            }
            reply.data(piece, whole && at == last).await;
        }
    }
    match step.kind {
        Kind::BreakBody(_, Break::Hang) => std::future::pending().await,
        Kind::BreakBody(_, Break::Close) => Then::End(Ending::Close),
        Kind::BreakBody(_, Break::Reset) => {
            reply.reset(ErrorCode::INTERNAL_ERROR).await;
            Then::Gone
        }
        _ => Then::Answered,
    }
}
