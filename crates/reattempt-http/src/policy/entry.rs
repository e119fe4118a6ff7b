//! One route of the document, parsed but not yet in the table.

use std::time::Duration;

use reattempt::config::{self, Json, Members, Place};

use super::matching::Matching;
use super::members;
use super::recovery::{self, Hedge, Retry};
use super::shared::Shared;
use crate::aws::AwsVersion;
use crate::{HttpPushback, HttpRoute, IdempotencyKeys, RefusedStream};

/// The settings of a route (or of the default).
pub(super) struct Entry {
    pub(super) name: String,
    /// The name is its place among the routes.
    pub(super) is_unnamed: bool,
    pub(super) matching: Matching,
    pub(super) retry: Option<Retry>,
    pub(super) hedge: Option<Hedge>,
    pub(super) http: HttpRoute,
    pub(super) timeout: Option<Duration>,
    pub(super) attempt_timeout: Option<Duration>,
    pub(super) throttle: Option<String>,
}

const DEFAULT: &str = "default";

impl Entry {
    pub(super) fn read_route(
        place: &mut Place<'_>,
        json: Json<'_>,
        at: usize,
        shared: &mut Shared<'_>,
    ) -> Option<Self> {
        let known = [members::ROUTE, members::SETTINGS].concat();
        let members = Members::of(place, json, &known)?;
        let name = members.optional(place, "name", |place, json| {
            let name = config::string(place, json)?.into_owned();
            if name == DEFAULT {
                place.wrong("\"default\" is the name of the default");
            } else if name.starts_with("routes[") {
                place.wrong(format!("{name:?} is of the form of routes without a name"));
            } else if !shared.names.insert(name.clone()) {
                place.wrong(format!("{name:?} is the name of another route already"));
            }
            Some(name)
        });
        let mut matching = members.optional(place, "match", Matching::read);
        if members.get("match").is_none() {
            // A route with `Match`, for example, would match everything.
            if let Some(like) = members.like("match") {
                place.warn(format!("has {like:?} and no match: no request matches"));
                matching = Some(Matching::none());
            } else {
                warn_of_null(place, &members, &[("match", "every request matches")]);
            }
        }
        let is_unnamed = name.is_none();
        let name = name.unwrap_or_else(|| format!("routes[{at}]"));
        let matching = matching.unwrap_or_default();
        let entry = Self::read(place, &members, name, matching, shared)?;
        Some(Self {
            is_unnamed,
            ..entry
        })
    }

    pub(super) fn read_default(
        place: &mut Place<'_>,
        json: Json<'_>,
        shared: &mut Shared<'_>,
    ) -> Option<Self> {
        let members = Members::of(place, json, members::SETTINGS)?;
        Self::read(
            place,
            &members,
            DEFAULT.to_owned(),
            Matching::default(),
            shared,
        )
    }

    fn read(
        place: &mut Place<'_>,
        members: &Members<'_>,
        name: String,
        matching: Matching,
        shared: &mut Shared<'_>,
    ) -> Option<Self> {
        let (retries, hedges) = (members.get("retry"), members.get("hedge"));
        if retries.is_some() && hedges.is_some() {
            place.wrong("has both retry and hedge: only one may be set");
        }
        let sends_again = retries.is_some() || hedges.is_some();
        if !sends_again {
            warn_of_null(
                place,
                members,
                &[
                    ("retry", "calls are sent once; write {} for the defaults"),
                    ("hedge", "calls are sent once"),
                ],
            );
        }
        shared.throttles.entry(sends_again);
        let throttle = members.optional(place, "throttle", |place, json| {
            let throttles = &mut shared.throttles;
            throttles.named(place, json, "throttles", sends_again)
        });
        let options = shared.options;
        let retry = members.optional(place, "retry", |place, json| {
            Retry::read(place, json, throttle.is_some(), options)
        });
        let hedge = members.optional(place, "hedge", |place, json| {
            Hedge::read(place, json, matching.may_be_unsafe(), shared)
        });
        // Sets only what the document says: the rest is as the layers were built.
        let mut status = match (&retry, &hedge) {
            (Some(retry), _) => retry.status,
            (None, Some(hedge)) => hedge.status,
            (None, None) => crate::HttpClassifier::new(),
        };
        let refused = members.optional(place, "refused", |place, json| {
            config::one_of(place, json, RefusedStream::ALL)
        });
        if let Some(refused) = refused {
            status = status.refused(refused);
        }
        let mut http = HttpRoute::new().with_classifier(status);
        let amz = retry.as_ref().and_then(|retry| retry.preset) == Some(AwsVersion::V2_1);
        let settings = members.optional(place, "retryAfter", |place, json| {
            recovery::retry_after(place, json, options)
        });
        match (settings, amz) {
            (Some(settings), true) => http = http.with_pushback(settings.also_amz()),
            (Some(settings), false) => http = http.with_pushback(settings),
            (None, true) => http = http.with_pushback(HttpPushback::amz()),
            (None, false) => {}
        }
        let limit = |place: &mut Place<'_>, json| config::duration(place, json, true);
        let timeout = members.optional(place, "timeout", limit);
        let attempt_timeout = members.optional(place, "attemptTimeout", limit);
        if let (Some(call), Some(attempt)) = (timeout, attempt_timeout) {
            if attempt >= call {
                place
                    .field("attemptTimeout")
                    .warn("has no effect, because it is not below timeout");
            }
        }
        if let Some(timeout) = members.optional(place, "bodyTimeout", limit) {
            http = http.with_body_timeout(timeout);
        }
        let bytes = members.optional(place, "bodyLimit", |place, json| {
            let must = "a whole number of bytes below 2^32";
            config::integer(place, json, must, 0, u32::MAX.into())
        });
        if let Some(bytes) = bytes {
            http = http.with_body_limit(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        let keys = members.optional(place, "idempotencyKey", |place, json| {
            idempotency_keys(place, json, &matching)
        });
        if let Some(keys) = keys {
            http = http.with_idempotency_key(keys);
        }
        Some(Self {
            name,
            is_unnamed: false,
            matching,
            retry,
            hedge,
            http,
            timeout,
            attempt_timeout,
            throttle,
        })
    }
}

/// In YAML a name without a value is null, and more likely means something else than its absence.
/// `then`: what follows from the absence of each name.
pub(super) fn warn_of_null(place: &mut Place<'_>, members: &Members<'_>, then: &[(&str, &str)]) {
    for (name, _) in members.iter().filter(|(_, json)| json.is_null()) {
        if let Some((_, then)) = then.iter().find(|(known, _)| *known == name) {
            let said = format!("is null, which counts as absent: {then}");
            place.field(name).warn(said);
        }
    }
}

fn idempotency_keys(
    place: &mut Place<'_>,
    json: Json<'_>,
    matching: &Matching,
) -> Option<IdempotencyKeys> {
    if let Some(honour) = json.as_bool() {
        return Some(honour.into());
    }
    if json.as_str().as_deref() != Some("generate") {
        return config::wrong(place, "true, false or \"generate\"", json);
    }
    if !IdempotencyKeys::GENERATED_FOR
        .iter()
        .any(|method| matching.may_have(method))
    {
        place.warn("generates no key, because match has neither POST nor PATCH");
    }
    Some(IdempotencyKeys::Generate)
}
