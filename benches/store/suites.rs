//! The suites: each feeds, reads, and prints rows of goal and measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cowbell::config::{Age, Store as Config};
use jiff::Timestamp;
use sqlx::Connection;

use crate::feed::{Cost, Store, opened};
use crate::limit::Limit;
use crate::machine::{Machine, Size};
use crate::meter::{Process, ms, process_time, size_of, thread_time, us};
use crate::prometheus::{Scraper, blocks, is_installed};
use crate::{job, pages, plain_rows, reads};

const LEVELS: [&str; 3] = ["ticks", "minutes", "10 min"];
const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

pub async fn day() {
    head();
    let mut machine = Machine::new(Size::USUAL, None);
    let mut store = Store::new().await;
    let cost = store.feed(&mut machine, DAY);
    println!(
        "| CPU per tick of storing, fast loop: 0.1 ms | {:.1} µs |",
        cost.per_tick_us()
    );
    appends(&cost);
    reads::day(&store.reader, machine.at()).await;
    let folder = store.close().await;
    reads::export(&folder.path().join("cowbell.db"), machine.at()).await;
    let size = size_of(folder.path());
    println!(
        "| a day on disk, everything: 24 MB | {:.2} MB |",
        size as f64 / 1e6
    );
    println!(
        "| bytes a value ({} values a tick) | {:.3} |",
        machine.values(),
        per_value(size, &machine, DAY)
    );
    composition(folder.path(), DAY * machine.values()).await;
}

pub async fn pages(days: u64) {
    head();
    pages::pages(days).await;
}

pub async fn job() {
    head();
    let mut machine = Machine::new(Size::USUAL, None);
    let mut store = Store::new().await;
    store.feed(&mut machine, 12 * HOUR);
    job::figures(&store.reader, machine.at()).await;
    store.close().await;
}

/// Where the bytes of a database are.
async fn composition(folder: &std::path::Path, values: u64) {
    let url = format!("sqlite://{}?mode=ro", folder.join("cowbell.db").display());
    let mut connection = sqlx::SqliteConnection::connect(&url)
        .await
        .expect("the database is there");
    for (level, table) in LEVELS.into_iter().zip(["tick", "minute", "ten_minute"]) {
        let sum = format!("SELECT count(*), coalesce(sum(length(record)), 0) FROM {table}");
        let (count, bytes): (i64, i64) = sqlx::query_as(sqlx::AssertSqlSafe(sum))
            .fetch_one(&mut connection)
            .await
            .expect("records");
        println!(
            "| – of it {level} | {bytes} B in {count} records, {:.4} a value |",
            bytes as f64 / values as f64
        );
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let size = entry.metadata().map_or(0, |entry| entry.len());
        println!("| – file {} | {size} B |", entry.file_name().display());
    }
}

pub async fn written() {
    head();
    let mut machine = Machine::new(Size::USUAL, None);
    let mut store = Store::new().await;
    // What is made once is not the cost of a tick: tables, and SQLite's log at its full length.
    store.feed(&mut machine, HOUR);
    let cost = store.feed(&mut machine, 6 * HOUR);
    println!(
        "| written per tick: 1,600 B | {} B |",
        cost.written / cost.ticks
    );
    println!(
        "| – by the device's counter | {} B |",
        cost.device_written / cost.ticks
    );
    store.close().await;
}

