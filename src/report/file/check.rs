//! What a job may say of itself in a file: what this program could have seen, and nothing that a page, a terminal or a
//! database would stumble over. Whatever table `job` demands in `migrations/` is demanded here, in a sentence.

use jiff::{SignedDuration, Timestamp};

use super::Unreadable;
use crate::job::phase::{BackupRun, Phase};
use crate::job::setup::Setup;
use crate::job::{Job, JobKind, MOST_NOTES, MOST_PHASES, Outcome};
use crate::source::{LONGEST_NAME, check_letters};

/// Letters of a path or a note.
const LONGEST_TEXT: usize = 1_000;
/// Names in a list, such as PVs or disks; a group seldom has more than some tens.
const MOST_NAMES: usize = 1_000;
/// A host's clock may be wrong by this.
const MOST_AHEAD: SignedDuration = SignedDuration::from_hours(24);
/// What is told of a job happened so long before or after it at most: hooks are heard before the snapshot is there.
const MOST_BESIDE: SignedDuration = SignedDuration::from_hours(24);
/// No file system or volume is larger: an EiB.
const MOST_BYTES: u64 = 1 << 60;
const MOST_READ_AHEAD_KIB: u64 = 1 << 30;
/// Processors, snapshots and stripes of a machine.
const MOST_COUNTED: u32 = 1 << 20;

/// Refuses what no job says; it cannot have ended after `now`.
pub fn job(job: &Job, now: Timestamp) -> Result<(), Unreadable> {
    times(job, now)?;
    instants(job)?;
    texts(job)?;
    notes(job, now)?;
    told_phases(job)?;
    setup(&job.setup)?;
    let is_run = job.kind == JobKind::Snapshot && job.outcome == Some(Outcome::Failed);
    expect(
        is_run || !job.made_no_snapshot(),
        "snapshots of the origin from 1, but of a run that failed",
        || "0".into(),
    )?;
    job.heard.as_ref().map_or(Ok(()), heard)?;
    expect(
        job.unmounted_at.is_none() || job.mounted_on.is_some(),
        "`mounted_on` beside `unmounted_at`",
        || "`unmounted_at` alone".into(),
    )?;
    for percent in [job.last_fill_percent, job.peak_fill_percent].into_iter().flatten() {
        expect((0.0..=100.0).contains(&percent), "a fill from 0 to 100 percent", || percent.to_string())?;
    }
    let repeat = job.label.as_ref().and_then(|label| label.repeat);
    expect(repeat != Some(0), "a repeat from 1", || "0".into())?;
    let status = job.exit_status.unwrap_or_default();
    expect((0..=255).contains(&status), "an exit status from 0 to 255", || status.to_string())?;
    let is_contrary = job.outcome == Some(Outcome::Succeeded) && status != 0;
    expect(!is_contrary, "exit status 0 of what succeeded", || status.to_string())?;
    bytes("bytes read of some disks", job.bytes_read.filter(|bytes| *bytes > 0))
}

fn times(job: &Job, now: Timestamp) -> Result<(), Unreadable> {
    let (Some(ended_at), Some(_)) = (job.ended_at, job.outcome) else {
        return Err(absurd("a job that is over, with its outcome".into(), "one that runs".into()));
    };
    let found = || format!("one from {} to {ended_at}", job.started_at);
    let is_in_order = job.started_at >= Timestamp::UNIX_EPOCH && ended_at >= job.started_at;
    expect(is_in_order, "a job that began after 1970 and ended after that", found)?;
    expect(!is_ahead(ended_at, now), "a job that is over by now", found)
}

/// What happened to it, or was heard of it, was within a day of it.
fn instants(job: &Job) -> Result<(), Unreadable> {
    let heard = job.heard.iter().flat_map(|heard| {
        let told = [heard.locked_from, heard.locked_until, heard.reported.map(|report| report.at)];
        let phases = heard.phases.iter().map(|begun| begun.at);
        phases.chain(told.into_iter().flatten()).chain([heard.first_at, heard.last_at])
    });
    let seen = [job.died_at, job.io_error_at, job.unmounted_at].into_iter().flatten();
    let seen = seen.chain(job.told_phases.iter().map(|phase| phase.at));
    let ended_at = job.ended_at.unwrap_or(job.started_at);
    for at in seen.chain(heard) {
        let is_near =
            job.started_at.duration_since(at) <= MOST_BESIDE && at.duration_since(ended_at) <= MOST_BESIDE;
        expect(is_near, "what happened to the job within a day of it", || at.to_string())?;
    }
    Ok(())
}

fn heard(heard: &BackupRun) -> Result<(), Unreadable> {
    expect(heard.run > 0, "the number of a run's process from 1", || "0".into())?;
    let is_lock = heard.locked_from.zip(heard.locked_until).is_none_or(|(from, until)| from <= until);
    expect(is_lock, "a lock that is given back after it was taken", || {
        "one that is given back before".into()
    })?;
    let place = |phase: Phase| Phase::ALL.iter().position(|other| *other == phase);
    let follows = heard
        .phases
        .windows(2)
        .all(|two| place(two[0].phase) < place(two[1].phase) && two[0].at <= two[1].at);
    expect(follows, "a run's phases in their order, each once", || {
        heard.phases.iter().take(6).map(|begun| begun.phase.text()).collect::<Vec<_>>().join(", ")
    })
}

