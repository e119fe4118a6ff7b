//! A call of which several attempts may be in flight.

use super::{Effects, HedgeDriver, Refused};
use crate::machine::{FailedAttempt, HedgeAction, Withdrawn};
use crate::{HedgePolicy, StopReason};

impl Effects<'_> {
    /// One of several attempts failed: what follows. After [`HedgeAction::Return`] the others are
    /// dropped first, so that the end is the last event of the call.
    pub(crate) fn one_failed(
        &self,
        driver: &mut HedgeDriver,
        failed: &mut FailedAttempt,
        policy: &HedgePolicy,
    ) -> HedgeAction {
        let action = driver.failed(failed, policy, self.throttle());
        self.record(&mut failed.record);
        if action == HedgeAction::Expire {
            self.ended(StopReason::Deadline);
        }
        action
    }

    /// A planned hedge was refused. No attempt was made, so no record shows it.
    pub(crate) fn hedge_refused(&self, stopped: StopReason) {
        if let Some(state) = self.context.shared() {
            state.refused(stopped);
        }
        if let Some(observer) = self.observer {
            observer.hedge_refused(self.context, stopped);
        }
    }

    /// The same, and perhaps that ended the call.
    pub(crate) fn refused(&self, refused: Refused) {
        self.hedge_refused(refused.stopped);
        if let Withdrawn::Over {
            attempt, stopped, ..
        } = refused.then
        {
            self.amend(attempt, |record| {
                record.stopped = Some(stopped);
                // No attempt follows it, and no deadline is waited for.
                if stopped == StopReason::Throttled {
                    record.delay = None;
                }
            });
            self.ended(stopped);
        }
    }
}
