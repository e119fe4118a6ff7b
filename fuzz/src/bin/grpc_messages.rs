//! gRPC messages in body frames split anywhere: the program's reader against one that has all bytes
//! at once, and the message limits of both directions, which pass on a prefix of the stream and no
//! part of a message that is too long.
#![no_main]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use libfuzzer_sys::fuzz_target;
use reattempt_clients::grpc::{MessageError, Messages};
use reattempt_grpc::{LimitedRequestBody, MessageLimitLayer};
use tower_layer::Layer;
use tower_service::Service;

#[derive(Clone)]
struct Pieces(VecDeque<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }
}

/// All data of a body up to its end, to its trailers, or until it stays pending.
fn read<B: Body<Data = Bytes>>(body: B) -> Vec<u8> {
    let mut body = pin!(body);
    let mut all = Vec::new();
    while let Poll::Ready(Some(Ok(frame))) = body
        .as_mut()
        .poll_frame(&mut Context::from_waker(Waker::noop()))
    {
        match frame.into_data() {
            Ok(data) => all.extend(data),
            Err(_) => break,
        }
    }
    all
}

/// Reads the request and responds with the same pieces.
struct Server<'a> {
    answer: Pieces,
    read: &'a mut Vec<u8>,
}

impl Service<Request<LimitedRequestBody<Pieces>>> for Server<'_> {
    type Response = Response<Pieces>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Pieces>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<LimitedRequestBody<Pieces>>) -> Self::Future {
        *self.read = read(request.into_body());
        ready(Ok(Response::new(self.answer.clone())))
    }
}

/// The messages of a complete stream, their total number of bytes, and why there are no more.
fn model(mut rest: &[u8], longest: usize) -> (Vec<&[u8]>, Result<(), MessageError>) {
    let mut messages = Vec::new();
    loop {
        let Some(([flag, length @ ..], tail)) = rest.split_first_chunk::<5>() else {
            break;
        };
        if *flag != 0 {
            return (messages, Err(MessageError::Compressed(*flag)));
        }
        let length = u32::from_be_bytes(*length) as usize;
        if length > longest {
            let max = longest;
            return (messages, Err(MessageError::TooLong { length, max }));
        }
        let Some((message, tail)) = tail.split_at_checked(length) else {
            break;
        };
        messages.push(message);
        rest = tail;
    }
    let end = match rest.len() {
        0 => Ok(()),
        left => Err(MessageError::Truncated(left)),
    };
    (messages, end)
}

/// The part of a stream that is passed on: everything up to the prefix of a message that is too
/// long.
fn passed(stream: &[u8], limit: usize) -> usize {
    let mut at = 0;
    while let Some([_, length @ ..]) = stream[at..].first_chunk::<5>() {
        let length = u32::from_be_bytes(*length) as usize;
        if length > limit {
            return at;
        }
        at = stream.len().min(at + 5 + length);
    }
    stream.len()
}

fuzz_target!(|data: &[u8]| {
    let [longest, cuts, stream @ ..] = data else {
        return;
    };
    let longest = usize::from(*longest);
    let mut pieces = VecDeque::new();
    let (mut rest, mut cut) = (stream, *cuts);
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(rest.len().min(usize::from(cut % 11)));
        pieces.push_back(Bytes::copy_from_slice(piece));
        rest = tail;
        cut = cut.wrapping_mul(5).wrapping_add(3);
    }

    let mut messages = Messages::at_most(longest);
    let mut found = Vec::new();
    let mut end = Ok(());
    'all: for piece in &pieces {
        messages.push(piece);
        loop {
            match messages.next_message() {
                Ok(Some(message)) => found.push(message),
                Ok(None) => break,
                Err(error) => {
                    end = Err(error);
                    break 'all;
                }
            }
        }
    }
    let end = end.and_then(|()| messages.finish());
    assert_eq!(
        (found.iter().map(|m| &m[..]).collect(), end),
        model(stream, longest)
    );

    let limit = longest as u64;
    let mut seen = Vec::new();
    let server = Server {
        answer: Pieces(pieces.clone()),
        read: &mut seen,
    };
    let layer = MessageLimitLayer::new().request(limit);
    let mut limited = layer.layer(server);
    let mut call = pin!(limited.call(Request::new(Pieces(pieces.clone()))));
    let _ = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(seen, stream[..passed(stream, longest)]);

    let server = Server {
        answer: Pieces(pieces.clone()),
        read: &mut seen,
    };
    let layer = MessageLimitLayer::new().response(limit);
    let mut limited = layer.layer(server);
    let mut call = pin!(limited.call(Request::new(Pieces(pieces))));
    let answer = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Ok(answer)) = answer else {
        panic!("the response is ready at once");
    };
    assert_eq!(read(answer.into_body()), stream[..passed(stream, longest)]);
});
