//! `HttpConvention`: HTTP requests in OpenTelemetry's words.

use http::{Method, Request, Response, header};
use reattempt::telemetry::{Convention, Operation, System};

use crate::policy::host_and_port;

/// OpenTelemetry's semantic conventions for HTTP clients: `http.client.request.duration` of each
/// attempt, and its span (see [`Metrics::attempts`](reattempt::telemetry::Metrics::attempts)).
///
/// The host and port are those of the request's URI, or of its `Host` header, an IPv6 address
/// without its brackets; a method that RFC 9110 and RFC 5789 do not define is `_OTHER`.
///
/// ```
/// use std::sync::Arc;
/// use reattempt::telemetry::{Meter, Metrics};
/// use reattempt_http::{HttpClassifier, HttpClientLayer, HttpConvention};
/// use tower::ServiceBuilder;
///
/// # fn client<S: Clone>(meter: impl Meter + 'static, hyper_client: S) {
/// let metrics = Metrics::new(meter);
/// let client = ServiceBuilder::new()
///     .layer(HttpClientLayer::standard().observer(Arc::new(metrics.clone())))
///     .layer(metrics.attempts(HttpConvention, HttpClassifier::new()))
///     .service(hyper_client);
/// # let _ = client;
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct HttpConvention;

impl<B, R> Convention<Request<B>, Response<R>> for HttpConvention {
    fn system(&self) -> System {
        System::Http
    }

    fn operation<'a>(&self, request: &'a Request<B>) -> Operation<'a> {
        let name = match *request.method() {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            Method::OPTIONS => "OPTIONS",
            Method::TRACE => "TRACE",
            Method::CONNECT => "CONNECT",
            _ => "_OTHER",
        };
        let uri = request.uri();
        let usual = match uri.scheme_str() {
            Some("https") => Some(443),
            Some("http") => Some(80),
            _ => None,
        };
        let (host, port) = match uri.host() {
            Some(host) => (Some(host), uri.port_u16()),
            None => of_header(request).map_or((None, None), |(host, port)| (Some(host), port)),
        };
        let address = |host: &'a str| host.strip_prefix('[')?.strip_suffix(']');
        let host = host.map(|host| address(host).unwrap_or(host));
        Operation::new(name).at(host, port.or(usual))
    }

    fn status(&self, response: &Response<R>) -> Option<i32> {
        Some(response.status().as_u16().into())
    }
}

/// Of a request with a path alone.
fn of_header<B>(request: &Request<B>) -> Option<(&str, Option<u16>)> {
    let named = request.headers().get(header::HOST)?.to_str().ok()?;
    let (host, port) = host_and_port(named);
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_alone_goes_to_the_host_of_its_header() {
        for (header, host, port) in [
            ("shop:8080", Some("shop"), Some(8080)),
            ("u:p@shop", Some("shop"), None),
            ("[::1]:81", Some("::1"), Some(81)),
            ("", None, None),
        ] {
            let request = Request::get("/carts").header(header::HOST, header);
            let request = request.body(()).unwrap();
            let convention: &dyn Convention<Request<()>, Response<()>> = &HttpConvention;
            let operation = convention.operation(&request);
            assert_eq!((operation.host, operation.port), (host, port), "{header}");
        }
    }

    #[test]
    fn an_operation_is_a_known_method_at_a_host() {
        let of = |method: &str, uri: &str| {
            let request = Request::builder().method(method).uri(uri);
            let request = request.body(()).unwrap();
            let convention: &dyn Convention<Request<()>, Response<()>> = &HttpConvention;
            let operation = convention.operation(&request);
            let host = operation.host.map(str::to_owned);
            (operation.name, host, operation.port)
        };
        let shop = Some("shop".to_owned());
        assert_eq!(
            of("GET", "https://u:p@shop/a?b"),
            ("GET", shop.clone(), Some(443))
        );
        assert_eq!(of("PURGE", "http://shop:81/"), ("_OTHER", shop, Some(81)));
        let v6 = Some("::1".to_owned());
        assert_eq!(of("GET", "http://[::1]:81/"), ("GET", v6, Some(81)));
        assert_eq!(of("PUT", "/a"), ("PUT", None, None));
    }
}
