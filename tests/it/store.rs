//! The store by itself: clocks that jump, other intervals, other lives, files beside it that are not its own.

use std::fs;
use std::path::{Path, PathBuf};

use cowbell::config::Age;
use cowbell::store::{Inventory, Subject, TickOrigin, inventory};
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;

use crate::daemon::{ask_database, block_on};
use crate::ticks::{BEGIN, Tick, commit, disks, keep, keep_in, open, read_bytes, sectors};

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn db(&self) -> PathBuf {
        self.0.path().join("cowbell.db")
    }

    fn log(&self) -> PathBuf {
        self.0.path().join("cowbell.db-wal")
    }
}

/// Ticks at this interval from an instant on, each with sectors of its own.
fn course(from: Timestamp, elapsed: SignedDuration, count: i32) -> Vec<Tick> {
    let tick = |number: i32| {
        let at = from + elapsed * number;
        Tick {
            at,
            elapsed,
            sectors: at.as_millisecond().unsigned_abs() % 1_000_003,
        }
    };
    (1..=count).map(tick).collect()
}

/// Shows the first that differs, of thousands.
fn same<T: PartialEq + std::fmt::Debug>(found: &[T], expected: &[T]) {
    let differing = found
        .iter()
        .zip(expected)
        .find(|(found, expected)| found != expected);
    assert_eq!((differing, found.len()), (None, expected.len()));
}

async fn kept(db: &Path) -> Inventory {
    let inventory = inventory(db).await.unwrap();
    assert_eq!(inventory.damage, Vec::<String>::new());
    inventory
}

/// Every tick is there once, in the order in which they came, at its own length.
async fn check_all_kept(db: &Path, ticks: &[Tick]) {
    let of = |tick: &Tick| (tick.at, u64::try_from(tick.elapsed.as_micros()).unwrap());
    same(
        &kept(db).await.ticks,
        &ticks.iter().map(of).collect::<Vec<_>>(),
    );
}

/// A stretch of ticks one by one, as a chart of it shows them.
async fn check_stretch(db: &Path, stretch: &[Tick]) {
    let elapsed = stretch[0].elapsed;
    let (first, last) = (stretch[0].at, stretch[stretch.len() - 1].at);
    let (inlet, store) = open(db).await;
    let before = first - elapsed + SignedDuration::from_millis(1);
    let found = read_bytes(&store, before, last, stretch.len()).await;
    inlet.close().await;
    let expected: Vec<_> = stretch.iter().map(|tick| (tick.at, tick.sectors)).collect();
    same(&sectors(&found, elapsed), &expected);
}

/// The mean of everything, from roll-ups where there are some.
async fn check_mean(db: &Path, ticks: &[Tick]) {
    let (inlet, store) = open(db).await;
    let instants = || ticks.iter().map(|tick| tick.at);
    let (from, to) = (instants().min().unwrap(), instants().max().unwrap());
    let found = read_bytes(&store, from, to, 1).await[0].avg.unwrap();
    inlet.close().await;
    let sum: u64 = ticks.iter().map(|tick| tick.sectors * 512).sum();
    let seconds: f64 = ticks.iter().map(|tick| tick.elapsed.as_secs_f64()).sum();
    assert!(
        (found * seconds / sum as f64 - 1.0).abs() < 1e-9,
        "found {found}"
    );
}

/// Six hours, a jump of the clock, and six hours more, in one life of the program or in two.
fn check_jump(jump: SignedDuration, restart: bool) {
    let place = Place::new();
    let tick = SignedDuration::from_secs(10);
    let before = course(BEGIN, tick, 2_160);
    let after = course(before[before.len() - 1].at + jump, tick, 2_160);
    let all = [before.clone(), after.clone()].concat();
    block_on(async {
        if restart {
            keep(&place.db(), &before).await;
            keep(&place.db(), &after).await;
        } else {
            keep(&place.db(), &all).await;
        }
        check_all_kept(&place.db(), &all).await;
        check_mean(&place.db(), &all).await;
        // Where the clock went twice, a chart shows both.
        let only = |tick: &&Tick, other: &[Tick]| {
            !(other[0].at..=other[other.len() - 1].at).contains(&tick.at)
        };
        for (stretch, other) in [(&before, &after), (&after, &before)] {
            let stretch: Vec<Tick> = stretch
                .iter()
                .filter(|tick| only(tick, other))
                .copied()
                .collect();
            check_stretch(&place.db(), &stretch).await;
        }
    });
}

#[test]
fn a_clock_set_back_an_hour_loses_no_tick() {
    check_jump(-SignedDuration::from_hours(1), false);
}

#[test]
fn a_clock_set_forward_a_day_loses_no_tick() {
    check_jump(SignedDuration::from_hours(24), false);
}

