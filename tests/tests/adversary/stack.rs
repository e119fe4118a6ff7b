//! The real layers, in the scenario's order.

use std::sync::Arc;

use reattempt::ConfigWaiter;
use reattempt::config_poll::{ConfigPollLayer, StaleConfig};
use reattempt::reason::UNKNOWN;
use reattempt::test_util::ms;
use reattempt::{
    CallContext, Classify, DeadlineLayer, Failure, HedgeLayer, RetryLayer, RouteLayer,
    ServerPushback, Stage, ThrottleLayer, Verdict,
};
use reattempt::{FoundPushback, PushbackLayer, ReadPushback};
use tower::Layer;

use crate::carrier::{Carrier, Stack};
use crate::fate::Word;
use crate::log::Event;
use crate::observer::Watcher;
use crate::policies::Router;
use crate::reply::{Fault, Reply, config_waiter};
use crate::scenario::Kind;
use crate::server::Server;
use crate::throttle::Witness;
use crate::world::World;

/// Returns the scenario's verdict and logs the call.
#[derive(Clone)]
struct Classifier(Arc<World>);

impl Classify<Reply, Fault> for Classifier {
    fn classify(&self, outcome: Result<&Reply, &Fault>, context: &CallContext) -> Verdict {
        let verdict = match outcome {
            Ok(reply) | Err(Fault::Server(reply)) => reply.fate.verdict,
            // It is not known whether the request was processed.
            Err(Fault::Elapsed(_) | Fault::Body(_, true)) => {
                Verdict::Retry(Failure::new(UNKNOWN, Stage::InFlight))
            }
            Err(Fault::Body(_, false)) => Verdict::Fatal(Failure::new(UNKNOWN, Stage::InFlight)),
            Err(Fault::Broken) => Verdict::Fatal(Failure::new(UNKNOWN, Stage::Dispatch)),
        };
        self.0.note(Event::Classified {
            number: context.attempt(),
            verdict,
        });
        verdict
    }
}

#[derive(Clone, Debug)]
struct Reader;

fn word(outcome: Result<&Reply, &Fault>) -> Option<Word> {
    match outcome {
        Ok(reply) | Err(Fault::Server(reply)) if !reply.fate.reported => reply.fate.word,
        _ => None,
    }
}

impl ReadPushback<Reply, Fault> for Reader {
    fn read(&self, outcome: Result<&Reply, &Fault>, _: &CallContext) -> FoundPushback {
        match word(outcome) {
            Some(Word::After(after)) => FoundPushback::Valid(ServerPushback::After(ms(after))),
            Some(Word::Stop) => FoundPushback::Valid(ServerPushback::Stop),
            Some(Word::Unreadable) => FoundPushback::Unreadable,
            None => FoundPushback::Absent,
        }
    }
}

#[derive(Clone, Debug)]
struct Poller;

impl<R> StaleConfig<R, Reply, Fault> for Poller {
    type Note = ();

    fn note(&self, _: &R) {}

    fn check(&self, (): (), outcome: Result<&Reply, &Fault>) -> Option<ConfigWaiter> {
        let (Ok(reply) | Err(Fault::Server(reply))) = outcome else {
            return None;
        };
        let waiter = reply.fate.waiter.filter(|waiter| !waiter.reported)?;
        Some(config_waiter(&reply.world, waiter))
    }
}

pub(crate) fn stack<R: Carrier>(
    world: &Arc<World>,
    router: &Router,
    throttles: &[Arc<Witness>],
) -> Stack<R>
where
    Router: reattempt::Route<R>,
{
    let bottom = Stack::new(Server::new(world));
    let from_the_inside = world.scenario.order.iter().rev();
    from_the_inside.fold(bottom, |inner, kind| {
        layer(*kind, world, router, throttles, inner)
    })
}

fn layer<R: Carrier>(
    kind: Kind,
    world: &Arc<World>,
    router: &Router,
    throttles: &[Arc<Witness>],
    inner: Stack<R>,
) -> Stack<R>
where
    Router: reattempt::Route<R>,
{
    let scenario = &world.scenario;
    let classifier = Classifier(Arc::clone(world));
    let watcher = || Arc::new(Watcher(Arc::clone(world)));
    match kind {
        Kind::Route => Stack::new(RouteLayer::new(router.clone()).layer(inner)),
        Kind::Deadline(Some(limit)) => Stack::new(DeadlineLayer::new(ms(limit)).layer(inner)),
        Kind::Deadline(None) => Stack::new(DeadlineLayer::no_timeout().layer(inner)),
        Kind::Throttle => Stack::new(ThrottleLayer::new(throttles[0].clone()).layer(inner)),
        Kind::Retry => {
            let strategy = scenario.strategy.make(world);
            let mut layer = RetryLayer::new(classifier, strategy);
            layer = layer.transparent(scenario.transparent[0]);
            if scenario.observed[0] {
                layer = layer.observer(watcher());
            }
            Stack::new(layer.layer(inner))
        }
        Kind::Hedge => {
            let mut layer = match &scenario.hedge {
                Some(hedge) => HedgeLayer::new(classifier, hedge.make()),
                None => HedgeLayer::by_policy(classifier),
            };
            layer = layer.transparent(scenario.transparent[1]);
            if scenario.observed[1] {
                layer = layer.observer(watcher());
            }
            Stack::new(layer.layer(inner))
        }
        Kind::Pushback => Stack::new(PushbackLayer::new(Reader).layer(inner)),
        Kind::ConfigPoll => Stack::new(ConfigPollLayer::new(Poller).layer(inner)),
    }
}
