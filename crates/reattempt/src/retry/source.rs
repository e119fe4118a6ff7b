//! What is left of a request that is out: its template, or only its context.

use reattempt_core::{Annotated, CallContext};

/// One context a call: where there is a template it carries it.
// With a tag of its own, which is cheaper to look at than a niche in some field.
#[repr(u8)]
pub(crate) enum Source<S, Req> {
    /// The original, and a service to send a copy by.
    Template { request: Req, service: S },
    /// The last attempt that is possible took the request itself.
    Last(CallContext),
    /// Not ours: another recovery layer acts.
    Nothing,
}

impl<S, Req: Annotated> Source<S, Req> {
    /// The context of the attempt that is out or was out last.
    #[inline]
    pub(crate) fn context(&self) -> Option<&CallContext> {
        match self {
            Self::Template { request, .. } => request.context(),
            Self::Last(context) => Some(context),
            Self::Nothing => None,
        }
    }

    /// The call worked: its block may serve another one.
    #[inline(always)]
    pub(crate) fn retire(&mut self) {
        match self {
            Self::Template { request, .. } => request.context_mut().retire(),
            Self::Last(context) => context.retire(),
            Self::Nothing => {}
        }
    }

    /// Lets go of the request and the service.
    pub(crate) fn shed(&mut self) {
        if let Self::Template { request, .. } = self {
            *self = Self::Last(std::mem::take(request.context_mut()));
        }
    }
}

/// The copy with the original's context, which most copies carry already.
#[inline(always)]
pub(crate) fn with_context<Req: Annotated>(copy: Req, request: &mut Req) -> Req {
    let context = request.context_mut();
    match copy.context() {
        Some(copied) if copied.is_copy_of(context) => copy,
        _ => in_context(copy, context),
    }
}

#[cold]
#[inline(never)]
fn in_context<Req: Annotated>(mut copy: Req, context: &CallContext) -> Req {
    copy.context_mut().clone_from(context);
    copy
}
