//! One entry of `methodConfig`: its names, its policy, its limits.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;
use std::time::Duration;

use reattempt::backoff::Backoff;
use reattempt::config::{Json, Members, Place};
use reattempt::strategy::MaxAttempts;
use reattempt::{OnDeadline, Recovery, RetryThrottle, RoutePolicy};
use reattempt_http::RefusedStream;

use crate::{CodeSet, MethodPolicy};

use super::retry_policy::RetryPolicy;
use super::{LearnedDelay, Options, hedging_policy, values};

/// The service config of one method.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MethodConfig {
    /// The policy that the layers read: recovery, codes, throttle, timeout.
    pub policy: Arc<RoutePolicy>,
    /// Whether calls wait for a connection (`waitForReady`); if absent, the client decides.
    pub wait_for_ready: Option<bool>,
    /// The longest request message in bytes (`maxRequestMessageBytes`).
    pub max_request_message_bytes: Option<u64>,
    /// The longest response message in bytes (`maxResponseMessageBytes`).
    pub max_response_message_bytes: Option<u64>,
}

/// Which calls an entry applies to, from the most specific to the default.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Method(String),
    Service(String),
    Default,
}

impl Name {
    fn read(place: &mut Place<'_>, json: Json<'_>) -> Option<Self> {
        let members = Members::of(place, json, &["service", "method"])?;
        let mut part = |name| match members.get(name) {
            None => Some(Cow::default()),
            Some(json) => values::string(&mut place.field(name), json),
        };
        let (service, method) = (part("service")?, part("method")?);
        match (service.is_empty(), method.is_empty()) {
            (true, true) => Some(Self::Default),
            (true, false) => place.refuse("a method needs its service"),
            (false, true) => Some(Self::Service(service.into_owned())),
            (false, false) => Some(Self::Method(format!("{service}/{method}"))),
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Method(name) | Self::Service(name) => name,
            Self::Default => "default",
        }
    }
}

/// Shared by all entries while they are parsed.
pub(super) struct Reading<'a> {
    pub(super) options: &'a Options,
    /// True if the config has `retryThrottling`.
    pub(super) throttled: bool,
    /// The names found so far, with their paths.
    pub(super) named: HashMap<Name, String>,
}

/// A parsed entry, without the bucket that all entries share.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) names: Vec<Name>,
    recovery: Recovery,
    codes: CodeSet,
    timeout: Option<Duration>,
    wait_for_ready: Option<bool>,
    max_request_message_bytes: Option<u64>,
    max_response_message_bytes: Option<u64>,
    refused: Option<RefusedStream>,
    hedge_delay: Option<LearnedDelay>,
}

impl Entry {
    pub(super) fn read(
        place: &mut Place<'_>,
        json: Json<'_>,
        reading: &mut Reading<'_>,
    ) -> Option<Self> {
        let known = [
            "name",
            "waitForReady",
            "timeout",
            "maxRequestMessageBytes",
            "maxResponseMessageBytes",
            "retryPolicy",
            "hedgingPolicy",
        ];
        let members = Members::of(place, json, &known)?;
        let names = members.optional(place, "name", |place, json| names(place, json, reading));
        let nameless = match members.get("name") {
            None => true,
            Some(names) => names.items().is_some_and(|items| items.is_empty()),
        };
        if nameless {
            place.warn("has no name, so it is for no call");
        }
        if members.get("retryPolicy").is_some() && members.get("hedgingPolicy").is_some() {
            place.wrong("has both retryPolicy and hedgingPolicy: only one may be set");
        }
        let (throttled, options) = (reading.throttled, reading.options);
        let retry = members.optional(place, "retryPolicy", |place, json| {
            RetryPolicy::read(place, json, throttled, options)
        });
        let hedge = members.optional(place, "hedgingPolicy", |place, json| {
            hedging_policy::read(place, json, throttled, options)
        });
        let (recovery, codes) = match (retry, hedge) {
            (Some(retry), _) => {
                let codes = retry.retryable_status_codes();
                (Recovery::Retry(Arc::new(retry)), codes)
            }
            (None, Some((hedge, codes))) => (Recovery::Hedge(Arc::new(hedge)), codes),
            (None, None) => (no_policy(options), CodeSet::EMPTY),
        };
        // The codes stay: failures with them count in the throttle.
        let recovery = if options.retries {
            recovery
        } else {
            no_policy(options)
        };
        Some(Self {
            names: names.unwrap_or_default(),
            recovery,
            codes,
            timeout: members.optional(place, "timeout", timeout),
            wait_for_ready: members.optional(place, "waitForReady", values::boolean),
            max_request_message_bytes: members.optional(place, "maxRequestMessageBytes", bytes),
            max_response_message_bytes: members.optional(
                place,
                "maxResponseMessageBytes",
                response_bytes,
            ),
            refused: options.refused,
            hedge_delay: options.hedge_delay,
        })
    }

