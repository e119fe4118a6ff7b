use std::sync::Arc;

use tower_layer::Layer;

use super::{Admission, Admit};
use crate::deadline::AsError;
use crate::observe::with_observer;
use crate::{Observer, StackCheck};

/// Refuses calls while the server accepts too few of them. By default with [`Admission::default`]:
/// `K` is 2, over five seconds.
#[derive(Clone, Debug)]
pub struct AdmissionLayer<M = AsError, A = Arc<Admission>> {
    admission: A,
    on_refused: M,
    /// Beside the log.
    observer: Option<Arc<dyn Observer>>,
    order: StackCheck,
}

// Not for other types, so that `AdmissionLayer::default()` needs no annotation.
impl Default for AdmissionLayer {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl<A> AdmissionLayer<AsError, A> {
    /// Asks this admission, which belongs to one server, or the one that
    /// [`PickAdmission`](super::PickAdmission) finds for each request.
    #[must_use]
    pub fn new(admission: A) -> Self {
        Self {
            admission,
            on_refused: AsError,
            observer: None,
            order: StackCheck::default(),
        }
    }
}

impl<M, A> AdmissionLayer<M, A> {
    /// Asks this admission instead.
    #[must_use]
    pub fn asks(mut self, admission: A) -> Self {
        self.admission = admission;
        self
    }

    /// Adds an observer of refused calls, to the log
    /// ([`LogObserver`](crate::observe::LogObserver)) and to those added before: it gets the end of
    /// each ([`Observer::call_ended`]). The ends of all others it gets from the recovery layer, so
    /// add it there too.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(with_observer(self.observer.take(), observer));
        self
    }

    /// Sets the outcome of a refused call; by default an error ([`AsError`]).
    #[must_use]
    pub fn on_refused<N>(self, on_refused: N) -> AdmissionLayer<N, A> {
        AdmissionLayer {
            admission: self.admission,
            on_refused,
            observer: self.observer,
            order: self.order,
        }
    }
}

impl<S, M: Clone, A: Clone> Layer<S> for AdmissionLayer<M, A> {
    type Service = Admit<S, M, A>;

    fn layer(&self, inner: S) -> Self::Service {
        Admit {
            inner,
            admission: self.admission.clone(),
            on_refused: self.on_refused.clone(),
            observer: self.observer.clone(),
            order: self.order.clone(),
        }
    }
}
