//! The flags of gRPC calls.

use clap::ValueEnum;
use serde_json::Value;

use super::{Arguments, Draft, values};
use crate::call::document::{Fault, to_base64};

/// Flags of gRPC alone.
#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "gRPC (reattempt call grpc://127.0.0.1:50051 --method /echo.Echo/Say --payload hi)"
)]
pub(super) struct GrpcFlags {
    /// The kind of method, default unary
    #[arg(long, value_enum)]
    pub(super) kind: Option<KindFlag>,
    /// Waits for a connection instead of failing without one
    #[arg(long)]
    pub(super) wait_for_ready: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum KindFlag {
    Unary,
    ServerStream,
    ClientStream,
    Bidi,
}

impl KindFlag {
    const fn name(self) -> &'static str {
        match self {
            Self::Unary => "unary",
            Self::ServerStream => "server_stream",
            Self::ClientStream => "client_stream",
            Self::Bidi => "bidi",
        }
    }
}

impl Arguments {
    pub(super) fn grpc(&self, draft: &mut Draft) -> Result<(), Fault> {
        let Some(method) = &self.method else {
            return Err(Fault::new("--method", "is required for grpc"));
        };
        let payloads = self.payloads()?;
        draft.set("protocol", "grpc");
        draft.file("service_config", self.config()?);
        draft.call("method", method.as_str());
        draft.call("kind", self.grpc.kind.map(KindFlag::name));
        let payloads: Value = payloads.iter().map(|bytes| to_base64(bytes)).collect();
        draft.call("payloads", payloads);
        draft.call("metadata", values::headers(&self.header)?);
        draft.call("wait_for_ready", self.grpc.wait_for_ready.then_some(true));
        Ok(())
    }
}
