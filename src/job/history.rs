//! The backups of each volume, and when the next one is usual. Alerts and pages share it.

use jiff::{SignedDuration, Timestamp};

use super::{Job, MOST_EARLIER_RUNS, tool};
use crate::schedule::ScheduledStart;
use crate::units::rough_text;

const HOUR_S: f64 = 3600.0;
const DAY_S: f64 = 24.0 * HOUR_S;
/// Fewer good backups, within a shorter time, or in quicker succession, are trials: they have no period yet.
const LEAST_GOOD: usize = 5;
const LEAST_SPAN_S: f64 = 2.0 * DAY_S;
const LEAST_USUAL_S: f64 = 600.0;
/// Of weekly and monthly backups, so few show the period if their gaps are alike.
const LEAST_SELDOM: usize = 3;
const SELDOM_S: f64 = 6.0 * DAY_S;
/// February has 0.9 times the days of March.
const ALIKE: f64 = 0.85;
/// A backup may be late by half a period, or by a day.
const LATE: f64 = 0.5;
const LATE_S: f64 = DAY_S;
/// A backup whose start is known may take so much longer than those before it.
const SLOWER: f64 = 1.5;
const LEAST_LATE_S: f64 = 900.0;
/// Weekends make a gap longer than usual, so the gap that occurred twice before is not too long; with a margin.
const MARGIN: f64 = 1.1;

/// The backups of a volume, or of a command that backs up no known volume.
pub struct VolumeBackups<'a> {
    pub vg: String,
    pub lv: String,
    /// However they ended, the latest first.
    pub all: Vec<&'a Job>,
    /// The last good ones, the latest first.
    pub good: Vec<&'a Job>,
}

/// Of the times at which good backups end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    pub usual_s: f64,
    /// After this time without one, it is missing.
    pub limit_s: f64,
}

/// Those of this host, from its ended jobs, the latest first.
pub fn backups_by_volume<'a>(ended: impl Iterator<Item = &'a Job>) -> Vec<VolumeBackups<'a>> {
    let mut all: Vec<VolumeBackups<'a>> = Vec::new();
    for job in ended.filter(|job| job.is_own_backup()) {
        let (vg, lv) = job.backed_up();
        let known = all.iter().position(|one| one.vg == vg && one.lv == lv);
        let index = known.unwrap_or_else(|| {
            all.push(VolumeBackups::new(vg, lv));
            all.len() - 1
        });
        let backups = &mut all[index];
        backups.all.push(job);
        // The newest, and those that it is compared with.
        if job.is_good_backup() && backups.good.len() <= MOST_EARLIER_RUNS {
            backups.good.push(job);
        }
    }
    all
}

impl<'a> VolumeBackups<'a> {
    pub fn new(vg: String, lv: String) -> Self {
        Self {
            vg,
            lv,
            all: Vec::new(),
            good: Vec::new(),
        }
    }

    /// `vg0/data`, or the name of a command.
    pub fn name(&self) -> String {
        match &*self.vg {
            "" => self.lv.clone(),
            vg => format!("{vg}/{}", self.lv),
        }
    }

    /// `None` if no period shows yet.
    pub fn period(&self) -> Option<Period> {
        let ends = self.good.iter().filter_map(|job| job.ended_at);
        let ends: Vec<f64> = ends
            .map(|end| end.as_millisecond() as f64 / 1000.0)
            .collect();
        let mut gaps: Vec<f64> = ends.windows(2).map(|pair| pair[0] - pair[1]).collect();
        gaps.sort_unstable_by(f64::total_cmp);
        let (shortest_s, longest_s) = (*gaps.first()?, *gaps.last()?);
        let is_seldom = shortest_s >= SELDOM_S && shortest_s >= longest_s * ALIKE;
        let span_s = ends.first()? - ends.last()?;
        let is_enough = ends.len() > MOST_EARLIER_RUNS
            || ends.len() >= LEAST_GOOD && span_s >= LEAST_SPAN_S
            || ends.len() >= LEAST_SELDOM && is_seldom;
        let usual_s = gaps[gaps.len() / 2];
        if !is_enough || usual_s < LEAST_USUAL_S {
            return None;
        }
        let second_s = gaps[gaps.len().saturating_sub(2)];
        let late_s = usual_s + (usual_s * LATE).min(LATE_S);
        Some(Period {
            usual_s,
            limit_s: late_s.max(second_s * MARGIN),
        })
    }

    /// When its program starts, if a crontab or a timer says so. Not if that starts it more often than there are backups.
    pub fn start<'s>(&self, schedule: &'s [ScheduledStart]) -> Option<&'s ScheduledStart> {
        let program = tool::configured_by(self.all.first()?)?;
        let start = ScheduledStart::of_program(schedule, program)?;
        let usual_s = self.period().map_or(0.0, |period| period.usual_s);
        let is_usual = |pair: &[Timestamp]| seconds_between(pair[0], pair[1]) * SLOWER >= usual_s;
        start.previous.windows(2).all(is_usual).then_some(start)
    }

    /// The next backup, as far as it is known.
    pub fn next(&self, schedule: &[ScheduledStart], now: Timestamp) -> Option<NextBackup> {
        if let Some(start) = self.start(schedule) {
            return start.next.map(NextBackup::Starts);
        }
        let age_s = seconds_between(self.good.first()?.ended_at?, now);
        let left_s = self.period()?.usual_s - age_s;
        (left_s > 0.0).then_some(NextBackup::UsuallyEndsIn(left_s))
    }

    /// The first of the last two planned starts that no good backup followed, though there was time for it.
    pub fn missed(&self, start: &ScheduledStart, now: Timestamp) -> Option<Timestamp> {
        let longest_s = self
            .good
            .iter()
            .map(|job| job.seconds(now))
            .fold(0.0, f64::max);
        let last_end = self.good.first()?.ended_at?;
        let late_s = (longest_s * SLOWER).max(longest_s + LEAST_LATE_S);
        let is_missed = |at: &Timestamp| last_end < *at && seconds_between(*at, now) > late_s;
        start.previous.iter().copied().find(is_missed)
    }
}

