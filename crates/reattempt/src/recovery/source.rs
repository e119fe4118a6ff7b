//! What is left of a request that is out: its template, or only its context.

use crate::machine::Facts;
use crate::{AttemptKind, CallContext, Failure, HasCallContext, NextAttempt, Replay};

/// One context per call: a template carries it.
pub(crate) enum Source<S, Req> {
    /// The original, and a service that sends copies.
    Template { request: Req, service: S },
    /// The last possible attempt took the request itself. Also of a call on which
    /// another recovery layer acts.
    Last(CallContext),
}

impl<S, Req: HasCallContext> Source<S, Req> {
    /// The context of the current or last attempt.
    #[inline]
    pub(crate) fn context(&self) -> Option<&CallContext> {
        match self {
            Self::Template { request, .. } => request.context(),
            Self::Last(context) => Some(context),
        }
    }

    /// Keeps what the call is about, if the log is on.
    pub(crate) fn describe(&self, service: Option<&'static str>) {
        if let Self::Template { request, .. } = self {
            if let Some(context) = request.context() {
                context.describe(|| request.subject().of_service(service));
            }
        }
    }

    /// The context of the attempt that is out or was out last, to be written.
    #[inline(always)]
    pub(crate) fn context_mut(&mut self) -> &mut CallContext {
        match self {
            Self::Template { request, .. } => request.context_mut(),
            Self::Last(context) => context,
        }
    }

    /// Drops the request and the service.
    pub(crate) fn shed(&mut self) {
        if let Self::Template { request, .. } = self {
            *self = Self::Last(std::mem::take(request.context_mut()));
        }
    }
}

impl<S, Req: Replay> Source<S, Req> {
    /// Whether the request could be sent once more after this attempt and its failure.
    pub(crate) fn can_replay(
        &self,
        attempt: u32,
        kind: AttemptKind,
        after: Option<&Failure>,
    ) -> bool {
        let next = NextAttempt {
            number: attempt + 1,
            kind,
            after,
        };
        matches!(self, Self::Template { request, .. } if request.can_replay(&next))
    }

    /// What the request knows of an attempt that failed: whether a further one of this kind could
    /// be sent, and why the transport returned an error.
    pub(crate) fn complete(
        &self,
        facts: &mut Facts,
        kind: AttemptKind,
        failure: Option<&Failure>,
        is_error: bool,
    ) {
        facts.replayable = self.can_replay(facts.attempt, kind, failure);
        if let (Self::Template { request, .. }, true) = (self, is_error) {
            facts.cut_off = request.was_cut_off(facts.attempt);
            facts.unread = request.was_unread(facts.attempt);
        }
    }

    /// The call has its outcome: a future that is held longer keeps nothing for
    /// another attempt.
    #[inline(always)]
    pub(crate) fn release(&mut self) {
        if let Self::Template { request, .. } = self {
            request.release();
        }
    }
}

/// The copy with the original's context, which most copies carry already.
#[inline(always)]
pub(crate) fn with_context<Req: HasCallContext>(copy: Req, request: &mut Req) -> Req {
    let context = request.context_mut();
    match copy.context() {
        Some(copied) if copied.is_copy_of(context) => copy,
        _ => in_context(copy, context.clone()),
    }
}

#[cold]
#[inline(never)]
fn in_context<Req: HasCallContext>(mut copy: Req, context: CallContext) -> Req {
    *copy.context_mut() = context;
    copy
}
