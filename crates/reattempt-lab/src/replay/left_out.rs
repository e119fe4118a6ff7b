//! What a replay does not keep apart in a recording of very many routes or failures.

use reattempt::config::Fault;
use reattempt::record::What;

use super::Replay;
use super::answers::{Answers, MOST_ANSWERS};
use super::judge::Judge;
use super::kinds::{Kinds, MOST_KINDS};
use crate::policy::PolicyText;

impl Replay {
    /// What the run of this policy does not keep apart.
    pub(super) fn left_out(&self, policy: &PolicyText) -> Vec<Fault> {
        let (recording, traffic) = (&self.recording, &self.traffic);
        let recorded = self.own_policy().and_then(Result::ok);
        let judge = Judge::new(recorded.as_ref(), policy, &recording.routes);
        let mut kinds = Kinds::default();
        let mut answers = Answers::new(Vec::new(), Kinds::count(traffic));
        for call in &traffic.calls {
            kinds.of(call, &recording.routes[usize::from(call.route)]);
            let entries = traffic.entries(recording, call);
            for timed in entries.filter(|timed| timed.entry.what == What::Attempt) {
                answers.came(&timed.entry, &recording.reasons, &judge);
            }
        }
        let (others, rounded, lost) = (kinds.others, answers.rounded, answers.lost);
        let warnings = [
            (
                others,
                format!(
                    "the recording has more than {MOST_KINDS} kinds of call: {others} of its calls run as those of another route"
                ),
            ),
            (
                rounded,
                format!(
                    "the recording has very many delays that servers asked for: those of {rounded} attempts are rounded to two digits"
                ),
            ),
            (
                lost,
                format!(
                    "the recording has more than {MOST_ANSWERS} different failures: {lost} of its failed attempts are replayed as timeouts"
                ),
            ),
        ];
        let warnings = warnings.into_iter().filter(|(count, _)| *count > 0);
        warnings.map(|(_, what)| Fault::new("$", what)).collect()
    }
}
