//! Reads the load of a scenario: when calls arrive, and which.

use reattempt::config::{Json, Members, Place, array, boolean, string, wrong};

use super::Scenario;
use super::servers::weighed;
use crate::load::CallKind;
use crate::number::{millis_as_nanos, number, seconds, weight};

pub(super) fn arrivals(place: &mut Place<'_>, json: Json<'_>) -> Option<Vec<(u64, f64)>> {
    let arrivals = array(place, json, "rates", |place, json| {
        let members = Members::of(place, json, &["from_s", "per_s"])?;
        let from = members
            .get("from_s")
            .map(|json| seconds(&mut place.field("from_s"), json));
        let rate = members.required(place, "per_s", "calls a second", |place, json| {
            number(
                place,
                json,
                "calls a second from 0 to 1e7",
                0.0,
                Scenario::MOST_PER_S,
            )
        });
        Some((from.unwrap_or(Some(0))?, rate?))
    })?;
    if arrivals.is_empty() {
        return place.refuse("must have at least one rate");
    }
    for at in 1..arrivals.len() {
        if arrivals[at].0 <= arrivals[at - 1].0 {
            place
                .index(at)
                .field("from_s")
                .wrong("must be after the one before");
        }
    }
    Some(arrivals)
}

pub(super) fn calls(place: &mut Place<'_>, json: Json<'_>) -> Option<Vec<CallKind>> {
    if json.items().is_none() {
        return call(place, json).map(|kind| vec![kind]);
    }
    let kinds = array(place, json, "calls", call)?;
    if kinds.is_empty() || kinds.len() > Scenario::MOST_KINDS {
        return place.refuse(format!(
            "must have from 1 to {} items",
            Scenario::MOST_KINDS
        ));
    }
    weighed(place, kinds.iter().map(|kind| kind.weight))?;
    Some(kinds)
}

fn call(place: &mut Place<'_>, json: Json<'_>) -> Option<CallKind> {
    let known = ["method", "path", "idempotent", "timeout_ms", "weight"];
    let members = Members::of(place, json, &known)?;
    let mut kind = CallKind::get();
    let method = members.optional(place, "method", |place, json| {
        let method = string(place, json)?;
        // Methods are compared by case: get is not GET, and is not idempotent.
        let token = |method: &&str| {
            let is_lower = method.bytes().any(|byte| byte.is_ascii_lowercase());
            !is_lower && http::Method::from_bytes(method.as_bytes()).is_ok()
        };
        // A gRPC method may be written here, as in `call`.
        match Some(&*method).filter(|method| token(method) || method.starts_with('/')) {
            Some(method) => Some(method.to_owned()),
            None => wrong(place, "a method in capitals such as \"GET\"", json),
        }
    });
    let path = members.optional(place, "path", |place, json| {
        let path = string(place, json)?;
        match path.starts_with('/') && path.parse::<http::Uri>().is_ok() {
            true => Some(path.into_owned()),
            false => wrong(
                place,
                "a path such as \"/\" or \"/pkg.Service/Method\"",
                json,
            ),
        }
    });
    let idempotent = members.optional(place, "idempotent", boolean);
    let timeout = members.optional(place, "timeout_ms", millis_as_nanos);
    let share = members.optional(place, "weight", weight);
    match (method, path) {
        (Some(method), path) if method.starts_with('/') => {
            if path.is_some() {
                place.wrong("has a gRPC method both in method and in path: only one may be set");
            }
            kind.path = method;
        }
        (method, path) => {
            kind.method = method.unwrap_or(kind.method);
            kind.path = path.unwrap_or(kind.path);
        }
    }
    Some(CallKind {
        weight: share.unwrap_or(1.0),
        idempotent,
        timeout,
        ..kind
    })
}
