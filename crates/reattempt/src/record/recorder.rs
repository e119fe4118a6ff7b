//! The observer: what happens on the call path.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::file::{Form, MOST_TEXT};
use super::note::{Counters, Event, Note};
use super::target::Target;
use super::writer::Writer;
use crate::{AttemptKind, AttemptRecord, CallContext, Observer, RetryInfo, StopReason, clock};

/// Writes what becomes of each attempt to a file, for a replay by the policy lab
/// (`reattempt lab --replay FILE`). Clones share the recording.
///
/// It is an observer of [`RetryLayer`](crate::RetryLayer), [`HedgeLayer`](crate::HedgeLayer) and
/// the presets. An attempt takes 38 bytes of the file, and so do a hedge that was refused and the
/// end of a call that waited; a block of up to 256 of them takes 32 more. Not recorded: calls that
/// an admission refused or on which no recovery layer acted, requests, responses, backends, the
/// late status of a stream, the base of a back-off that a server gave.
///
/// On several threads two attempts that end within the same microsecond may be recorded in the
/// other order than a throttle counted them.
///
/// ```no_run
/// use std::sync::Arc;
/// use reattempt::record::{Form, Options, Recorder};
///
/// let policy = std::fs::read_to_string("policy.json")?;
/// let options = Options::new().policy(Form::HttpPolicy, policy);
/// let recorder = Recorder::create("calls.rec", options)?;
/// let observer: Arc<dyn reattempt::Observer> = Arc::new(recorder.clone());
/// // … at the end of the program:
/// let status = recorder.finish();
/// assert_eq!(status.lost, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

struct Shared {
    queue: SyncSender<Note>,
    /// Notes that did not fit into the queue, or could not be written.
    lost: Arc<Counters>,
    incomplete: Incomplete,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Nothing more is recorded: an event costs one load then.
    finished: AtomicBool,
}

/// Calls of which an event was lost. The rest of their events is lost too: the state of a call is
/// used again by a later one, which would be taken for it.
#[derive(Default)]
struct Incomplete {
    some: AtomicBool,
    calls: Mutex<HashSet<usize>>,
}

impl Incomplete {
    fn add(&self, call: usize) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.insert(call);
        self.some.store(true, Ordering::Relaxed);
    }

    /// Whether the state belongs to such a call; not any more if another one begins with it, and no
    /// longer once it ends: the state may be freed then.
    fn has(&self, call: usize, begins: bool, ends: bool) -> bool {
        if !self.some.load(Ordering::Relaxed) {
            return false;
        }
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of_one = calls.contains(&call);
        if begins || ends {
            calls.remove(&call);
            self.some.store(!calls.is_empty(), Ordering::Relaxed);
        }
        is_of_one && !begins
    }
}

/// What a recording has so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Entries that are in a file.
    pub written: u64,
    /// Events that are not recorded: the queue was full, or the file could not be written.
    pub lost: u64,
}

/// How a recording is written.
#[derive(Clone, Debug)]
pub struct Options {
    most_bytes: u64,
    files: u32,
    queue: usize,
    policy: Option<(Form, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            most_bytes: 64 * 1024 * 1024,
            files: 8,
            queue: 1 << 16,
            policy: None,
        }
    }
}

impl Options {
    /// The defaults: 8 files of 64 MiB, and 65,536 events in the queue, some 6 MiB.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The most bytes of entries in one file, beside the policy and the names; at least 64 KiB.
    /// Then the file `calls.rec` becomes `calls.rec.1`, that one `calls.rec.2`, and a new one
    /// begins.
    #[must_use]
    pub fn most_bytes(mut self, most_bytes: u64) -> Self {
        self.most_bytes = most_bytes.max(64 * 1024);
        self
    }

    /// The most files that are kept, the current one included; at least one.
    #[must_use]
    pub fn files(mut self, files: u32) -> Self {
        self.files = files.max(1);
        self
    }

    /// The most events that wait to be written; further ones are lost.
    #[must_use]
    pub fn queue(mut self, events: usize) -> Self {
        self.queue = events.max(1);
        self
    }

    /// The policy that the calls run under, so that the lab can replay the record with it. It is
    /// that of the beginning, in all files: begin a new recording after a reload.
    #[must_use]
    pub fn policy(mut self, form: Form, text: impl Into<String>) -> Self {
        self.policy = Some((form, text.into()));
        self
    }
}

