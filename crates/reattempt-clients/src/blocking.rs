//! Work that would hold a worker of the runtime for milliseconds, on a thread for blocking work.

use std::fmt;
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;

use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;

/// One permit per processor. tokio has hundreds of threads for blocking work; all of them at work
/// would leave its workers too little time for timers.
static PROCESSORS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(available_parallelism().map_or(1, usize::from)));

/// Does `work` on a thread for blocking work, as soon as a processor is free of such work. Dropped
/// midway the work goes on, and its result is dropped; so `work` must be bounded by itself.
pub(crate) async fn run<R, F>(work: F) -> R
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    // It is never closed, so there always is a permit.
    let permit = PROCESSORS.acquire().await;
    let work = move || {
        // Kept to the end of the work, also when the caller leaves.
        let _permit = permit;
        work()
    };
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime is shutting down, and this future with it.
        Err(_) => pending().await,
    }
}

/// The last result of an expensive computation, shared by clones, of which one runs at a time.
pub(crate) struct Kept<T>(Arc<Mutex<Option<T>>>);

impl<T: Send + 'static> Kept<T> {
    /// Does `work` as [`run`] does, after the one before has ended, also if that one's caller is
    /// gone: calls that are cut off and repeated do not pile up computations, and find its result.
    pub(crate) async fn run<R, F>(&self, work: F) -> R
    where
        F: FnOnce(&mut Option<T>) -> R + Send + 'static,
        R: Send + 'static,
    {
        let mut kept = Arc::clone(&self.0).lock_owned().await;
        run(move || work(&mut kept)).await
    }
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without what is kept: it may be a secret.
        f.write_str("Kept")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn no_more_work_than_processors_runs_at_once() {
        let most = available_parallelism().unwrap().get();
        let begun = Arc::new(AtomicUsize::new(0));
        let (mut go_on, mut all) = (Vec::new(), Vec::new());
        for _ in 0..4 * most {
            let (go, may_go_on) = mpsc::channel::<()>();
            go_on.push(go);
            let begun = Arc::clone(&begun);
            all.push(tokio::spawn(run(move || {
                begun.fetch_add(1, Ordering::SeqCst);
                let _ = may_go_on.recv();
            })));
        }
        while begun.load(Ordering::SeqCst) < most {
            tokio::task::yield_now().await;
        }
        assert_eq!(PROCESSORS.available_permits(), 0);
        assert_eq!(begun.load(Ordering::SeqCst), most);
        drop(go_on);
        for one in all {
            one.await.unwrap();
        }
        assert_eq!(begun.load(Ordering::SeqCst), 4 * most);
    }

    #[tokio::test]
    async fn work_whose_caller_left_is_ended_before_the_next() {
        let kept = Kept::<u32>::default();
        let (began, has_begun) = oneshot::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let first = kept.run(move |kept| {
            let _ = began.send(());
            let _ = may_go_on.recv();
            *kept = Some(1);
        });
        tokio::select! {
            () = first => panic!("it waits"),
            begun = has_begun => begun.unwrap(),
        }
        let next = kept.clone();
        let next = tokio::spawn(async move { next.run(|kept| *kept).await });
        tokio::task::yield_now().await;
        assert!(!next.is_finished());
        go_on.send(()).unwrap();
        assert_eq!(next.await.unwrap(), Some(1));
    }
}
