//! What the copies of a request share of its head.

use std::sync::{Mutex, MutexGuard, PoisonError};

use http::request::Parts;
use http::{HeaderMap, Method, Request, Uri, Version};
use reattempt::CallContext;

use super::kept_extensions::KeptExtensions;
use super::kept_headers::KeptHeaders;

/// Behind a lock, because the first attempt takes the parts.
#[derive(Default)]
pub(super) struct Shared(Mutex<State>);

#[derive(Default)]
pub(super) struct State {
    pub(super) held: Held,
    kept: KeptHeaders,
}

#[derive(Default)]
pub(super) enum Held {
    #[default]
    Nothing,
    Whole(Parts),
    /// What is left of parts that an attempt took, except for the headers.
    Rest(Rest),
}

pub(super) struct Rest {
    method: Method,
    uri: Uri,
    version: Version,
    extensions: KeptExtensions,
}

impl Rest {
    #[inline]
    fn of(parts: &Parts) -> Self {
        Self {
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            version: parts.version,
            extensions: KeptExtensions::of(&parts.extensions),
        }
    }

    /// Parts of a later attempt.
    fn parts(&self, headers: HeaderMap) -> Parts {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = self.method.clone();
        parts.uri = self.uri.clone();
        parts.version = self.version;
        parts.extensions = self.extensions.to_map();
        parts.headers = headers;
        parts
    }
}

impl State {
    /// The parts, which no attempt takes so far.
    pub(super) fn whole(&mut self) -> &mut Parts {
        if !matches!(self.held, Held::Whole(_)) {
            self.held = Held::Whole(self.copy());
        }
        match &mut self.held {
            Held::Whole(parts) => parts,
            _ => unreachable!("it was made whole"),
        }
    }

    /// A copy that takes nothing.
    pub(super) fn copy(&self) -> Parts {
        match &self.held {
            Held::Whole(parts) => parts.clone(),
            Held::Rest(rest) => rest.parts(self.kept.to_map()),
            Held::Nothing => Request::new(()).into_parts().0,
        }
    }

    /// For an attempt after which no other one follows.
    #[inline]
    pub(super) fn take(&mut self) -> Parts {
        match std::mem::take(&mut self.held) {
            Held::Whole(parts) => parts,
            held => {
                self.held = held;
                self.copy()
            }
        }
    }

    /// For an attempt after which another one may follow.
    #[inline]
    pub(super) fn for_attempt<B>(&mut self, context: CallContext, body: B) -> Request<B> {
        let rest = match &mut self.held {
            Held::Whole(parts) if self.kept.keep(&parts.headers) => {
                // Before anything is taken: a caller's extension may panic when it is copied.
                let rest = Rest::of(parts);
                parts.extensions.insert(context);
                rest
            }
            _ => return request(self.copy(), context, body),
        };
        match std::mem::replace(&mut self.held, Held::Rest(rest)) {
            Held::Whole(parts) => Request::from_parts(parts, body),
            _ => unreachable!("it is whole"),
        }
    }
}

pub(super) fn request<B>(mut parts: Parts, context: CallContext, body: B) -> Request<B> {
    parts.extensions.insert(context);
    Request::from_parts(parts, body)
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get_mut(&mut self) -> &mut State {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps nothing of a request but memory. What is left of its headers there is not read.
    pub(super) fn clear(&mut self) {
        self.get_mut().held = Held::Nothing;
    }
}

/// Another head, for a handle that is written to while others share the head.
impl Clone for Shared {
    fn clone(&self) -> Self {
        Self(Mutex::new(State {
            held: Held::Whole(self.lock().copy()),
            ..State::default()
        }))
    }
}
