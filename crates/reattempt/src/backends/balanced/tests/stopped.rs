//! What attempts say that are dropped because their call ended as fatal.

use super::*;
use crate::StopReason;
use crate::failure::reason::UNKNOWN;

/// A message of the request is too long, for example: its backend was silent, and did not fail.
#[tokio::test(start_paused = true)]
async fn a_call_that_a_layer_ends_as_fatal_blames_no_backend() {
    for stopped in [None, Some(StopReason::Fatal)] {
        let (balanced, servers) = three();
        for server in &servers {
            server.hangs.store(true, Ordering::Relaxed);
        }
        let service = retrying().layer(balanced.clone());
        for _ in 0..15 {
            let mut request = Call::new(());
            let handle = request.context_mut().begin();
            let mut call = Box::pin(service.clone().oneshot(request));
            let ended = tokio::time::timeout(Duration::from_secs(10), &mut call).await;
            assert!(ended.is_err(), "it hangs");
            if let Some(stopped) = stopped {
                handle.stop(stopped);
            }
            drop(call);
        }
        assert_eq!(ejected(&balanced).is_empty(), stopped.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_backend_fails_also_if_a_hedges_answer_is_fatal() {
    fn fatal(outcome: Result<&usize, &&'static str>, _: &CallContext) -> Verdict {
        match outcome {
            Ok(_) => Verdict::Success,
            Err(_) => Verdict::Fatal(Failure::new(UNKNOWN, Stage::Response)),
        }
    }
    let servers = <[Arc<Server>; 3]>::default();
    let replicas = servers.iter().cloned().enumerate();
    let named = replicas.map(|(at, server)| (at.to_string(), Replica(at, server)));
    let balanced = Backends::new(named, policy(), fatal as Classifier);
    servers[0].fails.store(true, Ordering::Relaxed);
    servers[1].hangs.store(true, Ordering::Relaxed);
    servers[2].fails.store(true, Ordering::Relaxed);
    let policy = HedgePolicy::new(3, Duration::from_millis(50));
    let service = HedgeLayer::new(fatal as Classifier, policy).layer(balanced.clone());
    for _ in 0..600 {
        assert!(send(&service).await.0.is_err());
        tokio::time::sleep(Duration::from_millis(50)).await;
        if !ejected(&balanced).is_empty() {
            break;
        }
    }
    assert_eq!(ejected(&balanced), ["1"]);
}
