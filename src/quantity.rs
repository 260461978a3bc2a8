//! The table of everything that is measured: what each quantity is called, its unit, and how it follows from a row.
//!
//! A *row* is what was counted of one subject in one tick: integers, of which each may be unknown. Stored columns, series,
//! charts, figures on pages, API, exports and remote write follow from the table. Rows are stored: append columns; any
//! other change needs a migration.

use std::ops::Index;

use serde::{Deserialize, Serialize};

use crate::interval::copying::Share;
use crate::interval::{HostColumn, Work};
use crate::sample::diskstats::Counter;
use crate::topology::VolumeState;
use crate::units::{Fill, SECTOR, bytes_text, grouped, ms_text, number_text};

/// Durations are in microseconds.
const PER_SECOND: f64 = 1e6;
const BYTES_OF_SECTORS: f64 = SECTOR as f64;

/// The unit of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// In multiples of 1024.
    Bytes,
    /// In multiples of 1024.
    BytesPerSecond,
    /// KiB per second, as in `vmstat`'s `bi` and `bo`.
    KibPerSecond,
    /// Values from 0 to 100.
    Percent,
    /// Values from 0 to 1, shown as percent.
    Share,
    Milliseconds,
    /// Events per second, such as requests.
    PerSecond,
    #[default]
    Count,
}

impl Unit {
    /// A value for display: `312 MiB/s`, `41.0 %`.
    pub fn value_text(self, value: f64) -> String {
        match self {
            Self::Bytes => bytes_text(value),
            Self::BytesPerSecond => format!("{}/s", bytes_text(value)),
            Self::KibPerSecond => format!("{} KiB/s", grouped(value, 0)),
            Self::Percent => format!("{value:.1} %"),
            Self::Share => format!("{:.1} %", (value * 100.0).clamp(f64::MIN, f64::MAX)),
            Self::Milliseconds => ms_text(value),
            Self::PerSecond | Self::Count => number_text(value),
        }
    }

    /// Whether amounts are divided by time; their sum over time is an amount.
    pub fn is_rate(self) -> bool {
        matches!(
            self,
            Self::BytesPerSecond | Self::KibPerSecond | Self::PerSecond
        )
    }

    /// How many of it make one base unit of Prometheus: 1,000 milliseconds are a second, 100 % are the ratio 1.
    pub fn per_base_unit(self) -> f64 {
        match self {
            Self::Milliseconds => 1e3,
            Self::Percent => 100.0,
            Self::KibPerSecond => 1.0 / 1024.0,
            Self::Bytes | Self::BytesPerSecond | Self::Share | Self::PerSecond | Self::Count => 1.0,
        }
    }
}

/// What rows are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RowKind {
    Host,
    Device,
    /// The part of a PV's work that was copying for snapshots.
    Copying,
    Volume,
}

/// The columns of [`RowKind::Copying`], in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyingColumn {
    Read,
    Written,
}

/// The columns of [`RowKind::Volume`]: its fills, in blocks, and the size of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeColumn {
    Used,
    Total,
    BlockBytes,
    MetadataUsed,
    MetadataTotal,
    MetadataBlockBytes,
}

impl CopyingColumn {
    pub const COUNT: usize = Self::Written as usize + 1;
}

impl VolumeColumn {
    pub const COUNT: usize = Self::MetadataBlockBytes as usize + 1;
}

pub fn copying_row(share: &Share) -> [Option<u64>; CopyingColumn::COUNT] {
    [Some(share.read), Some(share.written)]
}

pub fn volume_row(volume: &VolumeState) -> [Option<u64>; VolumeColumn::COUNT] {
    let columns = |fill: Option<Fill>| {
        let known = fill.map(|fill| [fill.used, fill.total, fill.unit].map(Some));
        known.unwrap_or_default()
    };
    let [used, total, block] = columns(volume.fill);
    let [metadata_used, metadata_total, metadata_block] = columns(volume.metadata);
    [
        used,
        total,
        block,
        metadata_used,
        metadata_total,
        metadata_block,
    ]
}

/// A quantity in one tick as integers: `amount` per `over`, times `scale`.
///
/// A rate is sectors over microseconds, a latency milliseconds over requests, a gauge its value over one. Adding the
/// amounts and the overs of several ticks gives their exact mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    pub amount: u64,
    pub over: u64,
    /// Converts the ratio to the quantity's unit; constant per quantity.
    pub scale: f64,
}

