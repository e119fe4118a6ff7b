//! The flow-control windows for sending, as granted by the peer (RFC 9113, 5.2).

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::Notify;

use super::{ErrorCode, frame::MAX_PAYLOAD};
use crate::lock::lock;

const DEFAULT_WINDOW: i64 = 65_535;
const MAX_WINDOW: i64 = 0x7fff_ffff;

/// The send windows of one connection and its streams.
#[derive(Debug)]
pub(crate) struct SendWindows {
    windows: Mutex<Windows>,
    changed: Notify,
}

#[derive(Debug)]
struct Windows {
    connection: i64,
    initial: i64,
    streams: HashMap<u32, i64>,
}

fn checked(window: i64) -> Result<i64, ErrorCode> {
    let fits = window <= MAX_WINDOW;
    fits.then_some(window).ok_or(ErrorCode::FLOW_CONTROL_ERROR)
}

impl SendWindows {
    pub(crate) fn new() -> Self {
        let windows = Windows {
            connection: DEFAULT_WINDOW,
            initial: DEFAULT_WINDOW,
            streams: HashMap::new(),
        };
        Self {
            windows: Mutex::new(windows),
            changed: Notify::new(),
        }
    }

    pub(crate) fn open(&self, stream: u32) {
        let mut windows = lock(&self.windows);
        let initial = windows.initial;
        windows.streams.insert(stream, initial);
    }

    pub(crate) fn close(&self, stream: u32) {
        lock(&self.windows).streams.remove(&stream);
        self.changed.notify_waiters();
    }

    /// SETTINGS_INITIAL_WINDOW_SIZE: adjusts every open stream by the difference.
    pub(crate) fn set_initial(&self, size: u32) -> Result<(), ErrorCode> {
        let size = checked(i64::from(size))?;
        let mut windows = lock(&self.windows);
        let difference = size - windows.initial;
        windows.initial = size;
        for window in windows.streams.values_mut() {
            *window = checked(*window + difference)?;
        }
        self.changed.notify_waiters();
        Ok(())
    }

    /// WINDOW_UPDATE; stream 0 is the connection. A closed stream is ignored.
    pub(crate) fn grow(&self, stream: u32, by: u32) -> Result<(), ErrorCode> {
        let mut windows = lock(&self.windows);
        let window = match stream {
            0 => Some(&mut windows.connection),
            stream => windows.streams.get_mut(&stream),
        };
        if let Some(window) = window {
            *window = checked(*window + i64::from(by))?;
        }
        self.changed.notify_waiters();
        Ok(())
    }

    /// Waits until data may be sent and takes up to `wanted` bytes, at most one frame. Returns
    /// `None` when the stream is closed.
    pub(crate) async fn take(&self, stream: u32, wanted: usize) -> Option<usize> {
        loop {
            // Created before the check, so that a change in between is not missed.
            let changed = self.changed.notified();
            {
                let mut windows = lock(&self.windows);
                let of_stream = *windows.streams.get(&stream)?;
                let room = windows.connection.min(of_stream).min(MAX_PAYLOAD as i64);
                if room > 0 {
                    let taken = wanted.min(room as usize);
                    windows.connection -= taken as i64;
                    windows.streams.insert(stream, of_stream - taken as i64);
                    return Some(taken);
                }
            }
            changed.await;
        }
    }
}
