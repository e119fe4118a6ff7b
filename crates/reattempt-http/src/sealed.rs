//! Keeps traits to the types that this crate implements them for, so that methods can be added.

use crate::call::HttpCall;

pub trait Sealed {}

impl<B> Sealed for http::Request<B> {}
impl<B> Sealed for HttpCall<B> {}
impl<L> Sealed for tower::ServiceBuilder<L> {}
#[cfg(feature = "reqwest")]
impl Sealed for reqwest::RequestBuilder {}
