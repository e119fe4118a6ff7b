//! One list of backends and their health.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock;
use crate::health::{Attempted, HealthEvent, LiveHealthPolicy, Pool, Sent, Status};
use crate::{Backend, CallContext};

/// The lock is held only to clone a service, so that it need not be `Sync`.
type Shared<S> = Arc<Mutex<S>>;

/// A list does not change: the next one takes its place.
pub(super) struct List<S> {
    all: Box<[(Backend, Shared<S>)]>,
    /// An attempt in flight keeps it, and no service but its own.
    pool: Arc<Pool>,
}

/// Backends by name; of two of the same name the last one.
pub(super) fn named<N: Into<Arc<str>>, S>(
    backends: impl IntoIterator<Item = (N, S)>,
) -> Vec<(Backend, Shared<S>)> {
    let mut all: Vec<(Backend, Shared<S>)> = Vec::new();
    let mut places = HashMap::new();
    for (name, service) in backends {
        let (name, service) = (Backend::new(name), Arc::new(Mutex::new(service)));
        let at = *places.entry(name.clone()).or_insert(all.len());
        match all.get_mut(at) {
            Some((_, other)) => *other = service,
            None => all.push((name, service)),
        }
    }
    all
}

impl<S> List<S> {
    pub(super) fn new<N: Into<Arc<str>>>(
        backends: impl IntoIterator<Item = (N, S)>,
        policy: LiveHealthPolicy,
    ) -> Self {
        let all = named(backends);
        let pool = Pool::new(policy, all.len(), clock::now());
        pool.on_event(HealthEvent::log);
        Self::of(all, pool)
    }

    /// The list that takes its place, and what happened to the backends' health.
    pub(super) fn with(&self, all: Vec<(Backend, Shared<S>)>) -> (Self, Vec<HealthEvent>) {
        let own = self.all.iter().enumerate();
        let places: HashMap<_, _> = own.map(|(at, (name, _))| (name, at)).collect();
        let kept = all.iter().map(|(name, _)| places.get(name).copied());
        let kept: Vec<_> = kept.collect();
        let (pool, events) = self.pool.changed_to(&kept, clock::now());
        (Self::of(all, pool), events)
    }

    fn of(all: Vec<(Backend, Shared<S>)>, pool: Pool) -> Self {
        for (at, (name, _)) in all.iter().enumerate() {
            pool.set_name(at, name.as_str());
        }
        Self {
            all: all.into(),
            pool: Arc::new(pool),
        }
    }

    /// All but the backend of this name.
    pub(super) fn others(&self, name: &Backend) -> Vec<(Backend, Shared<S>)> {
        let others = self.all.iter().filter(|(other, _)| other != name);
        others.cloned().collect()
    }

    fn place(&self, name: &Backend) -> Option<usize> {
        self.all.iter().position(|(other, _)| other == name)
    }

    pub(super) const fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The places of these backends, in the same order.
    fn places(&self, tried: &[Backend]) -> Vec<usize> {
        tried.iter().filter_map(|name| self.place(name)).collect()
    }

    /// The backend for an attempt that is sent now; `None` if the list is empty.
    // 3 % of the row `backends`.
    #[inline(always)]
    pub(super) fn choose(&self, context: Option<&CallContext>) -> Option<Sent> {
        match context.filter(|context| !context.is_plain()) {
            Some(context) => self.choose_again(context),
            None => self.pool.send(clock::now(), Attempted::default()),
        }
    }

    #[cold]
    fn choose_again(&self, context: &CallContext) -> Option<Sent> {
        context.sent_on();
        let tried = self.places(&context.backends_tried());
        let attempt = Attempted {
            tried: &tried,
            may_lose: context.may_lose(),
        };
        self.pool.send(clock::now(), attempt)
    }

    /// The name of the backend at this place.
    pub(super) const fn name(&self, at: usize) -> &Backend {
        &self.all[at].0
    }

    pub(super) fn status(&self) -> Vec<(Backend, Status)> {
        let names = self.all.iter().map(|(name, _)| name.clone());
        names.zip(self.pool.status(clock::now())).collect()
    }
}

impl<S: Clone> List<S> {
    /// The service of the backend at this place.
    pub(super) fn service(&self, at: usize) -> S {
        let service = &self.all[at].1;
        service
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl<S> fmt::Debug for List<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.all.iter().map(|(name, _)| name))
            .finish()
    }
}
