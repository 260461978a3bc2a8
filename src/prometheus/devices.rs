//! The counters of each row of `/proc/diskstats`; volumes and their groups: how full they are, when they will be full, and in
//! what state they are. A device of LVM has the labels of its volume and of the layer that it is, so that `dm-3` needs no
//! join.
//!
//! The kernel's milliseconds wrap at 2³². Prometheus takes that for a restart of the counter.

use super::exposition::{Exposition, Labels};
use super::own::seconds;
use crate::alert::Race;
use crate::forecast::{Eta, EtaBasis, OutlookVerdict, Risk};
use crate::interval::Interval;
use crate::present::Present;
use crate::quantity::{Family, RowKind, VolumeColumn, volume_row};
use crate::sample::diskstats::{Counted, Counter};
use crate::source::variant_name;
use crate::topology::{Device, Group, State, Volume, VolumeState};
use crate::units::Sectors;

pub fn write_devices(interval: &Interval, out: &mut Exposition) {
    let devices = &interval.topology.devices;
    let labels: Vec<Labels> = devices.iter().map(device_labels).collect();
    for quantity in RowKind::Device.quantities() {
        if let Some(Family::Counter(counter, name, help)) = quantity.family() {
            let counters = interval.devices.iter().map(|done| done.counters);
            let values = counters.map(|counters| Some(in_base_unit(counter, counters?[counter]?)));
            out.counters(name, help, labels.iter().zip(values));
        }
    }
    let sizes = devices
        .iter()
        .map(|device| Some(device.size?.bytes() as f64));
    out.gauges(
        "cowbell_device_size_bytes",
        "Size of the device.",
        labels.iter().zip(sizes),
    );
    out.infos(
        "cowbell_device",
        "Properties of the device: whether it is a PV, and whether its bytes count in the host's total.",
        devices.iter().zip(&labels).map(|(device, labels)| with_properties(device, labels.clone())),
    );
}

fn device_labels(device: &Device) -> Labels {
    let lv = device.lv.as_ref();
    let layer = lv.and_then(|lv| lv.layer.as_deref());
    Labels::of([
        ("device", &*device.name),
        ("vg", device.vg.as_deref().unwrap_or_default()),
        ("lv", lv.map_or("", |lv| &lv.name)),
        ("layer", layer.unwrap_or_default()),
        ("uuid", lv.map_or(&*device.identity, |lv| &*lv.uuid)),
    ])
}

fn with_properties(device: &Device, labels: Labels) -> Labels {
    let text = |is: bool| if is { "true" } else { "false" };
    labels.and([
        ("kind", &*variant_name(device.kind)),
        ("model", device.model.as_deref().unwrap_or_default()),
        ("rotational", device.rotational.map_or("", text)),
        ("scheduler", device.scheduler.as_deref().unwrap_or_default()),
        ("pv", text(device.is_pv)),
        ("counted", text(device.counts)),
    ])
}

pub fn write_volumes(present: &Present, out: &mut Exposition) {
    let volumes = || present.interval.volumes();
    let labels: Vec<Labels> = volumes().map(|(volume, _)| volume_labels(volume)).collect();
    let mut gauges = |name, help, value: fn(&Volume, &VolumeState) -> Option<f64>| {
        let values = volumes().map(|(volume, state)| value(volume, state));
        out.gauges(name, help, labels.iter().zip(values));
    };
    gauges(
        "cowbell_volume_size_bytes",
        "Size; for a thick snapshot, of its COW area.",
        |volume, _| Some(volume.size? as f64),
    );
    gauges(
        "cowbell_volume_metadata_used_bytes",
        "Used part of the pool's metadata.",
        |volume, state| {
            let metadata = state.metadata.filter(|_| volume.kind.is_pool())?;
            (metadata.unit > 0).then(|| metadata.used_bytes() as f64)
        },
    );
    gauges(
        "cowbell_volume_sync_ratio",
        "Share of the mirror or RAID that is in sync.",
        |_, state| Some(state.sync?.percent() / 100.0),
    );
    gauges(
        "cowbell_volume_created_timestamp_seconds",
        "When the snapshot was created.",
        |volume, _| {
            volume
                .created_at
                .filter(|_| volume.is_snapshot())
                .map(seconds)
        },
    );
    write_volume_quantities(&present.interval, &labels, out);
    let times = labels.iter().zip(volumes());
    out.times(
        "cowbell_volume_until_full",
        "full",
        "Likely time until the snapshot or pool is full; absent if that is far or unknown.",
        times.filter_map(|(labels, (volume, state))| {
            Some((labels, until_full(present, volume, state)?))
        }),
    );
    write_states(present, &labels, out);
    let devices = &present.interval.topology.devices;
    let properties = |(labels, (volume, _)): (&Labels, (&Volume, _))| {
        let device = volume.device.and_then(|index| devices.get(index));
        labels.clone().and([
            ("device", device.map_or("", |device| &device.name)),
            ("pool", volume.pool.as_deref().unwrap_or_default()),
        ])
    };
    out.infos(
        "cowbell_volume",
        "Device and pool of the volume.",
        labels.iter().zip(volumes()).map(properties),
    );
    write_groups(&present.interval.topology.groups, out);
}

