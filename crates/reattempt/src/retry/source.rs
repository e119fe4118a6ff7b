//! What is left of a request that is out: its template, or only its context.

use crate::{CallContext, HasCallContext, Replay};

/// One context a call: where there is a template it carries it.
pub(crate) enum Source<S, Req> {
    /// The original, and a service to send a copy by.
    Template { request: Req, service: S },
    /// The last attempt that is possible took the request itself. Empty where another recovery
    /// layer acts.
    Last(CallContext),
}

impl<S, Req: HasCallContext> Source<S, Req> {
    /// The context of the attempt that is out or was out last.
    #[inline]
    pub(crate) fn context(&self) -> Option<&CallContext> {
        match self {
            Self::Template { request, .. } => request.context(),
            Self::Last(context) => Some(context),
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

    /// Lets go of the request and the service.
    pub(crate) fn shed(&mut self) {
        if let Self::Template { request, .. } = self {
            *self = Self::Last(std::mem::take(request.context_mut()));
        }
    }
}

impl<S, Req: Replay> Source<S, Req> {
    /// The call has its answer: whoever still holds the future does not hold what was kept for
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
