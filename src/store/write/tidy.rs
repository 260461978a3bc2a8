//! When what is old is looked for. What counts as old is `retention`'s to say.

use jiff::Timestamp;

use super::Writer;
use crate::store::words::in_words;

/// How often old things are looked for, and the pause between two steps while there are some, by the ticks' clock: where a
/// recording is played fast, that is fast too.
const TIDY_EVERY_MS: i64 = 60_000;
const TIDY_PAUSE_MS: i64 = 1_000;

impl Writer {
    /// What cannot be deleted now is deleted another time. A clock that jumped makes nothing look old.
    pub(super) async fn tidy_when_due(&mut self) {
        let Some(now_ms) = self.clock.believed().map(Timestamp::as_millisecond) else { return };
        // A clock that was set back waits for no later time.
        if (self.tidy_at_ms.saturating_sub(TIDY_EVERY_MS)..self.tidy_at_ms).contains(&now_ms) {
            return;
        }
        let found_some = match self.mend().await {
            Ok(()) => self.retention.step(&mut self.connection, now_ms).await,
            Err(error) => Err(error),
        };
        self.is_broken |= found_some.is_err();
        let failed = found_some.as_ref().err().map(|error| {
            format!(
                "cannot delete what is old: {}; `cowbell db verify` says what is damaged",
                in_words(error)
            )
        });
        if let (Some(sentence), None) = (&failed, &self.tidying) {
            tracing::warn!("{sentence}");
        }
        self.tidying = failed;
        self.tidy_at_ms = now_ms + if found_some.unwrap_or(false) { TIDY_PAUSE_MS } else { TIDY_EVERY_MS };
    }
}
