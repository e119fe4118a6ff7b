//! Failures that no server returned: of credentials, or of a balancer's pick (A54).

use std::borrow::Cow;

use http::Response;

use crate::Code;
use crate::made_status::trailers_only;

impl Code {
    /// The code of a call that the control plane failed (A54). OK and the codes reserved for server
    /// applications become INTERNAL.
    ///
    /// ```
    /// use reattempt_grpc::Code;
    ///
    /// assert_eq!(Code::from_control_plane(Code::NotFound), Code::Internal);
    /// assert_eq!(
    ///     Code::from_control_plane(Code::Unauthenticated),
    ///     Code::Unauthenticated
    /// );
    /// ```
    #[must_use]
    pub const fn from_control_plane(said: Self) -> Self {
        match said {
            Self::Ok
            | Self::InvalidArgument
            | Self::NotFound
            | Self::AlreadyExists
            | Self::FailedPrecondition
            | Self::Aborted
            | Self::OutOfRange
            | Self::DataLoss => Self::Internal,
            other => other,
        }
    }
}

/// A call that failed on the client before it was sent: in its credentials, or in the pick of a
/// backend.
///
/// A layer below the recovery layer returns it as a response
/// ([`ControlPlaneFailure::into_response`]); your own balancer can do the same.
/// [`GrpcClassifier`](crate::GrpcClassifier) recognizes such a response. The attempt was never
/// sent, but no transparent retry follows: the code is restricted to what A54 allows, then the
/// policy's codes decide, and the failure counts as that code. A
/// [dropped](ControlPlaneFailure::dropped) call is final and is not counted; without a
/// [backend](ControlPlaneFailure::no_backend) a call with `waitForReady` waits.
///
/// ```
/// use http::Response;
/// use reattempt::{CallContext, Classify, Stage, Transparent, Verdict};
/// use reattempt_grpc::{Code, CodeSet, ControlPlaneFailure, GrpcClassifier};
///
/// let classifier =
///     GrpcClassifier::new().retryable(CodeSet::of(&[Code::Unavailable, Code::NotFound]));
/// let classify = |failure: ControlPlaneFailure| {
///     let answer: Response<()> = failure.into_response();
///     Classify::<_, std::io::Error>::classify(
///         &classifier,
///         Ok(&answer),
///         &CallContext::default(),
///     )
/// };
/// let Verdict::Retry(failure) =
///     classify(ControlPlaneFailure::no_backend("all are down"))
/// else {
///     panic!()
/// };
/// assert_eq!(
///     (failure.stage, failure.transparent),
///     (Stage::Dispatch, Transparent::No)
/// );
/// let Verdict::Fatal(failure) =
///     classify(ControlPlaneFailure::new(Code::NotFound, "no such token"))
/// else {
///     panic!()
/// };
/// assert_eq!(failure.code, Some(Code::Internal.number()));
/// assert!(matches!(
///     classify(ControlPlaneFailure::dropped("circuit breaker")),
///     Verdict::Fatal(_)
/// ));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ControlPlaneFailure {
    code: Code,
    message: Cow<'static, str>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// By its code.
    Failed,
    /// There is no backend at the moment.
    NoBackend,
    /// No attempt may follow.
    Dropped,
}

impl ControlPlaneFailure {
    /// A failure with this code, restricted to what A54 allows.
    #[must_use]
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        let (said, code) = (code, Code::from_control_plane(code));
        let message = message.into();
        Self {
            code,
            message: if said == code {
                message
            } else {
                format!("{message} ({said}, which only a server may say)").into()
            },
            kind: Kind::Failed,
        }
    }

    /// The pick of a backend failed (TRANSIENT_FAILURE): UNAVAILABLE. A call with `waitForReady`
    /// waits until there is one; another goes by its policy.
    #[must_use]
    pub fn no_backend(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: Kind::NoBackend,
            ..Self::new(Code::Unavailable, message)
        }
    }

    /// The call is dropped: UNAVAILABLE, and no attempt follows. For a balancer that sheds load, or
    /// a circuit breaker (A32).
    #[must_use]
    pub fn dropped(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: Kind::Dropped,
            ..Self::new(Code::Unavailable, message)
        }
    }

    /// The code, after the restriction of A54.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns true if no attempt may follow.
    #[must_use]
    pub const fn is_dropped(&self) -> bool {
        matches!(self.kind, Kind::Dropped)
    }

    /// Returns true if there was no backend to send the call to.
    #[must_use]
    pub const fn is_without_backend(&self) -> bool {
        matches!(self.kind, Kind::NoBackend)
    }

    /// The Trailers-Only response, with the failure itself in its extensions.
    #[must_use]
    pub fn into_response<B: Default>(self) -> Response<B> {
        let mut response = trailers_only(self.code, &self.message);
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R17 (A54)
    #[test]
    fn codes_of_servers_applications_become_internal() {
        use Code::*;
        let rewritten = [
            Ok,
            InvalidArgument,
            NotFound,
            AlreadyExists,
            FailedPrecondition,
            Aborted,
            OutOfRange,
            DataLoss,
        ];
        for code in Code::ALL {
            let expected = if rewritten.contains(&code) {
                Internal
            } else {
                code
            };
            assert_eq!(Code::from_control_plane(code), expected, "{code}");
            assert_eq!(ControlPlaneFailure::new(code, "x").code(), expected);
        }
        let failure = ControlPlaneFailure::new(NotFound, "no token");
        assert_eq!(
            failure.to_string(),
            "INTERNAL: no token (NOT_FOUND, which only a server may say)"
        );
    }
}
