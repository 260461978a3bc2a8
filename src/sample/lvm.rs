//! LVM's own report: volume groups, their PVs, and their volumes, the inactive ones included.
//!
//! The JSON is that of `lvm fullreport`. Values are texts in `json` and numbers or `null` in `json_std`: both are read.
//! What is missing or empty is not known; only a report that is no report is an error.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::diskstats::Number;

/// Everything that LVM knows of this host and cowbell asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub groups: Vec<Group>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    pub name: String,
    pub uuid: String,
    pub size: Option<u64>,
    pub free: Option<u64>,
    pub extent: Option<u64>,
    pub missing_pvs: u32,
    pub pvs: Vec<Pv>,
    pub volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pv {
    pub name: String,
    pub number: Option<Number>,
    pub size: Option<u64>,
    pub free: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    pub name: String,
    /// As `lvs` writes it, with dashes.
    pub uuid: String,
    /// `lv_attr`, such as `swi-I-s---`.
    pub attributes: String,
    pub size: Option<u64>,
    pub origin: Option<String>,
    pub pool: Option<String>,
    pub created_at: Option<Timestamp>,
    pub health: Option<String>,
    /// The type of its first segment, such as `linear` or `thin-pool`.
    pub segment_type: Option<String>,
}

impl Volume {
    /// Whether the kernel has no device for it, by the fifth letter of `lv_attr`.
    pub fn is_inactive(&self) -> bool {
        self.attributes.as_bytes().get(4) == Some(&b'-')
    }
}

/// Understands the output of `lvm fullreport`, or says what about it is wrong.
pub fn parse(text: &str) -> Result<Report, String> {
    let json: Value = serde_json::from_str(text).map_err(|error| {
        let start: String = text.chars().take(60).collect();
        format!("cannot understand LVM's report: {error}; it begins with {start:?}")
    })?;
    let reports = json.get("report").and_then(Value::as_array);
    let reports = reports.ok_or("cannot understand LVM's report: expected a list named `report`")?;
    // PVs without a group come in a report without one.
    Ok(Report { groups: reports.iter().filter_map(group).collect() })
}

fn group(report: &Value) -> Option<Group> {
    let vg = rows(report, "vg").next()?;
    let segments: Vec<_> = rows(report, "seg").collect();
    Some(Group {
        name: text(vg, "vg_name")?,
        uuid: text(vg, "vg_uuid").unwrap_or_default(),
        size: number(vg, "vg_size"),
        free: number(vg, "vg_free"),
        extent: number(vg, "vg_extent_size"),
        missing_pvs: number(vg, "vg_missing_pv_count").unwrap_or_default(),
        pvs: rows(report, "pv").map(pv).collect(),
        volumes: rows(report, "lv").filter_map(|row| volume(row, &segments)).collect(),
    })
}

fn pv(row: &Map<String, Value>) -> Pv {
    let number_of = number(row, "pv_major").zip(number(row, "pv_minor"));
    Pv {
        name: text(row, "pv_name").unwrap_or_default(),
        number: number_of.map(|(major, minor)| Number { major, minor }),
        size: number(row, "pv_size"),
        free: number(row, "pv_free"),
    }
}

fn volume(row: &Map<String, Value>, segments: &[&Map<String, Value>]) -> Option<Volume> {
    let uuid = text(row, "lv_uuid")?;
    let segment = segments.iter().find(|segment| text(segment, "lv_uuid").as_ref() == Some(&uuid));
    let created_at = number::<i64>(row, "lv_time").and_then(|seconds| Timestamp::from_second(seconds).ok());
    Some(Volume {
        name: bare(text(row, "lv_name")?),
        attributes: text(row, "lv_attr").unwrap_or_default(),
        size: number(row, "lv_size"),
        origin: text(row, "origin").map(bare),
        pool: text(row, "pool_lv").map(bare),
        created_at,
        health: text(row, "lv_health_status"),
        segment_type: segment.and_then(|segment| text(segment, "segtype")),
        uuid,
    })
}

/// Names of hidden volumes come in brackets where the administrator's settings say so.
fn bare(name: String) -> String {
    name.trim_matches(['[', ']']).to_string()
}

fn rows<'a>(report: &'a Value, name: &str) -> impl Iterator<Item = &'a Map<String, Value>> {
    report.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

/// The value as text; `None` where it is missing, `null` or empty.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_numbers_are_read_alike() {
        for (size, free) in [("\"1048576\"", "\"0\""), ("1048576", "0"), ("\"1048576B\"", "\"0B\"")] {
            let report = parse(&format!(
                r#"{{"report":[{{"vg":[{{"vg_name":"vg0","vg_size":{size},"vg_free":{free},"vg_extent_size":null}}],
                "lv":[{{"lv_name":"[hidden]","lv_uuid":"a-b","origin":"","lv_attr":"-wi-------","lv_time":"1700000000"}}]}}],
                "log":[{{"log_seq_num":"1"}}]}}"#
            ))
            .unwrap();
            let group = &report.groups[0];
            assert_eq!((group.size, group.free, group.extent), (Some(1_048_576), Some(0), None));
            let volume = &group.volumes[0];
            assert_eq!((volume.name.as_str(), volume.origin.as_deref()), ("hidden", None));
            assert!(volume.is_inactive() && volume.created_at.is_some());
        }
    }

    #[test]
    fn what_is_no_report_is_said_in_a_sentence() {
        let check = |text: &str, expected: &str| {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("", "cannot understand LVM's report");
        check("  WARNING: foo", "begins with \"  WARNING: foo\"");
        check("{\"report\": 5}", "expected a list named `report`");
        check("{\"report\": [{\"vg\":", "cannot understand LVM's report");
    }

    #[test]
    fn a_host_without_groups_has_an_empty_report() {
        assert_eq!(parse(r#"{"report":[]}"#).unwrap(), Report::default());
        assert_eq!(
            parse(r#"{"report":[{"vg":[],"pv":[{"pv_name":"/dev/sdb"}]}]}"#).unwrap(),
            Report::default()
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_stops_the_program(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
