//! `cowbell size`: which parts of a volume are written to, and so how large a snapshot of it has to be.
//!
//! `--watch` and `--clean` create and delete device-mapper statistics. They need no daemon, and no other command changes a
//! device. Whatever speaks against a change is found before anything is asked, and is one sentence.

pub mod creator;
mod volume;

use std::io::{BufRead, IsTerminal};

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use cowbell_device_mapper::ioctl;
use cowbell_touched::estimate::PROBES;
use cowbell_touched::plan::{ByteSize, Grid, Plan, Processors};
use cowbell_touched::statistics::{MAX_REGIONS, StatsReader, delete_all};
use rustix::io::Errno;

use super::output::{JsonFlag, print, wrapped};
use crate::client::Daemon;
use crate::config::LvmSource;
use crate::sizing::SizeAdvice;
use crate::source::clock;
use crate::source::files::Root;
use crate::table::Style;
use crate::units::{count_text, grouped, size_text};
use volume::TargetVolume;

#[derive(Args)]
pub struct SizeArguments {
    /// The volume, such as vg0/mysql
    #[arg(value_name = "VG/LV", required_unless_present = "clean")]
    volume: Option<String>,
    #[command(flatten)]
    format: JsonFlag,
    /// Start or end counting which parts of the volume are written to
    #[arg(
        long,
        value_name = "on|off",
        hide_possible_values = true,
        conflicts_with = "json"
    )]
    watch: Option<WatchSwitch>,
    /// Start without asking
    #[arg(long, requires = "watch")]
    yes: bool,
    /// Kernel memory that the counters may take [default: 64MiB]
    #[arg(long, value_name = "SIZE", requires = "watch")]
    memory: Option<ByteSize>,
    /// The chunk size of the snapshot, such as 64KiB [default: 4KiB, which tells larger ones too]
    #[arg(long, value_name = "SIZE", requires = "watch")]
    chunk: Option<ByteSize>,
    /// End counting on all volumes
    #[arg(long, conflicts_with_all = ["volume", "watch", "json"])]
    clean: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum WatchSwitch {
    On,
    Off,
}

pub async fn size(
    arguments: SizeArguments,
    daemon: &Daemon,
    lvm: LvmSource,
    root: &Root,
) -> anyhow::Result<()> {
    match (arguments.volume.as_deref(), arguments.watch) {
        (None, _) => clean(),
        (Some(volume), None) => {
            let advice = daemon.size_advice(volume, None).await?;
            print(&if arguments.format.json {
                serde_json::to_string(&advice)? + "\n"
            } else {
                wrapped(&text(&advice))
            })
        }
        (Some(volume), Some(WatchSwitch::On)) => {
            require_reader(volume, lvm)?;
            watch_on(volume, &arguments, root).await
        }
        (Some(volume), Some(WatchSwitch::Off)) => watch_off(volume, root).await,
    }
}

/// The sentences, the table, and how it is known.
fn text(advice: &SizeAdvice) -> String {
    let remedy = advice.remedy.as_ref().map(ToString::to_string);
    let sentences = [
        advice.planned.as_ref().map(|planned| &planned.text),
        remedy.as_ref(),
        advice.room.as_ref(),
        advice.hours.as_ref().map(|hours| &hours.text),
    ];
    let mut text = String::new();
    for sentence in sentences.into_iter().flatten() {
        text += &format!("{sentence}\n");
    }
    let table = advice.table().write(Style::Plain);
    text + &format!("\n{table}\n{}\n{}\n", advice.basis, advice.limits)
}

