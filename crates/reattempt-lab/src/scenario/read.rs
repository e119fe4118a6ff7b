//! Reads a scenario document, strictly: unknown members are faults.

use std::sync::OnceLock;

use reattempt::config::{Fault, Faults, Json, Members, Place, array, integer, one_of, wrong};

use super::bounds;
use super::calls::{arrivals, calls};
use super::servers::{answer, backend};
use super::{FORM, Pick, Scenario, Tier};
use crate::load::{Answer, CallKind};
use crate::number::{millis_as_nanos, number, seconds};
use crate::policy::Stack;

pub(super) fn read(text: &[u8]) -> Result<Scenario, Faults> {
    let faults = match FORM.read(text, scenario) {
        Ok((scenario, unknown)) if unknown.is_empty() => return Ok(scenario),
        Ok((_, unknown)) => unknown,
        Err(refused) => {
            let faults = refused.faults().iter().chain(refused.warnings());
            faults.cloned().collect()
        }
    };
    Err(Faults::new(FORM.subject, faults))
}

const KNOWN: [&str; 13] = [
    "seed",
    "duration_s",
    "warmup_s",
    "clients",
    "arrivals",
    "call",
    "policies",
    "rtt_ms",
    "tiers",
    "backends",
    "overload",
    "cancelled_work",
    "pick",
];

fn scenario(place: &mut Place<'_>, json: Json<'_>) -> Option<Scenario> {
    let members = Members::of(place, json, &KNOWN)?;
    let mut answers = Vec::new();
    let seed = members.optional(place, "seed", seed);
    let duration = members.required(place, "duration_s", "seconds", |place, json| {
        let must = "seconds above 0, up to 1e6";
        let seconds = number(place, json, must, 1e-6, Scenario::MOST_SECONDS)?;
        Some((seconds * 1e9).round() as u64)
    });
    let warmup = members.optional(place, "warmup_s", seconds);
    let clients = members.optional(place, "clients", |place, json| {
        let must = format!("a whole number from 1 to {}", Scenario::MOST_CLIENTS);
        integer(place, json, &must, 1, Scenario::MOST_CLIENTS)
    });
    let arrivals = members.required(place, "arrivals", "a list of rates", arrivals);
    let calls = match members.get("call") {
        Some(json) => calls(&mut place.field("call"), json),
        None => Some(vec![CallKind::get()]),
    };
    let policies = members.required(place, "policies", "an object", policies);
    let rtt = members.optional(place, "rtt_ms", millis_as_nanos);
    let tiers = tiers(place, &members, &mut answers);
    let overload = match members.get("overload") {
        Some(json) => {
            let mut place = place.field("overload");
            Members::of(&mut place, json, &["code", "pushback_ms"])
                .and_then(|members| answer(&mut place, &members, &mut answers))
        }
        None => {
            let of_protocol = Answer {
                code: None,
                pushback_ms: None,
                paths: vec!["$.overload".to_owned()],
            };
            answers.push(of_protocol);
            Some(answers.len() - 1)
        }
    };
    let stops = members.optional(place, "cancelled_work", |place, json| {
        one_of(place, json, &[("finishes", false), ("stops", true)])
    });
    let pick = members.optional(place, "pick", |place, json| {
        let words = [
            ("random", Pick::Random),
            ("round_robin", Pick::RoundRobin),
            ("least_loaded", Pick::LeastLoaded),
        ];
        one_of(place, json, &words)
    });
    if let (Some(warmup), Some(duration)) = (warmup, duration) {
        if warmup >= duration {
            place
                .field("warmup_s")
                .wrong("must be before the end of duration_s");
        }
    }
    let mut scenario = Scenario {
        seed: seed.unwrap_or(0),
        duration: duration?,
        warmup: warmup.unwrap_or(0),
        clients: u32::try_from(clients.unwrap_or(1)).ok()?,
        arrivals: arrivals?,
        calls: calls?,
        policies: policies?,
        rtt: rtt.unwrap_or(0),
        tiers: tiers?,
        tiered: members.get("tiers").is_some(),
        overload: overload?,
        answers,
        stops: stops.unwrap_or(false),
        pick: pick.unwrap_or(Pick::Random),
        inner_retries: OnceLock::new(),
    };
    if scenario.tiers.len() == 1 {
        let named = scenario.policies.iter_mut().map(|(_, stack)| stack);
        let of_tiers = scenario.tiers.iter_mut().flat_map(|tier| &mut tier.policy);
        for stack in named.chain(of_tiers).filter(|stack| stack.hop_marks) {
            let path = format!("{}.with.hop_marks", stack.path);
            let what = "has no effect: no server calls another one";
            stack.warnings.push(Fault::new(path, what));
        }
    }
    if !place.has_faults() {
        bounds::check(place, &scenario);
    }
    Some(scenario)
}

