//! Reads the servers of a scenario: their capacity, service times and faults.

use reattempt::config::{Json, Members, Place, array, boolean, integer, one_of, string, wrong};

use crate::load::{Answer, AnswerCode};
use crate::number::{above_zero, count, millis, number, seconds, share, weight};

use super::{Backend, Latency, Scenario, Trouble, TroubleKind};

pub(super) fn backend(
    place: &mut Place<'_>,
    json: Json<'_>,
    answers: &mut Vec<Answer>,
) -> Option<Backend> {
    let members = Members::of(place, json, &["servers", "queue", "latency", "faults"])?;
    let servers = members.required(place, "servers", "a number of workers", |place, json| {
        count(place, json, 0)
    });
    let queue = members.get("queue");
    let queue = queue.map(|json| count(&mut place.field("queue"), json, 0));
    let read = members.required(place, "latency", "a distribution", latency);
    let faults = members.optional(place, "faults", |place, json| {
        at_most(place, json, Scenario::MOST_FAULTS)?;
        array(place, json, "faults", |place, json| {
            trouble(place, json, answers)
        })
    });
    Some(Backend {
        servers: servers?,
        queue: match queue {
            Some(queue) => Some(queue?),
            None => None,
        },
        latency: read?,
        faults: match members.get("faults") {
            Some(_) => faults?,
            None => Vec::new(),
        },
    })
}

const FORMS: [&str; 6] = [
    "fixed_ms",
    "exponential_ms",
    "lognormal",
    "pareto",
    "samples_ms",
    "mix",
];

fn latency(place: &mut Place<'_>, json: Json<'_>) -> Option<Latency> {
    distribution(place, json, false)
}

/// `weighted`: a part of a mix, which has a weight beside its form.
fn distribution(place: &mut Place<'_>, json: Json<'_>, weighted: bool) -> Option<Latency> {
    let mut known = FORMS.to_vec();
    if weighted {
        known.push("weight");
    }
    let members = Members::of(place, json, &known)?;
    let present: Vec<&str> = FORMS
        .into_iter()
        .filter(|form| members.get(form).is_some())
        .collect();
    let [form] = present[..] else {
        return place.refuse(format!(
            "must have exactly one of {}, has {}",
            FORMS.join(", "),
            present.len()
        ));
    };
    members.optional(place, form, |place, json| match form {
        "fixed_ms" => millis(place, json).map(Latency::Fixed),
        "exponential_ms" => above_zero(place, json).map(Latency::Exponential),
        "lognormal" => {
            let members = Members::of(place, json, &["median_ms", "sigma"])?;
            let median = members.required(place, "median_ms", "a number", above_zero);
            let sigma = members.required(place, "sigma", "a number", |place, json| {
                number(place, json, "a number from 0 to 20", 0.0, 20.0)
            });
            Some(Latency::Lognormal {
                median: median?,
                sigma: sigma?,
            })
        }
        "pareto" => {
            let members = Members::of(place, json, &["min_ms", "alpha"])?;
            let min = members.required(place, "min_ms", "a number", above_zero);
            let alpha = members.required(place, "alpha", "a number", |place, json| {
                number(place, json, "a number from 0.01 to 1000", 0.01, 1000.0)
            });
            Some(Latency::Pareto {
                min: min?,
                alpha: alpha?,
            })
        }
        "samples_ms" => {
            let samples = array(place, json, "milliseconds", millis)?;
            if samples.is_empty() {
                return place.refuse("must have at least one value");
            }
            Some(Latency::Samples(samples))
        }
        _ => {
            at_most(place, json, Scenario::MOST_PARTS)?;
            let parts = array(place, json, "distributions with a weight", |place, json| {
                let part = distribution(place, json, true);
                let heavy = json.get("weight");
                let heavy = match heavy {
                    Some(json) => weight(&mut place.field("weight"), json),
                    None if part.is_some() => place
                        .field("weight")
                        .refuse("is missing: a number is needed"),
                    None => None,
                };
                Some((heavy?, part?))
            })?;
            weighed(place, parts.iter().map(|(weight, _)| *weight))?;
            Some(Latency::Mix(parts))
        }
    })
}

/// A list that is searched at each event has to be short; what is no list is refused later.
fn at_most(place: &mut Place<'_>, json: Json<'_>, most: usize) -> Option<()> {
    if json.items().is_some_and(|items| items.len() > most) {
        return place.refuse(format!("must have at most {most} items"));
    }
    Some(())
}

