//! Volumes and their groups: how full they are, when they will be full, and in what state they are.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::eta::{self, EtaFamilies};
use super::family::{Families, Family, LabelFamily, Labels};
use crate::alert::{Pace, Race};
use crate::forecast::{Eta, EtaBasis, OutlookVerdict, Risk};
use crate::present::Present;
use crate::source::variant_name;
use crate::topology::{Group, State, Volume, VolumeState};
use crate::units::Fill;

pub const FILL: Family = Family {
    name: "cowbell_volume_fill",
    unit: "ratio",
    help: "Used share of the COW area, the pool's data, the thin volume, or the cache, to the hundredth of a percent as in lvs.",
};
pub const METADATA_FILL: Family = Family {
    name: "cowbell_volume_metadata_fill",
    unit: "ratio",
    help: "Used share of the pool's metadata, to the hundredth of a percent as in lvs.",
};
pub const CREATED: Family = Family {
    name: "cowbell_volume_created_timestamp",
    unit: "seconds",
    help: "When the snapshot was created.",
};
pub const UNTIL_FULL: EtaFamilies = [
    Family {
        name: "cowbell_volume_until_full",
        unit: "seconds",
        help: "Likely time until the snapshot or pool is full; absent if that is far or unknown.",
    },
    Family {
        name: "cowbell_volume_until_full_soonest",
        unit: "seconds",
        help: "Time until full: in 19 of 20 cases it takes longer.",
    },
    Family {
        name: "cowbell_volume_until_full_latest",
        unit: "seconds",
        help: "Time until full: in 19 of 20 cases it takes less. Absent if it may never be full.",
    },
];
pub const STATE: LabelFamily = LabelFamily {
    name: "cowbell_volume_state",
    help: "State of the volume.",
};
pub const RISK: LabelFamily = LabelFamily {
    name: "cowbell_volume_backup_risk",
    help: "How likely the snapshot or pool is full before the backup that reads it is done.",
};
const INFO: LabelFamily = LabelFamily {
    name: "cowbell_volume",
    help: "Device and pool of the volume.",
};

type VolumeValue = fn(&Volume, &VolumeState) -> Option<f64>;
const GAUGES: [(Family, VolumeValue); 7] = [
    (
        gauge(
            "cowbell_volume_size",
            "bytes",
            "Size; for a thick snapshot, of its COW area.",
        ),
        |volume, _| Some(volume.size? as f64),
    ),
    (
        gauge(
            "cowbell_volume_used",
            "bytes",
            "Used part of the COW area, the pool's data, the thin volume, or the cache.",
        ),
        |_, state| used(state.fill),
    ),
    (FILL, |_, state| ratio(state.fill)),
    (
        gauge(
            "cowbell_volume_metadata_used",
            "bytes",
            "Used part of the pool's metadata.",
        ),
        |volume, state| used(metadata(volume, state)),
    ),
    (METADATA_FILL, |volume, state| {
        ratio(metadata(volume, state))
    }),
    (
        gauge(
            "cowbell_volume_sync",
            "ratio",
            "Share of the mirror or RAID that is in sync.",
        ),
        |_, state| ratio(state.sync),
    ),
    (CREATED, |volume, _| {
        let created_at = volume.created_at.filter(|_| volume.is_snapshot())?;
        Some(created_at.as_millisecond() as f64 / 1e3)
    }),
];
type GroupValue = fn(&Group) -> Option<f64>;
const OF_GROUPS: [(Family, GroupValue); 3] = [
    (
        gauge("cowbell_group_size", "bytes", "Size of the volume group."),
        |group| Some(group.size? as f64),
    ),
    (
        gauge(
            "cowbell_group_free",
            "bytes",
            "Free part of the volume group.",
        ),
        |group| Some(group.free? as f64),
    ),
    (
        gauge(
            "cowbell_group_missing",
            "pvs",
            "Missing PVs of the volume group.",
        ),
        |group| Some(f64::from(group.missing_pvs)).filter(|_| group.size.is_some()),
    ),
];

const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family { name, unit, help }
}

