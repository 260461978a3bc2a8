//! What the figures say of the disks, of production, and of the processors.

use super::{Case, Finding, Sentence, growth};
use crate::job::figures::{Ends, Figures, PvWork};
use crate::job::setup::Setup;
use crate::job::words::{ms, share, size, speed};

/// A PV that is busy for so much of the time has no room for more of the kind.
pub const BUSY: f64 = 0.9;
/// From here on copying costs half as much again as the writing itself.
pub const COSTLY: f64 = 1.5;
/// A PV that is idle for half of the time does not hold anybody up.
const AT_EASE: f64 = 0.5;
/// Half the size makes twice the requests for the same bytes.
const SHRUNK: f64 = 0.5;
/// Twice as long is felt.
const LONGER: f64 = 2.0;
/// Below that, twice as long is still quick.
const FELT_MS: f64 = 0.5;
/// A third less.
const FELL: f64 = 2.0 / 3.0;
/// Bytes a second: below, an origin is as good as idle, and its writes come and go.
const WORTH_A_WORD: f64 = 64.0 * 1024.0;
/// One whole processor, less what its counters lose.
const ONE_PROCESSOR: f64 = 0.9;
/// More of the time than not.
const OFTEN: f64 = 0.5;

pub fn requests_shrank(case: &Case) -> Vec<Sentence> {
    let shrank = |pv: &PvWork| {
        let sizes =
            pv.read_request_bytes.filter(|sizes| growth(*sizes).is_some_and(|grown| grown <= SHRUNK))?;
        let [first, last] = [sizes.first, sizes.last].map(size);
        let text = format!("The mean read request on {} fell from {first} to {last}.", pv.name);
        Some(Sentence { finding: Finding::RequestsShrank, text })
    };
    touched(case.figures).filter_map(shrank).collect()
}

pub fn awaits_grew(case: &Case) -> Vec<Sentence> {
    let grew = |pv: &PvWork| {
        let awaits = pv.read_await_ms.filter(|awaits| is_longer(*awaits))?;
        let [first, last] = [awaits.first, awaits.last].map(ms);
        let text = format!("A read on {} took {first} at the beginning and {last} at the end.", pv.name);
        Some(Sentence { finding: Finding::AwaitsGrew, text })
    };
    touched(case.figures).filter_map(grew).collect()
}

/// Why first writes are not there.
pub fn several_snapshots(case: &Case) -> Vec<Sentence> {
    let count = case.setup.snapshots.unwrap_or_default();
    if !case.setup.is_thick() || count < 2 || case.figures.copied.first_writes.is_some() {
        return Vec::new();
    }
    let text = format!(
        "{count} snapshots of the origin lived in that time: for which of them a chunk was copied the kernel does not \
         count, so first writes and chunks copied are not known. What was written to the COW area, and the write cost, \
         are of this snapshot alone."
    );
    Sentence::one(Finding::SeveralSnapshots, text)
}

pub fn write_cost(case: &Case) -> Vec<Sentence> {
    let Some(cost) = case.figures.copied.write_cost.filter(|cost| *cost >= COSTLY) else { return Vec::new() };
    let text = format!(
        "The origin's writes cost {cost:.1} bytes on disk for each byte written: what they overwrote was copied aside."
    );
    Sentence::one(Finding::WritesCostMore, text)
}

pub fn shared_pv_busy(case: &Case) -> Vec<Sentence> {
    let shared = case.figures.pvs.iter().filter(|pv| is_shared(pv));
    let said = busy(shared).map(|(pv, utilisation)| {
        let text = format!(
            "The COW area and the origin are on the same PV, {}, which was busy {} of the time.",
            pv.name,
            share(utilisation)
        );
        Sentence { finding: Finding::SharedPvBusy, text }
    });
    said.collect()
}

pub fn pv_busy(case: &Case) -> Vec<Sentence> {
    let alone = case.figures.pvs.iter().filter(|pv| !is_shared(pv));
    let said = busy(alone).map(|(pv, utilisation)| {
        let text = format!("PV {} was busy {} of the time.", pv.name, share(utilisation));
        Sentence { finding: Finding::PvBusy, text }
    });
    said.collect()
}

