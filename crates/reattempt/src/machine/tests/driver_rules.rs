//! What the machines return to a driver step by step, where a whole simulated call would not show a
//! difference.

use std::sync::Arc;
use std::time::Instant;

use super::model::{attempts, bucket, hedges};
use super::script::ms;
use super::simulator::start;
use crate::driver::{Effects, HedgeDriver, RetryDriver};
use crate::failure::reason::{
    CIRCUIT_BREAKER_OPEN, KV_NOT_MY_VBUCKET, KV_TEMPORARY_FAILURE, UNKNOWN,
};
use crate::machine::{
    Action, Due, Facts, FailedAttempt, HedgeAction, Keep, Planned, Resume, Withdrawn,
};
use crate::policy::strategy::NeverRetry;
use crate::policy::throttle::{Governor, Settled};
use crate::{
    AttemptKind, AttemptOutcome, AttemptReport, CallContext, CallDeadline, Failure, HedgePolicy,
    Idempotency, RetryStrategy, RetryThrottle, ServerPushback, Stage, StopReason, Transparent,
    Verdict,
};

fn none() -> AttemptReport {
    AttemptReport::default()
}

fn effects(context: &CallContext) -> Effects<'_> {
    Effects {
        context,
        transparent: true,
        observer: None,
    }
}

/// The facts of the context's attempt, which ends at `now` with this report.
fn facts(env: &Effects<'_>, now: Instant, report: AttemptReport) -> Facts {
    Facts {
        report,
        ..env.facts(now)
    }
}

/// An attempt of a retried call fails.
fn fails(
    driver: &mut RetryDriver,
    report: AttemptReport,
    verdict: &Verdict,
    strategy: &dyn RetryStrategy,
    env: &Effects<'_>,
) -> Action {
    let mut failed = FailedAttempt::new(&facts(env, start(), report), verdict).unwrap();
    env.failed(driver, &mut failed, strategy)
}

/// An attempt of a hedged call fails at this time.
fn one_fails(
    driver: &mut HedgeDriver,
    now: Instant,
    report: AttemptReport,
    verdict: &Verdict,
    policy: &HedgePolicy,
    env: &Effects<'_>,
) -> HedgeAction {
    let mut failed = FailedAttempt::new(&facts(env, now, report), verdict).unwrap();
    env.one_failed(driver, &mut failed, policy)
}

fn hedging(policy: &HedgePolicy) -> HedgeDriver {
    HedgeDriver::new(policy, Idempotency::Idempotent)
}

fn failure() -> Failure {
    Failure::new(UNKNOWN, Stage::Response)
}

/// An idempotent call whose first attempt is in flight.
fn first_attempt() -> CallContext {
    let mut context = CallContext::default();
    context.set_idempotency(Idempotency::Idempotent);
    context.claim_first();
    context
}

/// Outcome and stop reason in the record of the newest attempt.
fn recorded(context: &CallContext) -> (AttemptOutcome, Option<StopReason>) {
    let info = context.info();
    let record = info.records().last().expect("a record");
    (record.outcome, record.stopped)
}

/// R13: the last of several attempts moves the request too.
#[test]
fn nothing_follows_the_last_of_several_attempts() {
    let unseen = failure().transparent(Transparent::Unlimited);
    for (most, failure, is_last) in [
        (2, failure(), true),
        (3, failure(), false),
        (2, unseen, false),
        (1, unseen, true),
    ] {
        let (context, mut driver) = (first_attempt(), RetryDriver::default());
        let (verdict, strategy) = (Verdict::Retry(failure), attempts(most));
        let env = effects(&context);
        let action = fails(&mut driver, none(), &verdict, &strategy, &env);
        assert!(matches!(action, Action::Wait(_)));
        assert_eq!(driver.machine.is_last(), is_last, "{most}");
    }
}

/// R26: an open circuit is not counted, and a retry after it asks the throttle as any other.
#[test]
fn a_retry_after_an_open_circuit_asks_the_throttle() {
    let open = Failure::new(CIRCUIT_BREAKER_OPEN, Stage::Dispatch);
    let report = AttemptReport {
        circuit_open: true,
        ..none()
    };
    for (spent, stopped) in [(4, None), (5, Some(StopReason::Throttled))] {
        let bucket = bucket(10, spent);
        let mut context = first_attempt();
        context.set_throttle(bucket.clone());
        let (env, mut driver) = (effects(&context), RetryDriver::default());
        let verdict = Verdict::Retry(open);
        fails(&mut driver, report, &verdict, &attempts(3), &env);
        assert_eq!(recorded(&context), (AttemptOutcome::Retry, stopped));
        assert_eq!(
            bucket.milli_tokens(),
            Some(10_000 - u64::from(spent) * 1000)
        );
    }
}

