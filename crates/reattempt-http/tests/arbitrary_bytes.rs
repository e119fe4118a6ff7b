//! The properties of the fuzz targets, on every test run: headers with any value, and bodies
//! copied, read and dropped in any order.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use http_body::{Body, Frame};
use proptest::prelude::*;
use reattempt::{AttemptKind, CallContext, NextAttempt, ReadPushback, Replay, ServerPushback};
use reattempt_http::body::{BufferBudget, ReplayBody};
use reattempt_http::{BeyondCap, HttpPushback};

const CAP: Duration = Duration::from_secs(60);
/// All headers with a delay, and one that decides whether they count.
const NAMES: [&str; 5] = [
    "retry-after",
    "retry-after-ms",
    "ratelimit-reset",
    "x-ratelimit-reset",
    "ratelimit-remaining",
];

/// Frames of up to seven bytes, pending polls, trailers and an error, generated from the bytes.
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
                self.1 = self.1.wrapping_add(1);
                Frame::data(Bytes::from(vec![self.1; usize::from(op % 8)]))
            }
            8 => Frame::trailers(HeaderMap::new()),
            9 => return Poll::Ready(Some(Err(std::io::Error::other("broke")))),
            _ => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        })))
    }
}

type Copies = Vec<(ReplayBody<Source>, Vec<u8>)>;

/// One step. What one copy has read is always a prefix of what another has, or vice versa.
fn step(copies: &mut Copies, whole: &mut Vec<u8>, op: u8) {
    let next = NextAttempt::new(2, AttemptKind::Retry, None);
    let out = copies.len();
    let at = usize::from(op >> 3) % out.max(1);
    let Some((body, read)) = copies.get_mut(at) else {
        return;
    };
    match op % 8 {
        0 if out < 8 => {
            let copy = body.replay(&next);
            copies.extend(copy.map(|copy| (copy, Vec::new())));
        }
        1 => drop(copies.swap_remove(at)),
        2 => body.commit(),
        3 => {
            let (hint, _) = (body.size_hint(), body.is_end_stream());
            assert!(hint.upper().is_none_or(|upper| upper >= hint.lower()));
        }
        _ => {
            let mut cx = Context::from_waker(Waker::noop());
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
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn copies_of_a_body_agree_and_keep_to_their_limits(
        source in prop::collection::vec(any::<u8>(), 0..40),
        ops in prop::collection::vec(any::<u8>(), 0..120),
        limit in 0_usize..60, shared in 0_usize..60,
    ) {
        let budget = BufferBudget::new(shared);
        let template = ReplayBody::with_limits(Source(source, 0), limit, Some(budget.clone()));
        let (mut copies, mut whole) = (vec![(template, Vec::new())], Vec::new());
        for op in ops {
            step(&mut copies, &mut whole, op);
            prop_assert!(budget.used() <= limit.min(shared));
        }
        drop(copies);
        prop_assert_eq!(budget.used(), 0);
    }

    #[test]
    fn no_retry_after_panics_or_passes_the_cap(
        values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4),
        date in "(Mon|Sunday|Fri),? ?[0-9]{1,2}[ -](Nov|Feb|Dec)[ -][0-9]{2,5} [0-9:]{0,9}( GMT)?",
        number in "[0-9]{0,30}",
    ) {
        let mut headers = HeaderMap::new();
        let texts = [date.into_bytes(), number.into_bytes()];
        for (at, value) in values.into_iter().chain(texts).enumerate() {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(NAMES[at % NAMES.len()], value);
            }
        }
        let _ = HttpPushback::new().delay(&headers);
        let mut response = Response::builder().status(503).body(()).unwrap();
        *response.headers_mut() = headers;
        let reader = HttpPushback::new().cap(CAP, BeyondCap::Wait);
        let word = ReadPushback::<_, ()>::read(&reader, Ok(&response), &CallContext::default());
        if let Some(word) = word.valid() {
            let within = matches!(word, ServerPushback::After(delay) if delay <= CAP);
            prop_assert!(within);
        }
    }
}
