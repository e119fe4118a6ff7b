//! A hostile server: no call outlives its deadline or its attempts, and memory stays bounded.

use std::sync::atomic::Ordering;

use super::raw_server::*;
use super::*;
use reattempt::StopReason;

/// For servers that never end a call.
const BRIEF: &str = r#""timeout":"0.4s""#;
/// For calls that end by themselves, even on a busy machine.
const LONG: &str = r#""timeout":"25s""#;

const REFUSED_STREAM: u32 = 7;

/// What a server can send during a call: the capacity of sockets and windows, and little more.
const NOT_MUCH: u64 = 32 << 20;

/// The result of a call against a server that may violate any rule.
struct Survived {
    /// `None`: the transport's own error, before the response or in it.
    code: Option<Code>,
    info: RetryInfo,
    streams: u64,
    connections: u64,
    taken: u64,
}

async fn survive(members: &str, greets: Vec<u8>, answers: fn(u32) -> Answer) -> Survived {
    let server = RawServer::start(move || greets.clone(), answers).await;
    let channel = Channel::new(&config(members));
    let (request, watch) = watched(unary(&server.uri()));
    let status = |headers: &HeaderMap| headers.get(GRPC_STATUS).map(Code::from_header);
    let code = match channel.send(request).await {
        Err(_) => None,
        Ok(answer) => match status(answer.headers()) {
            Some(code) => Some(code),
            None => within(answer.into_body().collect())
                .await
                .ok()
                .and_then(|collected| collected.trailers().and_then(status)),
        },
    };
    let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    let counts = &server.counts;
    Survived {
        code,
        info: watch.info(),
        streams: count(&counts.streams),
        connections: count(&counts.connections),
        taken: count(&counts.taken),
    }
}

/// Three attempts, retried and then hedged.
fn policies(timeout: &str) -> [String; 2] {
    [
        format!("{timeout},{}", retry_policy(3, "0.001s")),
        format!(
            r#"{timeout},"hedgingPolicy":{{"maxAttempts":3,"hedgingDelay":"0.01s","nonFatalStatusCodes":[14]}}"#
        ),
    ]
}

/// Both policies against a server that responds to each stream like this.
async fn survive_both(timeout: &str, answers: fn(u32) -> Answer) -> [Survived; 2] {
    let [retry, hedge] = &policies(timeout);
    let both = [
        survive(retry, Vec::new(), answers).await,
        survive(hedge, Vec::new(), answers).await,
    ];
    for survived in &both {
        assert!(survived.info.attempts() <= 4, "one may be transparent");
    }
    both
}

fn once(bytes: Vec<u8>) -> Answer {
    Box::new(std::iter::once(bytes))
}

fn for_ever(bytes: Vec<u8>) -> Answer {
    Box::new(std::iter::repeat(bytes))
}

/// One piece, then another repeatedly without end.
fn then_for_ever(first: Vec<u8>, then: Vec<u8>) -> Answer {
    Box::new(std::iter::once(first).chain(std::iter::repeat(then)))
}

/// More fields than any client accepts: the call fails by itself, long before its deadline.
#[tokio::test]
async fn a_flood_of_headers_is_an_error_and_no_answer() {
    let names: Vec<String> = (0..5_000).map(|n| format!("x-flood-{n}")).collect();
    let mut fields = vec![("grpc-status", "14")];
    fields.extend(names.iter().map(|name| (&name[..], "y")));
    static FLOOD: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    FLOOD.get_or_init(|| block(&[&BEGINNING[..], &fields].concat()));
    for survived in survive_both(LONG, |stream| {
        let flood = FLOOD.get().expect("made before");
        let mut frames = frame(HEADERS, END_STREAM, stream, &flood[..16_000]);
        let mut rest = flood[16_000..].chunks(16_000).peekable();
        while let Some(part) = rest.next() {
            let last = if rest.peek().is_none() {
                END_HEADERS
            } else {
                0
            };
            frames.extend(frame(CONTINUATION, last, stream, part));
        }
        once(frames)
    })
    .await
    {
        assert_eq!(survived.code, None, "{:?}", survived.info);
        assert_ne!(survived.info.stopped(), Some(StopReason::Deadline));
    }
}

