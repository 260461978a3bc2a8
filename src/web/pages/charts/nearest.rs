//! Where there is something to see, if a range has nothing.

use jiff::Timestamp;

use crate::present::Present;
use crate::series::{MOST_POINTS, Point, Range, Series};
use crate::store::SeriesKey;
use crate::web::Site;
use crate::web::pages::span_text;

/// The longest row of a roll-up: a point found may be this late.
const ROW_S: f64 = 600.0;

/// A sentence on the nearest range that has data, and its query.
pub type Nearest = (String, String);

/// The nearest range of about the same length; `None` if the range has data, or nothing has.
pub async fn nearest(
    site: &Site,
    present: &Present,
    wanted: &[SeriesKey],
    range: Range,
    found: &[Option<Series>],
) -> Option<Nearest> {
    if found
        .iter()
        .flatten()
        .flat_map(|series| &series.points)
        .any(is_known)
    {
        return None;
    }
    let first = present
        .store
        .stock
        .since
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(present.started_at);
    let (before, after) = (
        Range {
            from: first,
            to: range.from,
        },
        Range {
            from: range.to,
            to: present.interval.at,
        },
    );
    let before = ends(site, wanted, before).await.map(|(_, last)| last);
    let after = ends(site, wanted, after).await.map(|(first, _)| first);
    let length_s = range.seconds();
    let before = before.map(|(to, slack_s)| {
        let to = later(to, 1.0);
        (
            Range {
                from: to,
                to: range.from,
            }
            .seconds(),
            Range {
                from: later(to, -length_s.max(slack_s)),
                to,
            },
        )
    });
    let after = after.map(|(first, slack_s)| {
        let from = later(first, -slack_s);
        (
            Range {
                from: range.to,
                to: first,
            }
            .seconds(),
            Range {
                from,
                to: later(from, length_s.max(2.0 * slack_s)),
            },
        )
    });
    let (_, nearest) = before
        .into_iter()
        .chain(after)
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    let query = format!("?from={}&to={}", nearest.from, nearest.to);
    Some((
        format!("Show the nearest data: {}", span_text(nearest)),
        query,
    ))
}

/// An instant with data, and how many seconds before it the data may begin.
type End = (Timestamp, f64);

/// The first and the last known point.
async fn ends(site: &Site, wanted: &[SeriesKey], range: Range) -> Option<(End, End)> {
    if range.from >= range.to {
        return None;
    }
    // Without the database there is nothing to offer.
    let found = site.store.series(wanted, range, MOST_POINTS).await.ok()?;
    let known = || {
        found
            .iter()
            .flatten()
            .flat_map(|series| &series.points)
            .filter(|point| is_known(point))
    };
    let slack_s =
        range.seconds() / MOST_POINTS as f64 + if range.seconds() > ROW_S { ROW_S } else { 0.0 };
    let (first, last) = (
        known().map(|point| point.t).min()?,
        known().map(|point| point.t).max()?,
    );
    Some(((first, slack_s), (last, slack_s)))
}

fn is_known(point: &Point) -> bool {
    point.avg.is_some()
}

/// Saturates, since some forecasts are years ahead.
pub fn later(at: Timestamp, seconds: f64) -> Timestamp {
    Timestamp::from_millisecond(
        at.as_millisecond()
            .saturating_add((seconds * 1000.0) as i64),
    )
    .unwrap_or(Timestamp::MAX)
}