/// Minutes are kept for just so long: at the end there is as much as there will ever be.
pub async fn long(size: Size, days: u64) {
    head();
    let mut machine = Machine::new(size, None);
    let minutes = Age(Duration::from_secs(days * DAY));
    let keep = Config {
        minutes,
        ..Config::default()
    };
    let mut store = Store::keeping(keep).await;
    let (mut cost, mut resident, mut forecasts) = (Cost::default(), Vec::new(), Vec::new());
    for _ in 0..10 {
        let part = store.feed(&mut machine, days * DAY / 10);
        cost.ticks += part.ticks;
        cost.storing += part.storing;
        resident.push(format!("{:.1}", Process::own().resident_mib()));
        let forecast = store
            .inlet
            .health()
            .0
            .stock
            .forecast_bytes(&keep)
            .unwrap_or_default();
        forecasts.push(format!("{:.1}", forecast as f64 / 1e6));
    }
    println!("| CPU per tick of storing | {:.1} µs |", cost.per_tick_us());
    println!(
        "| RSS after each tenth: flat | {} MiB |",
        resident.join(", ")
    );
    println!(
        "| what it would need, as told after each tenth | {} MB |",
        forecasts.join(", ")
    );
    reads::long(&store.reader, days as i64, machine.at()).await;
    reads::day(&store.reader, machine.at()).await;
    let folder = store.close().await;
    let size = size_of(folder.path());
    let per_value = per_value(size, &machine, cost.ticks);
    println!(
        "| {days} days on disk | {:.1} MB, {per_value:.3} a value |",
        size as f64 / 1e6
    );
    let started = Instant::now();
    let (inlet, reader) = opened(folder.path(), keep).await;
    println!("| start: under 1 s | {:.0} ms |", ms(started.elapsed()));
    drop(reader);
    inlet.close().await;
    composition(folder.path(), cost.ticks * machine.values()).await;
}

pub async fn thousand() {
    head();
    let before = Process::own().resident_mib();
    let mut machine = Machine::new(Size::THOUSAND, None);
    let mut store = Store::new().await;
    Process::own().forget_most();
    let cost = store.feed(&mut machine, HOUR);
    println!(
        "| CPU per tick of storing 1,000 devices: 3 ms | {:.0} µs |",
        cost.per_tick_us()
    );
    appends(&cost);
    println!("| written per tick | {} B |", cost.written / cost.ticks);
    println!(
        "| – by the device's counter | {} B |",
        cost.device_written / cost.ticks
    );
    let most = Process::own().most_resident_mib();
    println!("| RSS at most: 100 MiB | {most:.0} MiB ({before:.0} before) |");
    let folder = store.close().await;
    let size = size_of(folder.path());
    println!(
        "| bytes a value ({} values a tick) | {:.3} |",
        machine.values(),
        per_value(size, &machine, HOUR)
    );
}

pub async fn rows() {
    println!(
        "| scheme | B/value | written per tick | device | CPU per tick | 1 device, whole span |"
    );
    println!("|---|---|---|---|---|---|");
    let make = || Machine::new(Size::USUAL, None);
    plain_rows::measure(HOUR / 2, make).await;
    let mut machine = make();
    let mut store = Store::new().await;
    let cost = store.feed(&mut machine, HOUR / 2);
    store.close().await;
    println!(
        "| cowbell, beside them | | {} B | {} B | {:.0} µs | |",
        cost.written / cost.ticks,
        cost.device_written / cost.ticks,
        cost.per_tick_us()
    );
}

pub fn prometheus() {
    if !is_installed() {
        return println!("prometheus and promtool are not installed: apt-get install prometheus");
    }
    head();
    let machine = Machine::new(Size::USUAL, None);
    let samples = (machine.values() * DAY) as f64;
    let (size, chunks) = blocks(machine, DAY);
    println!(
        "| Prometheus, 24 h as blocks of two hours (promtool) | {:.2} MB |",
        size as f64 / 1e6
    );
    println!(
        "| – bytes a sample | {:.3}, chunks alone {:.3} |",
        size as f64 / samples,
        chunks as f64 / samples
    );
}

pub fn limit() {
    head();
    let machine = Machine::new(Size::USUAL, None);
    let values = (machine.size.devices() * 8) as f64 * DAY as f64;
    let limit = Limit::of(machine, DAY);
    for (named, bytes) in [
        (
            "order-0 entropy, each window's own distributions for nothing",
            limit.by_window,
        ),
        (
            "order-0 entropy, one distribution a column and day",
            limit.by_day,
        ),
        ("chance that went in, hidden rates known", limit.by_chance),
    ] {
        println!(
            "| {named} | {bytes:.0} B, {:.4} a device's value |",
            bytes / values
        );
    }
}

