//! What a server says about being asked again (A6, Pushback).

use std::time::Duration;

/// The server's own word on another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerPushback {
    /// Come back after exactly this delay; it replaces the back-off, without jitter. More than a
    /// day acts as [`ServerPushback::Stop`] on a call that has no deadline, so that no server can
    /// have a call wait for years.
    After(Duration),
    /// Do not come back with this call.
    Stop,
}
