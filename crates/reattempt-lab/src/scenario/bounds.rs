//! What all parts of a scenario come to together: its codes, its memory and its result.

use reattempt::config::{Fault, Faults, Place};

use super::{FORM, Scenario};
use crate::policy::Stack;

/// Of a scenario whose members have no faults.
pub(super) fn check(place: &mut Place<'_>, scenario: &Scenario) {
    codes(place, scenario);
    processes(&mut place.field("clients"), scenario);
    if !place.has_faults() {
        healths(place, scenario);
    }
    if !place.has_faults() {
        rows(&mut place.field("duration_s"), scenario);
    }
}

/// All rows of the result are kept until it is written.
fn rows(place: &mut Place<'_>, scenario: &Scenario) {
    let seconds = (scenario.duration - scenario.warmup).div_ceil(1_000_000_000);
    let most = scenario.most_rows();
    if seconds > most {
        place.wrong(format_args!(
            "must be at most {most} s after the warm-up with {} policies, got {seconds} s",
            scenario.policies.len()
        ));
    }
}

/// The most bytes of policy text that all processes may have, each with its own copy.
const MOST_POLICY_BYTES: usize = 64 * 1024 * 1024;

/// Each process reads its policy for itself, because throttles and budgets are its own.
fn processes(place: &mut Place<'_>, scenario: &Scenario) {
    let servers = scenario.tiers.iter().map(|tier| tier.backends.len());
    // The last tier calls no other.
    let callers = servers.rev().skip(1).sum::<usize>();
    let count = scenario.clients as usize + callers;
    let named = scenario.policies.iter().map(|(_, policy)| policy);
    let of_tiers = scenario
        .tiers
        .iter()
        .filter_map(|tier| tier.policy.as_ref());
    let longest = named
        .chain(of_tiers)
        .map(|stack| stack.len())
        .max()
        .unwrap_or(0);
    let each = longest + 64 * scenario.calls.len();
    if count.saturating_mul(each) > MOST_POLICY_BYTES {
        let most = MOST_POLICY_BYTES / each;
        place.wrong(format_args!(
            "must be fewer: with policies of {longest} bytes at most {most} clients and backends can be simulated"
        ));
    }
}

/// The most pairs of a process and a backend that it calls, of whose health it knows.
const MOST_HEALTHS: usize = 1_000_000;

/// With health, each process keeps what it knows of every backend that it calls. Policies run one
/// after another.
fn healths(place: &mut Place<'_>, scenario: &Scenario) {
    let servers = |at: usize| scenario.tiers[at].backends.len();
    let pairs = |at: usize| match at.checked_sub(1) {
        None => scenario.clients as usize * servers(at),
        Some(outer) => servers(outer) * servers(at),
    };
    let of_policy = |tested: &Stack| {
        let has_health = |at: &usize| scenario.policy_of(*at, tested).has_health();
        let tiers: Vec<usize> = (0..scenario.tiers.len()).filter(has_health).collect();
        let all: usize = tiers.iter().map(|at| pairs(*at)).sum();
        Some((all, tiers.into_iter().max_by_key(|at| pairs(*at))?))
    };
    let tested = scenario.policies.iter().map(|(_, policy)| policy);
    let most = tested.filter_map(of_policy).max();
    let Some((all, largest)) = most.filter(|(all, _)| *all > MOST_HEALTHS) else {
        return;
    };
    let what = format!(
        "must be fewer: with health at most {MOST_HEALTHS} pairs of a process and a backend that it calls can be simulated, got {all}"
    );
    match largest {
        0 => place.field("clients").wrong(what),
        at => place.field("tiers").index(at).field("backends").wrong(what),
    }
}

/// Every code has to be one of every protocol that a policy has.
fn codes(root: &mut Place<'_>, scenario: &Scenario) {
    let named = scenario.policies.iter().map(|(_, policy)| policy);
    let of_tiers = scenario
        .tiers
        .iter()
        .filter_map(|tier| tier.policy.as_ref());
    let mut protocols: Vec<_> = named
        .chain(of_tiers)
        .map(|stack| stack.protocol())
        .collect();
    protocols.sort_unstable();
    protocols.dedup();
    for answer in &scenario.answers {
        for protocol in &protocols {
            if let Err(must) = protocol.code(answer.code.as_ref()) {
                let faults = answer
                    .paths
                    .iter()
                    .map(|path| Fault::new(format!("{path}.code"), format_args!("must be {must}")));
                root.include(&Faults::new(FORM.subject, faults.collect()));
            }
        }
    }
}
