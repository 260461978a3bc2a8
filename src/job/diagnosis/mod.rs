//! Explains a job's figures in sentences, one per rule. A rule finds nothing if a figure is unknown, or if the
//! difference is too small to matter. A rank correlation is never called a cause.

mod machine;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use machine::{BUSY, COSTLY, is_limited_by_processors};

use super::figures::{EndMeans, Figures};
use super::setup::Setup;
use super::statistics::{Correlation, Relation, Trend};
use super::words::{share, speed};
use crate::units::Prefix;

/// Ratios up to this are ordinary variation.
const SAME_SPEED: f64 = 1.2;
/// A speed that falls by a third needs an explanation.
const SLOWED: f64 = 1.5;
/// Below this known share, the gaps may hide what happened.
const WELL_KNOWN: f64 = 0.9;
/// From this rank correlation of fill and time on, either may explain the speed.
const TOGETHER: f64 = 0.9;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    pub finding: Finding,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    NothingRead,
    PartlyKnown,
    ReadsSlowed,
    ReadsQuickened,
    ReadsKeptTheirSpeed,
    ReadsWentWithFill,
    ReadsDidNotGoWithFill,
    TooFewPoints,
    ReadsWentWithFirstWrites,
    RequestsShrank,
    AwaitsGrew,
    SeveralSnapshots,
    WritesCostMore,
    SharedPvBusy,
    PvBusy,
    WritesTookLonger,
    WritesFell,
    ProcessorsWereTheLimit,
    WaitedForDisks,
}

type FindingText = (Finding, String);

/// The input of all rules.
struct DiagnosisInput<'a> {
    figures: &'a Figures,
    setup: &'a Setup,
    prefix: Prefix,
}

/// The findings, in this order: how fast, why, what it cost, what else.
pub fn diagnosis(figures: &Figures, setup: &Setup, prefix: Prefix) -> Vec<Explanation> {
    let case = &DiagnosisInput {
        figures,
        setup,
        prefix,
    };
    let mut found: Vec<FindingText> = Vec::new();
    found.extend(nothing_read(case));
    found.extend(partly_known(case));
    found.extend(time_series(case));
    found.extend(with_fill(case));
    found.extend(with_first_writes(case));
    found.extend(machine::requests_shrank(case));
    found.extend(machine::awaits_grew(case));
    found.extend(machine::several_snapshots(case));
    found.extend(machine::write_cost(case));
    found.extend(machine::busy_pvs(case));
    found.extend(machine::writes_took_longer(case));
    found.extend(machine::writes_fell(case));
    found.extend(machine::processors(case));
    found.extend(machine::pressure(case));
    found
        .into_iter()
        .map(|(finding, text)| Explanation { finding, text })
        .collect()
}

/// The ratio of the last to the first; `None` if the first is 0.
fn growth(ends: EndMeans) -> Option<f64> {
    (ends.first > 0.0).then(|| ends.last / ends.first)
}

fn nothing_read(case: &DiagnosisInput) -> Option<FindingText> {
    let from = if case.setup.kind.is_some() {
        " from the snapshot"
    } else {
        ""
    };
    let is_one = case.figures.read.is_none() && !case.setup.made_no_snapshot();
    is_one.then(|| {
        (
            Finding::NothingRead,
            format!("No reads{from} were observed."),
        )
    })
}

fn partly_known(case: &DiagnosisInput) -> Option<FindingText> {
    let known = share(
        case.figures
            .read
            .filter(|read| read.known_share < WELL_KNOWN)?
            .known_share,
    );
    let text = format!(
        "The read speed is known for {known} of the time. The figures below cover only that time."
    );
    Some((Finding::PartlyKnown, text))
}

fn time_series(case: &DiagnosisInput) -> Option<FindingText> {
    let ends = case.figures.read?.ends?;
    let [first, last] = [ends.first, ends.last].map(|end| speed(end, case.prefix));
    let (finding, text) = match growth(ends)? {
        grown if grown <= 1.0 / SLOWED => (
            Finding::ReadsSlowed,
            format!("Reads slowed from {first} to {last}{}.", as_it_filled(case)),
        ),
        grown if grown >= SLOWED => (
            Finding::ReadsQuickened,
            format!("Reads sped up from {first} to {last}."),
        ),
        grown if (1.0 / SAME_SPEED..=SAME_SPEED).contains(&grown) => (
            Finding::ReadsKeptTheirSpeed,
            format!("Read speed stayed the same: {first} at the beginning, {last} at the end."),
        ),
        _ => return None,
    };
    Some((finding, text))
}

/// Empty unless the correlation over the whole job shows it.
fn as_it_filled(case: &DiagnosisInput) -> String {
    let fill = case
        .figures
        .read_by_fill
        .falling()
        .and(case.figures.fill)
        .and_then(|fill| fill.ends);
    fill.map_or_else(String::new, |fill| {
        format!(
            " as the snapshot filled from {:.0} to {:.0} %",
            fill.first, fill.last
        )
    })
}

fn with_fill(case: &DiagnosisInput) -> Option<FindingText> {
    case.figures.read.as_ref().and(case.figures.fill.as_ref())?;
    let (finding, text) = match case.figures.read_by_fill {
        Relation::TooFew { n } => (
            Finding::TooFewPoints,
            format!("Too few points ({n}) to say whether read speed depended on fill."),
        ),
        Relation::Unvaried { .. } => return None,
        Relation::Correlation(found) if found.trend == Trend::Unclear => (
            Finding::ReadsDidNotGoWithFill,
            format!("Read speed shows no relation to fill ({}).", points(found)),
        ),
        Relation::Correlation(found) => (Finding::ReadsWentWithFill, went_with_fill(case, found)),
    };
    Some((finding, text))
}

fn went_with_fill(case: &DiagnosisInput, found: Correlation) -> String {
    let is_together = case
        .figures
        .fill_by_time
        .is_some_and(|rank| rank.abs() >= TOGETHER);
    let caution = match is_together {
        true => {
            " Fill grew steadily with time, so anything else that changed over time may be the cause."
        }
        false => "",
    };
    format!(
        "Reads were {} {} for each percentage point of fill ({}).{caution}",
        speed(found.slope.abs(), case.prefix),
        if found.trend == Trend::Falling {
            "slower"
        } else {
            "faster"
        },
        points(found),
    )
}

/// First writes rise and fall during a job, so elapsed time alone cannot explain this correlation.
fn with_first_writes(case: &DiagnosisInput) -> Option<FindingText> {
    let found = case.figures.read_by_first_writes.falling()?;
    let text = format!(
        "Reads were slower when there were more first writes. For each byte first written, {:.1} bytes less were read ({}).",
        found.slope.abs(),
        points(found),
    );
    Some((Finding::ReadsWentWithFirstWrites, text))
}

fn points(found: Correlation) -> String {
    format!("{} points", found.n)
}

#[cfg(test)]
mod tests;
