//! The head of a request, which its copies share.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Uri, Version};

use super::kept_headers::KeptHeaders;
use super::pool;

/// A handle of a head without its context. Its copies share it: what an attempt needs is made when
/// it is sent, and moved if no other attempt can follow.
pub(super) struct Head(Option<Arc<Shared>>);

#[derive(Default)]
pub(super) struct Shared {
    method: Method,
    uri: Uri,
    version: Version,
    extensions: Extensions,
    /// Behind a lock, because the first attempt takes the map.
    headers: Mutex<Headers>,
}

#[derive(Default)]
struct Headers {
    map: HeaderMap,
    /// The headers of the map that an attempt took.
    kept: KeptHeaders,
    is_taken: bool,
}

impl Headers {
    fn copy(&self) -> HeaderMap {
        if self.is_taken {
            self.kept.to_map()
        } else {
            self.map.clone()
        }
    }

    fn whole(&mut self) -> &mut HeaderMap {
        if std::mem::take(&mut self.is_taken) {
            self.map = self.kept.to_map();
        }
        &mut self.map
    }

    /// For an attempt after which another one may follow.
    fn for_attempt(&mut self) -> HeaderMap {
        if self.is_taken {
            return self.kept.to_map();
        }
        if !self.kept.keep(&self.map) {
            return self.map.clone();
        }
        self.is_taken = true;
        std::mem::take(&mut self.map)
    }
}

/// Another head, for a handle that is written to while others share the head.
impl Clone for Shared {
    fn clone(&self) -> Self {
        Self {
            method: self.method.clone(),
            uri: self.uri.clone(),
            version: self.version,
            extensions: self.extensions.clone(),
            headers: Mutex::new(Headers {
                map: self.lock().copy(),
                ..Headers::default()
            }),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Headers> {
        self.headers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn headers_mut(&mut self) -> &mut Headers {
        let headers = self.headers.get_mut();
        headers.unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps nothing of a request but memory.
    pub(super) fn clear(&mut self) {
        let headers = self.headers_mut();
        headers.is_taken = false;
        headers.map = HeaderMap::new();
        headers.kept.clear();
        self.uri = Uri::default();
        self.method = Method::GET;
        self.extensions = Extensions::new();
    }
}

impl Head {
    #[inline]
    pub(super) fn new(parts: Parts) -> Self {
        let mut shared = pool::fresh();
        if let Some(own) = Arc::get_mut(&mut shared) {
            own.method = parts.method;
            own.uri = parts.uri;
            own.version = parts.version;
            own.extensions = parts.extensions;
            own.headers_mut().map = parts.headers;
        }
        Self(Some(shared))
    }

    #[inline]
    fn shared(&self) -> &Shared {
        match &self.0 {
            Some(shared) => shared,
            None => unreachable!("only a drop takes it"),
        }
    }

    #[inline]
    pub(super) fn method(&self) -> &Method {
        &self.shared().method
    }

    #[inline]
    pub(super) fn uri(&self) -> &Uri {
        &self.shared().uri
    }

    /// The headers of this handle alone.
    #[inline]
    pub(super) fn headers_mut(&mut self) -> &mut HeaderMap {
        Arc::make_mut(self.0.get_or_insert_default())
            .headers_mut()
            .whole()
    }

    /// The same head, for an attempt.
    #[inline]
    pub(super) fn share(&self) -> Self {
        Self(self.0.clone())
    }

    /// The request of an attempt.
    #[inline]
    pub(super) fn into_request<B>(mut self, body: B) -> Request<B> {
        let mut request = Request::new(body);
        if let Some(own) = self.0.as_mut().and_then(Arc::get_mut) {
            *request.method_mut() = std::mem::take(&mut own.method);
            *request.uri_mut() = std::mem::take(&mut own.uri);
            *request.version_mut() = own.version;
            *request.extensions_mut() = std::mem::take(&mut own.extensions);
            *request.headers_mut() = std::mem::take(own.headers_mut().whole());
        } else {
            let shared = self.shared();
            *request.method_mut() = shared.method.clone();
            *request.uri_mut() = shared.uri.clone();
            *request.version_mut() = shared.version;
            *request.extensions_mut() = shared.extensions.clone();
            *request.headers_mut() = shared.lock().for_attempt();
        }
        request
    }

    /// A request for the log, which takes nothing.
    pub(super) fn described(&self) -> Request<()> {
        let mut request = Request::new(());
        let shared = self.shared();
        *request.method_mut() = shared.method.clone();
        *request.uri_mut() = shared.uri.clone();
        *request.headers_mut() = shared.lock().copy();
        request
    }
}

impl Drop for Head {
    #[inline]
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            pool::give_back(shared);
        }
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers and path may have credentials.
        f.debug_struct("Head")
            .field("method", self.method())
            .finish_non_exhaustive()
    }
}
