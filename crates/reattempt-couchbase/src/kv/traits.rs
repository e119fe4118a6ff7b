//! What a key-value client reports about its requests, responses and errors. Implement these traits
//! for the client's own types.

use std::sync::OnceLock;
use std::time::Duration;

use reattempt::{Call, HasCallContext, Idempotency, MethodName, RetryReason, Stage, reason};

use super::{ErrorMap, Opcode};
use crate::Address;

/// A key-value request.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known as a key-value request",
    note = "implement `KvRequest` for the client's request type, which a `Call<T>` then carries"
)]
pub trait KvRequest {
    /// The operation (byte 1 of the frame).
    fn opcode(&self) -> u8;

    /// The document's key without a collection prefix; `None` for an operation without a key. Its
    /// vbucket determines the node of the request.
    fn key(&self) -> Option<&[u8]> {
        None
    }

    /// True for a write with a durability requirement (the framing extra 1): the server answers
    /// after it was replicated or persisted. `KvClientLayer` gives it more time by default.
    fn is_durable(&self) -> bool {
        false
    }
}

impl<T: KvRequest> KvRequest for Call<T> {
    fn opcode(&self) -> u8 {
        self.request.opcode()
    }

    fn key(&self) -> Option<&[u8]> {
        self.request.key()
    }

    fn is_durable(&self) -> bool {
        self.request.is_durable()
    }
}

/// A key-value response: a complete response frame with any status.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known as a key-value response",
    note = "implement `KvAnswer` for the response of the service right below the preset or the recovery layer"
)]
pub trait KvAnswer {
    /// The status (bytes 6 and 7 of the frame).
    fn status(&self) -> u16;

    /// The operation of the response (byte 1 of the frame).
    fn opcode(&self) -> u8;

    /// The value, which is the configuration with status 0x07.
    fn value(&self) -> &[u8] {
        &[]
    }

    /// The framing extras (magic 0x18), which report how long the server throttled the connection.
    fn framing_extras(&self) -> &[u8] {
        &[]
    }

    /// How long the server throttled the connection; read from [`KvAnswer::framing_extras`] unless
    /// the client provides it.
    fn throttle_duration(&self) -> Option<Duration> {
        super::framing_extras::throttle_duration(self.framing_extras())
    }

    /// The error map of the connection (or node) that answered. Maps are not shared between nodes
    /// (RFC 0013, Control Flow).
    fn error_map(&self) -> Option<&ErrorMap> {
        None
    }

    /// The node that answered, if the client knows it; otherwise it is derived from the key.
    fn node(&self) -> Option<Address> {
        None
    }
}

/// An attempt that ended without a response.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how far a key-value request came",
    note = "implement `KvTransportError` for the error of the service right below the preset or the recovery layer"
)]
pub trait KvTransportError {
    /// How far the request came. [`Stage::Dispatch`] only if no byte of it can have left the
    /// client.
    fn stage(&self) -> Stage;

    /// The reason. By default derived from the stage: never sent is `SOCKET_NOT_AVAILABLE`, sent
    /// without a response is `SOCKET_CLOSED_WHILE_IN_FLIGHT`. A client without any connection to
    /// the node returns `NODE_NOT_AVAILABLE`, and one that cannot send this request
    /// [`KV_INVALID_REQUEST`](crate::reasons::KV_INVALID_REQUEST), which opens no circuit.
    fn reason(&self) -> RetryReason {
        match self.stage() {
            Stage::Dispatch => reason::SOCKET_NOT_AVAILABLE,
            Stage::InFlight => reason::SOCKET_CLOSED_WHILE_IN_FLIGHT,
            Stage::Response => reason::UNKNOWN,
        }
    }

    /// True if no retry can succeed: a request that cannot be encoded, rejected credentials.
    fn is_fatal(&self) -> bool {
        false
    }

    /// The node that failed, if the client knows it; otherwise it is derived from the key.
    fn node(&self) -> Option<Address> {
        None
    }
}

/// Stamps the idempotency of the operation by RFC 0049's list, unless the caller has set it, and
/// its name for the log.
///
/// Call it where requests enter the stack: a recovery layer retries a request that may have taken
/// effect only if the operation is known to be idempotent.
///
/// ```
/// use reattempt::{HasCallContext, Call, Idempotency};
/// use reattempt_couchbase::KvRequest;
/// use reattempt_couchbase::kv::{Opcode, attach_idempotency};
///
/// #[derive(Clone)]
/// struct Get;
/// impl KvRequest for Get {
///     fn opcode(&self) -> u8 {
///         Opcode::GET.0
///     }
/// }
///
/// let mut call = Call::new(Get);
/// attach_idempotency(&mut call);
/// assert_eq!(
///     call.context().unwrap().idempotency(),
///     Idempotency::Idempotent
/// );
/// assert_eq!(call.context().unwrap().method().unwrap().name(), "GET");
/// ```
pub fn attach_idempotency<R: KvRequest + HasCallContext>(request: &mut R) {
    let of_operation = if Opcode(request.opcode()).is_idempotent() {
        Idempotency::Idempotent
    } else {
        Idempotency::NotIdempotent
    };
    let method = method(request.opcode());
    let context = request.context_mut();
    if context.idempotency() == Idempotency::Unknown {
        context.set_idempotency(of_operation);
    }
    if let Some(method) = method {
        context.set_method(method);
    }
}

/// The operation's name, for the log.
fn method(opcode: u8) -> Option<MethodName> {
    static NAMES: [OnceLock<Option<MethodName>>; 256] = [const { OnceLock::new() }; 256];
    let name = || MethodName::new(Opcode(opcode).name()?);
    *NAMES[usize::from(opcode)].get_or_init(name)
}
