//! Jobs and alerts of a range for charts are those that the database has.

use jiff::{SignedDuration, Timestamp};

use crate::config;
use crate::job::{Job, JobKind};
use crate::series::Range;
use crate::source::RemoveCommand;
use crate::store::{JobQuery, StoreReader, StoreWriter, TickOrigin, WriteOp, open};

const START: i64 = 1_772_330_400;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(START + minute * 60).unwrap()
}

fn job(id: i64, started_at: Timestamp) -> Job {
    Job::new(id, JobKind::Command, &format!("key{id}"), "dd", started_at)
}

async fn write(store: &mut StoreWriter, op: WriteOp) {
    store.append_acknowledged(op).await.await.unwrap().unwrap();
}

async fn check(reader: &StoreReader) -> usize {
    let mut found = 0;
    for (from, minutes) in [
        (0, 500),
        (0, 5),
        (37, 1),
        (90, 30),
        (300, 60),
        (480, 20),
        (600, 60),
    ] {
        let range = Range {
            from: at(from),
            to: at(from) + SignedDuration::from_mins(minutes),
        };
        for most in [1, 3, 100] {
            let ids = |jobs: &[Job]| jobs.iter().map(|job| job.id).collect::<Vec<_>>();
            let (listed, of_range) = (
                reader.jobs(&JobQuery::of(range), most).await.unwrap(),
                reader.jobs_of(range, most).await.unwrap(),
            );
            let listed: Vec<i64> = ids(&listed.jobs);
            assert_eq!(
                ids(&of_range.jobs),
                listed,
                "{most} from {from} for {minutes} min"
            );
            found += listed.len();
        }
    }
    found
}

#[tokio::test]
async fn jobs_of_a_range_are_those_of_the_list_also_after_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cowbell.db");
    let (mut store, reader) = open(&path, TickOrigin::ThisMachine, config::Store::default())
        .await
        .unwrap();
    for number in 0..50 {
        let mut job = job(number + 1, at(number * 10));
        job.ended_at = (number % 7 != 0).then(|| at(number * 10 + number % 5 * 9));
        write(&mut store, WriteOp::Job(Box::new(job))).await;
    }
    let before = check(&reader).await;
    assert_eq!(check(&reader).await, before, "as read before");
    let mut job = job(51, at(495));
    write(&mut store, WriteOp::Job(Box::new(job.clone()))).await;
    assert!(check(&reader).await > before, "the new job");
    job.ended_at = Some(at(496));
    write(&mut store, WriteOp::Job(Box::new(job.clone()))).await;
    let with_it = check(&reader).await;
    write(
        &mut store,
        WriteOp::Remove(RemoveCommand {
            key: job.key.clone(),
        }),
    )
    .await;
    assert!(check(&reader).await < with_it, "without the removed job");
}
