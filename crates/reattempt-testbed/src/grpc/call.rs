//! Handling of one gRPC call on an HTTP/2 stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::message::{MessageError, Messages, frame_message, percent_encode};
use super::step::{End, Kind, Metadata, Step, Wait};
use super::{Grpc, SeenCall};
use crate::http::ending::Ending;
use crate::http::h2::{self, Head, Inbound, Reply, Stream, Then};
use crate::http::pause::pause;
use crate::http::script::Next;
use crate::http::server::Desk;
use crate::http::{Cancelled, ErrorCode};

/// What the client has sent so far.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    messages: usize,
    half_closed: bool,
}

/// Records a call and answers it as scripted.
pub(crate) async fn answer(stream: Stream, connection: u64, desk: Arc<Desk<Grpc>>) -> Then {
    let Stream {
        id,
        head,
        body,
        reply,
        mut ended,
    } = stream;
    let _open = desk.answers();
    let Some(head) = Head::of(&head) else {
        reply.reset(ErrorCode::PROTOCOL_ERROR).await;
        return Then::Gone;
    };
    if head.method != Method::POST || !is_grpc(&head.headers) {
        reply.headers([(&b":status"[..], &b"415"[..])], true).await;
        return Then::Answered;
    }
    let next = desk.next();
    let call = desk.log.push(|number| SeenCall {
        number,
        connection,
        stream: id,
        path: head.path,
        metadata: head.headers,
        messages: Vec::new(),
        half_closed: false,
        arrival: Instant::now(),
        cancelled: None,
    });
    let (reached, progress) = watch::channel(Progress::default());
    let response = Response {
        reply: &reply,
        begun: AtomicBool::new(false),
    };
    let work = async {
        if matches!(next, Next::Ask(_)) {
            wait(&progress, Wait::Messages(1)).await;
        }
        let step = desk.step(next, call);
        let then = perform(&response, &step, &progress, |place| {
            desk.log
                .with(call, |seen| seen.messages.get(place).cloned())
                .flatten()
        })
        .await;
        let stays = step.leaves_open && then == Then::Answered && !progress.borrow().half_closed;
        if stays {
            // Pending until the client ends the stream, which the select below detects.
            std::future::pending::<()>().await;
        }
        then
    };
    let gone = tokio::select! {
        biased;
        gone = h2::ended(&mut ended) => gone,
        Err(error) = receive(body, &desk, call, &reached) => {
            let code = match error {
                MessageError::Compressed(_) => 12,
                MessageError::TooLong { .. }
                | MessageError::TooLongTogether { .. }
                | MessageError::TooMany { .. } => 8,
                MessageError::Truncated(_) => 13,
            };
            response.status(&Step::trailers_only(code, error.to_string())).await;
            return Then::Answered;
        }
        then = work => return then,
    };
    desk.log
        .with(call, |seen| seen.cancelled = Cancelled::of(gone));
    Then::Gone
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// Records messages as they arrive; returns only on an error.
async fn receive(
    mut body: mpsc::UnboundedReceiver<Inbound>,
    desk: &Desk<Grpc>,
    call: usize,
    reached: &watch::Sender<Progress>,
) -> Result<Infallible, MessageError> {
    let mut messages = Messages::default();
    loop {
        match body.recv().await {
            Some(Inbound::Data(data)) => {
                messages.push(&data);
                while let Some(message) = messages.next_message()? {
                    desk.log.with(call, |seen| seen.messages.push(message));
                    reached.send_modify(|progress| progress.messages += 1);
                }
            }
            Some(Inbound::End) => {
                messages.finish()?;
                desk.log.with(call, |seen| seen.half_closed = true);
                reached.send_modify(|progress| progress.half_closed = true);
            }
            None => return std::future::pending().await,
        }
    }
}

async fn wait(progress: &watch::Receiver<Progress>, wait: Wait) -> Progress {
    let reached = |progress: &Progress| match wait {
        Wait::Nothing => true,
        Wait::Messages(count) => progress.messages >= count || progress.half_closed,
        Wait::HalfClose => progress.half_closed,
    };
    // Copied at once: the value from `wait_for` holds a lock.
    let now = progress
        .clone()
        .wait_for(reached)
        .await
        .map(|progress| *progress);
    match now {
        Ok(progress) => progress,
        // The sender lives as long as the call is handled.
        Err(_) => std::future::pending().await,
    }
}

async fn perform(
    response: &Response<'_>,
    step: &Step,
    progress: &watch::Receiver<Progress>,
    message: impl Fn(usize) -> Option<Bytes>,
) -> Then {
    wait(progress, step.wait).await;
    pause(step.after).await;
    if step.says_goodbye {
        response.reply.goodbye().await;
    }
    match step.kind {
        Kind::Answer => {
            response.begin(&step.initial).await;
            for message in &step.messages {
                pause(step.between).await;
                response.message(message).await;
            }
        }
        Kind::Echo => {
            response.begin(&step.initial).await;
            let mut sent = 0;
            loop {
                let now = wait(progress, Wait::Messages(sent + 1)).await;
                while sent < now.messages {
                    pause(step.between).await;
                    response.message(&message(sent).unwrap_or_default()).await;
                    sent += 1;
                }
                if now.half_closed {
                    break;
                }
            }
        }
        Kind::TrailersOnly => {
            pause(step.before_end).await;
            response.status(step).await;
            return Then::Answered;
        }
        Kind::HttpStatus(status) => {
            let status = status.to_string();
            let first = [(":status", status.as_bytes())];
            let ends = step.data.is_empty();
            response
                .reply
                .headers(fields(&first, &step.initial), ends)
                .await;
            if !ends {
                response.reply.data(step.data.clone(), true).await;
            }
            return Then::Answered;
        }
        Kind::Hang => std::future::pending().await,
        Kind::Close => return Then::End(Ending::Close),
        Kind::Reset(code) => return response.reset(code).await,
        Kind::RefuseStream => return response.reset(ErrorCode::REFUSED_STREAM).await,
        Kind::GoAway => return Then::GoAway,
        Kind::HalfFrame => {
            response
                .reply
                .half_headers(fields(&BEGINNING, &step.initial))
                .await;
            return Then::End(Ending::Close);
        }
    }
    response.reply.data(step.data.clone(), false).await;
    pause(step.before_end).await;
    match step.end {
        End::Trailers => {
            response.status(step).await;
            Then::Answered
        }
        End::NoStatus => {
            response
                .reply
                .headers(fields(&[], &step.trailers), true)
                .await;
            Then::Answered
        }
        End::Reset(code) => response.reset(code).await,
        End::Close => Then::End(Ending::Close),
        End::Hang => std::future::pending().await,
    }
}

type Field<'a> = (&'a str, &'a [u8]);

const BEGINNING: [Field<'static>; 2] = [(":status", b"200"), ("content-type", b"application/grpc")];

fn fields<'a>(
    first: &'a [Field<'a>],
    metadata: &'a Metadata,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let metadata = metadata
        .iter()
        .map(|(name, value)| (name.as_bytes(), &value[..]));
    first
        .iter()
        .map(|(name, value)| (name.as_bytes(), *value))
        .chain(metadata)
}