impl Observation {
    /// `None` if `over` is zero, such as a latency without requests.
    pub fn ratio(amount: u64, over: u64, scale: f64) -> Option<Self> {
        (over > 0).then_some(Self {
            amount,
            over,
            scale,
        })
    }

    pub fn value(self) -> f64 {
        self.amount as f64 / self.over as f64 * self.scale
    }
}

/// A count over microseconds as a rate per second; `None` without time.
pub fn per_second(amount: u64, elapsed_us: u64) -> Option<f64> {
    Observation::ratio(amount, elapsed_us, PER_SECOND).map(Observation::value)
}

/// A quantity over one or more ticks: their sum, the smallest and the largest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    pub all: Observation,
    pub min: f64,
    pub max: f64,
}

impl From<Observation> for Extent {
    fn from(all: Observation) -> Self {
        Self {
            all,
            min: all.value(),
            max: all.value(),
        }
    }
}

/// The row of a tick with its length.
#[derive(Clone, Copy, Debug)]
struct TickRow<'a> {
    columns: &'a [Option<u64>],
    us: u64,
}

/// Indexes are the columns of the quantity's kind; a row of another kind is unknown.
macro_rules! index_by {
    ($($column:ty),+) => {
        $(impl Index<$column> for TickRow<'_> {
            type Output = Option<u64>;

            fn index(&self, column: $column) -> &Option<u64> {
                self.columns.get(column as usize).unwrap_or(&None)
            }
        })+
    };
}
index_by!(Counter, CopyingColumn, VolumeColumn, HostColumn);

/// What a quantity is called, and how it follows from a row.
struct Definition {
    kind: RowKind,
    name: &'static str,
    title: &'static str,
    unit: Unit,
    /// Amount and over, see [`Observation`].
    formula: fn(TickRow) -> Option<(u64, u64)>,
    scale: f64,
    metric: (&'static str, &'static str),
    family: Option<Family>,
}

/// What Prometheus reads of a quantity at `/metrics`, with a sentence about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Family {
    /// The kernel's counter below a rate or a mean, and its name, since Prometheus computes rates itself: of
    /// [`Quantity::ReadAwaitMs`] the sum of times, `cowbell_device_read_time_seconds`.
    Counter(Counter, &'static str, &'static str),
    /// The quantity itself, named as in exports.
    Gauge(&'static str),
}

macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

/// Declares the quantities of each kind.
macro_rules! quantities {
    ($($list:ident of $kind:ident {
        $($quantity:ident: $name:literal, $title:literal, $unit:ident, $formula:expr, $scale:expr, $metric:expr $(, $family:expr)?;)+
    })+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Quantity { $($($quantity),+),+ }

        $(const $list: &[Quantity] = &[$(Quantity::$quantity),+];)+

        const DEFINITIONS: &[Definition] = &[$($(Definition {
            kind: RowKind::$kind,
            name: $name,
            title: $title,
            unit: Unit::$unit,
            formula: $formula,
            scale: $scale,
            metric: $metric,
            family: optional!($($family)?),
        }),+),+];
    };
}

