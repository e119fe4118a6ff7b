use tower_layer::Layer;

use super::ConfigPoll;

/// Requests a newer configuration with `P` (a [`StaleConfig`](super::StaleConfig)). Put it inside
/// the recovery layer.
#[derive(Clone, Copy, Debug)]
pub struct ConfigPollLayer<P> {
    poll: P,
}

impl<P> ConfigPollLayer<P> {
    /// Creates the layer with this implementation.
    #[must_use]
    pub const fn new(poll: P) -> Self {
        Self { poll }
    }
}

impl<S, P: Clone> Layer<S> for ConfigPollLayer<P> {
    type Service = ConfigPoll<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        ConfigPoll {
            inner,
            poll: self.poll.clone(),
            order: crate::StackCheck::default(),
        }
    }
}
