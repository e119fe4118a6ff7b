//! Couchbase's requests in OpenTelemetry's words.

use reattempt::telemetry::{Convention, Operation, System};

use crate::KvRequest;
use crate::kv::Opcode;

const SYSTEM: System = System::Db("couchbase");

/// OpenTelemetry's semantic conventions for database clients: `db.client.operation.duration` of
/// each attempt on the key-value service, and its span (see
/// [`Metrics::attempts`](reattempt::telemetry::Metrics::attempts), with a
/// [`KvClassifier`](crate::KvClassifier)). The operation is the opcode's name.
#[derive(Clone, Copy, Debug, Default)]
pub struct KvConvention;

impl<Req: KvRequest, Res> Convention<Req, Res> for KvConvention {
    fn system(&self) -> System {
        SYSTEM
    }

    fn operation<'a>(&self, request: &'a Req) -> Operation<'a> {
        Operation::new(Opcode(request.opcode()).name().unwrap_or("_OTHER"))
    }
}

/// The same for a service over HTTP, made by [`HttpService::convention`](crate::HttpService): the
/// operation is the service's name. Below a [`ServiceClientLayer`](crate::ServiceClientLayer) the
/// classifier is `reattempt_http::HttpClassifier`, because the service's answer is read above.
#[cfg(feature = "http")]
#[derive(Clone, Copy, Debug)]
pub struct ServiceConvention(pub(crate) &'static str);

#[cfg(feature = "http")]
impl<B, R> Convention<http::Request<B>, http::Response<R>> for ServiceConvention {
    fn system(&self) -> System {
        SYSTEM
    }

    fn operation<'a>(&self, request: &'a http::Request<B>) -> Operation<'a> {
        let uri = request.uri();
        Operation::new(self.0).at(uri.host(), uri.port_u16())
    }

    fn status(&self, response: &http::Response<R>) -> Option<i32> {
        Some(response.status().as_u16().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Frame(u8);

    impl KvRequest for Frame {
        fn opcode(&self) -> u8 {
            self.0
        }
    }

    #[test]
    fn an_operation_is_named_after_its_opcode() {
        let of = |opcode| {
            let convention: &dyn Convention<Frame, ()> = &KvConvention;
            convention.operation(&Frame(opcode)).name
        };
        assert_eq!([of(0x00), of(0x01), of(0xf0)], ["GET", "SET", "_OTHER"]);
    }

    #[cfg(feature = "http")]
    #[test]
    fn a_services_operation_is_its_name_at_its_node() {
        let convention = crate::HttpService::query().convention();
        let convention: &dyn Convention<http::Request<()>, http::Response<()>> = &convention;
        let request = http::Request::post("http://n1:8093/query/service");
        let request = request.body(()).unwrap();
        let operation = convention.operation(&request);
        assert_eq!((operation.name, operation.host), ("query", Some("n1")));
        assert_eq!(operation.port, Some(8093));
    }
}
