//! `ReplayBody`: copies are made, read, committed and dropped in any order. Every copy reads a
//! prefix of the same body, never more than the limits is kept, and at the end nothing is kept.
#![no_main]

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame};
use libfuzzer_sys::fuzz_target;
use reattempt::{AttemptKind, NextAttempt, Replay};
use reattempt_http::body::{BufferBudget, ReplayBody};

/// Ready frames of up to seven bytes, pending polls, empty frames, trailers and an error, as the
/// input says.
struct Source(Vec<u8>, u8);

impl Body for Source {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let Some(op) = self.0.pop() else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(Ok(match op % 16 {
            0..=7 => {
                let count = self.1;
                self.1 = count.wrapping_add(1);
                Frame::data(Bytes::from(vec![count; usize::from(op % 8)]))
            }
            8 => Frame::trailers(http::HeaderMap::new()),
            9 => return Poll::Ready(Some(Err(std::io::Error::other("broke")))),
            _ => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        })))
    }
}

fuzz_target!(|data: &[u8]| {
    let [limit, budget, ops @ ..] = data else {
        return;
    };
    let (source, ops) = ops.split_at(ops.len() / 2);
    let budget = BufferBudget::new(usize::from(*budget));
    let next = NextAttempt::new(2, AttemptKind::Retry, None);
    let mut cx = Context::from_waker(Waker::noop());
    let limit = usize::from(*limit);
    let template = ReplayBody::with_limits(Source(source.to_vec(), 0), limit, Some(budget.clone()));
    let mut copies = vec![(template, Vec::new())];
    let mut whole: Vec<u8> = Vec::new();
    for op in ops {
        let out = copies.len();
        let at = usize::from(op >> 3) % out.max(1);
        let Some((body, read)) = copies.get_mut(at) else {
            break;
        };
        match op % 8 {
            0 if out < 8 => {
                if let Some(copy) = body.replay(&next) {
                    copies.push((copy, Vec::new()));
                }
            }
            1 => drop(copies.swap_remove(at)),
            2 => body.commit(),
            3 => {
                let (hint, _) = (body.size_hint(), body.is_end_stream());
                assert!(hint.upper().is_none_or(|upper| upper >= hint.lower()));
            }
            _ => {
                if let Poll::Ready(Some(Ok(frame))) = Pin::new(body).poll_frame(&mut cx) {
                    read.extend(frame.into_data().unwrap_or_default());
                    let common = read.len().min(whole.len());
                    assert_eq!(read[..common], whole[..common]);
                    if read.len() > whole.len() {
                        whole.clone_from(read);
                    }
                }
            }
        }
        assert!(budget.used() <= limit);
    }
    drop(copies);
    assert_eq!(budget.used(), 0);
});
