//! Checks throttles against simple models, by the witness's log and by what was sent.

use reattempt::{AttemptKind, Failure, MOST_RECORDS, Transparent, Verdict};
use reattempt_http::reasons::HTTP_TOO_MANY_REQUESTS;

use super::Faults;
use super::story::{Attempt, Story};
use crate::facts::{Acts, Counts};
use crate::log::{Entry, Event};
use crate::reply::CallResult;
use crate::scenario::Concludes;
use crate::throttle::{Op, ThrottlePlan};

/// The expected fill of a throttle.
struct Model {
    plan: ThrottlePlan,
    bucket: u64,
    budget: u64,
    quota: u64,
}

const BUDGET: u64 = 10_000;

impl Model {
    fn new(plan: ThrottlePlan) -> Self {
        let (most, quota) = match plan {
            ThrottlePlan::Bucket(most, _) | ThrottlePlan::Both(most, ..) => (most, 0),
            ThrottlePlan::Quota(tokens) => (0, tokens),
            ThrottlePlan::Budget(_) => (0, 0),
        };
        Self {
            plan,
            bucket: u64::from(most) * 1000,
            budget: 1000,
            quota: u64::from(quota),
        }
    }

    /// The parameters: maximum and ratio of a bucket, share of a budget, tokens of a quota.
    const fn parts(&self) -> (Option<(u32, u32)>, Option<u32>, Option<u32>) {
        match self.plan {
            ThrottlePlan::Bucket(most, ratio) => (Some((most, ratio)), None, None),
            ThrottlePlan::Budget(share) => (None, Some(share), None),
            ThrottlePlan::Both(most, ratio, share) => (Some((most, ratio)), Some(share), None),
            ThrottlePlan::Quota(tokens) => (None, None, Some(tokens)),
        }
    }

    fn fills(&self) -> [Option<u64>; 2] {
        match self.plan {
            ThrottlePlan::Bucket(..) => [Some(self.bucket), None],
            ThrottlePlan::Budget(_) => [Some(self.budget), None],
            ThrottlePlan::Both(..) => [Some(self.bucket), Some(self.budget)],
            ThrottlePlan::Quota(_) => [Some(self.quota * 1000), None],
        }
    }

    fn allows(&self, failure: Option<Failure>) -> bool {
        let (bucket, budget, quota) = self.parts();
        bucket.is_none_or(|(most, _)| self.bucket > u64::from(most) * 500)
            && budget.is_none_or(|_| self.budget >= 1000)
            && quota.is_none_or(|_| self.quota >= price(failure))
    }

    /// Applies the operation and returns the expected answer.
    fn apply(&mut self, op: Op) -> Option<bool> {
        let (bucket, budget, quota) = self.parts();
        let (most, ratio) = bucket.unwrap_or_default();
        let most = u64::from(most) * 1000;
        match op {
            Op::Success | Op::Recovered(_) => {
                self.bucket = (self.bucket + u64::from(ratio)).min(most);
                let back = match op {
                    Op::Recovered(failure) => price(Some(failure)),
                    _ => 1,
                };
                self.quota = (self.quota + back).min(u64::from(quota.unwrap_or(0)));
                self.budget = (self.budget + u64::from(budget.unwrap_or(0))).min(BUDGET);
                None
            }
            Op::Failure(_) => {
                self.bucket = self.bucket.saturating_sub(1000);
                self.budget = (self.budget + u64::from(budget.unwrap_or(0))).min(BUDGET);
                None
            }
            Op::Allows(failure, _) => Some(self.allows(failure)),
            Op::Spend(failure, _) => {
                let pays = budget.is_none_or(|_| self.budget >= 1000)
                    && quota.is_none_or(|_| self.quota >= price(failure));
                if pays {
                    self.budget -= 1000 * u64::from(budget.is_some());
                    self.quota -= price(failure) * u64::from(quota.is_some());
                }
                Some(pays)
            }
            Op::Refund(failure) => {
                self.budget = (self.budget + 1000 * u64::from(budget.is_some())).min(BUDGET);
                self.quota = (self.quota + price(failure)).min(u64::from(quota.unwrap_or(0)));
                None
            }
        }
    }
}

fn price(failure: Option<Failure>) -> u64 {
    match failure {
        Some(failure) if failure.reason == HTTP_TOO_MANY_REQUESTS => 5,
        _ => 14,
    }
}

/// Each throttle matches its model at every step.
pub(crate) fn replay(plans: &[ThrottlePlan], log: &[Entry], faults: &mut Faults) {
    let mut models: Vec<_> = plans.iter().map(|plan| Model::new(*plan)).collect();
    for entry in log {
        let Event::Throttle {
            throttle,
            op,
            fills,
        } = entry.event
        else {
            continue;
        };
        let model = &mut models[throttle];
        let answer = model.apply(op);
        let said = match op {
            Op::Allows(_, said) | Op::Spend(_, said) => Some(said),
            _ => None,
        };
        let right = said == answer && fills == model.fills();
        if !right {
            let plain = model.fills();
            let call = entry.call;
            faults.0.push(format!(
                "throttle {throttle} at {op:?} of call {call} has {fills:?} instead of {plain:?}"
            ));
            return;
        }
    }
}

