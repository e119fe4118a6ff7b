//! Addresses in a configuration, completed with the host that the configuration came from.

use crate::cluster_config::Address;

/// Placeholder for the host that the configuration came from.
pub(super) const HOST: &str = "$HOST";

/// An address with `$HOST` replaced; `None` also if the origin is unknown.
pub(super) fn address(text: &str, origin: &str) -> Option<Address> {
    let address: Address = text.parse().ok()?;
    if address.host() == HOST {
        return (!origin.is_empty()).then(|| address.with_host(origin));
    }
    (!address.host().contains('$')).then_some(address)
}
