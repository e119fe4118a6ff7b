//! State shared by a node's handle and its tasks.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use super::seen::{SeenLog, SeenRequest};
use super::shared::Shared;
use super::step::{Script, Step};

/// Chooses the step of a request; `None` leaves the choice to the script.
pub(super) type Handler = Arc<dyn Fn(&SeenRequest) -> Option<Step> + Send + Sync>;

/// One node.
pub(super) struct Inner {
    pub(super) index: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) script: Script,
    pub(super) handler: Option<Handler>,
    pub(super) bootstrap_handler: Option<Handler>,
    pub(super) seen: Mutex<SeenLog>,
    pub(super) connections: AtomicU64,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// The step of the script, else of the handler, else execute the request.
    pub(super) fn step_for(&self, request: &SeenRequest) -> Step {
        if let Some(step) = self.script.take(request.opcode) {
            return step;
        }
        let handler = if request.is_bootstrap() {
            &self.bootstrap_handler
        } else {
            &self.handler
        };
        handler
            .as_ref()
            .and_then(|handler| handler(request))
            .unwrap_or_default()
    }
}
