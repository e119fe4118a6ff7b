//! What both recovery layers share: their settings, and the request that is kept for another
//! attempt.

mod for_log;
mod late;
mod passed;
mod settings;
#[cfg(test)]
mod tests;
mod warnings;

use std::borrow::Cow;
use std::sync::Arc;

use crate::call::ResponseFailed;
use crate::driver::Effects;
use crate::machine::Facts;
use crate::{
    AttemptKind, CallContext, Classify, Failure, HasCallContext, NextAttempt, Observer, Replay,
    Verdict,
};
pub(crate) use late::past;
use tower_service::Service;
pub(crate) use warnings::Warnings;

/// The inner service's own result.
pub(crate) type Outcome<S, Req> = Result<<S as Service<Req>>::Response, <S as Service<Req>>::Error>;

/// The first attempt of a call.
pub(crate) const FIRST: NextAttempt<'static> = NextAttempt {
    number: 1,
    kind: AttemptKind::Initial,
    after: None,
};

/// The settings of a recovery layer, which all its services share.
#[derive(Clone)]
pub(crate) struct Settings<C> {
    pub(crate) classifier: C,
    pub(crate) transparent: bool,
    /// The log, then the layer's own observer.
    pub(crate) observer: Arc<dyn Observer>,
    /// The layer's own observer.
    pub(crate) own_observer: Option<Arc<dyn Observer>>,
    /// The own observer wants calls that succeed at once. The log wants nothing of them.
    pub(crate) sees_success: bool,
    /// The own observer wants events of first attempts that are sent.
    pub(crate) sees_sent: bool,
    /// Tells the own observer, if it wants responses that fail later.
    response_failed: Option<ResponseFailed>,
    /// Names calls in the log whose requests name no host.
    pub(crate) service: Option<Cow<'static, str>>,
    pub(crate) warnings: Warnings,
}

impl<C> Settings<C> {
    /// The verdict on an attempt of this layer.
    // The hints of this file: 2 % of the row `kv-preset`.
    #[inline(always)]
    pub(crate) fn classify<Res, Err>(
        &self,
        outcome: Result<&Res, &Err>,
        context: &CallContext,
    ) -> Verdict
    where
        C: Classify<Res, Err>,
    {
        let verdict = self.classifier.classify(outcome, context);
        self.warnings.if_unfollowed(&verdict, context);
        if let (Verdict::Committed, Some(failed)) = (&verdict, &self.response_failed) {
            context.watch_response(failed);
        }
        verdict
    }

    /// An attempt after the first is sent. The log wants nothing of it.
    pub(crate) fn sent_again(&self, context: &CallContext) {
        if let Some(observer) = &self.own_observer {
            observer.attempt_sent(context);
        }
    }

    /// The effects on the call of this context's attempt.
    pub(crate) fn effects<'a>(&'a self, context: &'a CallContext) -> Effects<'a> {
        Effects {
            context,
            transparent: self.transparent,
            observer: Some(&*self.observer),
        }
    }
}

/// One context per call: a template carries it.
pub(crate) enum Source<S, Req> {
    /// The original, and a service that sends copies.
    Template { request: Req, service: S },
    /// The last possible attempt took the request itself. Also of a call on which
    /// another recovery layer acts.
    Last(CallContext),
}

impl<S, Req> Source<S, Req> {
    /// The request was copied when it was sent: it may be sent again. Otherwise the call is never
    /// hedged, and a hedge delay learns nothing from it.
    #[inline(always)]
    pub(crate) const fn is_template(&self) -> bool {
        matches!(self, Self::Template { .. })
    }
}

impl<S, Req: HasCallContext> Source<S, Req> {
    /// The context of the attempt that is out or was out last, to be written.
    #[inline(always)]
    pub(crate) fn context_mut(&mut self) -> &mut CallContext {
        match self {
            Self::Template { request, .. } => request.context_mut(),
            Self::Last(context) => context,
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
