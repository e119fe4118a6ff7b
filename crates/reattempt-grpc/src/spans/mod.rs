//! Spans of calls and of their attempts (A72), for `tracing`.
//!
//! | layer | where it goes | its span |
//! | --- | --- | --- |
//! | [`CallSpanLayer`] | outermost | `Sent.<service>.<method>` |
//! | [`AttemptSpanLayer`] | below the recovery layers | `Attempt.<service>.<method>`, a child of the call's |
//!
//! A span is open from the send to the status: until the response stream ends or is dropped.
//! Everything below the layer runs inside its span. The names of tracing's spans are static, `Sent`
//! and `Attempt`; the full name is in the field `otel.name`, and the result in `otel.status_code`
//! (`OK` or `ERROR`) and `otel.status_description` (the gRPC code), where tracing-opentelemetry
//! reads them. An attempt has two more fields: `previous-rpc-attempts`, the number of earlier
//! attempts without transparent ones, and `transparent-retry`. Level INFO, target `reattempt`.
//!
//! ```
//! use http::{Request, Response};
//! use http_body_util::{Empty, Full};
//! use reattempt::RetryLayer;
//! use reattempt::strategy::RetryOnce;
//! use reattempt_grpc::GrpcClassifier;
//! use reattempt_grpc::spans::{AttemptSpanLayer, CallSpanLayer};
//! use reattempt_http::body::{ReplayBody, ReplayBodyLayer};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//! # use bytes::Bytes;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
//! let channel = ServiceBuilder::new()
//!     .layer(CallSpanLayer::new())
//!     .layer(ReplayBodyLayer::new())
//!     .layer(RetryLayer::new(GrpcClassifier::new(), RetryOnce))
//!     .layer(AttemptSpanLayer::new())
//!     .service_fn(|_: Request<ReplayBody<Full<Bytes>>>| async {
//!         tracing::info!("inside of Attempt, which is inside of Sent");
//!         let response = Response::builder().header("grpc-status", "0");
//!         Ok::<_, BoxError>(response.body(Empty::<Bytes>::new())?)
//!     });
//! channel.oneshot(Request::post("http://h/shop.Cart/Add").body(Full::from("frame"))?).await?;
//! # Ok(()) }
//! ```

mod attempt;
mod call;

use reattempt::CallDeadline;
use tracing::Span;

use crate::Code;
use crate::follow::{Follow, code_of_dropped};
use crate::path_prefix::without_prefix;

pub use attempt::{AttemptSpan, AttemptSpanBody, AttemptSpanFuture, AttemptSpanLayer};
pub use call::{CallSpan, CallSpanBody, CallSpanFuture, CallSpanLayer};

/// `/shop.Cart/Add` is `shop.Cart.Add` in a span's name, also behind a proxy's prefix.
fn dotted(path: &str) -> String {
    let name = path.strip_prefix('/').unwrap_or(path);
    without_prefix(name).unwrap_or(name).replace('/', ".")
}

/// The span of a call or attempt whose status is not known yet. If dropped: DEADLINE_EXCEEDED if
/// the deadline has passed, else CANCELLED.
#[derive(Debug)]
pub struct OpenSpan {
    span: Span,
    deadline: Option<CallDeadline>,
    told: bool,
}

impl OpenSpan {
    fn new(span: Span, deadline: Option<CallDeadline>) -> Self {
        Self {
            told: span.is_disabled(),
            span,
            deadline,
        }
    }

    fn tell(&mut self, code: Code) {
        self.told = true;
        if code == Code::Ok {
            self.span.record("otel.status_code", "OK");
        } else {
            self.span.record("otel.status_code", "ERROR");
            self.span.record("otel.status_description", code.name());
        }
    }
}

impl Follow for OpenSpan {
    fn span(&self) -> Option<&Span> {
        Some(&self.span)
    }

    fn closed(mut self, code: Code) {
        self.tell(code);
    }

    fn ended(mut self, code: Code) {
        self.tell(code);
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if !self.told {
            self.tell(code_of_dropped(self.deadline));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::dotted;

    /// A72
    #[test]
    fn the_prefix_of_a_proxy_is_in_no_span() {
        for path in ["/a.B/C", "/api/a.B/C", "/api/v1/a.B/C"] {
            assert_eq!(dotted(path), "a.B.C", "{path}");
        }
        assert_eq!(dotted("/health"), "health");
    }
}
