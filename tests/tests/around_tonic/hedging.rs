//! Hedges, and the cancelled attempts as tonic's server sees them.

use super::server::{Server, Step};
use super::stack::client;
use super::*;
use reattempt::AttemptOutcome;

/// R40, R41, R50
#[tokio::test]
async fn the_first_answer_wins_and_the_server_sees_the_rest_cancelled() {
    let server = Server::start([Step::Hang, Step::Hang]).await;
    let mut client = client(&hedging(3, "0.01s"), &server);
    let (request, watch) = watched(item("pie"));
    let answer = within(client.add(request)).await.expect("an answer");
    assert_eq!(answer.get_ref().names, ["pie"]);
    let lost = |seen: &Vec<Seen>| seen.iter().filter(|call| call.cancelled).count() == 2;
    let seen = server.seen_when(lost).await;
    assert_eq!(previous(&seen), [None, Some("1"), Some("2")]);
    let info = watch.info();
    let outcomes = info.records().map(|record| record.outcome);
    assert!(outcomes.eq([
        AttemptOutcome::Cancelled,
        AttemptOutcome::Cancelled,
        AttemptOutcome::Committed
    ]));
}
