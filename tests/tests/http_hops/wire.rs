//! The same over loopback sockets: hyper serves, hyper-util's client calls.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use reattempt_http::AnyTransportError;
use reattempt_http::hop::{AmzSdkRequest, ServerHopLayer, do_not_retry};
use tokio::net::TcpListener;
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceBuilder, ServiceExt};

use super::chain::{Calls, Habits, Next, bottom, client, hop};

const PATIENCE: Duration = Duration::from_secs(30);

/// Serves this hop on a socket of its own.
async fn listen(hop: Next) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = ServiceBuilder::new()
        .map_request(|request: Request<_>| request.map(|_: hyper::body::Incoming| ()))
        .map_response(|response: Response<()>| response.map(|()| Empty::<Bytes>::new()))
        .service(hop);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

/// A client for the hop at this address.
fn connect(address: SocketAddr, http2: bool) -> Next {
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new())
        .http2_only(http2)
        .build_http();
    let service = ServiceBuilder::new()
        .map_err(AnyTransportError::new)
        .map_request(move |mut request: Request<()>| {
            *request.uri_mut() = format!("http://{address}/").parse().unwrap();
            request.map(|()| Empty::new())
        })
        .map_response(|response: Response<_>| response.map(|_: hyper::body::Incoming| ()))
        .service(client);
    BoxCloneSyncService::new(service)
}

/// Five hops on sockets: makes calls at the top and counts the calls of each hop.
async fn called(times: u32, http2: bool, habits: Habits) -> [u32; 5] {
    let calls: [Calls; 5] = Default::default();
    let last = bottom(|_| 503, calls[4].clone());
    let mut next = connect(listen(last).await, http2);
    for at in (0..4).rev() {
        let served = hop(next, habits, calls[at].clone());
        next = connect(listen(served).await, http2);
    }
    let top = client(next, habits);
    for _ in 0..times {
        let answer = top.clone().oneshot(Request::new(()));
        let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap();
        assert_eq!(answer.unwrap().status(), 503);
    }
    calls.each_ref().map(Calls::count)
}

#[tokio::test]
async fn five_hops_on_sockets_stay_below_five_quarters() {
    for http2 in [false, true] {
        let plain = Habits::default();
        assert_eq!(called(1, http2, plain).await, [3, 9, 27, 81, 243]);
        let told = Habits {
            tell: true,
            ..plain
        };
        assert_eq!(called(2, http2, told).await, [2, 2, 2, 2, 6]);
        let both = Habits {
            throttled: true,
            ..told
        };
        assert_eq!(called(20, http2, both).await, [20, 20, 20, 20, 23]);
    }
}

/// The header of an AWS client, on the wire.
#[tokio::test]
async fn a_request_that_comes_too_late_is_refused_on_the_wire() {
    let calls = Calls::default();
    let server = ServerHopLayer::new().layer(bottom(|_| 200, calls.clone()));
    let client = connect(listen(BoxCloneSyncService::new(server)).await, false);
    for (ttl, status) in [(60, 200), (-60, 504)] {
        let mut request = Request::new(());
        let mut said = AmzSdkRequest::new();
        #[allow(clippy::disallowed_methods, reason = "the header is wall-clock time")]
        let now = SystemTime::now();
        let minute = Duration::from_secs(60);
        said.ttl = Some(if ttl > 0 { now + minute } else { now - minute });
        said.write(request.headers_mut());
        let answer = client.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(do_not_retry(answer.headers()), None);
    }
    assert_eq!(calls.count(), 1);
}
