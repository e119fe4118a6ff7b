//! Follows a file: loads it, and loads it again when its content changes.
//!
//! The file is read every few seconds and compared with what was read before, because times and
//! sizes can stay the same while the content changes. So it does not matter how it is replaced:
//! written in place, by a rename, or by exchanging a symbolic link, as Kubernetes does for a
//! ConfigMap. Replace it in one step (rename, link): a file that is read while it is written is
//! one more bad update.
//!
//! A bad update (a missing or unreadable file, one that is too long or not UTF-8, a document with
//! faults) changes nothing: the last good configuration stays in force. It is logged once at WARN
//! with its first 20 faults and their JSON paths, and again only after the file has changed;
//! [`Following::error`] has all of them, and [`Following::warnings`] all warnings of a good update.
//! If the program's own code panics while it applies a document, that is logged once at ERROR and
//! is the error of the file; it is followed on.
//!
//! `LiveHttpPolicies::follow` and `LiveServiceConfig::follow` take a path or a [`Follow`]. A
//! program can follow a document of its own with [`Follow::start`]:
//!
//! ```
//! use std::sync::{Arc, Mutex, PoisonError};
//! use std::time::Duration;
//! use reattempt::config::follow::Follow;
//! use reattempt::config::{self, Form};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("reattempt-doc-{}", std::process::id()));
//! let limit = Arc::new(Mutex::new(0));
//! std::fs::write(&path, "3")?;
//! let following = Follow::file(&path)
//!     .every(Duration::from_secs(1))
//!     .start(&limit, |limit, text| {
//!         let (read, warnings) = Form::new("the limit").read(text, |place, json| {
//!             config::integer(place, json, "a whole number up to 9", 0, 9)
//!         })?;
//!         *limit.lock().unwrap_or_else(PoisonError::into_inner) = read;
//!         Ok(warnings)
//!     })
//!     .await?;
//! assert_eq!(*limit.lock().unwrap(), 3);
//!
//! std::fs::write(&path, "10")?;
//! tokio::time::sleep(Duration::from_secs(2)).await;
//! assert_eq!(*limit.lock().unwrap(), 3, "the last good one");
//! let error = following.error().unwrap().to_string();
//! assert!(error.ends_with("$: must be a whole number up to 9, got 10"));
//! # std::fs::remove_file(&path)?;
//! # Ok(()) }
//! ```

mod read;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::fault::first_ones;
use super::{Fault, Faults};
use read::Content;
pub use read::{FollowError, MOST_BYTES};

/// Which file is followed, and how often it is read.
#[derive(Clone, Debug)]
pub struct Follow {
    path: PathBuf,
    interval: Duration,
}

/// How often a file is read by default. Kubernetes itself takes up to a minute to bring a changed
/// ConfigMap to a node.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);

impl Follow {
    /// Follows the file at this path, read every [`DEFAULT_INTERVAL`]. Symbolic links are followed
    /// at each read.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            interval: DEFAULT_INTERVAL,
        }
    }

    /// Reads it this often; at most a thousand times a second.
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Self {
        self.interval = interval.max(Duration::from_millis(1));
        self
    }

    /// Loads the file with `apply` now, and again after each change, in a task of the current
    /// runtime. `apply` reads a text, applies it to the target and returns the warnings; or it
    /// changes nothing and returns the faults. It is called by one task at a time, and must not
    /// block for long. If it panics later than now, the file is followed on.
    ///
    /// The task does not keep the target alive. It ends when the target or the returned
    /// [`Following`] is dropped.
    ///
    /// # Errors
    /// If the file cannot be read or has faults now; then nothing is followed.
    ///
    /// # Panics
    /// Outside of a tokio runtime, and if `apply` panics now.
    pub async fn start<T: Send + Sync + 'static>(
        self,
        target: &Arc<T>,
        apply: fn(&Arc<T>, &str) -> Result<Vec<Fault>, Faults>,
    ) -> Result<Following, FollowError> {
        let content = self.read().await;
        let warnings = content.apply(&self.path, |text| apply(target, text))?;
        let standing = Arc::new(Mutex::new(Standing {
            warnings,
            error: None,
        }));
        let task = Task {
            follow: self,
            seen: content,
            standing: Arc::clone(&standing),
            target: Arc::downgrade(target),
            apply,
        };
        Ok(Following {
            standing,
            task: Some(tokio::spawn(task.run())),
        })
    }

    async fn read(&self) -> Content {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || Content::read(&path));
        // Only a runtime that shuts down drops the read; then this task is dropped too.
        read.await.unwrap_or_else(Content::interrupted)
    }
}

