//! How much of a body is read before the response is returned, and that the caller receives all of
//! it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reattempt::reason::{
    QUERY_PREPARED_STATEMENT_FAILURE, SOCKET_CLOSED_WHILE_IN_FLIGHT, VIEWS_TEMPORARY_FAILURE,
};

use super::*;

const QUERY: HttpService = HttpService::query();
const LAYER: ServiceErrorLayer = ServiceErrorLayer::new(QUERY);
const PREPARED: &str = r#"{"errors": [{"code": 4040, "msg": "m"}"#;

fn second(n: u64) -> Piece {
    Piece::Pause(ms(n * 1000))
}

/// What the caller receives of the body, and whether it ended with an error.
async fn rest(answer: Answer) -> (String, bool) {
    let (mut text, mut body) = (String::new(), answer.into_body());
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                let data = frame.into_data().unwrap_or_default();
                text.push_str(std::str::from_utf8(&data).unwrap());
            }
            Err(error) => {
                assert_eq!(error.to_string(), "it broke off");
                assert!(body.frame().await.is_none(), "nothing after the error");
                return (text, true);
            }
        }
    }
    assert!(body.is_end_stream());
    (text, false)
}

fn whole(text: &str) -> (String, bool) {
    (text.to_owned(), false)
}

fn broken(text: &str) -> (String, bool) {
    (text.to_owned(), true)
}

/// The verdict of the query service on the error in `PREPARED`.
fn is_prepared_failure(answer: &Answer) -> bool {
    retried(verdict(QUERY, answer)) == Some(QUERY_PREPARED_STATEMENT_FAILURE)
}

/// C41: the end of a failed response is not waited for.
#[tokio::test(start_paused = true)]
async fn a_failed_answer_is_let_go_as_soon_as_its_error_is_known() {
    let body = Pieces::of([data(PREPARED), second(3), data("]}")]);
    let (answer, took) = through(LAYER, 404, body).await;
    assert_eq!(took, Duration::ZERO);
    assert!(is_prepared_failure(&answer));
    assert_eq!(rest(answer).await, whole(&format!("{PREPARED}]}}")));
}

/// C41: also for a successful status.
#[tokio::test(start_paused = true)]
async fn errors_in_a_200_are_known_before_its_end() {
    let body = Pieces::of([data(PREPARED), Piece::Hangs]);
    let (answer, took) = through(LAYER, 200, body).await;
    assert_eq!(took, Duration::ZERO);
    assert!(is_prepared_failure(&answer));
}

/// C45 C46: if the status alone decides, the body is not waited for.
#[tokio::test(start_paused = true)]
async fn a_status_that_decides_is_not_held_up_by_its_body() {
    for (service, status) in [
        (HttpService::views(), 302),
        (HttpService::views(), 503),
        (HttpService::search(), 429),
        (HttpService::search(), 400),
        (HttpService::management(), 500),
    ] {
        let body = Pieces::of([second(1), data("all"), Piece::Breaks]);
        let (answer, took) = through(ServiceErrorLayer::new(service), status, body).await;
        assert_eq!(took, Duration::ZERO, "{status}");
        assert!(verdict(service, &answer).failure().is_some());
        assert_eq!(rest(answer).await, broken("all"));
    }
}

/// C46
#[tokio::test(start_paused = true)]
async fn a_text_that_was_found_is_not_looked_for_any_longer() {
    let missing = r#"{"error":"not_found","reason":"missing"#;
    let views = HttpService::views();
    let body = Pieces::of([data(missing), data("\""), second(60), data("}")]);
    let (answer, took) = through(ServiceErrorLayer::new(views), 404, body).await;
    assert_eq!(took, Duration::ZERO);
    assert_eq!(
        retried(verdict(views, &answer)),
        Some(VIEWS_TEMPORARY_FAILURE)
    );
    assert_eq!(rest(answer).await, whole(&format!("{missing}\"}}")));
}

/// A body that never ends is classified by what arrived within five seconds.
#[tokio::test(start_paused = true)]
async fn a_slow_failed_body_is_waited_for_up_to_the_limit() {
    let code = r#"{"errors": [{"code": 4040, "msg": ""#;
    let pieces = [data(code)].into_iter();
    let dribble = |_| [Piece::Pause(ms(100)), data("x")];
    let body = Pieces::of(pieces.chain((0..600).flat_map(dribble)));
    let (answer, took) = through(LAYER, 400, body).await;
    assert_eq!(took, ms(5000));
    assert!(is_prepared_failure(&answer));
    assert_eq!(
        rest(answer).await,
        whole(&format!("{code}{}", "x".repeat(600)))
    );

    let body = Pieces::of([data(r#"{"errors": [{"code": 40"#), Piece::Hangs]);
    let (answer, took) = through(LAYER, 400, body).await;
    assert_eq!(took, ms(5000));
    assert!(is_final(verdict(QUERY, &answer)), "a partial code");
}

/// A body without an end that is always ready.
#[derive(Debug)]
struct Endless {
    piece: &'static [u8],
    polled: Arc<AtomicUsize>,
}

impl Body for Endless {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.polled.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(self.piece)))))
    }
}

