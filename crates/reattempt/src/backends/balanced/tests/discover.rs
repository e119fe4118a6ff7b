//! The list follows a service discovery.

use tower::discover::Change::{self, Insert, Remove};

use super::*;

type Found = Result<Change<u32, Replica>, &'static str>;

#[tokio::test]
async fn a_discovery_adds_and_removes_until_its_first_error() {
    let none: [(&str, Replica); 0] = [];
    let backends = Backends::new(none, policy(), verdict as Classifier);
    let replica = |number| Replica(number, Arc::default());
    let found: [Found; 5] = [
        Ok(Insert(7, replica(7))),
        Ok(Insert(8, replica(8))),
        Ok(Remove(7)),
        Err("the registry is gone"),
        Ok(Remove(8)),
    ];
    let followed = backends.follow(tokio_stream::iter(found)).await;
    assert_eq!(followed, Err("the registry is gone"));
    let status = backends.status();
    let names: Vec<_> = status.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["8"]);
    assert_eq!(
        backends.follow(tokio_stream::empty::<Found>()).await,
        Ok(())
    );
}
