//! Any course of ticks: streams come and go, clocks jump, numbers are any.

use std::sync::Arc;

use proptest::prelude::*;

use crate::store::recent::SegmentNumbering;
use crate::store::segment::window;
use crate::store::stream::{Kind, Stream};
use crate::store::tick::{Layout, Tick};

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

/// Ticks of usual intervals, seldom out of the order of time.
pub fn course(numbers: Numbers, most: usize) -> impl Strategy<Value = Vec<Arc<Tick>>> {
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

fn ticks(steps: &[Step], numbers: Numbers) -> Vec<Arc<Tick>> {
    let (mut at_ms, mut layout) = (BEGIN_MS, layout_of(u8::MAX));
    let ticks = steps.iter().map(|step| {
        at_ms += step.walked_ms;
        layout = step.streams.map_or_else(|| Arc::clone(&layout), layout_of);
        let mut tick = Tick::new(at_ms, step.elapsed_us, Arc::clone(&layout));
        let mut dice = Dice(step.seed | 1);
        for (place, stream) in (0..).zip(&*layout) {
            tick.push(place, row(*stream, numbers, &mut dice).as_deref());
        }
        Arc::new(tick)
    });
    ticks.collect()
}

fn layout_of(bits: u8) -> Arc<Layout> {
    let there = (0..).zip(STREAMS).filter(|(bit, _)| bits >> bit & 1 == 1);
    let mut streams: Vec<Stream> = there.map(|(_, stream)| stream).collect();
    streams.sort_unstable();
    streams.into()
}

/// Unknown, idle, what it often is, or whatever.
fn row(stream: Stream, numbers: Numbers, dice: &mut Dice) -> Option<Vec<u64>> {
    let columns = stream.kind.columns();
    let row: Vec<u64> = match dice.next() % 8 {
        0 => return None,
        1..=2 => vec![0; columns],
        3 => (1..=columns as u64).collect(),
        _ => (0..columns)
            .map(|_| dice.next() >> (dice.next() % 64))
            .collect(),
    };
    let usual = |number: &u64| number % (1 << 26);
    Some(if numbers == Numbers::Any {
        row
    } else {
        row.iter().map(usual).collect()
    })
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

/// The ticks by segment, as the store cuts them; the first is number 1.
pub fn segments(ticks: &[Arc<Tick>]) -> Vec<(i64, Vec<Arc<Tick>>)> {
    let mut numbering = SegmentNumbering::new(1);
    let mut segments: Vec<(i64, Vec<Arc<Tick>>)> = Vec::new();
    for tick in ticks {
        let number = numbering.number(tick.at_ms, 40);
        match segments.last_mut().filter(|(last, _)| *last == number) {
            Some((_, segment)) => segment.push(Arc::clone(tick)),
            None => segments.push((number, vec![Arc::clone(tick)])),
        }
    }
    segments
}

#[test]
fn a_segment_is_of_one_window_in_the_order_of_time() {
    let hour = 3_600_000;
    let starts = [
        0,
        1,
        599_999,
        600_000,
        600_001,
        600_001,
        hour,
        hour - 1,
        hour + 1,
    ];
    let ticks = starts.map(|walked| Arc::new(Tick::new(BEGIN_MS + walked, 1, layout_of(1))));
    let lengths: Vec<usize> = segments(&ticks)
        .iter()
        .map(|(_, ticks)| ticks.len())
        .collect();
    // What ends a window is the last of it; an instant that is there already begins another segment.
    assert_eq!(lengths, [1, 3, 1, 1, 1, 1, 1]);
    assert!(segments(&ticks).iter().all(|(_, ticks)| {
        ticks
            .windows(2)
            .all(|pair| window(pair[0].at_ms) == window(pair[1].at_ms))
    }));
}
