//! What a job's figures say, in sentences. Each rule stands by itself.
//!
//! A rule is silent if a figure it needs is unknown, or if the difference is too small to matter. A rank correlation is
//! called just that, never a cause.

mod machine;
mod reading;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use machine::{BUSY, COSTLY, is_limited_by_processors};

use super::figures::{EndMeans, Figures};
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

/// What rules judge.
struct Case<'a> {
    figures: &'a Figures,
    setup: &'a Setup,
    prefix: Prefix,
}

/// What the figures say, in the order in which people ask: how fast, why, what it cost, what else.
pub fn diagnosis(figures: &Figures, setup: &Setup, prefix: Prefix) -> Vec<Sentence> {
    let case = &Case { figures, setup, prefix };
    let mut said = Vec::new();
    said.extend(reading::nothing_read(case));
    said.extend(reading::partly_known(case));
    said.extend(reading::course(case));
    said.extend(reading::with_fill(case));
    said.extend(reading::with_first_writes(case));
    said.extend(machine::requests_shrank(case));
    said.extend(machine::awaits_grew(case));
    said.extend(machine::several_snapshots(case));
    said.extend(machine::write_cost(case));
    said.extend(machine::shared_pv_busy(case));
    said.extend(machine::pv_busy(case));
    said.extend(machine::writes_took_longer(case));
    said.extend(machine::writes_fell(case));
    said.extend(machine::processors(case));
    said.extend(machine::pressure(case));
    said
}

impl Sentence {
    fn new(finding: Finding, text: String) -> Self {
        Self { finding, text }
    }
}

/// How many times as much the last is as the first; `None` if the first is 0.
fn growth(ends: EndMeans) -> Option<f64> {
    (ends.first > 0.0).then(|| ends.last / ends.first)
}

#[cfg(test)]
mod tests;
