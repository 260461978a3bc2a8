//! `cowbell check`: what cowbell can see here, how to fix the rest, and whether tonight's backup by mylvmbackup can work.

mod backup;
mod hooks;
mod tonight;

use std::path::Path;

use cowbell_device_mapper::{DeviceMapper, Scope, status};

use crate::client::{Daemon, QUICK_LIMIT};
use crate::config::{Config, GUARD_PATH, GuardSettings, check_address};
use crate::job::programs::is_backup_tool;
use crate::mylvmbackup::BackupPlan;
use crate::notify;
use crate::sample::{Sample, Sampler, diskstats, host, sysfs};
use crate::schedule::ScheduledStart;
use crate::sizing::SizeRisk;
use crate::source::files::Root;
use crate::source::{Part, PartReading, Reading, schedule, variant_name};
use crate::store;
use crate::units::{count_text, size_text};
use crate::web::Tls;
pub use hooks::hook_socket;

/// A line of the report.
enum CheckLine {
    /// Works.
    Good(String),
    /// Something is unavailable; the rest works.
    Missing(String),
    /// `cowbell serve` would fail.
    Fatal(String),
}

impl CheckLine {
    /// What can be read; or why not, and what is missing without it.
    fn of_reading(seen: Result<String, String>, without: &str) -> Self {
        match seen {
            Ok(sentence) => Self::Good(sentence),
            Err(why) => Self::Missing(format!("{why}: {without}")),
        }
    }

    fn missing(sentence: impl Into<String>) -> Self {
        Self::Missing(sentence.into())
    }

    /// Control characters in quoted text become spaces.
    fn text(&self) -> String {
        let (word, sentence) = match self {
            Self::Good(sentence) => ("ok", sentence),
            Self::Missing(sentence) => ("missing", sentence),
            Self::Fatal(sentence) => ("FAILS", sentence),
        };
        format!("{word:<9}{}\n", sentence.replace(char::is_control, " "))
    }
}

/// A file with counters of the host: its path, its parser, what it shows, and what is missing without it.
type HostFile = (
    &'static str,
    fn(&str) -> Result<(), String>,
    &'static str,
    &'static str,
);

const HOST_FILES: [HostFile; 3] = [
    (
        "proc/vmstat",
        |text| host::parse_vmstat(text).map(drop),
        "bi and bo",
        "bi and bo are unavailable",
    ),
    (
        "proc/stat",
        |text| host::parse_stat(text).map(drop),
        "CPU time and blocked processes",
        "CPU time is unavailable",
    ),
    (
        "proc/pressure/io",
        |text| host::parse_pressure(text).map(drop),
        "I/O pressure",
        "I/O pressure is unavailable; it needs Linux 4.20, and on Red Hat the boot option psi=1",
    ),
];

/// Checks everything that `serve` needs; returns the text, and whether `serve` would work.
///
/// `named` is the database from the command line, if any.
pub async fn check(config: &Config, root: &Root, named: Option<&Path>) -> (String, bool) {
    let mut lines = vec![devices(root)];
    for (path, parse, shown, without) in HOST_FILES {
        let parsed = root.keep(path).read().and_then(|text| parse(&text));
        let seen = parsed.map(|()| format!("/{path} shows {shown}"));
        lines.push(CheckLine::of_reading(seen, without));
    }
    lines.extend([names(root), device_mapper()]);
    let (of_lvm, sample) = volumes(root).await;
    lines.push(of_lvm);
    match store::existing_path(named) {
        Ok(path) => lines.extend([
            database(&path, named.is_some()).await,
            database_device(root, &path),
            database_size(config, root, &path).await,
        ]),
        Err(error) => lines.push(CheckLine::Fatal(store::in_words(&error))),
    }
    let daemon = Daemon::at(config.listen.0, false);
    let is_running = daemon.text("/api/v1/status", QUICK_LIMIT).await.is_ok();
    lines.push(address(config, is_running).await);
    lines.extend(token(config));
    if let Some(tls) = &config.tls {
        lines.push(match Tls::open(tls) {
            Ok(_) => CheckLine::Good("the certificate and its key can be read".into()),
            Err(error) => CheckLine::Fatal(error.to_string()),
        });
    }
    if let Err(error) = notify::ready(config.clone(), "localhost") {
        lines.push(CheckLine::Fatal(error.to_string()));
    }
    let (plan, of_configuration) = backup::plan(root);
    lines.extend(of_configuration);
    if let Some(plan) = plan {
        lines.extend(backup::check(root, &plan, &sample).await);
        lines.extend(planned_size(config, &plan).await);
        lines.extend(hooks::check(config, root, &plan, is_running).await);
    }
    lines.extend(next_starts(root));
    lines.extend(guard());
    let would_serve = !lines.iter().any(|line| matches!(line, CheckLine::Fatal(_)));
    (lines.iter().map(CheckLine::text).collect(), would_serve)
}

