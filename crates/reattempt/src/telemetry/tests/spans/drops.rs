//! What happens at the drop of an attempt.

use super::*;

#[test]
fn what_is_logged_at_the_drop_is_inside_of_the_attempts_span() {
    struct Telling;

    impl Drop for Telling {
        fn drop(&mut self) {
            tracing::info!(target: "reattempt::call", "dropped");
        }
    }

    let (spans, _guard) = hears::<Spans>();
    let (_, metrics) = metrics();
    let mut service = ServiceBuilder::new()
        .layer(metrics.attempts(Puts, verdict as Verdicts))
        .service_fn(|_: Call<()>| {
            let telling = Telling;
            async {
                drop(telling);
                std::future::pending::<Result<Answer, Fault>>().await
            }
        });
    drop(service.call(Call::new(())));
    let spans = spans.0.lock().unwrap();
    assert!(spans[0].0.contains("INFO "), "{spans:?}");
}
