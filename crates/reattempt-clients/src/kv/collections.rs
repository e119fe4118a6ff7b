//! Collections by name: the id in a key is looked up, cached, and looked up again when a node no
//! longer knows it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use reattempt_couchbase::kv::Status;
use tokio::sync::watch;
use tokio::time::Instant;
use tower_service::Service;

use super::client::{ClientError, Collection, KvRequest, KvResponse};
use super::collection_ids::{CollectionIds, Found, LONGEST_WAIT, Need};
use super::staging::Dialling;

/// A client that resolves collection ids, around a client that sends.
///
/// Place it below the recovery layer: a status 0x88 (`KV_COLLECTION_OUTDATED`) removes the id, and
/// the next attempt looks it up first. Of all concurrent requests that need the same id, one looks
/// it up and the others wait. After each second without an answer one more of them looks it up, so
/// with several silent nodes a request waits several seconds. The outcome of a failed lookup is the
/// outcome of these requests, which are not sent: a response is classified as a lookup's (0x88 is
/// final then), and a lost lookup is an error of the dispatch stage.
#[derive(Clone, Debug)]
pub struct CollectionClient<S> {
    inner: S,
    ids: CollectionIds,
}

impl<S> CollectionClient<S> {
    /// Wraps this client, with these ids.
    #[must_use]
    pub const fn new(inner: S, ids: CollectionIds) -> Self {
        Self { inner, ids }
    }
}

impl<S> Service<KvRequest> for CollectionClient<S>
where
    S: Service<KvRequest, Response = KvResponse, Error = ClientError> + Clone,
{
    type Response = KvResponse;
    type Error = ClientError;
    type Future = CollectionFuture<S>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: KvRequest) -> CollectionFuture<S> {
        let ids = self.ids.clone();
        let path = match &request.collection {
            Collection::Named(path) if request.is_keyed() => Some(Arc::clone(path)),
            Collection::Named(_) | Collection::Id(_) => None,
        };
        let state = match &path {
            None => State::Sending {
                sending: self.inner.call(request),
                id: None,
            },
            Some(path) => State::ready(&mut self.inner, request, path, &ids),
        };
        CollectionFuture { state, ids, path }
    }
}

