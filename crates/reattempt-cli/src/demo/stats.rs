//! Statistics of a run's records.

use std::collections::BTreeMap;
use std::time::Duration;

use reattempt::StopReason;

use super::load::CallRecord;

/// One side of a comparison.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) records: Vec<CallRecord>,
    /// Latencies of successful calls, sorted.
    pub(crate) latencies: Vec<Duration>,
}

impl Side {
    pub(crate) fn new(records: Vec<CallRecord>) -> Self {
        let latencies = latencies(&records);
        Self { records, latencies }
    }

    /// The success rate of the calls with a number in the range; 0 to 1.
    pub(crate) fn success(&self, from: usize, to: usize) -> f64 {
        let calls = self.records.get(from..to).unwrap_or_default();
        share(
            calls.iter().filter(|call| call.worked()).count(),
            calls.len(),
        )
    }

    pub(crate) fn total_success(&self) -> f64 {
        self.success(0, self.records.len())
    }

    /// The latency percentile of successful calls (nearest rank).
    pub(crate) fn percentile(&self, share: f64) -> Option<Duration> {
        nearest_rank(&self.latencies, share)
    }

    /// The same for the calls with a number in the range.
    pub(crate) fn percentile_of(&self, (from, to): (usize, usize), share: f64) -> Option<Duration> {
        let calls = self.records.get(from..to).unwrap_or_default();
        nearest_rank(&latencies(calls), share)
    }

    /// Attempts per call, for the calls with a number in the range.
    pub(crate) fn attempts_per_call(&self, from: usize, to: usize) -> f64 {
        let calls = self.records.get(from..to).unwrap_or_default();
        let attempts = calls.iter().map(|call| u64::from(call.outcome.attempts));
        attempts.sum::<u64>() as f64 / (to - from).max(1) as f64
    }

    /// The number of calls whose further attempts this gate prevented.
    pub(crate) fn stopped_by(&self, gate: StopReason) -> usize {
        let stopped = self.records.iter();
        stopped.filter(|call| call.stopped() == Some(gate)).count()
    }

    /// The number of calls that ended at their timeout.
    pub(crate) fn timeouts(&self) -> usize {
        let timeout =
            |call: &&CallRecord| matches!(&call.outcome.seen, Err(seen) if seen == "timeout");
        self.records.iter().filter(timeout).count()
    }

    /// Failure reasons of attempts, most frequent first.
    pub(crate) fn reasons(&self) -> Vec<(&'static str, u32)> {
        let mut counts = BTreeMap::new();
        for story in self
            .records
            .iter()
            .filter_map(|call| call.outcome.story.as_ref())
        {
            for reason in story.info.reasons() {
                *counts.entry(reason.name()).or_default() += story.info.count(reason);
            }
        }
        by_count(counts)
    }

    /// Failures seen by callers, most frequent first.
    pub(crate) fn failures(&self) -> Vec<(&str, u32)> {
        let mut counts = BTreeMap::new();
        for call in &self.records {
            if let Err(seen) = &call.outcome.seen {
                *counts.entry(&**seen).or_default() += 1;
            }
        }
        by_count(counts)
    }
}

/// The latencies of the successful ones of these calls, sorted.
fn latencies(calls: &[CallRecord]) -> Vec<Duration> {
    let worked = calls.iter().filter(|call| call.worked());
    let mut latencies: Vec<_> = worked.map(|call| call.latency).collect();
    latencies.sort_unstable();
    latencies
}

/// A ratio from 0 to 1; 1 for an empty whole.
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        1.0
    } else {
        part as f64 / whole as f64
    }
}

/// The smallest of the sorted times that this share of them does not exceed.
fn nearest_rank(times: &[Duration], quantile: f64) -> Option<Duration> {
    let rank = (times.len() as f64 * quantile).ceil() as usize;
    times.get(rank.max(1) - 1).copied()
}

fn by_count<K: Ord>(counts: BTreeMap<K, u32>) -> Vec<(K, u32)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts
}

#[cfg(test)]
mod tests {
    use super::super::load::{Outcome, Seen};
    use super::*;

    fn call(number: usize, millis: u64, seen: Seen) -> CallRecord {
        CallRecord {
            number,
            latency: Duration::from_millis(millis),
            outcome: Outcome {
                seen,
                attempts: 1,
                story: None,
            },
        }
    }

    #[test]
    fn percentiles_are_of_the_calls_that_worked_by_nearest_rank() {
        let mut calls: Vec<_> = (0..100).map(|n| call(n, n as u64 + 1, Ok(()))).collect();
        calls.push(call(100, 9_999, Err("timeout".into())));
        let side = Side::new(calls);
        let millis = |share| side.percentile(share).map(|at| at.as_millis());
        assert_eq!(
            [millis(0.5), millis(0.99), millis(0.999)],
            [Some(50), Some(99), Some(100)]
        );
        assert_eq!(Side::new(Vec::new()).percentile(0.5), None);
        let one = [Duration::from_millis(7)];
        assert_eq!(nearest_rank(&one, 0.99), Some(one[0]));
    }

    #[test]
    fn what_callers_got_is_counted_most_frequent_first() {
        let seen = ["timeout", "HTTP 503", "HTTP 503"];
        let calls = seen.iter().enumerate();
        let calls = calls.map(|(n, seen)| call(n, 1, Err((*seen).into())));
        let side = Side::new(calls.collect());
        assert_eq!(side.failures(), [("HTTP 503", 2), ("timeout", 1)]);
        assert_eq!(side.timeouts(), 1);
        assert_eq!(side.total_success(), 0.0);
    }
}
