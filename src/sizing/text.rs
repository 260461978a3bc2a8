//! The sentences of the advice on a snapshot's size.

use super::advice::{HourRow, Risk, SizeRow};
use super::question::Question;
use super::{Curve, Measured};
use crate::units::{count_text, duration_text, size_text};

/// How the sizes are known.
pub fn basis(question: &Question) -> String {
    let runs = question
        .runs
        .iter()
        .filter(|run| !run.growth.0.is_empty())
        .count();
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
    let is_known = |curve: &Curve, bytes| {
        curve
            .growth(bytes)
            .is_some_and(|growth| !growth.0.is_empty())
    };
    let is_usable = |curve: &&Curve| curve.chunks.iter().any(|of| is_known(curve, of.bytes));
    let curves = measured.all().filter(is_usable).count();
    let first = measured.all().find(is_usable)?;
    let windows = count_text(curves, "measured window", "measured windows");
    Some(match &measured.now {
        Some(now) => {
            format!(
                "{windows}; writes are measured since {}",
                now.since.strftime("%Y-%m-%d %H:%M UTC")
            )
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
    if question.is_thin && !question.runs.is_empty() {
        text.push_str(" The growth of a pool during a snapshot is also that of its other volumes.");
    }
    let is_estimated = |measured: &Measured| measured.all().any(Curve::is_estimated);
    if question.measured.is_some_and(is_estimated) {
        text.push_str(
            " Sizes with ± are estimated from a part of the volume: the truth is within in 95 % of cases.",
        );
    }
    let uncovered = question
        .measured
        .and_then(|measured| measured.now.as_ref())
        .zip(question.origin_bytes);
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

/// The free space of the volume group, or of the pool and how much it loses.
pub fn room(question: &Question, row: Option<&SizeRow>) -> Option<String> {
    let free = question.free?;
    let needed = row.map(|row| row.suggested_bytes);
    let has = match (question.is_thin, row) {
        (true, Some(row)) => format!(
            "Within {}, the pool may grow by {}. It has {} free",
            duration_text(row.age_s),
            size_text(row.suggested_bytes),
            size_text(free)
        ),
        (true, None) => format!("The pool has {} free", size_text(free)),
        (false, _) => format!("Volume group {} has {} free", question.vg, size_text(free)),
    };
    Some(match needed.filter(|needed| *needed > free) {
        Some(_) if question.is_thin => format!("{has}, which is too little."),
        Some(needed) => format!("{has}, less than the suggested {}.", size_text(needed)),
        None => format!("{has}."),
    })
}

/// How the hours differ.
pub fn hours(age_s: f64, least: &HourRow, most: &HourRow, own: Option<&HourRow>) -> String {
    let time = |row: &HourRow| format!("{:02}:00 UTC", row.hour);
    let differ = format!(
        "The hour matters: within {}, snapshots made about {} need up to {}, and those made about {} up to {}.",
        duration_text(age_s),
        time(least),
        size_text(least.largest_bytes),
        time(most),
        size_text(most.largest_bytes)
    );
    match own {
        Some(own) => format!(
            "{differ} The suggested size, and what the table says of the usual age, is for {}, when its backups begin.",
            time(own)
        ),
        None => format!("{differ} The suggested size is for any hour."),
    }
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
    let whose = match (question.planned_bytes, question.configured_bytes) {
        (Some(_), _) => "as planned",
        (None, Some(_)) => "as mylvmbackup.conf says",
        (None, None) => "as the last one had",
    };
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
        Risk::Likely => format!(
            "The next snapshot of {origin} is likely to overflow: {}",
            needed()
        ),
    }
}