impl Recorder {
    /// Begins a recording: creates the file, or replaces it, and starts the thread that writes. A
    /// link is replaced too, and not followed. Each recorder needs a path of its own: those of one
    /// path rename and replace each other's files.
    ///
    /// # Errors
    /// The file cannot be written, a folder or a device stands there, the policy is longer than
    /// 4 MiB, or no thread can be started.
    pub fn create(path: impl AsRef<Path>, options: Options) -> io::Result<Self> {
        let text = options.policy.as_ref().map_or(0, |(_, text)| text.len());
        if text > MOST_TEXT {
            let what = "the policy is longer than 4 MiB";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let path: PathBuf = path.as_ref().to_owned();
        let lost = Arc::new(Counters::default());
        let target = Target::create(path, options.most_bytes, options.files, options.policy)?;
        let (queue, notes) = sync_channel(options.queue);
        let writer = Writer::new(target, clock::now(), Arc::clone(&lost));
        let thread = thread::Builder::new()
            .name("reattempt-record".to_owned())
            .spawn(move || writer.run(&notes))?;
        Ok(Self(Arc::new(Shared {
            queue,
            lost,
            incomplete: Incomplete::default(),
            thread: Mutex::new(Some(thread)),
            finished: AtomicBool::new(false),
        })))
    }

    /// What has been recorded.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            written: self.0.lost.written.load(Ordering::Relaxed),
            lost: self.0.lost.lost.load(Ordering::Relaxed),
        }
    }

    /// Ends the recording and waits until everything is in the file. What happens later is lost.
    /// Without it the thread writes the rest when the last clone of the recorder is dropped, and
    /// nothing waits for it.
    #[must_use]
    pub fn finish(&self) -> Status {
        let end = Note {
            call: 0,
            at: clock::now(),
            number: 0,
            kind: AttemptKind::Initial,
            event: Event::Ended {
                stopped: None,
                waited: false,
            },
        };
        self.0.finished.store(true, Ordering::Relaxed);
        // Waits for a place. Fails only if the thread has ended.
        let _ = self.0.queue.send(end);
        let mut thread = self.0.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // A panic of the writer would be a fault in it; what it wrote is there.
            let _ = thread.join();
        }
        self.status()
    }

    /// Whether calls are known of which an event was lost.
    #[cfg(test)]
    pub(super) fn has_incomplete(&self) -> bool {
        self.0.incomplete.some.load(Ordering::Relaxed)
    }

    fn note(&self, call: usize, number: u32, kind: AttemptKind, event: Event) {
        let begins = number <= 1 && matches!(event, Event::Sent { .. });
        let ends = matches!(event, Event::Ended { .. });
        let is_lost = self.0.incomplete.has(call, begins, ends) || {
            let at = clock::now();
            let note = Note {
                call,
                at,
                number,
                kind,
                event,
            };
            self.0.queue.try_send(note).is_err()
        };
        if is_lost {
            self.0.lost.lost.fetch_add(1, Ordering::Relaxed);
            if !ends {
                self.0.incomplete.add(call);
            }
        }
    }

    fn of(&self, context: &CallContext, event: impl FnOnce() -> Event) {
        if self.0.finished.load(Ordering::Relaxed) {
            self.0.lost.lost.fetch_add(1, Ordering::Relaxed);
        } else if let Some(state) = context.shared() {
            let call = std::ptr::from_ref(state) as usize;
            self.note(call, context.attempt(), context.kind(), event());
        }
    }
}

impl Observer for Recorder {
    fn attempt_sent(&self, context: &CallContext) {
        self.of(context, || Event::Sent {
            deadline: context.deadline(),
            idempotent: context.idempotency().is_idempotent(),
            route: context.policy().cloned(),
        });
    }

    fn attempt_settled(&self, context: &CallContext, record: &AttemptRecord) {
        self.of(context, || match (record.failure, record.ended) {
            // The most frequent one takes no memory.
            (None, None) if record.outcome == crate::AttemptOutcome::Success => {
                Event::Succeeded(record.stopped)
            }
            _ => Event::Settled(Box::new(record.clone())),
        });
    }

    fn hedge_refused(&self, context: &CallContext, stopped: StopReason) {
        self.of(context, || Event::Refused(stopped));
    }

    fn call_ended(&self, context: &CallContext, info: &RetryInfo) {
        // A call that ended with an attempt has its reason in that attempt's record.
        let last = info.records().next_back();
        self.of(context, || Event::Ended {
            stopped: info.stopped(),
            waited: last.is_some_and(|last| last.delay.is_some()),
        });
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
