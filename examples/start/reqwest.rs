//! A reqwest client that retries: `reqwest http://127.0.0.1:8080/`. Its dependencies are those of
//! `docs/reqwest.md` and nothing else.

use reattempt_http::HttpClientLayer;
use reattempt_http::reqwest::{RequestBuilderExt, same_origin_redirects};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .redirect(same_origin_redirects())
        .build()?;
    let retries = HttpClientLayer::standard();

    let url = std::env::args().nth(1).ok_or("a URL is needed")?;
    let answer = client.get(url).send_with(&retries).await?;
    println!("{}", answer.status());
    Ok(())
}