/// CONTINUATION after CONTINUATION: an endless header block is not buffered.
#[tokio::test]
async fn headers_without_an_end_are_not_taken_for_ever() {
    for survived in survive_both(BRIEF, |stream| {
        then_for_ever(
            frame(HEADERS, 0, stream, &block(&BEGINNING)),
            frame(CONTINUATION, 0, stream, &block(&[("x", "y")]).repeat(2_000)),
        )
    })
    .await
    {
        assert_ne!(survived.code, Some(Code::Ok));
        assert!(survived.taken < NOT_MUCH, "{} bytes", survived.taken);
    }
}

/// Ten megabytes of trailers after a response has begun: the response fails and is not retried.
#[tokio::test]
async fn ten_megabytes_of_trailers_break_the_answer() {
    for survived in survive_both(LONG, |stream| {
        let long = block(&[("grpc-message", &"y".repeat(10 << 20))]);
        let mut pieces = vec![
            response_headers(stream),
            frame(HEADERS, END_STREAM, stream, &long[..16_000]),
        ];
        let parts = long[16_000..].chunks(16_000);
        pieces.extend(parts.map(|part| frame(CONTINUATION, 0, stream, part)));
        pieces.push(frame(CONTINUATION, END_HEADERS, stream, b""));
        Box::new(pieces.into_iter())
    })
    .await
    {
        assert_ne!(survived.code, Some(Code::Ok));
        assert_eq!(survived.info.stopped(), Some(StopReason::Committed));
    }
}

/// A message of four gigabytes is announced and never arrives: no memory is reserved for it, and
/// the deadline ends the call.
#[tokio::test]
async fn a_gigantic_message_that_never_comes_ends_with_the_deadline() {
    let both = survive_both(BRIEF, |stream| {
        let prefix = [0, 255, 255, 255, 255];
        once([response_headers(stream), frame(DATA, 0, stream, &prefix)].concat())
    })
    .await;
    assert_eq!(both[0].streams, 1, "committed");
    for survived in both {
        assert_eq!(survived.code, Some(Code::DeadlineExceeded));
    }
}

