//! `amz-sdk-request`: what the AWS SDKs report about an attempt.

use std::fmt;
use std::time::SystemTime;

use http::{HeaderMap, HeaderValue};

use super::headers::{AMZ_SDK_REQUEST, digits};
use super::utc;

/// The header `amz-sdk-request`: `ttl=20260131T120000Z; attempt=2; max=3`, each part optional, in
/// any order.
///
/// ```
/// use http::HeaderMap;
/// use reattempt_http::hop::AmzSdkRequest;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("amz-sdk-request", "attempt=2; max=3".parse().unwrap());
/// let said = AmzSdkRequest::read(&headers).unwrap();
/// assert_eq!((said.attempt, said.max, said.ttl), (Some(2), Some(3), None));
/// assert_eq!(said.to_string(), "attempt=2; max=3");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AmzSdkRequest {
    /// How long the client waits, by its wall clock.
    pub ttl: Option<SystemTime>,
    /// The attempt's number, from 1.
    pub attempt: Option<u32>,
    /// The maximum of attempts that the client makes.
    pub max: Option<u32>,
}

impl AmzSdkRequest {
    /// No part is set.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ttl: None,
            attempt: None,
            max: None,
        }
    }

    /// Parses the header. Unknown or invalid parts count as absent; `None` if no part remains.
    #[must_use]
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let mut said = Self::new();
        for value in headers.get_all(AMZ_SDK_REQUEST) {
            for pair in value.to_str().unwrap_or_default().split(';') {
                let Some((name, value)) = pair.split_once('=') else {
                    continue;
                };
                let value = value.trim();
                let count = || {
                    u32::try_from(digits(value)?)
                        .ok()
                        .filter(|count| *count > 0)
                };
                match name.trim() {
                    "ttl" => said.ttl = said.ttl.or_else(|| utc::read(value)),
                    "attempt" => said.attempt = said.attempt.or_else(count),
                    "max" => said.max = said.max.or_else(count),
                    _ => {}
                }
            }
        }
        (said != Self::new()).then_some(said)
    }

    /// Sets the header, replacing an existing one; without any part it is removed.
    pub fn write(&self, headers: &mut HeaderMap) {
        let text = self.to_string();
        match HeaderValue::from_str(&text) {
            Ok(value) if !text.is_empty() => headers.insert(AMZ_SDK_REQUEST, value),
            _ => headers.remove(AMZ_SDK_REQUEST),
        };
    }
}

impl fmt::Display for AmzSdkRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ttl = self.ttl.map(|ttl| format!("ttl={}", utc::write(ttl)));
        let attempt = self.attempt.map(|attempt| format!("attempt={attempt}"));
        let max = self.max.map(|max| format!("max={max}"));
        let parts: Vec<String> = [ttl, attempt, max].into_iter().flatten().collect();
        f.write_str(&parts.join("; "))
    }
}
