//! Looking after the database: is it whole, could it be smaller, a copy of it while it is written.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;

use crate::daemon::{
    Daemon, Said, Start, ask_database, change_database, cowbell, kept_ticks, said, time,
};
use crate::machine::{Done, Machine, line};
use crate::tape::{BEGIN, Snapshot, Tape};
use crate::wait_for;

const SECOND: Duration = Duration::from_secs(1);

fn db(path: &Path, arguments: &[&str]) -> Said {
    said(cowbell().arg("db").args(arguments).arg("--db").arg(path))
}

/// A database that nobody uses, with so many ticks in it.
fn kept(ticks: usize) -> Daemon {
    let tape = Tape::of(SECOND, &vec![Snapshot::Filled(10.0); ticks]);
    let mut daemon = Start::playing(&tape, "max").start();
    daemon.has_played(ticks);
    daemon.stop(Signal::TERM);
    daemon
}

#[test]
fn a_backup_while_a_daemon_writes_holds_every_tick_that_was_committed() {
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine).start();
    wait_for("two seconds of ticks", || {
        (daemon.taken() > 20).then_some(())
    });
    let copy = daemon.folder.path().join("copy.db");
    let began = Timestamp::now();
    daemon.commit();
    let said = db(&daemon.db, &["backup", copy.to_str().unwrap()]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
    assert!(said.out.contains("copy.db is intact"), "{said:?}");

    let copied: HashSet<Timestamp> = kept_ticks(&copy).into_iter().map(|(at, _)| at).collect();
    let taken: Vec<Timestamp> = daemon
        .series("vm", "blocked")
        .iter()
        .map(|point| time(&point["t"]))
        .collect();
    let old: Vec<_> = taken.iter().filter(|at| **at < began).collect();
    assert!(old.len() > 5, "{taken:?}");
    assert!(
        old.iter().all(|at| copied.contains(*at)),
        "{old:?} in {copied:?}"
    );

    // The copy is a database as any other.
    daemon.stop(Signal::TERM);
    let again = Start::watching(&machine).db(&copy).start();
    assert!(again.series("vm", "blocked").len() >= copied.len());
}

#[test]
fn a_backup_has_no_hole_however_often_ticks_are_rolled_up_meanwhile() {
    let ticks = 5_000;
    let mut tape = Tape::new(20 * SECOND);
    for tick in 0..ticks {
        let diskstats = line((8, 0), "sda", Done::sectors(tick * 8, 0));
        tape.bare_tick(&diskstats, "sda/dev\t8:0\nsda/serial\tA\nsda/slaves\t\n");
    }
    let daemon = Start::playing(&tape.saved(), "max").start();
    let mut lengths = Vec::new();
    while lengths.len() < 3 || daemon.taken() < ticks {
        let copy = daemon
            .folder
            .path()
            .join(format!("copy{}.db", lengths.len()));
        assert_eq!(
            db(&daemon.db, &["backup", copy.to_str().unwrap()]).code,
            Some(0)
        );
        let copied = kept_ticks(&copy);
        for (number, (at, _)) in (0..).zip(&copied) {
            assert_eq!(
                *at,
                BEGIN + SignedDuration::from_secs(20 * number),
                "of {}",
                copied.len()
            );
        }
        lengths.push(copied.len());
    }
    assert!(
        lengths.is_sorted() && lengths.first() < lengths.last(),
        "{lengths:?}"
    );
}

