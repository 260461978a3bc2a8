//! Findings about the disks, the origin's writes, and the processors.

use super::{DiagnosisInput, Finding, FindingText, growth};
use crate::job::figures::{EndMeans, Figures, OriginWork, PvWork};
use crate::job::setup::Setup;
use crate::job::words::{ms, share, size, speed};

/// A PV that is busy for this share of the time has no capacity left.
pub const BUSY: f64 = 0.9;
/// From this write cost on, copying costs at least half as much as the writes themselves.
pub const COSTLY: f64 = 1.5;
/// A PV that is idle for half of the time is not the limit.
const AT_EASE: f64 = 0.5;
/// Half the size means twice the requests for the same bytes.
const SHRUNK: f64 = 0.5;
/// Users notice when a request takes twice as long, unless the increase is below `FELT_MS`.
const LONGER: f64 = 2.0;
const FELT_MS: f64 = 0.5;
/// A third less.
const FELL: f64 = 2.0 / 3.0;
/// Bytes a second. An origin with fewer writes is nearly idle.
const LEAST_WRITTEN: f64 = 64.0 * 1024.0;
/// One processor, less what its counters lose.
const ONE_PROCESSOR: f64 = 0.9;
/// More than half of the time.
const OFTEN: f64 = 0.5;

pub fn requests_shrank(case: &DiagnosisInput) -> Vec<FindingText> {
    let shrank = |pv: &PvWork| {
        let sizes = pv.read_request_bytes?;
        let [first, last] = [sizes.first, sizes.last].map(size);
        let text = format!(
            "The mean read request on {} fell from {first} to {last}.",
            pv.name
        );
        (growth(sizes)? <= SHRUNK).then_some((Finding::RequestsShrank, text))
    };
    touched(case.figures).filter_map(shrank).collect()
}

pub fn awaits_grew(case: &DiagnosisInput) -> Vec<FindingText> {
    let grew = |pv: &PvWork| {
        let awaits = pv.read_await_ms.filter(|awaits| is_longer(*awaits))?;
        let [first, last] = [awaits.first, awaits.last].map(ms);
        let text = format!(
            "A read on {} took {first} at the beginning and {last} at the end.",
            pv.name
        );
        Some((Finding::AwaitsGrew, text))
    };
    touched(case.figures).filter_map(grew).collect()
}

/// Why first writes are unknown.
pub fn several_snapshots(case: &DiagnosisInput) -> Option<FindingText> {
    let count = case
        .setup
        .snapshots
        .filter(|count| *count > 1 && case.setup.is_thick())?;
    let text = format!(
        "The origin had {count} snapshots. The kernel does not count copies by snapshot, so first writes and copied \
         chunks are unknown. COW writes and write cost are of this snapshot alone."
    );
    case.figures
        .copied
        .first_writes
        .is_none()
        .then_some((Finding::SeveralSnapshots, text))
}

pub fn write_cost(case: &DiagnosisInput) -> Option<FindingText> {
    let cost = case
        .figures
        .copied
        .write_cost
        .filter(|cost| *cost >= COSTLY)?;
    let text = format!(
        "Each byte written to the origin cost {cost:.1} bytes on disk, because old data was copied."
    );
    Some((Finding::WritesCostMore, text))
}

/// A sentence for each busy PV, first for those with both origin and COW area.
pub fn busy_pvs(case: &DiagnosisInput) -> Vec<FindingText> {
    let busy = case.figures.pvs.iter().filter_map(|pv| {
        let utilisation = share(pv.utilisation.filter(|busy| *busy >= BUSY)?);
        Some(match pv.is_shared() {
            true => (
                Finding::SharedPvBusy,
                format!(
                    "The COW area and the origin are both on PV {}. It was busy {utilisation} of the time.",
                    pv.name
                ),
            ),
            false => (Finding::PvBusy, format!("PV {} was busy {utilisation} of the time.", pv.name)),
        })
    });
    let mut busy: Vec<FindingText> = busy.collect();
    busy.sort_by_key(|(finding, _)| *finding == Finding::PvBusy);
    busy
}

