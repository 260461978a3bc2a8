//! What the figures say of the reading: how fast it was, and what it went with.

use super::{Case, Finding, Sentence, growth};
use crate::job::statistics::{Correlation, Relation};
use crate::job::words::{share, speed, speeds};

/// Speeds of one backup wander by a fifth without anything having happened.
const SAME_SPEED: f64 = 1.2;
/// A third less than at the beginning is what somebody asks about.
const SLOWED: f64 = 1.5;
/// Below that, a gap is large enough to hide what happened.
const WELL_KNOWN: f64 = 0.9;
/// From here on ranks of fill and time are nearly the same, and nothing can tell the two apart.
const TOGETHER: f64 = 0.9;

pub fn nothing_read(case: &Case) -> Vec<Sentence> {
    match case.figures.read {
        Some(_) => Vec::new(),
        None if case.setup.made_no_snapshot() => Vec::new(),
        None => {
            let from = if case.setup.kind.is_some() { " from the snapshot" } else { "" };
            Sentence::one(Finding::NothingRead, format!("Nobody saw anything being read{from}."))
        }
    }
}

pub fn partly_known(case: &Case) -> Vec<Sentence> {
    let Some(read) = case.figures.read.filter(|read| read.known_share < WELL_KNOWN) else {
        return Vec::new();
    };
    let text = format!(
        "The read speed is known for {} of the time, and so are the figures that follow.",
        share(read.known_share)
    );
    Sentence::one(Finding::PartlyKnown, text)
}

pub fn course(case: &Case) -> Vec<Sentence> {
    let Some(ends) = case.figures.read.and_then(|read| read.ends) else { return Vec::new() };
    let Some(grown) = growth(ends) else { return Vec::new() };
    let [first, last] = [ends.first, ends.last].map(|end| speed(end, case.prefix));
    let (finding, text) = match grown {
        _ if grown <= 1.0 / SLOWED => {
            (Finding::ReadsSlowed, format!("Reads slowed from {first} to {last}{}.", as_it_filled(case)))
        }
        _ if grown >= SLOWED => (Finding::ReadsQuickened, format!("Reads went from {first} to {last}.")),
        _ if (1.0 / SAME_SPEED..=SAME_SPEED).contains(&grown) => (
            Finding::ReadsKeptTheirSpeed,
            format!("Reads kept their speed: {first} at the beginning, {last} at the end."),
        ),
        _ => return Vec::new(),
    };
    Sentence::one(finding, text)
}

/// Only where the whole course bears it out, and not the two ends alone.
fn as_it_filled(case: &Case) -> String {
    let seen = case.figures.read_by_fill.known().filter(|known| known.is_seen() && known.slope < 0.0);
    match seen.and(case.figures.fill).and_then(|fill| fill.ends) {
        Some(fill) => format!(" as the snapshot filled from {:.0} to {:.0} %", fill.first, fill.last),
        None => String::new(),
    }
}

pub fn with_fill(case: &Case) -> Vec<Sentence> {
    if case.figures.read.is_none() || case.figures.fill.is_none() {
        return Vec::new();
    }
    match case.figures.read_by_fill {
        Relation::TooFew { n } => Sentence::one(
            Finding::TooFewPoints,
            format!("There are too few points to say whether the read speed went with the fill: {n}."),
        ),
        Relation::Unvaried { .. } => Vec::new(),
        Relation::Known(known) if known.is_seen() => went_with_fill(case, known),
        Relation::Known(known) => Sentence::one(
            Finding::ReadsDidNotGoWithFill,
            format!("It cannot be seen that the read speed went with the fill: {}.", certainty(known)),
        ),
    }
}

fn went_with_fill(case: &Case, known: Correlation) -> Vec<Sentence> {
    let together = case.figures.fill_by_time.filter(|rank| rank.abs() >= TOGETHER);
    let caution = together.map_or_else(String::new, |rank| {
        format!(
            " Fill and elapsed time grew together (rank correlation {rank:.2}), so it may as well have been \
             something else that changed with time."
        )
    });
    let text = format!(
        "For each percentage point of fill reads were {} {} ({}).{caution}",
        speed(known.slope.abs(), case.prefix),
        if known.slope < 0.0 { "slower" } else { "faster" },
        bounded(case, known),
    );
    Sentence::one(Finding::ReadsWentWithFill, text)
}

/// The rate of first writes goes up and down, so it can be told apart from time.
pub fn with_first_writes(case: &Case) -> Vec<Sentence> {
    let known = case.figures.read_by_first_writes.known();
    let Some(known) = known.filter(|known| known.is_seen() && known.slope < 0.0) else { return Vec::new() };
    let text = format!(
        "Reads were slower when more was written for the first time: for each byte by {:.1} bytes ({}).",
        known.slope.abs(),
        certainty(known),
    );
    Sentence::one(Finding::ReadsWentWithFirstWrites, text)
}

fn bounded(case: &Case, known: Correlation) -> String {
    let (a, b) = (known.slope_bounds.low.abs(), known.slope_bounds.high.abs());
    let bounds = crate::job::statistics::Bounds { low: a.min(b), high: a.max(b) };
    format!("95 % bounds {}; {}", speeds(bounds, case.prefix), certainty(known))
}

fn certainty(known: Correlation) -> String {
    let Correlation { rank, rank_bounds, n, .. } = known;
    format!(
        "rank correlation {rank:.2}, bounds {:.2} to {:.2}, {n} points",
        rank_bounds.low, rank_bounds.high
    )
}