/// How many frames of such a body are read before the caller receives it.
async fn read_of_endless(service: HttpService, status: u16, piece: &'static [u8]) -> usize {
    let polled = Arc::new(AtomicUsize::new(0));
    let body = Endless {
        piece,
        polled: Arc::clone(&polled),
    };
    let mut once = Some(body);
    let client = ServiceBuilder::new()
        .layer(ServiceErrorLayer::new(service))
        .service_fn(move |_: Request<()>| {
            let mut response = Response::new(once.take().unwrap());
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            async move { Ok::<_, BoxError>(response) }
        });
    let answer = client.oneshot(Request::new(())).await.unwrap();
    let read = polled.load(Ordering::Relaxed);
    let mut body = answer.into_body();
    let mut held = 0;
    while polled.load(Ordering::Relaxed) == read {
        let frame = body.frame().await.unwrap().unwrap();
        held += frame.into_data().unwrap().len();
    }
    assert_eq!(
        held,
        (read + 1) * piece.len(),
        "everything that was read, and one more"
    );
    read
}

/// Law 9: no body makes the layer read, or keep, without a bound.
#[tokio::test(start_paused = true)]
async fn an_endless_body_is_read_up_to_the_bound() {
    const KIB: &[u8] = &[b' '; 1024];
    assert_eq!(read_of_endless(QUERY, 500, KIB).await, 64);
    assert_eq!(read_of_endless(QUERY, 200, KIB).await, 16);
    assert_eq!(read_of_endless(HttpService::search(), 200, KIB).await, 16);
    assert_eq!(read_of_endless(HttpService::views(), 500, KIB).await, 64);
    assert_eq!(read_of_endless(HttpService::views(), 503, KIB).await, 0);
    // An empty frame counts as one byte.
    assert_eq!(read_of_endless(QUERY, 500, b"").await, 64 * 1024);
}

/// "A body of any size is read up to a bound, then judged by what was read."
#[tokio::test]
async fn an_error_beyond_the_bound_is_not_found_in_a_failed_answer() {
    for (before, again) in [(60_000, true), (70_000, false)] {
        let signature = " ".repeat(before);
        let text = format!(r#"{{"signature": "{signature}", {}]}}"#, &PREPARED[1..]);
        let (answer, _) = through(LAYER, 400, Pieces::split(text.as_bytes(), 1000)).await;
        let verdict = verdict(QUERY, &answer);
        assert_eq!(retried(verdict).is_some(), again, "{before}");
        assert!(again || is_final(verdict));
        assert_eq!(rest(answer).await, whole(&text));
    }
}

/// A successful response is held while an error may still follow, but no timeout applies while a
/// query runs without rows.
#[tokio::test(start_paused = true)]
async fn a_query_may_work_for_long_before_it_fails() {
    let body = Pieces::of([
        data("{\"requestID\": \"7\","),
        second(60),
        data(&PREPARED[1..]),
        data("]}"),
    ]);
    let (answer, took) = through(LAYER, 200, body).await;
    assert_eq!(took, ms(60_000));
    assert!(is_prepared_failure(&answer));
}

#[tokio::test(start_paused = true)]
async fn rows_that_trickle_reach_the_caller_after_a_second() {
    let rows = r#"{"results": [{"n": 1}"#;
    let body = Pieces::of([data(rows), second(20), data("]}")]);
    let (answer, took) = through(LAYER, 200, body).await;
    assert_eq!(took, ms(1000));
    assert_eq!(verdict(QUERY, &answer), Verdict::Committed);
    assert_eq!(rest(answer).await, whole(&format!("{rows}]}}")));

    // For the other services every byte may be data for the caller.
    let views = HttpService::views();
    let body = Pieces::of([second(20), data("{}")]);
    let (answer, took) = through(ServiceErrorLayer::new(views), 200, body).await;
    assert_eq!(took, ms(1000));
    assert_eq!(verdict(views, &answer), Verdict::Committed);
    assert_eq!(rest(answer).await, whole("{}"));
}

#[tokio::test]
async fn a_large_success_is_delivered_whole() {
    let row = r#"{"n": 123456789, "text": "[]{}\"errors\": [{"},"#;
    let text = format!(
        r#"{{"results": [{}0], "status": "success"}}"#,
        row.repeat(50_000)
    );
    for size in [100_000, 1000, 1500] {
        let (answer, _) = through(LAYER, 200, Pieces::split(text.as_bytes(), size)).await;
        assert_eq!(verdict(QUERY, &answer), Verdict::Committed);
        let (came, broke) = rest(answer).await;
        assert!(came == text && !broke, "{size}");
    }
}

/// C12: a response whose body fails is incomplete.
#[tokio::test]
async fn a_body_that_breaks_off_is_a_socket_that_was_closed() {
    for (service, status) in [
        (QUERY, 200),
        (QUERY, 400),
        (HttpService::analytics(), 500),
        (HttpService::search(), 200),
        (HttpService::views(), 404),
        (HttpService::views(), 500),
        (HttpService::management(), 200),
    ] {
        for text in ["", r#"{"errors": [{"code": 4040, "msg"#] {
            let body = Pieces::of([data(text), Piece::Breaks]);
            let (answer, _) = through(ServiceErrorLayer::new(service), status, body).await;
            let Verdict::Retry(failure) = verdict(service, &answer) else {
                panic!("{service:?} {status}")
            };
            assert_eq!(failure.reason, SOCKET_CLOSED_WHILE_IN_FLIGHT);
            assert_eq!((failure.stage, failure.safe), (Stage::InFlight, false));
            assert_eq!(
                rest(answer).await,
                broken(text),
                "the error is at its original position"
            );
        }
    }
    // The deciding part arrived before the error.
    let body = Pieces::of([data(PREPARED), Piece::Breaks]);
    let (answer, _) = through(LAYER, 400, body).await;
    assert!(is_prepared_failure(&answer));
    assert_eq!(rest(answer).await, broken(PREPARED));
}

#[tokio::test]
async fn trailers_and_lengths_are_kept() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "7".parse().unwrap());
    let pieces = [data("{}"), data("\n"), Piece::Trailers(trailers)];
    let (answer, _) = through(LAYER, 200, Pieces::of(pieces)).await;
    assert_eq!(verdict(QUERY, &answer), Verdict::Success);
    assert!(!answer.body().is_end_stream());
    assert_eq!(answer.body().size_hint().lower(), 3);
    let collected = answer.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["x-sum"], "7");
    assert_eq!(collected.to_bytes(), "{}\n");

    let full = http_body_util::Full::<Bytes>::from("{}");
    let client = ServiceBuilder::new()
        .layer(LAYER)
        .service_fn(move |_: Request<()>| {
            let response = Response::new(full.clone());
            async move { Ok::<_, BoxError>(response) }
        });
    let answer = client.oneshot(Request::new(())).await.unwrap();
    assert_eq!(answer.body().size_hint().exact(), Some(2));
    assert_eq!(verdict_of(&answer), Verdict::Success);
}

