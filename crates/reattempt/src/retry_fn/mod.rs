//! `retry`: retries a function, for code without a service.
//!
//! The function is called once for each attempt. The decisions are those of a
//! [`RetryLayer`](crate::RetryLayer): the layer itself runs, around a service made of the function.
//!
//! ```
//! use std::io;
//! use std::time::Duration;
//! use reattempt::{Attempt, ClientError};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), ClientError<io::Error>> {
//! /// The third attempt connects.
//! async fn connect(attempt: Attempt) -> io::Result<u32> {
//!     match attempt.number() {
//!         n @ 3.. => Ok(n),
//!         _ => Err(io::ErrorKind::ConnectionRefused.into()),
//!     }
//! }
//!
//! assert_eq!(reattempt::retry(connect).timeout(Duration::from_secs(5)).await?, 3);
//! # Ok(()) }
//! ```
//!
//! | setting | default |
//! | --- | --- |
//! | [`strategy`](RetryFn::strategy) | [`MaxAttempts::standard`]: three attempts, full jitter up to 100 ms, 200 ms |
//! | [`when`](RetryFn::when), [`classify`](RetryFn::classify) | any error is retried ([`AnyError`]) |
//! | [`not_idempotent`](RetryFn::not_idempotent) | the function is idempotent: it may be called again after any failure |
//! | [`timeout`](RetryFn::timeout) | none: the error type is the function's own. With one it is [`ClientError`] |
//! | [`throttle`](RetryFn::throttle) | none: every failing call is retried. Share one for all calls to a server |
//! | [`observer`](RetryFn::observer) | none but the log ([`LogObserver`](crate::observe::LogObserver)) |
//! | [`with_info`](RetryFn::with_info) | the outcome alone is returned |
//!
//! Log and records have the reasons of the attempts, and no error: log an error inside of the
//! function if its text matters. The log has one event for a call, at its end: of a job that
//! retries for hours log each failure there too, or by an `observer`.
//!
//! The builder carries a [`CallContext`], as a request does: [`RetryInfo::track`] shows a call that
//! may be dropped, and `set_data` attaches data for strategies and observers.
//!
//! ```
//! use std::sync::Arc;
//! use reattempt::backoff::Backoff;
//! use reattempt::strategy::MaxAttempts;
//! use reattempt::{RetryThrottle, ServerPushback, TokenBucket};
//! # use std::time::Duration;
//!
//! # #[derive(Debug)]
//! enum QueryError { Busy { retry_after: Duration }, Syntax }
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let busy = Duration::from_secs(2);
//! # let database = |n| if n == 1 { Err(QueryError::Busy { retry_after: busy }) } else { Ok(7) };
//! let throttle: Arc<dyn RetryThrottle> = Arc::new(TokenBucket::new(10, 100)?); // one per server
//! let began = tokio::time::Instant::now();
//! let (rows, info) = reattempt::retry(|attempt| async move {
//!     let rows = database(attempt.number());
//!     if let Err(QueryError::Busy { retry_after }) = &rows {
//!         attempt.reporter().pushback(ServerPushback::After(*retry_after)); // exactly this delay
//!     }
//!     rows
//! })
//! .when(|error| matches!(error, QueryError::Busy { .. }))
//! .strategy(MaxAttempts::new(5, Backoff::constant(Duration::from_millis(50))))
//! .throttle(Arc::clone(&throttle))
//! .with_info()
//! .await;
//! assert!(matches!((rows, began.elapsed().as_secs()), (Ok(7), 2)));
//! assert_eq!(info.attempts(), 2); // and why: info.records()
//! # let _ = QueryError::Syntax;
//! # Ok(()) }
//! ```
//!
//! Until a signal: the attempt in flight runs to its end, a delay does not, and the last error is
//! returned.
//!
//! ```
//! use std::time::Duration;
//! use reattempt::backoff::Backoff;
//! use reattempt::{Decision, RetryStrategy, RetryView, StopReason};
//! use tokio::sync::watch;
//!
//! #[derive(Debug)]
//! struct Until {
//!     stopped: watch::Receiver<bool>,
//!     backoff: Backoff,
//! }
//!
//! impl RetryStrategy for Until {
//!     fn decide(&self, view: &RetryView<'_>) -> Decision {
//!         let delay = self.backoff.delay(view.retries, None);
//!         let mut stopped = self.stopped.clone();
//!         Decision::Defer(Box::pin(async move {
//!             tokio::select! {
//!                 biased;
//!                 _ = stopped.wait_for(|stopped| *stopped) => Ok(None),
//!                 () = tokio::time::sleep(delay) => Ok(Some(Duration::ZERO)),
//!             }
//!         }))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! # async fn import() -> Result<(), &'static str> { Err("the database is away") }
//! let (stop, stopped) = watch::channel(false);
//! let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60));
//! let job = reattempt::retry(|_| import()).strategy(Until { stopped, backoff }).with_info();
//! let job = tokio::spawn(job.into_future());
//! # tokio::time::sleep(Duration::from_secs(3600)).await;
//! stop.send_replace(true); // on SIGTERM
//! let (outcome, info) = job.await.unwrap();
//! assert_eq!(outcome, Err("the database is away"));
//! assert_eq!(info.stopped(), Some(StopReason::Strategy));
//! # assert!(info.attempts() > 60);
//! # }
//! ```

mod attempt;
mod classifiers;
mod function;
mod future;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

