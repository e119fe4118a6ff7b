//! Bounds of sends: nothing that policy, idempotency, server or deadline forbid.

use std::time::Duration;

use reattempt::backoff::Backoff;
use reattempt::{AttemptKind, MOST_RECORDS, Stage, Transparent, Verdict};

use super::Faults;
use super::story::{Attempt, Failed, Story};
use crate::facts::{Acts, StrategyFacts};
use crate::log::Event;

/// The maximum number of attempts sent early because a newer configuration moved the key.
const MOST_NUDGED: u32 = 16;

pub(super) fn judge(story: &Story<'_>, faults: &mut Faults) {
    let facts = &story.seen.facts;
    for (place, attempt) in story.attempts.iter().enumerate() {
        let (number, kind) = (attempt.number, attempt.kind);
        let initial = kind == AttemptKind::Initial;
        faults.check(initial == (place == 0), || {
            format!("send {place} is {kind:?}")
        });
        let claimed = !matches!(facts.acts, Acts::Nothing);
        // Without a recovery layer an attempt has no number. One that leaves the call to another
        // layer numbers it.
        let numbered = claimed || !facts.unseen;
        faults.check(
            number as usize == if numbered { place + 1 } else { 0 },
            || format!("send {place} has number {number}"),
        );
        faults.check(claimed || place == 0, || {
            "retried without a recovery layer".into()
        });
        let late = facts.limit.is_some_and(|(at, _)| attempt.sent.at >= at);
        faults.check(place == 0 || !late, || {
            format!("{number} sent after the deadline")
        });
        let over = story.end().is_some_and(|end| end < attempt.sent);
        faults.check(!over, || format!("{number} sent after the call's end"));
        faults.check(
            kind != AttemptKind::Transparent || facts.transparent,
            || format!("{number} is transparent, which is disabled"),
        );
        let before = story.attempts[..place].iter();
        for earlier in before.filter(|of| forbids_more(story, of, attempt)) {
            faults
                .0
                .push(format!("{number} sent after {} ended it", earlier.number));
        }
    }
    transparent(story, faults);
    if let Acts::Retry(strategy) = &facts.acts {
        one_by_one(story, strategy, faults);
        decisions(story, faults);
    }
}

/// An earlier attempt has a result that forbids a later one like `later`.
fn forbids_more(story: &Story<'_>, earlier: &Attempt<'_>, later: &Attempt<'_>) -> bool {
    let Some((_, verdict)) = earlier.verdict.filter(|(mark, _)| *mark < later.sent) else {
        return false;
    };
    let Some(failed) = story.failed(earlier) else {
        return true;
    };
    let unseen = failed.failure.transparent != Transparent::No;
    let one_by_one = matches!(story.seen.facts.acts, Acts::Retry(_));
    let next = one_by_one && later.number == earlier.number + 1;
    // Of several, one that was never seen is sent again although another ended the hedging.
    let another = !one_by_one
        && later.kind == AttemptKind::Transparent
        && another_unseen(story, earlier, later);
    // A losing attempt cut off by its own body tells nothing about the server.
    !earlier.broke_off
        && match verdict {
            // Any other final failure ends the call.
            Verdict::Fatal(_) if another && failed.stage == Stage::Dispatch => false,
            Verdict::Retry(_) if another => false,
            _ if failed.stop => true,
            Verdict::Fatal(_) if next => !unseen || later.kind != AttemptKind::Transparent,
            Verdict::Fatal(_) => !unseen,
            _ => false,
        }
}

/// Another attempt than the earlier one was never seen, which no stop forbids to send again.
fn another_unseen(story: &Story<'_>, earlier: &Attempt<'_>, later: &Attempt<'_>) -> bool {
    let mut others = story.attempts.iter().filter(|of| {
        of.number != earlier.number
            && !of.broke_off
            && of.verdict.is_some_and(|(mark, _)| mark < later.sent)
    });
    others.any(|of| {
        let failed = story.failed(of).filter(|failed| !failed.stop);
        failed.is_some_and(|failed| failed.failure.transparent != Transparent::No)
    })
}

