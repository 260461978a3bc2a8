//! What breaks a constraint is left out, and nothing else with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::config;
use crate::job::{Job, JobKind, Outcome};
use crate::store::{Entry, Holds, open};

fn job(id: i64) -> Job {
    let mut job = Job::new(id, JobKind::Command, &format!("key{id}"), "dd", Timestamp::UNIX_EPOCH);
    (job.ended_at, job.outcome) = (Some(Timestamp::UNIX_EPOCH), Some(Outcome::Succeeded));
    job
}

#[tokio::test]
async fn a_job_that_breaks_a_constraint_is_left_out_and_those_around_it_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cowbell.db");
    let (mut inlet, archive) = open(&path, Holds::ThisMachine, config::Store::default()).await.unwrap();
    let bad = |id| Job { unmounted_at: Some(Timestamp::UNIX_EPOCH), ..job(id) };
    inlet.append(Entry::Job(Box::new(job(1))));
    inlet.append(Entry::Job(Box::new(bad(2))));
    inlet.append(Entry::Imported(Box::new(bad(3)), Arc::from(&b"file"[..])));
    inlet.append(Entry::Job(Box::new(job(4))));
    let began = Instant::now();
    while inlet.health().0.written < 2 && began.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (health, lost) = inlet.health();
    assert_eq!((health.written, lost, health.error), (2, 2, None));
    for (key, is_kept) in [("key1", true), ("key2", false), ("key3", false), ("key4", true)] {
        assert_eq!(archive.job_of(key).await.unwrap().is_some(), is_kept, "{key}");
    }
    inlet.close().await;
}
