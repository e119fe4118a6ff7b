//! The answer of one call as far as it was received.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use reattempt::Elapsed;
use reattempt_couchbase::service::ServiceAnswer;
use reattempt_http::body::DeadlineBodyError;

use crate::call::transport::{TransportError, chain};

/// Maximum bytes read of a response body.
pub(super) const LONGEST_BODY: usize = 64 << 20;

/// The part of the answer received so far.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) head: Option<(StatusCode, HeaderMap)>,
    /// The result of the service's layer.
    pub(super) found: Option<ServiceAnswer>,
    pub(super) body: BytesMut,
}

impl Received {
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
                if self.body.len() + data.len() > LONGEST_BODY {
                    let what = format!("the answer's body has more than {LONGEST_BODY} bytes");
                    return Err(Broken::Failed(what));
                }
                self.body.extend_from_slice(&data);
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
        }
    }
}
