//! Calls that are made through the preset and through the single layers, and what is compared.

use super::*;

/// Calls, one after the other, that each end so; `attempts` are those of all calls together.
pub(super) struct Case {
    settings: Settings,
    /// Makes the config of one run: its bucket is shared by the run's calls.
    config: fn() -> ServiceConfig,
    script: Vec<Step>,
    request: fn() -> Request<TonicBody>,
    calls: usize,
}

impl Case {
    pub(super) fn new(config: fn() -> ServiceConfig, script: impl Into<Vec<Step>>) -> Self {
        Self {
            settings: Settings::default(),
            config,
            script: script.into(),
            request: || message(5),
            calls: 1,
        }
    }

    pub(super) fn request(mut self, request: fn() -> Request<TonicBody>) -> Self {
        self.request = request;
        self
    }

    pub(super) fn settings(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(&mut self.settings);
        self
    }

    pub(super) fn calls(mut self, calls: usize) -> Self {
        self.calls = calls;
        self
    }

    async fn run<C: Client>(&self, config: &ServiceConfig, wire: Wire, client: C) -> Run {
        let mut outcomes = Vec::new();
        for _ in 0..self.calls {
            let began = wire.server.began;
            outcomes.push(outcome(client.clone(), began, (self.request)()).await);
        }
        let seen = wire.server.seen.lock().unwrap().clone();
        let received = seen
            .into_iter()
            .map(|seen| (seen.at_ms, seen.previous, seen.timeout))
            .collect();
        let bodies = wire.bodies.lock().unwrap().clone();
        Run {
            outcomes,
            received,
            bodies,
            milli_tokens: config.throttle().and_then(|bucket| bucket.milli_tokens()),
        }
    }

    /// Runs the case through the preset and through the single layers, and expects that each
    /// call ends with this code after this many attempts and milliseconds.
    pub(super) async fn ends(&self, name: &str, code: Code, attempts: &[u32], at_ms: u128) {
        let wire = Wire::new(&self.script);
        let config = (self.config)();
        let client = self.settings.preset(config.clone()).layer(wire.channel());
        let preset = self.run(&config, wire, client).await;

        let wire = Wire::new(&self.script);
        let config = (self.config)();
        let client = self.settings.singles(config.clone(), wire.channel());
        let singles = self.run(&config, wire, client).await;

        assert_eq!(preset, singles, "{name}");
        let made: Vec<_> = preset.outcomes.iter().map(|o| o.attempts).collect();
        let last = preset.outcomes.last().unwrap();
        assert_eq!((last.code, last.ended_ms), (code, at_ms), "{name}");
        assert_eq!(made, attempts, "{name}");
    }
}

/// All that is compared.
#[derive(Debug, PartialEq)]
struct Run {
    outcomes: Vec<Outcome>,
    /// For each attempt: when, how many came before it, and the time it has.
    received: Vec<(u128, Option<String>, Option<String>)>,
    bodies: Vec<Bytes>,
    milli_tokens: Option<u64>,
}
