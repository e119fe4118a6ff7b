//! Entries, files and damages.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tower::{Layer, ServiceExt};

use super::writer::tests::{entries, soon};
use super::{Entry, LENGTH, MOST_DAMAGES, Options, Recorder, Recording, What};
use crate::backoff::Backoff;
use crate::reason::KV_LOCKED;
use crate::strategy::{MaxAttempts, NeverRetry};
use crate::test_util::{Probe, attempt, ms, probe, verdict};
use crate::{
    AttemptKind, HasCallContext, HedgeLayer, RetryLayer, RetryReason, RoutePolicy, ServerPushback,
    Stage, StopReason,
};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = format!("reattempt-record-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn calls(recorder: &Recorder, count: usize) {
    let strategy = MaxAttempts::new(3, Backoff::constant(ms(10)));
    for _ in 0..count {
        let layer = RetryLayer::new(verdict, strategy.clone()).observer(Arc::new(recorder.clone()));
        let probe: Probe = probe([
            attempt(1).fails(KV_LOCKED).after(ms(3)),
            attempt(2).after(ms(4)),
        ]);
        layer
            .layer(probe.inner())
            .oneshot(probe.request())
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_an_entry_with_its_decision() {
    let scratch = Scratch::new("entry");
    let recorder = Recorder::create(scratch.file("a"), Options::new()).unwrap();
    calls(&recorder, 1).await;
    let status = recorder.finish();
    assert_eq!((status.written, status.lost), (2, 0));
    let bytes = std::fs::read(scratch.file("a")).unwrap();
    let recording = Recording::read(&[bytes], &[KV_LOCKED]).unwrap();
    let [first, second] = recording.entries[..] else {
        panic!("{:?}", recording.entries)
    };
    assert_eq!((first.entry.took, second.entry.took), (ms(3), ms(4)));
    assert_eq!(first.entry.delay, Some(ms(10)));
    assert_eq!(second.at - first.at, 14_000_000);
    assert_eq!(second.entry.kind, AttemptKind::Retry);
    assert_eq!(second.entry.stopped, Some(StopReason::Success));
    assert_eq!(recording.reasons, [KV_LOCKED]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_no_layer_acts_on_is_not_lost() {
    let scratch = Scratch::new("passed");
    let recorder = Recorder::create(scratch.file("a"), Options::new()).unwrap();
    let layer = HedgeLayer::by_policy(verdict).observer(Arc::new(recorder.clone()));
    for _ in 0..3 {
        let probe: Probe = probe([attempt(1).fails(KV_LOCKED)]);
        let service = layer.layer(probe.inner());
        assert!(service.oneshot(probe.request()).await.is_err());
    }
    let status = recorder.finish();
    assert_eq!((status.written, status.lost), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_rest_is_written_when_the_last_clone_is_dropped() {
    let scratch = Scratch::new("dropped");
    let recorder = Recorder::create(scratch.file("a"), Options::new()).unwrap();
    // Two blocks, and one that is not full.
    calls(&recorder, 300).await;
    drop(recorder);
    assert!(soon(|| entries(&scratch.file("a")) == 600));
}

#[tokio::test(start_paused = true)]
async fn a_full_file_becomes_an_older_one_and_the_oldest_goes() {
    let scratch = Scratch::new("rotate");
    let options = Options::new().most_bytes(0).files(3);
    let recorder = Recorder::create(scratch.file("a"), options).unwrap();
    // Four files and a half, of 64 KiB.
    calls(&recorder, 4000).await;
    let status = recorder.finish();
    assert_eq!((status.written, status.lost), (8000, 0));
    let names = ["a.2", "a", "a.1"];
    let files = names.map(|name| std::fs::read(scratch.file(name)).unwrap());
    assert!(!scratch.file("a.3").exists());
    let most = 64 * 1024 + 256 * LENGTH + 1024;
    assert!(files.iter().all(|file| file.len() < most), "bounded");
    let recording = Recording::read(&files, &[KV_LOCKED]).unwrap();
    let whole = recording.entries.len();
    assert!((2500..8000).contains(&whole), "{whole}");
    assert!(recording.entries.is_sorted_by_key(|timed| timed.at));
    // An attempt takes 38 bytes, and its share of a block.
    let bytes: usize = files.iter().map(Vec::len).sum();
    assert!(bytes <= 40 * whole, "{bytes} {whole}");
}

/// Looking at each of four billion numbers takes hours.
#[tokio::test(start_paused = true)]
async fn a_rotation_stops_at_the_first_free_number() {
    let scratch = Scratch::new("free");
    let options = Options::new().most_bytes(0).files(u32::MAX);
    let recorder = Recorder::create(scratch.file("a"), options).unwrap();
    calls(&recorder, 2000).await;
    let status = recorder.finish();
    assert_eq!((status.written, status.lost), (4000, 0));
    let files = ["a.2", "a.1", "a"].map(|name| std::fs::read(scratch.file(name)).unwrap());
    let recording = Recording::read(&files, &[KV_LOCKED]).unwrap();
    assert_eq!(recording.entries.len(), 4000);
}

/// Two processes of a deployment, or two clients of one.
#[tokio::test(start_paused = true)]
async fn a_second_recorder_leaves_the_file_of_the_first_whole() {
    let scratch = Scratch::new("second");
    let create = || Recorder::create(scratch.file("a"), Options::new()).unwrap();
    let first = create();
    calls(&first, 300).await;
    let mut old = std::fs::File::open(scratch.file("a")).unwrap();
    let second = create();
    calls(&first, 300).await;
    calls(&second, 1).await;
    assert_eq!((first.finish().lost, second.finish().lost), (0, 0));
    let mut of_first = Vec::new();
    std::io::Read::read_to_end(&mut old, &mut of_first).unwrap();
    let of_second = std::fs::read(scratch.file("a")).unwrap();
    let entries = [of_first, of_second].map(|file| {
        let recording = Recording::read(&[file], &[KV_LOCKED]).unwrap();
        recording.entries.len()
    });
    assert_eq!(entries, [1200, 2]);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_into_the_queue_is_lost_and_counted() {
    let scratch = Scratch::new("lost");
    let options = Options::new().queue(1);
    let recorder = Recorder::create(scratch.file("a"), options).unwrap();
    // Two attempts are five events, and all come at once.
    calls(&recorder, 1000).await;
    assert!(!recorder.has_incomplete(), "they ended");
    let status = recorder.finish();
    assert!(status.lost > 0 && status.written < 2000, "{status:?}");
    calls(&recorder, 1).await;
    assert_eq!(recorder.status().lost, status.lost + 5, "after its end");
    let bytes = std::fs::read(scratch.file("a")).unwrap();
    let recording = Recording::read(&[bytes], &[]).unwrap();
    let read = (recording.entries.len() as u64, recording.lost);
    assert_eq!(read, (status.written, status.lost));
    // No event is taken for one of an earlier call that had the same state.
    let own = |timed: &&super::Timed| timed.entry.took == ms(2 + u64::from(timed.entry.number));
    assert_eq!(recording.entries.iter().find(|timed| !own(timed)), None);
    let calls = recording
        .entries
        .chunk_by(|one, other| one.entry.call == other.entry.call);
    for call in calls {
        let apart = call.last().unwrap().at - call[0].at;
        assert!([0, 14_000_000].contains(&apart), "{call:?}");
    }
}

#[tokio::test(start_paused = true)]
#[cfg_attr(miri, ignore = "slow")]
async fn a_call_of_one_route_too_many_is_lost_and_counted() {
    let scratch = Scratch::new("routes");
    let options = Options::new().queue(1 << 16);
    let recorder = Recorder::create(scratch.file("a"), options).unwrap();
    let strategy = MaxAttempts::new(1, Backoff::constant(ms(10)));
    let layer = RetryLayer::new(verdict, strategy).observer(Arc::new(recorder.clone()));
    let routes = (1 << 14) - 1;
    for route in 0..=routes {
        let probe: Probe = probe([attempt(1)]);
        let mut request = probe.request();
        let policy = RoutePolicy::new(route.to_string());
        request.context_mut().set_policy(Arc::new(policy));
        layer.layer(probe.inner()).oneshot(request).await.unwrap();
    }
    let status = recorder.finish();
    assert_eq!((status.written, status.lost), (routes, 1));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_created_is_an_error() {
    let scratch = Scratch::new("none");
    let path = scratch.file("no folder/a");
    assert!(Recorder::create(path, Options::new()).is_err());
    let folder = scratch.file("folder");
    std::fs::create_dir(&folder).unwrap();
    assert!(Recorder::create(folder, Options::new()).is_err());
    let left = std::fs::read_dir(scratch.file("")).unwrap();
    assert_eq!(left.count(), 1, "the folder alone");
}

/// A throttle's price and what counts as an answer depend on them.
#[tokio::test(start_paused = true)]
async fn a_reason_is_read_with_all_that_holds_of_it() {
    crate::retry_reasons! {
        PLAIN(true, false);
        GONE(false, false, answer);
        FULL(true, false, overload, not_accepted);
        NOT_SENT(true, true, unsent);
        OWN(false, false, request);
    }
    let of = |reason: RetryReason| {
        let flags = (reason.allows_non_idempotent_retry(), reason.always_retry());
        let of_server = (reason.is_answer(), reason.is_not_accepted(), reason.class());
        (reason.name(), flags, of_server)
    };
    let reasons = [PLAIN, GONE, FULL, NOT_SENT, OWN];
    let scratch = Scratch::new("reasons");
    let recorder = Recorder::create(scratch.file("a"), Options::new()).unwrap();
    for reason in reasons {
        let layer = RetryLayer::new(verdict, NeverRetry).observer(Arc::new(recorder.clone()));
        let probe = probe([attempt(1).fails_fatally(reason)]);
        let _failed = layer.layer(probe.inner()).oneshot(probe.request()).await;
    }
    assert_eq!(recorder.finish().lost, 0);
    let bytes = std::fs::read(scratch.file("a")).unwrap();
    let read = Recording::read(&[bytes], &[]).unwrap().reasons;
    assert!(read.into_iter().map(of).eq(reasons.map(of)));
}

async fn recorded(name: &str) -> Vec<u8> {
    let scratch = Scratch::new(name);
    let recorder = Recorder::create(scratch.file("a"), Options::new()).unwrap();
    calls(&recorder, 300).await;
    assert_eq!(recorder.finish().lost, 0);
    std::fs::read(scratch.file("a")).unwrap()
}

fn damages(bytes: &[u8]) -> Vec<(usize, &'static str)> {
    let damages = Recording::read(&[bytes], &[]).expect_err("it is damaged");
    damages
        .into_iter()
        .map(|damage| (damage.offset, damage.what))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn each_damage_has_its_offset() {
    let whole = recorded("damage").await;
    let blocks: Vec<usize> = (0..whole.len() - 4)
        .filter(|at| &whole[*at..at + 4] == b"RBLK")
        .collect();
    assert_eq!(blocks.len(), 4, "names, and 600 entries");
    let changed = |at: &[usize]| {
        let mut bytes = whole.clone();
        at.iter().for_each(|at| bytes[*at] ^= 0x40);
        damages(&bytes)
    };
    assert_eq!(changed(&[3]), [(0, "is no recording of this version")]);
    assert_eq!(
        changed(&[17]),
        [(28, "the checksum of the header is wrong")]
    );
    let wrong = "the checksum of a block is wrong";
    let two = changed(&[blocks[1] + 100, blocks[3] + 40]);
    assert_eq!(two[0], (blocks[1], wrong));
    assert!(two.contains(&(blocks[3], wrong)), "{two:?}");
    // Of another length it ends behind the file, with a block behind its beginning.
    let long = changed(&[blocks[2] + 10]);
    assert_eq!(long[0], (blocks[2], "a block is not complete"));
    assert_eq!(damages(b""), [(0, "is no recording of this version")]);
    let noise = [&whole[..], &[7; 4096]].concat();
    assert_eq!(damages(&noise), [(whole.len(), "no block begins here")]);
    let many = [&whole[..blocks[0]], &b"RBLK".repeat(1000)].concat();
    assert_eq!(damages(&many).len(), MOST_DAMAGES);
}

/// The program was killed, or the file is copied while the program runs.
#[tokio::test(start_paused = true)]
async fn a_last_block_that_is_cut_off_is_left_out() {
    let whole = recorded("cut").await;
    let read = |bytes: &[u8]| Recording::read(&[bytes], &[]);
    let all = read(&whole).unwrap();
    assert_eq!((all.entries.len(), all.unfinished), (600, None));
    let last = whole.windows(4).rposition(|at| at == b"RBLK").unwrap();
    for length in last + 1..whole.len() {
        let cut = read(&whole[..length]).unwrap();
        assert_eq!(cut.entries[..], all.entries[..512]);
        let unfinished = cut.unfinished.unwrap();
        assert_eq!((unfinished.file, unfinished.offset), (0, last));
    }
    assert_eq!(read(&whole[..last]).unwrap().unfinished, None);
}

/// Only the newest file is being written.
#[tokio::test(start_paused = true)]
async fn an_older_file_that_is_cut_off_is_damaged() {
    let scratch = Scratch::new("older");
    let options = Options::new().most_bytes(1);
    let recorder = Recorder::create(scratch.file("a"), options).unwrap();
    calls(&recorder, 2000).await;
    assert_eq!(recorder.finish().lost, 0);
    let file = |name| std::fs::read(scratch.file(name)).unwrap();
    let (newest, older) = (file("a"), file("a.1"));
    let cut = |bytes: &[u8]| bytes[..bytes.len() - 1].to_vec();
    let damages = Recording::read(&[&newest, &cut(&older)], &[]).unwrap_err();
    assert_eq!(
        (damages[0].file, damages[0].what),
        (1, "a block is not complete")
    );
    let read = Recording::read(&[&cut(&newest), &older], &[]).unwrap();
    assert_eq!(read.unfinished.unwrap().file, 0);
}

#[tokio::test(start_paused = true)]
async fn files_of_two_recordings_are_not_one() {
    let files = [recorded("one").await, recorded("two").await];
    let damages = Recording::read(&files, &[]).unwrap_err();
    assert!(damages.iter().any(|damage| damage.file == 1
        && damage.offset == 20
        && damage.what == "belongs to another recording"));
    let twice = Recording::read(&[&files[0], &files[0]], &[]).unwrap_err();
    assert_eq!(
        twice[0].what,
        "has the same number as another file of the recording"
    );
}

proptest! {
    #[test]
    fn an_entry_is_read_as_it_was_written(
        at in 0..1_u64 << 40, call: u32, number in 0..4096_u16, took in 0..200_000_000_000_u64,
        delay in proptest::option::of(0..200_000_000_000_u64), code in proptest::option::of(-8_388_607..8_388_607),
        reason: u8, route in 0..16384_u16, flags: [bool; 5], limit in proptest::option::of(0..200_000_000_000_u64),
    ) {
        let mut entry = Entry::new(What::Attempt, call, at);
        (entry.number, entry.took) = (number, Duration::from_nanos(took));
        entry.delay = delay.map(Duration::from_nanos);
        entry.timeout = limit.map(Duration::from_nanos);
        (entry.code, entry.reason, entry.route) = (code, reason, route);
        [entry.safe, entry.idempotent, entry.enforced, entry.unreadable, entry.cut_off] = flags;
        entry.stage = Some(Stage::InFlight);
        entry.pushback = entry.delay.map(ServerPushback::After);
        prop_assert_eq!(Entry::decode(&entry.encode()), Some(entry));
    }

    #[test]
    fn a_pushback_without_a_retry_is_read_as_it_was(seconds in 0..200_000_u64, fatal: bool) {
        let asked = Duration::from_secs(seconds);
        for pushback in [ServerPushback::Stop, ServerPushback::too_long(asked), ServerPushback::After(asked)] {
            let mut entry = Entry::new(What::Attempt, 1, 0);
            entry.stopped = Some(if fatal { StopReason::Fatal } else { StopReason::Pushback });
            entry.pushback = Some(pushback);
            prop_assert_eq!(Entry::decode(&entry.encode()), Some(entry));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: [u8; LENGTH], more in proptest::collection::vec(any::<u8>(), 0..2000)) {
        if let Some(entry) = Entry::decode(&bytes) {
            prop_assert!(entry.number < 4096 && entry.route < 16384);
        }
        let mut file = b"RATTREC1".to_vec();
        file.extend(more);
        prop_assert!(Recording::read(&[file], &[]).is_err());
    }
}
