//! The bodies of the API's answers.

mod alert;
mod compare;
mod device;
mod figures;
mod job;
mod store;
mod volume;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use alert::AlertBody;
pub use compare::CompareBody;
pub use device::DeviceBody;
pub use figures::FiguresBody;
pub use job::JobBody;
pub use store::StoreBody;
pub use volume::VolumeBody;

use crate::interval::{HostColumn, Interval};
use crate::present::{Percentiles, Present};
use crate::quantity::Quantity;
use crate::remote_write::RemoteWriteState;
use crate::source::own::{OwnCost, own_cost};
use crate::source::variant_name;
use crate::units::count_text;
use crate::verdict::Verdict;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StatusBody {
    pub version: String,
    pub host: String,
    /// Of the host.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The time of the first tick.
    pub started_at: Timestamp,
    pub ticks: TicksBody,
    pub parts: Vec<PartBody>,
    /// The resource usage of cowbell.
    pub process: OwnCost,
    pub store: StoreBody,
    /// `null` without a receiver in `[remote_write]`.
    pub remote_write: Option<RemoteWriteState>,
    /// Hints on the setup of cowbell.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TicksBody {
    pub taken: u64,
    /// Whole intervals without a reading.
    pub missed: u64,
    pub interval_ms: u64,
    pub last_at: Timestamp,
    /// Time for reading and evaluating, over the last 600 ticks.
    pub took_us: Percentiles,
}

/// A part of the machine that is read, or the database that is written.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PartBody {
    /// `diskstats`, `vmstat`, `stat`, `pressure`, `sysfs`, `mounts`, `usage`, `dm`, `lvm`, `lvm_config` or `store`
    pub name: String,
    pub ok: bool,
    pub error: Option<String>,
    pub took_us: u64,
    pub last_ok_at: Option<Timestamp>,
}

impl StatusBody {
    pub fn new(present: &Present) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            host: present.host.clone(),
            verdict: Verdict::of_host(present),
            started_at: present.started_at,
            ticks: TicksBody {
                taken: present.ticks.taken,
                missed: present.ticks.missed,
                interval_ms: u64::try_from(present.interval_length.as_millis()).unwrap_or(u64::MAX),
                last_at: present.interval.at,
                took_us: present.ticks.took_us,
            },
            parts: parts(present),
            process: own_cost(),
            store: StoreBody::new(present),
            remote_write: present.remote_write.clone(),
            notes: present.notes.clone(),
        }
    }
}

/// All parts in reading order; a part that was not read yet is not ok.
pub fn parts(present: &Present) -> Vec<PartBody> {
    let body = |name: &str, error: Option<String>, took_us, last_ok_at| PartBody {
        name: name.into(),
        ok: error.is_none(),
        error,
        took_us,
        last_ok_at,
    };
    let read = present.parts_in_order().map(|(part, state)| match state {
        Some(state) => body(
            &variant_name(part),
            state.error.clone(),
            state.took_us,
            state.last_ok_at,
        ),
        None => body(&variant_name(part), Some("not read yet".into()), 0, None),
    });
    let (store, dropped) = (&present.store, count_text(present.lost, "entry", "entries"));
    let lost = (present.lost > 0).then(|| format!("{dropped} dropped"));
    read.chain([body(
        "store",
        store.error.clone().or(lost),
        store.took_us,
        store.last_ok_at,
    )])
    .collect()
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct VmBody {
    /// KiB paged in per second, as in `vmstat`.
    pub bi_kib_per_s: Option<f64>,
    pub bo_kib_per_s: Option<f64>,
    /// Shares of CPU time, from 0 to 1.
    pub user: Option<f64>,
    pub system: Option<f64>,
    pub iowait: Option<f64>,
    /// Processes that wait for I/O.
    pub blocked: Option<u32>,
    /// Share of the time in which some process waited for I/O; `null` without PSI in the kernel.
    pub pressure_io_some: Option<f64>,
}

impl VmBody {
    pub fn new(interval: &Interval) -> Self {
        let value = |quantity: Quantity| quantity.value(&interval.host.0, interval.elapsed_us);
        Self {
            bi_kib_per_s: value(Quantity::BiKibPerS),
            bo_kib_per_s: value(Quantity::BoKibPerS),
            user: value(Quantity::User),
            system: value(Quantity::System),
            iowait: value(Quantity::Iowait),
            blocked: interval.host[HostColumn::Blocked].and_then(|count| count.try_into().ok()),
            pressure_io_some: value(Quantity::PressureIoSome),
        }
    }
}
