//! Times until something happens, with their ranges: three families, whose rows say what the time is from.
//!
//! They are apart, since no sum or mean over all three would mean anything.

use std::fmt;

use super::family::{Families, Family, Labels};
use crate::forecast::{Eta, EtaBasis};

/// Families of the likely, the soonest and the latest time.
pub type EtaFamilies = [Family; 3];
/// Which of them, in this order.
const TIMES: [fn(&Eta) -> Option<f64>; 3] = [
    |eta| eta.likely_s,
    |eta| Some(eta.soonest_s),
    |eta| eta.latest_s,
];
/// The label that says what a time is from.
pub const BASIS: &str = "basis";

/// The label's value.
pub fn basis(basis: EtaBasis) -> &'static str {
    match basis {
        EtaBasis::Tested => "tested",
        EtaBasis::RecentSpeed => "recent_speed",
    }
}

/// Writes times of subjects.
pub fn encode<'a>(
    three: &EtaFamilies,
    rows: impl Iterator<Item = (&'a Labels, Eta)>,
    families: &mut Families,
) -> fmt::Result {
    let rows: Vec<(Labels, Eta)> = rows
        .map(|(labels, eta)| (labels.clone().with((BASIS, basis(eta.basis))), eta))
        .collect();
    for (family, time) in three.iter().zip(TIMES) {
        families.gauges(family, rows.iter().map(|(labels, eta)| (labels, time(eta))))?;
    }
    Ok(())
}