async fn watch_on(volume: &str, arguments: &SizeArguments, root: &Root) -> anyhow::Result<()> {
    require_root("watch a volume")?;
    let Some(subject) = volume::find(volume, root).await? else {
        bail!("cannot watch {volume}: it is not active; activate it with `lvchange -ay {volume}`");
    };
    subject.refuse_unless_eligible()?;
    let processors = processors(root)?;
    let plan = Plan::of(
        &subject.volume,
        arguments.memory,
        arguments.chunk,
        processors,
    )?;
    require_unwatched(&subject, plan.regions())?;
    creator::require_none()?;
    print(&cost(&subject, plan, processors))?;
    if !arguments.yes {
        ask()?;
    }
    subject.require_short_queues(root).await?;
    let took = creator::create(&subject, &plan.first_region(clock::now().as_millisecond())).await?;
    print(&format!(
        "{volume} is watched; starting took {:.1} ms. cowbell reads the counters every minute while it runs. After the first \
         hours, see the size of a snapshot with:\n    cowbell size {volume}\nTo end this:\n    cowbell size {volume} \
         --watch off\n",
        took.as_secs_f64() * 1000.0
    ))
}

fn processors(root: &Root) -> anyhow::Result<Processors> {
    let read = |name: &str| {
        let file = root.keep(&format!("sys/devices/system/cpu/{name}")).read();
        file.map_err(anyhow::Error::msg)
    };
    Processors::parse(&read("possible")?, &read("kernel_max")?)
}

/// Counters that are not read are of no use.
fn require_reader(volume: &str, lvm: LvmSource) -> anyhow::Result<()> {
    ensure!(
        lvm.uses_dm(),
        "cannot watch {volume}: cowbell would not read the counters, since `source = \"lvs\"` in [lvm] disables the \
         device-mapper; set it to \"auto\", and restart cowbell"
    );
    Ok(())
}

fn require_root(what: &str) -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root can {what}: run the command with sudo"
    );
    Ok(())
}

fn require_unwatched(subject: &TargetVolume, regions: usize) -> anyhow::Result<()> {
    let (name, device) = (&subject.volume.name, &subject.device);
    let control = ioctl::open().map_err(anyhow::Error::msg)?;
    let mut reader = StatsReader::default();
    let failed = |errno| anyhow::Error::msg(refusal(name, errno));
    let own = reader.regions(&control, *device).map_err(failed)?.regions;
    if let Some(region) = own.first() {
        let step = size_text(region.step * crate::units::SECTOR);
        bail!(
            "{name} is watched already, in parts of {step}; to change that, end it with `cowbell size {name} --watch off`"
        );
    }
    require_room(
        name,
        reader.count_all(&control, *device).map_err(failed)?,
        regions,
    )
}

/// Refuses to create more regions than a volume should have, with those of all programs.
fn require_room(name: &str, all: usize, more: usize) -> anyhow::Result<()> {
    ensure!(
        all + more <= MAX_REGIONS,
        "cannot watch {name}: it has {all} regions of statistics and would need {more} more, and more than {MAX_REGIONS} slow \
         down its writes; `dmstats list --allprograms` shows them"
    );
    Ok(())
}

/// Why the kernel refuses a message about statistics.
fn refusal(name: &str, errno: Errno) -> String {
    match errno {
        Errno::INVAL => format!(
            "cannot watch {name}: this kernel has no device-mapper statistics; they need Linux 3.12 or newer"
        ),
        Errno::NOMEM => format!(
            "cannot watch {name}: the kernel refuses the memory; it allows a quarter of the machine's memory for statistics \
             of all volumes; use fewer parts with a larger --chunk"
        ),
        Errno::NXIO => format!("cannot watch {name}: it was removed or deactivated meanwhile"),
        Errno::ACCESS | Errno::PERM => {
            format!(
                "cannot watch {name}: that needs CAP_SYS_ADMIN, which root lacks here; run it outside of the container"
            )
        }
        _ => format!("cannot watch {name}: the device-mapper answers: {errno}"),
    }
}

fn cost(subject: &TargetVolume, plan: Plan, processors: Processors) -> String {
    let name = &subject.volume.name;
    let memory = size_text(plan.memory(processors));
    let of = |grid: Grid| {
        format!(
            "{} parts of {}",
            grouped(grid.areas as f64, 0),
            size_text(grid.step)
        )
    };
    match plan {
        Plan::Whole(grid) => format!(
            "Watching {name} counts the writes to {}. The counters take {memory} of kernel memory. To start, the kernel \
             suspends the volume, usually for some milliseconds; writes wait that long.\n",
            of(grid)
        ),
        Plan::Mapped { map, probe } => format!(
            "{name} is too large to count each chunk in the memory allowed, so sizes are estimated, with their error. Watching \
             it counts the writes to {}. After an hour cowbell chooses {PROBES} places by chance, and also counts the writes \
             to {} in each. The counters take {memory} of kernel memory. For each of the {} regions the kernel suspends the \
             volume, usually for some milliseconds; writes wait that long.\n",
            of(map),
            of(probe),
            plan.regions()
        ),
    }
}

