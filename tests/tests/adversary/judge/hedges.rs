//! Bounds of hedges: in total, concurrently, and in time.

use reattempt::{AttemptKind, Transparent};

use super::Faults;
use super::story::{Mark, Story};
use crate::facts::{Acts, HedgeFacts};

pub(super) fn judge(story: &Story<'_>, faults: &mut Faults) {
    let Acts::Hedge(policy) = &story.seen.facts.acts else {
        return;
    };
    let of_kind = |kind| story.attempts.iter().filter(move |of| of.kind == kind);
    let planned = 1 + of_kind(AttemptKind::Hedge).count();
    faults.check(planned <= policy.max as usize, || {
        format!("{planned} attempts by a policy of at most {}", policy.max)
    });
    let forced = of_kind(AttemptKind::Retry).count();
    let failures = story.attempts.iter().filter_map(|of| story.failed(of));
    let always = failures.filter(super::story::Failed::is_forced).count();
    faults.check(forced <= always, || {
        format!("{forced} attempts for {always} always-retry failures")
    });
    let alone = policy.only_idempotent && !story.seen.facts.idempotent;
    for attempt in &story.attempts {
        let out = out_at(story, attempt.sent);
        let most = if alone { 1 } else { policy.max as usize };
        faults.check(out <= most, || {
            format!("{out} attempts in flight with {}", attempt.number)
        });
        if alone {
            after_harmless_failures(story, attempt.sent, attempt.number, faults);
        }
        if attempt.kind == AttemptKind::Hedge {
            in_time(story, policy, attempt.sent, attempt.number, faults);
        }
    }
}

/// Attempts in flight right after this moment.
fn out_at(story: &Story<'_>, mark: Mark) -> usize {
    let attempts = story.attempts.iter();
    let out = attempts.filter(|of| of.sent <= mark && of.gone.is_none_or(|gone| gone > mark));
    out.count()
}

fn after_harmless_failures(story: &Story<'_>, sent: Mark, number: u32, faults: &mut Faults) {
    for earlier in story.attempts.iter().filter(|of| of.sent < sent) {
        let harmless = story.failed(earlier).is_some_and(|failed| {
            let unseen = failed.failure.transparent != Transparent::No;
            failed.safe || failed.is_forced() || unseen
        });
        faults.check(harmless, || {
            format!(
                "{number} repeats {}, which may have had an effect",
                earlier.number
            )
        });
    }
}

fn in_time(story: &Story<'_>, policy: &HedgeFacts, sent: Mark, number: u32, faults: &mut Faults) {
    let failures = story.attempts.iter().filter_map(|of| {
        let (mark, _) = of.verdict.filter(|(mark, _)| *mark < sent)?;
        Some((mark, story.failed(of)?))
    });
    let first = story.attempts[0].sent.at;
    let last = failures.max_by_key(|(mark, _)| *mark);
    let Some((mark, failed)) = last else {
        // Without a failure only the delay sends hedges, one per delay.
        let hedges = story
            .attempts
            .iter()
            .filter(|of| of.kind == AttemptKind::Hedge && of.sent <= sent);
        let earliest = first + policy.delay * hedges.count() as u64;
        faults.check(sent.at >= earliest, || {
            format!("{number} sent before its delay, which ends at {earliest}")
        });
        return;
    };
    // Excludes a hedge that was becoming ready already, or that another failure planned.
    let at_once = |ready: &crate::scenario::Readiness| ready.after == Some(0);
    let plain = failed.failure.transparent == Transparent::No && !failed.is_forced();
    if !plain || !story.plan.readiness.iter().all(at_once) {
        return;
    }
    if let Some(asked) = failed.after {
        let early = mark.at < sent.at && sent.at < mark.at + asked;
        faults.check(!early, || {
            format!("{number} sent before the server's pushback of {asked} ms")
        });
    }
}
