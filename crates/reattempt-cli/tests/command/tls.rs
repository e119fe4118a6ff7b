//! TLS in front of the scripted servers (feature `tls`).

use std::sync::Arc;

use rcgen::{CertificateParams, Issuer, KeyPair};
use reattempt_testbed::{grpc, http};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use super::{document, end_of, file, has, http_server, program, run, run_with, with};

/// A proxy that ends TLS, for the name `localhost`.
struct Proxy {
    port: u16,
    /// The file of its authority.
    ca: String,
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
        let ca = file(name, pem);
        Self { port, ca }
    }
}

/// A call with the authority of this proxy.
async fn call(flags: &str, trusted: &Proxy) -> super::Ended {
    run(format!("call {flags} --ca '{}'", trusted.ca)).await
}

#[tokio::test]
async fn an_authority_of_a_file_is_trusted_and_no_other() {
    let server = http_server(http::Step::status(200).body("hello")).await;
    let proxy = Proxy::start("http-ca.pem", server.addr(), &["http/1.1"]).await;
    let url = format!("https://localhost:{}/a", proxy.port);
    has(&call(&url, &proxy).await.says(0), ["  hello\n"]);
    assert_eq!(server.seen()[0].path, "/a");

    let stranger = Proxy::start("other-ca.pem", server.addr(), &[]).await;
    let by_address = format!("https://127.0.0.1:{}/a", proxy.port);
    for (url, trusted) in [(url, &stranger), (by_address, &proxy)] {
        let said = call(&url, trusted).await.says(1);
        has(&said, ["invalid peer certificate"]);
    }
    let unsent = "nothing was sent to an unknown server";
    assert_eq!(server.seen_count(), 1, "{unsent}");
}

#[tokio::test]
async fn a_servers_certificate_that_is_an_authority_is_named() {
    let server = http_server(http::Step::status(200)).await;
    let proxy = Proxy::self_signed("self-signed.pem", server.addr()).await;
    let url = format!("https://localhost:{}/", proxy.port);
    has(&call(&url, &proxy).await.says(1), ["use --insecure"]);
    run(format!("call {url} --insecure")).await.says(0);
}

#[tokio::test]
async fn an_authority_and_no_check_at_all_are_a_fault() {
    let server = http_server(http::Step::status(200)).await;
    let proxy = Proxy::start("unused-ca.pem", server.addr(), &[]).await;
    let ca = std::fs::read_to_string(&proxy.ca).unwrap();
    let url = format!("https://localhost:{}/", proxy.port);
    let both = json!({"ca": ca, "insecure": true});
    let both = with(document("http", &url, json!([{}])), "tls", both);
    let said = run_with("call --json", &both.to_string()).await;
    has(&said.complains(2), ["$.tls: has `ca` and `insecure`"]);
    assert_eq!(server.seen_count(), 0);
}

/// The variable is OpenSSL's; other systems' programs read it too.
#[tokio::test]
async fn without_a_file_the_authorities_of_the_system_are_trusted() {
    let server = http_server(http::Step::status(200)).await;
    let proxy = Proxy::start("system-ca.pem", server.addr(), &[]).await;
    let mut program = program(&format!("call https://localhost:{}/", proxy.port));
    program.env("SSL_CERT_FILE", &proxy.ca);
    let child = program.env_remove("SSL_CERT_DIR").spawn().unwrap();
    end_of(child, "").await.says(0);
}

#[tokio::test]
async fn insecure_accepts_any_certificate() {
    let server = http_server(http::Step::status(200)).await;
    let proxy = Proxy::start("insecure-ca.pem", server.addr(), &[]).await;
    let url = format!("https://127.0.0.1:{}/a", proxy.port);
    run(format!("call {url} --insecure")).await.says(0);
}

#[tokio::test]
async fn grpc_has_tls_and_says_where_http_2_is_missing() {
    let server = grpc::Server::start(grpc::Step::echo()).await.unwrap();
    let proxy = Proxy::start("grpc-ca.pem", server.addr(), &["h2"]).await;
    let target = format!("localhost:{} --method /a.B/C", proxy.port);
    let said = call(&format!("grpcs://{target} --payload hi"), &proxy).await;
    has(&said.says(0), ["  hi\n"]);

    let plain = run(format!("call grpc://{target}")).await.says(1);
    has(&plain, ["the server speaks TLS: the target needs"]);

    let old = Proxy::start("http1-ca.pem", server.addr(), &["http/1.1"]).await;
    let target = format!("grpcs://localhost:{} --method /a.B/C", old.port);
    has(
        &call(&target, &old).await.says(1),
        ["does not speak this version of HTTP"],
    );
}

#[tokio::test]
async fn a_certificate_file_must_have_one_and_a_target_tls() {
    let refused = "--ca, --insecure: are for https:// and";
    let none = "no-ca.pem: $: has no certificate in PEM";
    for (target, pem, fault) in [
        ("https://h:1", "", none),
        ("http://h:1", "x", " call: $.tls: the target has no TLS"),
        ("couchbase://h", "x", refused),
    ] {
        let ca = file("no-ca.pem", pem);
        let said = run(format!("call {target} --ca '{ca}'")).await.complains(2);
        has(&said, [fault]);
    }
}
