//! Explains a job's figures in sentences, one per rule: how fast it read, why, what that cost, what else. A rule finds
//! nothing if a figure is unknown, or if the difference is too small to matter. A rank correlation is never called a cause.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::figures::{EndMeans, Figures, OriginWork, PvWork};
use super::setup::Setup;
use crate::statistics::{Correlation, Relation, Trend};
use crate::units::{bytes_text, ms_text, share_text, speed_text};

/// Ratios up to this are ordinary variation. Of requests whose sizes differ by more, times are not compared.
const SAME_SPEED: f64 = 1.2;
/// A speed that falls by a third needs an explanation.
const SLOWED: f64 = 1.5;
/// Below this known share, the gaps may hide what happened.
const WELL_KNOWN: f64 = 0.9;
/// From this rank correlation of fill and time on, either may explain the speed.
const TOGETHER: f64 = 0.9;
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    pub finding: Finding,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    NothingRead,
    PartlyKnown,
    ReadsSlowed,
    ReadsQuickened,
    ReadsKeptTheirSpeed,
    ReadsVaried,
    ReadsWentWithFill,
    ReadsDidNotGoWithFill,
    TooFewPoints,
    ReadsWentWithFirstWrites,
    RequestsShrank,
    AwaitsGrew,
    SeveralSnapshots,
    WritesCostMore,
    SharedPvBusy,
    PvBusy,
    WritesTookLonger,
    WritesFell,
    ProcessorsWereTheLimit,
    WaitedForDisks,
}

pub fn diagnosis(figures: &Figures, setup: &Setup) -> Vec<Explanation> {
    let mut diagnosis = Diagnosis {
        figures,
        setup,
        found: Vec::new(),
    };
    diagnosis.reading();
    diagnosis.reading_by_fill();
    diagnosis.reading_by_first_writes();
    diagnosis.read_requests();
    diagnosis.read_times();
    diagnosis.copying();
    diagnosis.busy_pvs();
    diagnosis.origin_writes();
    diagnosis.processors();
    diagnosis.found
}

struct Diagnosis<'a> {
    figures: &'a Figures,
    setup: &'a Setup,
    found: Vec<Explanation>,
}

