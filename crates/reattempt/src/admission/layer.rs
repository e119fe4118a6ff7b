use std::sync::Arc;

use tower_layer::Layer;

use super::{Admission, Admit, OfContext};
use crate::deadline::AsError;
use crate::observe::with_observer;
use crate::{Observer, StackCheck};

/// Refuses calls while the server accepts too few of them. By default with [`Admission::default`]:
/// `K` is 2, over five seconds.
#[derive(Clone, Debug)]
pub struct AdmissionLayer<M = AsError, C = OfContext, A = Arc<Admission>> {
    admission: A,
    on_refused: M,
    criticality: C,
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

impl<A> AdmissionLayer<AsError, OfContext, A> {
    /// Asks this admission, which belongs to one server, or the one that
    /// [`PickAdmission`](super::PickAdmission) finds for each request.
    #[must_use]
    pub fn new(admission: A) -> Self {
        Self {
            admission,
            on_refused: AsError,
            criticality: OfContext,
            observer: None,
            order: StackCheck::default(),
        }
    }
}

impl<M, C, A> AdmissionLayer<M, C, A> {
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
    pub fn on_refused<N>(self, on_refused: N) -> AdmissionLayer<N, C, A> {
        AdmissionLayer {
            admission: self.admission,
            on_refused,
            criticality: self.criticality,
            observer: self.observer,
            order: self.order,
        }
    }

    /// Reads the criticality of each request by this function, and sets it on its context; by
    /// default only what is set there counts.
    ///
    /// ```
    /// use reattempt::admission::Criticality;
    /// use reattempt::{AdmissionLayer, Call};
    ///
    /// let layer = AdmissionLayer::default().criticality(|call: &Call<&str>| {
    ///     call.request.starts_with("report").then_some(Criticality::SHEDDABLE)
    /// });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn criticality<D>(self, criticality: D) -> AdmissionLayer<M, D, A> {
        AdmissionLayer {
            admission: self.admission,
            on_refused: self.on_refused,
            criticality,
            observer: self.observer,
            order: self.order,
        }
    }
}

impl<S, M: Clone, C: Clone, A: Clone> Layer<S> for AdmissionLayer<M, C, A> {
    type Service = Admit<S, M, C, A>;

    fn layer(&self, inner: S) -> Self::Service {
        Admit {
            inner,
            admission: self.admission.clone(),
            on_refused: self.on_refused.clone(),
            criticality: self.criticality.clone(),
            observer: self.observer.clone(),
            order: self.order.clone(),
        }
    }
}
