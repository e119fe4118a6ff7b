//! TLS of connections, by rustls (feature `tls`).

#[cfg(feature = "tls")]
mod rustls;
#[cfg(not(feature = "tls"))]
mod without;

use super::Version;
use crate::call::document::{Fault, Fields};

#[cfg(feature = "tls")]
pub(crate) use rustls::Tls;
#[cfg(not(feature = "tls"))]
pub(crate) use without::Tls;

/// The field `tls` of a document.
#[derive(Debug, Default)]
#[cfg_attr(
    not(feature = "tls"),
    expect(dead_code, reason = "read by `rustls` alone")
)]
struct Options {
    /// Trusted authorities as PEM, instead of the system's.
    ca: Option<String>,
    /// Accepts any certificate.
    insecure: bool,
}

impl Tls {
    /// Reads the document's field `tls`. `None` for a target without TLS.
    pub(crate) fn read(
        fields: &mut Fields,
        is_tls: bool,
        authority: &str,
        version: Version,
    ) -> Result<Option<Self>, Fault> {
        let is_said = fields.first_byte("tls").is_some();
        let mut nested = fields.nested("tls");
        let options = Options {
            ca: nested.optional("ca")?,
            insecure: nested.or("insecure", false)?,
        };
        nested.finish();
        if !is_tls {
            let refused = is_said.then(|| fields.fault("tls", "the target has no TLS"));
            return refused.map_or(Ok(None), Err);
        }
        let host = authority
            .rsplit_once(':')
            .map_or(authority, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let made = Self::new(host, version, &options);
        made.map(Some).map_err(|what| fields.fault("tls", what))
    }
}