// For each quantity: its name in the API's `metric`, its title, its unit;
// the amount and what it is divided by, and the factor that makes its unit of that;
// its name as a gauge in exports, without prefix, and the base unit that ends it;
// what Prometheus reads of it, if anything.
quantities! {
    DEVICE of Device {
        ReadBytes: "read_bytes", "Read", BytesPerSecond,
            |row| Some((row[Counter::SectorsRead]?, row.us)), BYTES_OF_SECTORS * PER_SECOND,
            ("read", "bytes_per_second"),
            Family::Counter(Counter::SectorsRead, "cowbell_device_read_bytes",
                "Bytes read.");
        WrittenBytes: "written_bytes", "Written", BytesPerSecond,
            |row| Some((row[Counter::SectorsWritten]?, row.us)), BYTES_OF_SECTORS * PER_SECOND,
            ("written", "bytes_per_second"),
            Family::Counter(Counter::SectorsWritten, "cowbell_device_written_bytes",
                "Bytes written.");
        Reads: "reads", "Reads", PerSecond,
            |row| Some((reads(row)?, row.us)), PER_SECOND,
            ("read", "requests_per_second"),
            Family::Counter(Counter::Reads, "cowbell_device_read_requests",
                "Reads; of volumes before Linux 6.4, those that started.");
        Writes: "writes", "Writes", PerSecond,
            |row| Some((writes(row)?, row.us)), PER_SECOND,
            ("write", "requests_per_second"),
            Family::Counter(Counter::Writes, "cowbell_device_write_requests",
                "Writes; of volumes before Linux 6.4, those that started.");
        ReadAwaitMs: "read_await_ms", "Read latency", Milliseconds,
            |row| Some((row[Counter::ReadMs]?, reads(row)?)), 1.0,
            ("read_await", "seconds"),
            Family::Counter(Counter::ReadMs, "cowbell_device_read_time_seconds",
                "Sum of the times of reads, with their time in the queue.");
        WriteAwaitMs: "write_await_ms", "Write latency", Milliseconds,
            |row| Some((row[Counter::WriteMs]?, writes(row)?)), 1.0,
            ("write_await", "seconds"),
            Family::Counter(Counter::WriteMs, "cowbell_device_write_time_seconds",
                "Sum of the times of writes, with their time in the queue.");
        ReadRequestBytes: "read_request_bytes", "Size of reads", Bytes,
            |row| Some((row[Counter::SectorsRead]?, row[Counter::Reads]?)), BYTES_OF_SECTORS,
            ("read_request", "bytes");
        WriteRequestBytes: "write_request_bytes", "Size of writes", Bytes,
            |row| Some((row[Counter::SectorsWritten]?, row[Counter::Writes]?)), BYTES_OF_SECTORS,
            ("write_request", "bytes");
        QueueDepth: "queue_depth", "Queue depth", Count,
            |row| Some((row[Counter::QueueMs]?, row.us)), PER_SECOND / 1e3,
            ("queued", "requests"),
            Family::Counter(Counter::QueueMs, "cowbell_device_queue_seconds",
                "Sum of the times of all requests; its rate is the mean queue.");
        // The kernel counts busy time in clock ticks, so it can exceed the elapsed time slightly.
        Utilisation: "utilisation", "Busy", Share,
            |row| Some((row[Counter::BusyMs]?.saturating_mul(1000).min(row.us), row.us)), 1.0,
            ("utilisation", "ratio"),
            Family::Counter(Counter::BusyMs, "cowbell_device_busy_seconds",
                "Time with at least one request in flight.");
    }
    // For the table of devices only. They are not stored, since they follow from stored quantities.
    DEVICE_SUMS of Device {
        MovedBytes: "moved_bytes", "Total", BytesPerSecond,
            |row| Some((moved_sectors(row)?, row.us)), BYTES_OF_SECTORS * PER_SECOND,
            ("moved", "bytes_per_second");
        RequestBytes: "request_bytes", "Request size", Bytes,
            |row| Some((moved_sectors(row)?, row[Counter::Reads]? + row[Counter::Writes]?)), BYTES_OF_SECTORS,
            ("request", "bytes");
    }
    COPYING of Copying {
        CopyReadBytes: "copy_read_bytes", "Copied from", BytesPerSecond,
            |row| Some((row[CopyingColumn::Read]?, row.us)), PER_SECOND,
            ("copy_read", "bytes_per_second");
        CopyWrittenBytes: "copy_written_bytes", "COW written", BytesPerSecond,
            |row| Some((row[CopyingColumn::Written]?, row.us)), PER_SECOND,
            ("copy_written", "bytes_per_second");
    }
    VOLUME of Volume {
        FillPercent: "fill_percent", "Fill", Percent,
            |row| Some(hundredths(row[VolumeColumn::Used]?, row[VolumeColumn::Total]?)), 1.0,
            ("fill", "ratio"),
            Family::Gauge(
                "Used share of the COW area, the pool's data, the thin volume, or the cache, to the hundredth of a percent as in lvs.");
        UsedBytes: "used_bytes", "Used", Bytes,
            |row| bytes(row[VolumeColumn::Used]?, row[VolumeColumn::BlockBytes]?), 1.0,
            ("used", "bytes"),
            Family::Gauge(
                "Used part of the COW area, the pool's data, the thin volume, or the cache.");
        MetadataPercent: "metadata_percent", "Metadata", Percent,
            |row| Some(hundredths(row[VolumeColumn::MetadataUsed]?, row[VolumeColumn::MetadataTotal]?)), 1.0,
            ("metadata_fill", "ratio"),
            Family::Gauge(
                "Used share of the pool's metadata, to the hundredth of a percent as in lvs.");
    }
    HOST of Host {
        BiKibPerS: "bi_kib_per_s", "bi", KibPerSecond,
            |row| Some((row[HostColumn::PagedInKib]?, row.us)), PER_SECOND,
            ("paged_in", "bytes_per_second");
        BoKibPerS: "bo_kib_per_s", "bo", KibPerSecond,
            |row| Some((row[HostColumn::PagedOutKib]?, row.us)), PER_SECOND,
            ("paged_out", "bytes_per_second");
        User: "user", "User", Share,
            |row| Some((row[HostColumn::User]?, row[HostColumn::AllCpu]?)), 1.0,
            ("user", "ratio");
        System: "system", "System", Share,
            |row| Some((row[HostColumn::System]?, row[HostColumn::AllCpu]?)), 1.0,
            ("system", "ratio");
        Iowait: "iowait", "I/O wait", Share,
            |row| Some((row[HostColumn::Iowait]?, row[HostColumn::AllCpu]?)), 1.0,
            ("iowait", "ratio");
        Blocked: "blocked", "Blocked", Count,
            |row| Some((row[HostColumn::Blocked]?, 1)), 1.0,
            ("blocked", "processes");
        PressureIoSome: "pressure_io_some", "I/O pressure", Share,
            |row| Some((row[HostColumn::PressureUs]?.min(row.us), row.us)), 1.0,
            ("io_pressure", "ratio");
    }
}

