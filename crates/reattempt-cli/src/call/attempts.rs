//! The outcome of each attempt of a call, with its start and end times.

use std::collections::HashMap;
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use reattempt::reason::CIRCUIT_BREAKER_OPEN;
use reattempt::{
    AttemptKind, AttemptOutcome, AttemptRecord, CallContext, Failure, HasCallContext, Observer,
    RetryInfo, ServerPushback, Stage, StopReason,
};
use serde::{Serialize, Serializer};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use super::in_millis::InMillis;

/// A server-provided pushback, in the form of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pushback(pub(crate) ServerPushback);

impl Serialize for Pushback {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.delay() {
            None => serializer.serialize_str("stop"),
            Some(delay) => InMillis(delay).serialize(serializer),
        }
    }
}

/// One attempt, as reported in the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Attempt {
    pub(crate) n: u32,
    pub(crate) kind: &'static str,
    pub(crate) start_ms: InMillis,
    pub(crate) end_ms: InMillis,
    pub(crate) backend: Option<String>,
    pub(crate) verdict: &'static str,
    pub(crate) reason: Option<&'static str>,
    pub(crate) stage: &'static str,
    pub(crate) pushback_ms: Option<Pushback>,
    /// For the waterfall only; the machine interface has no such field.
    #[serde(skip)]
    pub(crate) pushback_unreadable: bool,
    pub(crate) delay_ms: Option<InMillis>,
}

impl Attempt {
    /// False for one that an open circuit refused: no server got it.
    pub(crate) fn was_sent(&self) -> bool {
        self.reason != Some(CIRCUIT_BREAKER_OPEN.name())
    }
}

/// How a call ended for its caller, where the response head does not decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The call succeeded.
    Success,
    /// The call failed.
    Failure,
    /// The caller cancelled.
    Cancelled,
    /// The deadline passed.
    Deadline,
}

/// The record of one call in progress. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Journal(Arc<Mutex<Pages>>);

#[derive(Debug)]
struct Pages {
    began: Instant,
    sent: Vec<Sent>,
    records: Vec<AttemptRecord>,
    /// Of the attempt that ended last, if it had no answer.
    error: Option<String>,
}

#[derive(Debug)]
struct Sent {
    number: u32,
    kind: AttemptKind,
    start: Instant,
    end: Option<Instant>,
    stage: Option<Stage>,
}

impl Journal {
    /// Creates a journal of a call that starts now, and attaches it to its context.
    pub(crate) fn of<R: HasCallContext>(request: &mut R) -> Self {
        let journal = Self(Arc::new(Mutex::new(Pages {
            began: Instant::now(),
            sent: Vec::new(),
            records: Vec::new(),
            error: None,
        })));
        request.context_mut().set_data(journal.clone());
        journal
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.pages().began)
    }

    fn sent(&self, number: u32, kind: AttemptKind) {
        self.pages().sent.push(Sent {
            number,
            kind,
            start: Instant::now(),
            end: None,
            stage: None,
        });
    }

    fn ended(&self, number: u32, stage: Option<Stage>) {
        let mut pages = self.pages();
        if let Some(sent) = pages.sent.iter_mut().rev().find(|s| s.number == number) {
            sent.end.get_or_insert_with(Instant::now);
            sent.stage = stage;
        }
    }

    /// The error of the attempt that ended last, if it had no answer.
    pub(crate) fn error(&self) -> Option<String> {
        self.pages().error.clone()
    }

    /// The failures of all attempts, in the order in which they were settled.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        let pages = self.pages();
        pages.records.iter().filter_map(|r| r.failure).collect()
    }

    /// The attempts in the order sent; `ending` is the outcome of the winning response, whose body
    /// ended at `now`.
    pub(crate) fn attempts(&self, info: &RetryInfo, ending: Ending, now: Instant) -> Vec<Attempt> {
        let pages = self.pages();
        // There may be very many; of two of one attempt the later counts.
        let records = pages.records.iter();
        let records: HashMap<_, _> = records.map(|record| (record.number, record)).collect();
        let last = pages.sent.iter().map(|sent| sent.number).max();
        let since = |at: Instant| InMillis(at.saturating_duration_since(pages.began));
        pages
            .sent
            .iter()
            .map(|sent| {
                // A body that ends after its head changes the record that the call keeps; so does a
                // delay that was cut short or never started.
                let kept = info.records().find(|r| r.number == sent.number);
                let record = records.get(&sent.number).copied();
                let outcome = record.map(|record| record.outcome);
                let stopped_by = record.and_then(|record| record.stopped);
                let won = matches!(
                    outcome,
                    Some(AttemptOutcome::Success | AttemptOutcome::Committed)
                );
                let failure = record
                    .and_then(|record| record.failure)
                    .or_else(|| kept.and_then(|record| record.failure));
                let verdict = match (outcome, ending) {
                    // Not retryable by its code, but retried transparently.
                    (Some(AttemptOutcome::Fatal), _) if stopped_by != Some(StopReason::Fatal) => {
                        "retry"
                    }
                    (Some(AttemptOutcome::Fatal), _) => "fatal",
                    (Some(AttemptOutcome::Retry), _) => "retry",
                    (Some(AttemptOutcome::Cancelled) | None, _) => "cancelled",
                    (Some(_), Ending::Success) => "success",
                    (Some(_), Ending::Failure) => "fatal",
                    (Some(_), Ending::Cancelled | Ending::Deadline) => "cancelled",
                };
                let stage = failure.map(|failure| failure.stage).or(sent.stage);
                Attempt {
                    n: sent.number,
                    kind: sent.kind.name(),
                    start_ms: since(sent.start),
                    // The winning response was read to its end.
                    end_ms: since(sent.end.filter(|_| !won).unwrap_or(now)),
                    backend: record
                        .and_then(|record| record.backend.as_ref())
                        .map(ToString::to_string),
                    verdict,
                    reason: failure.map(|failure| failure.reason.name()),
                    stage: stage
                        .unwrap_or(if won {
                            Stage::Response
                        } else {
                            Stage::InFlight
                        })
                        .name(),
                    pushback_ms: record.and_then(|record| record.pushback).map(Pushback),
                    pushback_unreadable: record.is_some_and(|record| record.pushback_unreadable),
                    delay_ms: kept
                        .or(record)
                        .and_then(|record| record.delay)
                        // The delay to the next attempt, if there was one.
                        .filter(|_| last.is_some_and(|last| sent.number < last))
                        .map(InMillis),
                }
            })
            .collect()
    }
}