/// The operations of a call on its throttle match what happened to it.
pub(crate) fn judge(story: &Story<'_>, faults: &mut Faults) {
    let facts = &story.seen.facts;
    let told = matches!(story.over, Some((_, CallResult::Attempt(..))));
    if matches!(facts.acts, Acts::Nothing) && !told {
        // Several layers pass the call through; which of them saw its end depends on where it was
        // cut off.
        return;
    }
    let ops: Vec<_> = story
        .log
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Throttle { throttle, op, .. } => Some((*throttle, *op)),
            _ => None,
        })
        .collect();
    let Counts::In(own) = facts.counts else {
        // A throttle below the recovery layer counts only committed responses.
        faults.check(ops.len() <= 1, || {
            format!("{ops:?} of a throttle that is not the call's")
        });
        return;
    };
    faults.check(
        ops.iter().all(|(of, _)| *of == own) || facts.misplaced,
        || format!("{ops:?} of other throttles than {own}"),
    );
    let count = |is: fn(&Op) -> bool| ops.iter().filter(|(of, op)| *of == own && is(op)).count();
    let paid = count(|op| matches!(op, Op::Spend(_, true)));
    let refunded = count(|op| matches!(op, Op::Refund(_)));
    let sent = paid_sends(story);
    faults.check(paid == sent + refunded, || {
        format!("paid {paid} and refunded {refunded} for {sent} attempts")
    });
    if matches!(facts.acts, Acts::Retry(_)) {
        let refused = ops
            .iter()
            .position(|(_, op)| matches!(op, Op::Allows(_, false) | Op::Spend(_, false)));
        let asked = |(_, op): &(usize, Op)| matches!(op, Op::Allows(..) | Op::Spend(..));
        let last = ops.iter().rposition(asked);
        faults.check(refused.is_none() || refused == last, || {
            "asked again after a refusal".into()
        });
    }
    // A limit that has already passed and is enforced below a recovery layer prevents all sends.
    let kept_back = facts.refused || facts.cut_at == Some(story.begins.at);
    if story.has_body() || facts.misplaced || kept_back {
        return;
    }
    // What a layer answered by itself is no server's success, nor its end a failure.
    let by_server = |of: &&Attempt<'_>| of.ends.is_none() || of.broke_off || !of.fate.own_answer;
    let worked = story
        .attempts
        .iter()
        .filter(by_server)
        .filter(|of| matches!(of.verdict, Some((_, Verdict::Success))));
    let concluded = story
        .log
        .iter()
        .any(|(_, event)| matches!(event, Event::Concludes));
    let committed = story
        .attempts
        .iter()
        .filter(by_server)
        .any(|of| matches!(of.verdict, Some((_, Verdict::Committed))));
    let concludes = story.plan.concludes;
    let open = concluded && committed;
    let successes = count(|op| matches!(op, Op::Success | Op::Recovered(_)));
    let expected = worked.count() + usize::from(open && concludes == Concludes::Well);
    faults.check(successes == expected, || {
        format!("{successes} successes are counted instead of {expected}")
    });
    let failures = count(|op| matches!(op, Op::Failure(_)));
    let expected =
        counted_failures(story) + usize::from(open && concludes == Concludes::Failing(true));
    faults.check(failures == expected, || {
        format!("{failures} failures are counted instead of {expected}")
    });
}

/// Attempts that spend tokens: hedges, and retries that are not forced.
fn paid_sends(story: &Story<'_>) -> usize {
    let hedges = story.attempts.iter();
    let hedges = hedges.filter(|of| of.kind == AttemptKind::Hedge).count();
    if !matches!(story.seen.facts.acts, Acts::Retry(_)) {
        return hedges;
    }
    let pairs = story.attempts.windows(2);
    let retries = pairs.filter(|pair| {
        let forced = story.failed(&pair[0]).is_some_and(|of| of.is_forced());
        pair[1].kind == AttemptKind::Retry && !forced
    });
    retries.count()
}

fn counted_failures(story: &Story<'_>) -> usize {
    let facts = &story.seen.facts;
    let most = if facts.limit.is_some() { 1000 } else { 5 };
    let (mut once, mut never_sent, mut moved) = (false, 0, 0);
    let mut settled: Vec<_> = story
        .attempts
        .iter()
        .filter_map(|of| Some((of.verdict?.0, of)))
        .collect();
    settled.sort_unstable_by_key(|(mark, _)| *mark);
    let mut counted = 0;
    for failed in settled.iter().filter_map(|(_, of)| story.failed(of)) {
        let may = facts.transparent && !failed.stop && !matches!(facts.acts, Acts::Nothing);
        let unseen = match failed.failure.transparent {
            Transparent::Once if may => !std::mem::replace(&mut once, true),
            Transparent::NextBackend if may && moved < MOST_RECORDS => {
                moved += 1;
                true
            }
            Transparent::Unlimited if may && never_sent < most => {
                never_sent += 1;
                true
            }
            _ => false,
        };
        let counts = !failed.fatal || failed.asked_stop;
        counted += usize::from(!unseen && counts && !failed.is_forced());
    }
    counted
}