    /// For calls without an entry: neither retried nor hedged, but counted.
    pub(super) fn nothing(options: &Options) -> Self {
        Self {
            names: Vec::new(),
            recovery: no_policy(options),
            codes: CodeSet::EMPTY,
            timeout: None,
            wait_for_ready: None,
            max_request_message_bytes: None,
            max_response_message_bytes: None,
            refused: options.refused,
            hedge_delay: None,
        }
    }

    /// With a hedge delay of its own, if it is learned: the one of the entry before it, so that it
    /// keeps what it learned.
    fn recovery(&self, old: Option<&MethodConfig>) -> Recovery {
        let (Recovery::Hedge(hedge), Some(learned)) = (&self.recovery, self.hedge_delay) else {
            return self.recovery.clone();
        };
        let old = old.and_then(|old| match old.policy.recovery() {
            Recovery::Hedge(hedge) if hedge.learns() => Some(Arc::clone(hedge.delay())),
            _ => None,
        });
        match old.or_else(|| learned.make()) {
            Some(delay) => Recovery::Hedge(Arc::new((**hedge).clone().delayed_by(delay))),
            None => self.recovery.clone(),
        }
    }

    /// `old`: the entry of the same name before.
    pub(super) fn named(
        &self,
        name: &Name,
        throttle: Option<&Arc<dyn RetryThrottle>>,
        old: Option<&MethodConfig>,
    ) -> Arc<MethodConfig> {
        let mut data = MethodPolicy::new(self.codes);
        data.max_request_message_bytes = self.max_request_message_bytes;
        data.max_response_message_bytes = self.max_response_message_bytes;
        data.wait_for_ready = self.wait_for_ready;
        data.refused = self.refused;
        let mut policy = RoutePolicy::new(name.as_str().to_owned())
            .with_recovery(self.recovery(old))
            .with_data(data);
        if let Some(timeout) = self.timeout {
            policy = policy.with_timeout(timeout);
        }
        if let Some(throttle) = throttle {
            policy = policy.with_throttle(Arc::clone(throttle));
        }
        Arc::new(MethodConfig {
            policy: Arc::new(policy),
            wait_for_ready: self.wait_for_ready,
            max_request_message_bytes: self.max_request_message_bytes,
            max_response_message_bytes: self.max_response_message_bytes,
        })
    }
}

fn names(place: &mut Place<'_>, json: Json<'_>, reading: &mut Reading<'_>) -> Option<Vec<Name>> {
    values::array(place, json, "objects", |place, json| {
        let name = Name::read(place, json)?;
        match reading.named.entry(name.clone()) {
            Slot::Occupied(earlier) => {
                place.wrong(format!("names the same calls as {}", earlier.get()));
            }
            Slot::Vacant(slot) => {
                slot.insert(place.path());
            }
        }
        Some(name)
    })
}

fn bytes(place: &mut Place<'_>, json: Json<'_>) -> Option<u64> {
    let must = "a whole number of bytes below 2^32";
    values::integer(place, json, must, 0, u32::MAX.into())
}

fn response_bytes(place: &mut Place<'_>, json: Json<'_>) -> Option<u64> {
    let bytes = bytes(place, json)?;
    if bytes > TONIC_RESPONSE_LIMIT {
        place.advise(
            "is above the limit of a tonic client by default, 4 MiB, beyond which it fails with OUT_OF_RANGE: set its max_decoding_message_size too",
        );
    }
    Some(bytes)
}

/// The default of tonic's `max_decoding_message_size`, which applies above the layers.
const TONIC_RESPONSE_LIMIT: u64 = 4 << 20;

fn timeout(place: &mut Place<'_>, json: Json<'_>) -> Option<Duration> {
    let timeout = values::duration(place, json, false)?;
    if timeout.is_zero() {
        place.advise("ends every call before it begins");
    }
    Some(timeout)
}

/// Neither retried nor hedged (A6, Configuration Language). `on_deadline` matters only for a
/// transparent retry.
fn no_policy(options: &Options) -> Recovery {
    match options.on_deadline {
        OnDeadline::Cap => Recovery::None,
        OnDeadline::GiveUp => {
            let once = MaxAttempts::new(1, Backoff::constant(Duration::ZERO));
            Recovery::Retry(Arc::new(once.on_deadline(OnDeadline::GiveUp)))
        }
    }
}
