//! The different failures of a recording, each with the delay that its server asked for.

use std::collections::HashMap;

use reattempt::record::Entry;
use reattempt::{AttemptOutcome, RetryReason};

use super::judge::Judge;
use super::kinds::MOST_KINDS;
use crate::load::{Answer, AnswerCode, RecordedFailure};
use crate::policy::{OUTCOME_SUCCESS, OUTCOME_TIMEOUT, answer_outcome};

/// Codes and pushbacks together; outcomes have 16 bits, and each has two.
pub(super) const MOST_ANSWERS: usize = 10_000;
/// Answers whose pushback is exact; the rest of [`MOST_ANSWERS`] is for rounded ones, of which two
/// digits leave a few hundred.
const MOST_EXACT: usize = 8000;
/// As many if there are very many kinds of call, because each has a verdict on each answer.
const FEWEST_EXACT: usize = 1000;

/// The answers so far.
#[derive(Debug)]
pub(super) struct Answers {
    known: HashMap<(RecordedFailure, Option<u32>), u16>,
    pub(super) all: Vec<Answer>,
    /// As many answers have exact pushbacks.
    exact: usize,
    /// Attempts whose pushback was rounded.
    pub(super) rounded: u64,
    /// Attempts whose failure became a timeout.
    pub(super) lost: u64,
}

impl Answers {
    /// None so far beside these, for this many kinds of call.
    pub(super) fn new(all: Vec<Answer>, kinds: usize) -> Self {
        let exact = FEWEST_EXACT * MOST_KINDS / kinds.clamp(1, MOST_KINDS);
        Self {
            known: HashMap::new(),
            all,
            exact: exact.min(MOST_EXACT),
            rounded: 0,
            lost: 0,
        }
    }

    /// The number of what an attempt came to; `None` if it was dropped.
    pub(super) fn came(
        &mut self,
        entry: &Entry,
        reasons: &[RetryReason],
        judge: &Judge,
    ) -> Option<u16> {
        match entry.outcome {
            AttemptOutcome::Success | AttemptOutcome::Committed => return Some(OUTCOME_SUCCESS),
            AttemptOutcome::Fatal | AttemptOutcome::Retry => {}
            // Cancelled, or unknown.
            _ => return None,
        }
        let (failure, pushback_ms) = judge.failure(entry, reasons);
        let exact = (failure, pushback_ms);
        if let Some(came) = self.known.get(&exact) {
            return Some(*came);
        }
        if self.known.len() < self.exact {
            return Some(self.add(exact));
        }
        let near = (failure, pushback_ms.map(rounded));
        let known = self.known.get(&near).copied();
        if known.is_none() && self.known.len() >= MOST_ANSWERS {
            self.lost += 1;
            return Some(OUTCOME_TIMEOUT);
        }
        self.rounded += u64::from(near != exact);
        Some(known.unwrap_or_else(|| self.add(near)))
    }

    fn add(&mut self, key: (RecordedFailure, Option<u32>)) -> u16 {
        let (failure, pushback_ms) = key;
        let came = answer_outcome(self.all.len());
        self.all.push(Answer {
            code: Some(AnswerCode::Recorded(failure)),
            pushback_ms,
            paths: vec!["$".to_owned()],
        });
        self.known.insert(key, came);
        came
    }
}

/// To two digits.
fn rounded(ms: u32) -> u32 {
    let step = 10_u32.pow(ms.checked_ilog10().unwrap_or(0).saturating_sub(1));
    ms.saturating_add(step / 2) / step * step
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn pushbacks_are_rounded_to_two_digits() {
        let cases = [
            (0, 0),
            (7, 7),
            (99, 99),
            (104, 100),
            (105, 110),
            (9960, 10_000),
        ];
        for (ms, expected) in cases {
            assert_eq!(rounded(ms), expected);
        }
        assert_eq!(rounded(u32::MAX), 4_200_000_000);
    }
}
