//! How a recovery layer is built.

use std::sync::Arc;

use super::{Settings, Warnings};
use crate::Observer;
use crate::call::ResponseFailed;
use crate::observe::{with_log, with_observer};

impl<C> Settings<C> {
    pub(crate) fn new(layer: &'static str, classifier: C) -> Self {
        Self {
            classifier,
            transparent: true,
            observer: with_log(None),
            own_observer: None,
            sees_success: false,
            sees_sent: false,
            response_failed: None,
            service: None,
            warnings: Warnings::of(layer),
        }
    }

    /// Adds an observer to those added before.
    pub(crate) fn observe(&mut self, observer: Arc<dyn Observer>) {
        let own = with_observer(self.own_observer.take(), observer);
        (self.sees_success, self.sees_sent) = (own.sees_success(), own.sees_sent());
        self.observer = with_log(Some(Arc::clone(&own)));
        self.response_failed = own.sees_response().then(|| {
            let own = Arc::clone(&own);
            let failed: ResponseFailed =
                Arc::new(move |context, why, failure| own.response_failed(context, why, failure));
            failed
        });
        self.own_observer = Some(own);
    }
}
