//! Rules by fill: how full a snapshot or pool is, when it will be full, and whether a backup is done before.

use super::case::Case;
use super::rule::{Evaluation, evaluate as by_value};
use super::trend::{Expected, Forecast};
use super::{Rule, Severity};
use crate::config::Thresholds;
use crate::forecast::{EtaBasis, OutlookVerdict, Risk};
use crate::topology::State;
use crate::units::Fill;

/// Evaluates a rule of this family; returns its value too.
pub(super) fn evaluate(
    case: &Case,
    thresholds: Thresholds,
    raised: Option<Severity>,
) -> (Evaluation, Option<f64>) {
    match case.state.state {
        // The alert `SnapshotInvalid` covers it.
        State::Invalid | State::Inactive => return (Evaluation::Over, None),
        State::Unknown => return (Evaluation::Unchanged, None),
        _ => {}
    }
    let Some(percent) = case.fill().map(Fill::percent) else {
        return (Evaluation::Unchanged, None);
    };
    let (evaluation, value) = match (case.rule, case.forecast) {
        (Rule::TimeUntilFull, Some(forecast)) => time_until_full(forecast, thresholds, raised),
        (Rule::FullBeforeDone, Some(forecast)) => (full_before_done(forecast, raised), None),
        (Rule::TimeUntilFull | Rule::FullBeforeDone, None) => (Evaluation::Unchanged, None),
        _ => (
            by_value(case.rule, percent, thresholds, raised),
            Some(percent),
        ),
    };
    // What a backup always needs is no warning, if it will certainly be enough.
    let is_enough =
        case.rule.has_outlook() && case.forecast.as_ref().is_some_and(|it| it.is_done_first());
    match evaluation {
        Evaluation::Raised(Severity::Warning) if is_enough && raised.is_none() => {
            (Evaluation::Clear, value)
        }
        _ => (evaluation, value),
    }
}

/// An alert needs a forecast that looks no further ahead than a few times what was seen, since a short burst of writes
/// looks alarming. A critical one also needs that even the latest time is soon.
fn time_until_full(
    forecast: &Forecast,
    thresholds: Thresholds,
    raised: Option<Severity>,
) -> (Evaluation, Option<f64>) {
    let eta = match forecast.full {
        Expected::TooEarly => return (Evaluation::Unchanged, None),
        Expected::Far => return (Evaluation::Clear, None),
        Expected::Now => return (Evaluation::Raised(Severity::Critical), Some(0.0)),
        Expected::In(eta) => eta,
    };
    let Some(likely_s) = eta.likely_s else {
        return (Evaluation::Clear, None);
    };
    let is_certain = |severity| {
        let is_soon = eta
            .latest_s
            .is_some_and(|latest_s| latest_s <= thresholds.warning);
        eta.basis == EtaBasis::Tested && (severity == Severity::Warning || is_soon)
    };
    let evaluation = match by_value(Rule::TimeUntilFull, likely_s, thresholds, raised) {
        Evaluation::Raised(severity) if Some(severity) > raised && !is_certain(severity) => {
            match raised {
                None if is_certain(Severity::Warning) => Evaluation::Raised(Severity::Warning),
                _ => Evaluation::Unchanged,
            }
        }
        evaluation => evaluation,
    };
    (evaluation, Some(likely_s))
}

/// A critical race remains critical until it is decided.
fn full_before_done(forecast: &Forecast, raised: Option<Severity>) -> Evaluation {
    match forecast
        .backup
        .as_ref()
        .map(|(_, outlook)| (outlook.verdict, outlook.risk))
    {
        Some((OutlookVerdict::TooEarly, _)) => Evaluation::Unchanged,
        Some((_, Risk::High)) => Evaluation::Raised(Severity::Critical),
        Some((_, Risk::Race)) => Evaluation::Raised(raised.unwrap_or(Severity::Warning)),
        Some((_, Risk::Low)) => Evaluation::Clear,
        // The backup has ended.
        None => Evaluation::Over,
    }
}
