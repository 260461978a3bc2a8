//! One simulated device, second by second: busy, bursty or idle.
//!
//! A busy one has requests whose rate is log-normal and remembers the second before (AR(1)), a course of the day, idle
//! spells, and on some devices a backup of two hours at 350 MB/s. A bursty one works in a tenth of the seconds, an idle
//! one in one of six hundred.

use std::f64::consts::TAU;

use crate::chance::{Chance, bits_of_count, bits_of_normal};

/// Columns of `/proc/diskstats` that are kept, in their order.
pub const COUNTERS: usize = 8;

const DAY: f64 = 86_400.0;
const HOUR: u64 = 3_600;
/// How much of the rate of the second before is left.
const MEMORY: f64 = 0.97;
/// The standard deviation of the logarithm of the rate, once it has settled, is four times this.
const WAVERING: f64 = 0.1;
/// Nothing in three of four seconds, else 1 to 3.
const BITS_OF_ROUNDING: f64 = 1.207;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Habit {
    Busy { has_backup: bool },
    Bursty,
    Idle,
}

/// What a device is like, and what it did so far.
pub struct Device {
    habit: Habit,
    chance: Chance,
    /// Requests a second, of which `reads` are reads.
    rate: f64,
    reads: f64,
    /// Pages of 4 KiB in a request, and how long one takes in milliseconds; of reads and of writes.
    pages: [f64; 2],
    takes_ms: [f64; 2],
    wavering: f64,
    /// Seconds of the spell or burst that are left.
    spell: u64,
    pub counters: [u64; COUNTERS],
    /// Bits of pure chance in what it did: see [`crate::limit`].
    pub bits: f64,
}

impl Device {
    pub fn new(habit: Habit, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let slowest = if habit == Habit::Bursty {
            20.0
        } else {
            15.0_f64
        };
        let rate = slowest * 80_f64.powf(chance.share());
        let reads = 0.1 + 0.7 * chance.share();
        let pages = [1.0 + 7.0 * chance.share(), 1.0 + 15.0 * chance.share()];
        let takes_ms = [0.2 + 2.0 * chance.share(), 0.3 + 3.0 * chance.share()];
        Self {
            habit,
            chance,
            rate,
            reads,
            pages,
            takes_ms,
            wavering: 0.0,
            spell: 0,
            counters: [0; COUNTERS],
            bits: 0.0,
        }
    }

    /// What it does in this second of time, in the order of the counters.
    pub fn second(&mut self, second: u64) -> [u64; COUNTERS] {
        let work = match self.habit {
            Habit::Busy { has_backup } => self.busy(second, has_backup),
            Habit::Bursty => self.bursty(second),
            Habit::Idle => self.idle(),
        };
        for (counter, done) in self.counters.iter_mut().zip(work) {
            *counter += done;
        }
        work
    }

    fn busy(&mut self, second: u64, has_backup: bool) -> [u64; COUNTERS] {
        let of_day = second % (24 * HOUR);
        let copied = has_backup && (2 * HOUR..4 * HOUR).contains(&of_day);
        if self.spell == 0 && self.chance.once_in(900.0) {
            self.spell = self.chance.between(5, 120);
        }
        if self.spell > 0 && !copied {
            self.spell -= 1;
            return [0; COUNTERS];
        }
        let course = 0.6 * ((of_day as f64 / DAY - 0.375) * TAU).sin();
        self.work(course, copied)
    }

    fn bursty(&mut self, second: u64) -> [u64; COUNTERS] {
        if self.spell == 0 && self.chance.once_in(400.0) {
            self.spell = self.chance.between(5, 60);
        }
        self.spell = self.spell.saturating_sub(1);
        match self.spell {
            0 if second.is_multiple_of(30) => self.few(),
            0 => [0; COUNTERS],
            _ => self.work(0.0, false),
        }
    }

    fn idle(&mut self) -> [u64; COUNTERS] {
        if self.chance.once_in(600.0) {
            self.few()
        } else {
            [0; COUNTERS]
        }
    }

    /// What a file system writes by itself.
    fn few(&mut self) -> [u64; COUNTERS] {
        let writes = self.chance.between(1, 3);
        let took_ms = self.chance.between(0, 2);
        [
            0,
            0,
            0,
            writes,
            8 * (writes + self.chance.between(0, 2)),
            took_ms,
            took_ms,
            took_ms,
        ]
    }

    fn work(&mut self, course: f64, copied: bool) -> [u64; COUNTERS] {
        self.wavering = MEMORY * self.wavering + WAVERING * self.chance.normal();
        let rate = self.rate * (course + self.wavering).exp();
        let [mut reads, mut read_sectors, mut read_ms] = self.requests(0, rate * self.reads);
        let [writes, written_sectors, write_ms] = self.requests(1, rate * (1.0 - self.reads));
        if copied {
            let blocks = (683.0 + 40.0 * self.chance.normal()).max(0.0).round() as u64;
            reads += blocks;
            read_sectors += blocks * 1_024;
            read_ms += (blocks as f64 * (1.2 + 0.1 * self.chance.normal())).max(0.0) as u64;
            self.bits += bits_of_normal(40.0) + bits_of_normal(blocks as f64 * 0.1);
        }
        let together = (read_ms + write_ms) as f64;
        let busy_ms = together / (1.0 + rate / 400.0) * (1.0 + 0.1 * self.chance.normal());
        let rounding = if self.chance.once_in(4.0) {
            self.chance.between(1, 3)
        } else {
            0
        };
        let queue_ms = read_ms + write_ms + rounding;
        let busy_ms = busy_ms.clamp(0.0, 1_000.0).round() as u64;
        self.bits += if busy_ms < 1_000 {
            bits_of_normal(busy_ms as f64 * 0.1)
        } else {
            0.0
        };
        self.bits += BITS_OF_ROUNDING;
        [
            reads,
            read_sectors,
            read_ms,
            writes,
            written_sectors,
            write_ms,
            busy_ms,
            queue_ms,
        ]
    }

    /// Requests of one direction: how many, their sectors, their milliseconds.
    fn requests(&mut self, direction: usize, mean: f64) -> [u64; 3] {
        let count = self.chance.count(mean);
        let pages = count
            + self
                .chance
                .count(count as f64 * (self.pages[direction] - 1.0));
        let slowness = (0.3 * self.chance.normal()).exp();
        let took_ms = (count as f64 * self.takes_ms[direction] * slowness).round() as u64;
        self.bits +=
            bits_of_count(mean) + bits_of_count(count as f64 * (self.pages[direction] - 1.0));
        self.bits += bits_of_normal(took_ms as f64 * 0.3);
        [count, pages * 8, took_ms]
    }
}
