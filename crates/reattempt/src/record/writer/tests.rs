use std::fs::{self, File};
use std::path::Path;
use std::sync::mpsc::sync_channel;

use super::*;
use crate::record::Recording;
use crate::{StopReason, clock};

/// Waits for the thread that writes, which does not say what it has done; at most ten seconds.
pub(in crate::record) fn soon(is_so: impl Fn() -> bool) -> bool {
    for _ in 0..1000 {
        if is_so() {
            return true;
        }
        thread::park_timeout(LOOK);
    }
    false
}

pub(in crate::record) fn entries(path: &Path) -> usize {
    let read = Recording::read(&[fs::read(path).unwrap()], &[]);
    read.map_or(0, |recording| recording.entries.len())
}

#[test]
fn a_block_that_is_not_full_is_written_after_some_looks() {
    let path = std::env::temp_dir().join(format!("reattempt-looks-{}", std::process::id()));
    let target = Target::create(path.clone(), 1 << 20, 1, None).unwrap();
    let mut writer = Writer::new(target, clock::now(), Arc::default());
    writer.looks = 1;
    let (queue, notes) = sync_channel(9);
    let thread = thread::spawn(move || writer.run(&notes));
    let sent = Event::Sent {
        deadline: None,
        idempotent: false,
        route: None,
    };
    for event in [sent, Event::Succeeded(Some(StopReason::Success))] {
        let note = Note {
            call: 1,
            at: clock::now(),
            number: 1,
            kind: AttemptKind::Initial,
            event,
        };
        queue.send(note).unwrap();
    }
    assert!(soon(|| entries(&path) == 1), "while the recorder lives");
    drop(queue);
    assert!(soon(|| thread.is_finished()), "with the recorder");
    fs::remove_file(&path).unwrap();
}

#[test]
fn after_a_write_that_failed_the_file_can_be_read() {
    let path = std::env::temp_dir().join(format!("reattempt-fails-{}", std::process::id()));
    let target = Target::create(path.clone(), 1 << 20, 1, None).unwrap();
    let mut writer = Writer::new(target, clock::now(), Arc::default());
    let entry = |writer: &mut Writer, route: &str| {
        let mut entry = Entry::new(What::Ended, 1, 0);
        entry.route = writer.route(route).unwrap();
        writer.push(clock::now(), entry);
        writer.flush();
    };
    entry(&mut writer, "first");
    let read_only = File::open(&path).unwrap();
    let file = std::mem::replace(&mut writer.target.file, read_only);
    entry(&mut writer, "second");
    writer.target.file = file;
    entry(&mut writer, "third");
    // Lost after the last entry.
    writer.counters.lost.fetch_add(1, Ordering::Relaxed);
    writer.flush();
    let read = Recording::read(&[fs::read(&path).unwrap()], &[]);
    fs::remove_file(&path).unwrap();
    let read = read.unwrap_or_else(|damages| panic!("{damages:?}"));
    assert_eq!(read.routes, ["first", "second", "third"]);
    let routes: Vec<_> = read.entries.iter().map(|timed| timed.entry.route).collect();
    assert_eq!((routes, read.lost), (vec![0, 2], 2));
}
