//! What holds for any course of ticks: streams come and go, clocks jump, numbers are any. Nothing of it is lost on its
//! way through the store.

mod damaged;
mod deleted;
mod records;
mod refused;
mod series;

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::store::address::{Kind, Level, Position, StoredValue, Stream};
use crate::store::recent::TickRecord;
use crate::store::record::{Encoder, Rows};

/// So few cases of a property, or as many as PROPTEST_CASES says.
pub fn cases(few: u32) -> Config {
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        config
    } else {
        Config {
            cases: few,
            ..config
        }
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().unwrap().block_on(future)
}

/// 2026-03-01T02:00:00Z
pub const BEGIN_MS: i64 = 1_772_330_400_000;
/// Whatever a tick may have; two devices and two volumes.
pub const STREAMS: [Stream; 7] = [
    Stream::HOST,
    Stream::TOTAL,
    Stream {
        kind: Kind::Device,
        row: 1,
    },
    Stream {
        kind: Kind::Device,
        row: 2,
    },
    Stream {
        kind: Kind::Copying,
        row: 1,
    },
    Stream {
        kind: Kind::Volume,
        row: 1,
    },
    Stream {
        kind: Kind::Volume,
        row: 2,
    },
];

/// How large numbers are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Numbers {
    Any,
    /// As those of machines: their sums fit.
    Usual,
}

/// One tick more.
#[derive(Clone, Debug)]
struct Step {
    /// Since the tick before, by the wall clock; it may stand still or go back.
    walked_ms: i64,
    elapsed_us: u64,
    /// Which of the streams are there from now on.
    streams: Option<u8>,
    /// What the rows are made of.
    seed: u64,
}

/// A tick as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct CourseTick {
    pub at_ms: i64,
    pub elapsed_us: u64,
    pub rows: Rows,
}

/// Ticks of usual intervals, seldom out of the order of time.
pub fn course(numbers: Numbers, most: usize) -> impl Strategy<Value = Vec<CourseTick>> {
    prop::collection::vec(step(), 1..most).prop_map(move |steps| ticks(&steps, numbers))
}

fn step() -> impl Strategy<Value = Step> {
    let walked_ms = prop_oneof![
        10 => Just(1_000_i64),
        10 => Just(60_000),
        3 => 1..200_000_i64,
        1 => Just(0),
        1 => Just(-1),
        1 => -7_200_000..0_i64,
        1 => Just(86_400_000),
    ];
    let streams = prop_oneof![9 => Just(None), 1 => any::<u8>().prop_map(Some)];
    let elapsed_us = prop_oneof![1 => Just(0), 9 => 1..120_000_000_u64];
    (walked_ms, elapsed_us, streams, any::<u64>()).prop_map(
        |(walked_ms, elapsed_us, streams, seed)| Step {
            walked_ms,
            elapsed_us,
            streams,
            seed,
        },
    )
}

fn ticks(steps: &[Step], numbers: Numbers) -> Vec<CourseTick> {
    let (mut at_ms, mut there) = (BEGIN_MS, u8::MAX);
    let ticks = steps.iter().map(|step| {
        at_ms += step.walked_ms;
        there = step.streams.unwrap_or(there);
        let mut dice = Dice(step.seed | 1);
        let rows = Rows::collect(Level::Ticks, |push| {
            for (bit, stream) in (0..).zip(STREAMS) {
                if there >> bit & 1 == 1 {
                    push(stream, &row(stream, numbers, &mut dice));
                }
            }
        });
        CourseTick {
            at_ms,
            elapsed_us: step.elapsed_us,
            rows,
        }
    });
    ticks.collect()
}

/// Unknown in all or some columns, idle, what it often is, or whatever.
fn row(stream: Stream, numbers: Numbers, dice: &mut Dice) -> Vec<StoredValue> {
    let columns = stream.kind.columns();
    let row: Vec<StoredValue> = match dice.next() % 8 {
        0 => vec![None; columns],
        1..=2 => vec![Some(0); columns],
        3 => (1..=columns as u64).map(Some).collect(),
        4 => (0..columns)
            .map(|_| dice.next().is_multiple_of(2).then(|| dice.next()))
            .collect(),
        _ => (0..columns)
            .map(|_| Some(dice.next() >> (dice.next() % 64)))
            .collect(),
    };
    let usual = |number: &StoredValue| number.map(|number| number % (1 << 26));
    match numbers {
        Numbers::Any => row,
        Numbers::Usual => row.iter().map(usual).collect(),
    }
}

/// Numbers that follow from the first (xorshift).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// The ticks as the store encodes them.
pub fn records(ticks: &[CourseTick]) -> Vec<TickRecord> {
    let (mut encoder, mut last) = (Encoder::new(Level::Ticks), None);
    let record = |tick: &CourseTick| {
        let position = Position::next(last, tick.at_ms).unwrap();
        last = Some(position);
        let record = encoder.encode(position, tick.elapsed_us, &tick.rows);
        TickRecord {
            position,
            record: record.into(),
            decoder: (tick.at_ms % 3 == 0).then(|| Arc::new(encoder.decoder())),
        }
    };
    ticks.iter().map(record).collect()
}
