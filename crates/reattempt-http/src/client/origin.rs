//! A throttle, an admission or a circuit breaker for each origin, so that one dead host does not
//! use up the retries of the others, and refuses none of their calls.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use http::uri::{Authority, Scheme};
use http::{HeaderValue, Uri};
use rustc_hash::FxBuildHasher;

use crate::policy::host_and_port;

/// The maximum number of origins with a throttle, an admission or a circuit breaker of their own.
/// Beyond it the one that was idle for longest is dropped, and starts anew with its next call.
pub const MOST_ORIGINS: usize = 1024;

/// Makes what an origin has that has none yet.
type Make<T> = dyn Fn(&Origin<'_>) -> Arc<T> + Send + Sync;

/// The throttles of a bounded number of origins, or the admissions or circuit breakers.
pub(super) struct PerOrigin<T: ?Sized> {
    make: Box<Make<T>>,
    /// A random key.
    key: [u64; 2],
    /// By a keyed hash of the origin, so that a look-up allocates nothing and no user name of an
    /// authority is kept. Two origins with the same hash would share one.
    known: RwLock<HashMap<u64, Known<T>, FxBuildHasher>>,
    /// Counts calls: the time that idleness is measured in.
    calls: AtomicU64,
}

struct Known<T: ?Sized> {
    own: Arc<T>,
    last_call: AtomicU64,
}

impl<T: ?Sized> PerOrigin<T> {
    pub(super) fn new(make: Box<Make<T>>) -> Self {
        Self {
            make,
            key: [0, 1].map(|n: u8| RandomState::new().hash_one(n)),
            known: RwLock::default(),
            calls: AtomicU64::new(0),
        }
    }

    /// What the origin of this request has. `host` is its header, for a URI with only a path.
    pub(super) fn of<'a>(
        &self,
        uri: &'a Uri,
        host: impl FnOnce() -> Option<&'a HeaderValue>,
    ) -> Arc<T> {
        let named = Origin::of(uri, host);
        let origin = named.hash(self.key);
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&origin) {
            known.last_call.store(call, Ordering::Relaxed);
            return Arc::clone(&known.own);
        }
        drop(known);
        self.insert(&named, origin, call)
    }

    #[cold]
    fn insert(&self, named: &Origin<'_>, origin: u64, call: u64) -> Arc<T> {
        // User code: not called inside the lock.
        let new = (self.make)(named);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = None;
        if known.len() >= MOST_ORIGINS && !known.contains_key(&origin) {
            let oldest = known
                .iter()
                .min_by_key(|(_, known)| known.last_call.load(Ordering::Relaxed));
            let oldest = oldest.map(|(origin, _)| *origin);
            dropped = oldest.and_then(|oldest| known.remove(&oldest));
        }
        let entry = known.entry(origin).or_insert_with(|| Known {
            own: new,
            last_call: AtomicU64::new(call),
        });
        let own = Arc::clone(&entry.own);
        drop(known);
        drop(dropped);
        own
    }
}

impl<T: ?Sized> fmt::Debug for PerOrigin<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("PerOrigin")
            .field("origins", &known.len())
            .finish_non_exhaustive()
    }
}

/// Scheme, host and port (RFC 6454): of the URI, or of the `Host` header where the URI has only a
/// path.
#[derive(Debug)]
pub(super) struct Origin<'a> {
    is_https: bool,
    /// `None` where the request names no host.
    authority: Option<Cow<'a, Authority>>,
}

/// Host and port, for the log.
impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = self.host_and_port();
        write!(f, "{}:{port}", host.to_ascii_lowercase())
    }
}

impl<'a> Origin<'a> {
    fn of(uri: &'a Uri, host: impl FnOnce() -> Option<&'a HeaderValue>) -> Self {
        let of_header = || Authority::try_from(host()?.as_bytes()).ok();
        let of_uri = uri.authority().map(Cow::Borrowed);
        Self {
            is_https: uri.scheme() == Some(&Scheme::HTTPS),
            authority: of_uri.or_else(|| of_header().map(Cow::Owned)),
        }
    }

