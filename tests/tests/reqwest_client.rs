//! reqwest below a stack and through `send_with`, on the wire.

use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use reattempt::backoff::Backoff;
use reattempt::health::HealthPolicy;
use reattempt::strategy::MaxAttempts;
use reattempt::{
    AttemptRecord, CallContext, ClientError, Observer, RetryInfo, Stage, StopReason, TokenBucket,
};
use reattempt_http::body::{BufferBudget, ReplayBodyLayer};
use reattempt_http::reqwest::{RequestBuilderExt, ReqwestService, same_origin_redirects};
use reattempt_http::{HttpClientLayer, HttpPolicies, LiveHttpPolicies};
use reattempt_testbed::http::{Script, SeenRequest, Server, Step};
use tokio::net::{TcpListener, TcpSocket};
use tower::{Layer, ServiceBuilder, ServiceExt};

fn client() -> reqwest::Client {
    let client = reqwest::Client::builder().retry(reqwest::retry::never());
    client.build().unwrap()
}

/// Three attempts without delays.
fn retries() -> HttpClientLayer {
    HttpClientLayer::standard().strategy(MaxAttempts::new(3, Backoff::constant(Duration::ZERO)))
}

async fn server(script: Script) -> Server {
    Server::start(script).await.unwrap()
}

/// Redirects `/old` to `/new`, with this status.
async fn moved(status: u16) -> Server {
    server(Script::handler(move |seen: &SeenRequest| {
        match &*seen.path {
            "/old" => Step::status(status).header("location", "/new"),
            _ => Step::status(200).body(seen.body.clone()),
        }
    }))
    .await
}

fn post(uri: &str, body: &'static str) -> Request<Full<Bytes>> {
    Request::post(uri).body(Full::from(body)).unwrap()
}

/// B3: reqwest alone follows `POST /old` → 307, and so does reqwest below a stack.
#[tokio::test]
async fn redirects_with_bodies_are_followed() {
    for status in [307, 308] {
        let server = moved(status).await;
        let old = format!("{}/old", server.uri());
        let alone = client().post(&old).body("one loaf").send().await.unwrap();
        assert_eq!(alone.status(), 200);

        let stack = ServiceBuilder::new()
            .layer(ReplayBodyLayer::new())
            .service(ReqwestService::new(client()));
        let below = stack.oneshot(post(&old, "one loaf")).await.unwrap();
        assert_eq!(below.status(), 200);

        let preset = retries().layer(ReqwestService::new(client()));
        let below = preset.oneshot(post(&old, "one loaf")).await.unwrap();
        let body = below.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), "one loaf");

        let builder = client().post(&old).body("one loaf");
        let answer = builder.send_with(&retries()).await.unwrap();
        assert_eq!(answer.url().path(), "/new");
        assert_eq!(answer.text().await.unwrap(), "one loaf");
        let seen = server.seen().into_iter();
        assert!(seen.clone().all(|seen| seen.body == "one loaf"));
        // What the layers send again for the redirect is received twice by `/old`.
        assert_eq!(seen.count(), 10);
    }
}