/// Asks on the terminal.
fn ask() -> anyhow::Result<()> {
    let input = std::io::stdin();
    ensure!(
        input.is_terminal(),
        "nothing was changed: without a terminal to ask on, --yes is needed"
    );
    print("Start? [y/N] ")?;
    let mut answer = String::new();
    input
        .lock()
        .read_line(&mut answer)
        .context("cannot read the answer")?;
    ensure!(
        matches!(answer.trim(), "y" | "Y" | "yes"),
        "nothing was changed"
    );
    Ok(())
}

/// Succeeds for a volume that is not watched: that is what was asked for.
async fn watch_off(volume: &str, root: &Root) -> anyhow::Result<()> {
    require_root("end watching a volume")?;
    let deleted = match volume::find(volume, root).await? {
        None => 0,
        Some(subject) => {
            let control = ioctl::open().map_err(anyhow::Error::msg)?;
            delete_all(&control, subject.device, |_| true)
                .with_context(|| format!("cannot delete the statistics of {volume}"))?
        }
    };
    let end = if deleted == 0 {
        "is not watched"
    } else {
        "is not watched any more"
    };
    print(&format!("{volume} {end}\n"))
}

fn clean() -> anyhow::Result<()> {
    require_root("delete statistics")?;
    let control = ioctl::open().map_err(anyhow::Error::msg)?;
    let devices = StatsReader::default()
        .devices(&control)
        .map_err(anyhow::Error::msg)?;
    let mut deleted = 0;
    for device in devices {
        deleted += match delete_all(&control, device.number, |_| true) {
            Ok(regions) => regions,
            // A device that is gone, or a kernel without statistics.
            Err(Errno::NXIO | Errno::INVAL) => 0,
            Err(errno) => bail!("cannot delete the statistics of {}: {errno}", device.name),
        };
    }
    print(&format!(
        "{} deleted\n",
        count_text(
            deleted as u64,
            "region of cowbell's statistics was",
            "regions of cowbell's statistics were"
        )
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(result: anyhow::Result<()>) -> String {
        result
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn a_refusal_of_the_kernel_says_what_to_do() {
        for (errno, expected) in [
            (
                Errno::INVAL,
                "this kernel has no device-mapper statistics; they need Linux 3.12 or newer",
            ),
            (
                Errno::NOMEM,
                "the kernel refuses the memory; it allows a quarter of the machine's memory for statistics of all volumes; use \
                 fewer parts with a larger --chunk",
            ),
            (Errno::NXIO, "it was removed or deactivated meanwhile"),
            (
                Errno::PERM,
                "that needs CAP_SYS_ADMIN, which root lacks here; run it outside of the container",
            ),
            (
                Errno::IO,
                "the device-mapper answers: Input/output error (os error 5)",
            ),
        ] {
            assert_eq!(
                refusal("vg0/data", errno),
                format!("cannot watch vg0/data: {expected}")
            );
        }
    }

    #[test]
    fn regions_of_other_programs_count() {
        assert_eq!(sentence(require_room("vg0/data", 15, 33)), "");
        assert_eq!(
            sentence(require_room("vg0/data", 16, 33)),
            "cannot watch vg0/data: it has 16 regions of statistics and would need 33 more, and more than 48 slow down its \
             writes; `dmstats list --allprograms` shows them"
        );
    }

    #[test]
    fn counters_that_are_not_read_are_refused() {
        assert_eq!(sentence(require_reader("vg0/data", LvmSource::Dm)), "");
        assert!(
            sentence(require_reader("vg0/data", LvmSource::Lvs))
                .contains("`source = \"lvs\"` in [lvm]")
        );
    }
}