/// R43 R44: the hedging delay does not replace what its failure requested.
#[test]
fn a_first_attempt_that_fails_at_once_ignores_the_hedging_delay() {
    let policy = hedges(3, 200);
    let context = first_attempt();
    let env = effects(&context);
    let late = Some(ServerPushback::After(ms(400)));
    for (reason, found, unseen, next) in [
        (UNKNOWN, late, Transparent::No, Some(400)),
        (KV_NOT_MY_VBUCKET, late, Transparent::No, Some(400)),
        (UNKNOWN, Some(ServerPushback::Stop), Transparent::No, None),
        (UNKNOWN, None, Transparent::Once, Some(0)),
    ] {
        let mut machine = hedging(&policy);
        let failure = Failure::new(reason, Stage::Response);
        let verdict = Verdict::Retry(failure.transparent(unseen));
        let found = AttemptReport {
            pushback: found,
            ..none()
        };
        one_fails(&mut machine, start(), found, &verdict, &policy, &env);
        let wake = machine.machine.wake();
        machine.machine.pending(start(), &policy);
        assert_eq!(wake, next.map(|after| start() + ms(after)));
        assert_eq!(machine.machine.wake(), wake);
        if unseen == Transparent::Once {
            let due = machine.machine.due(start(), &policy);
            let after = *verdict.failure().unwrap();
            assert_eq!(due, Due::Plan(Planned::Transparent(after)));
            assert_eq!(machine.machine.wake(), Some(start() + ms(200)));
        }
    }
}

/// R47: a call whose service fails before any hedge is ready continues with the other attempts.
#[test]
fn a_service_that_broke_uses_up_one_hedge_and_no_more() {
    let policy = hedges(3, 200);
    let (context, mut machine) = (first_attempt(), hedging(&policy));
    let env = effects(&context);
    machine.machine.pending(start(), &policy);
    let first = start() + ms(200);
    let due = machine.machine.due(first, &policy);
    assert_eq!(due, Due::Plan(Planned::Hedge));
    let refused = machine.withdrawn(StopReason::Fatal, None);
    env.refused(refused);
    assert_eq!(refused.then, Withdrawn::OthersGoOn);
    assert_eq!(machine.machine.wake(), Some(start() + ms(400)));
    let busy = Verdict::Retry(failure());
    let action = one_fails(&mut machine, first, none(), &busy, &policy, &env);
    assert_eq!(action, HedgeAction::Go);
    let due = machine.machine.due(first, &policy);
    assert_eq!(due, Due::Plan(Planned::HedgeAfter(failure())));
    let refused = machine.withdrawn(StopReason::Fatal, None);
    env.refused(refused);
    let over = Withdrawn::Over {
        attempt: 1,
        stopped: StopReason::Fatal,
        expire: false,
    };
    assert_eq!(refused.then, over);
    assert_eq!(context.info().stopped(), Some(StopReason::Fatal));
    assert_eq!(
        recorded(&context),
        (AttemptOutcome::Retry, Some(StopReason::Fatal))
    );
}

/// As a retry does: a lone failure is followed by one attempt at any level.
#[test]
fn a_hedge_is_asked_for_with_the_failure_that_caused_it() {
    let policy = hedges(2, 200);
    let busy = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);
    let governor = Governor::new(20, 700).unwrap();
    (0..5).for_each(|_| governor.settled(Settled::Failure(&busy)));
    let follows = || {
        let mut driver = hedging(&policy);
        let facts = Facts::new(start(), 1, AttemptKind::Initial);
        let mut failed = FailedAttempt::new(&facts, &Verdict::Retry(busy)).unwrap();
        driver.failed(&mut failed, &policy, Some(&governor));
        let Due::Plan(hedge) = driver.machine.due(start(), &policy) else {
            panic!("a hedge follows")
        };
        driver.permit(start(), hedge, None, Some(&governor)).is_ok()
    };
    assert!(follows());
    assert!(!follows(), "the second failure is not alone");
}

