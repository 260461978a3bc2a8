//! A disk that is full at any moment: what was appended is there, and the same can be tried again.
//!
//! The limits are those of a process, or need a mount of its own; so each story runs in a child, as an ignored test.

use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};

use super::{Journal, Place, Replayed, Segment};

/// Names the folder to a child.
const FOLDER: &str = "COWBELL_TEST_FOLDER";

/// A command that runs the ignored test `name` of the module at `module` in `folder`, by way of a shell `script`.
pub fn child(module: &str, name: &str, script: &str, folder: &Place) -> Command {
    let module = module.split_once("::").unwrap().1;
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{script}\nexec \"$@\""), "sh"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("{module}::{name}"), "--ignored", "--nocapture"]);
    command.env(FOLDER, folder.folder());
    command
}

/// The folder that a child was given; `None` if somebody ran it by hand.
pub fn given_folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Keeps a journal in one folder, and tries everything again that fails.
struct Keeper<Room: FnMut(bool)> {
    database: PathBuf,
    journal: Journal,
    kept: Vec<Segment>,
    /// Whether the disk has room.
    room: Room,
    failed: usize,
}

impl<Room: FnMut(bool)> Keeper<Room> {
    fn new(database: PathBuf, room: Room) -> Self {
        let (journal, _) = Journal::open(&database, 1, 0).unwrap();
        Keeper { database, journal, kept: Vec::new(), room, failed: 0 }
    }

    fn begin(&mut self, number: i64) {
        self.insist(|journal| journal.begin(number));
        self.kept.push(Segment { number, records: Vec::new() });
    }

    fn append(&mut self, record: &[u8]) {
        self.insist(|journal| journal.append(record));
        self.kept.last_mut().unwrap().records.push(record.to_vec());
    }

    fn insist(&mut self, act: impl Fn(&mut Journal) -> std::io::Result<()>) {
        (self.room)(false);
        let Err(error) = act(&mut self.journal) else { return };
        assert!(error.to_string().contains(" the journal /"), "{error}");
        self.failed += 1;
        self.check();
        act(&mut self.journal).unwrap_err();
        self.check();
        (self.room)(true);
        act(&mut self.journal).unwrap();
    }

    /// Another one that opens the files just now, as after a kill, finds all that was kept.
    fn check(&self) {
        let (_, Replayed { segments, .. }) = Journal::open(&self.database, 1, 0).unwrap();
        assert!(segments == self.kept);
    }
}

/// Fills both files, the first beyond one step.
fn tell<Room: FnMut(bool)>(mut keeper: Keeper<Room>) -> usize {
    for number in [1, 2] {
        keeper.begin(number);
        keeper.check();
        for byte in 1..=9 {
            keeper.append(&vec![byte; 31_000]);
        }
        keeper.check();
    }
    keeper.failed
}

/// Limits of a file's size around what is written at once: the header, the first record and the last, and a step.
fn limits() -> impl Iterator<Item = u64> {
    let ends = [0, 1, 8, 9].map(|count| 36 + count * 31_008);
    let around = ends.into_iter().flat_map(|end| [end - 1, end, end + 7, end + 8]);
    [0, 1, 20].into_iter().chain(around).chain([262_143, 262_144, 262_145, 300_000, 524_287, 524_288])
}

#[test]
fn a_limit_of_the_file_at_any_byte_harms_nothing() {
    let place = Place::new();
    let script = r#"trap "" XFSZ"#;
    let output = child(module_path!(), "under_a_limit", script, &place).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("all was kept"), "the child did not run");
}

#[test]
#[ignore = "the child of the test above"]
fn under_a_limit() {
    let Some(folder) = given_folder() else { return };
    for limit in limits() {
        let room = |is_there| {
            let current = if is_there { None } else { Some(limit) };
            setrlimit(Resource::Fsize, Rlimit { current, maximum: None }).unwrap();
        };
        let failed = tell(Keeper::new(folder.join(format!("limit-{limit}")), room));
        assert_eq!(failed > 0, limit < 36 + 9 * 31_008 + 8, "{limit}");
        for turn in [0, 1] {
            std::fs::remove_file(folder.join(format!("limit-{limit}-ticks{turn}"))).unwrap();
        }
    }
    println!("all was kept");
}

#[test]
fn a_full_disk_harms_nothing() {
    let place = Place::new();
    let script = format!("mount -t tmpfs -o size=1500k none {} || exit 77", place.folder().display());
    let inside = child(module_path!(), "on_a_full_disk", &script, &place);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh"]).args(inside.get_args()).env(FOLDER, place.folder());
    let Ok(output) = command.output() else { return eprintln!("there is no unshare: left out") };
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(77) || stderr.starts_with("unshare: ") {
        return eprintln!("there is no right to mount: left out");
    }
    assert!(output.status.success() && stdout.contains("all was kept"), "{stdout}{stderr}");
}

#[test]
#[ignore = "the child of the test above"]
fn on_a_full_disk() {
    let Some(folder) = given_folder() else { return };
    let ballast = folder.join("ballast");
    for free in (0..=280_u64).step_by(7) {
        let disk = rustix::fs::statvfs(&folder).unwrap();
        let weight = disk.f_bsize * (disk.f_bavail - free);
        std::fs::write(&ballast, vec![0; weight as usize]).unwrap();
        // Room comes back once and stays.
        let room = |is_there| {
            if is_there {
                std::fs::remove_file(&ballast).unwrap_or_default();
            }
        };
        let failed = tell(Keeper::new(folder.join("full"), room));
        // The first file takes two steps if it can, the second what it needs.
        let enough = ((512_u64 << 10) + 36 + 9 * 31_008 + 8).div_ceil(disk.f_bsize);
        assert_eq!(failed > 0, free < enough, "{free} pages");
        for name in ["full-ticks0", "full-ticks1"] {
            std::fs::remove_file(folder.join(name)).unwrap();
        }
        std::fs::remove_file(&ballast).unwrap_or_default();
    }
    println!("all was kept");
}
