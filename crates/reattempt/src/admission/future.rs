use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::{Admission, Criticality, OnRefused, Refused};
use crate::CallHandle;
use crate::call::AtEnd;
use crate::poll::polled_after_completion;

/// A call that was admitted, until its end.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) admission: Arc<Admission>,
    pub(super) criticality: Criticality,
    pub(super) handle: CallHandle,
}

impl Counted {
    /// A call of which no recovery layer reports counts nowhere; one whose status follows counts
    /// when that is there.
    fn ended(self) {
        let Self {
            admission,
            criticality,
            handle,
        } = self;
        let learns = || {
            let counted = admission.elapsed();
            AtEnd::Admission(Arc::clone(&admission), criticality, counted)
        };
        if let Some(accepted) = handle.was_accepted(&admission, learns) {
            admission.ended(criticality, accepted);
        }
    }
}

pin_project! {
    /// The future of [`Admit`](super::Admit).
    ///
    /// # Panics
    ///
    /// When it is polled again after a refused call returned its outcome.
    pub struct AdmitFuture<F, M> {
        #[pin]
        state: State<F, M>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, M> {
        Sent {
            // Dropped first, as the handle of the deadline.
            counted: Option<Counted>,
            #[pin]
            inner: F,
        },
        Refused {
            refused: Option<Refused>,
            on_refused: M,
        },
    }
}

impl<F, M> AdmitFuture<F, M> {
    pub(super) const fn sent(inner: F, counted: Option<Counted>) -> Self {
        Self {
            state: State::Sent { counted, inner },
        }
    }

    pub(super) const fn refused(refused: Refused, on_refused: M) -> Self {
        Self {
            state: State::Refused {
                refused: Some(refused),
                on_refused,
            },
        }
    }
}

impl<F, M> fmt::Debug for AdmitFuture<F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmitFuture").finish_non_exhaustive()
    }
}

impl<F, M, Res, Err> Future for AdmitFuture<F, M>
where
    F: Future<Output = Result<Res, Err>>,
    M: OnRefused<Res, Err>,
{
    type Output = Result<Res, Err>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Sent { counted, inner } => {
                let polled = inner.poll(cx);
                if polled.is_ready() {
                    if let Some(counted) = counted.take() {
                        counted.ended();
                    }
                }
                polled
            }
            StateProjection::Refused {
                refused,
                on_refused,
            } => match refused.take() {
                Some(refused) => Poll::Ready(on_refused.on_refused(refused)),
                None => polled_after_completion("AdmitFuture"),
            },
        }
    }
}
