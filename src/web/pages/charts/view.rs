//! The query of a page with charts: time range and width.

use jiff::Timestamp;
use serde::Deserialize;

use crate::chart;
use crate::present::Present;
use crate::series::Range;
use crate::series::when::TimeQuery;
use crate::store::Level;
use crate::web::answer::Problem;
use crate::web::escaped;
use crate::web::pages::{Refresh, fragment_url, is_moving};

/// The default width of a chart.
const WIDTH: u32 = 1_000;
/// More points would not be visible.
const PIXELS_PER_POINT: usize = 2;
/// Ranges for selection.
const SPANS: [(&str, &str); 7] = [
    ("5 m", "-5m"),
    ("15 m", "-15m"),
    ("1 h", "-1h"),
    ("6 h", "-6h"),
    ("24 h", "-24h"),
    ("7 d", "-7d"),
    ("30 d", "-30d"),
];
const DEFAULT_SPAN: &str = "-15m";
/// The default range is no longer than there is something to see, but at least so long.
const LEAST_S: f64 = 30.0;

/// The query.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct View {
    pub from: Option<String>,
    pub to: Option<String>,
    /// For lists: the place after which the page starts.
    pub before: Option<String>,
    pub width: Option<u32>,
}

impl View {
    pub fn span(&self) -> TimeQuery {
        TimeQuery { from: self.from.clone(), to: self.to.clone() }
    }

    pub fn range(&self, present: &Present) -> Result<Range, Problem> {
        let range = self.span().range(present.interval.at, DEFAULT_SPAN)?;
        match self.from {
            Some(_) => Ok(range),
            None => Ok(Range { from: range.from.max(first(present)), ..range }),
        }
    }

    /// Sets a default for `from`.
    pub fn or_from(&self, default: &str) -> Self {
        Self { from: self.from.clone().or_else(|| Some(default.into())), ..self.clone() }
    }

    /// The query as text, without the width.
    pub fn query(&self) -> String {
        let pairs = [("from", &self.from), ("to", &self.to), ("before", &self.before)];
        let pairs = pairs.iter().filter_map(|(key, value)| Some((*key, value.as_deref()?)));
        pairs.map(|(key, value)| format!("{key}={}", escaped(value))).collect::<Vec<_>>().join("&")
    }

    pub fn refresh(&self, path: &str, range: Range) -> Option<Refresh> {
        let url = fragment_url(path, &self.query());
        Some(if is_moving(&self.span()) { Refresh::of_range(url, range) } else { Refresh::once(url) })
    }

    pub fn ranges(&self) -> Vec<ChoiceLink> {
        let current = self.from.as_deref().unwrap_or(DEFAULT_SPAN);
        let link = |(name, from): (&'static str, &str)| ChoiceLink {
            name,
            href: format!("?from={from}"),
            is_current: self.to.is_none() && from == current,
        };
        SPANS.into_iter().map(link).collect()
    }

    pub fn width(&self) -> u32 {
        self.width.unwrap_or(WIDTH).clamp(*chart::WIDTHS.start(), *chart::WIDTHS.end())
    }

    pub(super) fn points(&self) -> usize {
        self.width() as usize / PIXELS_PER_POINT
    }
}

/// A link in a list of choices.
pub struct ChoiceLink {
    pub name: &'static str,
    pub href: String,
    pub is_current: bool,
}

/// From where there is something to see.
fn first(present: &Present) -> Timestamp {
    let stored = present.store.stock.since[Level::Ticks as usize];
    let first = stored.map_or(present.started_at, |stored| stored.min(present.started_at));
    let least_ms = (LEAST_S * 1000.0) as i64;
    let latest = Timestamp::from_millisecond(present.interval.at.as_millisecond().saturating_sub(least_ms));
    first.min(latest.unwrap_or(first))
}
