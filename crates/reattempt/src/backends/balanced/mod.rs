//! Backends with health, over a list that may change.

mod attempt;
mod future;
mod list;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::watch;
use tower_service::Service;

use crate::health::{HealthEvent, LiveHealthPolicy, Status};
use crate::{
    Backend, CallContext, Classify, FoundPushback, HasCallContext, Observer, ReadPushback,
};

use attempt::Attempt;
pub use future::BackendsFuture;
use list::List;

/// A list of services, one per backend, of which each attempt uses a healthy one with little load.
///
/// - A backend that fails is ejected for a time, by a
///   [`HealthPolicy`](crate::health::HealthPolicy). A further one only while fewer than its share
///   are; if all are ejected, or should be, all are used.
/// - Of two healthy backends drawn at random the one with less load is used: attempts in flight,
///   and recent latency where that differs by more than a factor of two.
/// - A further attempt of a call goes to a backend that the call has not tried. A hedge may probe
///   an ejected one, while another attempt of the call is in flight and the policy has a further
///   one for the call.
///
/// The list may change at any time; a backend that stays keeps its health by its name. Clones share
/// the list and the health. It is always ready: the attempt waits for a backend if the list is
/// empty, and for the readiness of its backend.
///
/// Each ejection is logged at WARN and each return at INFO (`tracing`, target `reattempt::health`).
///
/// The classifier is that of the recovery layer: a verdict that the request is at fault, with a
/// reason that is an [`answer`](crate::retry_reasons), says nothing against the backend
/// ([`Outcome::of`](crate::health::Outcome::of)). A committed response
/// counts by its [end](crate::AttemptReporter::finish) if a layer
/// [follows](crate::AttemptReporter::follow) it, and otherwise as an answer when its head arrives.
/// If a layer in between makes a failure of it, that counts instead; if it sends a further step of
/// the attempt, or an answer of its own, the response counts nowhere.
pub struct Backends<S, C, P = NoPushback> {
    /// There once it was called: a clone that only changes the list keeps none, and no service that
    /// was removed.
    list: Option<Arc<List<S>>>,
    changes: watch::Sender<Arc<List<S>>>,
    changed: watch::Receiver<Arc<List<S>>>,
    judge: Arc<Judge<C, P>>,
}

/// What reads the outcome of an attempt.
#[derive(Debug)]
struct Judge<C, P> {
    classifier: C,
    pushback: P,
}

/// Reads no pushback.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPushback;

#[diagnostic::do_not_recommend]
impl<Res, Err> ReadPushback<Res, Err> for NoPushback {
    fn read(&self, _: Result<&Res, &Err>, _: &CallContext) -> FoundPushback {
        FoundPushback::Absent
    }
}

impl<S: Send + 'static, C> Backends<S, C> {
    /// Uses these services, each with the name (for example an address) by which records show it.
    /// The list may be empty at first.
    #[must_use]
    pub fn new<N: Into<Arc<str>>>(
        backends: impl IntoIterator<Item = (N, S)>,
        policy: impl Into<LiveHealthPolicy>,
        classifier: C,
    ) -> Self {
        let (changes, changed) = watch::channel(Arc::new(List::new(backends, policy.into())));
        let pushback = NoPushback;
        Self {
            list: None,
            changes,
            changed,
            judge: Arc::new(Judge {
                classifier,
                pushback,
            }),
        }
    }

    /// Adds a backend's pushback to its load: what is left of it, at most a minute, counts as time
    /// that its answers take. A pushback that a layer of the backend's own has reported counts too,
    /// if a recovery layer or a `DeadlineLayer` is above.
    #[must_use]
    pub fn pushback<P>(self, pushback: P) -> Backends<S, C, P>
    where
        C: Clone,
    {
        Backends {
            list: self.list,
            changes: self.changes,
            changed: self.changed,
            judge: Arc::new(Judge {
                classifier: self.judge.classifier.clone(),
                pushback,
            }),
        }
    }
}

