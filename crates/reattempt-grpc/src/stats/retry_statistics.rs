//! `RetryStatistics`: A6's counters per method (Retry and Hedging Statistics).

use std::sync::atomic::{AtomicU64, Ordering};

/// The lower bounds of the histogram's buckets.
const AT_LEAST: [u32; 8] = [1, 2, 3, 4, 5, 10, 100, 1000];

/// Retry attempts of one method since its statistics began (A6, Retry and Hedging Statistics).
///
/// Retries, and hedges after the first attempt, are retry attempts; transparent retries are not,
/// because they do not count in A6's header either. An attempt fails if its status is not OK or its
/// deadline passes. Losing hedges and attempts that the caller dropped do not fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryStatistics {
    attempts: u64,
    failed: u64,
    histogram: [u64; 8],
}

impl RetryStatistics {
    /// Retry attempts made.
    #[must_use]
    pub const fn attempts(&self) -> u64 {
        self.attempts
    }

    /// Retry attempts that failed.
    #[must_use]
    pub const fn failed(&self) -> u64 {
        self.failed
    }

    /// The histogram of retry attempts: the lower bound (1, 2, 3, 4, 5, 10, 100, 1000) and the
    /// count of each bucket. The nth retry attempt of a call counts in exactly one bucket: the 5th
    /// to 9th in 5, the 10th to 99th in 10.
    pub fn histogram(&self) -> impl ExactSizeIterator<Item = (u32, u64)> + '_ {
        AT_LEAST.into_iter().zip(self.histogram)
    }

    /// The count of the bucket that contains the nth retry attempt of a call; 0 for n = 0.
    #[must_use]
    pub fn count(&self, nth: u32) -> u64 {
        bucket_of(nth).map_or(0, |bucket| self.histogram[bucket])
    }
}

fn bucket_of(nth: u32) -> Option<usize> {
    AT_LEAST.iter().rposition(|least| *least <= nth)
}

/// The counters behind a [`RetryStatistics`].
#[derive(Debug, Default)]
pub(super) struct RetryCounts {
    failed: AtomicU64,
    // Their sum is the number of attempts.
    histogram: [AtomicU64; 8],
}

impl RetryCounts {
    /// The nth retry attempt of a call is sent.
    pub(super) fn sent(&self, nth: u32) {
        if let Some(bucket) = bucket_of(nth) {
            self.histogram[bucket].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Release);
    }

    pub(super) fn read(&self) -> RetryStatistics {
        // Read first, so that a failure is never counted without its attempt.
        let failed = self.failed.load(Ordering::Acquire);
        let histogram =
            std::array::from_fn(|bucket| self.histogram[bucket].load(Ordering::Relaxed));
        RetryStatistics {
            attempts: histogram.iter().fold(0, |sum, n| sum.saturating_add(*n)),
            failed,
            histogram,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R72: each retry attempt adds to exactly one bucket.
    #[test]
    fn the_nth_retry_attempt_falls_into_one_bucket() {
        let counts = RetryCounts::default();
        (0..=1200).for_each(|nth| counts.sent(nth));
        let read = counts.read();
        let expected = [1, 1, 1, 1, 5, 90, 900, 201];
        assert!(read.histogram().eq(AT_LEAST.into_iter().zip(expected)));
        assert_eq!((read.attempts(), read.failed()), (1200, 0));
        for (nth, count) in [(0, 0), (1, 1), (9, 5), (10, 90), (99, 90), (u32::MAX, 201)] {
            assert_eq!(read.count(nth), count, "{nth}");
        }
    }
}
