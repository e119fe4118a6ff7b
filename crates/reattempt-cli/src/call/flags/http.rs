//! The flags of HTTP calls, those to the Couchbase services included.

use clap::ValueEnum;
use serde_json::json;

use super::{Arguments, Draft, target, values};
use crate::call::document::{Fault, to_base64};

/// Flags of HTTP alone.
#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "HTTP (reattempt call http://127.0.0.1:8080/orders --method PUT --payload @order.json)"
)]
pub(super) struct HttpFlags {
    /// The path, with its query; it is appended to the target's own. Default: the target's, or for
    /// query and analytics the path of statements
    #[arg(long)]
    pub(super) path: Option<String>,
    /// The version, 1 (default) or 2 (with prior knowledge)
    #[arg(long)]
    pub(super) http_version: Option<u8>,
    /// The Couchbase service; its answers are classified by RFC 0049
    #[arg(long, value_enum)]
    pub(super) service: Option<ServiceFlag>,
    /// With a service: the statement (query, analytics) only reads
    #[arg(long, requires = "service")]
    pub(super) readonly: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ServiceFlag {
    Query,
    Analytics,
    Search,
    Views,
    Management,
}

impl ServiceFlag {
    const fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Analytics => "analytics",
            Self::Search => "search",
            Self::Views => "views",
            Self::Management => "management",
        }
    }

    /// The default HTTP method.
    const fn method(self) -> &'static str {
        match self {
            Self::Query | Self::Analytics | Self::Search => "POST",
            Self::Views | Self::Management => "GET",
        }
    }

    /// The path of its statements.
    const fn path(self) -> Option<&'static str> {
        match self {
            Self::Query => Some("/query/service"),
            Self::Analytics => Some("/analytics/service"),
            Self::Search | Self::Views | Self::Management => None,
        }
    }
}

impl Arguments {
    pub(super) fn http(&self, draft: &mut Draft) -> Result<(), Fault> {
        let flags = &self.http;
        draft.set("protocol", "http");
        draft.file("policy", self.config()?);
        draft.set("version", flags.http_version);
        let method = flags.service.map_or("GET", ServiceFlag::method);
        let method = self.method.as_deref().unwrap_or(method);
        if method.starts_with('/') {
            let what = "is a gRPC method: write --protocol grpc, or a grpc:// target";
            return Err(Fault::new("--method", what));
        }
        draft.call("method", method);
        let own = flags.service.and_then(ServiceFlag::path);
        let own = own.filter(|_| self.target().is_none_or(|target| !target::has_path(target)));
        draft.call("path", flags.path.as_deref().or(own));
        let mut headers = values::headers(&self.header)?;
        let body = self.payloads()?.concat();
        draft.call("idempotent", self.idempotent.then_some(true));
        if let Some(service) = flags.service {
            draft.set("service", service.name());
            self.couchbase(draft);
            draft.call("readonly", flags.readonly.then_some(true));
            // All of these services take JSON.
            if !body.is_empty() && headers.get("content-type").is_none() {
                headers["content-type"] = json!("application/json");
            }
        }
        draft.call("headers", headers);
        draft.call("body", to_base64(&body));
        Ok(())
    }
}
