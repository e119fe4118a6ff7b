//! User code that runs in a drop.

#[cfg(feature = "tokio")]
use std::any::Any;
#[cfg(feature = "tokio")]
use std::panic::resume_unwind;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs user code that a drop may lead to. A panic of it during another one would abort the
/// process: it is lost.
pub(crate) fn may_be_in_drop(user_code: impl FnOnce()) {
    if std::thread::panicking() {
        let _lost = catch_unwind(AssertUnwindSafe(user_code));
    } else {
        user_code();
    }
}

/// Runs user code in a drop, each step whatever became of those before it. Then the first panic
/// goes on; during another one it would abort the process: it is lost.
#[cfg(feature = "tokio")]
#[derive(Default)]
pub(crate) struct InDrop(Option<Box<dyn Any + Send>>);

#[cfg(feature = "tokio")]
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Dropped;

    impl Drop for Dropped {
        fn drop(&mut self) {
            may_be_in_drop(|| panic!("second"));
        }
    }

    #[test]
    fn a_panic_in_a_drop_is_lost_only_during_another_one() {
        let during = catch_unwind(|| {
            let _dropped = Dropped;
            panic!("first");
        });
        assert_eq!(during.unwrap_err().downcast_ref(), Some(&"first"));
        let alone = catch_unwind(|| drop(Dropped));
        assert_eq!(alone.unwrap_err().downcast_ref(), Some(&"second"));
    }
}