fn policies(place: &mut Place<'_>, json: Json<'_>) -> Option<Vec<(String, Stack)>> {
    let members = Members::any(place, json)?;
    let named: Vec<_> = members.iter().collect();
    if named.is_empty() {
        return place.refuse("must have at least one policy");
    }
    if named.len() > Scenario::MOST_POLICIES {
        let most = Scenario::MOST_POLICIES;
        return place.refuse(format!("must have at most {most} policies"));
    }
    let policies: Vec<_> = named
        .into_iter()
        .map(|(name, json)| {
            let policy = Stack::read(&mut place.field(name), json)?;
            Some((name.to_owned(), policy))
        })
        .collect();
    policies.into_iter().collect()
}

fn tiers(
    place: &mut Place<'_>,
    members: &Members<'_>,
    answers: &mut Vec<Answer>,
) -> Option<Vec<Tier>> {
    let mut backends = |place: &mut Place<'_>, json: Json<'_>| {
        let backends = array(place, json, "backends", |place, json| {
            backend(place, json, answers)
        })?;
        if backends.is_empty() {
            return place.refuse("must have at least one backend");
        }
        Some(backends)
    };
    let tiers = match (members.get("tiers"), members.get("backends")) {
        (None, _) => {
            let backends = members.required(place, "backends", "a list", backends)?;
            vec![Tier {
                policy: None,
                backends,
            }]
        }
        (Some(_), Some(_)) => {
            return place
                .field("tiers")
                .refuse("stands instead of backends: only one of both may be set");
        }
        (Some(_), None) => members.optional(place, "tiers", |place, json| {
            let tiers = array(place, json, "tiers", |place, json| {
                let members = Members::of(place, json, &["policy", "backends"])?;
                let policy = members
                    .get("policy")
                    .map(|json| Stack::read(&mut place.field("policy"), json));
                let backends = members.required(place, "backends", "a list", &mut backends);
                Some(Tier {
                    policy: match policy {
                        Some(policy) => Some(policy?),
                        None => None,
                    },
                    backends: backends?,
                })
            })?;
            if tiers.is_empty() || tiers.len() > Scenario::MOST_TIERS {
                let most = Scenario::MOST_TIERS;
                return place.refuse(format!("must have from 1 to {most} tiers"));
            }
            Some(tiers)
        })?,
    };
    let count: usize = tiers.iter().map(|tier| tier.backends.len()).sum();
    if count > Scenario::MOST_BACKENDS {
        return place.refuse(format!(
            "has {count} backends: at most {} can be simulated",
            Scenario::MOST_BACKENDS
        ));
    }
    Some(tiers)
}

/// Any number: a whole one within 64 bits is itself, and of another its bits are the seed.
fn seed(place: &mut Place<'_>, json: Json<'_>) -> Option<u64> {
    const END: f64 = (1_u128 << 64) as f64;
    let of_other = |number: f64| match number.fract() == 0.0 && (0.0..END).contains(&number) {
        true => number as u64,
        false => number.to_bits(),
    };
    let seed = json.as_number().and_then(|text| {
        let finite = || text.parse().ok().filter(|number: &f64| number.is_finite());
        text.parse().ok().or_else(|| finite().map(of_other))
    });
    seed.or_else(|| wrong(place, "a number", json))
}
