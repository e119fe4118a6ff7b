//! Handling of one gRPC call on an HTTP/2 stream.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use reattempt_clients::grpc::{MessageError, Messages, frame_message};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::seen::SeenCall;
use super::step::{Step, Wait};
use crate::http::Cancelled;
use crate::http::desk::Desk;
use crate::http::h2::{self, Inbound, Reply, Stream, Then};
use crate::http::perform::{begin, finish, perform};
use crate::http::script::Next;
use crate::http::step::field;
use crate::pause::pause;

/// What the client has sent so far.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    messages: usize,
    half_closed: bool,
}

/// Records a call and answers it as scripted.
pub(crate) async fn answer(
    stream: Stream,
    connection: u64,
    desk: Arc<Desk<SeenCall, Step>>,
) -> Then {
    let Stream {
        id,
        head,
        body,
        reply,
        mut ended,
    } = stream;
    let _open = desk.answers();
    if head.method != Method::POST || !is_grpc(&head.headers) {
        reply.headers(&[field(":status", "415")], true).await;
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
    let work = async {
        if matches!(next, Next::Ask(_)) {
            wait(&progress, Wait::Messages(1)).await;
        }
        let step = desk.step(next, call);
        let then = carry_out(&reply, &step, &progress, |place| {
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
                _ => 13,
            };
            let status = Step::trailers_only(code, error.to_string()).answer;
            if reply.has_begun() {
                reply.headers(&status.trailers, true).await;
                return Then::Answered;
            }
            return perform(&reply, &status).await;
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
    desk: &Desk<SeenCall, Step>,
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

/// Carries out a step. `message` returns a received message by its place.
async fn carry_out(
    reply: &Reply,
    step: &Step,
    progress: &watch::Receiver<Progress>,
    message: impl Fn(usize) -> Option<Bytes>,
) -> Then {
    wait(progress, step.wait).await;
    if let Some(then) = begin(reply, &step.answer).await {
        return then;
    }
    let (mut sent, mut half_closed) = (0, !step.echo);
    while !half_closed {
        let now = wait(progress, Wait::Messages(sent + 1)).await;
        while sent < now.messages {
            pause(step.answer.apart).await;
            let message = message(sent).unwrap_or_default();
            reply.data(frame_message(&message), false).await;
            sent += 1;
        }
        half_closed = now.half_closed;
    }
    finish(reply, &step.answer).await
}
