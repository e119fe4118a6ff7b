//! TLS by rustls, with the roots of the system or of a file.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};

use super::Options;
use crate::call::transport::Version;
use crate::call::transport::inbound::Socket;

/// Opens TLS on connections to one server.
#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl Tls {
    pub(super) fn new(host: &str, version: Version, options: &Options) -> Result<Self, String> {
        let host = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("no certificate can have the name {host:?}"))?;
        let provider = Arc::new(ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = if options.insecure {
            Arc::new(AnyCertificate(provider.signature_verification_algorithms))
        } else {
            let roots = match &options.roots {
                Some(Roots(roots)) => Arc::clone(roots),
                None => Arc::new(of_system()?),
            };
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                .build()
                .map_err(|error| error.to_string())?
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![match version {
            Version::Http1 => b"http/1.1".to_vec(),
            Version::Http2 | Version::Grpc => b"h2".to_vec(),
        }];
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            host,
        })
    }

    pub(in crate::call::transport) async fn connect(
        &self,
        socket: TcpStream,
    ) -> io::Result<Socket> {
        let connected = self.connector.connect(self.host.clone(), socket).await;
        match connected {
            Ok(socket) => Ok(Box::new(socket)),
            Err(error) => Err(match error.get_ref().and_then(|e| e.downcast_ref()) {
                Some(Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
                    let what = "the server does not speak this version of HTTP";
                    io::Error::new(error.kind(), what)
                }
                Some(Error::InvalidCertificate(refused)) if is_authority(refused) => {
                    let what = "the server's certificate is that of an authority (CA:TRUE), which \
                                servers must not use: give it one of its own, or use --insecure";
                    io::Error::new(error.kind(), what)
                }
                _ => error,
            }),
        }
    }
}

/// What webpki says of it is known by its name only.
fn is_authority(refused: &CertificateError) -> bool {
    matches!(refused, CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity"))
}

/// Authorities that are trusted.
#[derive(Debug)]
pub(crate) struct Roots(Arc<RootCertStore>);

impl Roots {
    pub(super) fn of_pem(pem: &str) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        if roots.is_empty() {
            return Err("has no certificate in PEM".to_owned());
        }
        Ok(Self(Arc::new(roots)))
    }
}

/// A certificate of the system that cannot be read is passed over, as other clients do.
fn of_system() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})"));
        let why = why.unwrap_or_default();
        return Err(format!("the system has no trusted certificates{why}"));
    }
    Ok(roots)
}

/// Accepts any certificate; the handshake's signatures are still checked.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        of: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, of, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        of: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, of, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
