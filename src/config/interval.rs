//! `interval`: the length of a tick.

use std::time::Duration;

use jiff::SignedDuration;
use serde::Deserialize;

/// Shorter ticks would cost more than they show.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// Longer ticks would miss a snapshot's overflow.
pub const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// The length of a tick, from [`SHORTEST_INTERVAL`] to [`LONGEST_INTERVAL`].
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct TickInterval(pub Duration);

impl TryFrom<String> for TickInterval {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse::<SignedDuration>()
            .ok()
            .and_then(|length| Duration::try_from(length).ok())
            .filter(|length| (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(length))
            .map(Self)
            .ok_or_else(|| {
                format!("expected a duration from \"100ms\" to \"60s\" such as \"1s\", but found \"{text}\"")
            })
    }
}