impl Diagnosis<'_> {
    fn say(&mut self, finding: Finding, text: String) {
        self.found.push(Explanation { finding, text });
    }

    fn reading(&mut self) {
        let Some(read) = self.figures.read else {
            let from = if self.setup.kind.is_some() {
                " from the snapshot"
            } else {
                ""
            };
            if !self.setup.made_no_snapshot() {
                self.say(
                    Finding::NothingRead,
                    format!("No reads{from} were observed."),
                );
            }
            return;
        };
        if read.known_share < WELL_KNOWN {
            let text = format!(
                "The read speed is known for {} of the time. The figures below cover only that time.",
                share_text(read.known_share)
            );
            self.say(Finding::PartlyKnown, text);
        }
        let Some(ends) = read.ends else { return };
        let Some(grown) = growth(ends) else { return };
        let [first, last] = [ends.first, ends.last].map(speed_text);
        // A backup may begin and end with small files, and be much faster in between: that is no trend.
        let ordinary =
            ends.first.min(ends.last) / SAME_SPEED..=ends.first.max(ends.last) * SAME_SPEED;
        let mean = read.speed.mean;
        if !ordinary.contains(&mean) {
            let mean = speed_text(mean);
            let text = format!(
                "Read speed varied: {first} at the beginning, {last} at the end, {mean} on average."
            );
            self.say(Finding::ReadsVaried, text);
        } else if grown <= 1.0 / SLOWED {
            let as_it_filled = self.as_it_filled();
            let text = format!("Reads slowed from {first} to {last}{as_it_filled}.");
            self.say(Finding::ReadsSlowed, text);
        } else if grown >= SLOWED {
            let text = format!("Reads sped up from {first} to {last}.");
            self.say(Finding::ReadsQuickened, text);
        } else if (1.0 / SAME_SPEED..=SAME_SPEED).contains(&grown) {
            let text =
                format!("Read speed stayed the same: {first} at the beginning, {last} at the end.");
            self.say(Finding::ReadsKeptTheirSpeed, text);
        }
    }

    /// Empty unless the correlation over the whole job shows it.
    fn as_it_filled(&self) -> String {
        if self.figures.read_by_fill.falling().is_some()
            && let Some(fill) = self.figures.fill.and_then(|fill| fill.ends)
        {
            let (first, last) = (fill.first, fill.last);
            return format!(" as the snapshot filled from {first:.0} to {last:.0} %");
        }
        String::new()
    }

    fn reading_by_fill(&mut self) {
        if self.figures.read.is_none() || self.figures.fill.is_none() {
            return;
        }
        match self.figures.read_by_fill {
            Relation::TooFew { n } => {
                let text =
                    format!("Too few points ({n}) to say whether read speed depended on fill.");
                self.say(Finding::TooFewPoints, text);
            }
            Relation::Unvaried { .. } => {}
            Relation::Narrow { .. } => {
                let text = "The fill changed too little to say whether read speed depended on it.";
                self.say(Finding::TooFewPoints, text.into());
            }
            Relation::Correlation(Correlation {
                n, trend, slope, ..
            }) => {
                let speed = speed_text(slope.abs());
                let slower = match trend {
                    Trend::Falling => "slower",
                    Trend::Rising => "faster",
                    Trend::Unclear => {
                        let text = format!("Read speed shows no relation to fill ({n} points).");
                        return self.say(Finding::ReadsDidNotGoWithFill, text);
                    }
                };
                let by_time = self.figures.fill_by_time.unwrap_or_default();
                let caution = if by_time.abs() >= TOGETHER {
                    " Fill grew steadily with time, so anything else that changed over time may be the cause."
                } else {
                    ""
                };
                let text = format!(
                    "Reads were {speed} {slower} for each percentage point of fill ({n} points).{caution}"
                );
                self.say(Finding::ReadsWentWithFill, text);
            }
        }
    }

    /// First writes rise and fall during a job, so elapsed time alone cannot explain this correlation.
    fn reading_by_first_writes(&mut self) {
        if let Some(found) = self.figures.read_by_first_writes.falling() {
            let text = format!(
                "Reads were slower when there were more first writes. For each byte first written, {:.1} bytes less were \
                 read ({} points).",
                found.slope.abs(),
                found.n
            );
            self.say(Finding::ReadsWentWithFirstWrites, text);
        }
    }

    fn read_requests(&mut self) {
        for pv in touched(self.figures) {
            if let Some(sizes) = pv.read_request_bytes
                && growth(sizes).is_some_and(|grown| grown <= SHRUNK)
            {
                let [first, last] = [sizes.first, sizes.last].map(bytes_text);
                let text = format!(
                    "The mean read request on {} fell from {first} to {last}.",
                    pv.name
                );
                self.say(Finding::RequestsShrank, text);
            }
        }
    }

    fn read_times(&mut self) {
        for pv in touched(self.figures) {
            if let Some(awaits) = pv.read_await_ms
                && is_longer(awaits)
                && pv.read_request_bytes.is_some_and(are_alike)
            {
                let [first, last] = [awaits.first, awaits.last].map(ms_text);
                let text = format!(
                    "A read on {} took {first} at the beginning and {last} at the end.",
                    pv.name
                );
                self.say(Finding::AwaitsGrew, text);
            }
        }
    }

    fn copying(&mut self) {
        let copied = self.figures.copied;
        if let Some(count) = self.setup.snapshots
            && count > 1
            && self.setup.is_thick()
            && copied.first_writes.is_none()
        {
            let text = format!(
                "The origin had {count} snapshots. The kernel does not count copies by snapshot, so first writes and \
                 copied chunks are unknown. COW writes and write cost are of this snapshot alone."
            );
            self.say(Finding::SeveralSnapshots, text);
        }
        if let Some(cost) = copied.write_cost
            && cost >= COSTLY
        {
            let text = format!(
                "Each byte written to the origin cost {cost:.1} bytes on disk, because old data was copied."
            );
            self.say(Finding::WritesCostMore, text);
        }
    }

    /// First those with both origin and COW area.
    fn busy_pvs(&mut self) {
        let mut others = Vec::new();
        for pv in &self.figures.pvs {
            let Some(busy) = pv.utilisation.filter(|busy| *busy >= BUSY) else {
                continue;
            };
            let (name, busy) = (&pv.name, share_text(busy));
            if pv.is_shared() {
                let text = format!(
                    "The COW area and the origin are both on PV {name}. It was busy {busy} of the time."
                );
                self.say(Finding::SharedPvBusy, text);
            } else {
                others.push(format!("PV {name} was busy {busy} of the time."));
            }
        }
        for text in others {
            self.say(Finding::PvBusy, text);
        }
    }

    fn origin_writes(&mut self) {
        if let Some((awaits, text)) = self.before_and_during(|work| work.write_await_ms, ms_text)
            && is_longer(awaits)
            && self.origin_writes_are_alike()
        {
            let text = format!("A write to the origin took {text}.");
            self.say(Finding::WritesTookLonger, text);
        }
        // The sentence names no cause: users may have written less.
        if let Some((rates, text)) =
            self.before_and_during(|work| work.written_bytes_per_s, speed_text)
            && rates.first >= LEAST_WRITTEN
            && rates.last <= rates.first * FELL
        {
            let text = format!("Writes to the origin ran at {text}.");
            self.say(Finding::WritesFell, text);
        }
    }

    /// A write of 59 KiB takes longer than its pieces of 4 KiB, into which a snapshot may split it.
    fn origin_writes_are_alike(&self) -> bool {
        let sizes = self.before_and_during(|work| work.write_request_bytes, bytes_text);
        sizes.is_some_and(|(sizes, _)| are_alike(sizes))
    }

    /// A mean of the origin before and with the snapshot, and as text; the text includes the mean after it, if known.
    fn before_and_during(
        &self,
        of: fn(OriginWork) -> Option<f64>,
        text: fn(f64) -> String,
    ) -> Option<(EndMeans, String)> {
        let origin = &self.figures.origin;
        let means = EndMeans {
            first: of(origin.before)?,
            last: of(origin.during)?,
        };
        let [before, during] = [means.first, means.last].map(text);
        let mut said = format!("{before} before the snapshot, {during} with it");
        if let Some(after) = of(origin.after) {
            said += &format!(", and {} after it", text(after));
        }
        Some((means, said))
    }

    fn processors(&mut self) {
        if let Some((used, busiest)) = limiting_processors(self.figures, self.setup) {
            let text = format!(
                "{used:.1} processors were busy, but the busiest PV only {} of the time. The limit was probably \
                 computation, such as compression, and not a disk.",
                share_text(busiest)
            );
            self.say(Finding::ProcessorsWereTheLimit, text);
        }
        if let Some(pressure) = self.figures.host.pressure_io
            && pressure >= OFTEN
        {
            let text = format!(
                "At least one process waited for I/O {} of the time.",
                share_text(pressure)
            );
            self.say(Finding::WaitedForDisks, text);
        }
    }
}

