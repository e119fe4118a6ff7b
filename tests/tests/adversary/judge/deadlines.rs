//! A call ends exactly at its deadline, and a response at that instant wins.

use reattempt::{DeadlineScope, Stage, Transparent};

use super::Faults;
use super::story::{Attempt, Story};
use crate::fate::{Reads, Takes};
use crate::reply::CallResult;

pub(super) fn judge(story: &Story<'_>, faults: &mut Faults) {
    let facts = &story.seen.facts;
    let enforced = facts.limit.filter(|(_, enforced)| *enforced);
    let ends_by = enforced.map(|(at, _)| at.max(story.begins.at));
    if let (Some(end), Some(by)) = (story.end(), ends_by) {
        faults.check(end.at <= by, || {
            format!("ended at {} instead of {by}", end.at)
        });
    }
    if facts.refused {
        let sent = story.attempts.len();
        faults.check(sent == 0, || "sent although the deadline had passed".into());
    }
    if let Some((
        mark,
        CallResult::Elapsed {
            scope,
            ambiguous,
            attempts,
        },
    )) = &story.over
    {
        if *scope == DeadlineScope::Call {
            faults.check(Some(mark.at) == ends_by, || {
                format!("elapsed at {}, but the deadline is {ends_by:?}", mark.at)
            });
            said(story, *ambiguous, *attempts, faults);
        } else {
            let limited = facts.attempt_limit.or(facts.cut_at).is_some() || facts.misplaced;
            faults.check(limited, || "elapsed without a limit of attempts".into());
        }
    }
    for attempt in &story.attempts {
        let lived = attempt.gone.map(|gone| gone.at - attempt.sent.at);
        // A table swapped below the recovery layer changes it from attempt to attempt.
        let limit = facts.attempt_limit.filter(|_| !facts.misplaced);
        let within = limit.is_none_or(|limit| lived.is_none_or(|of| of <= limit));
        faults.check(within, || {
            format!("{} lived longer than its limit", attempt.number)
        });
        let at = |mark: Option<super::story::Mark>| mark.map(|mark| mark.at);
        let cut = facts.cut_at.map(|cut| cut.max(attempt.sent.at));
        let in_time = cut.is_none_or(|cut| at(attempt.gone).is_none_or(|gone| gone <= cut));
        faults.check(in_time, || {
            format!("{} lived longer than the caller's limit", attempt.number)
        });
        answers_win(story, attempt, faults);
    }
}

/// When the server responds to an attempt, if that is known in advance.
fn answers_at(story: &Story<'_>, attempt: &Attempt<'_>) -> Option<u64> {
    if story.has_body() && attempt.fate.reads != Reads::Nothing {
        return None;
    }
    match attempt.fate.takes {
        Takes::Ms(takes) => Some(attempt.sent.at + takes),
        Takes::TillLimit => attempt.limit.map(|at| at.max(attempt.sent.at)),
        Takes::Never => None,
    }
}

fn answers_win(story: &Story<'_>, attempt: &Attempt<'_>, faults: &mut Faults) {
    let (Some(gone), None, Some(answers)) =
        (attempt.gone, attempt.ends, answers_at(story, attempt))
    else {
        return;
    };
    let left = story.left.is_some_and(|left| left.at == gone.at);
    let another = matches!(
        &story.over,
        Some((mark, CallResult::Attempt(..) | CallResult::Body(_) | CallResult::Broken)) if mark.at == gone.at
    );
    // An attempt that its own body cuts off is dropped when another continues alone.
    faults.check(
        gone.at < answers || left || another || story.has_body(),
        || {
            format!(
                "{} was dropped at {}, although its response was ready",
                attempt.number, gone.at
            )
        },
    );
}

/// Checks the deadline's report on the call.
fn said(story: &Story<'_>, ambiguous: bool, attempts: u32, faults: &mut Faults) {
    let sent = story.attempts.len();
    let claimed = story.attempts.iter().any(|of| of.number > 0);
    faults.check(!claimed || attempts as usize == sent, || {
        format!("reported {attempts} attempts, but {sent} were sent")
    });
    let idempotent = story.seen.facts.idempotent;
    faults.check(!ambiguous || !idempotent, || {
        "ambiguous although idempotent".into()
    });
    let out = story.attempts.iter().any(|of| {
        of.verdict.is_none() && of.ends.is_none() && of.fate.stages[0] != Some(Stage::Dispatch)
    });
    let lost = story.attempts.iter().any(|of| {
        let failed = story.failed(of).filter(|_| !of.broke_off);
        failed.is_some_and(|failed| {
            failed.stage == Stage::InFlight && failed.failure.transparent == Transparent::No
        })
    });
    faults.check(ambiguous || idempotent || !lost, || {
        "unambiguous although an attempt was lost in flight".into()
    });
    let cut = story.has_body();
    faults.check(ambiguous || idempotent || !out || cut, || {
        "unambiguous although an attempt was in flight".into()
    });
}
