//! From the document to the table.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use reattempt::throttle::{Both, HedgeBudget};
use reattempt::{RetryThrottle, RoutePolicy, TokenBucket};

use super::entry::{Entry, Shared};
use super::{HttpPolicies, Options};
use crate::json::{self, Json, Members, Place};

/// A document without faults, read but not yet put into a table.
pub(super) struct Document {
    entries: Vec<Entry>,
    default: Option<Entry>,
    throttles: Vec<(String, Throttle)>,
}

/// `maxTokens`, and `tokenRatio` in thousandths.
#[derive(Clone, Copy)]
struct Throttle {
    max: u32,
    ratio: u32,
}

impl Document {
    pub(super) fn read(place: &mut Place<'_>, json: &Json, options: &Options) -> Option<Self> {
        let members = Members::of(place, json, &["routes", "default", "throttles"])?;
        let named = members.optional(place, "throttles", Members::any);
        let named: Vec<(&str, &Json)> = named.iter().flat_map(Members::iter).collect();
        let mut shared = Shared {
            options,
            throttles: named.iter().map(|(name, _)| *name).collect(),
            counted: HashSet::new(),
            names: HashSet::new(),
        };
        let entries = members.optional(place, "routes", |place, json| {
            routes(place, json, &mut shared)
        });
        let default = members.optional(place, "default", |place, json| {
            Entry::read_default(place, json, &mut shared)
        });
        let throttles = members.optional(place, "throttles", |place, _| {
            let read = |(name, json): &(&str, &Json)| {
                let mut place = place.field(name);
                if !shared.counted.contains(name) {
                    place.warn("no route counts in it");
                }
                Some(((*name).to_owned(), Throttle::read(&mut place, json)?))
            };
            // All of them are read, so that all faults are told.
            let throttles: Vec<_> = named.iter().map(read).collect();
            throttles.into_iter().collect::<Option<Vec<_>>>()
        });
        Some(Self {
            entries: entries.unwrap_or_default(),
            default,
            throttles: throttles.unwrap_or_default(),
        })
    }

    /// The table that follows `old`, and what the two share.
    pub(super) fn into_policies(self, old: &HttpPolicies) -> (HttpPolicies, Carried) {
        let mut carried = Carried::default();
        let throttles = self.throttles.into_iter().filter_map(|(name, throttle)| {
            let bucket = match old.throttles.get(&name) {
                Some(bucket) => {
                    carried.buckets.push((Arc::clone(bucket), throttle));
                    Arc::clone(bucket)
                }
                // The reader has checked both numbers, so that this cannot fail.
                None => Arc::new(TokenBucket::new(throttle.max, throttle.ratio).ok()?),
            };
            Some((name, bucket))
        });
        let mut table = HttpPolicies {
            routes: Vec::new(),
            default: None,
            throttles: throttles.collect(),
            budgets: HashMap::new(),
            options: old.options.clone(),
        };
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

/// What a table has from the one before it, with the numbers that hold once it is in force.
#[derive(Default)]
pub(super) struct Carried {
    buckets: Vec<(Arc<TokenBucket>, Throttle)>,
    budgets: Vec<(Arc<HedgeBudget>, u32)>,
}

impl Carried {
    fn budget(&mut self, share: u32, old: Option<&Arc<HedgeBudget>>) -> Option<Arc<HedgeBudget>> {
        let Some(old) = old else {
            return HedgeBudget::of_thousandths(share).ok().map(Arc::new);
        };
        self.budgets.push((Arc::clone(old), share));
        Some(Arc::clone(old))
    }

    /// From now on the new numbers hold; what was counted and saved stays.
    pub(super) fn reconfigure(&self) {
        // The reader has checked all numbers, so that no step can fail.
        for (bucket, Throttle { max, ratio }) in &self.buckets {
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
                "is never asked, because routes[{earlier}] is for every request"
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
    let mut policy = RoutePolicy::new(entry.name.clone()).data(entry.http);
    let bucket = entry
        .throttle
        .and_then(|name| table.throttles.get(&name))
        .cloned();
    let mut budget = None;
    policy = match (entry.retry, entry.hedge) {
        (Some(retry), _) => policy.retry(retry.strategy),
        (None, Some(hedge)) => {
            budget = hedge
                .budget
                .and_then(|share| carried.budget(share, old.budgets.get(&entry.name)));
            policy.hedge(hedge.policy)
        }
        (None, None) => policy.no_recovery(),
    };
    if let Some(budget) = &budget {
        table.budgets.insert(entry.name, Arc::clone(budget));
    }
    let throttle: Option<Arc<dyn RetryThrottle>> = match (bucket, budget) {
        // The bucket only looks, the budget spends: it is asked second.
        (Some(bucket), Some(budget)) => Some(Arc::new(Both(bucket, budget))),
        (Some(bucket), None) => Some(bucket),
        (None, Some(budget)) => Some(budget),
        (None, None) => None,
    };
    if let Some(throttle) = throttle {
        policy = policy.throttle(throttle);
    }
    if let Some(limit) = entry.timeout {
        policy = policy.call_limit(limit);
    }
    if let Some(limit) = entry.attempt_timeout {
        policy = policy.attempt_limit(limit);
    }
    Arc::new(policy)
}

impl Throttle {
    fn read(place: &mut Place<'_>, json: &Json) -> Option<Self> {
        let members = Members::of(place, json, &["maxTokens", "tokenRatio"])?;
        let max = members.required(place, "maxTokens", "an integer", |place, json| {
            json::integer(place, json, "an integer from 1 to 1000", 1, 1000)
        });
        let ratio = members.required(place, "tokenRatio", "a number", json::thousandths);
        Some(Self {
            max: u32::try_from(max?).ok()?,
            ratio: ratio?,
        })
    }
}
