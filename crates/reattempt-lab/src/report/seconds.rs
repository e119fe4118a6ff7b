//! The course of a run, second by second.

use std::collections::BTreeMap;

use serde::Serialize;

use super::largest::Largest;
use super::quantiles::Quantiles;
use crate::scenario::Scenario;

const SECOND: u64 = 1_000_000_000;
/// Seconds after the last arrival that have rows: one day at most. Calls that never end send
/// attempts for longer, which count in the totals alone.
const MOST_LATE: u64 = 86_400;

/// One second of a run. One after the last arrival has a row if attempts are sent in it, for at
/// most a day, and while all policies together have no more than 2,000,000 rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Second {
    /// Since the start of the scenario.
    pub second: u64,
    /// Calls that arrived in it.
    pub calls: u64,
    /// The share of them that ended well; `None` without calls.
    pub success: Option<f64>,
    /// Attempts that were sent in it.
    pub attempts: u64,
    /// The 99th percentile of the times of those that ended well.
    pub p99_ms: Option<f64>,
}

#[derive(Debug, Default)]
struct Row {
    calls: u64,
    succeeded: u64,
    attempts: u64,
    /// Calls that are still in flight.
    open: u64,
    times: Times,
}

/// How long the calls of a second took that ended well.
#[derive(Debug)]
enum Times {
    /// Further calls may arrive in it.
    All(Quantiles),
    /// Some of its calls are still in flight, perhaps forever: what the quantile may need is kept.
    Largest(Largest),
    /// All its calls have ended: the quantile is kept.
    P99(Option<u64>),
}

impl Default for Times {
    fn default() -> Self {
        Self::All(Quantiles::default())
    }
}

impl Times {
    fn add(&mut self, took: u64) {
        match self {
            Self::All(all) => all.add(took),
            Self::Largest(largest) => largest.add(took),
            Self::P99(_) => {}
        }
    }

    fn p99(self) -> Option<u64> {
        match self {
            Self::All(mut all) => all.quantile(0.99),
            Self::Largest(largest) => largest.p99(),
            Self::P99(p99) => p99,
        }
    }
}

impl Row {
    /// No further call arrives in it.
    fn end(&mut self) {
        self.times = match std::mem::take(&mut self.times) {
            Times::All(all) if self.open > 0 => Times::Largest(Largest::of(all, self.calls)),
            times => Times::P99(times.p99()),
        };
    }
}

#[derive(Debug)]
pub(crate) struct Seconds {
    first: u64,
    /// Each ends when a later one begins, and keeps a hundredth of its times until the last of its
    /// calls has ended.
    rows: Vec<Row>,
    /// Attempts after the last second in which calls arrive.
    late: BTreeMap<u64, u64>,
    after: u64,
    /// The first second that can have no row.
    end: u64,
}

