//! How long it takes to say what a job cost: its ticks read back, made a time series, summed up, and put into sentences.

use std::time::{Duration, Instant};

use cowbell::commands::PhaseMark;
use cowbell::job::advice::advice;
use cowbell::job::diagnosis::diagnosis;
use cowbell::job::figures::Figures;
use cowbell::job::setup::{Setup, SnapshotKind};
use cowbell::job::{Job, JobKind, MOST_PHASES};
use cowbell::report::time_series::{JobTimes, Sources};
use cowbell::store::{StoreReader, Subject};
use jiff::{SignedDuration, Timestamp};

use crate::machine::name;
use crate::meter::ms;

const TIMES: usize = 11;
const HOURS: i64 = 11;
/// PVs that the job's group has.
const PVS: usize = 4;

/// A job of eleven hours that ended ten minutes ago.
pub async fn figures(reader: &StoreReader, until: Timestamp) {
    let ended_at = until - SignedDuration::from_mins(10);
    let job = job(ended_at - SignedDuration::from_hours(HOURS), ended_at);
    let setup = Setup {
        kind: Some(SnapshotKind::Thick),
        cow_bytes: Some(1 << 30),
        snapshots: Some(1),
        ..Setup::default()
    };
    let (mut reading, mut summing, mut rows) = (Vec::new(), Vec::new(), 0);
    for _ in 0..TIMES {
        let started = Instant::now();
        let sources = sources(&job, &setup);
        let times = JobTimes::of(&job, until);
        let every = reader
            .tick_table(&sources.wanted, times.range())
            .await
            .expect("rows are read");
        rows = every.ends_ms.len();
        reading.push(started.elapsed());
        let time_series = sources.time_series(&every, times).expect("a time series");
        let figures = Figures::of(&time_series, &setup).with_phases(&time_series, &job);
        let findings = diagnosis(&figures, &setup);
        let advice = advice(&figures, &setup, true, &(None, "name it".into()));
        assert!(figures.read.is_some() && figures.copied.write_cost.is_some());
        assert!(!findings.is_empty() && !advice.is_empty());
        summing.push(started.elapsed());
    }
    let (read, all) = (median(&mut reading), median(&mut summing));
    println!(
        "| a job of {HOURS} h summarised, {rows} ticks, {PVS} PVs: 200 ms | {:.0} ms |",
        ms(all)
    );
    println!(
        "| – of it reading the ticks of {} series | {:.0} ms |",
        sources(&job, &setup).wanted.len(),
        ms(read)
    );
    println!(
        "| – the longest of {TIMES} | {:.0} ms |",
        ms(summing[TIMES - 1])
    );
}

/// As many as a job can have, one after the other over the whole job.
fn phases(started_at: Timestamp) -> Vec<PhaseMark> {
    let length_s = HOURS * 3600 / MOST_PHASES as i64;
    let phase = |place: i64| PhaseMark {
        at: started_at + SignedDuration::from_secs(place * length_s),
        name: format!("phase {place}"),
    };
    (0..MOST_PHASES as i64).map(phase).collect()
}

fn median(took: &mut [Duration]) -> Duration {
    took.sort_unstable();
    took[took.len() / 2]
}

/// The simulated machine has no layers: others of its devices stand for them.
fn sources(job: &Job, setup: &Setup) -> Sources {
    let pvs: Vec<_> = (0..PVS)
        .map(|pv| (name(pv), Subject::Device(name(pv))))
        .collect();
    let mut sources = Sources::of(job, setup, &pvs, |volume| Some(volume.to_string()));
    for wanted in &mut sources.wanted {
        match &wanted.subject {
            Subject::Device(named) if named.ends_with("-cow") => {
                wanted.subject = Subject::Device(name(5))
            }
            Subject::Device(named) if named.ends_with("-real") => {
                wanted.subject = Subject::Device(name(6))
            }
            _ => {}
        }
    }
    sources
}

fn job(started_at: Timestamp, ended_at: Timestamp) -> Job {
    Job {
        id: 1,
        kind: JobKind::Snapshot,
        key: "simulated-volume-0000".into(),
        name: "lv0".into(),
        vg: Some("vg0".into()),
        lv: Some("lv0".into()),
        origin: Some("lv1".into()),
        started_at,
        ended_at: Some(ended_at),
        phase_marks: phases(started_at),
        ..Job::default()
    }
}
