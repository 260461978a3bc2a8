//! Read speed against fill, with the line through the points and what it explains.

use super::charts::{self, RelationView};
use super::text;
use crate::chart::{self, Axis, Scatter, Size, Unit};
use crate::job::Job;
use crate::job::figures::Figures;
use crate::job::statistics::{Correlation, Relation, Trend};
use crate::web::Site;
use crate::web::answer::Problem;

const HEIGHT: u32 = 220;
const MOST_WIDTH: u32 = 640;

/// Of the job of a snapshot; `None` before there is anything to see, or if the store does not answer.
pub async fn of_job(site: &Site, job: &Job, width: u32) -> Result<Option<RelationView>, Problem> {
    match site.cost(job).await {
        Err(Problem::Unavailable(_)) => Ok(None),
        cost => Ok(view(&cost?.figures, width)),
    }
}

fn view(figures: &Figures, width: u32) -> Option<RelationView> {
    let pair = |point: &crate::job::figures::CurvePoint| {
        Some((point.fill_percent?, point.read_bytes_per_s?))
    };
    let points: Vec<(f64, f64)> = figures.curve.iter().filter_map(pair).collect();
    let known = figures.read_by_fill.correlation();
    (points.len() > 1).then(|| RelationView {
        sentence: sentence(figures.read_by_fill),
        svg: chart::scatter(&Scatter {
            title: "Read speed by fill".into(),
            size: Size {
                width: width.min(MOST_WIDTH),
                height: HEIGHT,
            },
            x: Axis {
                unit: Unit::Percent,
                max: None,
            },
            x_name: "fill in %".into(),
            y: charts::BYTES,
            points,
            line: known
                .filter(|found| found.trend != Trend::Unclear)
                .map(|found| (found.slope, found.intercept)),
            ..Scatter::default()
        }),
    })
}

fn sentence(relation: Relation) -> String {
    match relation {
        Relation::TooFew { n } => format!("{n} points are too few to see a relation."),
        Relation::Unvaried { n } => format!("One of the two did not change ({n} points)."),
        Relation::Correlation(Correlation {
            trend: Trend::Unclear,
            n,
            explained,
            ..
        }) => {
            format!("No relation to be seen ({}).", measure(n, explained))
        }
        Relation::Correlation(Correlation {
            slope,
            trend,
            n,
            explained,
            ..
        }) => format!(
            "{} {} for each percent of fill ({}).",
            text::rate(Some(slope.abs())),
            if trend == Trend::Falling {
                "slower"
            } else {
                "faster"
            },
            measure(n, explained)
        ),
    }
}

fn measure(n: usize, explained: f64) -> String {
    format!("{n} points, R² {explained:.2}")
}
