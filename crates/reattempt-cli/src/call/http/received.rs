//! The answer of one call as far as it was received.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use reattempt::{CallDeadline, Elapsed, StopReason};
use reattempt_couchbase::service::ServiceAnswer;
use reattempt_http::body::DeadlineBodyError;
use tokio::time::{Instant, timeout};

use crate::call::transport::{TransportError, chain};

/// Maximum bytes read of a response body, by default.
pub(super) const LONGEST_BODY: usize = 64 << 20;

/// How long the end of a failed answer's body is waited for if the call has no limit of its own: no
/// call hangs for it.
const FAILED_BODY: Duration = Duration::from_secs(5);

/// The part of the answer received so far.
#[derive(Debug)]
pub(super) struct Received {
    /// The most bytes that are read of its body.
    most: usize,
    pub(super) head: Option<(StatusCode, HeaderMap)>,
    /// Why there was no further attempt, if the head failed the call.
    pub(super) failed: Option<StopReason>,
    /// The result of the service's layer.
    pub(super) found: Option<ServiceAnswer>,
    pub(super) body: BytesMut,
}

impl Received {
    /// Nothing yet, and never more than this many bytes of a body.
    pub(super) fn at_most(most: usize) -> Self {
        Self {
            most,
            head: None,
            failed: None,
            found: None,
            body: BytesMut::new(),
        }
    }

    /// Reads an answer whose head failed the call. Its body changes nothing of that: if it is too
    /// slow, the call has not timed out.
    pub(super) async fn read_failed<B>(
        &mut self,
        response: Response<B>,
        deadline: Option<CallDeadline>,
    ) -> Result<(), Broken>
    where
        B: Body<Data = Bytes, Error = Broken> + Unpin,
    {
        let left = deadline.map(|end| end.at.saturating_duration_since(Instant::now().into_std()));
        let read = timeout(left.unwrap_or(FAILED_BODY), self.read(response));
        let within = match (read.await, left) {
            (Ok(Err(Broken::TooSlow(_))), _) | (Err(_), Some(_)) => "its timeout".to_owned(),
            (Ok(read), _) => return read,
            (Err(_), None) => format!("{} s of its head", FAILED_BODY.as_secs()),
        };
        let what = format!("the answer's body did not end within {within}");
        Err(Broken::Failed(what))
    }

    pub(super) async fn read<B>(&mut self, response: Response<B>) -> Result<(), Broken>
    where
        B: Body<Data = Bytes, Error = Broken> + Unpin,
    {
        let (mut head, mut body) = response.into_parts();
        self.found = head.extensions.remove();
        self.head = Some((head.status, head.headers));
        while let Some(frame) = body.frame().await {
            // A body that is always ready must not prevent the caller from cancelling.
            tokio::task::consume_budget().await;
            if let Ok(data) = frame?.into_data() {
                let left = self.most - self.body.len();
                self.body.extend_from_slice(&data[..data.len().min(left)]);
                if data.len() > left {
                    return Err(Broken::TooLong(self.most));
                }
            }
            if body.is_end_stream() {
                break;
            }
        }
        Ok(())
    }
}

/// Why the answer is incomplete.
#[derive(Debug)]
pub(super) enum Broken {
    /// The deadline passed before the head.
    Elapsed(Elapsed),
    /// The deadline passed after it.
    TooSlow(Elapsed),
    /// The body has more bytes than these, which were read.
    TooLong(usize),
    Failed(String),
}

impl Broken {
    /// The call failed without an answer.
    pub(super) fn call(error: TransportError) -> Self {
        match error.downcast::<Elapsed>() {
            Ok(elapsed) => Self::Elapsed(*elapsed),
            Err(error) => Self::Failed(chain(&*error)),
        }
    }
}

/// The text of a body that was too slow. The layer's names the call or the attempt, by its place
/// in the stack; for the caller both are over.
pub(super) fn too_slow(elapsed: &Elapsed) -> String {
    let text = elapsed.to_string();
    let rest = ["the call", "the attempt"]
        .iter()
        .find_map(|scope| text.strip_prefix(scope));
    format!("the response body{}", rest.unwrap_or_default())
}

/// The body of the answer failed.
impl From<TransportError> for Broken {
    fn from(error: TransportError) -> Self {
        Self::Failed(format!("the answer's body broke off: {}", chain(&*error)))
    }
}

impl<E> From<DeadlineBodyError<E>> for Broken
where
    Self: From<E>,
{
    fn from(error: DeadlineBodyError<E>) -> Self {
        match error {
            DeadlineBodyError::Elapsed(elapsed) => Self::TooSlow(elapsed),
            DeadlineBodyError::Body(error) => error.into(),
            _ => Self::Failed("the answer's body broke off".to_owned()),
        }
    }
}
