//! Collections by their names: the id that a key carries is looked up, kept, and looked up anew when a node no longer knows it.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use super::client::{ClientError, KvRequest, KvResponse};
use super::staging::Dialling;
use super::status;

/// The ids of collections by `scope.collection`. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct CollectionIds(Arc<Mutex<HashMap<Arc<str>, u32>>>);

impl CollectionIds {
    /// None known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The id that is known.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<u32> {
        self.ids().get(path).copied()
    }

    fn insert(&self, path: Arc<str>, id: u32) {
        self.ids().insert(path, id);
    }

    /// Forgets this id, unless somebody has looked it up anew meanwhile.
    fn outdated(&self, path: &str, id: u32) {
        let mut ids = self.ids();
        if ids.get(path) == Some(&id) {
            ids.remove(path);
        }
    }

    fn ids(&self) -> MutexGuard<'_, HashMap<Arc<str>, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client that finds the ids of collections, around a client that sends.
///
/// It belongs below the recovery layer: an answer 0x88 (`KV_COLLECTION_OUTDATED`) makes it forget the id, and the next
/// attempt looks it up first. A lookup that fails stands for the request that was not sent: an answer to it is the
/// answer, which the classifier judges as that of a lookup (0x88 is final then), and a lost one is an error of the dispatch stage.
#[derive(Clone, Debug)]
pub struct CollectionClient<S> {
    inner: S,
    ids: CollectionIds,
}

impl<S> CollectionClient<S> {
    /// Around this client, with these ids.
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
        let path = request.collection_path.clone();
        let path = path.filter(|_| request.is_keyed());
        let known = path.as_ref().and_then(|path| ids.get(path));
        let state = match (&path, known) {
            (None, _) => State::Sending {
                sending: self.inner.call(request),
                id: None,
            },
            (Some(_), Some(id)) => State::Sending {
                sending: self.inner.call(request.in_collection(id)),
                id: Some(id),
            },
            (Some(path), None) => State::LookingUp {
                lookup: self
                    .inner
                    .call(KvRequest::get_collection_id(path.as_bytes().to_vec())),
                next: Some((self.inner.clone(), request)),
            },
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
            next: Option<(S, KvRequest)>,
        },
        /// The id is known; the client has to be ready once more.
        Waiting {
            inner: S,
            request: Option<KvRequest>,
            id: u32,
        },
        Sending {
            #[pin]
            sending: F,
            id: Option<u32>,
        },
    }
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
    S: Service<KvRequest, Response = KvResponse, Error = ClientError>,
{
    type Output = Result<KvResponse, ClientError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let state = match this.state.as_mut().project() {
                StateProjection::LookingUp { lookup, next } => {
                    let answer = ready!(lookup.poll(cx)).map_err(not_sent)?;
                    if !answer.is_success() {
                        return Poll::Ready(Ok(answer));
                    }
                    let Some(id) = answer.collection_id() else {
                        let address = answer.node;
                        return Poll::Ready(Err(ClientError::NoCollectionId { address }));
                    };
                    if let Some(path) = this.path {
                        this.ids.insert(Arc::clone(path), id);
                    }
                    let (inner, request) = next.take().expect("polled after completion");
                    State::Waiting {
                        inner,
                        request: Some(request),
                        id,
                    }
                }
                StateProjection::Waiting { inner, request, id } => {
                    ready!(inner.poll_ready(cx))?;
                    let request = request.take().expect("polled after completion");
                    State::Sending {
                        sending: inner.call(request.in_collection(*id)),
                        id: Some(*id),
                    }
                }
                StateProjection::Sending { sending, id } => {
                    let answer = ready!(sending.poll(cx))?;
                    let outdated = matches!(
                        answer.status,
                        status::UNKNOWN_COLLECTION | status::UNKNOWN_SCOPE
                    );
                    if let (true, Some(path), Some(id)) = (outdated, this.path, *id) {
                        this.ids.outdated(path, id);
                    }
                    return Poll::Ready(Ok(answer));
                }
            };
            this.state.set(state);
        }
    }
}

/// What was lost is the lookup; the request itself has not left.
fn not_sent(error: ClientError) -> ClientError {
    match error {
        ClientError::ClosedInFlight { address, reason } => ClientError::NotSent { address, reason },
        other => other,
    }
}

impl<S> Dialling for CollectionFuture<S>
where
    S: Service<KvRequest, Response = KvResponse, Error = ClientError>,
    S::Future: Dialling,
{
    fn is_dialling(&self) -> bool {
        match &self.state {
            State::LookingUp { .. } | State::Waiting { .. } => true,
            State::Sending { sending, .. } => sending.is_dialling(),
        }
    }

    fn address(&self) -> Option<&str> {
        match &self.state {
            State::LookingUp { .. } | State::Waiting { .. } => None,
            State::Sending { sending, .. } => sending.address(),
        }
    }
}
