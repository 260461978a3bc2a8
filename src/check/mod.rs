//! `cowbell check`: what cowbell can see here, how to fix the rest, and whether tonight's backup by mylvmbackup can work.

mod backup;
mod hooks;
mod tonight;

use cowbell_device_mapper::{DeviceMapper, Scope};
use std::path::Path;

use crate::client;
use crate::config::{Config, check_address};
use crate::mylvmbackup::{BackupPlan, size_bytes};
use crate::notify;
use crate::sample::{diskstats, host, lvm, sysfs};
use crate::sizing::SizeRisk;
use crate::source::files::Root;
use crate::source::lvm as report;
use crate::store;
use crate::units::{count_text, size_text};
pub use hooks::hook_socket;

/// The result of one check.
enum Finding {
    /// Works.
    Good(String),
    /// Something is unavailable; the rest works.
    Missing(String),
    /// `cowbell serve` would fail.
    Fatal(String),
}

impl Finding {
    /// One line; control characters in quoted text become spaces.
    fn line(&self) -> String {
        let (word, sentence) = match self {
            Self::Good(sentence) => ("ok       ", sentence),
            Self::Missing(sentence) => ("missing  ", sentence),
            Self::Fatal(sentence) => ("FAILS    ", sentence),
        };
        format!("{word}{}\n", sentence.replace(char::is_control, " "))
    }
}

/// Checks everything that `serve` needs; returns the text, and whether `serve` would work.
///
/// `named` is the database from the command line, if any.
pub async fn check(config: &Config, root: &Root, named: Option<&Path>) -> (String, bool) {
    let database = store::existing_path(named);
    let mut findings = vec![devices(root)];
    findings.extend(host(root));
    findings.extend([names(root), device_mapper()]);
    let (of_lvm, report) = lvm_report().await;
    findings.push(of_lvm);
    findings.push(match &database {
        Ok(path) => database_at(path, named.is_some()).await,
        Err(error) => Finding::Fatal(store::in_words(error)),
    });
    if let Ok(path) = database {
        findings.push(device_finding(root, &path));
        findings.push(size_forecast(config, root, &path).await);
    }
    findings.push(address(config).await);
    findings.extend(token(config));
    findings.extend(
        notify::ready(config.clone(), "localhost")
            .err()
            .map(|error| Finding::Fatal(error.to_string())),
    );
    findings.extend(tonights_backup(config, root, report).await);
    let would_serve = !findings
        .iter()
        .any(|finding| matches!(finding, Finding::Fatal(_)));
    (findings.iter().map(Finding::line).collect(), would_serve)
}

fn devices(root: &Root) -> Finding {
    match root
        .keep("proc/diskstats")
        .read()
        .map(|text| diskstats::parse(&text))
    {
        Ok((devices, unparsed)) if unparsed.is_empty() => Finding::Good(format!(
            "/proc/diskstats shows {}",
            count_text(devices.len(), "device", "devices")
        )),
        Ok((_, unparsed)) => Finding::Missing(format!(
            "/proc/diskstats has {}, such as {:?}: please report it",
            count_text(
                unparsed.len(),
                "line that cannot be parsed",
                "lines that cannot be parsed"
            ),
            unparsed[0]
        )),
        Err(error) => Finding::Fatal(format!("{error}: cowbell needs it to measure throughput")),
    }
}

/// Counters of the host: what each file shows, and the problem without it.
fn host(root: &Root) -> [Finding; 3] {
    let read = |path: &str| root.keep(path).read();
    let paging = read("proc/vmstat").and_then(|text| host::parse_vmstat(&text).map(drop));
    let cpu = read("proc/stat").and_then(|text| host::parse_stat(&text).map(drop));
    let pressure = read("proc/pressure/io").and_then(|text| host::parse_pressure(&text).map(drop));
    let no_pressure =
        "I/O pressure is unavailable; it needs Linux 4.20, and on Red Hat the boot option psi=1";
    [
        (
            paging,
            "/proc/vmstat shows bi and bo",
            "bi and bo are unavailable",
        ),
        (
            cpu,
            "/proc/stat shows CPU time and blocked processes",
            "CPU time is unavailable",
        ),
        (
            pressure,
            "/proc/pressure/io shows I/O pressure",
            no_pressure,
        ),
    ]
    .map(|(found, good, without)| finding(found.map(|()| good.into()), without))
}

fn names(root: &Root) -> Finding {
    let found = root.read_block_devices().map(|text| sysfs::parse(&text));
    let sentence = found.map(|devices| {
        let mapped = devices
            .iter()
            .filter(|device| device.dm_uuid.is_some())
            .count();
        let named = count_text(devices.len(), "block device", "block devices");
        format!("/sys names {named}, {mapped} of them from the device-mapper")
    });
    finding(sentence, "devices have only kernel names")
}

fn device_mapper() -> Finding {
    let found = DeviceMapper::default().read(Scope::All);
    match found {
        Ok(text) => Finding::Good(format!(
            "the device-mapper lists {}; snapshot and pool usage can be read",
            count_text(
                cowbell_device_mapper::status::parse(&text).devices.len(),
                "device",
                "devices"
            )
        )),
        Err(error) => Finding::Missing(error.usage_unknown()),
    }
}