/// Against before the snapshot; after it is told too, where it is known.
pub fn writes_took_longer(case: &Case) -> Vec<Sentence> {
    let origin = &case.figures.origin;
    let Some((before, during)) = origin.before.write_await_ms.zip(origin.during.write_await_ms) else {
        return Vec::new();
    };
    if !is_longer(Ends { first: before, last: during }) {
        return Vec::new();
    }
    let after =
        origin.after.write_await_ms.map_or_else(String::new, |after| format!(", and {} after it", ms(after)));
    let text = format!(
        "A write to the origin took {} before the snapshot, {} with it{after}.",
        ms(before),
        ms(during)
    );
    Sentence::one(Finding::WritesTookLonger, text)
}

/// That less was written may be because less was asked for; the sentence says what was seen.
pub fn writes_fell(case: &Case) -> Vec<Sentence> {
    let origin = &case.figures.origin;
    let Some((before, during)) = origin.before.written_bytes_per_s.zip(origin.during.written_bytes_per_s)
    else {
        return Vec::new();
    };
    if before < WORTH_A_WORD || during > before * FELL {
        return Vec::new();
    }
    let rate = |bytes| speed(bytes, case.prefix);
    let after = origin
        .after
        .written_bytes_per_s
        .map_or_else(String::new, |after| format!(", and {} after it", rate(after)));
    let text = format!(
        "{} were written to the origin before the snapshot, {} with it{after}.",
        rate(before),
        rate(during)
    );
    Sentence::one(Finding::WritesFell, text)
}

pub fn processors(case: &Case) -> Vec<Sentence> {
    let Some((used, busiest)) = limiting_processors(case.figures, case.setup) else { return Vec::new() };
    let text = format!(
        "{used:.1} processors were at work, and the busiest PV only {} of the time: something that computes, such as a \
         compressor, seems to have been the limit rather than the disk.",
        share(busiest)
    );
    Sentence::one(Finding::ProcessorsWereTheLimit, text)
}

pub fn pressure(case: &Case) -> Vec<Sentence> {
    let Some(pressure) = case.figures.host.pressure_io.filter(|pressure| *pressure >= OFTEN) else {
        return Vec::new();
    };
    let text = format!("For {} of the time at least one process waited for I/O.", share(pressure));
    Sentence::one(Finding::WaitedForDisks, text)
}

/// Whether something that computes was the limit, and not a disk.
pub fn is_limited_by_processors(figures: &Figures, setup: &Setup) -> bool {
    limiting_processors(figures, setup).is_some()
}

/// How many processors were at work and how busy the busiest PV was, where the first seem to have been the limit. Not
/// where one of the two is unknown; nor where processes waited for I/O, which may have been for a disk that is no PV.
fn limiting_processors(figures: &Figures, setup: &Setup) -> Option<(f64, f64)> {
    let used = (figures.host.user? + figures.host.system?) * f64::from(setup.processors?);
    let utilisations: Option<Vec<f64>> = figures.pvs.iter().map(|pv| pv.utilisation).collect();
    let busiest = utilisations?.into_iter().reduce(f64::max)?;
    let waited = figures.host.pressure_io.is_some_and(|pressure| pressure >= OFTEN);
    let is_limit = figures.read.is_some() && used >= ONE_PROCESSOR && busiest <= AT_EASE && !waited;
    is_limit.then_some((used, busiest))
}

/// PVs that the job reads from, or may: not those that carry neither the origin nor its COW area.
fn touched(figures: &Figures) -> impl Iterator<Item = &PvWork> {
    let is_other = |pv: &&PvWork| pv.carries_origin == Some(false) && pv.carries_cow == Some(false);
    figures.pvs.iter().filter(move |pv| !is_other(pv))
}

fn is_shared(pv: &PvWork) -> bool {
    pv.carries_origin == Some(true) && pv.carries_cow == Some(true)
}

fn busy<'a>(pvs: impl Iterator<Item = &'a PvWork>) -> impl Iterator<Item = (&'a PvWork, f64)> {
    pvs.filter_map(|pv| Some((pv, pv.utilisation.filter(|utilisation| *utilisation >= BUSY)?)))
}

fn is_longer(awaits: Ends) -> bool {
    awaits.last >= awaits.first * LONGER && awaits.last - awaits.first >= FELT_MS
}
