mod hostile;

use std::sync::atomic::{AtomicU32, Ordering};

use tracing::Level;

use super::*;
use crate::config::{self, Form};
use crate::observe::log::tests::{All, hears};
use crate::test_util::listen;

/// A folder of one test, removed with its content.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("reattempt-follow-{}-{next}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Folder {
    /// Writes `a.json` again, and waits until it was read.
    async fn update(&self, content: impl AsRef<[u8]>) {
        self.write("a.json", content);
        next_read().await;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The numbers that were applied, in order.
#[derive(Debug, Default)]
struct Applied(Mutex<Vec<u64>>);

impl Applied {
    fn read(target: &Arc<Self>, text: &str) -> Result<Vec<Fault>, Faults> {
        let (number, warnings) = Form::new("the number").read(text, |place, json| {
            for _ in 2..json.text().len() {
                place.warn("is long");
            }
            if json.text() == "[]" {
                (0..1000).for_each(|_| place.wrong("is wrong"));
            }
            config::integer(place, json, "a whole number", 0, u64::MAX)
        })?;
        target.0.lock().unwrap().push(number);
        Ok(warnings)
    }

    fn seen(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }
}

async fn follow(path: &Path) -> (Arc<Applied>, Following) {
    let target = Arc::new(Applied::default());
    let following = Follow::from(path).start(&target, Applied::read).await;
    (target, following.unwrap())
}

async fn error_of(path: &Path) -> String {
    let target = Arc::new(Applied::default());
    let refused = Follow::file(path).start(&target, Applied::read).await;
    assert!(target.seen().is_empty());
    refused.unwrap_err().to_string()
}

/// Longer than one interval, shorter than two.
async fn next_read() {
    tokio::time::sleep(DEFAULT_INTERVAL * 3 / 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_file_is_loaded_at_once_and_again_after_a_change() {
    let (heard, _guard) = hears::<All>();
    let folder = Folder::new();
    let path = folder.write("a.json", "1");
    let (target, _following) = follow(&path).await;
    assert_eq!(target.seen(), [1]);
    tokio::time::sleep(DEFAULT_INTERVAL * 10).await;
    assert_eq!(target.seen(), [1], "nothing has changed");
    assert_eq!(*heard.0.lock().unwrap(), []);
    folder.write("a.json", "2");
    tokio::time::sleep(DEFAULT_INTERVAL * 2).await;
    assert_eq!(target.seen(), [1, 2]);
    let said = format!("message={} was loaded again ", path.display());
    let expected = (Level::INFO, "reattempt".to_owned(), said);
    assert_eq!(*heard.0.lock().unwrap(), [expected]);
}

/// Times and lengths are the same, and only the content differs.
#[tokio::test(start_paused = true)]
async fn a_change_that_keeps_time_and_length_is_seen() {
    let folder = Folder::new();
    let path = folder.write("a.json", "1");
    let (target, _following) = follow(&path).await;
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    folder.write("a.json", "2");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(modified).unwrap();
    next_read().await;
    assert_eq!(target.seen(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_file_replaced_by_a_rename_is_followed() {
    let folder = Folder::new();
    let path = folder.write("a.json", "1");
    let (target, _following) = follow(&path).await;
    for next in 2..5 {
        let new = folder.write("new", next.to_string());
        std::fs::rename(new, &path).unwrap();
        next_read().await;
    }
    assert_eq!(target.seen(), [1, 2, 3, 4]);
}

/// As the kubelet does: `policies.json` → `..data/policies.json`, and `..data` → a folder by date,
/// which is exchanged by the rename of a link.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_config_map_whose_link_is_exchanged_is_followed() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    let publish = |number: u32| {
        let dated = folder.path(&format!("..2026_{number}"));
        std::fs::create_dir(&dated).unwrap();
        std::fs::write(dated.join("policies.json"), number.to_string()).unwrap();
        let new = folder.path("..data_tmp");
        symlink(&dated, &new).unwrap();
        std::fs::rename(new, folder.path("..data")).unwrap();
        if number > 1 {
            std::fs::remove_dir_all(folder.path(&format!("..2026_{}", number - 1))).unwrap();
        }
    };
    publish(1);
    let path = folder.path("policies.json");
    symlink("..data/policies.json", &path).unwrap();
    let (target, _following) = follow(&path).await;
    for number in 2..4 {
        publish(number);
        next_read().await;
    }
    assert_eq!(target.seen(), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_bad_update_keeps_the_last_good_one_and_is_logged_once() {
    let listener = listen();
    let folder = Folder::new();
    let path = folder.write("a.json", "100");
    let (target, following) = follow(&path).await;
    let warnings = || -> Vec<_> {
        let warnings = following.warnings();
        warnings.iter().map(ToString::to_string).collect()
    };
    assert_eq!(warnings(), ["$: is long"]);

    folder.write("a.json", "-1");
    tokio::time::sleep(DEFAULT_INTERVAL * 10).await;
    assert_eq!(target.seen(), [100]);
    assert_eq!(warnings(), ["$: is long"], "of the one in force");
    let error = following.error().unwrap().to_string();
    let fault = "the number cannot be used: $: must be a whole number, got -1";
    assert_eq!(error, format!("{}: {fault}", path.display()));
    let warned = format!("the last good configuration stays in force: {error}");
    assert_eq!(listener.warnings(), [warned]);

    folder.update("-2").await;
    assert_eq!(listener.warnings().len(), 2, "another content");

    folder.update("7").await;
    assert_eq!(target.seen(), [100, 7]);
    assert!(following.error().is_none() && warnings().is_empty());

    folder.update("-2").await;
    folder.update("7").await;
    assert_eq!(target.seen(), [100, 7, 7], "back again");
    assert_eq!(listener.warnings().len(), 3);

    folder.update("200").await;
    let warned = format!(
        "{} was loaded again, with warnings: $: is long",
        path.display()
    );
    assert_eq!(listener.warnings().last(), Some(&warned));
}

#[tokio::test(start_paused = true)]
async fn of_many_faults_and_warnings_the_first_are_logged() {
    let listener = listen();
    let folder = Folder::new();
    let path = folder.write("a.json", "1");
    let (_target, following) = follow(&path).await;
    let logged = |what: &str| {
        let heard = listener.warnings().pop().unwrap();
        let more = heard.rsplit("; ").next().unwrap().to_owned();
        (heard.matches(what).count(), more)
    };
    folder.update("1".repeat(1002)).await;
    assert_eq!(logged("is long"), (20, "and 980 more".to_owned()));
    assert_eq!(following.warnings().len(), 1000);
    folder.update("[]").await;
    assert_eq!(logged("is wrong"), (20, "and 981 more".to_owned()));
    let error = following.error().unwrap();
    let FollowError::Faulty { faults, .. } = &*error else {
        panic!("{error}");
    };
    assert_eq!(faults.faults().len(), 1001);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_vanishes_and_returns_is_one_warning() {
    let listener = listen();
    let folder = Folder::new();
    let path = folder.write("a.json", "1");
    let (target, following) = follow(&path).await;
    std::fs::remove_file(&path).unwrap();
    tokio::time::sleep(DEFAULT_INTERVAL * 10).await;
    let error = following.error().unwrap();
    assert!(
        matches!(&*error, FollowError::Unreadable { path: of, .. } if *of == path),
        "{error}"
    );
    assert_eq!(listener.warnings().len(), 1);
    folder.update("2").await;
    assert_eq!(target.seen(), [1, 2]);
    assert!(following.error().is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_no_text_of_a_bounded_length_changes_nothing() {
    let folder = Folder::new();
    let path = folder.write("a.json", "1");
    let (target, following) = follow(&path).await;
    let error = || following.error().unwrap();

    let blanks = |more: usize| format!("2{}", " ".repeat(MOST_BYTES - 1 + more));
    folder.update(blanks(1)).await;
    let found = error();
    assert!(matches!(&*found, FollowError::TooLong { .. }), "{found}");

    folder.update(b"12\xff").await;
    let found = error();
    let is_at_2 = matches!(&*found, FollowError::NotUtf8 { byte: 2, .. });
    assert!(is_at_2, "{found}");

    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    next_read().await;
    let said = error().to_string();
    assert!(said.ends_with("it is not a regular file"), "{said}");
    assert_eq!(target.seen(), [1]);

    std::fs::remove_dir(&path).unwrap();
    folder.update(blanks(0)).await;
    assert_eq!(target.seen(), [1, 2], "the longest that is read");
}

#[tokio::test(start_paused = true)]
async fn the_first_load_fails_for_what_cannot_be_used() {
    let folder = Folder::new();
    let missing = error_of(&folder.path("none")).await;
    assert!(missing.contains("none cannot be read: "), "{missing}");
    let faulty = error_of(&folder.write("a.json", "{}")).await;
    let said = "a.json: the number cannot be used: $: must be a whole number, got an object";
    assert!(faulty.ends_with(said), "{faulty}");
    let binary = error_of(&folder.write("b.json", b"\x80")).await;
    let said = "b.json is not UTF-8: byte 0 begins no character";
    assert!(binary.ends_with(said), "{binary}");
}

#[tokio::test(start_paused = true)]
async fn following_ends_with_its_handle_or_with_the_target() {
    let runtime = tokio::runtime::Handle::current();
    let tasks = || runtime.metrics().num_alive_tasks();
    let folder = Folder::new();
    let path = folder.write("a.json", "1");

    let (target, following) = follow(&path).await;
    assert_eq!(tasks(), 1);
    drop(following);
    folder.update("2").await;
    assert_eq!((target.seen(), tasks()), (vec![1], 0));

    let (target, following) = follow(&path).await;
    following.detach();
    folder.update("3").await;
    assert_eq!((target.seen(), tasks()), (vec![2, 3], 1));
    drop(target);
    next_read().await;
    assert_eq!(tasks(), 0);

    let (target, following) = follow(&path).await;
    drop(target);
    next_read().await;
    assert_eq!(tasks(), 0);
    assert!(following.error().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_interval_is_the_followers_own() {
    let folder = Folder::new();
    let path = folder.write("a.json", "1");
    let target = Arc::new(Applied::default());
    let follow = Follow::file(&path).every(Duration::from_millis(100));
    let _following = follow.start(&target, Applied::read).await.unwrap();
    folder.write("a.json", "2");
    tokio::time::sleep(Duration::from_millis(99)).await;
    assert_eq!(target.seen(), [1]);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(target.seen(), [1, 2]);
}
