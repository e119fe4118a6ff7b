//! What is written of the answers: JSON lines for programs; waterfalls and a summary for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use reattempt::StopReason;
use reattempt_lab::Quantiles;

use super::answer::Answer;
use super::in_millis::InMillis;
use super::waterfall;

/// The write buffer: an answer may have megabytes.
const WRITTEN_AT_ONCE: usize = 64 * 1024;

/// Of calls that are summed up, how many failed ones are shown, and how many that Ctrl-C ended.
const FAILURES_SHOWN: u64 = 3;

/// Writes answers to standard output.
#[derive(Debug)]
pub(crate) enum Report {
    /// One JSON line per call.
    Lines,
    /// For people.
    People(People),
}

impl Report {
    /// A report for people; `is_many`: the calls are summed up.
    pub(crate) fn for_people(is_many: bool) -> Self {
        Self::People(People {
            is_many,
            ..People::default()
        })
    }

    pub(crate) fn add(&mut self, answer: &Answer) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(WRITTEN_AT_ONCE, io::stdout().lock());
        match self {
            Self::Lines => answer.write_line(&mut out)?,
            Self::People(people) => {
                if people.count(answer) {
                    out.write_all(waterfall::draw(answer).as_bytes())?;
                }
            }
        }
        out.flush()
    }

    /// Writes the answer of a call that its user did not wait for. It is not counted.
    pub(crate) fn cut_short(&mut self, answer: &Answer) -> io::Result<()> {
        if answer.stopped != Some(StopReason::Cancelled.name()) {
            return self.add(answer);
        }
        if let Self::People(people) = self {
            people.cut_short += 1;
            if !people.is_many || people.cut_short <= FAILURES_SHOWN {
                let mut out = io::stdout().lock();
                out.write_all(waterfall::draw(answer).as_bytes())?;
                out.flush()?;
            }
        }
        Ok(())
    }

    /// Counts calls that did not end although Ctrl-C cancelled them: they have no answer.
    pub(crate) fn unanswered(&mut self, calls: usize) {
        if let Self::People(people) = self {
            people.cut_short += calls as u64;
        }
    }

    /// Writes what follows the last answer; `took` is the time of all calls.
    pub(crate) fn end(&mut self, took: Duration) -> io::Result<()> {
        match self {
            Self::People(people) if people.is_many => {
                let mut out = io::stdout().lock();
                out.write_all(people.summary(took).as_bytes())?;
                out.flush()
            }
            _ => Ok(()),
        }
    }

    /// Whether the program says by its exit status that a call failed.
    pub(crate) const fn is_failure(&self) -> bool {
        matches!(self, Self::People(people) if people.failed > 0)
    }
}

/// The calls so far.
#[derive(Debug, Default)]
pub(crate) struct People {
    is_many: bool,
    failed: u64,
    /// The calls that were in flight at Ctrl-C.
    cut_short: u64,
    attempts: u64,
    /// The times of the calls that ended well, in nanoseconds.
    times: Quantiles,
    /// In how many calls each reason was seen.
    reasons: BTreeMap<&'static str, u64>,
    /// The calls by why they stopped.
    stopped: BTreeMap<&'static str, u64>,
}

impl People {
    /// Counts a call; true if it is shown by itself.
    fn count(&mut self, answer: &Answer) -> bool {
        let sent = answer.attempts.iter().filter(|attempt| attempt.was_sent());
        self.attempts += sent.count() as u64;
        let well = answer.ended_well();
        if well {
            let nanos = answer.elapsed_ms.0.as_nanos();
            self.times.add(u64::try_from(nanos).unwrap_or(u64::MAX));
        } else {
            self.failed += 1;
        }
        for reason in &answer.reasons {
            *self.reasons.entry(reason).or_default() += 1;
        }
        *self
            .stopped
            .entry(answer.stopped.unwrap_or("unsent"))
            .or_default() += 1;
        !self.is_many || (!well && self.failed <= FAILURES_SHOWN)
    }

