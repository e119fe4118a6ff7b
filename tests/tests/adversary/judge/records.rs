//! What an observer and a watching caller receive: each end once and last, each attempt once.

use reattempt::{AttemptKind, AttemptOutcome, AttemptRecord, RetryInfo, StopReason, Verdict};

use super::Faults;
use super::story::{Mark, Story};
use crate::facts::Acts;
use crate::log::{Event, Observed};
use crate::reply::CallResult;

pub(super) fn judge(story: &Story<'_>, faults: &mut Faults) {
    let claimed = !matches!(story.seen.facts.acts, Acts::Nothing);
    let whole = matches!(
        story.over,
        Some((_, CallResult::Attempt(..) | CallResult::Body(_)))
    );
    if !claimed {
        passed(story, faults);
    }
    if !claimed && !whole {
        // Several layers pass the call through; which of them saw its end depends on where it was
        // cut off.
        return;
    }
    let observed: Vec<_> = story
        .log
        .iter()
        .filter_map(|(mark, event)| match event {
            Event::Observed(observed) => Some((*mark, observed)),
            _ => None,
        })
        .collect();
    if story.seen.facts.observed {
        ends_once(story, claimed, &observed, faults);
    } else {
        faults.check(observed.is_empty(), || {
            "reported a call of another layer".into()
        });
    }
    let settled: Vec<_> = observed
        .iter()
        .filter_map(|(_, observed)| match observed {
            Observed::Settled(record) => Some(record),
            _ => None,
        })
        .collect();
    if claimed && story.seen.facts.observed && !story.seen.facts.unseen {
        attempts(story, &observed, &settled, faults);
    }
    if let Some(info) = story.seen.info.as_ref().filter(|_| claimed) {
        watched(story, info, &settled, faults);
    }
}

/// The end is reported once and last; a call that no layer acts on may be dropped unreported.
fn ends_once(
    story: &Story<'_>,
    claimed: bool,
    observed: &[(Mark, &Observed)],
    faults: &mut Faults,
) {
    let is_end = |(_, observed): &&(Mark, &Observed)| matches!(observed, Observed::Ended(_));
    let ends: Vec<_> = observed.iter().filter(is_end).collect();
    let told = match (&story.over, claimed) {
        _ if story.seen.facts.unseen => 0..=0,
        (Some((_, CallResult::Attempt(..) | CallResult::Body(_))), false) => 1..=1,
        (_, false) => 0..=1,
        (_, true) => 1..=1,
    };
    faults.check(told.contains(&ends.len()), || {
        format!("{} ends reported instead of {told:?}", ends.len())
    });
    let Some((end, Observed::Ended(info))) = ends.first() else {
        return;
    };
    let last = observed.last().is_some_and(|(last, _)| last == end);
    faults.check(last, || "reported something after the end".into());
    let before = story.over.as_ref().is_none_or(|(over, _)| end < over);
    faults.check(before, || "reported the end after the call".into());
    let stopped = info.stopped();
    let right = match (&story.over, stopped) {
        (_, None) => false,
        (Some((_, CallResult::Attempt(_, Verdict::Success))), stopped) => {
            stopped == Some(StopReason::Success)
        }
        (Some((_, CallResult::Attempt(_, Verdict::Committed))), stopped) => {
            stopped == Some(StopReason::Committed)
        }
        (None, Some(stopped)) => matches!(stopped, StopReason::Cancelled | StopReason::Deadline),
        (Some(_), Some(stopped)) => !matches!(
            stopped,
            StopReason::Success | StopReason::Committed | StopReason::Cancelled
        ),
    };
    faults.check(right, || format!("{:?} ended with {stopped:?}", story.over));
}

