//! Files that are none, and a program whose own code panics.

use super::*;

/// Opening a named pipe blocks until it has a writer, and there is none.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_named_pipe_is_refused_at_once() {
    let folder = Folder::new();
    let path = folder.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let refused = error_of(&path).await;
    assert!(refused.ends_with("it is not a regular file"), "{refused}");

    let path = folder.write("a.json", "1");
    let (target, following) = follow(&path).await;
    std::fs::rename(folder.path("pipe"), &path).unwrap();
    next_read().await;
    assert!(following.error().is_some());
    std::fs::remove_file(&path).unwrap();
    folder.write("a.json", "2");
    next_read().await;
    assert_eq!(target.seen(), [1, 2]);
    assert!(following.error().is_none());
}

fn panics_at_two(target: &Arc<Applied>, text: &str) -> Result<Vec<Fault>, Faults> {
    assert_ne!(text, "2", "two is refused");
    Applied::read(target, text)
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_program_is_reported_and_following_goes_on() {
    let listener = listen();
    let folder = Folder::new();
    let path = folder.write("a.json", "1");
    let target = Arc::new(Applied::default());
    let following = Follow::from(&path).start(&target, panics_at_two).await;
    let following = following.unwrap();
    folder.write("a.json", "2");
    next_read().await;
    tokio::time::sleep(DEFAULT_INTERVAL * 3).await;
    let told = following.error().unwrap().to_string();
    assert!(told.contains("a.json: applying it panicked: ") && told.contains("two is refused"));
    assert_eq!(listener.warnings(), [told], "once");

    folder.write("a.json", "3");
    next_read().await;
    assert_eq!(target.seen(), [1, 3]);
    assert!(following.error().is_none());
}