fn texts(job: &Job) -> Result<(), Unreadable> {
    let setup = &job.setup;
    for list in [&setup.origin_pvs, &setup.cow_pvs].into_iter().flatten() {
        at_most("names of PVs", MOST_NAMES, list.len())?;
        list.iter().try_for_each(|name| letters("a PV's name", name, LONGEST_NAME))?;
    }
    for disk in setup.disks.iter().flatten() {
        let texts = [Some(&disk.name), disk.model.as_ref(), disk.scheduler.as_ref()];
        texts.into_iter().flatten().try_for_each(|text| letters("a disk's name", text, LONGEST_NAME))?;
    }
    let optional = [&job.vg, &job.lv, &job.origin, &job.program, &setup.host, &setup.kernel];
    let layouts = setup.origin_layout.iter().chain(&setup.cow_layout).map(|layout| &layout.kind);
    let label = job.label.iter().flat_map(|label| std::iter::once(&label.set).chain(&label.variant));
    let all = std::iter::once(&job.name).chain(optional.into_iter().flatten()).chain(layouts).chain(label);
    for name in all {
        letters("a name", name, LONGEST_NAME)?;
    }
    job.mounted_on.as_ref().map_or(Ok(()), |path| letters("a path", path, LONGEST_TEXT))
}

fn notes(job: &Job, now: Timestamp) -> Result<(), Unreadable> {
    at_most("notes", MOST_NOTES, job.notes.len())?;
    for note in &job.notes {
        letters("a note", &note.text, LONGEST_TEXT)?;
        let is_past = note.at >= Timestamp::UNIX_EPOCH && !is_ahead(note.at, now);
        expect(is_past, "a note on what was from 1970 to now", || note.at.to_string())?;
    }
    Ok(())
}

fn told_phases(job: &Job) -> Result<(), Unreadable> {
    at_most("phases", MOST_PHASES, job.told_phases.len())?;
    job.told_phases.iter().try_for_each(|phase| letters("a phase's name", &phase.name, LONGEST_NAME))?;
    let follows = job.told_phases.windows(2).all(|two| two[0].at <= two[1].at);
    expect(follows, "phases in the order of time", || "one that began before the one before it".into())
}

fn setup(setup: &Setup) -> Result<(), Unreadable> {
    at_most("disks", MOST_NAMES, setup.disks.as_ref().map_or(0, Vec::len))?;
    bytes("bytes of a chunk", setup.chunk_bytes)?;
    let sizes = [setup.cow_bytes, setup.origin_bytes, setup.file_system_bytes];
    sizes.into_iter().try_for_each(|size| bytes("bytes of a volume", size.filter(|bytes| *bytes > 0)))?;
    // A run that made no snapshot has none.
    let counts = [("processors", 1, setup.processors), ("snapshots of the origin", 0, setup.snapshots)];
    for (what, least, count) in counts {
        let is_one = count.is_none_or(|count| (least..=MOST_COUNTED).contains(&count));
        expect(is_one, &format!("{what} from {least} to {MOST_COUNTED}"), || {
            count.unwrap_or_default().to_string()
        })?;
    }
    let disks = setup.disks.iter().flatten().filter_map(|disk| disk.read_ahead_kib);
    for kib in disks.chain(setup.read_ahead_kib) {
        let expected = format!("a read-ahead of {MOST_READ_AHEAD_KIB} KiB at most");
        expect(kib <= MOST_READ_AHEAD_KIB, &expected, || kib.to_string())?;
    }
    let layouts = setup.origin_layout.iter().chain(&setup.cow_layout);
    for layout in layouts {
        bytes("bytes of a stripe", layout.stripe_bytes.filter(|bytes| *bytes > 0))?;
        at_most("stripes", MOST_COUNTED as usize, layout.stripes.unwrap_or_default() as usize)?;
    }
    Ok(())
}

fn is_ahead(at: Timestamp, now: Timestamp) -> bool {
    at.duration_since(now) > MOST_AHEAD
}

fn bytes(what: &str, count: Option<u64>) -> Result<(), Unreadable> {
    let is_some = count.is_none_or(|count| (1..=MOST_BYTES).contains(&count));
    expect(is_some, &format!("{what} from 1 to {MOST_BYTES}"), || count.unwrap_or_default().to_string())
}

pub fn at_most(what: &str, most: usize, found: usize) -> Result<(), Unreadable> {
    expect(found <= most, &format!("{most} {what} at most"), || found.to_string())
}

pub fn expect(is_so: bool, expected: &str, found: impl FnOnce() -> String) -> Result<(), Unreadable> {
    if is_so { Ok(()) } else { Err(absurd(expected.into(), found())) }
}

/// A text without what a page, a terminal or a spreadsheet would take for more than letters.
pub fn letters(what: &str, text: &str, most: usize) -> Result<(), Unreadable> {
    check_letters(what, text, most).map_err(|_| {
        let start: String = text.chars().take(20).filter(|letter| letter.is_ascii_graphic()).collect();
        let expected = format!("{what} of 1 to {most} letters without control characters");
        absurd(expected, format!("{} that begin with `{start}`", text.chars().count()))
    })
}

pub fn absurd(expected: String, found: String) -> Unreadable {
    Unreadable::Absurd { expected, found }
}