/// At one tick a second.
pub async fn real() {
    let minutes: u64 = std::env::var("MINUTES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(22);
    let mut machine = Machine::new(Size::USUAL, Some(Timestamp::now()));
    let mut store = Store::new().await;
    let scraper = is_installed().then(Scraper::start);
    settle(&mut store, &mut machine, scraper.as_ref());
    let answering = || scraper.as_ref().map_or(Duration::ZERO, Scraper::answering);
    let theirs = || {
        scraper.as_ref().map_or((0, Duration::ZERO), |scraper| {
            (scraper.process().written(), scraper.process().ran())
        })
    };
    let mut cost = Cost::default();
    let (began, loop_began, answered, wrote, beside) = (
        process_time(),
        thread_time(),
        answering(),
        store.wrote(),
        theirs(),
    );
    for _ in 0..minutes * 60 {
        second(&mut store, &mut machine, scraper.as_ref(), &mut cost);
    }
    store.commit();
    let (wrote_now, beside_now) = (store.wrote(), theirs());
    let other = (thread_time() - loop_began) - cost.appending + (answering() - answered);
    cost.storing = (process_time() - began).saturating_sub(other);
    head();
    println!(
        "| written per tick: 1,600 B | {} B |",
        (wrote_now.0 - wrote.0) / cost.ticks
    );
    println!(
        "| – by the device's counter | {} B |",
        (wrote_now.1 - wrote.1) / cost.ticks
    );
    println!(
        "| CPU per tick of storing, one tick a second | {:.0} µs |",
        cost.per_tick_us()
    );
    appends(&cost);
    println!("| RSS | {:.1} MiB |", Process::own().resident_mib());
    if let Some(scraper) = &scraper {
        let per_tick = us(beside_now.1 - beside.1) / cost.ticks as f64;
        println!(
            "| Prometheus beside it: written per tick | {} B |",
            (beside_now.0 - beside.0) / cost.ticks
        );
        println!("| – CPU per tick, of scraping and storing | {per_tick:.0} µs |");
        println!("| – RSS | {:.0} MiB |", scraper.process().resident_mib());
        println!("| – on disk | {:.2} MB |", scraper.size() as f64 / 1e6);
    }
    let folder = store.close().await;
    println!(
        "| on disk after closing | {:.2} MB |",
        size_of(folder.path()) as f64 / 1e6
    );
}

/// What is done once, at the start, is not the cost of a tick.
fn settle(store: &mut Store, machine: &mut Machine, scraper: Option<&Scraper>) {
    for _ in 0..10 {
        second(store, machine, scraper, &mut Cost::default());
    }
}

fn second(store: &mut Store, machine: &mut Machine, scraper: Option<&Scraper>, cost: &mut Cost) {
    let interval = Arc::new(machine.tick());
    if let Some(scraper) = scraper {
        scraper.show(machine);
    }
    store.append(&interval, cost);
    let left = Timestamp::now().duration_until(machine.at());
    std::thread::sleep(Duration::try_from(left).unwrap_or_default());
}

fn appends(cost: &Cost) {
    println!(
        "| longest time in append: a commit never delays a tick | {:.2} ms, of which it ran {:.3} ms; on average {:.1} µs |",
        ms(cost.longest_append),
        ms(cost.longest_append_ran),
        us(cost.appending) / cost.ticks as f64,
    );
}

fn per_value(size: u64, machine: &Machine, ticks: u64) -> f64 {
    size as f64 / (ticks * machine.values()) as f64
}

fn head() {
    println!("| goal | measured |");
    println!("|---|---|");
}
