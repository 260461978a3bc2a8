//! Days of writing, in which the volumes are measured, and two nights with real snapshots: what cowbell says before each
//! night, and what the snapshots then need.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, ensure};
use cowbell::job::Job;
use cowbell::sizing::{Curve, SizeRow, SizingRequest, advise};
use cowbell::units::SECTOR;
use cowbell_device_mapper::ioctl;
use cowbell_touched::estimate::Writes;
use cowbell_touched::label::{Label, Role};
use cowbell_touched::plan::place_probes;
use cowbell_touched::statistics::{self, NewRegion, Place as Extent};

use crate::aio::Writer;
use crate::cases::{Case, KIB, MIB, Place, all};
use crate::load::Load;
use crate::machine::{Machine, device_of, lvm};
use crate::workload::Random;

/// The counters are read so often. The ages that are compared are multiples of it, so their windows begin at a reading.
const READING_MIN: u64 = 15;
/// The map alone, as the service does it.
const PROBES_AT_MIN: u64 = 60;
/// The first snapshots are made when there are 24 windows of three hours, also of a map.
const FIRST_NIGHT_MIN: u64 = 27 * 60;
const SECOND_NIGHT_MIN: u64 = 31 * 60;
/// The ages of the snapshots that are compared.
const AGES_MIN: [u64; 2] = [60, 180];
/// The areas of a map: the finest that `cowbell size` makes for chunks of 4 KiB.
const MAP: u64 = MIB;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Exact,
    Sampled,
}

/// One snapshot at one age.
#[derive(Clone, Debug)]
pub struct Comparison {
    pub case: Case,
    pub mode: Mode,
    pub night: usize,
    pub chunk: u64,
    pub age_min: u64,
    /// What cowbell said before.
    pub row: SizeRow,
    /// What the snapshot needed.
    pub used: u64,
    /// What the counters say about the same window, and the ends of its interval.
    pub window: f64,
    pub window_ends: (f64, f64),
    /// What was usually written within that age, in bytes.
    pub written: u64,
    /// What the snapshot of the night before needed.
    pub before: Option<u64>,
}

pub struct Campaign {
    seed: u64,
    machine: Machine,
    loads: Vec<(Case, Load)>,
    writer: Writer,
    /// The bytes written to each volume, at each reading.
    written: HashMap<&'static str, Vec<(u64, u64)>>,
    pub comparisons: Vec<Comparison>,
    /// The longest reading of all regions.
    pub reading: (std::time::Duration, u64),
}

pub fn run(seed: u64) -> anyhow::Result<Campaign> {
    make_volumes()?;
    let started = Instant::now();
    let loads = all()
        .zip(1..)
        .map(|(case, number)| Ok((case, Load::start(&case, seed_of(seed, number, 0))?)));
    let loads = loads.collect::<anyhow::Result<Vec<_>>>()?;
    let machine = Machine::start()?;
    let (writer, written) = (Writer::new()?, HashMap::new());
    let mut campaign = Campaign {
        seed,
        machine,
        loads,
        writer,
        written,
        comparisons: Vec::new(),
        reading: Default::default(),
    };
    campaign.measure()?;
    campaign.machine.read()?;
    campaign.write_until(PROBES_AT_MIN)?;
    campaign.place_probes()?;
    campaign.machine.read()?;
    for (night, begin) in [FIRST_NIGHT_MIN, SECOND_NIGHT_MIN].into_iter().enumerate() {
        campaign.write_until(begin)?;
        eprintln!(
            "{begin} virtual minutes after {:.0} s",
            started.elapsed().as_secs_f64()
        );
        campaign.night(night)?;
    }
    Ok(campaign)
}

fn seed_of(seed: u64, case: u64, phase: u64) -> u64 {
    seed.wrapping_mul(1_000_003)
        .wrapping_add(case * 101)
        .wrapping_add(phase * 7_919)
}

/// Those on a device that keeps nothing. File systems are made by the scenario.
fn make_volumes() -> anyhow::Result<()> {
    let mut commands = Vec::new();
    for case in all() {
        let Case { name, size, .. } = case;
        match case.place {
            Place::Raw(_) => {
                commands.push(format!("lvcreate -y -W n -Z n -L {size}b -n {name} vg0 /dev/mapper/pvb"));
            }
            Place::Thin(_, chunk) => commands.extend([
                format!("lvcreate -y -L 64M -n meta_{name} vg0 /dev/mapper/pva"),
                format!("lvcreate -y -W n -Z n -L {}b -n pool_{name} vg0 /dev/mapper/pvb", size * 2),
                format!(
                    "lvconvert -y --type thin-pool --poolmetadata vg0/meta_{name} --poolmetadataspare n -c {}k -Z n \
                     vg0/pool_{name}",
                    chunk / KIB
                ),
                format!("lvcreate -y -V {size}b -n {name} --thinpool vg0/pool_{name}"),
            ]),
            Place::File(_) | Place::Database => {}
        }
    }
    lvm(&commands)
}

