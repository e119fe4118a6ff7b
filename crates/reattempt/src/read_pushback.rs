//! Readers of server pushback, by protocol.

use std::sync::Arc;

use crate::{CallContext, ServerPushback};

/// What one outcome says about the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FoundPushback {
    /// The server sent no pushback.
    Absent,
    /// The server sent a pushback that cannot be parsed. It counts as none, and the attempt's
    /// record shows it.
    Unreadable,
    /// The server's pushback.
    Valid(ServerPushback),
}

impl FoundPushback {
    /// The pushback, if there is a valid one.
    #[must_use]
    pub const fn valid(self) -> Option<ServerPushback> {
        match self {
            Self::Valid(pushback) => Some(pushback),
            Self::Absent | Self::Unreadable => None,
        }
    }
}

impl From<Option<ServerPushback>> for FoundPushback {
    #[inline]
    fn from(valid: Option<ServerPushback>) -> Self {
        valid.map_or(Self::Absent, Self::Valid)
    }
}

/// Reads the server's pushback from one outcome.
///
/// Closures `Fn(Result<&Res, &Err>) -> Option<ServerPushback>` implement it (with [`pushback_fn`]
/// their argument type is inferred), and an `Arc` of a reader does.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot read pushback from `Result<&{Res}, &{Err}>`",
    note = "use a protocol crate's reader, or a closure with its argument type written out, or wrapped in `pushback_fn(|outcome| …)`"
)]
pub trait ReadPushback<Res, Err> {
    /// The server's pushback. `context` is the attempt's own, for a reader that depends on the
    /// route's policy.
    fn read(&self, outcome: Result<&Res, &Err>, context: &CallContext) -> FoundPushback;
}

#[diagnostic::do_not_recommend]
impl<F, Res, Err> ReadPushback<Res, Err> for F
where
    F: Fn(Result<&Res, &Err>) -> Option<ServerPushback>,
{
    #[inline]
    fn read(&self, outcome: Result<&Res, &Err>, _: &CallContext) -> FoundPushback {
        self(outcome).into()
    }
}

impl<R, Res, Err> ReadPushback<Res, Err> for Arc<R>
where
    R: ReadPushback<Res, Err> + ?Sized,
{
    #[inline]
    fn read(&self, outcome: Result<&Res, &Err>, context: &CallContext) -> FoundPushback {
        (**self).read(outcome, context)
    }
}

/// Returns the closure unchanged; the compiler infers its argument type as that of a reader.
///
/// ```
/// use std::time::Duration;
/// use reattempt::{CallContext, ReadPushback, ServerPushback, pushback_fn};
///
/// enum Answer { Done, BusyFor(Duration) }
///
/// let reader = pushback_fn(|outcome| match outcome {
///     Ok(Answer::BusyFor(time)) => Some(ServerPushback::After(*time)),
///     Ok(Answer::Done) | Err(_) => None,
/// });
/// let busy: Result<_, &std::io::Error> = Ok(&Answer::BusyFor(Duration::from_secs(2)));
/// let found = reader.read(busy, &CallContext::default());
/// assert_eq!(found.valid(), Some(ServerPushback::After(Duration::from_secs(2))));
/// # let _ = Answer::Done;
/// ```
pub const fn pushback_fn<F, Res, Err>(f: F) -> F
where
    F: Fn(Result<&Res, &Err>) -> Option<ServerPushback>,
{
    f
}