impl Seconds {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let first = scenario.warmup / SECOND;
        let after = scenario.duration.div_ceil(SECOND);
        let left = scenario.most_rows().saturating_sub(after - first);
        Self {
            first,
            rows: Vec::new(),
            late: BTreeMap::new(),
            after,
            end: after + left.min(MOST_LATE),
        }
    }

    /// The row of an instant at which a counted call arrived.
    fn row(&mut self, at: u64) -> &mut Row {
        let at = (at / SECOND - self.first) as usize;
        if at >= self.rows.len() {
            if let Some(row) = self.rows.last_mut() {
                row.end();
            }
            while at >= self.rows.len() {
                self.rows.push(Row::default());
            }
        }
        &mut self.rows[at]
    }

    pub(super) fn call(&mut self, at: u64) {
        let row = self.row(at);
        row.calls += 1;
        row.open += 1;
    }

    pub(super) fn attempt(&mut self, at: u64) {
        let second = at / SECOND;
        let row = (second - self.first) as usize;
        if let Some(row) = self.rows.get_mut(row) {
            row.attempts += 1;
        } else if second < self.end {
            *self.late.entry(second).or_default() += 1;
        }
    }

    pub(super) fn ended(&mut self, arrived: u64, took: Option<u64>) {
        let at = (arrived / SECOND - self.first) as usize;
        let is_last = at + 1 == self.rows.len();
        let row = &mut self.rows[at];
        row.open -= 1;
        if let Some(took) = took {
            row.succeeded += 1;
            row.times.add(took);
        }
        if row.open == 0 && !is_last {
            row.end();
        }
    }

    pub(super) fn rows(mut self) -> Vec<Second> {
        while self.first + (self.rows.len() as u64) < self.after {
            self.rows.push(Row::default());
        }
        let (first, late) = (self.first, &self.late);
        let rows_end = first + self.rows.len() as u64;
        let rows = self.rows.into_iter().enumerate().map(|(at, row)| {
            let second = first + at as u64;
            Second {
                second,
                calls: row.calls,
                success: (row.calls > 0).then(|| row.succeeded as f64 / row.calls as f64),
                attempts: row.attempts + late.get(&second).copied().unwrap_or(0),
                p99_ms: row.times.p99().map(|ns| ns as f64 / 1e6),
            }
        });
        let after = late.range(rows_end..).map(|(second, attempts)| Second {
            second: *second,
            calls: 0,
            success: None,
            attempts: *attempts,
            p99_ms: None,
        });
        rows.chain(after).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many seconds after the last arrival have a row, of a scenario with this many policies.
    fn late_rows(duration_s: u64, policies: usize) -> usize {
        let policies = (0..policies).map(|nth| format!(r#""{nth}": {{"kv": "fail_fast"}}"#));
        let policies = policies.collect::<Vec<_>>().join(",");
        let text = format!(
            r#"{{"duration_s": {duration_s}, "arrivals": [{{"per_s": 1}}], "policies": {{{policies}}},
                "backends": [{{"servers": 1, "latency": {{"fixed_ms": 1}}}}]}}"#
        );
        let mut seconds = Seconds::new(&Scenario::parse(&text).unwrap());
        for second in 0..2 * MOST_LATE {
            seconds.attempt((duration_s + second) * SECOND);
        }
        seconds.late.len()
    }

    fn seconds(duration_s: u64) -> Seconds {
        let text = format!(
            r#"{{"duration_s": {duration_s}, "arrivals": [{{"per_s": 1}}], "policies": {{"p": {{"kv": "fail_fast"}}}},
                "backends": [{{"servers": 1, "latency": {{"fixed_ms": 1}}}}]}}"#
        );
        Seconds::new(&Scenario::parse(&text).unwrap())
    }

    fn kept(times: &Times) -> usize {
        match times {
            Times::All(all) => all.count() as usize,
            Times::Largest(largest) => largest.kept(),
            Times::P99(_) => 0,
        }
    }

    #[test]
    fn a_call_that_never_ends_keeps_few_times_of_its_second() {
        let mut seconds = seconds(100);
        for second in 0..100 {
            let at = second * SECOND;
            (0..1000).for_each(|_| seconds.call(at));
            (0..500).for_each(|took| seconds.ended(at, Some(took)));
            seconds.call(at + SECOND);
            (500..999).for_each(|took| seconds.ended(at, Some(took)));
        }
        let held: usize = seconds.rows.iter().map(|row| kept(&row.times)).sum();
        assert!(held <= 100 * 11, "{held}");
        let rows = seconds.rows();
        assert!(rows[..99].iter().all(|row| row.p99_ms == Some(989e-6)));
    }

    #[test]
    fn rows_after_the_last_arrival_count_in_the_bound_of_all() {
        assert_eq!(late_rows(10, 1), MOST_LATE as usize);
        assert_eq!(late_rows(10, 1000), 1990);
        assert_eq!(late_rows(999_990, 2), 10);
        assert_eq!(late_rows(2000, 1000), 0);
    }
}
