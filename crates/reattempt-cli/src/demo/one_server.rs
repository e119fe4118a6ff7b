//! The scene of a protocol over HTTP: one server, which moves by a restart.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use reattempt_testbed::http::Options;
use reattempt_testbed::http::script;
use reattempt_testbed::http::server::{Server, Wire};

use super::load::{Plan, Scene};
use super::trouble::{Move, Script, node_move, phases};

/// A server that answers by the script.
pub(crate) struct OneServer<P: Wire> {
    server: Server<P>,
    script: Arc<Script>,
    step: Step<P>,
    moved: Move,
}

/// The server's step for one call.
type Step<P> = fn(&Script, &<P as Wire>::Seen) -> <P as Wire>::Step;

impl<P: Wire> OneServer<P> {
    pub(crate) async fn start(plan: &Plan, step: Step<P>) -> io::Result<Self> {
        let script = Arc::new(Script::new(plan.seed, plan.calls, true));
        Ok(Self {
            server: start(Options::new(), &script, step).await?,
            script,
            step,
            moved: node_move(&phases(plan.calls, true)),
        })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.server.addr()
    }
}

async fn start<P: Wire>(
    options: Options,
    script: &Arc<Script>,
    step: Step<P>,
) -> io::Result<Server<P>> {
    let script = Arc::clone(script);
    let handler = script::Script::handler(move |seen: &P::Seen| step(&script, seen));
    Server::start_with(options, handler).await
}

impl<P: Wire> Scene for OneServer<P> {
    /// Stops the server and its connections, and restarts it later at its address.
    async fn before(&mut self, number: usize) -> io::Result<()> {
        if number == self.moved.goes {
            self.server.stop().await;
        }
        if number == self.moved.is_back {
            let options = Options::new().at(self.addr());
            self.server = start(options, &self.script, self.step).await?;
        }
        Ok(())
    }
}
