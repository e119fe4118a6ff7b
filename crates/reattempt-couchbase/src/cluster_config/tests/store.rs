use std::sync::Arc;

use crate::cluster_config::*;
use crate::testing::{bucket, config};

/// C50
#[test]
fn only_what_is_strictly_newer_by_epoch_then_rev_gets_in() {
    let store = ConfigStore::new();
    assert!(store.load().is_none());
    let offers = [
        ((0, 5), Swapped::Newer),
        ((0, 5), Swapped::NotNewer),
        ((0, 4), Swapped::NotNewer),
        ((0, 6), Swapped::Newer),
        ((2, 1), Swapped::Newer),
        ((1, 900), Swapped::NotNewer),
        ((-1, 900), Swapped::NotNewer),
        ((2, 2), Swapped::Newer),
    ];
    for ((epoch, rev), swapped) in offers {
        let offer = config(epoch, rev, 1, 0);
        assert_eq!(store.compare_and_swap(offer), swapped, "{epoch}:{rev}");
    }
    assert_eq!(store.revision(), Some(Revision::new(2, 2)));
}

/// C50
#[test]
fn a_missing_epoch_is_zero() {
    let json = bucket(0, 7, 1, 0).replace("\"revEpoch\": 0, ", "");
    let config = ClusterConfig::parse(json.as_bytes(), "").unwrap();
    assert_eq!(config.revision(), Revision::new(0, 7));
}

#[test]
fn a_buckets_configuration_gives_way_to_no_other_buckets() {
    let of = |json: &str| ClusterConfig::parse(json.as_bytes(), "h").unwrap();
    let cluster = |rev| {
        of(&format!(
            r#"{{"rev": {rev}, "nodesExt": [{{"services": {{}}}}]}}"#
        ))
    };
    let store = ConfigStore::new();
    assert_eq!(store.compare_and_swap(cluster(5)), Swapped::Newer);
    let older = config(0, 4, 1, 0);
    assert_eq!(store.compare_and_swap(older), Swapped::NotNewer);
    let of_bucket = config(0, 5, 1, 0);
    assert_eq!(store.compare_and_swap(of_bucket), Swapped::Newer);
    assert_eq!(store.compare_and_swap(cluster(6)), Swapped::OtherBucket);
    let other = of(&bucket(0, 6, 1, 0).replace("\"name\": \"b\"", "\"name\": \"c\""));
    assert_eq!(store.compare_and_swap(other), Swapped::OtherBucket);
}

/// C50: with concurrent offers the newest is current in the end, and no reader sees an older one.
#[test]
fn no_update_is_lost_between_threads() {
    let store = ConfigStore::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                let mut seen = Revision::default();
                for rev in 0..50 {
                    store.compare_and_swap(Arc::new(config(1, rev * 4 + thread, 1, 0)));
                    let now = store.revision().unwrap();
                    assert!(now >= seen);
                    seen = now;
                }
            });
        }
    });
    assert_eq!(store.revision(), Some(Revision::new(1, 199)));
}

#[tokio::test]
async fn watchers_see_a_change_and_nothing_else() {
    let store = ConfigStore::new();
    let mut watch = store.watch();
    store.compare_and_swap(config(0, 2, 1, 0));
    watch.changed().await.unwrap();
    let seen = watch.borrow_and_update().as_ref().unwrap().revision();
    assert_eq!(seen, Revision::new(0, 2));
    store.compare_and_swap(config(0, 1, 1, 0));
    assert!(!watch.has_changed().unwrap());
}
