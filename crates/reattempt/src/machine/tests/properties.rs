//! Properties that hold for every script.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::model::{Listed, PlainBucket, any_limit, any_script, hedges, is_forced, limited};
use super::script::{Line, every_attempt_from, find, ms};
use super::simulator::{Call, End, Story, call};
use crate::ServerPushback::{Stop, TooLong};
use crate::failure::reason::KV_NOT_MY_VBUCKET;
use crate::policy::backoff::{Backoff, Randomness};
use crate::policy::strategy::{BestEffort, MaxAttempts, NeverRetry};
use crate::policy::throttle::TokenBucket;
use crate::{AttemptKind, Failure, OnDeadline, RetryThrottle, Stage, Transparent, Verdict};

fn jittered(max: u32, seed: u64) -> MaxAttempts {
    let backoff = Backoff::exponential(ms(3), ms(40));
    MaxAttempts::new(max, backoff.randomness(Randomness::seeded(seed)))
}

/// The same call, retried and hedged.
fn both(call: &Call, script: &[Line], max: u32, delay: u64) -> [Story; 2] {
    let retried = call.retried(MaxAttempts::new(max, Backoff::constant(ms(delay))), script);
    [retried, call.hedged(&hedges(max, delay), script)]
}

/// How many of the sent attempts failed with an always-retry reason.
fn forced(story: &Story, script: &[Line]) -> u32 {
    let sent = 1..=story.sent.len() as u32;
    sent.filter(|number| is_forced(&find(script, *number)))
        .count() as u32
}

/// The failure of this line, and whether it is final.
const fn failure_of(line: &Line) -> Option<(Failure, bool)> {
    match line.verdict {
        Some(Verdict::Retry(failure)) => Some((failure, false)),
        Some(Verdict::Fatal(failure)) => Some((failure, true)),
        _ => None,
    }
}

/// A failed attempt.
struct Ended {
    number: u32,
    at: Duration,
    failure: Failure,
    fatal: bool,
    /// A server's or a layer's "do not retry".
    stop: bool,
}

/// The sent attempts whose scripts fail.
fn ended(story: &Story, script: &[Line]) -> Vec<Ended> {
    let sent = story.sent.iter().zip(1..);
    let ended = sent.filter_map(|((at, _), number)| {
        let line = find(script, number);
        let (failure, fatal) = failure_of(&line)?;
        Some(Ended {
            number,
            at: *at + line.takes,
            failure,
            fatal,
            stop: line.forbids || matches!(line.pushback, Some(Stop | TooLong { .. })),
        })
    });
    ended.collect()
}

/// Whether a hedged call may send an attempt of this kind at this time, after this stop: only the
/// transparent retry of another one, and a final failure ends the call unless it never left.
fn may_follow(stop: &Ended, ended: &[Ended], at: Duration, kind: AttemptKind) -> bool {
    let another = |of: &Ended| {
        let unseen = of.failure.transparent != Transparent::No;
        of.number != stop.number && unseen && !of.stop && of.at <= at
    };
    let goes_on = !stop.fatal || stop.failure.stage == Stage::Dispatch;
    kind == AttemptKind::Transparent && goes_on && ended.iter().any(another)
}

fn without_unseen(mut script: Vec<Line>) -> Vec<Line> {
    for line in &mut script {
        if let Some(Verdict::Retry(failure) | Verdict::Fatal(failure)) = &mut line.verdict {
            failure.transparent = Transparent::No;
        }
    }
    script
}