pub fn encode(present: &Present, families: &mut Families) -> fmt::Result {
    let volumes = || present.interval.volumes();
    let kinds: Vec<String> = volumes()
        .map(|(volume, _)| variant_name(volume.kind))
        .collect();
    let labels: Vec<Labels> = volumes()
        .zip(&kinds)
        .map(|((volume, _), kind)| labels(volume, kind))
        .collect();
    for (family, value) in &GAUGES {
        families.gauges(
            family,
            labels
                .iter()
                .zip(volumes().map(|(volume, state)| value(volume, state))),
        )?;
    }
    let times = labels
        .iter()
        .zip(volumes())
        .filter_map(|(labels, (volume, state))| {
            Some((labels, until_full(&present.paces, volume, state)?))
        });
    eta::encode(&UNTIL_FULL, times, families)?;
    encode_states(present, &labels, families)?;
    let devices = &present.interval.topology.devices;
    let properties = volumes().map(|(volume, _)| {
        let device = volume.device.and_then(|index| devices.get(index));
        let pool = volume.pool.as_deref().unwrap_or_default();
        Labels::of([
            ("device", device.map_or("", |device| &device.name)),
            ("pool", pool),
        ])
    });
    families.infos(&INFO, labels.iter().zip(properties))?;
    encode_groups(&present.interval.topology.groups, families)
}

fn labels<'a>(volume: &'a Volume, kind: &'a str) -> Labels {
    Labels::of([
        ("vg", &volume.vg),
        ("lv", &volume.lv),
        ("uuid", &volume.uuid),
        ("kind", kind),
        ("origin", volume.origin.as_deref().unwrap_or_default()),
    ])
}

/// When a volume is full: now, or as forecast.
fn until_full(
    paces: &HashMap<Arc<str>, Pace>,
    volume: &Volume,
    state: &VolumeState,
) -> Option<Eta> {
    let fill = state.fill.filter(|_| volume.kind.can_overflow())?;
    if fill.used >= fill.total {
        let (likely_s, latest_s) = (Some(0.0), Some(0.0));
        return Some(Eta {
            likely_s,
            soonest_s: 0.0,
            latest_s,
            basis: EtaBasis::Tested,
            seen_s: 0.0,
        });
    }
    paces.get(&volume.uuid)?.full
}

fn encode_states(present: &Present, labels: &[Labels], families: &mut Families) -> fmt::Result {
    let volumes = || present.interval.volumes();
    let names = State::ALL.map(|state| (state, variant_name(state)));
    let states: Vec<Vec<&str>> = volumes()
        .map(|(volume, now)| {
            let is_possible = |state: State| state == now.state || volume.kind.can_be(state);
            names
                .iter()
                .filter(|(state, _)| is_possible(*state))
                .map(|(_, name)| &**name)
                .collect()
        })
        .collect();
    let rows = labels.iter().zip(&states).zip(volumes());
    let rows =
        rows.map(|((labels, states), (_, now))| (labels, &**states, &*names[now.state as usize].1));
    families.states(&STATE, rows)?;
    let risks = labels
        .iter()
        .zip(volumes())
        .filter_map(|(labels, (volume, _))| {
            Some((labels, &RISKS[..], risk(present.races.get(&volume.uuid)?)))
        });
    families.states(&RISK, risks)
}

/// The states of [`RISK`].
const RISKS: [&str; 4] = [NO_RISK, "low", RACE, HIGH_RISK];
/// The backup will certainly be done first.
pub const NO_RISK: &str = "none";
pub const RACE: &str = "race";
pub const HIGH_RISK: &str = "high";

fn risk(race: &Race) -> &'static str {
    match (race.verdict, race.risk) {
        (OutlookVerdict::DoneFirst, _) => NO_RISK,
        (_, Risk::Low) => "low",
        (_, Risk::Race) => RACE,
        (_, Risk::High) => HIGH_RISK,
    }
}

fn encode_groups(groups: &[Group], families: &mut Families) -> fmt::Result {
    let labels: Vec<Labels> = groups
        .iter()
        .map(|group| Labels::of([("vg", &group.name)]))
        .collect();
    for (family, value) in &OF_GROUPS {
        families.gauges(family, labels.iter().zip(groups.iter().map(value)))?;
    }
    Ok(())
}

/// Only of pools: the metadata of a cache does not fill up.
fn metadata(volume: &Volume, state: &VolumeState) -> Option<Fill> {
    state.metadata.filter(|_| volume.kind.is_pool())
}

/// The bytes of a pool are unknown without its chunk size.
fn used(fill: Option<Fill>) -> Option<f64> {
    Some(fill.filter(|fill| fill.unit > 0)?.used_bytes() as f64)
}

fn ratio(fill: Option<Fill>) -> Option<f64> {
    Some(fill?.percent() / 100.0)
}
