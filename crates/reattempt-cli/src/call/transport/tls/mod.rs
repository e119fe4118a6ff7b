//! TLS of connections, by rustls (feature `tls`).

#[cfg(feature = "tls")]
mod rustls;
#[cfg(not(feature = "tls"))]
mod without;

use super::Version;
use crate::call::document::Fields;

#[cfg(feature = "tls")]
pub(crate) use rustls::{Roots, Tls};
#[cfg(not(feature = "tls"))]
pub(crate) use without::{Roots, Tls};

/// The field `tls` of a document.
#[derive(Debug, Default)]
#[cfg_attr(
    not(feature = "tls"),
    expect(dead_code, reason = "read by `rustls` alone")
)]
struct Options {
    /// Trusted authorities instead of the system's.
    roots: Option<Roots>,
    /// Accepts any certificate.
    insecure: bool,
}

impl Tls {
    /// Reads the document's field `tls`. `None` for a target without TLS or with a fault.
    pub(crate) fn read(
        fields: &mut Fields,
        is_tls: bool,
        authority: &str,
        version: Version,
    ) -> Option<Self> {
        let is_said = fields.first_byte("tls").is_some();
        let mut nested = fields.nested("tls");
        let has_ca = nested.first_byte("ca").is_some();
        let pem = nested.optional("ca").filter(|_| is_tls);
        let options = Options {
            roots: pem.and_then(|pem: String| nested.accept("ca", Roots::of_pem(&pem))),
            insecure: nested.or("insecure", false),
        };
        let is_faulty = nested.is_faulty("ca") || nested.is_faulty("insecure");
        nested.finish();
        if !is_tls && is_said && !fields.is_faulty("target") {
            fields.wrong("tls", "the target has no TLS");
        }
        if !is_tls || is_faulty {
            return None;
        }
        if has_ca && options.insecure {
            let what = "has `ca` and `insecure`, which accepts any certificate: leave out one";
            fields.wrong("tls", what);
            return None;
        }
        let host = authority
            .rsplit_once(':')
            .map_or(authority, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        fields.accept("tls", Self::new(host, version, &options))
    }
}
