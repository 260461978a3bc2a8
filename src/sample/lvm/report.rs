//! Parses `lvm fullreport`: values are strings in `json`, and numbers or `null` in `json_std`. Missing or empty values
//! are unknown. Only malformed JSON, or JSON without reports, is an error. LVM prints hints and warnings before, after and
//! between the lines of its JSON.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Autoextend, Pv, Report, ReportedGroup, ReportedVolume, Segment};
use crate::sample::diskstats::Number;
use crate::source::lvm::{NO_ARCHIVE, NOT_USED, PROFILE};
use crate::units::Fill;

/// LVM's name for a missing PV.
const MISSING: &str = "[unknown]";

/// The beginnings of lines of LVM's JSON. A hint begins with a word, such as `Consider pruning vg0 VG archive…`.
const JSON: [char; 6] = ['{', '}', '[', ']', ',', '"'];

/// Parses the output of `lvm fullreport`, which may be several documents.
pub fn parse(text: &str) -> Result<Report, String> {
    let documents = documents(text).or_else(|error| {
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| line.trim_start().starts_with(JSON))
            .collect();
        let found = documents(&lines.join("\n")).ok();
        found.filter(|found| !found.is_empty()).ok_or(error)
    });
    let documents = documents.map_err(|error| {
        let start: String = text.chars().take(60).collect();
        format!("cannot parse LVM's report: {error}; it begins with {start:?}")
    })?;
    let lists = documents
        .iter()
        .filter_map(|json| json.get("report").and_then(Value::as_array));
    let lists: Vec<&Vec<Value>> = lists.collect();
    let (twins, profiles) = (twins(text), profiles(text));
    if lists.is_empty() {
        return Err("cannot parse LVM's report: expected a list named `report`".into());
    }
    let reports = || lists.iter().copied().flatten();
    // PVs without a group are in a report of their own without `vg`.
    let without_group = reports().filter(|report| report.get("vg").is_none());
    Ok(Report {
        groups: reports()
            .filter_map(|report| group(report, &twins, &profiles))
            .collect(),
        free_pvs: without_group
            .flat_map(|report| rows(report, "pv").map(|row| pv(row, &twins)))
            .collect(),
        archive_fault: text
            .lines()
            .find_map(|line| line.strip_prefix(NO_ARCHIVE))
            .map(String::from),
    })
}

fn documents(text: &str) -> serde_json::Result<Vec<Value>> {
    serde_json::Deserializer::from_str(text)
        .into_iter()
        .collect()
}

/// The devices that LVM does not use, by the UUID of their PV.
fn twins(text: &str) -> HashMap<&str, &str> {
    let mut twins = HashMap::new();
    for line in text.lines() {
        let found = line.trim().strip_prefix(NOT_USED);
        if let Some((device, uuid)) = found.and_then(|found| found.split_once(" for PV ")) {
            twins.insert(uuid.trim_end_matches('.'), device);
        }
    }
    twins
}

/// What metadata profiles say about autoextend, by their names.
fn profiles(text: &str) -> HashMap<&str, Autoextend> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(PROFILE));
    let profiles = lines.filter_map(|line| {
        let (name, values) = line.rsplit_once(": ")?;
        let (threshold, percent) = values.split_once(' ')?;
        let values = Autoextend {
            threshold: threshold.parse().ok()?,
            percent: percent.parse().ok()?,
        };
        Some((name, values))
    });
    profiles.collect()
}

fn group(
    report: &Value,
    twins: &HashMap<&str, &str>,
    profiles: &HashMap<&str, Autoextend>,
) -> Option<ReportedGroup> {
    let vg = rows(report, "vg").next()?;
    let mut segments = segments(report);
    // A volume's own profile comes before its group's.
    let profile_of = |row: &Map<String, Value>| {
        let name = text(row, "lv_profile").or_else(|| text(vg, "vg_profile"))?;
        profiles.get(&*name).copied()
    };
    Some(ReportedGroup {
        name: text(vg, "vg_name")?,
        uuid: text(vg, "vg_uuid").unwrap_or_default(),
        attributes: text(vg, "vg_attr").unwrap_or_default(),
        size: number(vg, "vg_size"),
        free: number(vg, "vg_free"),
        extent: number(vg, "vg_extent_size").filter(|bytes| *bytes > 0),
        missing_pvs: number(vg, "vg_missing_pv_count").unwrap_or_default(),
        max_pvs: number(vg, "max_pv").unwrap_or_default(),
        max_volumes: number(vg, "max_lv").unwrap_or_default(),
        volume_count: number(vg, "lv_count").unwrap_or_default(),
        tags: list(vg, "vg_tags"),
        system_id: text(vg, "vg_systemid"),
        pvs: rows(report, "pv").map(|row| pv(row, twins)).collect(),
        volumes: rows(report, "lv")
            .filter_map(|row| volume(row, &mut segments, profile_of(row)))
            .collect(),
    })
}

fn pv(row: &Map<String, Value>, twins: &HashMap<&str, &str>) -> Pv {
    let number_of = number(row, "pv_major").zip(number(row, "pv_minor"));
    let uuid = text(row, "pv_uuid").unwrap_or_default();
    Pv {
        name: text(row, "pv_name").unwrap_or_default(),
        number: number_of.map(|(major, minor)| Number { major, minor }),
        size: number(row, "pv_size"),
        free: number(row, "pv_free"),
        twin: twins.get(&*uuid).map(|device| (*device).into()),
        // Reports of earlier versions lack it.
        is_allocatable: number(row, "pv_allocatable") != Some(0)
            && row.get("pv_allocatable") != Some(&"".into()),
        is_missing: number(row, "pv_missing") == Some(1)
            || text(row, "pv_name").as_deref() == Some(MISSING),
    }
}

