//! The rule of tower 0.5's `hedge`: the delay is a percentile of the latencies of answers, from two
//! histograms that take turns, and nothing bounds the load but that percentile.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use reattempt::HedgeDelay;
use reattempt::policy::{AttemptEnd, EndedAttempt, HedgeView};

/// How many data points it wants before it hedges; of tower's own example.
const MIN_POINTS: usize = 10;
/// How long a histogram is written before the other takes its turn.
const PERIOD: Duration = Duration::from_secs(10);

/// `tower::hedge`, with the percentile that leaves this share.
#[derive(Debug)]
pub(crate) struct Tower {
    percentile: f64,
    turns: Mutex<Turns>,
}

#[derive(Debug, Default)]
struct Turns {
    rotated: Option<Instant>,
    /// Sorted.
    read: Vec<u64>,
    write: Vec<u64>,
}

impl Tower {
    pub(crate) fn new(share: f64) -> Self {
        Self {
            percentile: 1.0 - share,
            turns: Mutex::default(),
        }
    }
}

impl Turns {
    fn rotate(&mut self, now: Instant) {
        let since = *self.rotated.get_or_insert(now);
        let passed = now.saturating_duration_since(since);
        if passed >= PERIOD {
            self.read = std::mem::take(&mut self.write);
            self.read.sort_unstable();
            if passed >= 2 * PERIOD {
                self.read.clear();
            }
            self.rotated = Some(now);
        }
    }
}

impl HedgeDelay for Tower {
    fn delay(&self, view: &HedgeView<'_>) -> Option<Duration> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.rotate(view.now);
        if turns.read.len() < MIN_POINTS {
            return None;
        }
        let at = (self.percentile * turns.read.len() as f64).ceil() as usize;
        Some(Duration::from_nanos(turns.read[at.saturating_sub(1)]))
    }

    fn learns(&self) -> bool {
        true
    }

    /// Only answers are recorded, with the latency of the attempt that gave them.
    fn ended(&self, attempt: &EndedAttempt) {
        if attempt.end() == AttemptEnd::Succeeded {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.rotate(attempt.ended());
            turns.write.push(attempt.took().as_nanos() as u64);
        }
    }
}