pin_project! {
    /// The future of [`CollectionClient`].
    #[must_use = "dropping it cancels the request"]
    pub struct CollectionFuture<S: Service<KvRequest>> {
        #[pin]
        state: State<S, S::Future>,
        ids: CollectionIds,
        path: Option<Arc<str>>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, F> {
        LookingUp {
            #[pin]
            lookup: F,
            sender: watch::Sender<Found>,
            since: Instant,
            next: Option<(S, KvRequest)>,
        },
        /// Another request looks the id up.
        Joined {
            found: Pin<Box<dyn Future<Output = Found> + Send>>,
            next: Option<(S, KvRequest)>,
        },
        /// Waits until the client is ready for the request.
        Waiting {
            next: Option<(S, KvRequest)>,
        },
        Sending {
            #[pin]
            sending: F,
            id: Option<u32>,
        },
    }
}

impl<S> State<S, S::Future>
where
    S: Service<KvRequest, Response = KvResponse, Error = ClientError> + Clone,
{
    /// Starts with a client that is ready.
    fn ready(inner: &mut S, request: KvRequest, path: &Arc<str>, ids: &CollectionIds) -> Self {
        match ids.need(path) {
            Need::Nothing(id) => Self::Sending {
                sending: inner.call(request.in_collection(id)),
                id: Some(id),
            },
            Need::Wait(mut found) => Self::Joined {
                found: Box::pin(async move {
                    // An error means that the lookup was dropped.
                    let found = found.wait_for(Option::is_some);
                    let found = tokio::time::timeout(LONGEST_WAIT, found).await.ok()?;
                    found.map_or(None, |found| found.clone())
                }),
                // The one that is ready: a copy would have to get ready too, and leave this one's
                // permit unused.
                next: Some((ready_one(inner), request)),
            },
            Need::LookUp(sender, since) => Self::LookingUp {
                lookup: inner.call(KvRequest::get_collection_id(path.as_bytes().to_vec())),
                sender,
                since,
                next: Some((inner.clone(), request)),
            },
        }
    }
}

/// Leaves a copy in its place.
fn ready_one<S: Clone>(inner: &mut S) -> S {
    let copy = inner.clone();
    std::mem::replace(inner, copy)
}

impl<S: Service<KvRequest>> std::fmt::Debug for CollectionFuture<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CollectionFuture")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl<S> Future for CollectionFuture<S>
where
    S: Service<KvRequest, Response = KvResponse, Error = ClientError> + Clone,
{
    type Output = Result<KvResponse, ClientError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let state = match (this.state.as_mut().project(), &*this.path) {
                (
                    StateProjection::LookingUp {
                        lookup,
                        sender,
                        since,
                        next,
                    },
                    Some(path),
                ) => {
                    let found = id_of(ready!(lookup.poll(cx)));
                    this.ids.found(path, (sender, *since), Some(found.clone()));
                    if let Err(instead) = found {
                        return Poll::Ready(*instead);
                    }
                    State::Waiting { next: next.take() }
                }
                (StateProjection::Joined { found, next }, _) => {
                    if let Some(Err(instead)) = ready!(found.as_mut().poll(cx)) {
                        return Poll::Ready(*instead);
                    }
                    State::Waiting { next: next.take() }
                }
                (StateProjection::Waiting { next: waiting }, Some(path)) => {
                    let (inner, _) = waiting.as_mut().expect("polled after completion");
                    ready!(inner.poll_ready(cx))?;
                    let (mut inner, request) = waiting.take().expect("just seen");
                    State::ready(&mut inner, request, path, this.ids)
                }
                (StateProjection::Sending { sending, id }, path) => {
                    let answer = ready!(sending.poll(cx))?;
                    let outdated = matches!(
                        answer.status,
                        Status::UNKNOWN_COLLECTION | Status::UNKNOWN_SCOPE
                    );
                    if let (true, Some(path), Some(id)) = (outdated, path, *id) {
                        this.ids.outdated(path, id);
                    }
                    return Poll::Ready(Ok(answer));
                }
                (_, None) => unreachable!("who names no collection looks none up"),
            };
            this.state.set(state);
        }
    }
}

/// The id, or the outcome of the request without it.
fn id_of(
    lookup: Result<KvResponse, ClientError>,
) -> Result<u32, Box<Result<KvResponse, ClientError>>> {
    let answer = lookup.map_err(|error| Box::new(Err(not_sent(error))))?;
    if !answer.is_success() {
        return Err(Box::new(Ok(answer)));
    }
    answer.collection_id().ok_or_else(|| {
        let address = answer.named().clone();
        Box::new(Err(ClientError::NoCollectionId { address }))
    })
}

/// Only the lookup was lost; the request itself was not sent.
fn not_sent(error: ClientError) -> ClientError {
    match error {
        ClientError::ClosedInFlight { address, reason } => ClientError::NotSent { address, reason },
        other => other,
    }
}

impl<S> Dialling for CollectionFuture<S>
where
    S: Service<KvRequest, Response = KvResponse, Error = ClientError> + Clone,
    S::Future: Dialling,
{
    fn is_dialling(&self) -> bool {
        match &self.state {
            State::LookingUp { .. } | State::Joined { .. } | State::Waiting { .. } => true,
            State::Sending { sending, .. } => sending.is_dialling(),
        }
    }

    fn address(&self) -> Option<&Arc<str>> {
        match &self.state {
            // Until the id is found, this node may keep the request from being sent.
            State::LookingUp { lookup, .. } => lookup.address(),
            State::Joined { .. } | State::Waiting { .. } => None,
            State::Sending { sending, .. } => sending.address(),
        }
    }
}
