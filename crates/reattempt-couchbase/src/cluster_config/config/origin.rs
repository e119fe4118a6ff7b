//! Addresses as a configuration writes them, with the host that it was got from.

use crate::cluster_config::Address;

/// Stands for the host that the configuration was got from.
pub(super) const HOST: &str = "$HOST";

/// An address with `$HOST` filled in; `None` also if the origin is not known.
pub(super) fn address(text: &str, origin: &str) -> Option<Address> {
    let address: Address = text.parse().ok()?;
    if address.host() == HOST {
        return (!origin.is_empty()).then(|| address.with_host(origin));
    }
    (!address.host().contains('$')).then_some(address)
}
