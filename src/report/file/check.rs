//! What a job may say of itself in a file: what this program could have seen, and nothing that a page, a terminal or a
//! database would stumble over.

use jiff::Timestamp;

use super::Unreadable;
use crate::job::{Job, MOST_NOTES};

/// Letters of a name: of a job, a volume, a disk, a host.
const LONGEST_NAME: usize = 200;
/// Letters of a path or a note.
const LONGEST_TEXT: usize = 1_000;
/// Names in a list, such as PVs or disks; a group seldom has more than some tens.
const MOST_NAMES: usize = 1_000;

/// Refuses what no job says.
pub fn job(job: &Job) -> Result<(), Unreadable> {
    times(job)?;
    for name in names(job) {
        letters("a name", name, LONGEST_NAME)?;
    }
    if let Some(path) = &job.mounted_on {
        letters("a path", path, LONGEST_TEXT)?;
    }
    if job.notes.len() > MOST_NOTES {
        return Err(absurd(format!("{MOST_NOTES} notes at most"), job.notes.len().to_string()));
    }
    for note in &job.notes {
        letters("a note", &note.text, LONGEST_TEXT)?;
    }
    for percent in [job.last_fill_percent, job.peak_fill_percent].into_iter().flatten() {
        if !(0.0..=100.0).contains(&percent) {
            return Err(absurd("a fill from 0 to 100 percent".into(), percent.to_string()));
        }
    }
    if job.label.as_ref().and_then(|label| label.repeat) == Some(0) {
        return Err(absurd("a repeat from 1".into(), "0".into()));
    }
    if job.exit_status.is_some_and(|status| !(0..=255).contains(&status)) {
        return Err(absurd("an exit status from 0 to 255".into(), format!("{:?}", job.exit_status)));
    }
    match job.bytes_read.filter(|bytes| i64::try_from(*bytes).is_err()) {
        Some(bytes) => Err(absurd("bytes read of some disks".into(), bytes.to_string())),
        None => Ok(()),
    }
}

fn times(job: &Job) -> Result<(), Unreadable> {
    let (Some(ended_at), Some(_)) = (job.ended_at, job.outcome) else {
        return Err(absurd("a job that is over, with its outcome".into(), "one that runs".into()));
    };
    if job.started_at < Timestamp::UNIX_EPOCH || ended_at < job.started_at {
        let found = format!("one from {} to {ended_at}", job.started_at);
        return Err(absurd("a job that began after 1970 and ended after that".into(), found));
    }
    Ok(())
}

fn names(job: &Job) -> Vec<&String> {
    let setup = &job.setup;
    let optional = [&job.vg, &job.lv, &job.origin, &job.program, &setup.host, &setup.kernel];
    let lists = setup.origin_pvs.iter().chain(&setup.cow_pvs).flatten().take(MOST_NAMES);
    let layouts = setup.origin_layout.iter().chain(&setup.cow_layout).map(|layout| &layout.kind);
    let label = job.label.iter().flat_map(|label| std::iter::once(&label.set).chain(&label.variant));
    let disks = setup.disks.iter().flatten().take(MOST_NAMES);
    let disks = disks.flat_map(|disk| [Some(&disk.name), disk.model.as_ref(), disk.scheduler.as_ref()]);
    let all = std::iter::once(&job.name).chain(optional.into_iter().flatten()).chain(lists).chain(layouts);
    all.chain(label).chain(disks.flatten()).collect()
}

/// A text without what a page, a terminal or a spreadsheet would take for more than letters.
pub fn letters(what: &str, text: &str, most: usize) -> Result<(), Unreadable> {
    let count = text.chars().count();
    if text.trim().is_empty() || count > most || text.chars().any(char::is_control) {
        let start: String = text.chars().take(20).filter(|letter| !letter.is_control()).collect();
        let expected = format!("{what} of 1 to {most} letters without control characters");
        return Err(absurd(expected, format!("{count} that begin with `{start}`")));
    }
    Ok(())
}

pub fn absurd(expected: String, found: String) -> Unreadable {
    Unreadable::Absurd { expected, found }
}