/// Only 307 and 308 say that the request was not carried out.
#[tokio::test]
async fn a_patch_that_is_answered_with_302_is_received_once() {
    for status in [301, 302] {
        let server = moved(status).await;
        let builder = client().patch(format!("{}/old", server.uri()));
        let answer = builder.body("one loaf").send_with(&retries()).await;
        assert_eq!(answer.unwrap().status(), status);
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_redirect_of_a_stream_is_returned() {
    let server = moved(307).await;
    let old = format!("{}/old", server.uri());
    let streaming = retries().layer(ReqwestService::new(client()).streaming());
    let answer = streaming.oneshot(post(&old, "one loaf")).await.unwrap();
    assert_eq!(answer.status(), 307);
    // Without a body there is nothing to repeat.
    let streaming = retries().layer(ReqwestService::new(client()).streaming());
    let answer = streaming.oneshot(post(&old, "")).await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn a_redirect_follows_a_retry_and_a_retry_a_redirect() {
    let server = server(
        Script::new()
            .then(Step::status(503))
            .then(Step::status(308).header("location", "/new"))
            .then(Step::close_before())
            .then(Step::status(308).header("location", "/new")),
    )
    .await;
    let mut call = client()
        .put(format!("{}/old", server.uri()))
        .body("one loaf")
        .send_with(&retries());
    let handle = RetryInfo::track(&mut call);
    assert_eq!(call.await.unwrap().status(), 200);
    assert_eq!(handle.info().attempts(), 3);
    let seen = server.seen();
    let paths: Vec<_> = seen.iter().map(|seen| &*seen.path).collect();
    assert_eq!(paths, ["/old", "/old", "/new", "/old", "/new"]);
    assert!(seen.iter().all(|seen| seen.body == "one loaf"));
}

fn with_credentials(builder: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
    let builder = builder.header(AUTHORIZATION, "Bearer secret");
    builder
        .header(COOKIE, "session=secret")
        .header("x-api-key", "secret")
}

fn credentials(seen: &SeenRequest) -> [bool; 3] {
    ["authorization", "cookie", "x-api-key"].map(|name| seen.headers.contains_key(name))
}

/// Redirects to this URI.
async fn redirecting_to(uri: String) -> Server {
    let step = Step::status(307).header("location", uri);
    server(Script::new().otherwise(step)).await
}

#[tokio::test]
async fn a_redirect_to_another_origin_gets_no_credentials() {
    let other = moved(307).await;
    for method in [Method::GET, Method::PUT] {
        other.forget();
        let first = redirecting_to(format!("{}/new", other.uri())).await;
        let builder = with_credentials(client().request(method, first.uri()));
        let answer = builder
            .body("one loaf")
            .send_with(&retries())
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(credentials(&first.seen()[0]), [true, true, true]);
        // reqwest knows no other header as a credential.
        assert_eq!(credentials(&other.seen()[0]), [false, false, true]);
    }
    // The body of a POST is not sent there.
    other.forget();
    let first = redirecting_to(format!("{}/new", other.uri())).await;
    let builder = with_credentials(client().post(first.uri()));
    let answer = builder.body("one loaf").send_with(&retries()).await;
    assert_eq!(answer.unwrap().status(), 307);
    assert_eq!((first.seen().len(), other.seen().len()), (1, 0));
}

/// What reqwest 0.13.5 does, and how to prevent it.
#[tokio::test]
async fn credentials_stay_at_their_origin_with_the_policy() {
    let other = moved(307).await;
    let first = redirecting_to(format!("{}/old", other.uri())).await;
    let builder = with_credentials(client().get(first.uri()));
    builder.send_with(&retries()).await.unwrap();
    let leaked: Vec<_> = other.seen().iter().map(credentials).collect();
    assert_eq!(leaked, [[false, false, true], [true, true, true]]);

    other.forget();
    let client = reqwest::Client::builder().redirect(same_origin_redirects());
    let client = client.build().unwrap();
    let builder = with_credentials(client.get(first.uri()));
    let answer = builder.send_with(&retries()).await.unwrap();
    assert_eq!((answer.status().as_u16(), other.seen().len()), (307, 0));
    let within = with_credentials(client.get(format!("{}/old", other.uri())));
    let answer = within.send_with(&retries()).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.url().path(), "/new");
    let endless = redirecting_to("/again".to_owned()).await;
    let error = client.get(endless.uri()).send_with(&retries()).await;
    let error = error.unwrap_err();
    assert!(error.transport().is_some_and(reqwest::Error::is_redirect));
    assert_eq!(endless.seen().len(), 11);
}

#[tokio::test]
async fn the_preset_itself_follows_no_redirect() {
    let other = moved(307).await;
    let first = redirecting_to(format!("{}/new", other.uri())).await;
    for layer in [
        HttpClientLayer::standard(),
        HttpClientLayer::google(),
        HttpClientLayer::github(),
        HttpClientLayer::kubernetes(),
        HttpClientLayer::llm(),
    ] {
        let hyper = Client::builder(TokioExecutor::new()).build_http();
        let request = Request::get(first.uri()).header(AUTHORIZATION, "Bearer secret");
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let answer = layer.layer(hyper).oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 307);
        let to = answer.headers().get("location").unwrap().to_str().unwrap();
        assert_eq!(to, format!("{}/new", other.uri()));
    }
    assert_eq!(other.seen().len(), 0);
}

#[tokio::test]
async fn send_with_repeats_what_may_be_repeated() {
    let failing = Script::new().then_times(2, Step::status(503));
    let server = server(failing.otherwise(Step::status(200).body("42"))).await;
    let mut call = client().get(server.uri()).send_with(&retries());
    let handle = RetryInfo::track(&mut call);
    let answer = call.await.unwrap();
    assert_eq!(answer.json::<u32>().await.unwrap(), 42);
    assert_eq!(handle.info().attempts(), 3);

    server.set_script(Script::new().then(Step::close_before()));
    server.forget();
    let post = || client().post(server.uri()).body("one loaf");
    let error = post().send_with(&retries()).await.unwrap_err();
    assert!(error.transport().is_some_and(reqwest::Error::is_request));
    assert_eq!(server.seen().len(), 1, "a POST is not sent twice");

    server.set_script(Script::new().then(Step::close_before()));
    server.forget();
    let answer = post().send_with(&retries()).idempotent().await;
    assert_eq!(answer.unwrap().status(), 200);
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn send_with_shares_throttle_and_budget_between_calls() {
    let server = server(Script::new().otherwise(Step::status(503))).await;
    let bucket = Arc::new(TokenBucket::new(4, 100).unwrap());
    let budget = BufferBudget::default();
    let layer = retries()
        .throttle(bucket)
        .body_limit(1 << 20, budget.clone());
    let mut stopped = Vec::new();
    for _ in 0..3 {
        let mut call = client()
            .put(server.uri())
            .body("one loaf")
            .send_with(&layer);
        let handle = RetryInfo::track(&mut call);
        assert_eq!(call.await.unwrap().status(), 503);
        stopped.push((handle.info().attempts(), handle.info().stopped()));
    }
    // More than half of the bucket's four tokens are left for one retry only.
    let throttled = Some(StopReason::Throttled);
    assert_eq!(stopped, [(2, throttled), (1, throttled), (1, throttled)]);
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn send_with_shares_circuit_breakers_between_calls() {
    let server = server(Script::new().otherwise(Step::status(503))).await;
    let layer = retries().circuit_breakers(HealthPolicy::standard());
    let get = || client().get(server.uri()).send_with(&layer);
    // Three attempts a call; the fifth opens it.
    assert_eq!(get().await.unwrap().status(), 503);
    let second = tokio::spawn(get().into_future()).await.unwrap();
    assert!(matches!(second, Err(ClientError::CircuitOpen(_))));
    let third = get().await;
    assert!(matches!(third, Err(ClientError::CircuitOpen(_))));
    assert_eq!(server.seen().len(), 5);
}

#[tokio::test]
async fn send_with_goes_by_the_routes_of_its_layer() {
    let server = server(Script::new().otherwise(Step::status(503))).await;
    let table = r#"{"routes": [{"match": {"path": "/once"}, "retry": {"maxAttempts": 1,
        "backoff": {"initial": "0.01s", "max": "1s"}}}]}"#;
    let live = LiveHttpPolicies::new(HttpPolicies::parse(table).unwrap().policies);
    let layer = retries().route(live);
    for (path, attempts) in [("/once", 1), ("/often", 3)] {
        let mut call = client()
            .get(format!("{}{path}", server.uri()))
            .send_with(&layer);
        let handle = RetryInfo::track(&mut call);
        // Also in a task of its own.
        let answer = tokio::spawn(call.into_future()).await.unwrap();
        assert_eq!(answer.unwrap().status(), 503);
        assert_eq!(handle.info().attempts(), attempts, "{path}");
    }
}

