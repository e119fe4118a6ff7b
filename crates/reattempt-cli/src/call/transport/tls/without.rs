//! A program without the feature `tls`.

use std::io;

use tokio::net::TcpStream;

use super::Options;
use crate::call::transport::Version;
use crate::call::transport::inbound::Socket;

/// None are read: there is no connection that they are for.
#[derive(Debug)]
pub(crate) struct Roots;

impl Roots {
    #[expect(clippy::unnecessary_wraps, reason = "with TLS it can fail")]
    pub(super) const fn of_pem(_: &str) -> Result<Self, String> {
        Ok(Self)
    }
}

/// No value of it exists.
#[derive(Clone, Debug)]
pub(crate) enum Tls {}

impl Tls {
    pub(super) fn new(_: &str, _: Version, _: &Options) -> Result<Self, String> {
        Err("this program was built without TLS: build it with the feature `tls`".to_owned())
    }

    pub(in crate::call::transport) async fn connect(&self, _: TcpStream) -> io::Result<Socket> {
        match *self {}
    }
}
