//! The sentences of the advice on a snapshot's size.

use super::advice::{Risk, SizeRow};
use super::question::Question;
use super::{Curve, Measured};
use crate::job::sizing::lvm_size;
use crate::units::{count_text, duration_text, size_text};

/// How the sizes are known.
pub fn basis(question: &Question) -> String {
    let runs = question.runs.len();
    let finished = || {
        format!(
            "{} of {}/{}",
            count_text(runs, "finished snapshot", "finished snapshots"),
            question.vg,
            question.lv
        )
    };
    match (runs, question.measured.and_then(measuring)) {
        (0, Some(measuring)) => format!("Known from {measuring}."),
        (_, Some(measuring)) => format!("Known from {}, and from {measuring}.", finished()),
        (_, None) => format!("Known from {}.", finished()),
    }
}

fn measuring(measured: &Measured) -> Option<String> {
    let is_usable = |curve: &&Curve| curve.chunks.iter().any(|of| curve.growth(of.bytes).is_some());
    let curves = measured.all().filter(is_usable).count();
    let first = measured.all().find(is_usable)?;
    let windows = count_text(curves, "measured window", "measured windows");
    Some(match &measured.now {
        Some(now) => {
            format!("{windows}; writes are measured since {}", now.since.strftime("%Y-%m-%d %H:%M UTC"))
        }
        None => format!(
            "{windows} since {}; writes are not measured now",
            first.at.strftime("%Y-%m-%d %H:%M UTC")
        ),
    })
}

/// The limits of the sizes.
pub fn limits(question: &Question) -> String {
    let mut text =
        "This holds if writing stays as on the recorded days. Bursts not seen before are not in it"
            .to_string();
    text.push_str(match question.measured {
        Some(_) => ", nor is the load of the backup itself.",
        None => ".",
    });
    let is_estimated = |measured: &Measured| measured.all().any(Curve::is_estimated);
    if question.measured.is_some_and(is_estimated) {
        text.push_str(
            " Sizes with ± are estimated from a part of the volume: the truth is within in 95 % of cases.",
        );
    }
    let uncovered = question.measured.and_then(|measured| measured.now.as_ref()).zip(question.origin_bytes);
    if let Some((now, bytes)) = uncovered.filter(|(now, bytes)| now.covered < *bytes) {
        text.push_str(&format!(
            " The last {} of the volume is not measured: run `cowbell size {}/{} --watch off`, then `--watch on`.",
            size_text(bytes - now.covered),
            question.vg,
            question.lv
        ));
    }
    text
}

/// The free space of the volume group or the pool.
pub fn room(question: &Question, row: Option<&SizeRow>) -> Option<String> {
    let free = question.free?;
    let place = if question.is_thin { "The pool".into() } else { format!("Volume group {}", question.vg) };
    let has = format!("{place} has {} free", size_text(free));
    Some(match row.map(|row| row.suggested_bytes) {
        Some(needed) if needed > free => format!("{has}, less than the suggested {}.", size_text(needed)),
        _ => format!("{has}."),
    })
}

pub fn setting(bytes: u64) -> String {
    format!("[lvm]\nlvsize={}", lvm_size(bytes))
}

/// Whether the next snapshot is large enough.
pub fn planned(
    question: &Question,
    bytes: u64,
    row: &SizeRow,
    (more, all): (usize, usize),
    risk: Risk,
) -> String {
    let origin = format!("{}/{}", question.vg, question.lv);
    let whose = if question.planned_bytes.is_some() { "as planned" } else { "as the last one had" };
    let (size, age) = (size_text(bytes), duration_text(row.age_s));
    let needed = || {
        let suggested = size_text(row.suggested_bytes);
        format!(
            "{size}, {whose}, is less than was needed within {age} in {more} of {all} cases. Use {suggested}."
        )
    };
    match risk {
        Risk::Low => format!(
            "{size}, {whose}, is enough for the next snapshot of {origin}: the most that was needed within {age} is {}.",
            size_text(row.largest_bytes)
        ),
        Risk::Possible => format!("The next snapshot of {origin} may overflow: {}", needed()),
        Risk::Likely => format!("The next snapshot of {origin} is likely to overflow: {}", needed()),
    }
}
