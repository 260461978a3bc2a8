//! The last tick of this host: status, devices in sum, and whether cowbell works.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::config;
use crate::headline::headline;
use crate::interval::{HostColumn, Interval};
use crate::present::{Percentiles, Present};
use crate::prometheus::{self, ExpositionFormat};
use crate::quantity::Quantity;
use crate::remote_write::RemoteWriteState;
use crate::sample::guard::GuardState;
use crate::source::own::{OwnCost, own_cost};
use crate::source::variant_name;
use crate::store::{Gap, Level};
use crate::units::{count_text, duration_text};
use crate::verdict::Verdict;
use crate::web::SharedSite;
use crate::web::answer::{Problem, header_text};

/// The daemon, its ticks, and the state of each part.
#[utoipa::path(get, path = "/api/v1/status", tag = "now", responses((status = 200, body = StatusBody)))]
pub async fn status(State(site): State<SharedSite>) -> Result<Json<StatusBody>, Problem> {
    Ok(Json(StatusBody::new(&*site.present()?)))
}

/// Paging, CPU time and pressure in the last tick.
#[utoipa::path(get, path = "/api/v1/vm", tag = "now", responses((status = 200, body = VmBody)))]
pub async fn vm(State(site): State<SharedSite>) -> Result<Json<VmBody>, Problem> {
    Ok(Json(VmBody::new(&site.present()?.interval)))
}

/// 200 while ticks are fresh, 503 with the reason otherwise.
#[utoipa::path(get, path = "/healthz", tag = "now", responses((status = 200, body = String), (status = 503, body = String)))]
pub async fn healthz(State(site): State<SharedSite>) -> Response {
    let late = |sentence: String| (StatusCode::SERVICE_UNAVAILABLE, sentence).into_response();
    match site.present() {
        Err(_) => late("no tick has been taken yet\n".into()),
        Ok(present) if present.is_fresh() => "ok\n".into_response(),
        Ok(present) => late(format!(
            "the last tick was {:.1} s ago\n",
            present.published.elapsed().as_secs_f64()
        )),
    }
}

/// The last tick as OpenMetrics 1.0, or as Prometheus text 0.0.4 for clients that do not ask for OpenMetrics.
#[utoipa::path(get, path = "/metrics", tag = "now", responses((status = 200, body = String)))]
pub async fn metrics(
    State(site): State<SharedSite>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let format = ExpositionFormat::wanted(header_text(&headers, header::ACCEPT));
    let present = site.present()?;
    let text = prometheus::metrics(&present, format);
    Ok((
        [
            (header::CONTENT_TYPE, format.content_type()),
            (header::VARY, "accept"),
        ],
        text,
    ))
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StatusBody {
    pub version: String,
    pub host: String,
    /// The short answer, without a period; times are in UTC.
    pub headline: String,
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
    /// `null` without `cowbell guard`.
    #[serde(default)]
    pub guard: Option<GuardState>,
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
            headline: headline(present, |at| at.strftime("%-d %b %H:%M UTC").to_string()),
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
            guard: guard_state(present),
            remote_write: present.remote_write.clone(),
            notes: present.notes.clone(),
        }
    }
}

fn guard_state(present: &Present) -> Option<GuardState> {
    let guard = present.interval.guard.as_ref()?;
    let mut state = GuardState::clone(&guard.state);
    if let Some(silent_s) = guard.silent_s {
        let silent = duration_text(silent_s);
        state.error = Some(format!("it has not written its state for {silent}"));
    }
    Some(state)
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
            state.error.as_ref().map(ToString::to_string),
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

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StoreBody {
    /// As of the last complete ten minutes.
    pub size_bytes: u64,
    pub size_limit_bytes: u64,
    /// Size of a day of ticks; `null` in the first ten minutes.
    pub ticks_bytes_per_day: Option<u64>,
    /// Size once the retention times are reached.
    pub forecast_bytes: Option<u64>,
    /// `ticks`, `minutes` and `ten_minutes`.
    pub levels: Vec<LevelBody>,
    /// Retention of ticks during jobs.
    pub jobs_days: u64,
    /// Ticks, jobs and alerts that were dropped since the start.
    pub lost: u64,
    /// The last gaps in stored ticks.
    pub gaps: Vec<GapBody>,
    /// Findings when the database was opened, such as damage.
    pub notes: Vec<String>,
}

/// Stored data of one resolution.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LevelBody {
    pub name: String,
    /// The oldest data.
    pub from: Option<Timestamp>,
    pub days: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct GapBody {
    pub from: Timestamp,
    pub to: Timestamp,
    pub ticks: i64,
    pub reason: String,
}

impl StoreBody {
    pub fn new(present: &Present) -> Self {
        let (stock, keep) = (&present.store.stock, &present.keep);
        let level = |level: Level, name: &str, age: config::Age| LevelBody {
            name: name.into(),
            from: stock.since[level as usize],
            days: days(age),
        };
        Self {
            size_bytes: stock.size_bytes,
            size_limit_bytes: keep.size.0,
            ticks_bytes_per_day: stock.bytes_per_day,
            forecast_bytes: stock.forecast_bytes(keep),
            levels: vec![
                level(Level::Ticks, "ticks", keep.ticks),
                level(Level::Minutes, "minutes", keep.minutes),
                level(Level::TenMinutes, "ten_minutes", keep.minutes),
            ],
            jobs_days: days(keep.jobs),
            lost: present.lost,
            gaps: stock.gaps.iter().map(GapBody::from).collect(),
            notes: present.store.notes.clone(),
        }
    }
}

impl From<&Gap> for GapBody {
    fn from(gap: &Gap) -> Self {
        let at = |ms| Timestamp::from_millisecond(ms).unwrap_or_default();
        Self {
            from: at(gap.from_ms),
            to: at(gap.to_ms),
            ticks: gap.ticks,
            reason: gap.reason.clone(),
        }
    }
}

fn days(age: config::Age) -> u64 {
    age.0.as_secs() / (24 * 3600)
}