/// Whether computation was the limit, and not a disk.
pub fn is_limited_by_processors(figures: &Figures, setup: &Setup) -> bool {
    limiting_processors(figures, setup).is_some()
}

/// The number of busy processors and the utilisation of the busiest PV, if processors were probably the limit. `None` if
/// processes waited for I/O, which may have been on a disk that is no PV.
fn limiting_processors(figures: &Figures, setup: &Setup) -> Option<(f64, f64)> {
    let host = figures.host;
    let used = (host.user? + host.system?) * f64::from(setup.processors?);
    let utilisations: Option<Vec<f64>> = figures.pvs.iter().map(|pv| pv.utilisation).collect();
    let busiest = utilisations?.into_iter().reduce(f64::max)?;
    let waited = host.pressure_io.is_some_and(|share| share >= OFTEN);
    let is_limit = figures.read.is_some() && used >= ONE_PROCESSOR && busiest <= AT_EASE && !waited;
    is_limit.then_some((used, busiest))
}

/// The ratio of the last to the first; `None` if the first is 0.
fn growth(ends: EndMeans) -> Option<f64> {
    (ends.first > 0.0).then(|| ends.last / ends.first)
}

/// The PVs that the job may have read from: all but those with neither origin nor COW area.
fn touched(figures: &Figures) -> impl Iterator<Item = &PvWork> {
    let is_other = |pv: &&PvWork| pv.carries_origin == Some(false) && pv.carries_cow == Some(false);
    figures.pvs.iter().filter(move |pv| !is_other(pv))
}

fn is_longer(awaits: EndMeans) -> bool {
    awaits.last >= awaits.first * LONGER && awaits.last - awaits.first >= FELT_MS
}

fn are_alike(sizes: EndMeans) -> bool {
    growth(sizes).is_some_and(|grown| (1.0 / SAME_SPEED..=SAME_SPEED).contains(&grown))
}

