//! Where there is something to see, if a range has nothing.

use jiff::Timestamp;

use crate::present::Present;
use crate::series::{MOST_POINTS, Point, Range, Series, saturating_add_seconds};
use crate::store::SeriesKey;
use crate::web::Site;
use crate::web::pages::text::span_text;

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
    if known(found).next().is_some() {
        return None;
    }
    let oldest = present.store.stock.since.into_iter().flatten().min();
    let oldest = oldest.unwrap_or(present.started_at);
    let before = Range::new(oldest, range.from);
    let after = Range::new(range.to, present.interval.at);
    let length_s = range.seconds();
    let mut nearest: Option<(f64, Range)> = None;
    if let Some(KnownPoints { last, slack_s, .. }) = known_points(site, wanted, before).await {
        let to = saturating_add_seconds(last, 1.0);
        let from = saturating_add_seconds(to, -length_s.max(slack_s));
        let distance_s = Range::new(to, range.from).seconds();
        nearest = Some((distance_s, Range::new(from, to)));
    }
    if let Some(KnownPoints { first, slack_s, .. }) = known_points(site, wanted, after).await {
        let from = saturating_add_seconds(first, -slack_s);
        let to = saturating_add_seconds(from, length_s.max(2.0 * slack_s));
        let distance_s = Range::new(range.to, first).seconds();
        if nearest.is_none_or(|(before_s, _)| distance_s < before_s) {
            nearest = Some((distance_s, Range::new(from, to)));
        }
    }
    let (_, nearest) = nearest?;
    let text = format!("Show the nearest data: {}", span_text(nearest));
    Some((text, format!("?from={}&to={}", nearest.from, nearest.to)))
}

/// The first and the last point with a value. The data of a point may begin so many seconds before it.
struct KnownPoints {
    first: Timestamp,
    last: Timestamp,
    slack_s: f64,
}

async fn known_points(site: &Site, wanted: &[SeriesKey], range: Range) -> Option<KnownPoints> {
    if range.from >= range.to {
        return None;
    }
    // Without the database there is nothing to offer.
    let found = site.store.series(wanted, range, MOST_POINTS).await.ok()?;
    let row_s = if range.seconds() > ROW_S { ROW_S } else { 0.0 };
    Some(KnownPoints {
        first: known(&found).map(|point| point.t).min()?,
        last: known(&found).map(|point| point.t).max()?,
        slack_s: range.seconds() / MOST_POINTS as f64 + row_s,
    })
}

fn known(found: &[Option<Series>]) -> impl Iterator<Item = &Point> {
    let points = found.iter().flatten().flat_map(|series| &series.points);
    points.filter(|point| point.avg.is_some())
}