fn verdict_of<B: Body>(answer: &Response<ServiceBody<B>>) -> Verdict {
    let found = answer.extensions().get::<ServiceAnswer>().unwrap();
    QUERY.verdict(answer.status(), found)
}

/// A body that arrives byte by byte is not stored as one frame per byte.
#[tokio::test]
async fn small_pieces_are_put_together() {
    let text = errors(&format!(r#"{{"msg": "{}", "code": 1}}"#, "x".repeat(5000)));
    let (answer, _) = through(LAYER, 400, Pieces::split(text.as_bytes(), 1)).await;
    let (mut frames, mut body) = (0, answer.into_body());
    while let Some(frame) = body.frame().await {
        frames += usize::from(frame.unwrap().data_ref().unwrap().len() > 1);
    }
    assert!(frames < 5, "{frames}");
}

/// A body that is no JSON has no rows and no errors: its time starts with its first byte.
#[tokio::test(start_paused = true)]
async fn a_success_that_is_no_json_is_let_go_in_time() {
    let text = || [data("<html>"), second(60), data("x")];
    let (answer, took) = through(LAYER, 200, Pieces::of(text())).await;
    assert_eq!(took, ms(1000));
    assert_eq!(verdict(QUERY, &answer), Verdict::Committed);
    assert_eq!(rest(answer).await, whole("<html>x"));
}

/// The status decides, and a success is let go after a second.
#[tokio::test(start_paused = true)]
async fn a_compressed_answer_is_not_read() {
    for (service, status, wait) in [
        (QUERY, 200, 1000),
        (HttpService::analytics(), 200, 1000),
        (HttpService::views(), 404, 0),
        (QUERY, 404, 0),
    ] {
        let mut body = Some(Pieces::of([data(PREPARED), second(60), data("]}")]));
        let layer = ServiceBuilder::new().layer(ServiceErrorLayer::new(service));
        let compressed = layer.service_fn(move |_: Request<()>| {
            let mut response = response(status, body.take().unwrap());
            let headers = response.headers_mut();
            headers.insert("content-encoding", "gzip".parse().unwrap());
            async move { Ok::<_, BoxError>(response) }
        });
        let began = Instant::now();
        let answer = compressed.oneshot(Request::new(())).await;
        assert_eq!(began.elapsed(), ms(wait), "{status}");
        let found = answer.unwrap().extensions().get::<ServiceAnswer>().cloned();
        assert_eq!(found.and_then(|found| found.error), None);
    }
}