/// R21 R51: it is pending, so it has no failure.
#[test]
fn a_silent_attempt_that_is_cut_off_is_a_cancelled_loser() {
    let policy = hedges(2, 200);
    let (context, mut machine) = (first_attempt(), hedging(&policy));
    machine.machine.pending(start(), &policy);
    let hedge = start() + ms(200);
    let Due::Plan(planned) = machine.machine.due(hedge, &policy) else {
        panic!("a hedge is due")
    };
    let sent = machine.permit(hedge, planned, None, None);
    assert_eq!(sent, Ok(2));
    let mut second = context.clone();
    second.start_attempt(2, AttemptKind::Hedge);
    let env = effects(&second);
    let mut failed = FailedAttempt::of_cut_off(facts(&env, hedge, none()));
    let action = env.one_failed(&mut machine, &mut failed, &policy);
    assert_eq!(action, HedgeAction::Go);
    assert_eq!(
        recorded(&context),
        (AttemptOutcome::Cancelled, Some(StopReason::NotReplayable))
    );
}

/// A failure is kept only while it might still be returned.
#[test]
fn a_response_is_kept_if_no_layer_enforces_the_deadline() {
    let within = |deadline: Option<CallDeadline>| {
        let (mut context, mut machine) = (first_attempt(), RetryDriver::default());
        if let Some(deadline) = deadline {
            context.attach_deadline(deadline);
        }
        let env = effects(&context);
        let verdict = Verdict::Retry(failure());
        match fails(&mut machine, none(), &verdict, &attempts(3), &env) {
            Action::Wait(wait) => wait.keep,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(within(None), Keep::Error);
    let at = start() + ms(1000);
    assert_eq!(within(Some(CallDeadline::enforced(at))), Keep::Error);
    assert_eq!(within(Some(CallDeadline::attached(at))), Keep::New);
}

/// Events between a decision and its planned attempt change the record of the failure.
#[test]
fn events_before_the_next_attempt_change_the_failures_record() {
    for stopped in [StopReason::NotReplayable, StopReason::Fatal] {
        let (context, mut machine) = (first_attempt(), RetryDriver::default());
        let env = effects(&context);
        let verdict = Verdict::Retry(failure());
        fails(&mut machine, none(), &verdict, &attempts(3), &env);
        env.unsent(&mut machine, stopped);
        assert_eq!(recorded(&context), (AttemptOutcome::Retry, Some(stopped)));
        assert_eq!(context.info().stopped(), Some(stopped));
    }
}

/// R15: the reason of a drop is recorded, also while the strategy's decision is pending.
#[test]
fn a_dropped_call_is_recorded() {
    #[derive(Debug)]
    struct Asks;
    impl crate::RetryStrategy for Asks {
        fn decide(&self, _: &crate::RetryView<'_>) -> crate::Decision {
            crate::Decision::Defer(Box::pin(std::future::pending()))
        }
    }
    let (context, mut machine) = (first_attempt(), RetryDriver::default());
    let env = effects(&context);
    let busy = Verdict::Retry(failure());
    let action = fails(&mut machine, none(), &busy, &Asks, &env);
    let Action::Ask(mut asked) = action else {
        panic!("the strategy decides later");
    };
    assert_eq!(context.info().records().len(), 0, "the decision is pending");
    asked.failed.stop(StopReason::Cancelled);
    env.settled(&mut asked.failed.record);
    assert_eq!(
        recorded(&context),
        (AttemptOutcome::Retry, Some(StopReason::Cancelled))
    );
    assert_eq!(context.info().stopped(), Some(StopReason::Cancelled));
}

/// R14 R15
#[test]
fn a_drop_counts_as_the_deadlines_only_from_its_instant_on() {
    let why = |deadline: Option<CallDeadline>, at| {
        let mut context = first_attempt();
        deadline.into_iter().for_each(|deadline| {
            context.attach_deadline(deadline);
        });
        effects(&context).why_dropped(start() + ms(at))
    };
    let at = start() + ms(10);
    let (enforced, attached) = (CallDeadline::enforced(at), CallDeadline::attached(at));
    assert_eq!(why(None, 10), StopReason::Cancelled);
    assert_eq!(why(Some(enforced), 9), StopReason::Cancelled);
    assert_eq!(why(Some(enforced), 10), StopReason::Deadline);
    assert_eq!(why(Some(attached), 10), StopReason::Cancelled);
}

/// R41: losers leave a record, and so does the winner then.
#[test]
fn the_winner_of_several_is_recorded_beside_the_losers() {
    let (mut context, first) = (first_attempt(), first_attempt());
    effects(&first).succeeded(true);
    assert_eq!(
        first.info().records().len(),
        0,
        "a single attempt leaves none"
    );
    assert_eq!(first.info().stopped(), Some(StopReason::Committed));

    let loser = context.clone();
    context.start_attempt(2, AttemptKind::Hedge);
    effects(&loser).cancelled(None);
    assert_eq!(recorded(&context), (AttemptOutcome::Cancelled, None));
    effects(&context).succeeded(false);
    assert_eq!(
        recorded(&context),
        (AttemptOutcome::Success, Some(StopReason::Success))
    );
    assert_eq!(context.info().stopped(), Some(StopReason::Success));
}

/// R23: a call that no layer acted on is counted by the same rules.
#[test]
fn a_call_without_a_recovery_layer_is_counted_too() {
    let stop = AttemptReport {
        pushback: Some(ServerPushback::Stop),
        ..none()
    };
    for (verdict, found, tokens, stopped) in [
        (Verdict::Success, none(), 9100, StopReason::Success),
        (Verdict::Committed, none(), 9000, StopReason::Committed),
        (
            Verdict::Retry(failure()),
            none(),
            8000,
            StopReason::Strategy,
        ),
        (Verdict::Fatal(failure()), none(), 9000, StopReason::Fatal),
        (Verdict::Fatal(failure()), stop, 8000, StopReason::Fatal),
    ] {
        let tokens_left = bucket(10, 1);
        let mut context = CallContext::default();
        context.set_throttle(Arc::clone(&tokens_left) as Arc<dyn RetryThrottle>);
        context.pass_first();
        if found == stop {
            context.reporter().pushback(ServerPushback::Stop);
        }
        effects(&context).passed(start(), &verdict);
        assert_eq!(tokens_left.milli_tokens(), Some(tokens), "{verdict:?}");
        let info = context.info();
        assert_eq!((info.attempts(), info.stopped()), (1, Some(stopped)));
        assert!(info.records().all(|record| record.number == 1));
        assert!(context.is_taken_up(), "counted once");
    }
}

/// R14: at the instant of the deadline no further attempt is sent.
#[test]
fn a_wait_that_ends_with_the_deadline_sends_nothing() {
    for (deadline, resume) in [
        (CallDeadline::enforced as fn(_) -> _, Resume::Expire),
        (CallDeadline::attached, Resume::Return),
    ] {
        let (mut context, mut machine) = (first_attempt(), RetryDriver::default());
        context.attach_deadline(deadline(start() + ms(50)));
        let env = effects(&context);
        let verdict = Verdict::Retry(failure());
        fails(&mut machine, none(), &verdict, &attempts(3), &env);
        let deadline = context.deadline();
        assert_eq!(Resume::at(start() + ms(49), deadline), Resume::Send);
        assert_eq!(Resume::at(start() + ms(50), deadline), resume);
        env.unsent(&mut machine, StopReason::Deadline);
        assert_eq!(recorded(&context).1, Some(StopReason::Deadline));
    }
}

/// C29: failures without a code are grouped by their reason.
#[test]
fn a_streak_without_codes_is_of_one_reason() {
    #[derive(Debug)]
    struct Third;
    impl crate::RetryStrategy for Third {
        fn decide(&self, view: &crate::RetryView<'_>) -> crate::Decision {
            if view.streak == 3 {
                crate::Decision::Stop
            } else {
                crate::Decision::After(ms(1))
            }
        }
    }
    let third_in_a_row = |failures: [Failure; 3]| {
        let (context, mut machine) = (first_attempt(), RetryDriver::default());
        let env = effects(&context);
        let last = failures
            .map(|failure| fails(&mut machine, none(), &Verdict::Retry(failure), &Third, &env));
        matches!(last[2], Action::Return(_))
    };
    let one = failure();
    let other = Failure::new(KV_TEMPORARY_FAILURE, Stage::Response);
    assert!(third_in_a_row([one, one, one]));
    assert!(!third_in_a_row([one, other, one]));
    assert!(third_in_a_row([one.code(1), other.code(1), one.code(1)]));
    assert!(!third_in_a_row([one.code(1), one, one.code(1)]));
}

/// R62: if the strategy refuses, only a transparent retry follows.
#[test]
fn transparent_retries_do_not_ask_the_strategy() {
    let (context, mut machine) = (first_attempt(), RetryDriver::default());
    let env = effects(&context);
    let unseen = Verdict::Retry(failure().transparent(Transparent::Once));
    let mut again = || fails(&mut machine, none(), &unseen, &NeverRetry, &env);
    assert!(matches!(again(), Action::Wait(wait) if wait.kind == AttemptKind::Transparent));
    assert!(matches!(again(), Action::Return(_)));
}

/// R62: the record of a final failure says that it was sent again.
#[test]
fn a_final_failure_that_goes_out_again_is_no_fatal_one() {
    let (context, mut driver) = (first_attempt(), RetryDriver::default());
    let env = effects(&context);
    let unseen = Verdict::Fatal(failure().transparent(Transparent::Once));
    for outcome in [
        (AttemptOutcome::Retry, None),
        (AttemptOutcome::Fatal, Some(StopReason::Fatal)),
    ] {
        fails(&mut driver, none(), &unseen, &NeverRetry, &env);
        assert_eq!(recorded(&context), outcome);
    }
}

/// A newer configuration only affects the retry of the failure that requested it, once, and only if
/// no server pushback set its time.
#[test]
fn a_configuration_only_nudges_the_retry_that_requested_it() {
    let policy = hedges(1, 200);
    let coming = AttemptReport {
        config_coming: true,
        ..none()
    };
    let by_the_server = AttemptReport {
        pushback: Some(ServerPushback::After(ms(1))),
        ..coming
    };
    let verdict = Verdict::Retry(Failure::new(KV_NOT_MY_VBUCKET, Stage::Response));
    let waits = Some(start() + ms(1));
    for (found, may_nudge) in [(coming, true), (none(), false), (by_the_server, false)] {
        let (context, mut machine) = (first_attempt(), hedging(&policy));
        let env = effects(&context);
        one_fails(&mut machine, start(), found, &verdict, &policy, &env);
        assert_eq!(
            (machine.machine.wake(), machine.machine.may_nudge(1)),
            (waits, may_nudge)
        );
        assert!(!machine.machine.may_nudge(2));
        let mut other = context.clone();
        other.start_attempt(2, AttemptKind::Hedge);
        assert!(!machine.machine.nudged(start(), other.attempt()));
        assert_eq!(
            machine.machine.wake(),
            waits,
            "the waiter of another attempt"
        );
        assert_eq!(machine.machine.nudged(start(), 1), may_nudge);
        let brought = if may_nudge { Some(start()) } else { waits };
        assert_eq!(
            (machine.machine.wake(), machine.machine.may_nudge(1)),
            (brought, false)
        );
    }
}

/// Without this limit a faulty cluster receives requests without delay.
#[test]
fn a_hedged_call_is_nudged_at_most_sixteen_times() {
    let policy = hedges(1, 200);
    let coming = AttemptReport {
        config_coming: true,
        ..none()
    };
    let verdict = Verdict::Retry(Failure::new(KV_NOT_MY_VBUCKET, Stage::Response));
    let (mut context, mut machine) = (first_attempt(), hedging(&policy));
    let mut nudged = 0;
    for number in 1..=20 {
        let env = effects(&context);
        one_fails(&mut machine, start(), coming, &verdict, &policy, &env);
        nudged += u32::from(machine.machine.may_nudge(number));
        let at = machine.machine.wake().expect("a retry is planned");
        let Due::Plan(planned) = machine.machine.due(at, &policy) else {
            panic!("a retry is due")
        };
        let permit = machine.permit(at, planned, None, None);
        assert_eq!(permit, Ok(number + 1));
        context.start_attempt(number + 1, AttemptKind::Retry);
    }
    assert_eq!(nudged, 16);
}

/// R1: before the last attempt the request is moved, and not copied again.
#[test]
fn the_last_attempt_is_known_once_it_is_waited_for() {
    let busy = Verdict::Retry(Failure::new(UNKNOWN, Stage::Response));
    let facts = Facts::new(start(), 1, AttemptKind::Initial);
    for (most, is_last) in [(2, true), (3, false)] {
        let mut driver = RetryDriver::default();
        let mut failed = FailedAttempt::new(&facts, &busy).unwrap();
        let action = driver.failed(&mut failed, &attempts(most), None, &());
        assert!(matches!(action, Action::Wait(_)));
        assert_eq!(driver.machine.is_last(), is_last);
        assert!(!driver.machine.holds(), "it holds no failure back");
    }
}
