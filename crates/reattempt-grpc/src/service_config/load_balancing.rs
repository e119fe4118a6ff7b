//! `loadBalancingConfig` and `loadBalancingPolicy`. Load balancing itself happens below this stack;
//! here it is only checked that one of the policies is known, because a config that names none is
//! invalid (A21), and a policy that the client below is not known to have causes a warning.

use reattempt::config::{Json, Members, Place};

use super::Options;
use super::values;

/// The policies in gRPC's schema of the service config.
const KNOWN: [&str; 20] = [
    "pick_first",
    "round_robin",
    "weighted_round_robin",
    "grpclb",
    "priority_experimental",
    "weighted_target_experimental",
    "outlier_detection_experimental",
    "rls_experimental",
    "xds_cluster_manager_experimental",
    "cds_experimental",
    "xds_cluster_impl_experimental",
    "override_host_experimental",
    "xds_wrr_locality_experimental",
    "ring_hash_experimental",
    "least_request_experimental",
    "random_subsetting_experimental",
    "slicer_experimental",
    "xds_cluster_resolver_experimental",
    "lrs_experimental",
    "xds_experimental",
];

const MUST: &str =
    "a load balancing policy that is known here, such as \"pick_first\" or \"round_robin\"";

fn names(options: &Options) -> impl Iterator<Item = &str> {
    let own = options.load_balancing_policies.iter();
    KNOWN.into_iter().chain(own.map(String::as_str))
}

/// `loadBalancingConfig`: a list of objects with one member each, the policy's name. The first
/// known policy is used; an empty list leaves the choice to the client.
pub(super) fn config(place: &mut Place<'_>, json: Json<'_>, options: &Options) -> Option<()> {
    let Some(items) = json.items() else {
        return values::wrong(place, "an array of objects", json);
    };
    let empty = items.is_empty();
    let (mut used, mut whole) = (None, true);
    for (at, item) in items.into_iter().enumerate() {
        match name(&mut place.index(at), item) {
            Some(name) => {
                let known = used.is_none() && names(options).any(|known| known == name);
                used = if known { Some(name) } else { used };
            }
            None => whole = false,
        }
    }
    match used {
        Some(name) => warn_unless_below(place, &name, options),
        None if whole && !empty => place.wrong(format!("must name {MUST}")),
        None => {}
    }
    Some(())
}

/// A channel picks the first address by itself; what the options name the client below does.
fn warn_unless_below(place: &mut Place<'_>, name: &str, options: &Options) {
    let own = options.load_balancing_policies.iter().map(String::as_str);
    let mut below = std::iter::once("pick_first").chain(own);
    if !below.any(|below| below.eq_ignore_ascii_case(name)) {
        place.warn("has no effect here: put Backends or RoundRobin below the layer");
    }
}

fn name(place: &mut Place<'_>, json: Json<'_>) -> Option<String> {
    let members = Members::any(place, json)?;
    let mut members = members.iter();
    let (Some((name, of_policy)), None) = (members.next(), members.next()) else {
        return place.refuse("must have one member, the name of a load balancing policy");
    };
    if !of_policy.is_object() {
        return values::wrong(&mut place.field(name), "an object", of_policy);
    }
    Some(name.to_owned())
}

/// `loadBalancingPolicy`, the older form: one name, in any case.
pub(super) fn policy(place: &mut Place<'_>, json: Json<'_>, options: &Options) -> Option<()> {
    let name = values::string(place, json)?;
    let known = names(options).any(|known| known.eq_ignore_ascii_case(&name));
    if !known && !name.is_empty() {
        return values::wrong(place, MUST, json);
    }
    if !name.is_empty() {
        warn_unless_below(place, &name, options);
    }
    Some(())
}