#[cfg(test)]
mod tests {
    //! Each sentence where its numbers carry it, and silence where they do not.

    use super::*;
    use crate::job::figures::OriginWork;
    use crate::job::tests::example::{MIB, setup, slow_figures, slowing};

    fn example() -> Figures {
        slow_figures().clone()
    }

    fn texts(figures: &Figures, finding: Finding) -> Vec<String> {
        let sentences = diagnosis(figures, &setup()).into_iter();
        sentences
            .filter(|sentence| sentence.finding == finding)
            .map(|sentence| sentence.text)
            .collect()
    }

    fn check(figures: &Figures, finding: Finding, expected: &str) {
        assert_eq!(texts(figures, finding), [expected]);
    }

    fn relation(slope: f64, rank: f64, trend: Trend) -> Relation {
        Relation::Correlation(Correlation {
            n: 480,
            slope,
            intercept: 0.0,
            explained: 0.5,
            rank,
            independent: 60.0,
            trend,
        })
    }

    #[test]
    fn a_slow_backup_is_explained() {
        let texts: Vec<String> = diagnosis(&example(), &setup())
            .into_iter()
            .map(|sentence| sentence.text)
            .collect();
        assert_eq!(
            texts[0],
            "Reads slowed from 114 MiB/s to 19.7 MiB/s as the snapshot filled from 3 to 57 %."
        );
        assert!(texts[1].starts_with("Reads were 1.7"));
        assert!(
            texts[1].ends_with("so anything else that changed over time may be the cause."),
            "{}",
            texts[1]
        );
        assert_eq!(
            texts[2..],
            [
                "The mean read request on sda fell from 487 KiB to 39.8 KiB.",
                "Each byte written to the origin cost 2.9 bytes on disk, because old data was copied.",
                "The COW area and the origin are both on PV sda. It was busy 98 % of the time.",
                "A write to the origin took 2.00 ms before the snapshot, 9.00 ms with it, and 2.00 ms after it.",
                "At least one process waited for I/O 70 % of the time.",
            ]
        );
    }

    #[test]
    fn times_are_compared_only_for_requests_of_one_size() {
        let mut figures = example();
        let same = EndMeans {
            first: 40960.0,
            last: 38000.0,
        };
        figures.pvs[0].read_request_bytes = Some(same);
        check(
            &figures,
            Finding::AwaitsGrew,
            "A read on sda took 2.50 ms at the beginning and 11.5 ms at the end.",
        );
        figures.origin.before.write_request_bytes = Some(59.0 * 1024.0);
        figures.origin.during.write_request_bytes = Some(4096.0);
        assert_eq!(texts(&figures, Finding::WritesTookLonger).len(), 0);
    }