/// At least one of several weights has to be above zero.
pub(super) fn weighed(place: &mut Place<'_>, weights: impl Iterator<Item = f64>) -> Option<()> {
    if weights.sum::<f64>() > 0.0 {
        Some(())
    } else {
        place.refuse("must have at least one item with a weight above 0")
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Error,
    Silent,
    Slow,
    Capacity,
    Refuse,
    Limit,
}

fn trouble(place: &mut Place<'_>, json: Json<'_>, answers: &mut Vec<Answer>) -> Option<Trouble> {
    // The kind decides which members there are.
    let words = [
        ("error", Kind::Error),
        ("silent", Kind::Silent),
        ("slow", Kind::Slow),
        ("capacity", Kind::Capacity),
        ("refuse", Kind::Refuse),
        ("limit", Kind::Limit),
    ];
    if !json.is_object() {
        return wrong(place, "an object", json);
    }
    let kind = match json.get("kind").filter(|json| !json.is_null()) {
        Some(json) => one_of(&mut place.field("kind"), json, &words),
        None => place
            .field("kind")
            .refuse("is missing: the kind of fault is needed"),
    }?;
    let own: &[&str] = match kind {
        Kind::Error => &["share", "code", "pushback_ms", "after_service"],
        Kind::Silent => &["share"],
        Kind::Slow => &["factor"],
        Kind::Capacity => &["servers"],
        Kind::Refuse => &[],
        Kind::Limit => &["per_s", "burst", "code", "pushback_ms"],
    };
    let known: Vec<&str> = ["from_s", "to_s", "kind"]
        .iter()
        .chain(own)
        .copied()
        .collect();
    let members = Members::of(place, json, &known)?;
    let from = members
        .get("from_s")
        .map(|json| seconds(&mut place.field("from_s"), json));
    let to = members
        .get("to_s")
        .map(|json| seconds(&mut place.field("to_s"), json));
    let whole = |place: &mut Place<'_>| members.optional(place, "share", share).unwrap_or(1.0);
    let read = match kind {
        Kind::Error => {
            let share = whole(place);
            let after = members.optional(place, "after_service", boolean);
            Some(TroubleKind::Error {
                share,
                answer: answer(place, &members, answers)?,
                after_service: after.unwrap_or(false),
            })
        }
        Kind::Silent => Some(TroubleKind::Silent {
            share: whole(place),
        }),
        Kind::Slow => members
            .required(place, "factor", "a number", |place, json| {
                number(place, json, "a number from 0 to 1e6", 0.0, 1e6)
            })
            .map(|factor| TroubleKind::Slow { factor }),
        Kind::Capacity => members
            .required(place, "servers", "a number of workers", |place, json| {
                count(place, json, 0)
            })
            .map(|servers| TroubleKind::Capacity { servers }),
        Kind::Refuse => Some(TroubleKind::Refuse),
        Kind::Limit => {
            let rate = members.required(place, "per_s", "a number", |place, json| {
                let must = "a number from 0 to 1e7";
                number(place, json, must, 0.0, Scenario::MOST_PER_S)
            });
            let burst = members.optional(place, "burst", |place, json| {
                number(place, json, "a number from 1 to 1e9", 1.0, 1e9)
            });
            let answer = answer(place, &members, answers);
            Some(TroubleKind::Limit {
                per_s: rate?,
                burst: burst.unwrap_or(1.0),
                answer: answer?,
            })
        }
    };
    let (from, to) = (from.unwrap_or(Some(0)), to.unwrap_or(Some(u64::MAX)));
    if let (Some(from), Some(to)) = (from, to) {
        if to < from {
            place.field("to_s").wrong("must not be before from_s");
        }
    }
    Some(Trouble {
        from: from?,
        to: to?,
        kind: read?,
    })
}

/// The code and the pushback of a failure; an index of the answers.
pub(super) fn answer(
    place: &mut Place<'_>,
    members: &Members<'_>,
    answers: &mut Vec<Answer>,
) -> Option<usize> {
    let code = members.get("code").map(|json| {
        let mut place = place.field("code");
        if json.as_str().is_some() {
            string(&mut place, json).map(|name| AnswerCode::Name(name.into_owned()))
        } else {
            let must = "a code: a number or a name";
            let code = integer(&mut place, json, must, 1, 0xffff)?;
            i64::try_from(code).ok().map(AnswerCode::Number)
        }
    });
    let pushback = members.get("pushback_ms").map(|json| {
        let must = "whole milliseconds from 0 to 2147483647";
        let mut place = place.field("pushback_ms");
        let ms = integer(&mut place, json, must, 0, i32::MAX as u64)?;
        u32::try_from(ms).ok()
    });
    let answer = Answer {
        code: match code {
            Some(code) => Some(code?),
            None => None,
        },
        pushback_ms: match pushback {
            Some(ms) => Some(ms?),
            None => None,
        },
        paths: vec![place.path()],
    };
    let same =
        |known: &Answer| known.code == answer.code && known.pushback_ms == answer.pushback_ms;
    if let Some(at) = answers.iter().position(same) {
        answers[at].paths.extend(answer.paths);
        return Some(at);
    }
    if answers.len() >= Scenario::MOST_ANSWERS {
        let most = Scenario::MOST_ANSWERS;
        let what = format!("is one of more than {most} different codes and pushbacks");
        return place.refuse(what);
    }
    answers.push(answer);
    Some(answers.len() - 1)
}