#[test]
fn a_backup_is_never_written_over_a_file() {
    let daemon = kept(5);
    let file = daemon.folder.path().join("precious");
    std::fs::write(&file, "precious").unwrap();
    let said = db(&daemon.db, &["backup", file.to_str().unwrap()]);
    assert!(
        said.code == Some(1) && said.err.contains("exists and is not overwritten"),
        "{said:?}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn what_is_no_database_of_ours_is_a_sentence_and_leaves_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    let (text, copy) = (folder.path().join("text"), folder.path().join("copy"));
    std::fs::write(&text, "this is a text, and long enough to be looked at").unwrap();
    for (path, expected) in [
        (
            text,
            "it is no SQLite database; name another file with --db",
        ),
        (folder.path().join("nothing"), "there is none"),
    ] {
        for arguments in [
            &["verify"][..],
            &["compact"],
            &["backup", copy.to_str().unwrap()],
        ] {
            let said = db(&path, arguments);
            assert!(
                said.code == Some(1) && said.err.contains(expected),
                "{arguments:?}: {said:?}"
            );
            assert_eq!(
                (said.err.lines().count(), copy.exists()),
                (1, false),
                "{said:?}"
            );
        }
    }
}

#[test]
fn a_copy_is_restored_with_the_rights_of_the_database_which_is_kept() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let daemon = kept(20);
    let copy = daemon.folder.path().join("copy.db");
    db(&daemon.db, &["backup", copy.to_str().unwrap()]);
    change_database(&daemon.db, "DELETE FROM tick");
    // As a service has it: the folder and the database are its user's, and root restores.
    let is_root = rustix::process::geteuid().is_root();
    let folder = daemon.db.parent().unwrap();
    if is_root {
        chown(folder, Some(65_534), Some(65_534)).unwrap();
    }
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o644)).unwrap();
    let said = db(&daemon.db, &["restore", copy.to_str().unwrap()]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
    assert!(said.out.contains("what was there is now"), "{said:?}");
    assert_eq!(kept_ticks(&daemon.db).len(), 20);
    let restored = daemon.db.metadata().unwrap();
    assert_eq!(restored.mode() & 0o777, 0o600);
    assert!(!is_root || restored.uid() == 65_534, "{}", restored.uid());
    let replaced = said.out.split("is now ").nth(1).unwrap().trim();
    assert_eq!(
        ask_database(Path::new(replaced), "SELECT count(*) FROM tick"),
        0
    );

    // Where there is none yet, too; but not below a daemon that writes.
    let other = daemon.folder.path().join("other.db");
    assert_eq!(
        db(&other, &["restore", copy.to_str().unwrap()]).code,
        Some(0)
    );
    assert_eq!(kept_ticks(&other).len(), 20);
    let machine = Machine::new();
    let running = Start::watching(&machine).start();
    let said = db(&running.db, &["restore", copy.to_str().unwrap()]);
    assert!(
        said.code == Some(1) && said.err.contains("another cowbell writes to it"),
        "{said:?}"
    );
}

#[test]
fn what_is_no_whole_copy_is_not_restored_and_the_database_stays() {
    let daemon = kept(20);
    let file = |name: &str| daemon.folder.path().join(name);
    let whole = std::fs::read(&daemon.db).unwrap();
    let mut damaged = whole.clone();
    damaged[4096..8192].fill(0xaa);
    for (name, content, expected) in [
        (
            "text",
            b"this is a text".to_vec(),
            "it is no SQLite database",
        ),
        ("empty", Vec::new(), "it is empty"),
        ("damaged", damaged, "it is damaged"),
        ("half", whole[..whole.len() / 2].to_vec(), "it is damaged"),
    ] {
        std::fs::write(file(name), content).unwrap();
        let said = db(&daemon.db, &["restore", file(name).to_str().unwrap()]);
        assert!(
            said.code == Some(1) && said.err.contains(expected) && said.err.lines().count() == 1,
            "{name}: {said:?}"
        );
        assert_eq!(std::fs::read(&daemon.db).unwrap(), whole, "{name}");
    }
    let said = db(&daemon.db, &["restore", file("nothing").to_str().unwrap()]);
    assert!(
        said.code == Some(1) && said.err.contains("there is none"),
        "{said:?}"
    );
}

#[test]
fn verify_says_what_is_there_also_while_a_daemon_writes() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    wait_for("some ticks", || (daemon.taken() > 5).then_some(()));
    daemon.commit();
    let said = db(&daemon.db, &["verify"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
    assert!(
        said.out.contains("cowbell.db is intact\nticks     ") && !said.out.contains("ticks     0"),
        "{said:?}"
    );
}

#[test]
fn verify_finds_a_flipped_byte_of_a_tick() {
    let daemon = kept(30);
    assert_eq!(db(&daemon.db, &["verify"]).code, Some(0));
    change_database(
        &daemon.db,
        "UPDATE tick SET record = unhex(substr(hex(record), 1, 2 * length(record) - 2)
            || CASE substr(hex(record), -2) WHEN '00' THEN '01' ELSE '00' END)
         WHERE id = (SELECT max(id) FROM tick)",
    );
    let said = db(&daemon.db, &["verify"]);
    assert!(
        said.code == Some(1) && said.out.contains("cowbell.db is damaged"),
        "{said:?}"
    );
    assert!(
        said.err.contains("cannot be read: ") && said.err.lines().count() == 1,
        "{said:?}"
    );

    // A copy of it is made all the same, and says so.
    let copy = daemon.folder.path().join("copy.db");
    assert_eq!(
        db(&daemon.db, &["backup", copy.to_str().unwrap()]).code,
        Some(1)
    );
    assert_eq!(ask_database(&copy, "SELECT count(*) FROM tick"), 30);
}

