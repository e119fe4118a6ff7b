//! User code that runs in a drop.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs user code in a drop, each step whatever became of those before it. Then the first panic
/// goes on; during another one it would abort the process: it is lost.
#[derive(Default)]
pub(crate) struct InDrop(Option<Box<dyn Any + Send>>);

impl InDrop {
    pub(crate) fn run(&mut self, step: impl FnOnce()) {
        if let Err(panicked) = catch_unwind(AssertUnwindSafe(step)) {
            self.0.get_or_insert(panicked);
        }
    }

    pub(crate) fn finish(self) {
        if let (Some(panicked), false) = (self.0, std::thread::panicking()) {
            resume_unwind(panicked);
        }
    }
}
