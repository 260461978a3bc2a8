//! Chooses the next ticks to send, and notes those that are settled: taken by the receiver, or refused for good.
//!
//! There are two requests at a time. The live one has the newest ticks. If it lags, it skips to the newest, and leaves a
//! hole; the other request fills the oldest hole in order.

use crate::store::{Position, Progress, Span};

/// Ticks of this time share a request, so that their labels are sent once.
pub const LIVE_EVERY_MS: i64 = 5_000;
/// A live request skips to the newest ticks if it would begin with more than these: none is to be ten seconds late. A
/// restart leaves fewer.
const SKIP_MS: u64 = 5_000;
/// With so many islands the live request goes on in order, so that the progress stays short.
const MOST_ISLANDS: usize = 50;

/// Everything up to a tick is settled, and nothing after it.
pub fn begun_at(done: Position) -> Progress {
    Progress {
        done,
        islands: Vec::new(),
    }
}

/// The last tick that is settled.
pub fn end(progress: &Progress) -> Position {
    progress
        .islands
        .last()
        .map_or(progress.done, |island| island.to)
}

/// The next live request. `before` is the last tick that ended at least [`LIVE_EVERY_MS`] before the newest.
pub fn live(progress: &Progress, newest: Position, before: Option<Position>) -> Option<Span> {
    let end = end(progress);
    let is_due = newest.at_ms.abs_diff(end.at_ms) >= LIVE_EVERY_MS.unsigned_abs();
    if newest <= end || !is_due {
        return None;
    }
    let is_late = |before: &Position| *before > end && before.at_ms.abs_diff(end.at_ms) > SKIP_MS;
    let skipped_to = before
        .filter(is_late)
        .filter(|_| progress.islands.len() < MOST_ISLANDS);
    Some(Span {
        after: skipped_to.unwrap_or(end),
        to: newest,
    })
}

/// The oldest hole.
pub fn backlog(progress: &Progress) -> Option<Span> {
    progress.islands.first().map(|island| Span {
        after: progress.done,
        to: island.after,
    })
}

/// Notes that the ticks of a span are settled.
pub fn settle(progress: &mut Progress, span: Span) {
    let islands = &mut progress.islands;
    islands.push(span);
    islands.sort_unstable_by_key(|island| island.after);
    let mut joined: Vec<Span> = Vec::new();
    for island in islands.drain(..) {
        match joined.last_mut() {
            _ if island.after <= progress.done => progress.done = progress.done.max(island.to),
            Some(last) if island.after <= last.to => last.to = last.to.max(island.to),
            _ => joined.push(island),
        }
    }
    *islands = joined;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Position {
        Position {
            stretch: 0,
            at_ms: second * 1000,
        }
    }

    fn span(after: i64, to: i64) -> Span {
        Span {
            after: at(after),
            to: at(to),
        }
    }

    /// The next live request at a tick each second.
    fn check_live(progress: &Progress, newest: i64, expected: Option<Span>) {
        assert_eq!(
            live(progress, at(newest), Some(at(newest - 5))),
            expected,
            "{progress:?}"
        );
    }

    #[test]
    fn live_ticks_go_together_and_in_order() {
        let progress = begun_at(at(100));
        for newest in [90, 100, 104] {
            check_live(&progress, newest, None);
        }
        check_live(&progress, 105, Some(span(100, 105)));
        check_live(&progress, 110, Some(span(100, 110)));
        check_live(&progress, 111, Some(span(106, 111)));
        assert_eq!(backlog(&progress), None);
    }

    #[test]
    fn rare_ticks_are_sent_one_by_one() {
        let progress = begun_at(at(100));
        assert_eq!(
            live(&progress, at(160), Some(at(100))),
            Some(span(100, 160))
        );
        assert_eq!(live(&progress, at(160), None), Some(span(100, 160)));
    }

    /// cowbell was stopped for an hour, four ticks before which were not sent.
    #[test]
    fn after_a_restart_ticks_go_on_in_order() {
        let progress = begun_at(at(100));
        assert_eq!(
            live(&progress, at(3_700), Some(at(104))),
            Some(span(100, 3_700))
        );
    }

    #[test]
    fn after_an_outage_the_newest_ticks_go_first_and_the_hole_is_filled_in_order() {
        let mut progress = begun_at(at(100));
        check_live(&progress, 700, Some(span(695, 700)));
        settle(&mut progress, span(695, 700));
        assert_eq!(backlog(&progress), Some(span(100, 695)));
        settle(&mut progress, span(100, 300));
        settle(&mut progress, span(700, 705));
        assert_eq!(
            (backlog(&progress), end(&progress)),
            (Some(span(300, 695)), at(705))
        );
        settle(&mut progress, span(300, 695));
        assert_eq!((backlog(&progress), progress), (None, begun_at(at(705))));
    }

    #[test]
    fn a_second_outage_while_catching_up_leaves_a_second_hole() {
        let mut progress = begun_at(at(100));
        settle(&mut progress, span(695, 700));
        check_live(&progress, 900, Some(span(895, 900)));
        settle(&mut progress, span(895, 900));
        assert_eq!(backlog(&progress), Some(span(100, 695)));
        settle(&mut progress, span(100, 695));
        assert_eq!(
            (backlog(&progress), progress.done),
            (Some(span(700, 895)), at(700))
        );
    }

    #[test]
    fn the_number_of_holes_is_limited() {
        let mut progress = begun_at(at(0));
        for outage in 1..=200 {
            let span = live(&progress, at(outage * 100), Some(at(outage * 100 - 5))).unwrap();
            settle(&mut progress, span);
        }
        assert_eq!(progress.islands.len(), MOST_ISLANDS);
        assert_eq!(end(&progress), at(20_000));
    }

    #[test]
    fn a_clock_that_went_back_stops_nothing() {
        let newest = Position {
            stretch: 1,
            at_ms: 40_000,
        };
        let expected = Span {
            after: at(100),
            to: newest,
        };
        assert_eq!(
            live(&begun_at(at(100)), newest, Some(at(100))),
            Some(expected)
        );
    }

    /// However requests end: each tick is settled once, unless its request was not acknowledged, and the oldest hole first.
    #[test]
    fn every_tick_is_sent_once_in_any_course() {
        let mut random = 1u64;
        let mut next = move |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % below
        };
        let (mut progress, mut sent) = (begun_at(at(0)), vec![0; 5_001]);
        let mut down_until = 0;
        for now in 1..=5_000 {
            if next(200) == 0 {
                down_until = now + i64::try_from(next(300)).unwrap();
            }
            let is_last = now == 5_000;
            let planned = [
                live(&progress, at(now), Some(at(now - 5))),
                backlog(&progress),
            ];
            for span in planned
                .into_iter()
                .flatten()
                .filter(|_| now >= down_until || is_last)
            {
                let from = span.after.at_ms / 1000 + 1;
                let to = (span.to.at_ms / 1000).min(from + 6);
                (from..=to).for_each(|tick| sent[usize::try_from(tick).unwrap()] += 1);
                settle(
                    &mut progress,
                    Span {
                        after: span.after,
                        to: at(to),
                    },
                );
            }
        }
        while let Some(hole) = backlog(&progress) {
            let (from, to) = (hole.after.at_ms / 1000 + 1, hole.to.at_ms / 1000);
            (from..=to).for_each(|tick| sent[usize::try_from(tick).unwrap()] += 1);
            settle(&mut progress, hole);
        }
        let end = usize::try_from(progress.done.at_ms / 1000).unwrap();
        assert!(
            end > 4_990 && sent[1..=end].iter().all(|count| *count == 1),
            "{sent:?}"
        );
    }
}
