//! What the figures say about the disks, the origin's writes, and the processors.

use super::{Case, Finding, Sentence, growth};
use crate::job::figures::{EndMeans, Figures, OriginWork, PvWork};
use crate::job::setup::Setup;
use crate::job::words::{ms, share, size, speed};

/// A PV that is busy for this share of the time has no room for more of the same.
pub const BUSY: f64 = 0.9;
/// From here on copying costs half as much again as the writing itself.
pub const COSTLY: f64 = 1.5;
/// A PV that is idle for half of the time is not the limit.
const AT_EASE: f64 = 0.5;
/// Half the size makes twice the requests for the same bytes.
const SHRUNK: f64 = 0.5;
/// Users notice when a request takes twice as long,
const LONGER: f64 = 2.0;
/// but not if it takes less than this much longer.
const FELT_MS: f64 = 0.5;
/// A third less.
const FELL: f64 = 2.0 / 3.0;
/// Bytes a second. An origin with less is as good as idle.
const WORTH_A_WORD: f64 = 64.0 * 1024.0;
/// One whole processor, less what its counters lose.
const ONE_PROCESSOR: f64 = 0.9;
/// More of the time than not.
const OFTEN: f64 = 0.5;

pub fn requests_shrank(case: &Case) -> Vec<Sentence> {
    let shrank = |pv: &PvWork| {
        let sizes = pv.read_request_bytes?;
        let [first, last] = [sizes.first, sizes.last].map(size);
        let text = format!("The mean read request on {} fell from {first} to {last}.", pv.name);
        (growth(sizes)? <= SHRUNK).then(|| Sentence::new(Finding::RequestsShrank, text))
    };
    touched(case.figures).filter_map(shrank).collect()
}

pub fn awaits_grew(case: &Case) -> Vec<Sentence> {
    let grew = |pv: &PvWork| {
        let awaits = pv.read_await_ms.filter(|awaits| is_longer(*awaits))?;
        let [first, last] = [awaits.first, awaits.last].map(ms);
        let text = format!("A read on {} took {first} at the beginning and {last} at the end.", pv.name);
        Some(Sentence::new(Finding::AwaitsGrew, text))
    };
    touched(case.figures).filter_map(grew).collect()
}

/// Why first writes are unknown.
pub fn several_snapshots(case: &Case) -> Option<Sentence> {
    let count = case.setup.snapshots.filter(|count| *count > 1 && case.setup.is_thick())?;
    let text = format!(
        "The origin had {count} snapshots. The kernel does not count for which of them a chunk was copied, so first \
         writes and chunks copied are unknown. COW writes and write cost are of this snapshot alone."
    );
    case.figures.copied.first_writes.is_none().then(|| Sentence::new(Finding::SeveralSnapshots, text))
}

pub fn write_cost(case: &Case) -> Option<Sentence> {
    let cost = case.figures.copied.write_cost.filter(|cost| *cost >= COSTLY)?;
    let text =
        format!("Each byte written to the origin cost {cost:.1} bytes on disk, because old data was copied.");
    Some(Sentence::new(Finding::WritesCostMore, text))
}

pub fn shared_pv_busy(case: &Case) -> Vec<Sentence> {
    busy(case.figures, Finding::SharedPvBusy, |pv, share| {
        format!("The COW area and the origin are on the same PV, {pv}, which was busy {share} of the time.")
    })
}

pub fn pv_busy(case: &Case) -> Vec<Sentence> {
    busy(case.figures, Finding::PvBusy, |pv, share| format!("PV {pv} was busy {share} of the time."))
}

pub fn writes_took_longer(case: &Case) -> Option<Sentence> {
    let (awaits, text) = beside_the_snapshot(case, |work| work.write_await_ms, ms)?;
    let text = format!("A write to the origin took {text}.");
    is_longer(awaits).then(|| Sentence::new(Finding::WritesTookLonger, text))
}

