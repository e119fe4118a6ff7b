//! Copies of the logical request for further attempts.

use std::task::{Context, Poll};

use crate::{AttemptKind, Call, Failure};

/// The attempt for which a copy is made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NextAttempt<'a> {
    /// Its number; the first attempt of a call is 1.
    pub number: u32,
    /// Why the attempt is sent.
    pub kind: AttemptKind,
    /// The failure that caused it; `None` for a hedge sent after its delay.
    pub after: Option<&'a Failure>,
}

impl<'a> NextAttempt<'a> {
    /// The attempt of this number, which is sent for this reason, after this failure.
    #[must_use]
    pub const fn new(number: u32, kind: AttemptKind, after: Option<&'a Failure>) -> Self {
        Self {
            number,
            kind,
            after,
        }
    }
}

/// A request that can be sent more than once.
///
/// A copy is sent and the original is kept as the template; the last possible attempt moves the
/// template itself. A copy is another copy of the *logical* request: a protocol that encodes for
/// one server (request ids, cluster times, compression) encodes below the recovery layer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sent more than once",
    note = "the body of an `http::Request`: put `reattempt_http::body::ReplayBodyLayer` above the recovery layer, which makes it a `reattempt_http::body::ReplayBody`",
    note = "any other request: put it into `Call<T>`, where it only has to be `Clone` (`CallLayer` does so, outermost)"
)]
pub trait Replay: Sized {
    /// Called after an attempt failed, and mostly again before the next one is sent: whether `next`
    /// could be sent. The answer may change. After a failure it is not decided yet what follows:
    /// then `next` has the number after that of the failed attempt, and the kind of the layer that
    /// asks, a retry or a hedge.
    fn can_replay(&self, next: &NextAttempt<'_>) -> bool {
        let _ = next;
        true
    }

    /// Called when the copy is sent. `None` refuses (the request can no longer be copied for this
    /// attempt), and the call then ends with the failure it holds. Of a failure that was a response
    /// it mostly holds none, because that is dropped before the delay: then this value itself is
    /// sent, as the last attempt. Refuse what must not be sent in [`can_replay`](Self::can_replay),
    /// which is asked before the response is dropped.
    fn replay(&self, next: &NextAttempt<'_>) -> Option<Self>;

    /// Called on the template after an attempt ended in an error: whether its copy was cut off
    /// because another attempt continues alone (A6, Memory Management). The error then says nothing
    /// about the server: it is not counted, and it does not fail the call while another attempt is
    /// in flight.
    fn was_cut_off(&self, attempt: u32) -> bool {
        let _ = attempt;
        false
    }

    /// Called on the template after an attempt ended in an error: whether its copy had content and
    /// none of it was read. The request then never left the client, because a transport that sends
    /// also reads: see [`Transparent::IfUnread`](crate::Transparent::IfUnread).
    fn was_unread(&self, attempt: u32) -> bool {
        let _ = attempt;
        false
    }

    /// Called on the template while several attempts are in flight: ready once this attempt's copy
    /// is cut off because another attempt continues alone. The attempt is then cancelled at once,
    /// even if it would never read its copy again. Until then, the task of the last context is
    /// woken when this changes.
    fn poll_cut_off(&self, attempt: u32, cx: &mut Context<'_>) -> Poll<()> {
        let _ = (attempt, cx);
        Poll::Pending
    }

    /// Called on the template, maybe more than once: the attempt of this number has failed or lost,
    /// and its response, if it has one, does not end the call. Of a response that may still end it,
    /// only when another attempt is about to be sent. A transport may hold its copy for longer;
    /// data kept for it can be dropped.
    fn attempt_over(&self, number: u32) {
        let _ = number;
    }

    /// Called on the template once the call has its response: no further copy is made, so data kept
    /// for copies is dropped.
    fn release(&mut self) {}
}

impl<T: Clone> Replay for Call<T> {
    fn replay(&self, _: &NextAttempt<'_>) -> Option<Self> {
        Some(self.clone())
    }
}

macro_rules! replay_by_clone {
    ($($t:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl Replay for $t {
            fn replay(&self, _: &NextAttempt<'_>) -> Option<Self> {
                Some(self.clone())
            }
        }
    )*};
}
replay_by_clone!((), String, Vec<u8>, &'static str, &'static [u8]);
#[cfg(feature = "http")]
replay_by_clone!(bytes::Bytes);

#[cfg(feature = "http")]
impl<B: Replay> Replay for http::Request<B> {
    fn can_replay(&self, next: &NextAttempt<'_>) -> bool {
        self.body().can_replay(next)
    }

    fn was_cut_off(&self, attempt: u32) -> bool {
        self.body().was_cut_off(attempt)
    }

    fn was_unread(&self, attempt: u32) -> bool {
        self.body().was_unread(attempt)
    }

    fn poll_cut_off(&self, attempt: u32, cx: &mut Context<'_>) -> Poll<()> {
        self.body().poll_cut_off(attempt, cx)
    }

    fn replay(&self, next: &NextAttempt<'_>) -> Option<Self> {
        let body = self.body().replay(next)?;
        let mut copy = http::Request::new(body);
        *copy.method_mut() = self.method().clone();
        *copy.uri_mut() = self.uri().clone();
        *copy.version_mut() = self.version();
        *copy.headers_mut() = self.headers().clone();
        *copy.extensions_mut() = self.extensions().clone();
        Some(copy)
    }

    fn attempt_over(&self, number: u32) {
        self.body().attempt_over(number);
    }

    #[inline]
    fn release(&mut self) {
        self.body_mut().release();
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    const NEXT: NextAttempt<'static> = NextAttempt::new(2, AttemptKind::Retry, None);

    #[test]
    fn a_request_with_bytes_is_copied_without_copying_them() {
        let mut request = http::Request::new(bytes::Bytes::from(vec![1, 2, 3]));
        *request.method_mut() = http::Method::PUT;
        let copy = request.replay(&NEXT).unwrap();
        assert_eq!(copy.body().as_ptr(), request.body().as_ptr());
        assert_eq!(
            (copy.method(), &copy.body()[..]),
            (request.method(), &[1, 2, 3][..])
        );
    }
}
