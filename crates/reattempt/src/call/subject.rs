//! What a call is about, for logs.

use std::borrow::Cow;

/// What a call is about, for logs: never more than a host and a method, because a path, a query or
/// a key may hold what does not belong into a log. From
/// [`HasCallContext::subject`](crate::HasCallContext::subject).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallSubject {
    /// The host that the call is for, with its port if one is given; or the name of the service
    /// ([`RetryLayer::named`](crate::RetryLayer)).
    pub host: Option<Cow<'static, str>>,
    /// The method, as its protocol spells it: `GET`, `shop.Cart/Add`.
    pub method: Option<Cow<'static, str>>,
}

impl CallSubject {
    /// A call of this method.
    #[must_use]
    pub fn of_method(method: impl Into<Cow<'static, str>>) -> Self {
        Self {
            host: None,
            method: Some(method.into()),
        }
    }

    /// The name of a service, if no host is known.
    #[cfg(feature = "tokio")]
    pub(crate) fn of_service(mut self, service: Option<&Cow<'static, str>>) -> Self {
        self.host = self.host.or_else(|| service.cloned());
        self
    }

    /// Sets the host.
    #[must_use]
    pub fn at(mut self, host: impl Into<Cow<'static, str>>) -> Self {
        self.host = Some(host.into());
        self
    }
}

/// The host of the URI or of the `Host` header, and the method: gRPC's own for a gRPC request.
#[cfg(feature = "http")]
pub(crate) fn of_http<B>(request: &http::Request<B>) -> CallSubject {
    use http::{Method, header};

    let text = |name| {
        request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let is_grpc =
        text(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/grpc"));
    let path = request.uri().path();
    let method = match *request.method() {
        Method::POST if is_grpc => Cow::Owned(path.strip_prefix('/').unwrap_or(path).to_owned()),
        Method::GET => Cow::Borrowed("GET"),
        Method::PUT => Cow::Borrowed("PUT"),
        Method::POST => Cow::Borrowed("POST"),
        Method::HEAD => Cow::Borrowed("HEAD"),
        Method::PATCH => Cow::Borrowed("PATCH"),
        Method::DELETE => Cow::Borrowed("DELETE"),
        ref other => Cow::Owned(other.as_str().to_owned()),
    };
    let subject = CallSubject::of_method(method);
    // Not the authority: it may hold a password.
    match (request.uri().host(), request.uri().port_u16()) {
        (Some(host), Some(port)) => subject.at(format!("{host}:{port}")),
        (Some(host), None) => subject.at(host.to_owned()),
        (None, _) => match text(header::HOST) {
            // A user and a password are not part of it, but a client may have put them there.
            Some(host) => subject.at(host.rsplit('@').next().unwrap_or_default().to_owned()),
            None => subject,
        },
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    fn of(request: http::request::Builder) -> (Option<String>, Option<String>) {
        let subject = of_http(&request.body(()).unwrap());
        (
            subject.host.map(Cow::into_owned),
            subject.method.map(Cow::into_owned),
        )
    }

    #[test]
    fn the_subject_holds_no_path_no_query_and_no_password() {
        use http::Request;
        let secret = Request::get("http://user:pass@shop:8080/carts/7?token=x");
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(of(secret), (some("shop:8080"), some("GET")));
        let relative = Request::delete("/carts/7").header("host", "user:pass@shop");
        assert_eq!(of(relative), (some("shop"), some("DELETE")));
        let own = Request::builder().method("PURGE").uri("/");
        assert_eq!(of(own), (None, some("PURGE")));
    }

    #[test]
    fn a_grpc_request_is_known_by_its_own_method() {
        let post = http::Request::post("http://shop/shop.Cart/Add");
        let post = post.header("content-type", "application/grpc+proto");
        let (_, method) = of(post);
        assert_eq!(method.as_deref(), Some("shop.Cart/Add"));
    }
}