/// A page of the ticks cannot be read: a sentence each, and what is there stays as it is.
#[test]
fn of_a_damaged_database_no_half_copy_is_made_and_the_way_out_is_said() {
    use std::os::unix::fs::FileExt;
    let daemon = kept(30);
    let page = ask_database(
        &daemon.db,
        "SELECT rootpage FROM sqlite_schema WHERE name = 'tick'",
    );
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&daemon.db)
        .unwrap();
    file.write_all_at(&[0xaa; 2_048], (page as u64 - 1) * 2_048)
        .unwrap();
    let bytes = std::fs::read(&daemon.db).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.db");
    let names = || {
        let names = std::fs::read_dir(daemon.db.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        // What a reader leaves, empty.
        let of_readers = |name: &str| ["-shm", "-wal"].iter().any(|ending| name.ends_with(ending));
        names
            .filter(|name| !of_readers(name.to_str().unwrap()))
            .collect::<HashSet<_>>()
    };
    let before = names();
    let way_out = "database disk image is malformed; a restart of the service sets the database aside and begins a \
                   new one\n";
    for (arguments, doing) in [
        (
            &["compact"][..],
            format!("cannot compact the database {}", daemon.db.display()),
        ),
        (
            &["backup", copy.to_str().unwrap()],
            format!(
                "cannot copy the database {} to {}",
                daemon.db.display(),
                copy.display()
            ),
        ),
    ] {
        let said = db(&daemon.db, arguments);
        assert_eq!(
            (said.code, said.err),
            (Some(1), format!("cowbell: {doing}: {way_out}"))
        );
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "{arguments:?}"
        );
        assert!(
            std::fs::read(&daemon.db).unwrap() == bytes && names() == before,
            "{arguments:?}"
        );
    }
    let said = db(&daemon.db, &["verify"]);
    assert!(
        said.code == Some(1) && said.out.contains("cowbell.db is damaged\nticks     "),
        "{said:?}"
    );
}

#[test]
fn verify_of_an_unreadable_database_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.db");
    let bytes = std::fs::read(&kept(30).db).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 4]).unwrap();
    let said = db(&cut, &["verify"]);
    let why = "database disk image is malformed; a restart of the service sets the database aside and begins a new \
               one";
    let expected = format!(
        "cowbell: cannot read the database {}: {why}\n",
        cut.display()
    );
    assert_eq!((said.code, said.err), (Some(1), expected));
}

#[test]
fn compact_gives_room_back_and_keeps_every_tick() {
    let daemon = kept(30);
    let ticks = kept_ticks(&daemon.db);
    change_database(
        &daemon.db,
        "CREATE TABLE ballast AS SELECT zeroblob(3000000) AS weight",
    );
    change_database(&daemon.db, "DROP TABLE ballast");
    let before = std::fs::metadata(&daemon.db).unwrap().len();
    let said = db(&daemon.db, &["compact"]);
    assert!(
        said.code == Some(0) && said.out.contains("is compact: "),
        "{said:?}"
    );
    let now = std::fs::metadata(&daemon.db).unwrap().len();
    assert!(before > 3_000_000 && now < 500_000, "{before}, then {now}");
    assert_eq!(kept_ticks(&daemon.db), ticks);
}

#[test]
fn compact_is_refused_while_a_daemon_has_the_database() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let said = db(&daemon.db, &["compact"]);
    assert!(
        said.code == Some(1) && said.err.contains("another cowbell"),
        "{said:?}"
    );
}