#[tokio::test]
async fn send_with_says_what_ended_a_call() {
    let server = server(Script::new().otherwise(Step::hang())).await;
    let limited = retries().timeout(Duration::from_millis(40));
    let error = client().get(server.uri()).send_with(&limited).await;
    assert!(matches!(error, Err(ClientError::Elapsed(_))));

    // The builder's own limit is one attempt's.
    let builder = client().get(server.uri());
    let builder = builder.timeout(Duration::from_millis(20));
    let mut call = builder.send_with(&retries());
    let handle = RetryInfo::track(&mut call);
    let error = call.await.unwrap_err();
    assert!(error.transport().is_some_and(reqwest::Error::is_timeout));
    assert_eq!(handle.info().attempts(), 3);

    let invalid = client().get("no uri").send_with(&retries()).await;
    let error = invalid.unwrap_err();
    assert!(error.transport().is_some_and(reqwest::Error::is_builder));
    let file = client().get("file:///etc/hosts").send_with(&retries());
    let error = file.await.unwrap_err();
    assert!(error.transport().is_some_and(reqwest::Error::is_builder));
}

#[tokio::test]
async fn a_service_can_be_used_for_many_calls() {
    let server = server(Script::new().then(Step::status(503))).await;
    let service = retries().layer(ReqwestService::new(client()));
    for _ in 0..3 {
        let request = Request::get(server.uri()).body(Full::<Bytes>::default());
        let answer = service.clone().oneshot(request.unwrap()).await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.into_body().collect().await.unwrap();
    }
    assert_eq!(server.seen().len(), 4);
    assert_eq!(server.connections_accepted(), 1, "they share a pool");
}

