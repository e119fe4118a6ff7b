//! The script of the probe.

use std::time::Duration;

use crate::call::state::ConfigWaiter;
use crate::{
    AttemptReporter, Backend, Failure, RetryReason, ServerPushback, Stage, Transparent, Verdict,
};

/// The result of one attempt.
pub struct Step {
    pub(super) number: u32,
    pub(super) verdict: Verdict,
    pub(super) as_answer: bool,
    pub(super) after: Option<Duration>,
    pushback: Option<ServerPushback>,
    stage: Option<Stage>,
    backend: Option<&'static str>,
    forbids: bool,
    waiter: Option<ConfigWaiter>,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step")
            .field("number", &self.number)
            .field("verdict", &self.verdict)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

/// The attempt of this number (from 1); it succeeds at once, unless changed.
#[must_use]
pub const fn attempt(number: u32) -> Step {
    Step {
        number,
        verdict: Verdict::Success,
        as_answer: true,
        after: Some(Duration::ZERO),
        pushback: None,
        stage: None,
        backend: None,
        forbids: false,
        waiter: None,
    }
}

impl Step {
    /// Fails with an error that may be retried, which is the server's response. For one that did
    /// not get so far: [`comes_to`](Self::comes_to).
    #[must_use]
    pub const fn fails(self, reason: RetryReason) -> Self {
        self.comes_to(Verdict::Retry(Failure::new(reason, Stage::Response)))
    }

    /// Fails with a fatal error.
    #[must_use]
    pub const fn fails_fatally(self, reason: RetryReason) -> Self {
        self.comes_to(Verdict::Fatal(Failure::new(reason, Stage::Response)))
    }

    /// The response's head commits the call.
    #[must_use]
    pub const fn commits(self) -> Self {
        self.comes_to(Verdict::Committed).as_answer()
    }

    /// Has this verdict; failures arrive as errors.
    #[must_use]
    pub const fn comes_to(mut self, verdict: Verdict) -> Self {
        self.as_answer = verdict.failure().is_none();
        self.verdict = verdict;
        self
    }

    const fn failure(mut self, failure: Failure) -> Self {
        self.verdict = match self.verdict {
            Verdict::Retry(_) => Verdict::Retry(failure),
            Verdict::Fatal(_) => Verdict::Fatal(failure),
            Verdict::Success | Verdict::Committed => panic!("call `fails` first"),
        };
        self
    }

    const fn said(&self) -> Failure {
        match self.verdict {
            Verdict::Retry(failure) | Verdict::Fatal(failure) => failure,
            Verdict::Success | Verdict::Committed => panic!("call `fails` first"),
        }
    }

    /// The server's application never saw it.
    #[must_use]
    pub const fn transparently(self, transparent: Transparent) -> Self {
        let failure = self.said().transparent(transparent);
        self.failure(failure)
    }

    /// Sets the protocol's own code.
    #[must_use]
    pub const fn code(self, code: i32) -> Self {
        let failure = self.said().code(code);
        self.failure(failure)
    }

    /// The failure arrives as a response instead of an error.
    #[must_use]
    pub const fn as_answer(mut self) -> Self {
        self.as_answer = true;
        self
    }

    /// Takes this long.
    #[must_use]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Never ends.
    #[must_use]
    pub const fn hangs(mut self) -> Self {
        self.after = None;
        self
    }

    /// Reports this server pushback.
    #[must_use]
    pub const fn pushback(mut self, pushback: ServerPushback) -> Self {
        self.pushback = Some(pushback);
        self
    }

    /// Reports this stage when it is sent. A server's response is final, so this does nothing after
    /// [`fails`](Self::fails): see [`comes_to`](Self::comes_to).
    #[must_use]
    pub const fn reaches(mut self, stage: Stage) -> Self {
        self.stage = Some(stage);
        self
    }

    /// Reports this backend when it is sent.
    #[must_use]
    pub const fn goes_to(mut self, backend: &'static str) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Reports that no further attempt may be made.
    #[must_use]
    pub const fn forbids(mut self) -> Self {
        self.forbids = true;
        self
    }

    /// Stores a waiter for a newer configuration.
    #[must_use]
    pub fn config_coming(
        mut self,
        waiter: impl std::future::Future<Output = bool> + Send + 'static,
    ) -> Self {
        self.waiter = Some(Box::pin(waiter));
        self
    }

    pub(super) fn report_sent(&self, reporter: &AttemptReporter) {
        if let Some(stage) = self.stage {
            reporter.stage(stage);
        }
        if let Some(backend) = self.backend {
            reporter.backend(Backend::new(backend));
        }
    }

    pub(super) fn report_ended(&mut self, reporter: &AttemptReporter) {
        if let Some(pushback) = self.pushback {
            reporter.pushback(pushback);
        }
        if self.forbids {
            reporter.forbid();
        }
        if let Some(waiter) = self.waiter.take() {
            reporter.config_coming(waiter);
        }
    }
}

/// The readiness of an instance.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    pub(super) nth: u32,
    pub(super) after: Option<Duration>,
    pub(super) breaks: bool,
}

/// The `nth` (from 1) readiness that is requested; at once, unless changed.
#[must_use]
pub const fn readiness(nth: u32) -> Readiness {
    Readiness {
        nth,
        after: Some(Duration::ZERO),
        breaks: false,
    }
}

impl Readiness {
    /// Takes this long.
    #[must_use]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Never comes.
    #[must_use]
    pub const fn never(mut self) -> Self {
        self.after = None;
        self
    }

    /// Is an error.
    #[must_use]
    pub const fn breaks(mut self) -> Self {
        self.breaks = true;
        self
    }
}