/// When the next backup is expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NextBackup {
    /// By a crontab or a timer.
    Starts(Timestamp),
    /// In so many seconds, by those before it.
    UsuallyEndsIn(f64),
}

impl NextBackup {
    /// `starts at 02:00 UTC`, or `usually ends in about 3 h`
    pub fn text(self, zoned: impl Fn(Timestamp) -> String) -> String {
        match self {
            Self::Starts(at) => format!("starts at {}", zoned(at)),
            Self::UsuallyEndsIn(left_s) => format!("usually ends in about {}", rough_text(left_s)),
        }
    }

    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Starts(at) => at,
            Self::UsuallyEndsIn(left_s) => now + SignedDuration::from_secs(left_s as i64),
        }
    }
}

pub fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    (to.as_millisecond() - from.as_millisecond()) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobKind, Outcome};

    fn backup(hours: f64, outcome: Outcome) -> Job {
        let at = Timestamp::from_second((hours * HOUR_S) as i64).unwrap();
        let mut job = Job::new(1, JobKind::Snapshot, "u", "data_snapshot", at);
        (job.vg, job.origin) = (Some("vg0".into()), Some("data".into()));
        job.program = Some("mylvmbackup".into());
        (job.ended_at, job.outcome) = (Some(at), Some(outcome));
        job
    }

    /// The usual hours and the limit of good backups that ended at these hours.
    #[track_caller]
    fn check(hours: &[f64], expected: Option<(f64, f64)>) {
        let ends = hours.iter().rev();
        let jobs: Vec<Job> = ends.map(|end| backup(*end, Outcome::Succeeded)).collect();
        let all = backups_by_volume(jobs.iter());
        let hours_of = |period: Period| (period.usual_s / HOUR_S, period.limit_s / HOUR_S);
        let found = all[0].period().map(hours_of);
        assert_eq!(
            found.map(|(usual, limit)| (usual.round(), limit.round())),
            expected,
            "{hours:?}"
        );
    }

    #[test]
    fn hourly_daily_weekly_and_monthly_backups_have_a_period() {
        let every = |hours: f64, count: usize| -> Vec<f64> {
            (0..count).map(|night| night as f64 * hours).collect()
        };
        check(&every(1.0, 15), Some((1.0, 2.0)));
        check(&every(24.0, 4), None);
        check(&every(24.0, 5), Some((24.0, 36.0)));
        check(&every(168.0, 3), Some((168.0, 192.0)));
        // January to March.
        check(&[0.0, 744.0, 1416.0], Some((744.0, 768.0)));
        // Trials of a new script.
        check(&every(0.02, 20), None);
        // By hand, once in a while.
        check(&[0.0, 170.0, 500.0], None);
        // Mondays to Fridays.
        let weekdays = (0..10).map(|day| (day / 5 * 7 + day % 5) as f64 * 24.0);
        check(&weekdays.collect::<Vec<_>>(), Some((24.0, 36.0)));
    }

    #[test]
    fn a_failure_is_the_last_backup_and_no_good_one() {
        let jobs = [
            backup(99.0, Outcome::Failed),
            backup(96.0, Outcome::Succeeded),
            backup(72.0, Outcome::Succeeded),
            backup(48.0, Outcome::Succeeded),
            backup(24.0, Outcome::Succeeded),
            backup(0.0, Outcome::Succeeded),
        ];
        let all = backups_by_volume(jobs.iter());
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].all[0].outcome, Some(Outcome::Failed));
        let now = Timestamp::from_second((100.0 * HOUR_S) as i64).unwrap();
        let usual = NextBackup::UsuallyEndsIn(20.0 * HOUR_S);
        assert_eq!(all[0].next(&[], now), Some(usual));
    }

    #[test]
    fn a_planned_start_says_when_the_next_one_is_and_which_is_missing() {
        let at = |hours: f64| Timestamp::from_second((hours * HOUR_S) as i64).unwrap();
        let jobs = [backup(24.0, Outcome::Succeeded)];
        let all = backups_by_volume(jobs.iter());
        for (previous, now, missed) in [
            (vec![0.0, 23.9], 24.1, None),
            (vec![23.9, 47.9], 48.0, None),
            (vec![23.9, 47.9], 48.5, Some(47.9)),
            // Before the next one is late.
            (vec![47.9, 71.9], 72.0, Some(47.9)),
        ] {
            let schedule = [ScheduledStart {
                previous: previous.into_iter().map(at).collect(),
                next: Some(at(95.9)),
                programs: vec!["mylvmbackup".into()],
            }];
            let start = all[0].start(&schedule).unwrap();
            assert_eq!(all[0].missed(start, at(now)), missed.map(at), "{now}");
            // Another volume's backup, or a check of the repository.
            let twice = [schedule[0].clone(), schedule[0].clone()];
            assert_eq!(all[0].start(&twice), None);
            let next = NextBackup::Starts(at(95.9));
            assert_eq!(all[0].next(&schedule, at(now)), Some(next));
        }
    }
}
