//! The wording of alerts about volumes, for values and for placeholders alike: a built-in alert fills in names and numbers,
//! and an exported rule what Prometheus replaces. So both say the same.

use std::fmt::Display;

use super::{Rule, Severity};
use crate::config::{Measure, Thresholds};
use crate::forecast::{Outlook, OutlookVerdict, Risk};
use crate::topology::{State, VolumeKind};
use crate::units::{duration_text, rough_text};

/// The end of a sentence on a full pool.
pub const THEN_WRITES_FAIL: &str = ", then writes to its volumes fail";
/// What writes to a full pool do by default.
pub const WAIT_THEN_FAIL: &str = "wait for a minute, then fail";
/// A remedy if sizes are unknown.
pub const EXTEND: &str = "Extend it with `lvextend`.";

/// What the sentences of a rule are about.
pub fn subject(rule: Rule, kind: VolumeKind) -> &'static str {
    match rule {
        Rule::PoolMetadata => "Metadata of thin pool",
        _ => kind.noun(),
    }
}

/// In the middle of a sentence.
pub fn lower(subject: &str) -> String {
    match subject.strip_prefix("VDO") {
        Some(_) => subject.into(),
        None => subject.to_lowercase(),
    }
}

/// `Snapshot vg0/snap is 71.20 % full (warning from 70 %)`
pub fn full(
    subject: &str,
    name: &str,
    percent: impl Display,
    rule: Rule,
    severity: Severity,
    thresholds: Thresholds,
) -> String {
    let from = match severity {
        Severity::Warning => format!("warning from {} %", thresholds.warning),
        Severity::Critical => format!("critical from {} %", thresholds.critical),
    };
    let level = if rule.measure() == Measure::Percent {
        format!(" ({from})")
    } else {
        String::new()
    };
    format!("{subject} {name} is {percent} % full{level}")
}

/// What happens to a full volume.
pub fn end(kind: VolumeKind) -> &'static str {
    if kind.is_thick_snapshot() {
        "will overflow"
    } else {
        "will be full"
    }
}

/// What a backup does in the meantime: `, the backup needs about 8 min more, so it will be lost`
pub fn meanwhile(outlook: &Outlook, is_snapshot: bool) -> String {
    let needs = match outlook.done.and_then(|done| done.likely_s) {
        Some(done_s) => format!(", the backup needs about {} more", rough_text(done_s)),
        None => String::new(),
    };
    let then = match (outlook.verdict, outlook.risk) {
        (OutlookVerdict::DoneFirst, _) => ", so it will be done first",
        (OutlookVerdict::FullFirst, _) if is_snapshot => ", so it will be lost",
        (_, Risk::High) if is_snapshot => ", so it will probably be lost",
        (_, Risk::Race) => ": a race",
        (OutlookVerdict::Open, Risk::Low) if is_snapshot && !needs.is_empty() => {
            ", so it will probably be done first"
        }
        _ if is_snapshot => "",
        _ => THEN_WRITES_FAIL,
    };
    needs + then
}

/// A remedy for a volume whose size is unknown.
pub fn extend(name: &str) -> String {
    format!("Extend it with `lvextend` (`lvs {name}` shows its size), or stop the writes.")
}

/// `of` is ` of ` and the origin, or empty.
pub fn invalid(name: &str, of: &str, size: impl Display) -> String {
    format!(
        "Snapshot {name}{of} is invalid: it overflowed, or its COW area had an I/O error. Any backup that reads it is lost. \
         Unmount it, and remove it with `lvremove {name}`. If it overflowed, make the next one larger than {size}."
    )
}

pub fn merge_failed(name: &str) -> String {
    format!(
        "The merge of a snapshot into {name} failed. See the kernel's log for I/O errors, then deactivate and activate {name} to \
         continue the merge."
    )
}

/// `remedy` is for a pool without space, and may be empty.
pub fn pool_state(state: State, subject: &str, name: &str, writes: &str, remedy: &str) -> String {
    let repair = format!("deactivate it and its volumes, and run `lvconvert --repair {name}`");
    match state {
        State::OutOfData => {
            format!(
                "{subject} {name} is out of data space: writes to its volumes {writes}. {remedy}"
            )
        }
        State::ReadOnly => {
            let remedy = if remedy.is_empty() {
                remedy.into()
            } else {
                format!(" If its metadata is full: {remedy}")
            };
            format!(
                "{subject} {name} is read-only: its metadata is full, or cannot be written. Writes to its volumes fail.{remedy}"
            )
        }
        State::NeedsCheck => format!(
            "The metadata of {} {name} needs a check, since it could not be written. Writes to its volumes fail. To repair it, \
             {repair}.",
            lower(subject)
        ),
        _ => format!(
            "{subject} {name} has failed: its metadata is damaged, or cannot be read. All I/O of its volumes fails. See the \
             kernel's log; to repair it, {repair}."
        ),
    }
}

pub fn old(name: &str, of: &str, age: impl Display, thresholds: Thresholds) -> String {
    let limit = duration_text(thresholds.warning);
    format!(
        "Snapshot {name}{of} is {age} old (warning from {limit}). {} if it is not needed.",
        slows(name, of)
    )
}

pub fn left_over(name: &str, of: &str) -> String {
    format!(
        "Snapshot {name}{of} still exists, although its backup has ended. {}.",
        slows(name, of)
    )
}

fn slows(name: &str, of: &str) -> String {
    format!(
        "It slows down writes{}. Remove it with `lvremove {name}`",
        of.replacen(" of", " to", 1)
    )
}
