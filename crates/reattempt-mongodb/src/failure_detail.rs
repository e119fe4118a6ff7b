//! What MongoDB's servers add to a failure.

use std::time::Duration;

use reattempt::Failure;

/// The server says that nothing was written. The other bits are the base, in microseconds.
const NO_WRITES: u32 = 1 << 31;
const BASE: u32 = NO_WRITES - 1;

/// What a server says of a failure beside its code: the classifier writes it into
/// [`Failure::extension`], and [`RetryableReads`](crate::RetryableReads) reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailureDetail {
    /// The attempt changed nothing (`NoWritesPerformed`): of several failures it is the least
    /// informative for the caller.
    pub no_writes: bool,
    /// The base of the back-off that the server asks for (`baseBackoffMS`): whole microseconds, at
    /// most some 36 minutes, and not zero.
    pub base_backoff: Option<Duration>,
}

impl FailureDetail {
    /// What a failure that [`MongoClassifier`](crate::MongoClassifier) judged says.
    #[must_use]
    pub fn of(failure: &Failure) -> Self {
        let micros = failure.extension & BASE;
        Self {
            no_writes: failure.extension & NO_WRITES != 0,
            base_backoff: (micros > 0).then(|| Duration::from_micros(micros.into())),
        }
    }

    /// The failure with this detail.
    #[must_use]
    pub fn put(self, failure: Failure) -> Failure {
        let micros = self.base_backoff.unwrap_or_default().as_micros();
        let base = u32::try_from(micros).unwrap_or(BASE).min(BASE);
        failure.with_extension(base | if self.no_writes { NO_WRITES } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use reattempt::{Stage, reason};

    use super::*;

    fn kept(base: Duration) -> Option<Duration> {
        let detail = FailureDetail {
            no_writes: true,
            base_backoff: Some(base),
        };
        let failure = detail.put(Failure::new(reason::UNKNOWN, Stage::Response));
        assert!(FailureDetail::of(&failure).no_writes);
        FailureDetail::of(&failure).base_backoff
    }

    #[test]
    fn a_base_is_kept_to_the_microsecond_and_saturates() {
        assert_eq!(kept(Duration::ZERO), None);
        assert_eq!(kept(Duration::from_nanos(999)), None);
        let exact = Duration::from_micros(50_500);
        assert_eq!(kept(exact), Some(exact));
        let most = Duration::from_micros(BASE.into());
        assert_eq!(kept(most + Duration::from_micros(1)), Some(most));
        assert_eq!(kept(Duration::MAX), Some(most));
    }

    #[test]
    fn a_failure_without_detail_says_nothing() {
        let failure = Failure::new(reason::UNKNOWN, Stage::Response);
        assert_eq!(FailureDetail::of(&failure), FailureDetail::default());
        assert_eq!(FailureDetail::default().put(failure), failure);
    }
}