pub fn writes_took_longer(case: &DiagnosisInput) -> Option<FindingText> {
    let (awaits, text) = before_and_during(case, |work| work.write_await_ms, ms)?;
    let text = format!("A write to the origin took {text}.");
    is_longer(awaits).then_some((Finding::WritesTookLonger, text))
}

/// The sentence names no cause: users may have written less.
pub fn writes_fell(case: &DiagnosisInput) -> Option<FindingText> {
    let rate = |bytes| speed(bytes, case.prefix);
    let (rates, text) = before_and_during(case, |work| work.written_bytes_per_s, rate)?;
    let fell = rates.first >= LEAST_WRITTEN && rates.last <= rates.first * FELL;
    fell.then(|| {
        (
            Finding::WritesFell,
            format!("Writes to the origin ran at {text}."),
        )
    })
}

pub fn processors(case: &DiagnosisInput) -> Option<FindingText> {
    let (used, busiest) = limiting_processors(case.figures, case.setup)?;
    let text = format!(
        "{used:.1} processors were busy, but the busiest PV only {} of the time. The limit was probably computation, \
         such as compression, and not a disk.",
        share(busiest)
    );
    Some((Finding::ProcessorsWereTheLimit, text))
}

pub fn pressure(case: &DiagnosisInput) -> Option<FindingText> {
    let pressure = case
        .figures
        .host
        .pressure_io
        .filter(|pressure| *pressure >= OFTEN)?;
    let text = format!(
        "At least one process waited for I/O {} of the time.",
        share(pressure)
    );
    Some((Finding::WaitedForDisks, text))
}

/// Whether computation was the limit, and not a disk.
pub fn is_limited_by_processors(figures: &Figures, setup: &Setup) -> bool {
    limiting_processors(figures, setup).is_some()
}

/// The number of busy processors and the utilisation of the busiest PV, if processors were probably the limit. `None` if
/// processes waited for I/O, which may have been on a disk that is no PV.
fn limiting_processors(figures: &Figures, setup: &Setup) -> Option<(f64, f64)> {
    let used = (figures.host.user? + figures.host.system?) * f64::from(setup.processors?);
    let utilisations: Option<Vec<f64>> = figures.pvs.iter().map(|pv| pv.utilisation).collect();
    let busiest = utilisations?.into_iter().reduce(f64::max)?;
    let waited = figures
        .host
        .pressure_io
        .is_some_and(|pressure| pressure >= OFTEN);
    let is_limit = figures.read.is_some() && used >= ONE_PROCESSOR && busiest <= AT_EASE && !waited;
    is_limit.then_some((used, busiest))
}

/// A mean of the origin before and with the snapshot, and as text; the text includes the mean after it, if known.
fn before_and_during(
    case: &DiagnosisInput,
    of: fn(OriginWork) -> Option<f64>,
    text: impl Fn(f64) -> String,
) -> Option<(EndMeans, String)> {
    let origin = &case.figures.origin;
    let means = EndMeans {
        first: of(origin.before)?,
        last: of(origin.during)?,
    };
    let after = of(origin.after).map(|after| format!(", and {} after it", text(after)));
    let [before, during] = [means.first, means.last].map(text);
    Some((
        means,
        format!(
            "{before} before the snapshot, {during} with it{}",
            after.unwrap_or_default()
        ),
    ))
}

/// The PVs that the job may have read from: all but those with neither origin nor COW area.
fn touched(figures: &Figures) -> impl Iterator<Item = &PvWork> {
    let is_other = |pv: &&PvWork| pv.carries_origin == Some(false) && pv.carries_cow == Some(false);
    figures.pvs.iter().filter(move |pv| !is_other(pv))
}

fn is_longer(awaits: EndMeans) -> bool {
    awaits.last >= awaits.first * LONGER && awaits.last - awaits.first >= FELT_MS
}