#[test]
fn a_host_that_starts_again_with_another_clock_loses_no_tick() {
    check_jump(-SignedDuration::from_hours(1), true);
    check_jump(SignedDuration::from_mins(5), true);
}

#[test]
fn another_interval_from_start_to_start_keeps_every_tick_at_its_own() {
    let place = Place::new();
    let mut all: Vec<Tick> = Vec::new();
    let mut from = BEGIN;
    let lives = [(1_000, 1_500), (100, 9_000), (60_000, 300), (1_000, 100)];
    let stretches = lives.map(|(interval_ms, count)| {
        let stretch = course(from, SignedDuration::from_millis(interval_ms), count);
        from = stretch[stretch.len() - 1].at;
        all.extend(&stretch);
        stretch
    });
    block_on(async {
        for stretch in &stretches {
            keep(&place.db(), stretch).await;
        }
        check_all_kept(&place.db(), &all).await;
        check_mean(&place.db(), &all).await;
        for stretch in &stretches {
            check_stretch(&place.db(), stretch).await;
        }
    });
}

#[test]
fn a_program_that_starts_again_and_again_is_rolled_up_all_the_same() {
    let place = Place::new();
    let all = course(BEGIN, SignedDuration::from_secs(15), 130);
    let later = course(
        BEGIN + SignedDuration::from_hours(10),
        SignedDuration::from_mins(1),
        2,
    );
    block_on(async {
        for tick in &all {
            keep(&place.db(), std::slice::from_ref(tick)).await;
        }
        let all = [all, later].concat();
        keep(&place.db(), &all[130..]).await;
        check_all_kept(&place.db(), &all).await;
        check_mean(&place.db(), &all).await;
    });
    assert!(ask_database(&place.db(), "SELECT count(*) FROM ten_minute") >= 3);
}

/// A recording is played faster than it was made, and ages as fast.
#[test]
fn retention_holds_while_a_recording_is_played() {
    let place = Place::new();
    let ten_minutes = SignedDuration::from_mins(10);
    let config = cowbell::config::Store {
        ticks: Age::days(1),
        jobs: Age::days(1),
        minutes: Age::days(3),
        ..Default::default()
    };
    block_on(async {
        let store = cowbell::store::open(&place.db(), TickOrigin::Recording, config).await;
        keep_in(store.unwrap(), &course(BEGIN, ten_minutes, 7 * 144)).await;
    });
    // The last window has no later tick, so it is not rolled up.
    for (count, days) in [
        ("SELECT count(*) FROM tick", 1),
        ("SELECT count(*) FROM minute", 3),
        ("SELECT count(*) FROM ten_minute", 3),
    ] {
        let question = count;
        let count = ask_database(&place.db(), question);
        let expected = days * 144;
        assert!(
            (expected - 1..=expected + 2).contains(&count),
            "{question}: {count}"
        );
    }
}

/// As a daemon leaves it that is killed: what it committed is in SQLite's log alone. Each of these is a commit.
fn killed_with(place: &Place, commits: &[&[Tick]]) {
    block_on(async {
        let copy = Place::new();
        let (mut inlet, _) = open(&copy.db()).await;
        let topology = disks(&["sda"]);
        for ticks in commits {
            for tick in *ticks {
                inlet.append_tick(&tick.interval(&topology)).await;
            }
            commit(&mut inlet).await;
        }
        for entry in copy.0.path().read_dir().unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, place.0.path().join(path.file_name().unwrap())).unwrap();
        }
        inlet.close().await;
    });
}

#[test]
fn what_only_sqlites_log_has_is_there_after_a_kill() {
    let place = Place::new();
    let ticks = course(BEGIN, SignedDuration::from_secs(1), 100);
    killed_with(&place, &[&ticks[..50], &ticks[50..60]]);
    block_on(async {
        keep(&place.db(), &ticks[60..]).await;
        check_all_kept(&place.db(), &ticks).await;
    });
}

/// The end of the last frame that is not of an earlier round. Source: <https://sqlite.org/fileformat2.html>, section 4.
fn end_of_log(log: &[u8]) -> usize {
    let page_size = u32::from_be_bytes(log[8..12].try_into().unwrap()) as usize;
    let frames = log[32..].chunks_exact(24 + page_size);
    let count = frames
        .take_while(|frame| frame[8..16] == log[16..24])
        .count();
    32 + count * (24 + page_size)
}