impl Campaign {
    /// Makes the regions with which `cowbell size --watch on` begins.
    fn measure(&self) -> anyhow::Result<()> {
        let control = ioctl::open().map_err(anyhow::Error::msg)?;
        for (case, _) in &self.loads {
            let device = device_of(case)?;
            let create = |step: u64, role| {
                let label = Label::new(1, role);
                let region = NewRegion {
                    place: Extent::WholeDevice,
                    step: step / SECTOR,
                    label,
                };
                statistics::create(&control, device, &region)
                    .with_context(|| format!("a region of {}", case.name))
            };
            if let Some(step) = case.exact {
                create(step, Role::Whole)?;
            }
            if case.is_mapped {
                create(
                    MAP,
                    Role::Map {
                        chunk: 4 * KIB / SECTOR,
                    },
                )?;
            }
        }
        Ok(())
    }

    fn place_probes(&self) -> anyhow::Result<()> {
        let control = ioctl::open().map_err(anyhow::Error::msg)?;
        for (index, (case, _)) in self
            .loads
            .iter()
            .enumerate()
            .filter(|(_, (case, _))| case.is_mapped)
        {
            let (map, counters) = self.machine.map_of(case)?;
            let writes = counters.iter().map(|area| Writes {
                count: area.writes as f64,
                sectors: area.sectors as f64,
            });
            let mut random = Random::new(seed_of(self.seed, index as u64, 9));
            let Role::Map { chunk } = map.label.role else {
                continue;
            };
            for region in place_probes(&map, chunk, &writes.collect::<Vec<_>>(), 1, || {
                random.unit()
            }) {
                statistics::create(&control, device_of(case)?, &region)?;
            }
        }
        Ok(())
    }

    fn write_until(&mut self, minute: u64) -> anyhow::Result<()> {
        while self.machine.minute < minute {
            self.write()?;
            self.read()?;
        }
        Ok(())
    }

    fn write(&mut self) -> anyhow::Result<()> {
        for (case, load) in &mut self.loads {
            for _ in 0..READING_MIN {
                load.minute(&mut self.writer)
                    .with_context(|| format!("cannot write to {}", case.name))?;
            }
        }
        self.machine.minute += READING_MIN;
        Ok(())
    }

    fn read(&mut self) -> anyhow::Result<()> {
        self.machine.read()?;
        self.reading = self.reading.max(self.machine.reading);
        for (case, _) in &self.loads {
            let written = self.machine.written(case)?;
            self.written
                .entry(case.name)
                .or_default()
                .push((self.machine.minute, written));
        }
        Ok(())
    }

    fn night(&mut self, night: usize) -> anyhow::Result<()> {
        for (index, (_, load)) in self.loads.iter_mut().enumerate() {
            load.reseed(seed_of(self.seed, index as u64 + 1, night as u64 + 1));
        }
        let mut expected = self.expected(night)?;
        let used_before = at_rest(|| {
            self.machine.read()?;
            self.make_snapshots()?;
            self.pools()
        })?;
        let begin = self.machine.minute;
        for age_min in AGES_MIN {
            while self.machine.minute < begin + age_min {
                self.write()?;
                at_rest(|| self.read())?;
            }
            for comparison in expected
                .iter_mut()
                .filter(|comparison| comparison.age_min == age_min)
            {
                self.compare(comparison, &used_before)?;
            }
        }
        self.comparisons.extend(expected);
        self.remove_snapshots()
    }

    /// What cowbell says now, for each snapshot and age.
    fn expected(&self, night: usize) -> anyhow::Result<Vec<Comparison>> {
        let mut expected = Vec::new();
        for (case, _) in &self.loads {
            let modes = [
                (Mode::Exact, case.exact.is_some()),
                (Mode::Sampled, case.is_mapped),
            ];
            for mode in modes
                .into_iter()
                .filter_map(|(mode, is_used)| is_used.then_some(mode))
            {
                let rows = self.rows(case, mode)?;
                for (chunk, age_min) in pairs(&case.compared()) {
                    let is_it = |row: &&SizeRow| {
                        row.chunk_bytes == chunk && row.age_s == age_min as f64 * 60.0
                    };
                    let row = rows.iter().find(is_it).cloned();
                    let row = row.with_context(|| {
                        format!("no size of {}: {chunk} bytes, {age_min} min", case.name)
                    })?;
                    let is_same = |other: &&Comparison| {
                        (other.case.name, other.mode, other.chunk, other.age_min)
                            == (case.name, mode, chunk, age_min)
                    };
                    let before = self
                        .comparisons
                        .iter()
                        .find(is_same)
                        .map(|other| other.used);
                    let written = self.usually_written(case, age_min);
                    expected.push(Comparison {
                        case: *case,
                        mode,
                        night,
                        chunk,
                        age_min,
                        row,
                        used: 0,
                        window: 0.0,
                        window_ends: (0.0, 0.0),
                        written,
                        before,
                    });
                }
            }
        }
        Ok(expected)
    }