/// The configuration of the guard, if there is one.
fn guard() -> Option<CheckLine> {
    let path = Path::new(GUARD_PATH);
    path.exists().then(|| match GuardSettings::load(path) {
        Ok(settings) => {
            let mode = variant_name(settings.mode);
            CheckLine::Good(format!(
                "{GUARD_PATH} is valid; the mode of the guard is {mode}"
            ))
        }
        Err(error) => CheckLine::Missing(format!("the guard will not start: {error}")),
    })
}

/// When crontabs and timers start programs that do nothing but backups.
fn next_starts(root: &Root) -> Vec<CheckLine> {
    let text = schedule::read(root, &schedule::zone(root));
    let mut lines = Vec::new();
    for start in text.lines().filter_map(ScheduledStart::parse) {
        let mut tools = start.programs.iter().filter(|name| is_backup_tool(name));
        if let (Some(tool), Some(next)) = (tools.next(), start.next) {
            let next = next.strftime("%Y-%m-%d %H:%M UTC");
            lines.push(CheckLine::Good(format!("{tool} starts next at {next}")));
        }
    }
    lines
}

fn devices(root: &Root) -> CheckLine {
    let (devices, unparsed) = match root.keep("proc/diskstats").read() {
        Ok(text) => diskstats::parse(&text),
        Err(why) => {
            return CheckLine::Fatal(format!("{why}: cowbell needs it to measure throughput"));
        }
    };
    match unparsed.first() {
        None => CheckLine::Good(format!(
            "/proc/diskstats shows {}",
            count_text(devices.len(), "device", "devices")
        )),
        Some(first) => CheckLine::Missing(format!(
            "/proc/diskstats has {}, such as {first:?}: please report it",
            count_text(
                unparsed.len(),
                "line that cannot be parsed",
                "lines that cannot be parsed"
            )
        )),
    }
}

fn names(root: &Root) -> CheckLine {
    let seen = root.read_block_devices().map(|text| {
        let devices = sysfs::parse(&text);
        let mapped = devices.iter().filter(|device| device.dm_uuid.is_some());
        format!(
            "/sys names {}, {} of them from the device-mapper",
            count_text(devices.len(), "block device", "block devices"),
            mapped.count()
        )
    });
    CheckLine::of_reading(seen, "devices have only kernel names")
}

fn device_mapper() -> CheckLine {
    match DeviceMapper::default().read(Scope::All) {
        Ok(text) => {
            let devices = status::parse(&text).devices.len();
            CheckLine::Good(format!(
                "the device-mapper lists {}; snapshot and pool usage can be read",
                count_text(devices, "device", "devices")
            ))
        }
        Err(error) => CheckLine::Missing(error.usage_unknown()),
    }
}

/// What LVM reports, and a sample of all that is known of volumes.
async fn volumes(root: &Root) -> (CheckLine, Sample) {
    let mut reading = Reading::of_volumes(root).await;
    let is_of_lvm = |text: &&PartReading| text.part == Part::Lvm;
    let of_lvm = reading.texts.iter().find(is_of_lvm);
    let refused = of_lvm.and_then(|text| text.result.text().err());
    // Other lines say what cannot be read, so the sampler need not log it.
    reading.texts.retain(|text| text.result.text().is_ok());
    let mut sampler = Sampler::default();
    let sample = sampler.sample(&reading);
    let state = sampler.parts().get(&Part::Lvm);
    let error = refused.or_else(|| state?.error.clone());
    let groups = sample.slow.report.iter().flat_map(|report| &report.groups);
    let (mut count, mut volumes) = (0, 0);
    for group in groups {
        count += 1;
        volumes += group.volumes.len();
    }
    let count = count_text(count, "volume group", "volume groups");
    let volumes = count_text(volumes, "volume", "volumes");
    let seen = match error {
        Some(error) => Err(error.to_string()),
        None => Ok(format!("LVM reports {count} with {volumes}")),
    };
    let without = "free space, layouts, tags, inactive volumes and thin origins are unavailable";
    (CheckLine::of_reading(seen, without), sample)
}

