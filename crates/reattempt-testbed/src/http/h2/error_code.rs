//! The error codes of HTTP/2.

use std::fmt;

/// An error code of RST_STREAM and GOAWAY (RFC 9113, 7). Any number is valid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(pub u32);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        impl ErrorCode {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// The name in the specification, or "unknown".
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($number => stringify!($name),)*
                    _ => "unknown",
                }
            }
        }
    };
}

codes! {
    /// No error.
    NO_ERROR = 0x0;
    /// The peer broke the protocol.
    PROTOCOL_ERROR = 0x1;
    /// Internal error of the sender.
    INTERNAL_ERROR = 0x2;
    /// The peer exceeded its flow-control window.
    FLOW_CONTROL_ERROR = 0x3;
    /// SETTINGS were not acknowledged in time.
    SETTINGS_TIMEOUT = 0x4;
    /// A frame arrived on a closed stream.
    STREAM_CLOSED = 0x5;
    /// A frame has the wrong size.
    FRAME_SIZE_ERROR = 0x6;
    /// The stream was refused before any work was done.
    REFUSED_STREAM = 0x7;
    /// The stream is no longer needed.
    CANCEL = 0x8;
    /// A header block could not be decoded.
    COMPRESSION_ERROR = 0x9;
    /// The connection of a CONNECT was broken.
    CONNECT_ERROR = 0xa;
    /// The peer creates too much load.
    ENHANCE_YOUR_CALM = 0xb;
    /// The transport is not secure enough.
    INADEQUATE_SECURITY = 0xc;
    /// HTTP/1.1 must be used.
    HTTP_1_1_REQUIRED = 0xd;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (0x{:x})", self.name(), self.0)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<u32> for ErrorCode {
    fn from(number: u32) -> Self {
        Self(number)
    }
}