    fn summary(&mut self, took: Duration) -> String {
        let calls = self.times.count() + self.failed;
        let none = || "-".to_owned();
        let share = |part: u64| (calls > 0).then(|| part as f64 / calls as f64);
        let mut out = format!("{calls} calls in {:.1} s\n", took.as_secs_f64());
        let success = share(self.times.count()).map(|share| format!("{:.2} %", share * 100.0));
        let _ = writeln!(out, "  success            {}", success.unwrap_or_else(none));
        let load = share(self.attempts).map(|load| format!("{load:.3}"));
        let _ = writeln!(out, "  attempts per call  {}", load.unwrap_or_else(none));
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let time = self.times.quantile(quantile).map(Duration::from_nanos);
            let time = time.map(|time| format!("{:.1} ms", InMillis(time).value()));
            let time = time.unwrap_or_else(none);
            let _ = writeln!(out, "  {name}                {time}");
        }
        let _ = writeln!(out, "  reasons            {}", listed(&self.reasons));
        let _ = writeln!(out, "  stopped            {}", listed(&self.stopped));
        if self.cut_short > 0 {
            let what = "ended by Ctrl-C and not counted";
            let _ = writeln!(out, "  in flight          {}, {what}", self.cut_short);
        }
        out
    }
}

/// The counts, the largest first.
fn listed(counts: &BTreeMap<&'static str, u64>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), **name));
    let counts = counts.iter().map(|(name, count)| format!("{name} {count}"));
    let counts: Vec<_> = counts.collect();
    if counts.is_empty() {
        return "none".to_owned();
    }
    counts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::attempts::Attempt;

    fn answer(elapsed: u64, stopped: &'static str) -> Answer {
        let mut answer = Answer::unsent("1".to_owned());
        answer.elapsed_ms = InMillis(Duration::from_millis(elapsed));
        answer.stopped = Some(stopped);
        if stopped != "success" {
            answer.reasons = vec!["GRPC_UNAVAILABLE"];
        }
        answer
    }

    #[test]
    fn many_calls_are_summed_up_and_three_failures_shown() {
        let mut people = People {
            is_many: true,
            ..People::default()
        };
        let shown = |people: &mut People, elapsed, stopped| people.count(&answer(elapsed, stopped));
        for elapsed in 1..=100 {
            assert!(!shown(&mut people, elapsed, "success"));
        }
        let failures = [(); 4].map(|()| shown(&mut people, 9_000, "attempts"));
        assert_eq!(failures, [true, true, true, false]);
        let summary = people.summary(Duration::from_millis(1_500));
        assert_eq!(
            summary.lines().map(str::trim_end).collect::<Vec<_>>(),
            [
                "104 calls in 1.5 s",
                "  success            96.15 %",
                "  attempts per call  0.000",
                "  p50                50.0 ms",
                "  p99                99.0 ms",
                "  reasons            GRPC_UNAVAILABLE 4",
                "  stopped            success 100, attempts 4",
            ]
        );
    }

    #[test]
    fn attempts_that_an_open_circuit_refused_are_no_load() {
        let attempt = |reason| Attempt {
            n: 1,
            kind: "initial",
            start_ms: InMillis::default(),
            end_ms: InMillis::default(),
            backend: None,
            verdict: "fatal",
            reason: Some(reason),
            stage: "dispatch",
            pushback_ms: None,
            pushback_unreadable: false,
            delay_ms: None,
        };
        let mut people = People {
            is_many: true,
            ..People::default()
        };
        for reason in [
            "HTTP_503",
            "CIRCUIT_BREAKER_OPEN",
            "CIRCUIT_BREAKER_OPEN",
            "HTTP_503",
        ] {
            let mut answer = answer(1, "fatal");
            answer.attempts.push(attempt(reason));
            people.count(&answer);
        }
        let summary = people.summary(Duration::from_secs(1));
        assert!(summary.contains("attempts per call  0.500\n"), "{summary}");
    }

    #[test]
    fn of_no_calls_there_is_no_share() {
        let mut people = People {
            is_many: true,
            cut_short: 2,
            ..People::default()
        };
        let summary = people.summary(Duration::from_millis(1_000));
        assert_eq!(
            summary.lines().collect::<Vec<_>>(),
            [
                "0 calls in 1.0 s",
                "  success            -",
                "  attempts per call  -",
                "  p50                -",
                "  p99                -",
                "  reasons            none",
                "  stopped            none",
                "  in flight          2, ended by Ctrl-C and not counted",
            ]
        );
    }

    #[test]
    fn few_calls_are_all_shown() {
        let mut people = People::default();
        assert!(people.count(&answer(1, "success")));
        assert!(people.count(&answer(1, "fatal")));
    }
}
