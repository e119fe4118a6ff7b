//! How far a failed attempt came, and whether it may be retried without being counted: what was
//! reported is weighed against the classifier's verdict.

use super::{AttemptReport, Facts, Failure, Transparent};
use crate::Stage;

/// Corrects the stage, and with it whether the request is safe to send again. `unread`: the attempt
/// never left the client, because its request body was never read.
pub(super) fn weigh(failure: &mut Failure, unread: bool, report: &AttemptReport) {
    let classified = failure.stage;
    failure.stage = stage(classified, unread, report).unwrap_or(classified);
    match (classified, failure.stage) {
        // Nothing left the client, whatever the reason says.
        (_, Stage::Dispatch) => failure.safe = true,
        // It left the client after all, or the response that made it safe is not the server's.
        (Stage::Dispatch, _) | (Stage::Response, Stage::InFlight) => {
            failure.safe = Failure::new(failure.reason, Stage::InFlight).safe;
            if classified == Stage::Dispatch {
                failure.transparent = Transparent::No;
            }
        }
        // As the classifier says.
        (Stage::InFlight, _) | (Stage::Response, Stage::Response) => {}
    }
}

/// The stage that replaces the classifier's, if one does. A server's response is final: what a
/// transport reported before it does not make the request safe to send again.
fn stage(classified: Stage, unread: bool, report: &AttemptReport) -> Option<Stage> {
    if report.own_answer {
        return Some(report.stage.unwrap_or(Stage::InFlight));
    }
    match classified {
        Stage::Response => None,
        _ if unread => Some(Stage::Dispatch),
        _ => report.stage,
    }
}

/// What is known by now of whether the failure may be retried without being counted.
pub(super) fn resolved(classified: Transparent, facts: &Facts) -> Transparent {
    match classified {
        Transparent::IfUnread if facts.unread => Transparent::Unlimited,
        Transparent::IfUnread => Transparent::No,
        Transparent::NextBackend if !facts.report.untried_backend => Transparent::No,
        known => known,
    }
}