/// R14: a stream that is never silent ends at the deadline too.
#[tokio::test]
async fn empty_frames_without_end_do_not_hold_up_the_deadline() {
    for timeout in [BRIEF, &format!(r#"{BRIEF},"maxResponseMessageBytes":1000"#)] {
        let both = survive_both(timeout, |stream| {
            then_for_ever(
                response_headers(stream),
                frame(DATA, 0, stream, b"").repeat(100),
            )
        })
        .await;
        assert_eq!(both[0].streams, 1, "committed");
        for survived in both {
            assert!(
                matches!(survived.code, None | Some(Code::DeadlineExceeded)),
                "{:?}",
                survived.code
            );
        }
    }
}

/// R14: pings, settings, window updates and resets of other streams, sent instead of a response, do
/// not delay it either.
#[tokio::test]
async fn frames_that_are_no_answer_do_not_hold_up_the_deadline() {
    for flood in [
        (|_| for_ever(frame(PING, 0, 0, &[7; 8]).repeat(50))) as fn(u32) -> Answer,
        |_| for_ever(frame(SETTINGS, 0, 0, b"").repeat(50)),
        |stream| for_ever(frame(WINDOW_UPDATE, 0, stream, &[0, 0, 0, 1]).repeat(50)),
        |stream| for_ever(headers(stream, 0, &[(":status", "103")]).repeat(50)),
        |_| for_ever(frame(0xee, 0, 0, &[0; 100]).repeat(50)),
    ] {
        for survived in survive_both(BRIEF, flood).await {
            assert!(
                matches!(survived.code, None | Some(Code::DeadlineExceeded)),
                "{:?}",
                survived.code
            );
        }
    }
}

/// R61: each connection ends with a GOAWAY that excludes its call. The call is retried once
/// transparently, then by the policy.
#[tokio::test]
async fn goaways_without_end_end_with_the_deadline() {
    let goaway = |stream: u32| {
        let last = stream.saturating_sub(2).to_be_bytes();
        once(frame(GOAWAY, 0, 0, &[last, [0; 4]].concat()))
    };
    for policy in policies(BRIEF) {
        let survived = survive(&policy, Vec::new(), goaway).await;
        assert_ne!(survived.code, Some(Code::Ok));
        assert!(survived.streams < 100 && survived.connections < 100);
        assert!(survived.info.retries() < 3, "they count nowhere");
    }
}

/// R60: connections that send GOAWAY before a request is sent are tried again until the deadline,
/// with increasing delays.
#[tokio::test]
async fn goaways_before_any_request_end_with_the_deadline() {
    let greeting = frame(GOAWAY, 0, 0, &[0; 8]);
    let nothing = |_| once(Vec::new());
    let survived = survive(BRIEF, greeting, nothing).await;
    assert_ne!(survived.code, Some(Code::Ok));
    assert!(survived.connections < 100, "{}", survived.connections);
}

/// R61: the same for refused streams, and for resets of streams that never existed.
#[tokio::test]
async fn resets_without_end_end_with_the_attempts() {
    for survived in survive_both(LONG, |stream| {
        once(frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes()))
    })
    .await
    {
        assert_eq!((survived.code, survived.streams), (None, 4));
    }
    for survived in survive_both(BRIEF, |stream| {
        let resets = (0..1_000).map(|n| frame(RST_STREAM, 0, stream + 2 * n, &[0; 4]));
        once(resets.collect::<Vec<_>>().concat())
    })
    .await
    {
        assert_ne!(survived.code, Some(Code::Ok));
        assert!(survived.streams <= 4);
    }
}

/// Data beyond the windows is a connection error and is not buffered.
#[tokio::test]
async fn unread_data_is_taken_as_far_as_the_windows_go() {
    let server = RawServer::start(Vec::new, |stream| {
        then_for_ever(
            response_headers(stream),
            frame(DATA, 0, stream, &[0; 16_000]),
        )
    })
    .await;
    let channel = Channel::new(&config(r#""timeout":"25s""#));
    let answer = channel.send(unary(&server.uri())).await;
    let written = async {
        while server.counts.taken.load(Ordering::Relaxed) < NOT_MUCH {
            tokio::task::yield_now().await;
        }
    };
    within(written).await;
    let mut body = std::pin::pin!(answer.expect("a head").into_body());
    let mut kept = 0;
    let end = loop {
        match within(body.frame()).await {
            Some(Ok(frame)) => kept += frame.data_ref().map_or(0, Bytes::len) as u64,
            end => break end,
        }
    };
    assert!(matches!(end, Some(Err(_))), "the stream continues");
    assert!(kept < NOT_MUCH / 4, "{kept} bytes were kept");
}

/// Frames in an order, of a length or on a stream that the protocol does not allow.
#[tokio::test]
async fn what_is_no_http_is_an_error() {
    for nonsense in [
        (|stream| once(frame(DATA, END_STREAM, stream, b"before any headers")))
            as fn(u32) -> Answer,
        |stream| once(headers(stream, END_STREAM, &[(":status", "zwei")])),
        |stream| {
            once(headers(
                stream,
                END_STREAM,
                &[(":status", "200"), ("GRPC-STATUS", "0")],
            ))
        },
        |stream| once(headers(stream + 1, END_STREAM, &BEGINNING)),
        |stream| {
            once(frame(
                HEADERS,
                END_HEADERS | END_STREAM,
                stream,
                &[0xff; 40],
            ))
        },
        |_| once(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
        |_| once(vec![0xff; 64]),
    ] {
        for survived in survive_both(BRIEF, nonsense).await {
            assert_ne!(survived.code, Some(Code::Ok), "{:?}", nonsense(1).next());
        }
    }
}