/// Those that completed.
fn reads(row: TickRow) -> Option<u64> {
    row[Counter::ReadsCompleted].or(row[Counter::Reads])
}

fn writes(row: TickRow) -> Option<u64> {
    row[Counter::WritesCompleted].or(row[Counter::Writes])
}

fn moved_sectors(row: TickRow) -> Option<u64> {
    Some(row[Counter::SectorsRead]? + row[Counter::SectorsWritten]?)
}

/// A fill in hundredths of a percent, as in `lvs`.
fn hundredths(used: u64, total: u64) -> (u64, u64) {
    let fill = Fill {
        used,
        total,
        unit: 1,
    };
    ((fill.percent() * 100.0).round() as u64, 100)
}

/// `None` if the size of a block is unknown.
fn bytes(blocks: u64, block_bytes: u64) -> Option<(u64, u64)> {
    (block_bytes > 0).then_some((blocks.saturating_mul(block_bytes), 1))
}

impl RowKind {
    pub const ALL: [Self; 4] = [Self::Host, Self::Device, Self::Copying, Self::Volume];
    /// No kind has more columns.
    pub const MOST_COLUMNS: usize = Counter::COUNT;

    /// The number of columns in a row.
    pub fn columns(self) -> usize {
        match self {
            Self::Host => HostColumn::COUNT,
            Self::Device => Counter::COUNT,
            Self::Copying => CopyingColumn::COUNT,
            Self::Volume => VolumeColumn::COUNT,
        }
    }

    /// The stored quantities of such rows, in the order of columns in roll-ups.
    pub fn quantities(self) -> &'static [Quantity] {
        match self {
            Self::Host => HOST,
            Self::Device => DEVICE,
            Self::Copying => COPYING,
            Self::Volume => VOLUME,
        }
    }
}

impl Quantity {
    /// The quantities of a device, also those that are not stored; they come first in the enum.
    pub const OF_A_DEVICE: usize = DEVICE.len() + DEVICE_SUMS.len();

    pub fn of_a_device() -> impl Iterator<Item = Self> {
        DEVICE.iter().chain(DEVICE_SUMS).copied()
    }

