//! The rules.

use std::collections::BTreeSet;
use std::time::Duration;

use reattempt::{ServerPushback, Verdict};

use super::found::{Found, found};
use super::probe::{Probe, holds_back};
use super::throttles;
use crate::policy::Protocol;
use crate::scenario::{InnerRetries, Scenario, TroubleKind};

pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) check: fn(&Probe<'_>, Option<&Scenario>) -> Found,
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "attempt-limit",
        check: attempt_limit,
    },
    Rule {
        name: "never-fits",
        check: never_fits,
    },
    Rule {
        name: "hedge-below-median",
        check: hedge_below_median,
    },
    Rule {
        name: "retries-multiply",
        check: retries_multiply,
    },
    Rule {
        name: "no-throttle",
        check: no_throttle,
    },
    Rule {
        name: "request-fed-budget",
        check: throttles::request_fed_budget,
    },
    Rule {
        name: "no-jitter",
        check: no_jitter,
    },
    Rule {
        name: "not-idempotent",
        check: not_idempotent,
    },
    Rule {
        name: "retry-after-herd",
        check: retry_after_herd,
    },
    Rule {
        name: "tiny-throttle",
        check: throttles::tiny_throttle,
    },
    Rule {
        name: "unearned-budget",
        check: throttles::unearned_budget,
    },
];

/// The whole call's limit: the policy's, and the smallest of the scenario's calls of this route.
fn timeout(probe: &Probe<'_>) -> Option<Duration> {
    let limits = [probe.limit(), probe.policy().timeout()];
    limits.into_iter().flatten().min()
}

fn attempt_limit(probe: &Probe<'_>, _: Option<&Scenario>) -> Found {
    let each = probe.policy().attempt_timeout()?;
    let whole = timeout(probe)?;
    // A hedge is sent while an attempt hangs, a retry only after it.
    if each < whole || probe.retries().is_none() {
        return None;
    }
    found(
        ".attemptTimeout",
        format!(
            "the limit of each attempt ({each:?}) is not below that of the call ({whole:?}): no second attempt follows one that hangs"
        ),
    )
}

fn never_fits(probe: &Probe<'_>, _: Option<&Scenario>) -> Found {
    let whole = timeout(probe)?;
    let delays = probe.delays();
    let mut passed = Duration::ZERO;
    for (retry, delay) in delays.get(1)?.iter().enumerate() {
        passed = passed.saturating_add(*delay);
        if passed >= whole {
            let most = probe.retries()?;
            let attempt = retry + 2;
            // Without a maximum the deadline is what ends the attempts.
            if most == u32::MAX && retry > 0 {
                return None;
            }
            return found(
                probe.member(),
                format!(
                    "attempt {attempt} is sent {passed:?} after the first failure on the average, and the call ends after {whole:?}"
                ),
            );
        }
    }
    None
}

fn hedge_below_median(probe: &Probe<'_>, scenario: Option<&Scenario>) -> Found {
    let hedge = probe.hedge().filter(|hedge| probe.may_send(hedge));
    let delay = hedge?.delay().fixed()?;
    let Some(scenario) = scenario else {
        if delay.is_zero() {
            return found(
                probe.member(),
                "all attempts of every call are sent at once",
            );
        }
        return None;
    };
    let mut tiers = &scenario.tiers[scenario.tested_tier()?..];
    if inner_retries(scenario).hedged {
        tiers = &tiers[..1];
    }
    // A tier that calls another one answers no faster than it.
    let shares = (1..).zip(tiers).map(|(hops, tier)| {
        let rtt = Duration::from_nanos(scenario.rtt).saturating_mul(hops);
        let ms = delay.saturating_sub(rtt).as_secs_f64() * 1e3;
        let within = tier.backends.iter().map(|one| one.latency.share_within(ms));
        within.sum::<f64>() / tier.backends.len() as f64
    });
    let share = shares.fold(1.0, f64::min);
    if share >= 0.5 {
        return None;
    }
    found(
        probe.member(),
        format!(
            "at least {:.0} % of the calls are slower than the delay of {delay:?} when all is well, and a hedge is due for each of them: set it above the median, near the 95th percentile",
            (1.0 - share) * 100.0
        ),
    )
}

