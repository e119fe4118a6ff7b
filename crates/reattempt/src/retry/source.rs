//! What is left of a request that is out: its template, or only its context.

use reattempt_core::{Annotated, CallContext};

/// One context a call: where there is a template it carries it.
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

    /// Lets go of the request and the service.
    pub(crate) fn shed(&mut self) {
        if let Self::Template { request, .. } = self {
            *self = Self::Last(std::mem::take(request.context_mut()));
        }
    }
}

/// Sees to it that a copy carries the original's context. Most copies do already.
#[inline]
pub(crate) fn share_context<Req: Annotated>(request: &mut Req, copy: &mut Req) {
    let (context, copied) = (request.context_mut(), copy.context_mut());
    if !copied.is_copy_of(context) {
        copied.clone_from(context);
    }
}
