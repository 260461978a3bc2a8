//! The query of a page with charts: time range and size; and where there is something to see, if a range has nothing.

use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::Deserialize;

use crate::chart;
use crate::job::Job;
use crate::present::Present;
use crate::series::when::TimeQuery;
use crate::series::{MOST_POINTS, Point, Range, Series, saturating_add_seconds};
use crate::store::{Level, SeriesKey};
use crate::web::answer::Problem;
use crate::web::pages::Refresh;
use crate::web::pages::text::span_text;
use crate::web::{Site, escaped, zone};

/// The width of a chart for a browser that does not say how wide it is: without a script, or before it runs.
const WIDTH: u32 = 1_000;
const TELEPHONE_WIDTH: u32 = 340;
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
/// It grows in steps of this, so that the axis does not move at each tick.
const GROWTH_S: f64 = 10.0;

/// The query.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct View {
    pub from: Option<String>,
    pub to: Option<String>,
    /// Of ends without one, which are those of the fields.
    pub zone: Option<String>,
    /// For lists: the place after which the page starts.
    pub before: Option<String>,
    /// Rows of a list without this text are left out.
    pub filter: Option<String>,
    /// Of a job: adds the previous run to its first chart, whatever it says.
    pub previous: Option<String>,
    pub width: Option<u32>,
    /// At least, for all charts of the page.
    pub height: Option<u32>,
}

impl View {
    pub fn span(&self) -> TimeQuery {
        let zoned = |end: &str| match &self.zone {
            Some(zone) if end.parse::<DateTime>().is_ok() => format!("{end}[{zone}]"),
            _ => end.into(),
        };
        TimeQuery {
            from: self.from.as_deref().map(zoned),
            to: self.to.as_deref().map(zoned),
        }
    }

    pub fn range(&self, present: &Present) -> Result<Range, Problem> {
        let mut range = self.span().range(present.interval.at, DEFAULT_SPAN)?;
        if self.from.is_none() {
            range.from = range.from.max(first(present));
        }
        Ok(range)
    }

    /// Whether the page chooses the range.
    pub fn is_default(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// Whether the range moves as time goes on.
    pub fn is_moving(&self) -> bool {
        let to = self.span().to.unwrap_or_default();
        to.trim().is_empty() || to == "now" || to.starts_with('-')
    }

    /// Sets a default for `from`.
    pub fn or_from(&self, default: &str) -> Self {
        Self {
            from: self.from.clone().or_else(|| Some(default.into())),
            ..self.clone()
        }
    }

    /// The query without the size and the filter.
    pub fn fields(&self) -> Vec<(String, String)> {
        let pairs = [
            ("from", &self.from),
            ("to", &self.to),
            ("zone", &self.zone),
            ("before", &self.before),
            ("previous", &self.previous),
        ];
        let field = |(key, value): (&str, &Option<String>)| Some((key.into(), value.clone()?));
        pairs.into_iter().filter_map(field).collect()
    }

    /// The query as text, without the size.
    pub fn query(&self) -> String {
        let filter = self
            .filter
            .iter()
            .map(|filter| ("filter".into(), filter.clone()));
        let mut pairs = Vec::new();
        for (key, value) in self.fields().into_iter().chain(filter) {
            pairs.push(format!("{key}={}", escaped(&value)));
        }
        pairs.join("&")
    }

    pub fn refresh(&self, range: Range) -> Refresh {
        if self.is_moving() {
            Refresh::of_range(range)
        } else {
            Refresh::Once
        }
    }

    /// The presets, and with a running job, from its start to now.
    pub fn ranges(&self, range: Range, jobs: &[Job]) -> RangeTools {
        let running = jobs.iter().find(|job| job.is_running());
        let presets = SPANS.map(|(name, from)| self.choice(name, from));
        RangeTools {
            last: running.map(|job| self.since(job, "running job")),
            ..RangeTools::new(presets.into(), range)
        }
    }

    /// The ranges of a job's page.
    pub fn ranges_of(&self, job: &Job, range: Range) -> RangeTools {
        let whole = ChoiceLink {
            name: "whole job",
            href: format!("/jobs/{}", job.id),
            is_current: self.is_default(),
        };
        RangeTools::new(vec![whole, self.since(job, "from its start to now")], range)
    }

    /// A link that adds the previous run to the first chart, or takes it away.
    pub fn with_previous(&self) -> ChoiceLink {
        let other = Self {
            previous: self.previous.is_none().then(|| "shown".into()),
            filter: None,
            ..self.clone()
        };
        ChoiceLink {
            name: "with the previous run",
            href: format!("?{}", other.query()),
            is_current: self.previous.is_some(),
        }
    }

    fn since(&self, job: &Job, name: &'static str) -> ChoiceLink {
        self.choice(name, &job.started_at.to_string())
    }

    fn choice(&self, name: &'static str, from: &str) -> ChoiceLink {
        let current = self.from.as_deref().unwrap_or(DEFAULT_SPAN);
        ChoiceLink {
            name,
            href: format!("?from={from}"),
            is_current: self.to.is_none() && from == current,
        }
    }

    pub fn width(&self) -> u32 {
        let usual = if zone::is_on_telephone() {
            TELEPHONE_WIDTH
        } else {
            WIDTH
        };
        self.width
            .unwrap_or(usual)
            .clamp(*chart::WIDTHS.start(), *chart::WIDTHS.end())
    }

    pub(super) fn points(&self) -> usize {
        self.width() as usize / PIXELS_PER_POINT
    }
}

/// Selects a range: presets, and fields for its ends.
pub struct RangeTools {
    pub choices: Vec<ChoiceLink>,
    /// The running job's, or the previous run of a job. It comes last, so that it moves nothing when it appears.
    pub last: Option<ChoiceLink>,
    /// The range in words.
    pub span: String,
    /// Its ends and their time zone, for the fields.
    pub from: String,
    pub to: String,
    pub zone: String,
}

impl RangeTools {
    /// Adds the page's usual range, first.
    pub fn add(&mut self, name: &'static str, is_current: bool) {
        for choice in &mut self.choices {
            choice.is_current &= !is_current;
        }
        let usual = ChoiceLink {
            name,
            href: "?".into(),
            is_current,
        };
        self.choices.insert(0, usual);
    }

    fn new(choices: Vec<ChoiceLink>, range: Range) -> Self {
        let field = |at: Timestamp| zone::local(at).strftime("%FT%T").to_string();
        let [from, to] = [range.from, range.to].map(field);
        Self {
            choices,
            last: None,
            span: span_text(range),
            from,
            to,
            zone: zone::name(),
        }
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
    let (stored, now) = (&present.store.stock, present.interval.at);
    let first = stored.since[Level::Ticks as usize]
        .map_or(present.started_at, |stored| stored.min(present.started_at));
    let length_s = Range::new(first, now).seconds().max(LEAST_S);
    saturating_add_seconds(now, -(length_s / GROWTH_S).ceil() * GROWTH_S)
}

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