pub(super) fn inner_retries(scenario: &Scenario) -> InnerRetries {
    let find = || {
        let mut found = InnerRetries::default();
        let mut marked = true;
        let first = scenario.tested_tier().unwrap_or(scenario.tiers.len());
        for tier in scenario.tiers.iter().skip(first + 1) {
            // A tier without a policy of its own has the one under test, with its marks.
            let policy = tier.policy.as_ref();
            marked &= policy.is_none_or(|policy| policy.hop_marks);
            let own = policy.map(|policy| Probe::all(policy, &[]));
            let any =
                |has: fn(&Probe<'_>) -> bool| own.as_ref().is_some_and(|own| own.iter().any(has));
            if own.is_none() || any(|one| one.retries().is_some()) {
                found.any = true;
                found.unmarked |= !marked;
            }
            found.hedged |= any(|one| one.hedge().is_some());
        }
        found
    };
    *scenario.inner_retries.get_or_init(find)
}

fn retries_multiply(probe: &Probe<'_>, scenario: Option<&Scenario>) -> Found {
    let most = probe.retries()?;
    if !inner_retries(scenario?).any || probe.is_throttled() {
        return None;
    }
    let times = if most == u32::MAX {
        "any number of".to_owned()
    } else {
        most.to_string()
    };
    found(
        probe.member(),
        format!(
            "the servers of this call retry too, so that the last hop gets up to {times} times their attempts: retry at one hop, or throttle"
        ),
    )
}

fn no_throttle(probe: &Probe<'_>, _: Option<&Scenario>) -> Found {
    if probe.is_throttled() {
        return None;
    }
    if let Some(hedge) = probe.hedge() {
        let text = if holds_back(&**hedge.delay()) {
            "no throttle or budget holds back the hedges that follow a failure"
        } else {
            "no throttle or budget holds the hedges back when all servers are slow or fail"
        };
        return found(probe.member(), text);
    }
    let most = probe.retries()?;
    let load = if most == u32::MAX {
        "any number of attempts".to_owned()
    } else {
        format!("up to {most} attempts")
    };
    found(
        probe.member(),
        format!(
            "no throttle: servers that fail receive {load} per call just when they are overloaded"
        ),
    )
}

fn no_jitter(probe: &Probe<'_>, _: Option<&Scenario>) -> Found {
    probe.retries()?;
    let delays = probe.delays();
    let (low, high) = (delays.first()?, delays.last()?);
    let longest = low.iter().max()?;
    if low != high || *longest < Duration::from_millis(20) {
        return None;
    }
    let place = match probe.protocol {
        Protocol::Http => ".retry.backoff.jitter".to_owned(),
        _ => probe.member().to_owned(),
    };
    Some((
        place,
        "the delays have no jitter: calls that fail together come back together".to_owned(),
    ))
}

fn not_idempotent(probe: &Probe<'_>, _: Option<&Scenario>) -> Found {
    if !probe.repeats() {
        return None;
    }
    // Codes that do not say that the request was not carried out.
    let (codes, place): (Vec<i32>, _) = match probe.protocol {
        Protocol::Http => (vec![408, 500, 502, 503, 504], ".retry.safeStatuses"),
        Protocol::Grpc => (vec![2, 4, 13, 15], ".retryPolicy.retryableStatusCodes"),
        Protocol::Kv => return None,
    };
    let safe = |code: &i32| matches!(probe.verdict(*code), Verdict::Retry(failure) if failure.safe);
    let listed: Vec<String> = codes
        .iter()
        .filter(|code| safe(code))
        .map(i32::to_string)
        .collect();
    if listed.is_empty() || (probe.protocol == Protocol::Grpc && probe.hedge().is_some()) {
        return None;
    }
    found(
        place,
        format!(
            "requests that are not idempotent are sent again after {}, which a server also answers after it has carried them out",
            listed.join(", ")
        ),
    )
}

fn retry_after_herd(probe: &Probe<'_>, scenario: Option<&Scenario>) -> Found {
    let scenario = scenario?;
    if probe.protocol != Protocol::Http {
        return None;
    }
    probe.retries()?;
    // Servers do not pass a pushback on: only those count that are called under this policy.
    let called = scenario.tiers.iter().filter(|tier| tier.policy.is_none());
    let backends = called.flat_map(|tier| &tier.backends);
    let troubles = backends.flat_map(|backend| &backend.faults);
    let of_limits = troubles.filter_map(|trouble| match trouble.kind {
        TroubleKind::Limit { answer, .. } => Some(answer),
        _ => None,
    });
    let of_limits: BTreeSet<usize> = of_limits.collect();
    // The delay that a rate limiter tells is the same for all.
    let is_shared = |answer: &usize| {
        let answer = &scenario.answers[*answer];
        let code = probe.protocol.code(answer.code.as_ref()).ok();
        let (Some(code), Some(ms)) = (code, answer.pushback_ms) else {
            return false;
        };
        let is_retried = matches!(probe.verdict(code), Verdict::Retry(_));
        let [low, high] = probe.pushbacks(code, ms);
        is_retried && matches!(low, Some(ServerPushback::After(_))) && low == high
    };
    if !of_limits.iter().any(is_shared) {
        return None;
    }
    found(
        ".retryAfter.spread",
        "a rate limiter tells all clients the same delay, and no spread is added: they return at one instant, and are refused again",
    )
}