    /// Without the user name, which is part of an authority.
    #[inline]
    fn host_and_port(&self) -> (&str, u16) {
        let authority = self.authority.as_ref().map_or("", |named| named.as_str());
        let default = if self.is_https { 443 } else { 80 };
        let is_plain = |byte| !matches!(byte, b'@' | b':' | b'[');
        if authority.bytes().all(is_plain) {
            return (authority, default);
        }
        let (host, port) = host_and_port(authority);
        (host, port.unwrap_or(default))
    }

    /// A keyed hash: no way is known to name two origins with the same one without the key. Two
    /// that share it would share a throttle.
    #[inline]
    fn hash(&self, [start, key]: [u64; 2]) -> u64 {
        let (host, port) = self.host_and_port();
        let mut hash = start;
        let words = host.as_bytes().chunks_exact(8);
        let rest = words.remainder();
        for word in words.flat_map(<[u8; 8]>::try_from) {
            hash = folded(hash ^ (u64::from_le_bytes(word) | LOWER), key);
        }
        let of_rest = |word, byte: &u8| word << 8 | u64::from(*byte);
        hash = folded(hash ^ (rest.iter().fold(0, of_rest) | LOWER), key);
        let rest = u64::from(self.is_https) << 16 | u64::from(port);
        folded(hash ^ (host.len() as u64) << 32 ^ rest, key)
    }
}

/// The bit that tells the cases of a letter apart, in each byte. It does so of nothing else that a
/// host may have.
const LOWER: u64 = u64::from_le_bytes([b' '; 8]);

/// The halves of a product, folded.
#[inline]
const fn folded(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul((b | 1) as u128);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::HOST;
    use reattempt::{RetryThrottle, TokenBucket};

    use super::*;

    type Throttles = PerOrigin<dyn RetryThrottle>;

    fn throttles() -> Throttles {
        Throttles::new(Box::new(|_| Arc::new(TokenBucket::default())))
    }

    fn of(throttles: &Throttles, uri: &str, host: Option<&str>) -> Arc<dyn RetryThrottle> {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(HOST, host.parse().unwrap());
        }
        throttles.of(&uri.parse().unwrap(), || headers.get(HOST))
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let throttles = throttles();
        let shop = of(&throttles, "http://shop.example/a", None);
        for same in [
            "http://shop.example/b?c",
            "http://SHOP.example:80/",
            "http://user:secret@shop.example/",
        ] {
            assert!(Arc::ptr_eq(&shop, &of(&throttles, same, None)), "{same}");
        }
        let by_header = of(&throttles, "/a", Some("shop.example"));
        assert!(Arc::ptr_eq(&shop, &by_header));
        for other in [
            "https://shop.example/",
            "http://shop.example:8080/",
            "http://other.example/",
            "/a",
        ] {
            assert!(!Arc::ptr_eq(&shop, &of(&throttles, other, None)), "{other}");
        }
    }

    #[test]
    fn a_host_header_that_is_no_host_is_no_origin() {
        let throttles = throttles();
        let none = of(&throttles, "/", None);
        for junk in ["", "a b", "http://x/", "[::1", "\u{fc}"] {
            let of_junk = of(&throttles, "/", Some(junk));
            assert!(Arc::ptr_eq(&none, &of_junk), "{junk:?}");
        }
    }

    #[test]
    fn the_origin_that_was_idle_for_longest_is_dropped() {
        let throttles = throttles();
        let first = of(&throttles, "http://0.example/", None);
        let second = of(&throttles, "http://1.example/", None);
        for host in 2..MOST_ORIGINS {
            of(&throttles, &format!("http://{host}.example/"), None);
        }
        // The first is used again, so that the second is the oldest.
        assert!(Arc::ptr_eq(
            &first,
            &of(&throttles, "http://0.example/", None)
        ));
        of(&throttles, "http://one-more.example/", None);
        assert_eq!(throttles.known.read().unwrap().len(), MOST_ORIGINS);
        assert!(Arc::ptr_eq(
            &first,
            &of(&throttles, "http://0.example/", None)
        ));
        assert!(!Arc::ptr_eq(
            &second,
            &of(&throttles, "http://1.example/", None)
        ));
    }
}
