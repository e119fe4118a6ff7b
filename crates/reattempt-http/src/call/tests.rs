use http::{HeaderMap, HeaderName, HeaderValue, Request};
use reattempt::{AttemptKind, Idempotency, NextAttempt};

use super::*;

const NEXT: NextAttempt<'static> = NextAttempt::new(2, AttemptKind::Retry, None);

/// A request whose map has repeated, removed and sensitive headers.
fn request() -> Request<()> {
    let mut request = Request::put("http://shop.example/carts/7")
        .body(())
        .unwrap();
    let headers = request.headers_mut();
    for (name, value) in [
        ("b", "1"),
        ("gone", "x"),
        ("accept", "2"),
        ("b", "3"),
        ("c", "4"),
    ] {
        headers.append(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    headers.remove("gone");
    let mut secret = HeaderValue::from_static("token");
    secret.set_sensitive(true);
    headers.insert("authorization", secret);
    request.extensions_mut().insert("the caller's");
    request
        .context_mut()
        .set_idempotency(Idempotency::NotIdempotent);
    request
}

fn pairs(headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue, bool)> {
    let pair = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.clone(), value.clone(), value.is_sensitive())
    };
    headers.iter().map(pair).collect()
}

#[test]
fn every_copy_has_the_head_of_the_request() {
    let template = HttpCall::new(request());
    let copies = [1, 2, 3].map(|_| template.replay(&NEXT).unwrap());
    for sent in copies.into_iter().chain([template]) {
        let sent = sent.into_request();
        let original = request();
        assert_eq!(pairs(sent.headers()), pairs(original.headers()));
        assert_eq!(
            (sent.method(), sent.uri()),
            (original.method(), original.uri())
        );
        assert_eq!(sent.version(), original.version());
        assert_eq!(sent.extensions().get(), Some(&"the caller's"));
        let context = sent.context().unwrap();
        assert_eq!(context.idempotency(), Idempotency::NotIdempotent);
    }
}

#[test]
fn a_copy_has_no_header_of_an_earlier_request() {
    let mut long = request();
    for name in ["x-one", "x-two", "x-three"] {
        long.headers_mut()
            .insert(name, HeaderValue::from_static("a longer value"));
    }
    // Its memory is used again on this thread.
    let earlier = HttpCall::new(long);
    drop(earlier.replay(&NEXT).unwrap().into_request());
    drop(earlier);
    for names in [&["a"][..], &["a", "b", "c", "d"][..], &[]] {
        let mut short = Request::new(());
        for name in names {
            short
                .headers_mut()
                .insert(*name, HeaderValue::from_static(""));
        }
        let template = HttpCall::new(short.clone());
        drop(template.replay(&NEXT).unwrap().into_request());
        let later = template.replay(&NEXT).unwrap().into_request();
        assert_eq!(pairs(later.headers()), pairs(short.headers()));
    }
}

/// As a text in memory that grows, and beyond its limit as a map.
#[test]
fn a_head_of_any_size_is_in_every_copy() {
    for length in [0, 40, 41, 100, 1000, 4000, 4096, 5000, 70_000] {
        let mut long = request();
        let value = HeaderValue::try_from("v".repeat(length)).unwrap();
        long.headers_mut().insert("long", value);
        let template = HttpCall::new(long.clone());
        for sent in [1, 2].map(|_| template.replay(&NEXT).unwrap().into_request()) {
            assert_eq!(pairs(sent.headers()), pairs(long.headers()), "{length}");
        }
    }
}

/// The extension of a tonic client is kept apart, others in their map.
#[cfg(feature = "tonic")]
#[test]
fn every_copy_has_the_method_of_a_tonic_client() {
    let method = || tonic::GrpcMethod::new("shop.Cart", "Add");
    let mut alone = Request::new(());
    alone.extensions_mut().insert(method());
    let mut beside = request();
    beside.extensions_mut().insert(method());
    for (request, others) in [(alone, 0), (beside, 1)] {
        let template = HttpCall::new(request);
        let copies = [1, 2, 3].map(|_| template.replay(&NEXT).unwrap());
        for sent in copies.into_iter().chain([template]) {
            let sent = sent.into_request();
            let kept = sent.extensions().get::<tonic::GrpcMethod<'static>>();
            let kept = kept.map(|kept| (kept.service(), kept.method()));
            assert_eq!(kept, Some(("shop.Cart", "Add")));
            assert_eq!(sent.extensions().len(), 2 + others, "and the context");
        }
    }
}

#[test]
fn a_header_that_is_set_after_a_copy_is_in_later_ones() {
    let mut template = HttpCall::new(request());
    assert!(template.replay(&NEXT).is_some());
    template
        .headers_mut()
        .insert("late", HeaderValue::from_static("y"));
    let later = template.replay(&NEXT).unwrap().into_request();
    assert_eq!(later.headers()["late"], "y");
    assert_eq!(later.headers().get_all("b").iter().count(), 2);
}

#[test]
fn it_is_about_what_the_request_is_about() {
    let template = HttpCall::new(request());
    assert_eq!(
        template.natural_idempotency(),
        request().natural_idempotency()
    );
    assert_eq!(template.subject(), request().subject());
    let copy = template.replay(&NEXT).unwrap();
    assert_eq!(template.subject(), copy.subject());
}
