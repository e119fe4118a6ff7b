//! What the log, and `Debug`, say of a call and its request.

use std::borrow::Cow;

use super::Source;
use crate::{CallContext, HasCallContext};

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
    pub(crate) fn describe(&self, service: Option<&Cow<'static, str>>) {
        if let Self::Template { request, .. } = self {
            if let Some(context) = request.context() {
                context.describe(|| request.subject().of_service(service));
            }
        }
    }
}
