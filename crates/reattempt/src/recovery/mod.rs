//! What both recovery layers share: their settings, and the request that is kept for another
//! attempt.

mod source;
mod warnings;

use std::sync::Arc;

use crate::clock;
use crate::driver::Effects;
use crate::observe::{with_log, with_observer};
use crate::{AttemptKind, CallContext, Classify, NextAttempt, Observer, Verdict};
pub(crate) use source::{Source, with_context};
use warnings::Warnings;

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
    /// The layer's own observer. The log wants nothing of a call that succeeds at once.
    pub(crate) own_observer: Option<Arc<dyn Observer>>,
    /// The own observer wants events of first attempts that are sent.
    pub(crate) sees_sent: bool,
    /// Names calls in the log whose requests name no host.
    pub(crate) service: Option<&'static str>,
    pub(crate) warnings: Warnings,
}

impl<C> Settings<C> {
    pub(crate) fn new(layer: &'static str, classifier: C) -> Self {
        Self {
            classifier,
            transparent: true,
            observer: with_log(None),
            own_observer: None,
            sees_sent: false,
            service: None,
            warnings: Warnings::of(layer),
        }
    }

    /// Adds an observer to those added before.
    pub(crate) fn observe(&mut self, observer: Arc<dyn Observer>) {
        let own = with_observer(self.own_observer.take(), observer);
        self.sees_sent = own.sees_sent();
        self.observer = with_log(Some(Arc::clone(&own)));
        self.own_observer = Some(own);
    }

    /// The verdict on an attempt of this layer.
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
        verdict
    }

    /// The effects on the call of this context's attempt.
    pub(crate) fn effects<'a>(&'a self, context: &'a CallContext) -> Effects<'a> {
        Effects {
            context,
            transparent: self.transparent,
            observer: Some(&*self.observer),
        }
    }

    /// A call that this layer passed through has its outcome. If no layer below claimed it, it is
    /// counted here (A6: every RPC counts).
    #[cold]
    #[inline(never)]
    pub(crate) fn passed<Res, Err>(&self, outcome: Result<&Res, &Err>, context: &CallContext)
    where
        C: Classify<Res, Err>,
    {
        if !context.is_taken_up() {
            self.warnings.other_layer(context);
            let verdict = self.classifier.classify(outcome, context);
            self.effects(context).passed(clock::now(), &verdict);
        }
    }

    /// A call that this layer passed through was dropped before it had an outcome.
    pub(crate) fn passed_and_dropped(&self, context: &CallContext) {
        if !context.is_taken_up() {
            self.warnings.other_layer(context);
            self.effects(context).passed_and_dropped(clock::now());
        }
    }
}
