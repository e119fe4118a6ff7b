//! A service config that was parsed without faults and is not in force yet.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use reattempt::config::{Fault, Faults, Json, Members, Place};
use reattempt::{RetryThrottle, TokenBucket};

use super::method::{Entry, Name, Reading};
use super::{FORM, Options, ServiceConfig, Tables, load_balancing, values};

/// The document. It does not touch the bucket; the caller does when it puts the document in force.
#[derive(Clone, Debug)]
pub(super) struct Document {
    entries: Vec<Entry>,
    /// Applies to calls without an entry.
    nothing: Entry,
    /// `None` also if the options have a throttle, so that there is no bucket that does not act.
    pub(super) throttling: Option<RetryThrottling>,
    /// Of the options: instead of the bucket.
    throttle: Option<Arc<dyn RetryThrottle>>,
    pub(super) warnings: Vec<Fault>,
}

/// `retryThrottling`, validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RetryThrottling {
    max_tokens: u32,
    /// `tokenRatio` in thousandths.
    milli_ratio: u32,
}

impl Document {
    pub(super) fn parse(text: &str, options: &Options) -> Result<Self, Faults> {
        let (mut document, warnings) =
            FORM.read(text, |place, json| Self::read(place, json, options))?;
        document.warnings = warnings;
        Ok(document)
    }

    /// `{}`: applies while there is no config.
    pub(super) fn empty(options: &Options) -> Self {
        Self {
            entries: Vec::new(),
            nothing: Entry::nothing(options),
            throttling: None,
            throttle: options.throttle.clone(),
            warnings: Vec::new(),
        }
    }

    fn read(place: &mut Place<'_>, json: Json<'_>, options: &Options) -> Option<Self> {
        let known = [
            "loadBalancingPolicy",
            "loadBalancingConfig",
            "healthCheckConfig",
            "methodConfig",
            "retryThrottling",
        ];
        let members = Members::of(place, json, &known)?;
        members.optional(place, "loadBalancingPolicy", |place, json| {
            load_balancing::policy(place, json, options)
        });
        members.optional(place, "loadBalancingConfig", |place, json| {
            load_balancing::config(place, json, options)
        });
        members.optional(place, "healthCheckConfig", |place, json| {
            let members = Members::of(place, json, &["serviceName"])?;
            members.optional(place, "serviceName", values::string)?;
            place.warn(
                "has no effect here: no health checks are sent; put Backends below the layer, which judges backends by their calls",
            );
            Some(())
        });
        let mut reading = Reading {
            options,
            throttled: members.get("retryThrottling").is_some() || options.throttle.is_some(),
            named: HashMap::new(),
        };
        let entries = members.optional(place, "methodConfig", |place, json| {
            values::array(place, json, "objects", |place, json| {
                Entry::read(place, json, &mut reading)
            })
        });
        let throttling = members.optional(place, "retryThrottling", RetryThrottling::read);
        if options.throttle.is_some() && members.get("retryThrottling").is_some() {
            let mut place = place.field("retryThrottling");
            place.warn("has no effect, because the client's options have a throttle");
        }
        Some(Self {
            entries: entries.unwrap_or_default(),
            throttling: throttling.filter(|_| options.throttle.is_none()),
            ..Self::empty(options)
        })
    }

    /// The tables; all policies share this bucket, unless the options have another throttle. `old`:
    /// the config before it.
    pub(super) fn config(
        &self,
        bucket: Option<Arc<TokenBucket>>,
        old: Option<&ServiceConfig>,
    ) -> ServiceConfig {
        let of_config = || {
            bucket
                .clone()
                .map(|bucket| bucket as Arc<dyn RetryThrottle>)
        };
        let throttle = self.throttle.clone().or_else(of_config);
        let mut tables = Tables {
            methods: BTreeMap::new(),
            services: BTreeMap::new(),
            default: self.nothing.named(&Name::Default, throttle.as_ref(), None),
            warnings: self.warnings.clone(),
        };
        let old = old.map(|old| &*old.tables);
        for entry in &self.entries {
            for name in &entry.names {
                let old = old.and_then(|old| match name {
                    Name::Method(name) => old.methods.get(name),
                    Name::Service(name) => old.services.get(name),
                    Name::Default => Some(&old.default),
                });
                let old = old.map(|old| &**old);
                let method = entry.named(name, throttle.as_ref(), old);
                match name {
                    Name::Method(name) => drop(tables.methods.insert(name.clone(), method)),
                    Name::Service(name) => drop(tables.services.insert(name.clone(), method)),
                    Name::Default => tables.default = method,
                }
            }
        }
        ServiceConfig {
            tables: Arc::new(tables),
            bucket,
        }
    }
}

impl RetryThrottling {
    /// A6, Validation of retryThrottling.
    fn read(place: &mut Place<'_>, json: Json<'_>) -> Option<Self> {
        let members = Members::of(place, json, &["maxTokens", "tokenRatio"])?;
        let max = members.required(place, "maxTokens", "an integer", |place, json| {
            values::integer(place, json, "an integer from 1 to 1000", 1, 1000)
        });
        let ratio = members.required(place, "tokenRatio", "a number", values::thousandths);
        Some(Self {
            max_tokens: u32::try_from(max?).ok()?,
            milli_ratio: ratio?,
        })
    }

    /// A full bucket.
    pub(super) fn bucket(self) -> Option<Arc<TokenBucket>> {
        // Both numbers were validated.
        TokenBucket::new(self.max_tokens, self.milli_ratio)
            .ok()
            .map(Arc::new)
    }

    /// Applies these numbers to the bucket and keeps its fill fraction.
    pub(super) fn reconfigure(self, bucket: &TokenBucket) {
        // Cannot fail, as above.
        let _ = bucket.reconfigure(self.max_tokens, self.milli_ratio);
    }
}