#[test]
fn a_torn_log_costs_its_last_commit_alone() {
    let place = Place::new();
    let ticks = course(BEGIN, SignedDuration::from_secs(1), 100);
    killed_with(&place, &[&ticks[..50], &ticks[50..60]]);
    let mut log = fs::read(place.log()).unwrap();
    let end = end_of_log(&log);
    log[end - 1] ^= 1;
    fs::write(place.log(), &log).unwrap();
    block_on(async {
        let (inlet, _) = open(&place.db()).await;
        assert_eq!(inlet.health().0.notes, Vec::<String>::new());
        inlet.close().await;
        keep(&place.db(), &ticks[60..]).await;
        check_all_kept(&place.db(), &[&ticks[..50], &ticks[60..]].concat()).await;
    });
}

#[test]
fn a_full_queue_loses_ticks_and_says_so_but_no_device() {
    let place = Place::new();
    let ticks = course(BEGIN, SignedDuration::from_secs(1), 20_000);
    let [one, two] = [disks(&["sda"]), disks(&["sda", "sdb"])];
    block_on(async {
        let (mut inlet, store) = open(&place.db()).await;
        let hold = sqlx::sqlite::SqliteConnectOptions::new().filename(place.db());
        let mut hold = sqlx::ConnectOptions::connect(&hold).await.unwrap();
        sqlx::query("BEGIN IMMEDIATE")
            .execute(&mut hold)
            .await
            .unwrap();
        for (number, tick) in (0..).zip(&ticks) {
            inlet
                .append_tick(&tick.interval(if number < 15_000 { &one } else { &two }))
                .await;
        }
        let (_, lost) = inlet.health();
        assert!(lost > 1_000, "{lost}");
        sqlx::query("ROLLBACK").execute(&mut hold).await.unwrap();
        sqlx::Connection::close(hold).await.unwrap();
        while inlet.health().0.written < 10_000 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let last = Tick {
            at: ticks[ticks.len() - 1].at + SignedDuration::from_secs(1),
            ..ticks[0]
        };
        inlet.append_tick(&last.interval(&two)).await;
        inlet.close().await;
        drop(store);
        let (inlet, store) = open(&place.db()).await;
        assert!(
            store.knows(&Subject::Device("sdb".into())),
            "its row was lost with the ticks"
        );
        inlet.close().await;
    });
    let there = block_on(kept(&place.db())).ticks.len() as i64;
    let told = ask_database(&place.db(), "SELECT sum(ticks) FROM gap");
    assert_eq!(there + told, 20_001, "what is not there is a gap");
}

/// One that was gone by then, that is: its name and its number stay its own.
#[test]
fn a_clock_that_was_years_ahead_makes_no_device_forgotten() {
    let place = Place::new();
    let ticks = course(BEGIN, SignedDuration::from_secs(1), 100);
    let ahead = |hours| Tick {
        at: BEGIN + SignedDuration::from_hours(hours),
        ..ticks[0]
    };
    block_on(async {
        keep(&place.db(), &ticks).await;
        for (disk, tick) in [("sdb", ahead(80_000)), ("sdc", ahead(80_001))] {
            let (mut inlet, _) = open(&place.db()).await;
            inlet.append_tick(&tick.interval(&disks(&[disk]))).await;
            inlet.close().await;
        }
        check_stretch(&place.db(), &ticks).await;
    });
}

/// Its folder is missing at the start, like that of a disk that is not mounted yet. Until then, the disks have other numbers.
#[test]
fn ticks_from_before_an_existing_database_can_be_read_are_stored_when_it_can() {
    let place = Place::new();
    let folder = place.0.path().join("disk");
    let away = place.0.path().join("away");
    fs::create_dir(&folder).unwrap();
    let db = folder.join("cowbell.db");
    let all = course(BEGIN, SignedDuration::from_secs(1), 90);
    let (earlier, later) = all.split_at(30);
    block_on(async {
        keep(&db, earlier).await;
        fs::rename(&folder, &away).unwrap();
        let (mut inlet, store) = open(&db).await;
        let topology = disks(&["sdb", "sda"]);
        for tick in later {
            if tick == &later[30] {
                fs::rename(&away, &folder).unwrap();
                while !inlet.health().0.is_open {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            }
            let mut interval = tick.interval(&topology);
            interval.devices.swap(0, 1);
            inlet.append_tick(&interval).await;
        }
        let found = read_bytes(&store, BEGIN, all[89].at, 100).await;
        let expected: Vec<_> = all.iter().map(|tick| (tick.at, tick.sectors)).collect();
        same(&sectors(&found, SignedDuration::from_secs(1)), &expected);
        let (_, lost) = inlet.health();
        assert_eq!(lost, 0);
        inlet.close().await;
        check_all_kept(&db, &all).await;
        let (inlet, store) = open(&db).await;
        let found = read_bytes(&store, BEGIN, all[89].at, 100).await;
        same(&sectors(&found, SignedDuration::from_secs(1)), &expected);
        inlet.close().await;
    });
}
