use tower_layer::Layer;

use super::Pushback;

/// Reads server pushback with `R` (a [`ReadPushback`](crate::ReadPushback); a closure in
/// [`pushback_fn`](crate::pushback_fn)). Put it inside the recovery layer. Without a deadline a
/// call waits up to a day if a server asks for it: put a `DeadlineLayer` outside of the recovery
/// layer.
#[derive(Clone, Copy, Debug)]
pub struct PushbackLayer<R> {
    reader: R,
}

impl<R> PushbackLayer<R> {
    /// Reads with this reader.
    #[must_use]
    pub const fn new(reader: R) -> Self {
        Self { reader }
    }
}

impl<S, R: Clone> Layer<S> for PushbackLayer<R> {
    type Service = Pushback<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        Pushback {
            inner,
            reader: self.reader.clone(),
            order: crate::StackCheck::default(),
        }
    }
}
