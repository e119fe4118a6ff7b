//! One entry of `methodConfig`: its names, its policy, its limits.

use std::sync::Arc;
use std::time::Duration;

use reattempt::{HedgePolicy, Recovery, RoutePolicy, TokenBucket};
use reattempt_http::json::{Json, Members, Place};

use crate::{CodeSet, MethodPolicy};

use super::Options;
use super::retry_policy::{RetryPolicy, max_attempts};
use super::values;

/// What the service config says of a method.
#[derive(Clone, Debug)]
pub struct MethodConfig {
    /// The policy that layers read: recovery, codes, throttle, time limit.
    pub policy: Arc<RoutePolicy>,
    /// Whether calls wait for a connection (`waitForReady`); absent is the client's choice.
    pub wait_for_ready: Option<bool>,
    /// The longest request message in bytes (`maxRequestMessageBytes`).
    pub max_request_message_bytes: Option<u64>,
    /// The longest response message in bytes (`maxResponseMessageBytes`).
    pub max_response_message_bytes: Option<u64>,
}

/// Which calls an entry is for, from the most special to the default.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Method(String),
    Service(String),
    Default,
}

impl Name {
    pub(super) fn read(faults: &mut Place<'_>, json: &Json) -> Option<Self> {
        let members = Members::of(faults, json, &["service", "method"])?;
        let mut part = |name| match members.get(name) {
            None => Some(""),
            Some(json) => values::string(&mut faults.field(name), json),
        };
        let (service, method) = (part("service")?, part("method")?);
        match (service.is_empty(), method.is_empty()) {
            (true, true) => Some(Self::Default),
            (true, false) => {
                faults.wrong("a method needs its service");
                None
            }
            (false, true) => Some(Self::Service(service.to_owned())),
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

/// An entry, read but not yet given the names and the bucket that all entries share.
pub(super) struct Entry {
    recovery: Recovery,
    codes: CodeSet,
    timeout: Option<Duration>,
    wait_for_ready: Option<bool>,
    max_request_message_bytes: Option<u64>,
    max_response_message_bytes: Option<u64>,
}

impl Entry {
    pub(super) fn read(
        faults: &mut Place<'_>,
        members: &Members<'_>,
        options: &Options,
    ) -> Option<Self> {
        if members.get("retryPolicy").is_some() && members.get("hedgingPolicy").is_some() {
            faults.wrong("has both retryPolicy and hedgingPolicy: only one may be set");
        }
        let retry = members.optional(faults, "retryPolicy", |faults, json| {
            RetryPolicy::read(faults, json, options)
        });
        let hedge = members.optional(faults, "hedgingPolicy", |faults, json| {
            hedging_policy(faults, json, options)
        });
        let bytes = |faults: &mut Place<'_>, json| {
            values::integer(
                faults,
                json,
                "a whole number of bytes below 2^32",
                0,
                u32::MAX.into(),
            )
        };
        let (recovery, codes) = match (retry, hedge) {
            (Some(retry), _) => {
                let codes = retry.retryable_status_codes();
                (Recovery::Retry(Arc::new(retry)), codes)
            }
            (None, Some((hedge, codes))) => (Recovery::Hedge(Arc::new(hedge)), codes),
            (None, None) => (Recovery::None, CodeSet::EMPTY),
        };
        Some(Self {
            recovery,
            codes,
            timeout: members.optional(faults, "timeout", |faults, json| {
                values::duration(faults, json, false)
            }),
            wait_for_ready: members.optional(faults, "waitForReady", values::boolean),
            max_request_message_bytes: members.optional(faults, "maxRequestMessageBytes", bytes),
            max_response_message_bytes: members.optional(faults, "maxResponseMessageBytes", bytes),
        })
    }

    /// For calls that no entry is for: neither retried nor hedged, but counted.
    pub(super) const fn nothing() -> Self {
        Self {
            recovery: Recovery::None,
            codes: CodeSet::EMPTY,
            timeout: None,
            wait_for_ready: None,
            max_request_message_bytes: None,
            max_response_message_bytes: None,
        }
    }

    pub(super) fn named(
        &self,
        name: &Name,
        bucket: Option<&Arc<TokenBucket>>,
    ) -> Arc<MethodConfig> {
        let mut data = MethodPolicy::new(self.codes);
        data.max_request_message_bytes = self.max_request_message_bytes;
        data.max_response_message_bytes = self.max_response_message_bytes;
        data.wait_for_ready = self.wait_for_ready;
        let mut policy = RoutePolicy::new(name.as_str().to_owned())
            .recovery(self.recovery.clone())
            .data(data);
        if let Some(timeout) = self.timeout {
            policy = policy.call_limit(timeout);
        }
        if let Some(bucket) = bucket {
            policy = policy.throttle(Arc::clone(bucket) as _);
        }
        Arc::new(MethodConfig {
            policy: Arc::new(policy),
            wait_for_ready: self.wait_for_ready,
            max_request_message_bytes: self.max_request_message_bytes,
            max_response_message_bytes: self.max_response_message_bytes,
        })
    }
}

/// A6, Validation of hedgingPolicy.
fn hedging_policy(
    faults: &mut Place<'_>,
    json: &Json,
    options: &Options,
) -> Option<(HedgePolicy, CodeSet)> {
    let known = ["maxAttempts", "hedgingDelay", "nonFatalStatusCodes"];
    let members = Members::of(faults, json, &known)?;
    let attempts = max_attempts(faults, &members, options);
    let delay = members.optional(faults, "hedgingDelay", |faults, json| {
        values::duration(faults, json, false)
    });
    let codes = members.optional(faults, "nonFatalStatusCodes", values::codes);
    let policy = HedgePolicy::new(attempts?, delay.unwrap_or_default());
    Some((
        policy.on_deadline(options.on_deadline),
        codes.unwrap_or_default(),
    ))
}
