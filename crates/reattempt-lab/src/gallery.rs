//! Ten scenarios that come with the lab.

/// A scenario of the gallery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Example {
    /// Its name.
    pub name: &'static str,
    /// What happens.
    pub about: &'static str,
    /// What it teaches.
    pub teaches: &'static str,
    /// The document.
    pub document: &'static str,
}

macro_rules! gallery {
    ($($name:literal, $about:literal, $teaches:literal;)*) => {
        /// All of them.
        pub const GALLERY: &[Example] = &[$(Example {
            name: $name,
            about: $about,
            teaches: $teaches,
            document: include_str!(concat!("../gallery/", $name, ".json")),
        }),*];
    };
}

gallery! {
    "calm", "nothing fails",
        "Retries cost nothing while nothing fails. A hedge costs its budget, and shortens the tail.";
    "transient", "a fifth of the attempts fails for 40 seconds",
        "Three attempts turn 80 % into 99 %. A throttle of ten tokens closes at a fifth of failures: it cannot tell them from an outage.";
    "pulse", "twice the load for ten seconds",
        "Attempts that time out and are sent again keep the servers busy with work that no caller waits for: the overload outlives its cause. A throttle lets it end.";
    "slow-third", "one of three servers is twenty times slower",
        "A hedge finds a fast server. A limit of each attempt does too, and loses the work.";
    "one-dead", "one of three servers refuses connections",
        "A refused connection was never sent, so that even a request that is not idempotent moves on to another server.";
    "black-hole", "one of three servers never answers",
        "Without an answer there is no failure to retry: only a limit of each attempt, or a hedge, helps.";
    "rolling-restart", "each of four servers refuses connections for ten seconds",
        "Retries at another server hide a restart. A throttle has to leave room for a quarter of failures.";
    "herd", "two thousand calls arrive within a quarter of a second after an outage",
        "Calls that fail together and wait for the same time fail together again. Jitter spreads them over what the servers can do.";
    "two-tiers", "the inner servers have one worker of ten for ten seconds, and both tiers retry",
        "Attempts multiply at every hop: twelve a call keep the inner servers overloaded when all their workers are back. Retry at one hop, or throttle the outer one.";
    "hedge-everything", "all servers are three times slower for 20 seconds",
        "When all are slow, every call is hedged: without a budget the hedges are the overload.";
}

/// The scenario with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Example> {
    GALLERY.iter().find(|example| example.name == name)
}