#[cfg(doc)]
use crate::RetryInfo;
use crate::observe::with_observer;
use crate::strategy::MaxAttempts;
use crate::{
    CallContext, Classify, ClientError, HasCallContext, Idempotency, Observer, RetryStrategy,
    RetryThrottle,
};
pub use attempt::Attempt;
pub use classifiers::{AnyError, FUNCTION_FAILED, When};
pub use future::{RetryFnFuture, WithInfo, WithInfoFuture};

/// Calls `function` until an attempt succeeds or no further one is allowed. See the
/// [module](crate::retry_fn) for the defaults.
///
/// The function may borrow, and is called from the returned future only: nothing runs before that
/// is polled, and dropping it cancels the call. An attempt's future cannot borrow mutably what the
/// function captures (a client whose method takes `&mut self`): clone the value for each attempt,
/// or borrow it in the future from a `RefCell` or from tokio's `Mutex`.
///
/// # Errors
///
/// The last attempt's own error, unchanged. With a [`timeout`](RetryFn::timeout) it is inside of a
/// [`ClientError`], beside the elapsed deadline.
pub fn retry<F, Fut, T, E>(function: F) -> RetryFn<F>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let mut context = CallContext::default();
    context.set_idempotency(Idempotency::Idempotent);
    RetryFn {
        function,
        classifier: AnyError,
        timeout: NoTimeout,
        strategy: Arc::new(MaxAttempts::standard()),
        observer: None,
        context,
    }
}

/// A call of a function that is retried. Made by [`retry`]; `.await` it.
#[must_use = "the function is not called unless this is awaited"]
pub struct RetryFn<F, C = AnyError, L = NoTimeout> {
    function: F,
    classifier: C,
    timeout: L,
    strategy: Arc<dyn RetryStrategy>,
    /// `None` is the log.
    observer: Option<Arc<dyn Observer>>,
    context: CallContext,
}

/// Without a timeout: only the strategy ends the call.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTimeout;

/// With a timeout for all attempts.
#[derive(Clone, Copy, Debug)]
pub struct WithTimeout(Duration);

impl<F, C, L> RetryFn<F, C, L> {
    /// Ends the call after this time, with all its attempts and delays. The error is then
    /// [`ClientError::Elapsed`], and every other one [`ClientError::Transport`].
    pub fn timeout(self, timeout: Duration) -> RetryFn<F, C, WithTimeout> {
        RetryFn {
            function: self.function,
            classifier: self.classifier,
            timeout: WithTimeout(timeout),
            strategy: self.strategy,
            observer: self.observer,
            context: self.context,
        }
    }

    /// Retries the errors for which this is true, and returns the others at once.
    pub fn when<P, Fut, T, E>(self, is_retryable: P) -> RetryFn<F, When<P>, L>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        P: Fn(&E) -> bool,
    {
        self.classify(When(is_retryable))
    }

    /// Has a classifier judge each outcome, also one that is `Ok`: a protocol's own, or a closure
    /// in [`classify_fn`](crate::classify_fn) (`classify_fn(|outcome, context| …)`).
    pub fn classify<D, Fut, T, E>(self, classifier: D) -> RetryFn<F, D, L>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        D: Classify<T, E>,
    {
        RetryFn {
            function: self.function,
            classifier,
            timeout: self.timeout,
            strategy: self.strategy,
            observer: self.observer,
            context: self.context,
        }
    }

    /// Sets how often, and after which delays.
    pub fn strategy(mut self, strategy: impl RetryStrategy + 'static) -> Self {
        self.strategy = Arc::new(strategy);
        self
    }

    /// Sets the throttle of the server: it refuses retries while most calls to it fail.
    pub fn throttle(mut self, throttle: Arc<dyn RetryThrottle>) -> Self {
        self.context.set_throttle(throttle);
        self
    }

    /// The function must not take effect twice: it is called again only if an attempt certainly had
    /// none. That is a failure whose reason says so (from a [`classify`](Self::classify)), or one
    /// of which the function reported [`Stage::Dispatch`](crate::Stage::Dispatch).
    pub fn not_idempotent(mut self) -> Self {
        self.context.set_idempotency(Idempotency::NotIdempotent);
        self
    }

    /// Adds an observer of every decision, beside the log.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(with_observer(self.observer.take(), observer));
        self
    }

    /// Returns the outcome and what happened in the call: `(result, info)`. Call it last.
    pub fn with_info(self) -> WithInfo<Self> {
        WithInfo(self)
    }
}

#[diagnostic::do_not_recommend]
impl<F, C, L> HasCallContext for RetryFn<F, C, L> {
    fn context(&self) -> Option<&CallContext> {
        Some(&self.context)
    }

    fn context_mut(&mut self) -> &mut CallContext {
        &mut self.context
    }
}

impl<F, Fut, T, E, C> IntoFuture for RetryFn<F, C>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<T, E>,
{
    type Output = Result<T, E>;
    type IntoFuture = RetryFnFuture<Self>;

    fn into_future(self) -> Self::IntoFuture {
        RetryFnFuture::new(self)
    }
}

impl<F, Fut, T, E, C> IntoFuture for RetryFn<F, C, WithTimeout>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<T, E>,
{
    type Output = Result<T, ClientError<E>>;
    type IntoFuture = RetryFnFuture<Self>;

    fn into_future(self) -> Self::IntoFuture {
        RetryFnFuture::new(self)
    }
}

impl<F, C, L: fmt::Debug> fmt::Debug for RetryFn<F, C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryFn")
            .field("timeout", &self.timeout)
            .field("strategy", &self.strategy)
            .field("observer", &self.observer)
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}
