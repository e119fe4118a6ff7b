use super::*;

struct Shows(&'static str, Option<Box<Shows>>);

impl fmt::Debug for Shows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for Shows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("password=hunter2")
    }
}

impl Error for Shows {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.as_deref().map(|source| source as _)
    }
}

fn of(debug: &'static str) -> String {
    types(&Shows(debug, None)).unwrap()
}

#[test]
fn only_a_name_is_taken_from_an_error() {
    for (debug, name) in [
        ("Mine { password: \"hunter2\" }", Some("Mine")),
        ("Mine(\"hunter2\")", Some("Mine")),
        ("my::Mine { .. }", Some("my::Mine")),
        ("\"hunter2\"", None),
        ("hunter2", None),
        ("Hunter2", None),
        ("hunter2 {", None),
        ("hunter2(", None),
        ("Hunter 2 {", None),
        ("::1(", None),
        ("", None),
    ] {
        let text = of(debug);
        assert!(!text.to_lowercase().contains("hunter2"), "{text}");
        assert_eq!(
            text.contains("does not show its name"),
            name.is_none(),
            "{text}"
        );
        if let Some(name) = name {
            assert!(text.contains(&format!("(`{name}`)")), "{text}");
        }
        assert!(text.contains("implement `TransportError`"), "{text}");
    }
}

#[test]
fn a_long_debug_is_not_read_to_its_end() {
    struct Endless;
    impl fmt::Debug for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            loop {
                f.write_str("Aß")?;
            }
        }
    }
    impl fmt::Display for Endless {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            Ok(())
        }
    }
    impl Error for Endless {}
    assert!(types(&Endless).unwrap().contains("does not show its name"));
}

/// A missing feature, or with the feature an error of another version of the crate.
#[test]
fn the_feature_that_reads_a_type_is_named() {
    for reader in &READERS {
        for debug in reader.debug {
            let text = of(debug);
            assert!(text.contains(&format!("(`{}`)", reader.name)), "{text}");
            let advice = if reader.on {
                format!("the feature `{}` is on", reader.feature)
            } else {
                format!(
                    "enable in reattempt-http or reattempt-grpc feature `{}`",
                    reader.feature
                )
            };
            assert!(text.contains(&advice), "{text}");
        }
    }
    assert!(of("Overloaded { by: \"me\" }").contains("implement `TransportError`"));
}

#[test]
fn every_unknown_type_of_the_chain_is_named() {
    let h2 = Shows("Error { kind: Reset(StreamId(1), CANCEL, Remote) }", None);
    let hyper = Shows("hyper::Error(Http2, ..)", Some(Box::new(h2)));
    let text = types(&Shows("Mine(..)", Some(Box::new(hyper)))).unwrap();
    let named = "(`Mine`, caused by `hyper::Error`, caused by `h2::Error`)";
    assert!(text.contains(named), "{text}");
    let off = !cfg!(feature = "hyper") && !cfg!(feature = "h2");
    assert_eq!(
        text.contains("feature `h2`, feature `hyper`"),
        off,
        "{text}"
    );
}

#[test]
fn known_types_are_not_named() {
    use std::io;

    let known = io::Error::from(io::ErrorKind::Other);
    assert_eq!(types(&known), None);
    let wraps = io::Error::other(Shows("Mine(..)", None));
    assert!(types(&wraps).unwrap().contains("(`Mine`)"));
}

/// Fails if one of the crates changes how it shows its errors.
#[cfg(feature = "tokio")]
mod the_crates_show_their_errors_as_the_table_has_them {
    use std::future::ready;
    use std::io;

    use http_body_util::Empty;
    use hyper_util::rt::{TokioExecutor, TokioIo};

    use super::*;

    fn name(error: &(dyn Error + 'static)) -> Option<&'static str> {
        Head::of(error).reader().map(|reader| reader.name)
    }

    #[test]
    fn tower() {
        let elapsed = tower::timeout::error::Elapsed::new();
        assert_eq!(name(&elapsed), Some("tower::timeout::error::Elapsed"));
        let shed = tower::load_shed::error::Overloaded::new();
        assert_eq!(name(&shed), Some("tower::load_shed::error::Overloaded"));
    }

    #[tokio::test]
    async fn hyper_and_hyper_util() {
        let refused = |_: http::Uri| {
            let error = io::Error::other("hunter2");
            ready(Err::<TokioIo<tokio::net::TcpStream>, _>(error))
        };
        let connector = tower::service_fn(refused);
        let pool = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
        let pool = pool.build::<_, Empty<bytes::Bytes>>(connector);
        let refused = pool.get("http://h/".parse().unwrap()).await.unwrap_err();
        assert_eq!(name(&refused), Some("hyper_util::client::legacy::Error"));

        let (client, server) = tokio::io::duplex(64);
        drop(server);
        let connected = hyper::client::conn::http1::handshake(TokioIo::new(client));
        let (mut sender, connection) = connected.await.unwrap();
        drop(connection);
        let request = http::Request::new(Empty::<bytes::Bytes>::new());
        let closed = sender.send_request(request).await.unwrap_err();
        assert_eq!(name(&closed), Some("hyper::Error"));
    }

    /// The errors of a client's stream that the server reset, or refuses with a GOAWAY.
    #[tokio::test]
    async fn h2() {
        assert_eq!(
            name(&h2::Error::from(h2::Reason::CANCEL)),
            Some("h2::Error")
        );
        for goes_away in [false, true] {
            let (client, server) = tokio::io::duplex(4096);
            tokio::spawn(async move {
                let mut server = h2::server::handshake(server).await.unwrap();
                if goes_away {
                    server.abrupt_shutdown(h2::Reason::ENHANCE_YOUR_CALM);
                }
                while let Some(Ok((_, mut answer))) = server.accept().await {
                    answer.send_reset(h2::Reason::CANCEL);
                }
            });
            let (mut sender, connection) = h2::client::handshake(client).await.unwrap();
            tokio::spawn(connection);
            let request = http::Request::get("http://h/").body(()).unwrap();
            let error = match sender.send_request(request, true) {
                Ok((answer, _)) => answer.await.unwrap_err(),
                Err(error) => error,
            };
            assert_eq!(error.is_go_away(), goes_away);
            assert_eq!(name(&error), Some("h2::Error"), "{error:?}");
        }
    }

    #[cfg(feature = "reqwest")]
    #[test]
    fn reqwest() {
        let error = reqwest::Client::new().get("/nowhere").build().unwrap_err();
        assert_eq!(name(&error), Some("reqwest::Error"));
    }

    #[cfg(feature = "tonic")]
    #[test]
    fn tonic() {
        let error = tonic::transport::Endpoint::from_shared("not a URI").unwrap_err();
        assert_eq!(name(&error), Some("tonic::transport::Error"));
        let timeout = tonic::TimeoutExpired(());
        assert_eq!(name(&timeout), Some("tonic::TimeoutExpired"));
    }
}
