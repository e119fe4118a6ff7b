//! A redirect policy that keeps credentials at their origin.

use std::cell::Cell;

use reqwest::redirect::{Attempt, Policy};

/// As reqwest's own default.
const MOST_REDIRECTS: usize = 10;

thread_local! {
    /// Whether the policy has followed a redirect since [`watching`] began: reqwest asks it while
    /// the request's future is polled.
    static FOLLOWED: Cell<bool> = const { Cell::new(false) };
}

/// The result of a poll, and whether [`same_origin_redirects`] followed a redirect in it. Other
/// policies do not tell.
pub(super) fn watching<T>(poll: impl FnOnce() -> T) -> (T, bool) {
    FOLLOWED.set(false);
    let polled = poll();
    (polled, FOLLOWED.take())
}

/// Follows up to ten redirects within the origin (scheme, host and port) of the request, and
/// returns the response of a redirect to any other origin, so that the caller decides what to send
/// there.
///
/// reqwest's own policies follow redirects to any origin. They remove `Authorization`, `Cookie` and
/// `Proxy-Authorization` from the first request to it, but not other headers, and (0.13.5) not from
/// a second one.
///
/// ```
/// let client = reqwest::Client::builder()
///     .retry(reqwest::retry::never())
///     .redirect(reattempt_http::reqwest::same_origin_redirects())
///     .build()?;
/// # drop(client);
/// # Ok::<(), reqwest::Error>(())
/// ```
#[must_use]
pub fn same_origin_redirects() -> Policy {
    Policy::custom(|redirect: Attempt<'_>| {
        let first = redirect.previous().first();
        if first.is_some_and(|first| first.origin() == redirect.url().origin()) {
            FOLLOWED.set(true);
            Policy::limited(MOST_REDIRECTS).redirect(redirect)
        } else {
            redirect.stop()
        }
    })
}
