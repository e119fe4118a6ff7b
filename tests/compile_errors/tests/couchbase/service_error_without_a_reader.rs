//! An error type that no reader knows, below the preset of a service over HTTP.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use reattempt_couchbase::ServiceClientLayer;
use reattempt_http::body::ReplayBody;
use tower::{Service, ServiceBuilder};

#[derive(Clone, Debug)]
struct OwnError;

fn main() {
    let mut client = ServiceBuilder::new()
        .layer(ServiceClientLayer::query())
        .service_fn(async |_: Request<ReplayBody<Full<Bytes>>>| {
            Err::<Response<Full<Bytes>>, _>(OwnError)
        });
    let _ = client.call(Request::new(Full::<Bytes>::default()));
}