/// Why no further attempt was made, for a caller that has read the whole answer.
pub(crate) fn stopped(info: &RetryInfo, ending: Ending) -> Option<&'static str> {
    let at_head = info.stopped();
    let stopped = match (at_head, ending) {
        (_, Ending::Cancelled) => StopReason::Cancelled,
        (Some(StopReason::Success | StopReason::Committed) | None, Ending::Deadline) => {
            StopReason::Deadline
        }
        (Some(StopReason::Success | StopReason::Committed), Ending::Success) => StopReason::Success,
        (Some(StopReason::Success | StopReason::Committed), Ending::Failure) => {
            StopReason::Committed
        }
        // The machine interface has a word of its own for it.
        (Some(StopReason::Fatal), _) if is_refused(info) => return Some("circuit"),
        (at_head, _) => at_head?,
    };
    Some(stopped.name())
}

/// Whether the circuit breaker refused the last attempt.
fn is_refused(info: &RetryInfo) -> bool {
    // Behind it the losers of a hedge, which have none.
    let failure = info.records().rev().find_map(|record| record.failure);
    failure.is_some_and(|failure| failure.reason == CIRCUIT_BREAKER_OPEN)
}

/// Keeps every record of a call in its journal; `RetryInfo` keeps a bounded number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalObserver;

impl Observer for JournalObserver {
    fn attempt_settled(&self, context: &CallContext, record: &AttemptRecord) {
        if let Some(journal) = context.data::<Journal>() {
            journal.pages().records.push(record.clone());
        }
    }
}

/// Records in the call's journal when each attempt was sent and when it ended. Place it directly
/// above the transport, or above the layer that reads part of the response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalLayer;

impl<S> Layer<S> for JournalLayer {
    type Service = Journaled<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Journaled { inner }
    }
}

/// The service that [`JournalLayer`] creates.
#[derive(Clone, Debug)]
pub(crate) struct Journaled<S> {
    inner: S,
}

impl<S, Req> Service<Req> for Journaled<S>
where
    S: Service<Req>,
    S::Error: Display,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = JournaledFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let context = request.context().cloned().unwrap_or_default();
        if let Some(journal) = context.data::<Journal>() {
            journal.sent(context.attempt(), context.kind());
        }
        JournaledFuture {
            inner: self.inner.call(request),
            end: NoteEnd(context),
        }
    }
}

/// Records the end of the attempt on drop, so that a cancelled attempt is covered.
#[derive(Debug)]
struct NoteEnd(CallContext);

impl NoteEnd {
    fn note(&self) {
        if let Some(journal) = self.0.data::<Journal>() {
            journal.ended(self.0.attempt(), self.0.report().stage);
        }
    }
}

impl Drop for NoteEnd {
    fn drop(&mut self) {
        self.note();
    }
}

pin_project! {
    /// The future of [`Journaled`].
    #[derive(Debug)]
    pub(crate) struct JournaledFuture<F> {
        #[pin]
        inner: F,
        end: NoteEnd,
    }
}

impl<F, T, E: Display> Future for JournaledFuture<F>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let output = ready!(this.inner.poll(cx));
        this.end.note();
        if let Some(journal) = this.end.0.data::<Journal>() {
            journal.pages().error = output.as_ref().err().map(ToString::to_string);
        }
        Poll::Ready(output)
    }
}
