//! What a job's figures say, in sentences: only what the numbers carry, each rule by itself.
//!
//! That two things went together is said as that. Thresholds are what a person would call a difference; below them a
//! rule is silent, and so it is where a figure is unknown.

mod machine;
mod reading;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use machine::{BUSY, COSTLY, is_limited_by_processors};

use super::figures::{Ends, Figures};
use super::setup::Setup;
use crate::units::Prefix;

/// One thing that the figures say.
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

/// Everything that is asked for a sentence.
struct Case<'a> {
    figures: &'a Figures,
    setup: &'a Setup,
    prefix: Prefix,
}

/// A rule says nothing, or one thing or several.
type Rule = fn(&Case) -> Vec<Sentence>;

/// In the order in which a person asks: how fast, why, what it cost, what else there was.
const RULES: [Rule; 15] = [
    reading::nothing_read,
    reading::partly_known,
    reading::course,
    reading::with_fill,
    reading::with_first_writes,
    machine::requests_shrank,
    machine::awaits_grew,
    machine::several_snapshots,
    machine::write_cost,
    machine::shared_pv_busy,
    machine::pv_busy,
    machine::writes_took_longer,
    machine::writes_fell,
    machine::processors,
    machine::pressure,
];

/// What the figures say; nothing where they say nothing.
pub fn diagnosis(figures: &Figures, setup: &Setup, prefix: Prefix) -> Vec<Sentence> {
    let case = Case { figures, setup, prefix };
    RULES.iter().flat_map(|rule| rule(&case)).collect()
}

impl Sentence {
    fn one(finding: Finding, text: String) -> Vec<Self> {
        vec![Self { finding, text }]
    }
}

/// How many times as much the second is as the first; `None` where the first is nothing.
fn growth(ends: Ends) -> Option<f64> {
    (ends.first > 0.0).then(|| ends.last / ends.first)
}

#[cfg(test)]
mod tests;
