//! A process that is killed, and a machine whose power is cut: the one keeps what was appended, the other what was
//! synced.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::time::Duration;

use super::full::{child, given_folder};
use super::{ID, Journal, Place, Segment};
use crate::store::tests::cases;

/// Records of a segment in the story of the kills.
const RECORDS: usize = 40;

fn record(segment: i64, place: usize) -> Vec<u8> {
    let length = (segment as usize * 131 + place * 71) % 9_000;
    format!("{segment} {place} ").into_bytes().into_iter().chain((0..length).map(|byte| byte as u8)).collect()
}

#[test]
fn a_kill_at_any_moment_loses_nothing() {
    let place = Place::new();
    let mut told = None;
    for round in 0..u64::from(cases(6).cases) {
        let mut child = child(module_path!(), "appending_for_ever", "", &place);
        let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while last_told(&line).is_none() && output.read_line(&mut line).unwrap() > 0 {}
        std::thread::sleep(Duration::from_micros(round * 1_733 % 9_000));
        child.kill().unwrap();
        child.wait().unwrap();
        output.read_to_string(&mut line).unwrap();
        told = last_told(&line).or(told);
        check_nothing_lost(&place, told.expect("the child appended nothing"));
    }
}

/// The last line that was written whole, behind what the test's harness prints.
fn last_told(output: &str) -> Option<(i64, usize)> {
    let (lines, _) = output.rsplit_once(".\n")?;
    let (segment, place) = lines.rsplit_once("appended ")?.1.split_once(' ')?;
    Some((segment.parse().ok()?, place.parse().ok()?))
}

fn check_nothing_lost(place: &Place, (segment, told): (i64, usize)) {
    let (_, replayed) = place.open(segment - 1);
    let found = replayed.segments.iter().find(|found| found.number == segment).expect("the segment is there");
    assert!(found.records.len() > told, "{} of {told} in {segment}", found.records.len());
    assert!(place.set_aside().is_empty(), "{:?}", replayed.said);
    for Segment { number, records } in replayed.segments {
        assert!((0..records.len()).map(|place| record(number, place)).eq(records));
    }
}

#[test]
#[ignore = "the child of the test above"]
fn appending_for_ever() {
    let Some(folder) = given_folder() else { return };
    let (mut journal, replayed) = Journal::open(&folder.join("cowbell.db"), ID, 0).unwrap();
    let (mut segment, mut place) =
        replayed.segments.last().map_or((0, RECORDS), |last| (last.number, last.records.len()));
    let mut told = std::io::stdout();
    loop {
        if place >= RECORDS {
            (segment, place) = (segment + 1, 0);
            journal.begin(segment).unwrap();
        }
        journal.append(&record(segment, place)).unwrap();
        told.write_all(format!("appended {segment} {place}.\n").as_bytes()).unwrap();
        place += 1;
    }
}

/// Numbers that are the same in each run (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// A machine whose power is cut now and then.
struct Machine {
    place: Place,
    journal: Journal,
    dice: Dice,
    /// What is on disk for sure, by file; a file is remembered from the last sync.
    synced: [Vec<u8>; 2],
    segments: Vec<Appended>,
    sealed: i64,
    written: u64,
}

/// A segment that was begun. Only its first records are on disk for sure.
struct Appended {
    number: i64,
    records: Vec<Vec<u8>>,
    synced: usize,
}

impl Machine {
    fn new(seed: u64) -> Machine {
        let place = Place::new();
        let (journal, _) = place.open(0);
        let dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Machine { place, journal, dice, synced: [vec![], vec![]], segments: vec![], sealed: 0, written: 0 }
    }

    fn step(&mut self) {
        match self.dice.below(12) {
            _ if self.segments.is_empty() => self.begin(),
            0 => self.begin(),
            1..=2 => self.sync(),
            3 => self.cut_power(),
            _ => self.append(),
        }
    }

    /// The segment before the current one is sealed by then.
    fn begin(&mut self) {
        let last = self.segments.last().map_or(self.sealed, |last| last.number);
        self.sealed = self.sealed.max(last - 1);
        self.journal.begin(last + 1).unwrap();
        let turn = (last + 1) as usize % 2;
        self.synced[turn] = self.place.bytes(turn);
        self.segments.push(Appended { number: last + 1, records: Vec::new(), synced: 0 });
        self.segments.retain(|segment| segment.number > self.sealed);
    }

    /// Few lengths, so that what is left over often lies where a record could be.
    fn append(&mut self) {
        self.written += 1;
        let length = [24, 24, 24, 0, 504, 700][self.dice.below(6) as usize];
        let record: Vec<u8> = self.written.to_le_bytes().into_iter().cycle().take(length).collect();
        self.journal.append(&record).unwrap();
        self.segments.last_mut().unwrap().records.push(record);
    }

    fn sync(&mut self) {
        self.journal.sync().unwrap();
        self.synced = [self.place.bytes(0), self.place.bytes(1)];
        for segment in &mut self.segments {
            segment.synced = segment.records.len();
        }
    }

    fn cut_power(&mut self) {
        for turn in [0, 1] {
            let on_disk = self.mixed(&self.synced[turn].clone(), &self.place.bytes(turn));
            self.place.set_bytes(turn, &on_disk);
            self.synced[turn] = on_disk;
        }
        let (journal, replayed) = self.place.open(self.sealed);
        self.journal = journal;
        assert!(self.place.set_aside().is_empty(), "{:?}", replayed.said);
        self.compare(replayed.segments);
    }

    /// Any sectors that were written since the sync may be on disk, or none, or all.
    fn mixed(&mut self, before: &[u8], after: &[u8]) -> Vec<u8> {
        let is_longer = self.dice.below(3) > 0;
        let mut mixed = if is_longer { after.to_vec() } else { after[..before.len()].to_vec() };
        let chance = [0, 1, 2, 3, 4][self.dice.below(5) as usize];
        for (at, sector) in mixed.chunks_mut(512).enumerate() {
            let range = at * 512..at * 512 + sector.len();
            let zeros = [0; 512];
            let old = before.get(range.clone()).unwrap_or(&zeros[..sector.len()]);
            if old != &after[range] && self.dice.below(4) >= chance {
                sector.copy_from_slice(old);
            }
        }
        mixed
    }

    /// Each segment comes back to some record, and at least to the last that was synced.
    fn compare(&mut self, found: Vec<Segment>) {
        assert_eq!(found.len(), self.segments.len());
        for (segment, found) in self.segments.iter_mut().zip(found) {
            assert_eq!(segment.number, found.number);
            assert!(segment.synced <= found.records.len(), "segment {}", segment.number);
            assert!(segment.records.starts_with(&found.records), "segment {}", segment.number);
            segment.records.truncate(found.records.len());
            segment.synced = found.records.len();
        }
    }
}

#[test]
fn a_power_cut_at_any_moment_keeps_what_was_synced() {
    for seed in 1..=u64::from(cases(8).cases) {
        let mut machine = Machine::new(seed);
        for _ in 0..80 {
            machine.step();
        }
        machine.cut_power();
    }
}