    fn rows(&self, case: &Case, mode: Mode) -> anyhow::Result<Vec<SizeRow>> {
        let volume = self.machine.volume(case.name)?;
        let known = &self.watch(mode).known;
        let request = SizingRequest::of_volume(
            volume,
            &self.machine.interval,
            known,
            std::iter::empty::<&Job>(),
        );
        let advice = advise(&request.context("it has no snapshots")?);
        Ok(advice
            .with_context(|| format!("no advice for {}", case.name))?
            .rows)
    }

    fn watch(&self, mode: Mode) -> &crate::machine::Watch {
        match mode {
            Mode::Exact => &self.machine.exact,
            Mode::Sampled => &self.machine.sampled,
        }
    }

    /// The median of all windows that end at a full hour.
    fn usually_written(&self, case: &Case, age_min: u64) -> u64 {
        let written = &self.written[case.name];
        let at = |minute: u64| {
            written
                .iter()
                .find(|(at, _)| *at == minute)
                .map(|(_, bytes)| *bytes)
        };
        let ends = (1..=self.machine.minute / 60).map(|hour| hour * 60);
        let windows = ends.filter_map(|end| Some(at(end)? - at(end.checked_sub(age_min)?)?));
        let mut windows: Vec<u64> = windows.collect();
        windows.sort_unstable();
        windows[windows.len() / 2]
    }

    fn make_snapshots(&mut self) -> anyhow::Result<()> {
        let mut commands = Vec::new();
        for (case, _) in &self.loads {
            let name = case.name;
            if case.is_thin() {
                commands.push(format!(
                    "lvcreate -y -kn -s -n {} vg0/{name}",
                    case.snapshot(0)
                ));
            }
            for chunk in case.chunks {
                let (snapshot, chunk) = (case.snapshot(*chunk), chunk / KIB);
                commands.push(format!(
                    "lvcreate -y -s -c {chunk}k -l 120%ORIGIN -n {snapshot} vg0/{name} /dev/mapper/pvb"
                ));
            }
        }
        lvm(&commands)?;
        self.machine.list()
    }

    fn remove_snapshots(&mut self) -> anyhow::Result<()> {
        let of_case = |case: &Case| {
            let chunks = if case.is_thin() {
                &[0][..]
            } else {
                case.chunks
            };
            chunks
                .iter()
                .map(|chunk| format!("lvremove -f vg0/{}", case.snapshot(*chunk)))
                .collect::<Vec<_>>()
        };
        lvm(&self
            .loads
            .iter()
            .flat_map(|(case, _)| of_case(case))
            .collect::<Vec<_>>())?;
        self.machine.list()
    }

    /// What each pool uses now.
    fn pools(&self) -> anyhow::Result<HashMap<&'static str, u64>> {
        let thin = self.loads.iter().filter(|(case, _)| case.is_thin());
        thin.map(|(case, _)| {
            Ok((
                case.name,
                self.machine
                    .fill(&format!("pool_{}", case.name))?
                    .used_bytes(),
            ))
        })
        .collect()
    }

    fn compare(
        &self,
        comparison: &mut Comparison,
        used_before: &HashMap<&str, u64>,
    ) -> anyhow::Result<()> {
        let Comparison {
            case,
            mode,
            chunk,
            age_min,
            ..
        } = *comparison;
        comparison.used = match used_before.get(case.name) {
            Some(before) => {
                self.machine
                    .fill(&format!("pool_{}", case.name))?
                    .used_bytes()
                    - before
            }
            None => self.machine.fill(&case.snapshot(chunk))?.used_bytes(),
        };
        let volume = self.machine.volume(case.name)?;
        let measured = self
            .watch(mode)
            .known
            .get(&volume.uuid)
            .and_then(|known| known.now.as_ref());
        let curve: &Curve = &measured.context("it is not measured any more")?.curve;
        let at = |growth: Option<cowbell::job::growth::Growth>| growth?.at(age_min as f64 * 60.0);
        comparison.window = at(curve.growth(chunk)).context("nothing is known of the window")?;
        let ends = at(curve.least_growth(chunk)).zip(at(curve.most_growth(chunk)));
        comparison.window_ends = ends.context("nothing is known of the window")?;
        Ok(())
    }
}

fn pairs(chunks: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    chunks
        .iter()
        .flat_map(|chunk| AGES_MIN.map(|age| (*chunk, age)))
}

/// Does something while nothing writes: the database is stopped, and the file systems have written out what they held back.
fn at_rest<T>(action: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let database =
        std::env::var("MARIADB").context("expected the database's process in MARIADB")?;
    run_program("kill", &["-STOP", &database])?;
    for folder in ["/mnt/xfs", "/mnt/mariadb"] {
        run_program("fsfreeze", &["-f", folder])?;
        run_program("fsfreeze", &["-u", folder])?;
    }
    let result = action();
    run_program("kill", &["-CONT", &database])?;
    result
}

fn run_program(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let status = std::process::Command::new(program).args(arguments).status();
    let status = status.with_context(|| format!("cannot start {program}"))?;
    ensure!(
        status.success(),
        "{program} {}: {status}",
        arguments.join(" ")
    );
    Ok(())
}
