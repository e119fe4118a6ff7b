//! The service below the layers: follows the scenario and logs what it sees.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use reattempt::test_util::ms;
use reattempt::{AttemptKind, AttemptReporter, Backend, HasCallContext, ServerPushback};
use reattempt_tests::alive::Live;
use tokio::time::{Instant, Sleep};
use tower_service::Service;

use crate::carrier::Carrier;
use crate::fate::{Fate, Reads, Takes, Word};
use crate::log::Event;
use crate::reply::{Fault, Reply, config_waiter};
use crate::world::World;

#[derive(Debug)]
enum State {
    Idle,
    GettingReady(Option<Pin<Box<Sleep>>>, bool),
    Never,
    Ready(u64),
}

#[derive(Debug)]
pub(crate) struct Server {
    world: Arc<World>,
    state: State,
}

impl Server {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self {
            world: Arc::clone(world),
            state: State::Idle,
        }
    }
}

impl Clone for Server {
    fn clone(&self) -> Self {
        Self::new(&self.world)
    }
}

impl<R: Carrier> Service<R> for Server {
    type Response = Reply;
    type Error = Fault;
    type Future = Attempt<R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        if let State::Idle = self.state {
            let said = self.world.next_readiness();
            self.state = match said.after {
                None => State::Never,
                Some(0) => State::GettingReady(None, said.breaks),
                Some(after) => {
                    let sleep = Box::pin(tokio::time::sleep(ms(after)));
                    State::GettingReady(Some(sleep), said.breaks)
                }
            };
        }
        match &mut self.state {
            State::GettingReady(sleep, breaks) => {
                if let Some(sleep) = sleep {
                    ready!(sleep.as_mut().poll(cx));
                }
                if *breaks {
                    return Poll::Ready(Err(Fault::Broken));
                }
                self.state = State::Ready(self.world.now());
                Poll::Ready(Ok(()))
            }
            State::Never => Poll::Pending,
            State::Ready(_) | State::Idle => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: R) -> Attempt<R> {
        let world = Arc::clone(&self.world);
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Ready(since) => {
                assert_eq!(since, world.now(), "readiness was held over a delay")
            }
            state => panic!("called while it was {state:?}"),
        }
        let call = request.call();
        assert!(world.is_polled(call), "sent while another call was polled");
        Attempt::begin(world, call, request)
    }
}

/// The future of an attempt.
#[derive(Debug)]
pub(crate) struct Attempt<R> {
    world: Arc<World>,
    call: usize,
    place: usize,
    fate: Fate,
    request: R,
    /// Frames of the body that remain to be read.
    reads: u32,
    /// No frame of the body was read.
    unread: bool,
    wait: Option<Pin<Box<Sleep>>>,
    limit: Option<Instant>,
    reporter: AttemptReporter,
    ended: bool,
    _live: Live,
}

impl<R> Unpin for Attempt<R> {}

impl<R> Attempt<R> {
    fn begin(world: Arc<World>, call: usize, request: R) -> Self
    where
        R: HasCallContext,
    {
        let (place, fate) = world.next_fate(call);
        let context = request.context().expect("a context");
        let reporter = context.reporter().follow();
        if let Some(stage) = fate.stages[0] {
            reporter.stage(stage);
        }
        if fate.backend {
            let name = Arc::from("backend");
            world.keeps(&name);
            reporter.backend(Backend::new(name));
        }
        let limit = context.deadline().map(|limit| Instant::from_std(limit.at));
        let (number, kind) = match context.attempt() {
            // No recovery layer acts.
            0 => (0, AttemptKind::Initial),
            number => (number, context.kind()),
        };
        world.note_of(
            call,
            Event::Sent {
                place,
                number,
                kind,
                limit: limit.map(|limit| world.at(limit)),
            },
        );
        Self {
            call,
            place,
            reads: match fate.reads {
                Reads::Nothing => 0,
                Reads::Frames(frames) => frames,
                Reads::All => u32::MAX,
            },
            unread: true,
            fate,
            wait: None,
            limit,
            reporter,
            request,
            ended: false,
            _live: Live::one_of(&world.alive.attempts),
            world,
        }
    }

    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.wait.is_none() {
            let sleep = match (self.fate.takes, self.limit) {
                (Takes::Ms(0), _) => return Poll::Ready(()),
                (Takes::Ms(ms_), _) => tokio::time::sleep(ms(ms_)),
                (Takes::TillLimit, Some(limit)) => tokio::time::sleep_until(limit),
                (Takes::Never | Takes::TillLimit, _) => return Poll::Pending,
            };
            self.wait = Some(Box::pin(sleep));
        }
        match &mut self.wait {
            Some(wait) => wait.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }

    fn note_end(&self, broke_off: bool) {
        let (place, unread) = (self.place, self.unread);
        let ends = Event::Ends {
            place,
            unread,
            broke_off,
        };
        self.world.note_of(self.call, ends);
    }

    fn ends(&mut self) {
        self.ended = true;
        self.note_end(false);
        if let Some(stage) = self.fate.stages[1] {
            self.reporter.stage(stage);
        }
        if self.fate.forbids {
            self.reporter.forbid();
        }
        if self.fate.own_answer {
            self.reporter.own_answer();
        }
        self.reporter.untried_backend(self.fate.untried);
        match self.fate.word.filter(|_| self.fate.reported) {
            Some(Word::After(after)) => self.reporter.pushback(ServerPushback::After(ms(after))),
            Some(Word::Stop) => self.reporter.pushback(ServerPushback::Stop),
            Some(Word::Unreadable) => self.reporter.pushback_unreadable(),
            None => {}
        }
        if let Some(waiter) = self.fate.waiter.filter(|waiter| waiter.reported) {
            let waiter = config_waiter(&self.world, waiter);
            self.reporter.config_coming(waiter);
        }
    }
}

impl<R: Carrier> Future for Attempt<R> {
    type Output = Result<Reply, Fault>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        assert!(!this.ended, "polled after it had ended");
        while this.reads > 0 {
            match ready!(this.request.poll_body(cx)) {
                None => {
                    this.reads = 0;
                    this.unread = false;
                }
                Some(Ok(())) => {
                    this.reads -= 1;
                    this.unread = false;
                }
                Some(Err(abandoned)) => {
                    this.ended = true;
                    this.note_end(true);
                    return Poll::Ready(Err(Fault::Body(this.place, abandoned)));
                }
            }
        }
        ready!(this.poll_wait(cx));
        this.ends();
        let reply = Reply {
            place: this.place,
            fate: this.fate.clone(),
            reporter: this.reporter.clone(),
            world: Arc::clone(&this.world),
            _live: Live::one_of(&this.world.alive.replies),
        };
        Poll::Ready(if this.fate.as_answer {
            Ok(reply)
        } else {
            Err(Fault::Server(reply))
        })
    }
}

impl<R> Drop for Attempt<R> {
    fn drop(&mut self) {
        let place = self.place;
        self.world.note_of(self.call, Event::Gone { place });
    }
}
