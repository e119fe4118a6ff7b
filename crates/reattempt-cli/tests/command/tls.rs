//! TLS in front of the scripted servers (feature `tls`).

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{CertificateParams, Issuer, KeyPair};
use reattempt_testbed::{grpc, http};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use super::{run, text};

/// A proxy that ends TLS, for the name `localhost`.
struct Proxy {
    port: u16,
    /// The file of its authority.
    ca: PathBuf,
}

impl Proxy {
    async fn start(name: &str, server: std::net::SocketAddr, protocols: &[&str]) -> Self {
        let mut authority = CertificateParams::new([]).unwrap();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().unwrap();
        let root = authority.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let own = own.signed_by(&key, &issuer).unwrap();
        Self::with(name, server, protocols, (own, key), &root.pem()).await
    }

    /// A certificate that signs itself and is an authority, as `openssl req -x509` makes it.
    async fn self_signed(name: &str, server: std::net::SocketAddr) -> Self {
        let mut own = CertificateParams::new(["localhost".to_owned()]).unwrap();
        own.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let own = own.self_signed(&key).unwrap();
        let pem = own.pem();
        Self::with(name, server, &[], (own, key), &pem).await
    }

    async fn with(
        name: &str,
        server: std::net::SocketAddr,
        protocols: &[&str],
        (own, key): (rcgen::Certificate, KeyPair),
        pem: &str,
    ) -> Self {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.into()], key.into())
            .unwrap();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut inside = acceptor.accept(socket).await?;
                    let mut outside = TcpStream::connect(server).await?;
                    tokio::io::copy_bidirectional(&mut inside, &mut outside).await
                });
            }
        });
        let ca = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&ca, pem).unwrap();
        Self { port, ca }
    }
}

async fn call(arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(&[&["call"], arguments].concat(), String::new()).await;
    (
        output.status.code(),
        text(&output.stdout) + &text(&output.stderr),
    )
}

#[tokio::test]
async fn an_authority_of_a_file_is_trusted_and_no_other() {
    let server = http::Server::start(http::Step::status(200).body("hello"))
        .await
        .unwrap();
    let proxy = Proxy::start("http-ca.pem", server.addr(), &["http/1.1"]).await;
    let url = format!("https://localhost:{}/a", proxy.port);
    let (status, said) = call(&[&url, "--ca", proxy.ca.to_str().unwrap()]).await;
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("  hello\n"), "{said}");
    assert_eq!(server.seen()[0].path, "/a");

    let stranger = Proxy::start("other-ca.pem", server.addr(), &[]).await;
    let (status, said) = call(&[&url, "--ca", stranger.ca.to_str().unwrap()]).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("invalid peer certificate"), "{said}");
    let by_address = format!("https://127.0.0.1:{}/a", proxy.port);
    let (status, said) = call(&[&by_address, "--ca", proxy.ca.to_str().unwrap()]).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("invalid peer certificate"), "{said}");
    assert_eq!(
        server.seen_count(),
        1,
        "nothing was sent to an unknown server"
    );
}

#[tokio::test]
async fn a_servers_certificate_that_is_an_authority_is_named() {
    let server = http::Server::start(http::Step::status(200)).await.unwrap();
    let proxy = Proxy::self_signed("self-signed.pem", server.addr()).await;
    let url = format!("https://localhost:{}/", proxy.port);
    let (status, said) = call(&[&url, "--ca", proxy.ca.to_str().unwrap()]).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("use --insecure"), "{said}");
    let (status, said) = call(&[&url, "--insecure"]).await;
    assert_eq!(status, Some(0), "{said}");
}

/// The variable is OpenSSL's; other systems' programs read it too.
#[tokio::test]
async fn without_a_file_the_authorities_of_the_system_are_trusted() {
    let server = http::Server::start(http::Step::status(200)).await.unwrap();
    let proxy = Proxy::start("system-ca.pem", server.addr(), &[]).await;
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_reattempt"))
        .args(["call", &format!("https://localhost:{}/", proxy.port)])
        .env("SSL_CERT_FILE", &proxy.ca)
        .env_remove("SSL_CERT_DIR")
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(super::SOON, output).await.unwrap();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", text(&output.stdout));
}

#[tokio::test]
async fn insecure_accepts_any_certificate() {
    let server = http::Server::start(http::Step::status(200)).await.unwrap();
    let proxy = Proxy::start("insecure-ca.pem", server.addr(), &[]).await;
    let url = format!("https://127.0.0.1:{}/a", proxy.port);
    let (status, said) = call(&[&url, "--insecure"]).await;
    assert_eq!(status, Some(0), "{said}");
}

#[tokio::test]
async fn grpc_has_tls_and_says_where_http_2_is_missing() {
    let server = grpc::Server::start(grpc::Step::echo()).await.unwrap();
    let proxy = Proxy::start("grpc-ca.pem", server.addr(), &["h2"]).await;
    let ca = proxy.ca.to_str().unwrap();
    let target = format!("grpcs://localhost:{}", proxy.port);
    let (status, said) =
        call(&[&target, "--method", "/a.B/C", "--payload", "hi", "--ca", ca]).await;
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("  hi\n"), "{said}");

    let plain = format!("grpc://localhost:{}", proxy.port);
    let (status, said) = call(&[&plain, "--method", "/a.B/C"]).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("the server speaks TLS: the target needs"),
        "{said}"
    );

    let old = Proxy::start("http1-ca.pem", server.addr(), &["http/1.1"]).await;
    let target = format!("grpcs://localhost:{}", old.port);
    let ca = old.ca.to_str().unwrap();
    let (status, said) = call(&[&target, "--method", "/a.B/C", "--ca", ca]).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("does not speak this version of HTTP"),
        "{said}"
    );
}

#[tokio::test]
async fn a_certificate_file_must_have_one_and_a_target_tls() {
    for (target, pem, fault) in [
        (
            "https://h:1",
            "",
            "no-ca.pem: $.tls: `ca` has no certificate in PEM",
        ),
        ("http://h:1", "x", " call: $.tls: the target has no TLS"),
        (
            "couchbase://h",
            "x",
            "--ca, --insecure: are for https:// and",
        ),
    ] {
        let ca = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("no-ca.pem");
        std::fs::write(&ca, pem).unwrap();
        let (status, said) = call(&[target, "--ca", ca.to_str().unwrap()]).await;
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains(fault), "{said}");
    }
}
