//! Builds the table from the document.

use std::collections::HashSet;
use std::sync::Arc;

use reattempt::throttle::{Both, HedgeBudget};
use reattempt::{Recovery, RetryThrottle, RoutePolicy, TokenBucket};

use super::entry::Entry;
use super::recovery::{self, Budget};
use super::shared::{Names, Shared};
use super::{Counted, HttpPolicies, Options};
use crate::aws::{AwsQuota, AwsVersion};
use crate::json::{self, Json, Members, Place};

/// A document without faults, parsed but not yet in a table.
pub(super) struct Document {
    entries: Vec<Entry>,
    default: Option<Entry>,
    throttles: Vec<(String, Throttle)>,
    /// In thousandths.
    budgets: Vec<(String, u32)>,
}

#[derive(Clone, Copy)]
enum Throttle {
    Tokens(Tokens),
    Aws(AwsVersion),
}

/// `maxTokens`, and `tokenRatio` in thousandths.
#[derive(Clone, Copy)]
struct Tokens {
    max: u32,
    ratio: u32,
}

impl Document {
    pub(super) fn read(place: &mut Place<'_>, json: &Json, options: &Options) -> Option<Self> {
        let members = Members::of(place, json, &["routes", "default", "throttles", "budgets"])?;
        let mut named = |name| -> Vec<(&str, &Json)> {
            let named = members.optional(place, name, Members::any);
            named.iter().flat_map(Members::iter).collect()
        };
        let (throttles, budgets) = (named("throttles"), named("budgets"));
        let mut shared = Shared {
            options,
            throttles: Names::of(&throttles),
            budgets: Names::of(&budgets),
            names: HashSet::new(),
        };
        let entries = members.optional(place, "routes", |place, json| {
            routes(place, json, &mut shared)
        });
        let default = members.optional(place, "default", |place, json| {
            Entry::read_default(place, json, &mut shared)
        });
        let throttles = members.optional(place, "throttles", |place, _| {
            read_all(place, &throttles, &shared.throttles, Throttle::read)
        });
        let budgets = members.optional(place, "budgets", |place, _| {
            read_all(place, &budgets, &shared.budgets, budget)
        });
        Some(Self {
            entries: entries.unwrap_or_default(),
            default,
            throttles: throttles.unwrap_or_default(),
            budgets: budgets.unwrap_or_default(),
        })
    }

    /// The table that replaces `old`, and what the two share.
    pub(super) fn into_policies(self, old: &HttpPolicies) -> (HttpPolicies, Carried) {
        let mut carried = Carried::default();
        let mut table = HttpPolicies {
            options: old.options.clone(),
            ..HttpPolicies::default()
        };
        for (name, throttle) in self.throttles {
            let counted = carried.throttle(throttle, old.throttles.get(&name));
            table
                .throttles
                .extend(counted.map(|counted| (name, counted)));
        }
        for (name, share) in self.budgets {
            let budget = carried.budget(share, old.budgets.get(&name));
            table.budgets.extend(budget.map(|budget| (name, budget)));
        }
        for entry in self.entries {
            let matching = entry.matching.clone();
            let policy = policy(entry, old, &mut table, &mut carried);
            table.routes.push((matching, policy));
        }
        let default = self.default;
        table.default = default.map(|entry| policy(entry, old, &mut table, &mut carried));
        (table, carried)
    }
}

/// What a table takes over from the one before it, with the parameters to apply.
#[derive(Default)]
pub(super) struct Carried {
    buckets: Vec<(Arc<TokenBucket>, Tokens)>,
    budgets: Vec<(Arc<HedgeBudget>, u32)>,
}

impl Carried {
    fn throttle(&mut self, throttle: Throttle, old: Option<&Counted>) -> Option<Counted> {
        match (throttle, old) {
            (Throttle::Tokens(tokens), Some(Counted::Tokens(bucket))) => {
                self.buckets.push((Arc::clone(bucket), tokens));
                Some(Counted::Tokens(Arc::clone(bucket)))
            }
            // The parser has checked both numbers, so this cannot fail.
            (Throttle::Tokens(Tokens { max, ratio }), _) => {
                let bucket = TokenBucket::new(max, ratio).ok()?;
                Some(Counted::Tokens(Arc::new(bucket)))
            }
            (Throttle::Aws(version), old) => {
                Some(Counted::Aws(quota(version, old.and_then(Counted::quota))))
            }
        }
    }

    fn budget(&mut self, share: u32, old: Option<&Arc<HedgeBudget>>) -> Option<Arc<HedgeBudget>> {
        let Some(old) = old else {
            return HedgeBudget::of_thousandths(share).ok().map(Arc::new);
        };
        self.budgets.push((Arc::clone(old), share));
        Some(Arc::clone(old))
    }

    /// Applies the new parameters; counts and balances are kept.
    pub(super) fn reconfigure(&self) {
        // The parser has checked all numbers, so no step can fail.
        for (bucket, Tokens { max, ratio }) in &self.buckets {
            let _ = bucket.reconfigure(*max, *ratio);
        }
        for (budget, share) in &self.budgets {
            let _ = budget.reconfigure(*share);
        }
    }
}

