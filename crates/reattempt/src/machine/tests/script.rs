//! A small language that describes the server's behaviour, with times in milliseconds:
//! `attempt(1).fails(KV_TEMPORARY_FAILURE).after(1)`.

use std::time::Duration;

use crate::{Failure, RetryReason, ServerPushback, Stage, Transparent, Verdict};

pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The result of one attempt, or of all attempts from one on.
#[derive(Clone, Debug)]
pub(super) struct Line {
    first: u32,
    repeats: bool,
    /// `None`: there is no response.
    pub(super) verdict: Option<Verdict>,
    pub(super) takes: Duration,
    pub(super) pushback: Option<ServerPushback>,
    pub(super) stage: Option<Stage>,
    pub(super) forbids: bool,
    /// A local layer produced the response.
    pub(super) own_answer: bool,
    /// There is an untried backend.
    pub(super) untried_backend: bool,
    /// The request's body was not read.
    pub(super) unread: bool,
    /// The request cuts the attempt off.
    pub(super) cut_off: bool,
    /// Time from the failure until a newer configuration that moved the key is available.
    pub(super) moved_after: Option<Duration>,
    /// Time until the service is ready for this attempt.
    pub(super) ready_after: Duration,
}

const fn line(first: u32, repeats: bool) -> Line {
    Line {
        first,
        repeats,
        verdict: Some(Verdict::Success),
        takes: Duration::ZERO,
        pushback: None,
        stage: None,
        forbids: false,
        own_answer: false,
        untried_backend: false,
        unread: false,
        cut_off: false,
        moved_after: None,
        ready_after: Duration::ZERO,
    }
}

/// The attempt of this number succeeds at once, unless changed by later calls.
pub(super) const fn attempt(number: u32) -> Line {
    line(number, false)
}

/// So does every attempt from this one on, except those with a line of their own.
pub(super) const fn every_attempt_from(number: u32) -> Line {
    line(number, true)
}

impl Line {
    fn ends(mut self, verdict: Verdict) -> Self {
        self.verdict = Some(verdict);
        self
    }

    fn failure(mut self, change: impl FnOnce(Failure) -> Failure) -> Self {
        self.verdict = match self.verdict {
            Some(Verdict::Retry(failure)) => Some(Verdict::Retry(change(failure))),
            Some(Verdict::Fatal(failure)) => Some(Verdict::Fatal(change(failure))),
            other => panic!("call `fails` first; the line has {other:?}"),
        };
        self
    }

    /// Fails in a way that a retry may fix.
    pub(super) fn fails(self, reason: RetryReason) -> Self {
        self.ends(Verdict::Retry(Failure::new(reason, Stage::Response)))
    }

    /// Fails with a fatal failure.
    pub(super) fn fails_fatally(self, reason: RetryReason) -> Self {
        self.ends(Verdict::Fatal(Failure::new(reason, Stage::Response)))
    }

    /// The head of the response has arrived.
    pub(super) fn commits(self) -> Self {
        self.ends(Verdict::Committed)
    }

    pub(super) const fn never_answers(mut self) -> Self {
        self.verdict = None;
        self
    }

    /// The outcome arrives this long after the attempt was sent.
    pub(super) const fn after(mut self, takes: u64) -> Self {
        self.takes = ms(takes);
        self
    }

    /// The server's application never saw it.
    pub(super) fn unseen(self, transparent: Transparent) -> Self {
        self.failure(|failure| failure.transparent(transparent))
    }

    pub(super) fn with_code(self, code: i32) -> Self {
        self.failure(|failure| failure.code(code))
    }

    /// Sets the stage that the classifier returns.
    pub(super) fn in_stage(self, stage: Stage) -> Self {
        self.failure(|failure| Failure {
            transparent: failure.transparent,
            ..Failure::new(failure.reason, stage)
        })
    }

    /// Sets the stage that a layer below reports.
    pub(super) const fn found_at(mut self, stage: Stage) -> Self {
        self.stage = Some(stage);
        self
    }

    /// A local layer produced the response.
    pub(super) const fn answered_here(mut self) -> Self {
        self.own_answer = true;
        self
    }

    /// There is a backend that the call has not tried.
    pub(super) const fn leaves_a_backend(mut self) -> Self {
        self.untried_backend = true;
        self
    }

    /// The request's body was not read.
    pub(super) const fn unread(mut self) -> Self {
        self.unread = true;
        self
    }

    /// The server asks for a retry after this delay.
    pub(super) const fn come_back_in(mut self, delay: u64) -> Self {
        self.pushback = Some(ServerPushback::After(ms(delay)));
        self
    }

    /// The server asks for no retry.
    pub(super) const fn do_not_come_back(mut self) -> Self {
        self.pushback = Some(ServerPushback::Stop);
        self
    }

    /// The server asks for a longer delay than the client waits.
    pub(super) const fn asks_for_too_long(mut self) -> Self {
        self.pushback = Some(ServerPushback::TooLong { millis: 5 });
        self
    }

    /// A layer below forbids another attempt.
    pub(super) const fn forbids_another(mut self) -> Self {
        self.forbids = true;
        self
    }

    /// The request cuts the attempt off because another attempt continues alone.
    pub(super) const fn breaks_off(mut self) -> Self {
        self.cut_off = true;
        self
    }

    pub(super) const fn key_moves_after(mut self, delay: u64) -> Self {
        self.moved_after = Some(ms(delay));
        self
    }

    pub(super) const fn ready_after(mut self, delay: u64) -> Self {
        self.ready_after = ms(delay);
        self
    }
}

/// The line of this attempt; an attempt without a line succeeds at once.
pub(super) fn find(script: &[Line], number: u32) -> Line {
    let own = script
        .iter()
        .find(|line| line.first == number && !line.repeats);
    let general = || {
        script
            .iter()
            .rev()
            .find(|line| line.repeats && line.first <= number)
    };
    own.or_else(general)
        .cloned()
        .unwrap_or_else(|| attempt(number))
}
