//! Conflicts of a call's own idempotency key, for what watches the server's health.

use reattempt::health::HealthPolicy;

use super::*;
use crate::IdempotencyKeyLayer;

/// It answers: another attempt of the call is still being processed.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_in_use_opens_no_circuit() {
    // The second one retries a 409 anyway.
    for preset in [HttpClientLayer::standard(), HttpClientLayer::llm()] {
        let answers = [503, 409, 409].map(Step::Status).repeat(5);
        let client = preset
            .strategy(every_10_ms())
            .no_throttle()
            .idempotency_keys(IdempotencyKeyLayer::new())
            .circuit_breakers(HealthPolicy::standard())
            .layer(transport(&answers));
        for _ in 0..5 {
            let keyed = Request::post("http://shop.example/cart").header("idempotency-key", "a");
            let keyed = keyed.body(Full::<Bytes>::default()).unwrap();
            let (seen, info, _) = send(client.clone(), keyed).await;
            assert_eq!((seen, info.attempts()), (Ok(409), 3));
            let second = info.records().nth(1).and_then(|record| record.failure);
            let reason = second.map(|failure| failure.reason.name());
            assert_eq!(reason, Some("HTTP_KEY_IN_USE"));
        }
    }
}