fn routes(place: &mut Place<'_>, json: &Json, shared: &mut Shared<'_>) -> Option<Vec<Entry>> {
    let mut at = 0;
    let mut for_all: Option<usize> = None;
    json::array(place, json, "routes", |place, json| {
        if let Some(earlier) = for_all {
            place.warn(&format!(
                "never matches, because routes[{earlier}] matches every request"
            ));
        }
        let entry = Entry::read_route(place, json, at, shared);
        if entry.as_ref().is_some_and(|entry| entry.matching.is_any()) {
            for_all.get_or_insert(at);
        }
        at += 1;
        entry
    })
}

fn policy(
    entry: Entry,
    old: &HttpPolicies,
    table: &mut HttpPolicies,
    carried: &mut Carried,
) -> Arc<RoutePolicy> {
    let mut policy = RoutePolicy::new(entry.name.clone()).with_data(entry.http);
    let mut counted = entry
        .throttle
        .and_then(|name| table.throttles.get(&name))
        .cloned();
    let mut budget = None;
    policy = match (entry.retry, entry.hedge) {
        (Some(retry), _) => {
            if let (Some(version), None) = (retry.preset, &counted) {
                let quota = quota(version, old.own_quotas.get(&entry.name));
                table.own_quotas.insert(entry.name, Arc::clone(&quota));
                counted = Some(Counted::Aws(quota));
            }
            policy.with_recovery(Recovery::Retry(retry.strategy))
        }
        (None, Some(hedge)) => {
            budget = match hedge.budget {
                Some(Budget::Shared(name)) => table.budgets.get(&name).cloned(),
                Some(Budget::Own(share)) => {
                    let own = carried.budget(share, old.own_budgets.get(&entry.name));
                    let kept = own.clone().map(|own| (entry.name, own));
                    table.own_budgets.extend(kept);
                    own
                }
                None => None,
            };
            policy.hedge(hedge.policy)
        }
        (None, None) => policy.no_recovery(),
    };
    let throttle: Option<Arc<dyn RetryThrottle>> = match (counted, budget) {
        // The bucket only checks, the budget spends: so the budget is asked second.
        (Some(Counted::Tokens(bucket)), Some(budget)) => Some(Arc::new(Both(bucket, budget))),
        // Both spend; the budget refuses far more often, and then the quota is not charged.
        (Some(Counted::Aws(quota)), Some(budget)) => Some(Arc::new(Both(budget, quota))),
        (Some(Counted::Tokens(bucket)), None) => Some(bucket),
        (Some(Counted::Aws(quota)), None) => Some(quota),
        (None, Some(budget)) => Some(budget),
        (None, None) => None,
    };
    if let Some(throttle) = throttle {
        policy = policy.with_throttle(throttle);
    }
    if let Some(limit) = entry.timeout {
        policy = policy.with_timeout(limit);
    }
    if let Some(limit) = entry.attempt_timeout {
        policy = policy.with_attempt_timeout(limit);
    }
    Arc::new(policy)
}

/// A quota of this version: with the remaining tokens of the old one if the version is the same.
fn quota(version: AwsVersion, old: Option<&Arc<AwsQuota>>) -> Arc<AwsQuota> {
    match old.filter(|old| old.version() == version) {
        Some(old) => Arc::clone(old),
        None => Arc::new(AwsQuota::new(version)),
    }
}

/// Parses the definitions that are shared by name.
fn read_all<T>(
    place: &mut Place<'_>,
    named: &[(&str, &Json)],
    names: &Names<'_>,
    read: impl Fn(&mut Place<'_>, &Json) -> Option<T>,
) -> Option<Vec<(String, T)>> {
    let read = |(name, json): &(&str, &Json)| {
        let mut place = place.field(name);
        if !names.is_used(name) {
            place.warn("no route uses it");
        }
        Some(((*name).to_owned(), read(&mut place, json)?))
    };
    // All of them are parsed, to report all faults.
    let all: Vec<_> = named.iter().map(read).collect();
    all.into_iter().collect()
}

fn budget(place: &mut Place<'_>, json: &Json) -> Option<u32> {
    let members = Members::of(place, json, &["percent"])?;
    members.required(place, "percent", "a number", recovery::percent)
}

impl Throttle {
    fn read(place: &mut Place<'_>, json: &Json) -> Option<Self> {
        let members = Members::of(place, json, &["preset", "maxTokens", "tokenRatio"])?;
        if members.get("preset").is_some() {
            for own in ["maxTokens", "tokenRatio"] {
                if members.get(own).is_some() {
                    place
                        .field(own)
                        .wrong("cannot be set together with preset, which defines it");
                }
            }
            let version = members.optional(place, "preset", recovery::preset);
            return version.map(Self::Aws);
        }
        let max = members.required(place, "maxTokens", "an integer", |place, json| {
            json::integer(place, json, "an integer from 1 to 1000", 1, 1000)
        });
        let ratio = members.required(place, "tokenRatio", "a number", json::thousandths);
        Some(Self::Tokens(Tokens {
            max: u32::try_from(max?).ok()?,
            ratio: ratio?,
        }))
    }
}
