//! The caller gets the server's own outcome, and nothing of its call continues afterwards.

use reattempt::Verdict;

use super::Faults;
use super::story::{Mark, Story};
use crate::facts::Acts;
use crate::reply::CallResult;

pub(super) fn judge(story: &Story<'_>, faults: &mut Faults) {
    for attempt in &story.attempts {
        let number = attempt.number;
        let gone = attempt.gone.filter(|gone| {
            story.left.is_some() || story.over.as_ref().is_none_or(|(over, _)| gone < over)
        });
        faults.check(gone.is_some(), || format!("{number} outlived its call"));
        let (Some(ends), Some(gone)) = (attempt.ends, attempt.gone) else {
            continue;
        };
        faults.check(ends.at == gone.at, || {
            format!(
                "{number} ended at {} and was dropped at {}",
                ends.at, gone.at
            )
        });
    }
    let Some((over, told)) = &story.over else {
        return;
    };
    match told {
        CallResult::Attempt(place, verdict) => of_attempt(story, *over, *place, *verdict, faults),
        CallResult::Body(_) => faults.check(story.has_body(), || {
            "the call has no body that could fail".into()
        }),
        CallResult::Broken => faults.check(
            story.plan.readiness.iter().any(|ready| ready.breaks),
            || "broken, but the service was not".into(),
        ),
        CallResult::Elapsed { .. } => {}
    }
}

fn of_attempt(story: &Story<'_>, over: Mark, place: usize, verdict: Verdict, faults: &mut Faults) {
    let attempt = &story.attempts[place];
    faults.check(attempt.fate.verdict == verdict, || "another verdict".into());
    faults.check(attempt.ends.is_some_and(|ends| ends < over), || {
        format!("returned {place}, which has not ended")
    });
    // Unless the strategy holds an earlier failure, the last attempt that ended is returned.
    let holds = matches!(&story.seen.facts.acts, Acts::Retry(strategy) if strategy.holds);
    let last = story.attempts.iter().filter_map(|of| {
        let (mark, _) = of.verdict.filter(|_| !of.broke_off)?;
        Some((mark, of.number))
    });
    let last = last.max_by_key(|(mark, _)| *mark);
    let latest = last.is_none_or(|(_, number)| number == attempt.number);
    faults.check(holds || latest || verdict.failure().is_none(), || {
        format!("returned {}, but {last:?} was the last", attempt.number)
    });
    let worked = story
        .attempts
        .iter()
        .find(|of| matches!(of.verdict, Some((_, Verdict::Success | Verdict::Committed))));
    let right = worked.is_none_or(|of| of.number == attempt.number);
    faults.check(right, || {
        format!("{worked:?} succeeded, but was not returned")
    });
}
