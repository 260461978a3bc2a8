//! How long it takes to read series back, from pages that the kernel has in memory.

use std::path::Path;
use std::time::{Duration, Instant};

use cowbell::quantity::Quantity;
use cowbell::series::{DEFAULT_POINTS, MOST_POINTS, Range};
use cowbell::store::{
    ExportFormat, ExportQuery, ReadView, Resolution, SeriesKey, StoreReader, Subject, Target,
};
use jiff::{SignedDuration, Timestamp};

use crate::machine::name;
use crate::meter::{Process, ms};

const TIMES: usize = 11;

/// What charts ask for most.
const BYTES: [Quantity; 2] = [Quantity::ReadBytes, Quantity::WrittenBytes];

/// The last day of one device and of eight, in goals and results.
pub async fn day(reader: &StoreReader, until: Timestamp) {
    let day = SignedDuration::from_hours(24);
    let most = median(reader, &wanted(1, &BYTES[..1]), day, until, MOST_POINTS).await;
    row(
        &format!("1 device, 24 h, at full resolution ({MOST_POINTS} points): 15 ms"),
        most,
    );
    let thinned = median(reader, &wanted(1, &BYTES[..1]), day, until, 1_000).await;
    row("1 device, 24 h, 1,000 points: 10 ms", thinned);
    let latency = median(
        reader,
        &wanted(1, &[Quantity::ReadAwaitMs]),
        day,
        until,
        MOST_POINTS,
    )
    .await;
    row(
        "… read_await_ms at full resolution, which is of two columns",
        latency,
    );
    let eight = median(reader, &wanted(8, &BYTES), day, until, DEFAULT_POINTS).await;
    row(
        &format!("8 devices, 24 h, read and written, {DEFAULT_POINTS} points each: 50 ms"),
        eight,
    );
    let eight = median(reader, &wanted(8, &BYTES), day, until, MOST_POINTS).await;
    row("… at full resolution", eight);
    let hour = median(
        reader,
        &wanted(8, &BYTES),
        SignedDuration::from_hours(1),
        until,
        DEFAULT_POINTS,
    )
    .await;
    row(
        "8 devices, the last hour, read and written, 600 points each",
        hour,
    );
}

/// One device over a long time, thinned.
pub async fn long(reader: &StoreReader, days: i64, until: Timestamp) {
    let range = SignedDuration::from_hours(24 * days);
    let took = median(reader, &wanted(1, &BYTES[..1]), range, until, 1_000).await;
    row(&format!("1 device, {days} days, 1,000 points: 30 ms"), took);
    let took = median(reader, &wanted(1, &BYTES), range, until, 1_000).await;
    row(
        &format!("1 device, {days} days, read and written, 1,000 points each"),
        took,
    );
}

/// All of the last day, as text.
pub async fn export(db: &Path, until: Timestamp) {
    let before = Process::own().resident_mib();
    Process::own().forget_most();
    let started = Instant::now();
    let mut view = ReadView::of(db).await.expect("the database is read");
    let range = Range {
        from: until - SignedDuration::from_hours(24),
        to: until,
    };
    let ask = ExportQuery {
        range,
        of: Vec::new(),
        metrics: Vec::new(),
        resolution: Resolution::Tick,
    };
    let mut target = Target::new(ExportFormat::Csv, Box::new(std::io::sink()));
    let rows = view
        .export(&ask, &mut target, |_| ())
        .await
        .expect("all is exported")
        .rows;
    let (took, most) = (
        started.elapsed().as_secs_f64(),
        Process::own().most_resident_mib(),
    );
    println!(
        "| every tick of a day as CSV | {rows} rows in {took:.1} s, RSS {before:.0} to {most:.0} MiB |"
    );
}

fn wanted(devices: usize, quantities: &[Quantity]) -> Vec<SeriesKey> {
    let of_device = |device: usize| {
        let wanted = move |quantity: &Quantity| SeriesKey {
            subject: Subject::Device(name(device)),
            quantity: *quantity,
        };
        quantities.iter().map(wanted)
    };
    (0..devices).flat_map(of_device).collect()
}

async fn median(
    reader: &StoreReader,
    wanted: &[SeriesKey],
    length: SignedDuration,
    to: Timestamp,
    points: usize,
) -> (Duration, usize) {
    let range = Range {
        from: to - length,
        to,
    };
    let (mut took, mut given) = (Vec::with_capacity(TIMES), 0);
    for _ in 0..TIMES {
        let started = Instant::now();
        let series = reader
            .series(wanted, range, points)
            .await
            .expect("the series is read");
        took.push(started.elapsed());
        given = series
            .iter()
            .flatten()
            .map(|series| series.points.len())
            .sum();
    }
    took.sort_unstable();
    (took[TIMES / 2], given)
}

fn row(goal: &str, (took, points): (Duration, usize)) {
    println!("| {goal} | {:.1} ms ({points} points) |", ms(took));
}