/// An order that was carried out and answered with 303, whose next hop fails.
async fn ordered(next: Step) -> Server {
    let script = Script::handler(move |seen: &SeenRequest| match &*seen.path {
        "/orders" => Step::status(303).header("location", "/orders/7"),
        _ => next.clone(),
    });
    server(script).await
}

fn orders(server: &Server) -> usize {
    let seen = server.seen();
    seen.iter().filter(|seen| seen.path == "/orders").count()
}

#[tokio::test]
async fn a_post_is_not_repeated_for_a_later_hops_failure() {
    for next in [Step::status(429), Step::status(425), Step::close_before()] {
        let server = ordered(next).await;
        for client in [client(), documented_client()] {
            server.forget();
            let prompt = client.post(format!("{}/orders", server.uri())).body("a");
            let mut call = prompt.send_with(&retries());
            let handle = RetryInfo::track(&mut call);
            let _ = call.await;
            assert_eq!(orders(&server), 1);
            let stopped = handle.info().stopped();
            assert_eq!(stopped, Some(StopReason::NotIdempotent));
        }
    }
    // Post, redirect, get: of one URL.
    for status in [429, 425] {
        let server = server(Script::handler(move |seen: &SeenRequest| {
            let post = seen.method == Method::POST;
            let step = Step::status(if post { 303 } else { status });
            step.header("location", "/orders")
        }))
        .await;
        let prompt = documented_client().post(format!("{}/orders", server.uri()));
        let answer = prompt.body("a").send_with(&retries()).await.unwrap();
        assert_eq!(answer.status(), status);
        let seen = server.seen().into_iter();
        assert_eq!(seen.filter(|seen| seen.method == Method::POST).count(), 1);
    }
    // The next hop finds no server.
    let gone = Server::start(Script::new()).await.unwrap();
    let (nowhere, script) = (gone.uri(), Step::status(303));
    gone.stop().await;
    let server = server(Script::new().otherwise(script.header("location", nowhere))).await;
    let prompt = client().post(format!("{}/orders", server.uri())).body("a");
    let outcome = prompt.send_with(&retries()).await;
    assert!(matches!(outcome, Err(ClientError::Transport(_))));
    assert_eq!(orders(&server), 1);
}

fn documented_client() -> reqwest::Client {
    let client = reqwest::Client::builder().retry(reqwest::retry::never());
    let client = client.redirect(same_origin_redirects());
    client.build().unwrap()
}

/// A socket that refuses connections: it is bound and does not listen.
fn refusing() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let uri = format!("http://{}/orders", socket.local_addr().unwrap());
    (socket, uri)
}

async fn records(
    builder: reqwest::RequestBuilder,
) -> (u32, Option<StopReason>, Option<(Stage, bool)>) {
    let mut call = builder.send_with(&retries());
    let handle = RetryInfo::track(&mut call);
    let outcome = call.await;
    assert!(outcome.is_err_and(|error| error.transport().is_some()));
    let info = handle.info();
    let last = info.records().next_back().unwrap();
    let failure = last.failure.map(|failure| (failure.stage, failure.safe));
    (info.attempts(), info.stopped(), failure)
}