fn attempts(
    story: &Story<'_>,
    observed: &[(Mark, &Observed)],
    settled: &[&AttemptRecord],
    faults: &mut Faults,
) {
    let sent: Vec<_> = observed
        .iter()
        .filter_map(|(_, observed)| match observed {
            Observed::Sent(number, kind) => Some((*number, *kind)),
            _ => None,
        })
        .collect();
    let seen: Vec<_> = story
        .attempts
        .iter()
        .map(|of| (of.number, of.kind))
        .collect();
    // A limit that has already passed is enforced below the recovery layer.
    let kept = seen.is_empty() && story.seen.facts.cut_at == Some(story.begins.at);
    faults.check(sent == seen || kept, || {
        format!("reported {sent:?}, but {seen:?} were sent")
    });
    let mut numbers: Vec<_> = settled.iter().map(|of| (of.number, of.kind)).collect();
    numbers.sort_unstable_by_key(|(number, _)| *number);
    faults.check(numbers == sent, || {
        format!("{sent:?} were sent, and {numbers:?} recorded")
    });
    for record in settled {
        let mut attempts = story.attempts.iter();
        let Some(attempt) = attempts.find(|of| of.number == record.number) else {
            continue;
        };
        let right = match (attempt.verdict, record.outcome) {
            (None, outcome) => outcome == AttemptOutcome::Cancelled,
            (Some((_, Verdict::Success)), outcome) => outcome == AttemptOutcome::Success,
            (Some((_, Verdict::Committed)), outcome) => outcome == AttemptOutcome::Committed,
            (Some(_), AttemptOutcome::Cancelled) => attempt.broke_off || story.has_body(),
            (Some((_, Verdict::Retry(_))), outcome) => outcome == AttemptOutcome::Retry,
            (Some((_, Verdict::Fatal(_))), outcome) => {
                matches!(outcome, AttemptOutcome::Fatal | AttemptOutcome::Retry)
            }
        };
        faults.check(right, || {
            format!("{:?} is recorded as {record:?}", attempt.verdict)
        });
    }
    let ended = observed.iter().find_map(|(_, observed)| match observed {
        Observed::Ended(info) => Some(info),
        _ => None,
    });
    if let Some(info) = ended {
        counts(info, &sent, faults);
    }
}

fn counts(info: &RetryInfo, sent: &[(u32, AttemptKind)], faults: &mut Faults) {
    let counted = |kind: &AttemptKind| matches!(kind, AttemptKind::Retry | AttemptKind::Hedge);
    let retries = sent.iter().filter(|(_, kind)| counted(kind)).count();
    let said = (info.attempts() as usize, info.retries() as usize);
    faults.check(said == (sent.len(), retries), || {
        format!(
            "{said:?} attempts and retries instead of {:?}",
            (sent.len(), retries)
        )
    });
}

/// A call that every recovery layer left to another one: it was sent once, and says so.
fn passed(story: &Story<'_>, faults: &mut Faults) {
    let facts = &story.seen.facts;
    let Some(info) = story.seen.info.as_ref().filter(|_| !facts.unseen) else {
        return;
    };
    // A limit that has already passed is enforced below the recovery layer.
    if facts.refused {
        return;
    }
    counts(info, &[(1, AttemptKind::Initial)], faults);
    faults.check(info.stopped().is_some(), || "the caller sees no end".into());
    let right = info.records().all(|record| record.number == 1) && info.records().len() <= 1;
    faults.check(right, || format!("the records of one attempt: {info:#}"));
}

fn watched(story: &Story<'_>, info: &RetryInfo, settled: &[&AttemptRecord], faults: &mut Faults) {
    if story.seen.facts.unseen || story.seen.facts.cut_at == Some(story.begins.at) {
        return;
    }
    let sent: Vec<_> = story
        .attempts
        .iter()
        .map(|of| (of.number, of.kind))
        .collect();
    counts(info, &sent, faults);
    faults.check(info.stopped().is_some(), || "the caller sees no end".into());
    // The one attempt that succeeds at once leaves no record; an observer is passed one all the
    // same. The late end of its response may add one, and adds none beside others.
    let at_once = sent.len() == 1
        && settled.iter().all(|record| {
            let outcome = record.outcome;
            matches!(outcome, AttemptOutcome::Success | AttemptOutcome::Committed)
        });
    let records = info.records().len() + info.dropped_records() as usize;
    faults.check(
        !story.seen.facts.observed || records == settled.len() || (at_once && records == 0),
        || {
            format!(
                "the caller sees {records} records, an observer {}",
                settled.len()
            )
        },
    );
}
