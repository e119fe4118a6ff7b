//! A call on which another recovery layer acts, or none.

use super::Settings;
use crate::clock;
use crate::{CallContext, CallSubject, Classify};

impl<C> Settings<C> {
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
            let verdict = self.classify(outcome, context);
            if verdict.failure().is_some() {
                // The request is gone.
                context.describe(|| CallSubject::default().of_service(self.service.as_ref()));
            }
            self.effects(context).passed(clock::now(), &verdict);
        }
    }

    /// A call that this layer passed through is dropped before it had an outcome. True if no other
    /// layer records its end.
    pub(crate) fn takes_up_dropped(&self, context: &CallContext) -> bool {
        if context.is_taken_up() {
            return false;
        }
        self.warnings.other_layer(context);
        self.effects(context).claim_passed();
        true
    }
}