async fn database(path: &Path, is_named: bool) -> CheckLine {
    match store::try_out(path, is_named).await {
        Ok(()) => CheckLine::Good(format!("the database {} can be written", path.display())),
        Err(_) if !is_named && path.try_exists().is_err() => CheckLine::Missing(format!(
            "this user cannot look into the folder of the database {}: run `sudo cowbell check`",
            path.display()
        )),
        Err(error) => CheckLine::Fatal(store::in_words(&error)),
    }
}

/// Warns if the database is on a volume, whose writes can be suspended.
pub fn waits_with_a_volume(root: &Root, path: &Path) -> Option<String> {
    let device = root.device_below(path).ok().flatten()?;
    device.starts_with("dm-").then(|| {
        format!(
            "the database is on {device}, a volume of this host: writes wait while a snapshot of it is created, or its pool is \
             full; prefer a disk without LVM, see --db"
        )
    })
}

fn database_device(root: &Root, path: &Path) -> CheckLine {
    if let Some(sentence) = waits_with_a_volume(root, path) {
        return CheckLine::Missing(sentence);
    }
    match root.device_below(path) {
        Ok(Some(device)) => CheckLine::Good(format!(
            "the database is on {device}, which is no LVM volume"
        )),
        Ok(None) => CheckLine::Good("the database is on no block device of this host".into()),
        Err(error) => CheckLine::Missing(format!(
            "cannot determine the device of the database: {error}"
        )),
    }
}

/// Forecasts the size of the database, from its content or else from the number of devices.
async fn database_size(config: &Config, root: &Root, path: &Path) -> CheckLine {
    let settings = &config.store;
    let usage = store::stock_of(path).await.ok();
    let forecast = usage
        .as_ref()
        .and_then(|usage| usage.forecast_bytes(settings));
    let (need, basis) = match forecast {
        Some(need) => (need, "at the current rate".to_string()),
        None => {
            let text = root.keep("proc/diskstats").read().unwrap_or_default();
            let devices = diskstats::parse(&text).0.len();
            let need = store::usual_bytes(settings, devices);
            (need, format!("if its {devices} devices are typical"))
        }
    };
    let mut growth = "the database".to_string();
    if let Some(usage) = usage {
        growth += &format!(" has {} and", size_text(usage.size_bytes));
    }
    growth += &format!(" will grow to {} {basis}", size_text(need));
    let limit = size_text(settings.size.0);
    if need > settings.size.0 {
        return CheckLine::Missing(format!(
            "{growth}, beyond its limit of {limit}: the oldest ticks will be deleted early; raise `size` in [store], or \
             shorten retention"
        ));
    }
    CheckLine::Good(format!("{growth}, within its limit of {limit}"))
}

async fn address(config: &Config, is_running: bool) -> CheckLine {
    let address = config.listen.0;
    match tokio::net::TcpListener::bind(address).await {
        Ok(_) => CheckLine::Good(format!("{address} is free")),
        Err(_) if is_running => {
            let scheme = if config.tls.is_some() {
                "https"
            } else {
                "http"
            };
            CheckLine::Good(format!("cowbell already runs at {scheme}://{address}/"))
        }
        Err(error) => CheckLine::Fatal(format!(
            "cannot listen on {address}: {error}; choose another address with --listen"
        )),
    }
}

/// `None` without a configured token, if none is needed.
fn token(config: &Config) -> Option<CheckLine> {
    let reading = config.changes.read_token();
    let token = config.changes.token();
    match token.and_then(|token| Ok(token.or(reading?))) {
        Ok(Some(_)) => Some(CheckLine::Good("the token can be read".into())),
        Ok(None) => check_address(config.listen.0, false)
            .err()
            .map(|error| CheckLine::Fatal(error.to_string())),
        Err(error) => Some(CheckLine::Fatal(error.to_string())),
    }
}

/// Whether the planned snapshot is large enough; `None` if no daemon runs, or if it does not know.
async fn planned_size(config: &Config, plan: &BackupPlan) -> Option<CheckLine> {
    let bytes = plan.size_bytes().filter(|_| !plan.is_thin)?;
    let daemon = Daemon::at(config.listen.0, false);
    let origin = format!("{}/{}", plan.group, plan.origin);
    let advice = daemon.size_advice(&origin, Some(bytes)).await.ok()?;
    let planned = advice.planned?;
    Some(match planned.risk {
        SizeRisk::Low => CheckLine::Good(planned.text),
        SizeRisk::Possible | SizeRisk::Likely => CheckLine::Missing(planned.text),
    })
}