/// The bound of transparent retries.
fn transparent(story: &Story<'_>, faults: &mut Faults) {
    let most_never_sent = if story.seen.facts.limit.is_some() {
        1000
    } else {
        5
    };
    let failures = story.attempts.iter().filter_map(|of| story.failed(of));
    let (mut once, mut never_sent, mut moved) = (0, 0, 0);
    for failed in failures {
        match failed.failure.transparent {
            Transparent::Once => once = 1,
            Transparent::NextBackend => moved = (moved + 1).min(MOST_RECORDS),
            Transparent::Unlimited => never_sent = (never_sent + 1).min(most_never_sent),
            _ => {}
        }
    }
    let sent = story.attempts.iter();
    let sent = sent
        .filter(|of| of.kind == AttemptKind::Transparent)
        .count();
    faults.check(sent <= once + never_sent + moved, || {
        format!(
            "{sent} transparent attempts for {once} that was unseen, {never_sent} never sent and \
             {moved} moves"
        )
    });
}

/// Each attempt follows the failure of the one before.
fn one_by_one(story: &Story<'_>, strategy: &StrategyFacts, faults: &mut Faults) {
    let mut retries = 0;
    for pair in story.attempts.windows(2) {
        let (before, next) = (&pair[0], &pair[1]);
        let number = next.number;
        faults.check(before.gone.is_some_and(|gone| gone < next.sent), || {
            format!("{number} sent while the previous one was in flight")
        });
        let (Some(failed), Some((mark, _))) = (story.failed(before), before.verdict) else {
            faults.0.push(format!(
                "{number} sent although the previous one did not fail"
            ));
            continue;
        };
        let waited = next.sent.at - mark.at;
        if next.kind == AttemptKind::Transparent {
            faults.check(failed.failure.transparent != Transparent::No, || {
                format!("{number} is transparent after a failure that the server saw")
            });
            continue;
        }
        let allowed = story.seen.facts.idempotent || failed.safe || failed.is_forced();
        faults.check(allowed, || {
            format!("{number} repeats an attempt that may have had an effect")
        });
        let fits = failed.is_forced() || strategy.max.is_none_or(|max| retries + 2 <= max);
        faults.check(fits, || {
            format!(
                "{number} is past {:?} after {retries} retries",
                strategy.max
            )
        });
        let least = least_delay(story, before, &failed, strategy, retries);
        faults.check(waited >= least, || {
            format!("{number} sent after {waited} ms instead of {least}")
        });
        retries += 1;
    }
}

/// The shortest delay that is allowed before a retry, in milliseconds.
fn least_delay(
    story: &Story<'_>,
    before: &Attempt<'_>,
    failed: &Failed,
    strategy: &StrategyFacts,
    retries: u32,
) -> u64 {
    let ms = |delay: Duration| u64::try_from(delay.as_millis()).expect("a second at most");
    let asked = failed.after.unwrap_or(0);
    let waiter = before.fate.waiter.filter(|_| before.ends.is_some());
    let heeded = waiter.filter(|waiter| waiter.reported || story.seen.facts.poll);
    let moved = heeded.is_some_and(|waiter| waiter.moved && waiter.after.is_some());
    if moved && failed.after.is_none() && retries < MOST_NUDGED {
        return 0;
    }
    let forced = failed.is_forced().then(Backoff::controlled);
    let own = forced.as_ref().or(strategy.bound.as_ref());
    let own = own.map_or(0, |backoff| ms(backoff.delay(retries, None)));
    if failed.is_forced() || strategy.obeys {
        asked.max(own)
    } else {
        own
    }
}

/// The strategy sees the correct number of retries, and the call ends when it refuses.
fn decisions(story: &Story<'_>, faults: &mut Faults) {
    for (mark, event) in &story.log {
        let Event::Decided { retries, stops } = event else {
            continue;
        };
        let attempts = story.attempts.iter();
        let made = attempts.filter(|of| of.kind == AttemptKind::Retry && of.sent < *mark);
        let made = made.count();
        faults.check(*retries as usize == made, || {
            format!("the strategy saw {retries} retries instead of {made}")
        });
        let later = story.attempts.iter().find(|of| of.sent > *mark);
        faults.check(!stops || later.is_none(), || {
            "retried against the strategy".into()
        });
    }
}
