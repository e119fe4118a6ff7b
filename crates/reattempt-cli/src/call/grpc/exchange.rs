//! One call through the layers: how much of its answer was read, and how it ended for its caller.

use http::Request;
use http_body::Body;
use http_body_util::BodyExt;
use reattempt::{AttemptRecord, Elapsed, RetryInfo, StopReason};
use reattempt_clients::grpc::{MessageError, Messages};
use reattempt_grpc::{BodyErrorCode, ByTransportError, Code};
use tower::ServiceExt;

use super::kind::Kind;
use super::payloads::Payloads;
use super::reply::{Reply, Status};
use super::stack::Stack;
use crate::call::answer::Timeout;
use crate::call::attempts::Ending;
use crate::call::transport::{TransportError, chain};

/// How the call ended for its caller.
#[derive(Debug)]
pub(super) struct End {
    pub(super) status: Status,
    pub(super) ending: Ending,
    pub(super) timeout: Option<Timeout>,
}

impl End {
    fn of(status: Status) -> Self {
        let ending = match status.code {
            Code::Ok => Ending::Success,
            _ => Ending::Failure,
        };
        Self {
            status,
            ending,
            timeout: None,
        }
    }

    fn deadline(status: Status, timeout: Timeout) -> Self {
        Self {
            status,
            ending: Ending::Deadline,
            timeout: Some(timeout),
        }
    }
}

/// How much of the answer could be read.
#[derive(Debug)]
pub(super) enum Read {
    /// The whole answer.
    Whole,
    /// The deadline passed before the head.
    Elapsed(Timeout),
    /// No answer arrived, or the rest cannot be read.
    Broken(Status),
}

impl Read {
    fn failed(error: &TransportError) -> Self {
        Self::Broken(Status::new(ByTransportError.code(error), chain(&**error)))
    }

    fn unreadable(error: &MessageError) -> Self {
        let code = match error {
            MessageError::TooLong { .. }
            | MessageError::TooLongTogether { .. }
            | MessageError::TooMany { .. } => Code::ResourceExhausted,
            _ => Code::Internal,
        };
        Self::Broken(Status::new(code, error.to_string()))
    }

    fn too_many() -> Self {
        let what = "the server sent more than the one message that such a method answers with";
        Self::Broken(Status::new(Code::Internal, what))
    }
}

pub(super) async fn exchange(
    stack: Stack,
    kind: Kind,
    mut messages: Messages,
    request: Request<Payloads>,
    reply: &mut Reply,
) -> Read {
    let response = match stack.oneshot(request).await {
        Ok(response) => response,
        Err(error) => return Read::failed(&error),
    };
    let (head, mut body) = response.into_parts();
    reply.head(head.status, head.headers, body.is_end_stream());
    if let Some(elapsed) = head.extensions.get::<Elapsed>() {
        return Read::Elapsed(Timeout::from(elapsed));
    }
    if reply.status_in_head().is_some() {
        return Read::Whole;
    }
    while let Some(frame) = body.frame().await {
        // A body that is always ready must not prevent the caller from cancelling.
        tokio::task::consume_budget().await;
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return Read::failed(&error),
        };
        match frame.into_data() {
            Ok(data) => {
                messages.push(&data);
                if let Err(broken) = take(&mut messages, kind, reply) {
                    return broken;
                }
            }
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    reply.trailers(trailers);
                }
            }
        }
    }
    match messages.finish() {
        Err(error) if reply.status().is_none_or(|status| status.code == Code::Ok) => {
            Read::unreadable(&error)
        }
        _ => Read::Whole,
    }
}

/// Takes the complete messages.
fn take(messages: &mut Messages, kind: Kind, reply: &mut Reply) -> Result<(), Read> {
    loop {
        match messages.next_message() {
            Ok(Some(_)) if kind.answers_once() && !reply.messages.is_empty() => {
                return Err(Read::too_many());
            }
            Ok(Some(message)) => reply.messages.push(message),
            Ok(None) => return Ok(()),
            Err(error) => return Err(Read::unreadable(&error)),
        }
    }
}

pub(super) fn end(read: Option<Read>, kind: Kind, reply: &Reply, info: &RetryInfo) -> End {
    let Some(read) = read else {
        let status = Status::new(Code::Cancelled, "the caller cancelled");
        return End {
            ending: Ending::Cancelled,
            ..End::of(status)
        };
    };
    match read {
        Read::Broken(status) => End::of(status),
        Read::Elapsed(timeout) => {
            let own = || Status::new(Code::DeadlineExceeded, "");
            End::deadline(reply.status().unwrap_or_else(own), timeout)
        }
        Read::Whole => {
            let broken = |what| Status::new(Code::Internal, what);
            let status = reply
                .status()
                .unwrap_or_else(|| broken("the stream ended without trailers"));
            // Of a call that gave up before a delay the record says so: the status is the server's.
            let gave_up = |record: &AttemptRecord| record.stopped == Some(StopReason::Deadline);
            if info.stopped() == Some(StopReason::Deadline)
                && status.code == Code::DeadlineExceeded
                && !info.records().any(gave_up)
            {
                // The answer had begun, so the server has the request, and the request is not known
                // to be idempotent.
                return End::deadline(status, Timeout::Ambiguous);
            }
            if status.code == Code::Ok && kind.answers_once() && reply.messages.is_empty() {
                return End::of(broken(
                    "the server sent no message where such a method answers with one",
                ));
            }
            End::of(status)
        }
    }
}
