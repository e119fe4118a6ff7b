//! A small language for what the server does:
//! `attempt(1).fails(KV_TEMPORARY_FAILURE).after(ms(1))`.

use std::time::Duration;

use crate::{Failure, RetryReason, ServerPushback, Stage, Transparent, Verdict};

pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// What becomes of one attempt, or of all from one on.
#[derive(Clone, Debug)]
pub(super) struct Line {
    first: u32,
    repeats: bool,
    /// `None` never answers.
    pub(super) verdict: Option<Verdict>,
    pub(super) takes: Duration,
    pub(super) pushback: Option<ServerPushback>,
    pub(super) stage: Option<Stage>,
    pub(super) forbids: bool,
    /// A layer of this side made the answer.
    pub(super) own_answer: bool,
    /// There is a backend that was not tried.
    pub(super) untried_backend: bool,
    /// Nothing of the request's body was read.
    pub(super) unread: bool,
    /// The request itself breaks it off.
    pub(super) cut_off: bool,
    /// A newer configuration is there so long after the failure, and moved the key.
    pub(super) moved_after: Option<Duration>,
    /// The service is ready for this attempt so long after it was asked.
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

/// The attempt of this number works at once, unless the words after it say something else.
pub(super) const fn attempt(number: u32) -> Line {
    line(number, false)
}

/// So does every attempt from this one on, save for those with a line of their own.
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
            other => panic!("say first that it fails; it {other:?}"),
        };
        self
    }

    /// Fails in a way that another attempt may mend.
    pub(super) fn fails(self, reason: RetryReason) -> Self {
        self.ends(Verdict::Retry(Failure::new(reason, Stage::Response)))
    }

    /// Fails for good.
    pub(super) fn fails_for_good(self, reason: RetryReason) -> Self {
        self.ends(Verdict::Fatal(Failure::new(reason, Stage::Response)))
    }

    /// The answer's head is here.
    pub(super) fn commits(self) -> Self {
        self.ends(Verdict::Committed)
    }

    pub(super) const fn never_answers(mut self) -> Self {
        self.verdict = None;
        self
    }

    /// So long after it was sent.
    pub(super) const fn after(mut self, takes: Duration) -> Self {
        self.takes = takes;
        self
    }

    /// The application at the server never saw it.
    pub(super) fn unseen(self, transparent: Transparent) -> Self {
        self.failure(|failure| failure.transparent(transparent))
    }

    pub(super) fn with_code(self, code: i32) -> Self {
        self.failure(|failure| failure.code(code))
    }

    /// The classifier says how far it came.
    pub(super) fn in_stage(self, stage: Stage) -> Self {
        self.failure(|failure| Failure {
            transparent: failure.transparent,
            ..Failure::new(failure.reason, stage)
        })
    }

    /// A layer below reports how far it came.
    pub(super) const fn found_at(mut self, stage: Stage) -> Self {
        self.stage = Some(stage);
        self
    }

    /// A layer of this side made the answer.
    pub(super) const fn answered_here(mut self) -> Self {
        self.own_answer = true;
        self
    }

    /// There is a backend that the call has not tried.
    pub(super) const fn leaves_a_backend(mut self) -> Self {
        self.untried_backend = true;
        self
    }

    /// Nothing of the request's body was read.
    pub(super) const fn unread(mut self) -> Self {
        self.unread = true;
        self
    }

    /// The server says when to come back.
    pub(super) const fn come_back_in(mut self, delay: Duration) -> Self {
        self.pushback = Some(ServerPushback::After(delay));
        self
    }

    /// The server says not to come back.
    pub(super) const fn do_not_come_back(mut self) -> Self {
        self.pushback = Some(ServerPushback::Stop);
        self
    }

    /// A layer below forbids another attempt.
    pub(super) const fn forbids_another(mut self) -> Self {
        self.forbids = true;
        self
    }

    /// The request itself breaks it off, because another attempt goes on alone.
    pub(super) const fn breaks_off(mut self) -> Self {
        self.cut_off = true;
        self
    }

    pub(super) const fn key_moves_after(mut self, delay: Duration) -> Self {
        self.moved_after = Some(delay);
        self
    }

    pub(super) const fn ready_after(mut self, delay: Duration) -> Self {
        self.ready_after = delay;
        self
    }
}

/// The line of this attempt; one without a line works at once.
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
