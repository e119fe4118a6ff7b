use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Empty, Full};
use reattempt::{AttemptKind, NextAttempt, Replay};

use super::body::in_one_piece;
use crate::body::ReplayBody;

/// What a body gives when it is polled.
#[derive(Clone, Debug)]
enum Piece {
    Data(&'static str),
    Trailers,
    Fails,
    /// Not ready the first time.
    Late,
}

/// Gives these pieces; its length is known if `sized`.
struct Pieces {
    left: VecDeque<Piece>,
    sized: bool,
}

impl Pieces {
    fn new(pieces: &[Piece], sized: bool) -> Self {
        Self {
            left: pieces.iter().cloned().collect(),
            sized,
        }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(match self.left.pop_front() {
            None => None,
            Some(Piece::Data(data)) => Some(Ok(Frame::data(Bytes::from_static(data.as_bytes())))),
            Some(Piece::Trailers) => Some(Ok(Frame::trailers(HeaderMap::new()))),
            Some(Piece::Fails) => Some(Err(io::Error::other("the body fails"))),
            Some(Piece::Late) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let length = self.left.iter().map(|piece| match piece {
            Piece::Data(data) => data.len() as u64,
            _ => 0,
        });
        if self.sized {
            return SizeHint::with_exact(length.sum());
        }
        SizeHint::new()
    }
}

fn next(number: u32) -> NextAttempt<'static> {
    NextAttempt::new(number, AttemptKind::Initial, None)
}

#[test]
fn a_body_in_memory_stays_one_that_reqwest_can_repeat() {
    let full = piece(Full::<Bytes>::from("one loaf"));
    assert_eq!(full.as_bytes(), Some(&b"one loaf"[..]));
    let of_reqwest = piece(reqwest::Body::from("one loaf"));
    assert_eq!(of_reqwest.as_bytes(), Some(&b"one loaf"[..]));
    let template = ReplayBody::new(reqwest::Body::from("one loaf"));
    for attempt in 1..=3 {
        let copy = piece(template.replay(&next(attempt)).unwrap());
        assert_eq!(copy.as_bytes(), Some(&b"one loaf"[..]), "{attempt}");
    }
    let empty = piece(Empty::<Bytes>::new());
    assert_eq!(empty.as_bytes(), Some(&b""[..]));
}

#[tokio::test]
async fn any_other_body_arrives_whole_as_a_stream() {
    use Piece::*;
    for (pieces, sized) in [
        (&[Data("one "), Data("loaf")][..], true),
        (&[Late, Data("one loaf")], true),
        (&[Data("one "), Late, Data("loaf")], true),
        (&[Data("one loaf")], false),
        (&[Late, Data("one "), Data("loaf")], false),
        (&[Data("one loaf"), Trailers], true),
    ] {
        let body = piece(Pieces::new(pieces, sized));
        assert_eq!(body.as_bytes(), None, "{pieces:?}");
        assert_eq!(body.size_hint().exact(), sized.then_some(8), "{pieces:?}");
        let read = body.collect().await.unwrap();
        let has_trailers = matches!(pieces.last(), Some(Trailers));
        assert_eq!(read.trailers().is_some(), has_trailers, "{pieces:?}");
        assert_eq!(read.to_bytes(), "one loaf", "{pieces:?}");
    }
    for pieces in [&[Fails][..], &[Data("one "), Fails], &[Late, Fails]] {
        let body = piece(Pieces::new(pieces, true));
        assert!(body.collect().await.is_err(), "{pieces:?}");
    }
}

/// R60: what was handed over may have been sent, and only what was not is never sent.
#[test]
fn a_body_that_was_handed_over_is_not_unread() {
    let template = ReplayBody::new(Full::<Bytes>::from("one loaf"));
    drop(piece(template.replay(&next(1)).unwrap()));
    assert!(!template.was_unread(1));
    let stream = Pieces::new(&[Piece::Data("one loaf")], false);
    let template = ReplayBody::new(stream);
    drop(piece(template.replay(&next(1)).unwrap()));
    assert!(template.was_unread(1), "a stream is left alone");
}

#[test]
fn a_body_without_pieces_ends() {
    /// Does not know that it is empty.
    struct Unaware;

    impl Body for Unaware {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(None)
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(0)
        }
    }

    assert_eq!(piece(Unaware).as_bytes(), Some(&b""[..]));
}

fn piece<B>(body: B) -> reqwest::Body
where
    B: Body<Data: Into<Bytes>> + Send + Sync + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    in_one_piece(body)
}