proptest! {
    /// R13 R40
    #[test]
    #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
    fn never_more_attempts_than_the_maximum(
        script in any_script(), deadline in any_limit(), max in 1_u32..7, delay in 0_u64..20,
    ) {
        let [retried, hedged] = both(&limited(deadline), &script, max, delay);
        let aside = retried.count(AttemptKind::Transparent) + forced(&retried, &script);
        prop_assert!(retried.sent.len() as u32 <= max + aside, "{retried:?}");
        prop_assert!(hedged.count(AttemptKind::Hedge) < max, "{hedged:?}");
        prop_assert!(hedged.count(AttemptKind::Retry) <= forced(&hedged, &script), "{hedged:?}");
    }

    /// C7 R14 R48
    #[test]
    #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
    fn nothing_is_sent_at_the_deadline_or_after_it(
        script in any_script(), deadline in 1_u64..100, enforced: bool, max in 1_u32..7, delay in 0_u64..20,
    ) {
        for story in both(&limited(Some((deadline, enforced))), &script, max, delay) {
            prop_assert!(story.sent.iter().all(|(at, _)| *at < ms(deadline)), "{story:?}");
            prop_assert!(!enforced || story.at <= ms(deadline), "{story:?}");
        }
    }

    /// R45 and A6, Pushback
    #[test]
    #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
    fn nothing_is_sent_after_a_stop(
        script in any_script(), deadline in any_limit(), max in 1_u32..7, delay in 0_u64..20,
    ) {
        let [retried, hedged] = both(&limited(deadline), &script, max, delay);
        for stop in ended(&retried, &script).iter().filter(|of| of.stop) {
            prop_assert!(retried.sent.iter().all(|(at, _)| *at <= stop.at), "{retried:?}");
        }
        let ended = ended(&hedged, &script);
        for stop in ended.iter().filter(|of| of.stop) {
            let may = |at, kind| at <= stop.at || may_follow(stop, &ended, at, kind);
            prop_assert!(hedged.sent.iter().all(|(at, kind)| may(*at, *kind)), "{hedged:?}");
        }
    }

    /// C6
    #[test]
    #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
    fn a_reason_that_always_retries_ends_with_the_deadline(
        deadline in 1_u64..3000, takes in 0_u64..50, hedged: bool,
    ) {
        let script = [every_attempt_from(1).fails(KV_NOT_MY_VBUCKET).after(takes)];
        let call = call().not_idempotent().within(deadline);
        let story = if hedged {
            call.hedged(&hedges(3, 20), &script)
        } else {
            call.retried(NeverRetry, &script)
        };
        prop_assert_eq!((story.end, story.at), (End::TimedOut, ms(deadline)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
    fn the_same_inputs_lead_to_the_same_actions(
        script in any_script(), deadline in any_limit(), max in 1_u32..7, delay in 0_u64..20, seed: u64,
    ) {
        let call = || limited(deadline).throttled_by(&Arc::new(TokenBucket::new(8, 100).unwrap()));
        let policy = hedges(max, delay);
        prop_assert_eq!(call().hedged(&policy, &script), call().hedged(&policy, &script));
        let retried = || call().retried(jittered(max, seed), &script);
        prop_assert_eq!(retried(), retried());
    }

    /// R46
    #[test]
    #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
    fn no_hedge_is_sent_without_a_permit(
        script in any_script(), deadline in any_limit(), max in 1_u32..7, delay in 0_u64..20,
        answers in prop::collection::vec(any::<bool>(), 0..8),
    ) {
        let throttle = Arc::new(Listed::new(answers));
        let call = limited(deadline).throttled_by(&throttle);
        let story = call.hedged(&hedges(max, delay), &script);
        prop_assert_eq!(story.count(AttemptKind::Hedge), throttle.granted());
    }

    /// R20 R21 R22
    #[test]
    #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
    fn the_tokens_are_those_of_a_plain_count(
        scripts in prop::collection::vec(any_script(), 1..6), max_tokens in 1_u32..12, ratio in 1_u32..2500,
    ) {
        let bucket = Arc::new(TokenBucket::new(max_tokens, ratio).unwrap());
        let mut plain = PlainBucket::full(max_tokens, ratio);
        for script in scripts.into_iter().map(without_unseen) {
            let call = call().throttled_by(&bucket);
            let story = call.retried(MaxAttempts::new(4, Backoff::constant(ms(1))), &script);
            for number in 1..=story.sent.len() as u32 {
                plain.settled(&find(&script, number));
            }
            prop_assert_eq!(bucket.milli_tokens(), u64::try_from(plain.fill).ok());
            prop_assert_eq!(bucket.allows(None), plain.permits());
        }
    }

    /// R21 R46
    #[test]
    #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
    fn a_hedged_call_counts_each_attempt_that_was_answered(
        script in any_script(), max_tokens in 1_u32..12, max in 1_u32..7, delay in 0_u64..20,
    ) {
        let script = without_unseen(script);
        let bucket = Arc::new(TokenBucket::new(max_tokens, 700).unwrap());
        let story = call().throttled_by(&bucket).hedged(&hedges(max, delay), &script);
        let mut plain = PlainBucket::full(max_tokens, 700);
        for record in story.info.records().filter(|record| record.failure.is_some()) {
            plain.settled(&find(&script, record.number));
        }
        if let End::Worked(number) = story.end {
            plain.settled(&find(&script, number));
        }
        prop_assert_eq!(bucket.milli_tokens(), u64::try_from(plain.fill).ok());
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow: `.ci/miri` runs it")]
    fn every_call_ends_unless_an_attempt_never_answers(
        script in any_script(), deadline in any_limit(), delay in 0_u64..20,
    ) {
        let silent = script.iter().any(|line| line.verdict.is_none());
        let call = limited(deadline);
        let retried = call.retried(BestEffort::new().on_deadline(OnDeadline::GiveUp), &script);
        let hedged = call.hedged(&hedges(4, delay), &script);
        for story in [retried, hedged] {
            prop_assert!(silent || story.end != End::Stuck, "{story:?}");
            prop_assert!(story.info.stopped().is_some() || story.end == End::Stuck || story.end == End::TimedOut);
        }
    }
}
