//! Carries out a step on an HTTP/2 stream.

use super::ending::Ending;
use super::h2::{ErrorCode, Reply, Then};
use super::step::{End, HeaderList, Kind, Step};
use crate::pause::pause;

/// Carries out the whole step.
pub(crate) async fn perform(reply: &Reply, step: &Step) -> Then {
    match begin(reply, step).await {
        Some(then) => then,
        None => finish(reply, step).await,
    }
}

/// Sends the head, or does what the step does instead: then nothing is left to do.
pub(crate) async fn begin(reply: &Reply, step: &Step) -> Option<Then> {
    pause(step.before_head).await;
    if step.goodbye {
        reply.goodbye().await;
    }
    let mut head = head(step);
    match step.kind {
        Kind::Answer if step.end == End::TrailersOnly => {
            pause(step.before_end).await;
            head.extend_from_slice(&step.trailers);
            reply.headers(&head, true).await;
            Some(Then::Answered)
        }
        Kind::Answer => {
            let is_bodiless = step.end == End::Whole && step.pieces().is_empty();
            reply.headers(&head, is_bodiless).await;
            None
        }
        Kind::Hang => std::future::pending().await,
        Kind::Close => Some(Then::End(Ending::Close)),
        Kind::Reset(code) => Some(reset(reply, code).await),
        Kind::RefuseStream => Some(reset(reply, ErrorCode::REFUSED_STREAM).await),
        Kind::GoAway => Some(Then::GoAway),
        Kind::HalfFrame => {
            reply.half_headers(&head).await;
            Some(Then::End(Ending::Close))
        }
    }
}

/// Sends the body, and ends the stream.
pub(crate) async fn finish(reply: &Reply, step: &Step) -> Then {
    let pieces = step.pieces();
    let last = pieces.len();
    for (at, piece) in (1..).zip(pieces) {
        pause(if at == 1 {
            step.before_body
        } else {
            step.apart
        })
        .await;
        reply
            .data(piece, step.end == End::Whole && at == last)
            .await;
    }
    pause(step.before_end).await;
    match step.end {
        End::Whole | End::TrailersOnly => Then::Answered,
        End::Trailers => {
            reply.headers(&step.trailers, true).await;
            Then::Answered
        }
        End::Close => Then::End(Ending::Close),
        End::Reset(code) => reset(reply, code).await,
        End::Hang => std::future::pending().await,
    }
}

fn head(step: &Step) -> HeaderList {
    let mut head = vec![(":status".to_owned(), step.status.to_string().into_bytes())];
    head.extend_from_slice(&step.headers);
    if step.states_length && !step.frames_itself() {
        let length = step.content().1.to_string();
        head.push(("content-length".to_owned(), length.into_bytes()));
    }
    head
}

async fn reset(reply: &Reply, code: ErrorCode) -> Then {
    reply.reset(code).await;
    Then::Gone
}