impl<S: Send + 'static, C, P> Backends<S, C, P> {
    /// Notifies this observer of ejections and returns, for metrics; earlier ones stay. All clones
    /// share it.
    #[must_use]
    pub fn observer(self, observer: Arc<dyn Observer>) -> Self {
        let list = Arc::clone(&self.changes.borrow());
        list.pool()
            .on_event(move |event| observer.health_changed(event));
        self
    }

    /// Replaces the list. A backend of the same name keeps its health; of two of the same name the
    /// last one counts. Attempts in flight at a backend that is no longer in it run on.
    pub fn set<N: Into<Arc<str>>>(&self, backends: impl IntoIterator<Item = (N, S)>) {
        let named = list::named(backends);
        self.change(|list| list.with(named));
    }

    /// Adds a backend, or replaces its service.
    pub fn insert(&self, name: impl Into<Arc<str>>, service: S) {
        let name = name.into();
        self.change(|list| {
            let mut all = list.others(&Backend::new(Arc::clone(&name)));
            all.extend(list::named([(name, service)]));
            list.with(all)
        });
    }

    /// Removes a backend. Its service is dropped once its own attempts have ended, and each
    /// `Backends` that was called with the old list has been called again or dropped.
    pub fn remove(&self, name: &str) {
        let name = Backend::new(name);
        self.change(|list| list.with(list.others(&name)));
    }

    fn change(&self, change: impl FnOnce(&List<S>) -> (List<S>, Vec<HealthEvent>)) {
        let mut replaced = None;
        self.changes.send_modify(|list| {
            let (next, events) = change(list);
            replaced = Some((std::mem::replace(list, Arc::new(next)), events));
        });
        // The list is locked until here. User code may ask for it: listeners, and the drop of
        // services that are no longer in it.
        if let Some((old, events)) = replaced {
            old.pool().notify(&events);
        }
    }

    /// What is known of each backend now.
    #[must_use]
    pub fn status(&self) -> Vec<(Backend, Status)> {
        let list = Arc::clone(&self.changes.borrow());
        list.status()
    }

    /// Follows a service discovery: its keys are the names. Ends with it, or with its first error;
    /// what was discovered until then stays.
    ///
    /// Spawn it beside the service, once:
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use std::future::{Ready, ready};
    /// use reattempt::backends::Backends;
    /// use reattempt::health::HealthPolicy;
    /// use reattempt::{Call, CallContext, Verdict, classify_fn};
    /// use tower::discover::ServiceList;
    /// use tower::{ServiceExt, util::ServiceFn, service_fn};
    ///
    /// type Replica = ServiceFn<fn(Call<()>) -> Ready<Result<u32, Infallible>>>;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let any_answer =
    ///     classify_fn(|_: Result<&u32, &Infallible>, _: &CallContext| Verdict::Success);
    /// let none: [(&str, Replica); 0] = [];
    /// let balanced = Backends::new(none, HealthPolicy::standard(), any_answer);
    ///
    /// let replica: Replica = service_fn(|_| ready(Ok(7)));
    /// let discovery = ServiceList::new::<Call<()>>([replica]);
    /// let list = balanced.clone();
    /// tokio::spawn(async move { list.follow(discovery).await });
    /// // The call waits for the first backend.
    /// assert_eq!(balanced.oneshot(Call::new(())).await, Ok(7));
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first error of the discovery.
    #[cfg(feature = "discover")]
    pub async fn follow<D>(&self, discover: D) -> Result<(), D::Error>
    where
        D: tower::discover::Discover<Service = S>,
        D::Key: fmt::Display,
    {
        use tower::discover::{Change, Discover};
        let mut discover = std::pin::pin!(discover);
        while let Some(change) =
            std::future::poll_fn(|cx| Discover::poll_discover(discover.as_mut(), cx)).await
        {
            match change? {
                Change::Insert(key, service) => self.insert(key.to_string(), service),
                Change::Remove(key) => self.remove(&key.to_string()),
            }
        }
        Ok(())
    }

    /// The newest list.
    fn list(&mut self) -> &Arc<List<S>> {
        // It cannot be closed: this value has a sender.
        if self.changed.has_changed().unwrap_or(false) {
            self.list = None;
        }
        let changed = &mut self.changed;
        self.list
            .get_or_insert_with(|| Arc::clone(&changed.borrow_and_update()))
    }
}

impl<S, C, P, Req> Service<Req> for Backends<S, C, P>
where
    S: Service<Req> + Clone + Send + 'static,
    C: Classify<S::Response, S::Error>,
    P: ReadPushback<S::Response, S::Error>,
    Req: HasCallContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BackendsFuture<S, C, P, Req>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let judge = Arc::clone(&self.judge);
        let list = self.list();
        match list.choose(request.context()) {
            Some(sent) => BackendsFuture::sent(Attempt::send(list, sent, request), judge),
            None => BackendsFuture::waiting(self.changed.clone(), request, judge),
        }
    }
}

impl<S, C, P> Clone for Backends<S, C, P> {
    fn clone(&self) -> Self {
        Self {
            list: None,
            changes: self.changes.clone(),
            changed: self.changed.clone(),
            judge: Arc::clone(&self.judge),
        }
    }
}

impl<S, C, P> fmt::Debug for Backends<S, C, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = Arc::clone(&self.changes.borrow());
        f.debug_tuple("Backends").field(&list).finish()
    }
}