    #[test]
    fn without_figures_only_missing_reads_are_reported() {
        let span = crate::job::time_series::TickColumns::new(Vec::new()).unwrap();
        let time_series = crate::job::time_series::JobTimeSeries {
            before: None,
            during: span,
            after: None,
            took_s: None,
        };
        let found = diagnosis(
            &Figures::of(&time_series, &Setup::default()),
            &Setup::default(),
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].text, "No reads were observed.");
    }

    #[test]
    fn the_fill_is_omitted_without_a_correlation() {
        let mut figures = example();
        figures.read_by_fill = relation(-1e6, -0.1, Trend::Unclear);
        check(
            &figures,
            Finding::ReadsSlowed,
            "Reads slowed from 114 MiB/s to 19.7 MiB/s.",
        );
        check(
            &figures,
            Finding::ReadsDidNotGoWithFill,
            "Read speed shows no relation to fill (480 points).",
        );
    }

    #[test]
    fn too_few_points_are_reported() {
        let figures = Figures::of(&slowing(12), &setup());
        check(
            &figures,
            Finding::TooFewPoints,
            "Too few points (12) to say whether read speed depended on fill.",
        );
        assert_eq!(texts(&figures, Finding::ReadsWentWithFill).len(), 0);
    }

    #[test]
    fn several_snapshots_explain_unknown_first_writes() {
        let mut figures = example();
        figures.copied.first_writes = None;
        let of = |snapshots| {
            let setup = Setup {
                snapshots: Some(snapshots),
                ..setup()
            };
            diagnosis(&figures, &setup)
                .into_iter()
                .map(|sentence| sentence.text)
                .collect::<Vec<_>>()
        };
        let expected = "The origin had 2 snapshots. The kernel does not count copies by snapshot, so first writes and \
                copied chunks are unknown. COW writes and write cost are of this snapshot alone.";
        assert!(of(2).iter().any(|text| text == expected), "{:?}", of(2));
        assert!(!of(1).iter().any(|text| text.contains("The origin had")));
    }

    #[test]
    fn steady_reads_are_reported() {
        let mut figures = example();
        let read = figures.read.as_mut().unwrap();
        read.ends = Some(EndMeans {
            first: 118.0 * MIB,
            last: 112.0 * MIB,
        });
        read.speed.mean = 115.0 * MIB;
        check(
            &figures,
            Finding::ReadsKeptTheirSpeed,
            "Read speed stayed the same: 118 MiB/s at the beginning, 112 MiB/s at the end.",
        );
        figures.read.as_mut().unwrap().speed.mean = 300.0 * MIB;
        check(
            &figures,
            Finding::ReadsVaried,
            "Read speed varied: 118 MiB/s at the beginning, 112 MiB/s at the end, 300 MiB/s on average.",
        );
        figures.read.as_mut().unwrap().ends = Some(EndMeans {
            first: 118.0 * MIB,
            last: 90.0 * MIB,
        });
        let kept = [
            Finding::ReadsKeptTheirSpeed,
            Finding::ReadsSlowed,
            Finding::ReadsQuickened,
        ];
        assert!(
            kept.iter()
                .all(|finding| texts(&figures, *finding).is_empty()),
            "neither the same nor a change"
        );
    }

    #[test]
    fn first_writes_that_slow_reads_are_reported() {
        let mut figures = example();
        figures.read_by_first_writes = relation(-4.2, -0.8, Trend::Falling);
        check(
            &figures,
            Finding::ReadsWentWithFirstWrites,
            "Reads were slower when there were more first writes. For each byte first written, 4.2 bytes less were read (\
         480 points).",
        );
    }

    #[test]
    fn a_busy_compressor_is_no_slow_disk() {
        let mut figures = example();
        (figures.host.user, figures.host.pressure_io) = (Some(0.24), Some(0.1));
        assert!(
            texts(&figures, Finding::ProcessorsWereTheLimit).is_empty(),
            "sda is busy"
        );
        figures.pvs[0].utilisation = Some(0.2);
        check(
            &figures,
            Finding::ProcessorsWereTheLimit,
            "1.2 processors were busy, but the busiest PV only 20 % of the time. The limit was probably computation, such \
         as compression, and not a disk.",
        );
        figures.host.pressure_io = Some(0.7);
        assert!(
            texts(&figures, Finding::ProcessorsWereTheLimit).is_empty(),
            "a disk that is no PV may have been"
        );
        figures.host.pressure_io = None;
        figures.pvs[1].utilisation = None;
        assert!(
            texts(&figures, Finding::ProcessorsWereTheLimit).is_empty(),
            "sdb may have been busy"
        );
    }

    #[test]
    fn a_busy_pv_is_shared_only_if_known() {
        let mut figures = example();
        figures.pvs[0].carries_cow = None;
        assert!(texts(&figures, Finding::SharedPvBusy).is_empty());
        check(
            &figures,
            Finding::PvBusy,
            "PV sda was busy 98 % of the time.",
        );
    }

    #[test]
    fn without_a_time_before_production_is_not_compared() {
        let mut figures = example();
        figures.origin.before = OriginWork::default();
        assert!(texts(&figures, Finding::WritesTookLonger).is_empty());
    }

    #[test]
    fn fewer_production_writes_are_reported_with_rates() {
        let mut figures = example();
        figures.origin.during.written_bytes_per_s = Some(0.4 * MIB);
        check(
            &figures,
            Finding::WritesFell,
            "Writes to the origin ran at 1.00 MiB/s before the snapshot, 410 KiB/s with it, and 1.00 MiB/s after it.",
        );
        figures.origin.during.written_bytes_per_s = Some(0.8 * MIB);
        assert!(texts(&figures, Finding::WritesFell).is_empty());
    }

    #[test]
    fn gaps_are_reported_first() {
        let mut figures = example();
        figures.read.as_mut().unwrap().known_share = 0.62;
        let first = diagnosis(&figures, &setup()).remove(0);
        assert_eq!(
            first.text,
            "The read speed is known for 62 % of the time. The figures below cover only that time."
        );
    }
}
