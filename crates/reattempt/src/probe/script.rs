//! What the probe is told to do.

use std::time::Duration;

use reattempt_core::findings::ConfigWaiter;
use reattempt_core::{
    Backend, Failure, Reporter, RetryReason, ServerPushback, Stage, Transparent, Verdict,
};

/// What one attempt comes to.
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

/// The attempt of this number (from 1); it works, at once, unless something else is said.
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
    /// Fails with an error that another attempt may mend.
    #[must_use]
    pub const fn fails(self, reason: RetryReason) -> Self {
        self.comes_to(Verdict::Retry(Failure::new(reason, Stage::Response)))
    }

    /// Fails with an error for good.
    #[must_use]
    pub const fn fails_for_good(self, reason: RetryReason) -> Self {
        self.comes_to(Verdict::Fatal(Failure::new(reason, Stage::Response)))
    }

    /// The head of the answer commits the call.
    #[must_use]
    pub const fn commits(self) -> Self {
        self.comes_to(Verdict::Committed).as_answer()
    }

    /// Comes to this verdict; failures arrive as errors.
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
            Verdict::Success | Verdict::Committed => panic!("say first how it fails"),
        };
        self
    }

    const fn said(&self) -> Failure {
        match self.verdict {
            Verdict::Retry(failure) | Verdict::Fatal(failure) => failure,
            Verdict::Success | Verdict::Committed => panic!("say first how it fails"),
        }
    }

    /// The server's application never saw it.
    #[must_use]
    pub const fn transparently(self, transparent: Transparent) -> Self {
        let failure = self.said().transparent(transparent);
        self.failure(failure)
    }

    /// With the protocol's own code.
    #[must_use]
    pub const fn code(self, code: i32) -> Self {
        let failure = self.said().code(code);
        self.failure(failure)
    }

    /// The failure arrives as an answer instead of an error.
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

    /// Reports this word of the server.
    #[must_use]
    pub const fn pushback(mut self, pushback: ServerPushback) -> Self {
        self.pushback = Some(pushback);
        self
    }

    /// Reports, when it is sent, how far it comes.
    #[must_use]
    pub const fn reaches(mut self, stage: Stage) -> Self {
        self.stage = Some(stage);
        self
    }

    /// Reports, when it is sent, where it goes.
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

    /// Leaves a waiter for a newer configuration.
    #[must_use]
    pub fn config_coming(
        mut self,
        waiter: impl std::future::Future<Output = bool> + Send + 'static,
    ) -> Self {
        self.waiter = Some(Box::pin(waiter));
        self
    }

    pub(super) fn report_sent(&self, reporter: &Reporter) {
        if let Some(stage) = self.stage {
            reporter.stage(stage);
        }
        if let Some(backend) = self.backend {
            reporter.backend(Backend::new(backend));
        }
    }

    pub(super) fn report_ended(&mut self, reporter: &Reporter) {
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

/// How an instance gets ready.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    pub(super) nth: u32,
    pub(super) after: Option<Duration>,
    pub(super) breaks: bool,
}

/// The readiness that is asked for as the `nth` (from 1); at once, unless something else is said.
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