/// The cause may be that less was asked for, so the sentence names none.
pub fn writes_fell(case: &Case) -> Option<Sentence> {
    let rate = |bytes| speed(bytes, case.prefix);
    let (rates, text) = beside_the_snapshot(case, |work| work.written_bytes_per_s, rate)?;
    let fell = rates.first >= WORTH_A_WORD && rates.last <= rates.first * FELL;
    fell.then(|| Sentence::new(Finding::WritesFell, format!("The origin was written to at {text}.")))
}

pub fn processors(case: &Case) -> Option<Sentence> {
    let (used, busiest) = limiting_processors(case.figures, case.setup)?;
    let text = format!(
        "{used:.1} processors were busy, but the busiest PV only {} of the time: the limit was probably computation, \
         such as compression, and not a disk.",
        share(busiest)
    );
    Some(Sentence::new(Finding::ProcessorsWereTheLimit, text))
}

pub fn pressure(case: &Case) -> Option<Sentence> {
    let pressure = case.figures.host.pressure_io.filter(|pressure| *pressure >= OFTEN)?;
    let text = format!("At least one process waited for I/O {} of the time.", share(pressure));
    Some(Sentence::new(Finding::WaitedForDisks, text))
}

/// Whether computation was the limit, and not a disk.
pub fn is_limited_by_processors(figures: &Figures, setup: &Setup) -> bool {
    limiting_processors(figures, setup).is_some()
}

/// How many processors were busy, and how busy the busiest PV was, if processors were probably the limit. `None` if one
/// of the two is unknown, or if processes waited for I/O: that may have been for a disk that is no PV.
fn limiting_processors(figures: &Figures, setup: &Setup) -> Option<(f64, f64)> {
    let used = (figures.host.user? + figures.host.system?) * f64::from(setup.processors?);
    let utilisations: Option<Vec<f64>> = figures.pvs.iter().map(|pv| pv.utilisation).collect();
    let busiest = utilisations?.into_iter().reduce(f64::max)?;
    let waited = figures.host.pressure_io.is_some_and(|pressure| pressure >= OFTEN);
    let is_limit = figures.read.is_some() && used >= ONE_PROCESSOR && busiest <= AT_EASE && !waited;
    is_limit.then_some((used, busiest))
}

/// A mean of the origin before and with the snapshot, also in words; those add the mean after it, if known.
fn beside_the_snapshot(
    case: &Case,
    of: fn(OriginWork) -> Option<f64>,
    text: impl Fn(f64) -> String,
) -> Option<(EndMeans, String)> {
    let origin = &case.figures.origin;
    let means = EndMeans { first: of(origin.before)?, last: of(origin.during)? };
    let after = of(origin.after).map(|after| format!(", and {} after it", text(after)));
    let [before, during] = [means.first, means.last].map(text);
    Some((means, format!("{before} before the snapshot, {during} with it{}", after.unwrap_or_default())))
}

/// PVs that the job may read from: not those that carry neither the origin nor its COW area.
fn touched(figures: &Figures) -> impl Iterator<Item = &PvWork> {
    let is_other = |pv: &&PvWork| pv.carries_origin == Some(false) && pv.carries_cow == Some(false);
    figures.pvs.iter().filter(move |pv| !is_other(pv))
}

/// A sentence for each busy PV that this finding is of, from its name and for how much of the time it was busy.
fn busy(figures: &Figures, finding: Finding, text: impl Fn(&str, &str) -> String) -> Vec<Sentence> {
    let is_shared = |pv: &PvWork| pv.carries_origin == Some(true) && pv.carries_cow == Some(true);
    let pvs = figures.pvs.iter().filter(|pv| is_shared(pv) == (finding == Finding::SharedPvBusy));
    let busy = pvs.filter_map(|pv| Some((pv, pv.utilisation.filter(|busy| *busy >= BUSY)?)));
    busy.map(|(pv, utilisation)| Sentence::new(finding, text(&pv.name, &share(utilisation)))).collect()
}

fn is_longer(awaits: EndMeans) -> bool {
    awaits.last >= awaits.first * LONGER && awaits.last - awaits.first >= FELT_MS
}