/// The sending side of a call.
struct Response<'a> {
    reply: &'a Reply,
    /// Whether the Response-Headers were sent, so that a status goes into trailers and not into a
    /// Trailers-Only response.
    begun: AtomicBool,
}

impl Response<'_> {
    async fn begin(&self, initial: &Metadata) {
        self.begun.store(true, Ordering::Release);
        self.reply.headers(fields(&BEGINNING, initial), false).await;
    }

    async fn message(&self, message: &[u8]) {
        self.reply.data(frame_message(message), false).await;
    }

    async fn status(&self, step: &Step) {
        let code = step.code.to_string();
        let message = percent_encode(&step.message);
        let mut first = Vec::new();
        let none = Metadata::new();
        let mut initial = &none;
        if !self.begun.swap(true, Ordering::AcqRel) {
            first.extend(BEGINNING);
            initial = &step.initial;
        }
        let status = [
            ("grpc-status", code.as_bytes()),
            ("grpc-message", &message[..]),
        ];
        let status = if message.is_empty() {
            &status[..1]
        } else {
            &status[..]
        };
        let fields = fields(&first, initial).chain(fields(status, &step.trailers));
        self.reply.headers(fields, true).await;
    }

    async fn reset(&self, code: ErrorCode) -> Then {
        self.reply.reset(code).await;
        Then::Gone
    }
}