fn write_volume_quantities(interval: &Interval, labels: &[Labels], out: &mut Exposition) {
    let mut rows = Vec::new();
    for (volume, state) in interval.volumes() {
        // The metadata of a cache does not fill up, so only a pool's is exported.
        let metadata = state.metadata.filter(|_| volume.kind.is_pool());
        rows.push(volume_row(&VolumeState { metadata, ..*state }));
    }
    for quantity in RowKind::Volume.quantities() {
        if let Some(Family::Gauge(help)) = quantity.family() {
            let (name, unit) = quantity.metric();
            let in_base_unit = |row: &[_; VolumeColumn::COUNT]| {
                // A fill of 41 % is the ratio 0.41.
                Some(quantity.value(row, interval.elapsed_us)? / quantity.unit().per_base_unit())
            };
            let values = rows.iter().map(in_base_unit);
            let name = format!("cowbell_volume_{name}_{unit}");
            out.gauges(&name, help, labels.iter().zip(values));
        }
    }
}

fn volume_labels(volume: &Volume) -> Labels {
    Labels::of([
        ("vg", &*volume.vg),
        ("lv", &volume.lv),
        ("uuid", &volume.uuid),
        ("kind", &variant_name(volume.kind)),
        ("origin", volume.origin.as_deref().unwrap_or_default()),
    ])
}

/// When a volume is full: now, or as forecast.
fn until_full(present: &Present, volume: &Volume, state: &VolumeState) -> Option<Eta> {
    let fill = state.fill.filter(|_| volume.kind.can_overflow())?;
    if fill.used < fill.total {
        return present.paces.get(&volume.uuid)?.full;
    }
    Some(Eta {
        likely_s: Some(0.0),
        soonest_s: 0.0,
        latest_s: Some(0.0),
        basis: EtaBasis::Tested,
        seen_s: 0.0,
    })
}

fn write_states(present: &Present, labels: &[Labels], out: &mut Exposition) {
    let volumes = || labels.iter().zip(present.interval.volumes());
    let names = State::ALL.map(|state| (state, variant_name(state)));
    // The others would only be more series.
    let possible = |volume: &Volume, now: &VolumeState| -> Vec<&str> {
        let is_possible = |state: State| state == now.state || state.has_series(volume.kind);
        let known = names.iter().filter(|(state, _)| is_possible(*state));
        known.map(|(_, name)| &**name).collect()
    };
    let states: Vec<Vec<&str>> = volumes()
        .map(|(_, (volume, now))| possible(volume, now))
        .collect();
    let rows = volumes().zip(&states);
    out.states(
        "cowbell_volume_state",
        "State of the volume.",
        rows.map(|((labels, (_, now)), states)| (labels, &**states, &*names[now.state as usize].1)),
    );
    out.states(
        "cowbell_volume_backup_risk",
        "How likely the snapshot or pool is full before the backup that reads it is done.",
        volumes().filter_map(|(labels, (volume, _))| {
            Some((labels, &RISKS[..], risk(present.races.get(&volume.uuid)?)))
        }),
    );
}

const RISKS: [&str; 4] = ["none", "low", "race", "high"];

/// One of [`RISKS`]: none if the backup will certainly be done first.
fn risk(race: &Race) -> &'static str {
    match (race.verdict, race.risk) {
        (OutlookVerdict::DoneFirst, _) => "none",
        (_, Risk::Low) => "low",
        (_, Risk::Race) => "race",
        (_, Risk::High) => "high",
    }
}

fn write_groups(groups: &[Group], out: &mut Exposition) {
    let label = |group: &Group| Labels::of([("vg", &*group.name)]);
    let labels: Vec<Labels> = groups.iter().map(label).collect();
    let mut gauges = |name, help, value: fn(&Group) -> Option<f64>| {
        out.gauges(name, help, labels.iter().zip(groups.iter().map(value)));
    };
    gauges(
        "cowbell_group_size_bytes",
        "Size of the volume group.",
        |group| Some(group.size? as f64),
    );
    gauges(
        "cowbell_group_free_bytes",
        "Free part of the volume group.",
        |group| Some(group.free? as f64),
    );
    gauges(
        "cowbell_group_missing_pvs",
        "Missing PVs of the volume group.",
        |group| Some(f64::from(group.missing_pvs)).filter(|_| group.size.is_some()),
    );
}

fn in_base_unit(counter: Counter, count: u64) -> f64 {
    match counter.counted() {
        Counted::Requests => count as f64,
        Counted::Sectors => Sectors(count).bytes() as f64,
        Counted::Milliseconds => count as f64 / 1e3,
    }
}