    fn definition(self) -> &'static Definition {
        &DEFINITIONS[self as usize]
    }

    pub fn kind(self) -> RowKind {
        self.definition().kind
    }

    /// The name in the API's `metric`.
    pub fn name(self) -> &'static str {
        self.definition().name
    }

    pub fn title(self) -> &'static str {
        self.definition().title
    }

    pub fn unit(self) -> Unit {
        self.definition().unit
    }

    /// Converts counted units to the quantity's unit.
    pub fn scale(self) -> f64 {
        self.definition().scale
    }

    /// The name as a gauge in its base unit, without prefix and unit, and the base unit.
    pub fn metric(self) -> (&'static str, &'static str) {
        self.definition().metric
    }

    /// What Prometheus reads of it.
    pub fn family(self) -> Option<Family> {
        self.definition().family
    }

    /// The quantity in one tick. `None` if a column that it needs is unknown, or per request if there was none.
    pub fn observe(self, row: &[Option<u64>], elapsed_us: u64) -> Option<Observation> {
        let Definition { formula, scale, .. } = self.definition();
        let (amount, over) = formula(TickRow {
            columns: row,
            us: elapsed_us,
        })?;
        Observation::ratio(amount, over, *scale)
    }

    /// The value in one tick.
    pub fn value(self, row: &[Option<u64>], elapsed_us: u64) -> Option<f64> {
        self.observe(row, elapsed_us).map(Observation::value)
    }

    /// The value of a quantity of a device in one tick.
    pub fn of_work(self, work: &Work, elapsed_us: u64) -> Option<f64> {
        self.value(&work.0, elapsed_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::diskstats::Counted;

    #[test]
    fn quantities_match_iostat() {
        let work = Work::IDLE
            .with(Counter::Reads, 100)
            .with(Counter::SectorsRead, 20_480)
            .with(Counter::ReadMs, 250)
            .with(Counter::BusyMs, 1_010)
            .with(Counter::QueueMs, 3_000);
        for (quantity, expected) in [
            (Quantity::ReadBytes, Some(10_485_760.0)),
            (Quantity::ReadAwaitMs, Some(2.5)),
            (Quantity::WriteAwaitMs, None), // No write was made.
            (Quantity::Writes, Some(0.0)),
            (Quantity::QueueDepth, Some(3.0)),
            (Quantity::Utilisation, Some(1.0)),
            (Quantity::RequestBytes, Some(104_857.6)),
        ] {
            assert_eq!(quantity.of_work(&work, 1_000_000), expected, "{quantity:?}");
        }
    }

    /// A line of the list in docs/metrics.md, such as `` | `fill_percent` | Fill | % | `cowbell_volume_fill_ratio` | ``.
    fn line_of_documentation(quantity: Quantity) -> String {
        let unit = match quantity.unit() {
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes per second",
            Unit::KibPerSecond => "KiB per second",
            Unit::Percent => "percent",
            Unit::Share => "0 to 1",
            Unit::Milliseconds => "ms",
            Unit::PerSecond => "requests per second",
            Unit::Count => "number",
        };
        let family = match quantity.family() {
            Some(Family::Counter(_, name, _)) => format!("`{name}_total`"),
            Some(Family::Gauge(_)) => {
                let (name, unit) = quantity.metric();
                format!("`cowbell_volume_{name}_{unit}`")
            }
            None => "–".into(),
        };
        format!(
            "| `{}` | {} | {unit} | {family} |\n",
            quantity.name(),
            quantity.title()
        )
    }

    #[test]
    fn the_documented_list_is_the_table() {
        let documented = include_str!("../docs/metrics.md");
        let stored = [
            RowKind::Device,
            RowKind::Copying,
            RowKind::Volume,
            RowKind::Host,
        ];
        let lines = stored
            .iter()
            .flat_map(|kind| kind.quantities())
            .map(|quantity| line_of_documentation(*quantity));
        let list: String = lines.collect();
        assert!(
            documented.contains(&format!("|---|---|---|---|\n{list}\n")),
            "docs/metrics.md has to say:\n{list}"
        );
    }

    #[test]
    fn a_counter_has_one_family_of_its_unit() {
        let mut counters = Vec::new();
        for quantity in RowKind::ALL.iter().flat_map(|kind| kind.quantities()) {
            let Some(Family::Counter(counter, name, _)) = quantity.family() else {
                continue;
            };
            let unit = match counter.counted() {
                Counted::Requests => "_requests",
                Counted::Sectors => "_bytes",
                Counted::Milliseconds => "_seconds",
            };
            assert!(name.ends_with(unit), "{name}");
            assert!(
                !counters.contains(&counter),
                "{counter:?} is exported twice"
            );
            counters.push(counter);
        }
    }

    #[test]
    fn rates_without_time_are_unknown() {
        assert_eq!(Quantity::ReadBytes.of_work(&Work::IDLE, 0), None);
    }

    #[test]
    fn only_what_depends_on_an_unknown_counter_is_unknown() {
        let mut work = Work([Some(1); Counter::COUNT]);
        work.0[Counter::ReadMs as usize] = None;
        let unknown: Vec<Quantity> = Quantity::of_a_device()
            .filter(|quantity| quantity.of_work(&work, 1).is_none())
            .collect();
        assert_eq!(unknown, [Quantity::ReadAwaitMs]);
    }

    #[test]
    fn a_row_of_another_kind_is_unknown() {
        assert_eq!(Quantity::QueueDepth.value(&[Some(1)], 1), None);
    }
}
