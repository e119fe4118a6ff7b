//! A hyper client that retries: `hyper http://127.0.0.1:8080/`. Its dependencies are those of
//! `docs/hyper.md` and nothing else.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use reattempt_http::HttpClientLayer;
use tower::{Service, ServiceBuilder, ServiceExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut client = ServiceBuilder::new()
        .layer(HttpClientLayer::standard())
        .service(Client::builder(TokioExecutor::new()).build_http());

    let url = std::env::args().nth(1).ok_or("a URL is needed")?;
    let request = Request::get(url).body(Full::<Bytes>::default())?;
    let response = client.ready().await?.call(request).await?;
    println!("{}", response.status());
    Ok(())
}