fn volume(
    row: &Map<String, Value>,
    segments: &mut HashMap<String, Vec<Segment>>,
    profile: Option<Autoextend>,
) -> Option<ReportedVolume> {
    let uuid = text(row, "lv_uuid")?;
    let size: Option<u64> = number(row, "lv_size");
    // For caches and merging origins, the percentage refers to something else.
    let fills_its_size =
        text(row, "lv_attr").is_some_and(|letters| letters.starts_with(['s', 't', 'V', 'd']));
    let created_at =
        number::<i64>(row, "lv_time").and_then(|seconds| Timestamp::from_second(seconds).ok());
    Some(ReportedVolume {
        name: bare(text(row, "lv_name")?),
        attributes: text(row, "lv_attr").unwrap_or_default(),
        size,
        origin: text(row, "origin").map(bare),
        pool: text(row, "pool_lv").map(bare),
        created_at,
        health: text(row, "lv_health_status"),
        data: percent(row, "data_percent", size.filter(|_| fills_its_size)),
        metadata: percent(row, "metadata_percent", None),
        sync: percent(row, "copy_percent", size),
        tags: list(row, "lv_tags"),
        when_full: text(row, "lv_when_full"),
        parent: text(row, "lv_parent").map(bare),
        segments: segments.remove(&uuid).unwrap_or_default(),
        profile,
        uuid,
    })
}

/// Segments by the UUID of their volume, in order of their first extent.
fn segments(report: &Value) -> HashMap<String, Vec<Segment>> {
    let mut segments: HashMap<String, Vec<Segment>> = HashMap::new();
    for row in rows(report, "seg") {
        let Some((uuid, kind)) = text(row, "lv_uuid").zip(text(row, "segtype")) else {
            continue;
        };
        let known = |key: &str| number(row, key).filter(|bytes: &u64| *bytes > 0);
        segments.entry(uuid).or_default().push(Segment {
            kind,
            start: number(row, "seg_start_pe").unwrap_or_default(),
            extents: number(row, "seg_size_pe").unwrap_or_default(),
            stripes: number(row, "stripes").filter(|stripes| *stripes > 0),
            stripe_size: known("stripe_size"),
            chunk_size: known("chunk_size"),
            pv_extents: pv_extents(row),
            monitored: text(row, "seg_monitor").map(|found| found == "monitored"),
        });
    }
    segments
        .values_mut()
        .for_each(|segments| segments.sort_by_key(|segment| segment.start));
    segments
}

/// Extents per PV from `/dev/sda:16-23 /dev/sdb:0-7`; ranges on other volumes are skipped.
fn pv_extents(row: &Map<String, Value>) -> Vec<(String, u64)> {
    let mut on: BTreeMap<String, u64> = BTreeMap::new();
    let ranges = list(row, "seg_pe_ranges");
    for range in ranges
        .iter()
        .flat_map(|ranges| ranges.split_ascii_whitespace())
    {
        let Some((name, extents)) = range.rsplit_once(':') else {
            continue;
        };
        let Some((first, last)) = extents.split_once('-') else {
            continue;
        };
        let (Ok(first), Ok(last)) = (first.parse::<u64>(), last.parse::<u64>()) else {
            continue;
        };
        if name.starts_with('/') || name == MISSING {
            let extents = last.saturating_sub(first).saturating_add(1);
            let sum: &mut u64 = on.entry(name.to_string()).or_default();
            *sum = sum.saturating_add(extents);
        }
    }
    on.into_iter().collect()
}

/// Removes the brackets that some reporting settings put around hidden volumes.
fn bare(name: String) -> String {
    name.trim_matches(['[', ']']).to_string()
}

fn rows<'a>(report: &'a Value, name: &str) -> impl Iterator<Item = &'a Map<String, Value>> {
    report
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
}

/// The value as text; `None` if missing, `null` or empty.
fn text(row: &Map<String, Value>, key: &str) -> Option<String> {
    match row.get(key)? {
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn number<T: std::str::FromStr>(row: &Map<String, Value>, key: &str) -> Option<T> {
    text(row, key)?.trim_end_matches('B').parse().ok()
}

/// Members of a list: one string with commas in `json`, a list in `json_std`.
fn list(row: &Map<String, Value>, key: &str) -> Vec<String> {
    match row.get(key) {
        Some(Value::Array(members)) => members
            .iter()
            .filter_map(|word| Some(word.as_str()?.to_string()))
            .collect(),
        Some(Value::String(words)) => words
            .split(',')
            .filter(|word| !word.is_empty())
            .map(String::from)
            .collect(),
        _ => Vec::new(),
    }
}

/// A percentage with two decimals, as a fill in ten-thousandths of `size`.
fn percent(row: &Map<String, Value>, key: &str, size: Option<u64>) -> Option<Fill> {
    let percent: f64 = number(row, key).filter(|percent| (0.0..=100.0).contains(percent))?;
    Some(Fill {
        used: (percent * 100.0).round() as u64,
        total: 10_000,
        unit: size.unwrap_or_default() / 10_000,
    })
}
