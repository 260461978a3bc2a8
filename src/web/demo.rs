//! The banner of `cowbell demo`, and its button.

use axum::extract::State;
use axum::response::Redirect;

use super::Site;

pub const AGAIN: &str = "/demo/again";

/// What the banner says.
#[derive(Clone)]
pub struct Demo {
    pub story: &'static str,
    pub speed: String,
    /// Whether it can be played again, which needs a new database.
    pub is_repeatable: bool,
}

impl Site {
    /// Whether a path plays a demo again.
    pub fn plays_again(&self, path: &str) -> bool {
        path == AGAIN && self.demo.as_ref().is_some_and(|demo| demo.is_repeatable)
    }
}

/// Ends this site; the next one begins at once, at the same sockets.
pub async fn play_again(State(site): State<Site>) -> Redirect {
    site.shutdown.cancel();
    Redirect::to("/")
}