async fn lvm_report() -> (Finding, Option<lvm::Report>) {
    let mut reporter = report::LvmQuery::default();
    reporter.start();
    let found = reporter
        .answer()
        .await
        .report
        .map_err(|error| error.sentence)
        .and_then(|text| lvm::parse(&text));
    let sentence = found.as_ref().map_err(String::clone).map(|report| {
        let volumes: usize = report.groups.iter().map(|group| group.volumes.len()).sum();
        let groups = count_text(report.groups.len(), "volume group", "volume groups");
        format!(
            "LVM reports {groups} with {}",
            count_text(volumes, "volume", "volumes")
        )
    });
    let without = "free space, layouts, tags, inactive volumes and thin origins are unavailable";
    (finding(sentence, without), found.ok())
}

/// Empty without mylvmbackup.
async fn tonights_backup(
    config: &Config,
    root: &Root,
    report: Option<lvm::Report>,
) -> Vec<Finding> {
    let (plan, mut findings) = backup::plan(root);
    if let Some(plan) = plan {
        findings.extend(backup::check(root, &plan, report).await);
        findings.extend(size(config, &plan).await);
        findings.extend(hooks::check(config, root, &plan, daemon_runs(config).await).await);
    }
    findings
}

/// Whether the planned snapshot is large enough; `None` if no daemon runs, or if it does not know.
async fn size(config: &Config, plan: &BackupPlan) -> Option<Finding> {
    let bytes = size_bytes(&plan.size).filter(|_| !plan.is_thin)?;
    let daemon = client::Daemon::at(config.listen.0, false);
    let origin = format!("{}/{}", plan.group, plan.origin);
    let advice = daemon.size_advice(&origin, Some(bytes)).await.ok()?;
    let planned = advice.planned?;
    Some(match planned.risk {
        SizeRisk::Low => Finding::Good(planned.text),
        SizeRisk::Possible | SizeRisk::Likely => Finding::Missing(planned.text),
    })
}

async fn daemon_runs(config: &Config) -> bool {
    client::answers(config.listen.0).await
}

fn finding(found: Result<String, String>, without: &str) -> Finding {
    match found {
        Ok(sentence) => Finding::Good(sentence),
        Err(error) => Finding::Missing(format!("{error}: {without}")),
    }
}

async fn database_at(path: &Path, is_named: bool) -> Finding {
    match store::try_out(path, is_named).await {
        Ok(()) => Finding::Good(format!("the database {} can be written", path.display())),
        Err(error) => Finding::Fatal(store::in_words(&error)),
    }
}

/// Warns if the database is on a volume, whose writes can be suspended.
pub fn waits_with_a_volume(root: &Root, path: &Path) -> Option<String> {
    let device = root
        .device_below(path)
        .ok()
        .flatten()
        .filter(|device| device.starts_with("dm-"))?;
    Some(format!(
        "the database is on {device}, a volume of this host: writes wait while a snapshot of it is created, or its pool is \
         full; prefer a disk without LVM, see --db"
    ))
}

fn device_finding(root: &Root, path: &Path) -> Finding {
    if let Some(sentence) = waits_with_a_volume(root, path) {
        return Finding::Missing(sentence);
    }
    match root.device_below(path) {
        Ok(Some(device)) => Finding::Good(format!(
            "the database is on {device}, which is no LVM volume"
        )),
        Ok(None) => Finding::Good("the database is on no block device of this host".into()),
        Err(error) => Finding::Missing(format!(
            "cannot determine the device of the database: {error}"
        )),
    }
}

/// Forecasts the size of the database, from its content or else from the number of devices.
async fn size_forecast(config: &Config, root: &Root, path: &Path) -> Finding {
    let (keep, stock) = (&config.store, store::stock_of(path).await.ok());
    let devices = root
        .keep("proc/diskstats")
        .read()
        .map_or(0, |text| diskstats::parse(&text).0.len());
    let (basis, need) = match stock.as_ref().and_then(|stock| stock.forecast_bytes(keep)) {
        Some(need) => ("at the current rate".to_string(), need),
        None => (
            format!("if its {devices} devices are typical"),
            store::usual_bytes(keep, devices),
        ),
    };
    let held = stock.map_or_else(String::new, |stock| {
        format!(" has {} and", size_text(stock.size_bytes))
    });
    let growth = format!(
        "the database{held} will grow to {} {basis}",
        size_text(need)
    );
    let limit = size_text(keep.size.0);
    match need > keep.size.0 {
        false => Finding::Good(format!("{growth}, within its limit of {limit}")),
        true => Finding::Missing(format!(
            "{growth}, beyond its limit of {limit}: the oldest ticks will be deleted early; raise `size` in [store], or \
             shorten retention"
        )),
    }
}

/// `None` without a configured token, if none is needed.
fn token(config: &Config) -> Option<Finding> {
    match config.changes.token() {
        Ok(None) => check_address(config.listen.0, false)
            .err()
            .map(|error| Finding::Fatal(error.to_string())),
        Ok(Some(_)) => Some(Finding::Good("the token can be read".into())),
        Err(error) => Some(Finding::Fatal(error.to_string())),
    }
}

async fn address(config: &Config) -> Finding {
    let address = config.listen.0;
    let Err(error) = tokio::net::TcpListener::bind(address).await else {
        return Finding::Good(format!("{address} is free"));
    };
    match daemon_runs(config).await {
        true => Finding::Good(format!("cowbell already runs at http://{address}/")),
        false => Finding::Fatal(format!(
            "cannot listen on {address}: {error}; choose another address with --listen"
        )),
    }
}