/// No connection could be made, so the policy decides, for any method.
#[tokio::test]
async fn a_refused_post_is_sent_again_by_policy() {
    let (_socket, nowhere) = refusing();
    for client in [client(), documented_client()] {
        let post = || client.post(&nowhere);
        for builder in [
            post().body("one loaf"),
            post().json(&[1, 2]),
            client.patch(&nowhere).body("one loaf"),
            post(),
            post().body(""),
        ] {
            let (attempts, stopped, failure) = records(builder).await;
            assert_eq!((attempts, stopped), (3, Some(StopReason::Attempts)));
            assert_eq!(failure, Some((Stage::Dispatch, true)));
        }
        let get = records(client.get(&nowhere)).await;
        assert_eq!((get.0, get.1), (3, Some(StopReason::Attempts)));
    }
}

/// Carries out one POST, answers it with 303 to the same URL, and is gone.
async fn carries_out_and_goes(listener: TcpListener, body: &'static str) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (mut socket, _) = listener.accept().await.unwrap();
    drop(listener);
    let mut read = Vec::new();
    while !read.ends_with(format!("\r\n\r\n{body}").as_bytes()) {
        assert!(socket.read_buf(&mut read).await.unwrap() > 0);
    }
    assert!(read.starts_with(b"POST "));
    let answer = "HTTP/1.1 303 See Other\r\nlocation: /orders\r\nconnection: close\r\n\
                  content-length: 0\r\n\r\n";
    socket.write_all(answer.as_bytes()).await.unwrap();
}

/// Post, redirect, get: of one URL.
#[tokio::test]
async fn a_post_whose_redirect_is_refused_is_not_repeated() {
    for client in [client(), documented_client()] {
        for body in ["one loaf", ""] {
            let (socket, uri) = refusing();
            let server = tokio::spawn(carries_out_and_goes(socket.listen(1).unwrap(), body));
            let (attempts, stopped, failure) = records(client.post(uri).body(body)).await;
            server.await.unwrap();
            assert_eq!((attempts, stopped), (1, Some(StopReason::NotIdempotent)));
            assert_eq!(failure, Some((Stage::InFlight, false)));
        }
    }
}

/// Without a body the head is all that is sent, and asking for its length all that is seen of it.
#[tokio::test]
async fn a_post_without_a_body_that_was_redirected_is_not_repeated() {
    for http2 in [false, true] {
        let (_socket, nowhere) = refusing();
        let script = Script::new().otherwise(Step::status(303).header("location", nowhere));
        let server = server(script).await;
        let client = reqwest::Client::builder().retry(reqwest::retry::never());
        let client = if http2 {
            client.http2_prior_knowledge()
        } else {
            client
        };
        let post = client.build().unwrap().post(server.uri());
        let (attempts, stopped, failure) = records(post).await;
        assert_eq!((attempts, stopped), (1, Some(StopReason::NotIdempotent)));
        assert_eq!(failure, Some((Stage::InFlight, false)));
        assert_eq!(server.seen_count(), 1, "HTTP/2: {http2}");
    }
}

/// A server that comes up while the POST is retried carries it out once.
#[tokio::test]
async fn a_refused_post_is_carried_out_once_by_a_late_server() {
    let (socket, uri) = refusing();
    let (refused, was_refused) = tokio::sync::oneshot::channel();
    let retries = HttpClientLayer::standard()
        .strategy(MaxAttempts::new(
            100,
            Backoff::constant(Duration::from_millis(10)),
        ))
        .no_throttle()
        .observer(Arc::new(FirstFailure(Mutex::new(Some(refused)))));
    let server = tokio::spawn(async move {
        was_refused.await.unwrap();
        carries_out_and_goes(socket.listen(1).unwrap(), "one loaf").await;
    });
    let post = documented_client().post(uri);
    let mut call = post.body("one loaf").send_with(&retries);
    let handle = RetryInfo::track(&mut call);
    assert!(call.await.is_err(), "the GET is refused");
    server.await.unwrap();
    assert!(handle.info().attempts() > 1);
    assert_eq!(handle.info().stopped(), Some(StopReason::NotIdempotent));
}

#[derive(Debug)]
struct FirstFailure(Mutex<Option<tokio::sync::oneshot::Sender<()>>>);

impl Observer for FirstFailure {
    fn attempt_settled(&self, _: &CallContext, _: &AttemptRecord) {
        if let Some(sender) = self.0.lock().unwrap().take() {
            let _ = sender.send(());
        }
    }
}
