//! Making another copy of the logical request.

use std::task::{Context, Poll};

use crate::{AttemptKind, Call, Failure};

/// The attempt that a copy is made for.
#[derive(Clone, Copy, Debug)]
pub struct NextAttempt<'a> {
    /// Its number; the first attempt of a call is 1.
    pub number: u32,
    /// Why it is sent.
    pub kind: AttemptKind,
    /// The failure that leads to it; `None` for a hedge sent because time passed.
    pub after: Option<&'a Failure>,
}

/// A request that can be sent more than once.
///
/// A copy goes out and the original stays behind as the template; the last attempt that is possible
/// moves the template itself. A copy is another copy of the *logical* request: a protocol that
/// encodes for one server (request ids, cluster times, compression) encodes below the recovery
/// layer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sent more than once",
    note = "wrap any cloneable request in `Call<T>` (see `CallLayer`), and an HTTP body in `reattempt_http::ReplayBody`"
)]
pub trait Replay: Sized {
    /// Asked when an attempt failed: could `next` be sent?
    fn can_replay(&self, next: &NextAttempt<'_>) -> bool {
        let _ = next;
        true
    }

    /// Made when it is sent. `None` refuses (the request can no longer be made for this attempt):
    /// the call then ends with the failure it holds.
    fn replay(&self, next: &NextAttempt<'_>) -> Option<Self>;

    /// Asked of the template when an attempt ended in an error: was its copy cut off, because
    /// another attempt goes on alone (A6, Memory Management)? Then the error says nothing of the
    /// server: it is neither counted nor a failure of the call's while another attempt is out.
    fn was_cut_off(&self, attempt: u32) -> bool {
        let _ = attempt;
        false
    }

    /// Asked of the template when an attempt ended in an error: did its copy have content of which
    /// nothing was ever read? Then the request never left the client, because a transport that
    /// sends reads: see [`Transparent::IfUnread`](crate::Transparent::IfUnread).
    fn was_unread(&self, attempt: u32) -> bool {
        let _ = attempt;
        false
    }

    /// Asked of the template while several attempts are out: ready once this one's copy can go no
    /// further, because another goes on alone. Its attempt is then cancelled at once, also one that
    /// would wait for ever before it read its copy again. Until then the last context's task is
    /// woken when that changes.
    fn poll_cut_off(&self, attempt: u32, cx: &mut Context<'_>) -> Poll<()> {
        let _ = (attempt, cx);
        Poll::Pending
    }

    /// Told of the template: the attempt that this number's copy was made for has failed or has
    /// lost. A transport may hold that copy a while longer; what is kept for it need not be.
    fn attempt_over(&self, number: u32) {
        let _ = number;
    }

    /// Told of the template when the call has its answer: no further copy is made, so what is kept
    /// for one is let go of.
    fn release(&mut self) {}
}

impl<T: Clone> Replay for Call<T> {
    fn replay(&self, _: &NextAttempt<'_>) -> Option<Self> {
        Some(self.clone())
    }
}

macro_rules! replay_by_clone {
    ($($t:ty),*) => {$(
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

    const NEXT: NextAttempt<'static> = NextAttempt {
        number: 2,
        kind: AttemptKind::Retry,
        after: None,
    };

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