impl<P: AsRef<Path>> From<P> for Follow {
    fn from(path: P) -> Self {
        Self::file(path.as_ref())
    }
}

/// A file that is followed. Dropping it ends that; the last good configuration stays in force.
#[derive(Debug)]
#[must_use = "the file is followed only while this is held: keep it, or `detach` it"]
pub struct Following {
    standing: Arc<Mutex<Standing>>,
    task: Option<JoinHandle<()>>,
}

/// What became of the reads so far.
#[derive(Debug)]
struct Standing {
    /// Of the configuration in force.
    warnings: Vec<Fault>,
    /// Why the latest content is not in force.
    error: Option<Arc<FollowError>>,
}

fn lock(standing: &Mutex<Standing>) -> MutexGuard<'_, Standing> {
    standing.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Following {
    /// The warnings of the configuration in force.
    #[must_use]
    pub fn warnings(&self) -> Vec<Fault> {
        lock(&self.standing).warnings.clone()
    }

    /// Why the file's latest content is not in force; `None` if it is.
    #[must_use]
    pub fn error(&self) -> Option<Arc<FollowError>> {
        lock(&self.standing).error.clone()
    }

    /// Follows the file without this handle, until the last handle of the configuration is dropped.
    pub fn detach(mut self) {
        self.task = None;
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

struct Task<T> {
    follow: Follow,
    /// What was read last, good or bad.
    seen: Content,
    standing: Arc<Mutex<Standing>>,
    target: Weak<T>,
    apply: fn(&Arc<T>, &str) -> Result<Vec<Fault>, Faults>,
}

impl<T> Task<T> {
    async fn run(mut self) {
        loop {
            tokio::time::sleep(self.follow.interval).await;
            if self.target.strong_count() == 0 {
                return;
            }
            let content = self.follow.read().await;
            if content == self.seen {
                continue;
            }
            self.seen = content;
            let Some(target) = self.target.upgrade() else {
                return;
            };
            self.changed(&target);
        }
    }

    fn changed(&self, target: &Arc<T>) {
        let path = &self.follow.path;
        let apply = || self.seen.apply(path, |text| (self.apply)(target, text));
        // What the panic left behind is behind the target's own locks.
        let applied = catch_unwind(AssertUnwindSafe(apply)).unwrap_or_else(|panic| {
            Err(FollowError::Panicked {
                path: path.clone(),
                panic: message(&*panic),
            })
        });
        let mut standing = lock(&self.standing);
        match applied {
            Ok(warnings) => {
                let (path, warned) = (path.display(), first_ones(warnings.iter()));
                *standing = Standing {
                    warnings,
                    error: None,
                };
                drop(standing);
                if warned.is_empty() {
                    tracing::info!(target: "reattempt", "{path} was loaded again");
                } else {
                    tracing::warn!(target: "reattempt", "{path} was loaded again, with warnings: {warned}");
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                standing.error = Some(Arc::clone(&error));
                drop(standing);
                let why = error.logged();
                if matches!(*error, FollowError::Panicked { .. }) {
                    tracing::error!(target: "reattempt", "{why}");
                } else {
                    tracing::warn!(target: "reattempt", "the last good configuration stays in force: {why}");
                }
            }
        }
    }
}

/// The text of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a text").to_owned()
}
