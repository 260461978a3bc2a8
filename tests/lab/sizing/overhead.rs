//! What a region costs the writer: writes with and without it in turn, and the longest write during `--watch on`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use cowbell::units::SECTOR;
use cowbell_device_mapper::ioctl;
use cowbell_touched::label::{Label, Role};
use cowbell_touched::statistics::{self, NewRegion, Place, StatsReader};

use crate::aio::{self, PageBuffer};
use crate::score::{Figures, percentile};
use crate::workload::Random;

/// Pairs of short runs with and without a region: the machine has other work, which comes and goes.
const PAIRS: usize = 200;
const RUN: Duration = Duration::from_millis(120);
/// Without load between the runs, writes of the one before are complete.
const CREATIONS: usize = 5;
/// A write counts as held up if it overlaps with this time after the beginning of a creation.
const CREATION_MS: f64 = 100.0;
const BLOCK: u64 = 4096;

/// A volume of which each 4 KiB fit the default memory.
pub struct Volume<'a> {
    pub lv: &'a str,
    pub bytes: u64,
}

/// The areas of the region that is compared, in bytes.
#[derive(Clone, Copy)]
pub struct Step(pub u64);

/// Writes each second without and with a region, in turn.
pub fn compare(
    volume: &Volume,
    Step(step): Step,
    figures: &mut Figures,
    goal: Option<f64>,
) -> anyhow::Result<()> {
    let disk = aio::open(Path::new(&format!("/dev/vg0/{}", volume.lv)))?;
    let control = ioctl::open().map_err(anyhow::Error::msg)?;
    let device = device(volume.lv)?;
    let region = NewRegion {
        place: Place::WholeDevice,
        step: step / SECTOR,
        label: Label::new(1, Role::Whole),
    };
    let mut random = Random::new(5);
    write_for(&disk, volume, RUN, &mut random)?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        // ABBA: what changes with time hits both alike.
        for is_watched in [pair % 2 == 1, pair % 2 == 0] {
            let id = is_watched
                .then(|| statistics::create(&control, device, &region))
                .transpose()?;
            let rate = write_for(&disk, volume, RUN, &mut random)?;
            if let Some(id) = id {
                statistics::delete(&control, device, id)?;
                with.push(rate);
            } else {
                without.push(rate);
            }
        }
    }
    let fewer: Vec<f64> = without
        .iter()
        .zip(&with)
        .map(|(without, with)| 1.0 - with / without)
        .collect();
    let median = percentile(&fewer, 0.5);
    // The interval of the median, by the ranks that it has in 95 % of cases.
    let ranks = 0.98 / (PAIRS as f64).sqrt();
    let measured = format!(
        "{:.1} % fewer ({:.1} to {:.1}, 95 %); {:.0} and {:.0} a second at the median of {PAIRS} pairs",
        median * 100.0,
        percentile(&fewer, 0.5 - ranks) * 100.0,
        percentile(&fewer, 0.5 + ranks) * 100.0,
        percentile(&without, 0.5),
        percentile(&with, 0.5)
    );
    let what = format!(
        "writes of 4 KiB, {} areas, {}",
        volume.bytes / step,
        volume.lv
    );
    match goal {
        Some(goal) => figures.goal(
            &what,
            &format!("{:.0} % fewer", goal * 100.0),
            &measured,
            median <= goal,
        ),
        None => figures.beside(&what, &measured),
    }
    Ok(())
}

fn write_for(
    disk: &File,
    volume: &Volume,
    length: Duration,
    random: &mut Random,
) -> anyhow::Result<f64> {
    let buffer = PageBuffer::new();
    let (started, mut count) = (Instant::now(), 0);
    while started.elapsed() < length {
        disk.write_all_at(buffer.page(), random.below(volume.bytes / BLOCK) * BLOCK)?;
        count += 1;
    }
    Ok(f64::from(count) / started.elapsed().as_secs_f64())
}

/// `cowbell size --watch on` while one write follows another.
pub fn hold_up(volume: &Volume, figures: &mut Figures) -> anyhow::Result<()> {
    let name = format!("vg0/{}", volume.lv);
    let program = std::env::var("COWBELL").context("expected the program in COWBELL")?;
    let (mut longest, mut took, mut usual) = (0.0_f64, Vec::new(), 0.0_f64);
    for _ in 0..CREATIONS {
        let stop = AtomicBool::new(false);
        let (writes, created_ms, said) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| timed_writes(volume, &stop));
            let output = Command::new(&program)
                .args(["size", &name, "--watch", "on", "--yes"])
                .output();
            let created_ms = created_ms(volume.lv);
            stop.store(true, Ordering::Relaxed);
            let writes = writer.join().expect("the writer does not panic");
            anyhow::Ok((writes?, created_ms?, output?))
        })?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        ensure!(
            said.status.success(),
            "--watch on: {}",
            String::from_utf8_lossy(&said.stderr)
        );
        took.extend(
            text.split("starting took ")
                .nth(1)
                .and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok()),
        );
        let is_held = |write: &&(f64, f64)| {
            let (at_ms, took_ms) = **write;
            at_ms + took_ms >= created_ms && at_ms <= created_ms + CREATION_MS
        };
        longest = writes
            .iter()
            .filter(is_held)
            .map(|(_, took)| *took)
            .fold(longest, f64::max);
        usual = writes
            .iter()
            .filter(|write| !is_held(write))
            .map(|(_, took)| *took)
            .fold(usual, f64::max);
        ensure!(
            Command::new(&program)
                .args(["size", &name, "--watch", "off"])
                .output()?
                .status
                .success(),
            "--watch off"
        );
    }
    let what = format!(
        "longest write during {CREATIONS} `--watch on` of {} areas",
        volume.bytes / BLOCK
    );
    let starting = percentile(&took, 1.0);
    figures.beside(
        &what,
        &format!("{longest:.1} ms (starting took up to {starting:.1} ms; the longest of all other writes {usual:.1} ms)"),
    );
    Ok(())
}

/// When each write began, in milliseconds since 1970, and how many it took.
fn timed_writes(volume: &Volume, stop: &AtomicBool) -> anyhow::Result<Vec<(f64, f64)>> {
    let disk = aio::open(Path::new(&format!("/dev/vg0/{}", volume.lv)))?;
    let (buffer, mut random, mut writes) = (PageBuffer::new(), Random::new(6), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let started = Instant::now();
        disk.write_all_at(buffer.page(), random.below(volume.bytes / BLOCK) * BLOCK)?;
        writes.push((
            at.as_secs_f64() * 1e3,
            started.elapsed().as_secs_f64() * 1e3,
        ));
    }
    Ok(writes)
}

fn device(lv: &str) -> anyhow::Result<u64> {
    let control = ioctl::open().map_err(anyhow::Error::msg)?;
    let devices = StatsReader::default()
        .devices(&control)
        .map_err(anyhow::Error::msg)?;
    let found = devices
        .iter()
        .find(|device| device.name == format!("vg0-{lv}"));
    found
        .map(|device| device.number)
        .with_context(|| format!("no volume {lv}"))
}

/// The time in the label of the region.
fn created_ms(lv: &str) -> anyhow::Result<f64> {
    let control = ioctl::open().map_err(anyhow::Error::msg)?;
    let regions = StatsReader::default()
        .regions(&control, device(lv)?)?
        .regions;
    Ok(regions
        .first()
        .context("no region was created")?
        .label
        .created
        .parse()?)
}
