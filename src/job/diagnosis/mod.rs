//! Explains a job's figures in sentences, one per rule.
//!
//! A rule finds nothing if a figure is unknown, or if the difference is too small to matter. A rank correlation is never
//! called a cause.

mod machine;
mod reading;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use machine::{BUSY, COSTLY, is_limited_by_processors};

use super::figures::{EndMeans, Figures};
use super::setup::Setup;
use crate::units::Prefix;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sentence {
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
struct Case<'a> {
    figures: &'a Figures,
    setup: &'a Setup,
    prefix: Prefix,
}

/// The findings, in this order: how fast, why, what it cost, what else.
pub fn diagnosis(figures: &Figures, setup: &Setup, prefix: Prefix) -> Vec<Sentence> {
    let case = &Case { figures, setup, prefix };
    let mut found: Vec<FindingText> = Vec::new();
    found.extend(reading::nothing_read(case));
    found.extend(reading::partly_known(case));
    found.extend(reading::course(case));
    found.extend(reading::with_fill(case));
    found.extend(reading::with_first_writes(case));
    found.extend(machine::requests_shrank(case));
    found.extend(machine::awaits_grew(case));
    found.extend(machine::several_snapshots(case));
    found.extend(machine::write_cost(case));
    found.extend(machine::busy_pvs(case));
    found.extend(machine::writes_took_longer(case));
    found.extend(machine::writes_fell(case));
    found.extend(machine::processors(case));
    found.extend(machine::pressure(case));
    found.into_iter().map(|(finding, text)| Sentence { finding, text }).collect()
}

/// The ratio of the last to the first; `None` if the first is 0.
fn growth(ends: EndMeans) -> Option<f64> {
    (ends.first > 0.0).then(|| ends.last / ends.first)
}

#[cfg(test)]
mod tests;
