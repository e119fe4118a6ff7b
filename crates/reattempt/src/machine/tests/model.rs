//! Strategies and throttles of the tests, random scripts, and simple models of the expected
//! results.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::script::{Line, attempt, ms};
use super::simulator::{Call, call};
use crate::failure::reason::{
    KV_NOT_MY_VBUCKET, KV_TEMPORARY_FAILURE, SOCKET_CLOSED_WHILE_IN_FLIGHT, UNKNOWN,
};
use crate::policy::backoff::{Backoff, Jitter};
use crate::policy::strategy::MaxAttempts;
use crate::policy::throttle::{Settled, TokenBucket};
use crate::{Failure, HedgePolicy, RetryReason, RetryThrottle, Stage, Transparent, Verdict};

/// The maximum number of lines of a script; later attempts succeed.
pub(super) const MOST_LINES: u32 = 12;

/// 10, 20, 40 … 80 ms, with at most `max` attempts.
pub(super) fn attempts(max: u32) -> MaxAttempts {
    MaxAttempts::new(
        max,
        Backoff::exponential(ms(10), ms(80)).jitter(Jitter::None),
    )
}

/// At most `max` attempts, `delay` milliseconds apart.
pub(super) fn hedges(max: u32, delay: u64) -> HedgePolicy {
    HedgePolicy::new(max, ms(delay))
}

/// A bucket of `max` tokens that has counted `failed` failures.
pub(super) fn bucket(max: u32, failed: u32) -> Arc<TokenBucket> {
    let bucket = TokenBucket::new(max, 100).unwrap();
    let failure = Failure::new(UNKNOWN, Stage::Response);
    (0..failed).for_each(|_| bucket.settled(Settled::Failure(&failure)));
    Arc::new(bucket)
}

fn reason() -> impl Strategy<Value = RetryReason> {
    prop::sample::select(vec![
        UNKNOWN,
        KV_TEMPORARY_FAILURE,
        SOCKET_CLOSED_WHILE_IN_FLIGHT,
        KV_NOT_MY_VBUCKET,
    ])
}

fn unseen() -> impl Strategy<Value = Transparent> {
    prop_oneof![
        4 => Just(Transparent::No),
        1 => Just(Transparent::Once),
        1 => Just(Transparent::Unlimited),
    ]
}

fn any_line(number: u32) -> impl Strategy<Value = Line> {
    let ends = (0_u8..16, reason(), unseen(), prop::option::of(0_i32..3));
    let found = (
        0_u64..40,
        prop::option::weighted(0.2, 0_u64..60),
        0_u8..20,
        0_u64..20,
    );
    (ends, found).prop_map(
        move |((end, reason, unseen, code), (takes, pushback, word, ready))| {
            let mut line = match end {
                0 => attempt(number),
                1 => attempt(number).commits(),
                2 => attempt(number).never_answers(),
                3 | 4 => attempt(number).fails_fatally(reason).unseen(unseen),
                _ => attempt(number).fails(reason).unseen(unseen),
            };
            if let (Some(code), 3..) = (code, end) {
                line = line.with_code(code);
            }
            if let Some(delay) = pushback {
                line = line.come_back_in(delay);
            }
            line = match word {
                0 => line.do_not_come_back(),
                1 => line.forbids_another(),
                2 => line.asks_for_too_long(),
                3 => line.key_moves_after(takes / 2),
                4 | 5 if end > 2 => line.in_stage(Stage::Dispatch),
                _ => line,
            };
            line.after(takes).ready_after(ready.saturating_sub(8))
        },
    )
}

/// Possible server behaviour.
pub(super) fn any_script() -> impl Strategy<Value = Vec<Line>> {
    (1..=MOST_LINES).prop_flat_map(|lines| (1..=lines).map(any_line).collect::<Vec<_>>())
}

/// A limit: none, attached, or enforced.
pub(super) fn any_limit() -> impl Strategy<Value = Option<(u64, bool)>> {
    prop::option::weighted(0.7, (1_u64..120, any::<bool>()))
}

pub(super) fn limited(deadline: Option<(u64, bool)>) -> Call {
    match deadline {
        None => call(),
        Some((deadline, true)) => call().within(deadline),
        Some((deadline, false)) => call().asked_within(deadline),
    }
}

/// Whether this line fails with an always-retry reason.
pub(super) fn is_forced(line: &Line) -> bool {
    matches!(line.verdict, Some(Verdict::Retry(failure)) if failure.reason.always_retry())
}

/// A6's bucket in its simplest form: a number of thousandths of a token.
#[derive(Debug)]
pub(super) struct PlainBucket {
    pub(super) fill: i64,
    max: i64,
    ratio: i64,
}

impl PlainBucket {
    pub(super) fn full(max_tokens: u32, milli_ratio: u32) -> Self {
        let max = i64::from(max_tokens) * 1000;
        Self {
            fill: max,
            max,
            ratio: milli_ratio.into(),
        }
    }

    pub(super) fn settled(&mut self, line: &Line) {
        let stops = line.pushback == Some(crate::ServerPushback::Stop);
        self.fill = match line.verdict {
            Some(Verdict::Success) => (self.fill + self.ratio).min(self.max),
            Some(Verdict::Retry(_)) if !is_forced(line) => (self.fill - 1000).max(0),
            Some(Verdict::Fatal(_)) if stops => (self.fill - 1000).max(0),
            _ => self.fill,
        };
    }

    pub(super) fn permits(&self) -> bool {
        self.fill * 2 > self.max
    }
}

/// A throttle that answers from a list and counts its permits.
#[derive(Debug)]
pub(super) struct Listed {
    answers: Mutex<Vec<bool>>,
    granted: Mutex<u32>,
}

impl Listed {
    pub(super) fn new(answers: Vec<bool>) -> Self {
        Self {
            answers: Mutex::new(answers),
            granted: Mutex::new(0),
        }
    }

    pub(super) fn granted(&self) -> u32 {
        *self.granted.lock().unwrap()
    }
}

impl RetryThrottle for Listed {
    fn settled(&self, _: Settled<'_>) {}

    fn allows(&self, _: Option<&Failure>) -> bool {
        true
    }

    fn spend(&self, _: Option<&Failure>) -> bool {
        let granted = self.answers.lock().unwrap().pop().unwrap_or(false);
        *self.granted.lock().unwrap() += u32::from(granted);
        granted
    }
}
