//! A throttle, an admission or a circuit breaker for each origin, so that one dead host does not
//! use up the retries of the others, and refuses none of their calls.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use http::header::HOST;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Uri};

/// The maximum number of origins with a throttle, an admission or a circuit breaker of their own.
/// Beyond it the one that was idle for longest is dropped, and starts anew with its next call.
pub const MOST_ORIGINS: usize = 1024;

/// Makes what an origin has that has none yet.
type Make<T> = dyn Fn(&Origin) -> Arc<T> + Send + Sync;

/// The throttles of a bounded number of origins, or the admissions or circuit breakers.
pub(super) struct PerOrigin<T: ?Sized> {
    make: Box<Make<T>>,
    hasher: RandomState,
    /// By a keyed hash of the origin, so that a look-up allocates nothing and no user name of an
    /// authority is kept. Two origins with the same hash would share one.
    known: RwLock<HashMap<u64, Known<T>>>,
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
            hasher: RandomState::new(),
            known: RwLock::default(),
            calls: AtomicU64::new(0),
        }
    }

    /// What the origin of this request has.
    pub(super) fn of(&self, uri: &Uri, headers: &HeaderMap) -> Arc<T> {
        let named = Origin::of(uri, headers);
        let origin = self.hasher.hash_one(&named);
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
    fn insert(&self, named: &Origin, origin: u64, call: u64) -> Arc<T> {
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
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    is_https: bool,
    /// In lower case as an [`Authority`] hashes it; `None` where the request names no host.
    host: Option<Host>,
    port: u16,
}

/// A host without the user name, which is part of an authority.
#[derive(Debug)]
struct Host(Authority);

impl PartialEq for Host {
    fn eq(&self, other: &Self) -> bool {
        self.0.host().eq_ignore_ascii_case(other.0.host())
    }
}

impl Eq for Host {}

impl std::hash::Hash for Host {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let host = self.0.host();
        state.write_usize(host.len());
        for byte in host.bytes() {
            state.write_u8(byte.to_ascii_lowercase());
        }
    }
}

/// Host and port, for the log.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.as_ref().map_or("", |host| host.0.host());
        write!(f, "{}:{}", host.to_ascii_lowercase(), self.port)
    }
}

impl Origin {
    fn of(uri: &Uri, headers: &HeaderMap) -> Self {
        let is_https = uri.scheme() == Some(&Scheme::HTTPS);
        let of_header = || Authority::try_from(headers.get(HOST)?.as_bytes()).ok();
        let authority = uri.authority().cloned().or_else(of_header);
        let port = authority.as_ref().and_then(Authority::port_u16);
        Self {
            is_https,
            port: port.unwrap_or(if is_https { 443 } else { 80 }),
            host: authority.map(Host),
        }
    }
}

#[cfg(test)]
mod tests {
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
        throttles.of(&uri.parse().unwrap(), &headers)
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
