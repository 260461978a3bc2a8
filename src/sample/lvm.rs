//! LVM's own report: volume groups, their PVs, and their volumes, the inactive ones included.
//!
//! The JSON is that of `lvm fullreport`. Values are texts in `json` and numbers or `null` in `json_std`: both are read.
//! What is missing or empty is not known; only a report that is no report is an error.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::diskstats::Number;
use crate::units::Fill;

/// What LVM calls a PV that it does not find.
const MISSING: &str = "[unknown]";

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
    pub tags: Vec<String>,
    pub pvs: Vec<Pv>,
    /// All of them, those that LVM hides too.
    pub volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pv {
    pub name: String,
    pub number: Option<Number>,
    pub size: Option<u64>,
    pub free: Option<u64>,
    pub is_missing: bool,
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
    /// `data_percent`, to the hundredth.
    pub data: Option<Fill>,
    /// `metadata_percent`, to the hundredth.
    pub metadata: Option<Fill>,
    /// `copy_percent`: how much of a mirror or RAID is in step, to the hundredth.
    pub sync: Option<Fill>,
    pub tags: Vec<String>,
    /// What a pool does when it is full: `queue` or `error`.
    pub when_full: Option<String>,
    /// The bare name of the volume that this is a hidden part of.
    pub parent: Option<String>,
    /// In their order.
    pub segments: Vec<Segment>,
}

/// A part of a volume that is laid out in one way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// LVM's word, such as `linear`, `striped` or `thin-pool`.
    pub kind: String,
    /// Its first extent within the volume, and how many it has.
    pub start: u64,
    pub extents: u64,
    pub stripes: Option<u32>,
    /// In bytes.
    pub stripe_size: Option<u64>,
    /// In bytes: of a snapshot, thin pool or cache.
    pub chunk_size: Option<u64>,
    /// The names of the PVs that it lies on directly, each with its extents there.
    pub on: Vec<(String, u64)>,
}

/// What LVM does by itself before a volume is full, by `lvmconfig`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// Whether volumes are handed to dmeventd when they are activated.
    pub monitoring: bool,
    /// Whether dmeventd runs.
    pub dmeventd: bool,
    pub snapshot: Growth,
    pub pool: Growth,
}

/// At how many percent something is made larger, and by how many percent of its size; at 100 never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    pub threshold: u32,
    pub percent: u32,
}

impl Default for Growth {
    fn default() -> Self {
        Self { threshold: 100, percent: 20 }
    }
}

impl Report {
    pub fn tells_free_space(&self) -> bool {
        self.groups.iter().any(|group| group.free.is_some() || group.pvs.iter().any(|pv| pv.free.is_some()))
    }

    /// The same, with nothing said of free space.
    pub fn without_free_space(&self) -> Self {
        let mut report = self.clone();
        for group in &mut report.groups {
            group.free = None;
            group.pvs.iter_mut().for_each(|pv| pv.free = None);
        }
        report
    }
}

impl Volume {
    /// Whether the kernel has no device for it, by the fifth letter of `lv_attr`.
    pub fn is_inactive(&self) -> bool {
        self.attributes.as_bytes().get(4) == Some(&b'-')
    }

    /// The type of its first segment, such as `linear` or `thin-pool`.
    pub fn segment_type(&self) -> Option<&str> {
        self.segments.first().map(|segment| segment.kind.as_str())
    }

    /// The n-th letter of `lv_attr`, from 1 on, as `lvs(8)` counts them.
    pub fn letter(&self, place: usize) -> Option<char> {
        self.attributes.chars().nth(place.checked_sub(1)?)
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
    let mut segments = segments(report);
    Some(Group {
        name: text(vg, "vg_name")?,
        uuid: text(vg, "vg_uuid").unwrap_or_default(),
        size: number(vg, "vg_size"),
        free: number(vg, "vg_free"),
        extent: number(vg, "vg_extent_size").filter(|bytes| *bytes > 0),
        missing_pvs: number(vg, "vg_missing_pv_count").unwrap_or_default(),
        tags: list(vg, "vg_tags"),
        pvs: rows(report, "pv").map(pv).collect(),
        volumes: rows(report, "lv").filter_map(|row| volume(row, &mut segments)).collect(),
    })
}

fn pv(row: &Map<String, Value>) -> Pv {
    let number_of = number(row, "pv_major").zip(number(row, "pv_minor"));
    Pv {
        name: text(row, "pv_name").unwrap_or_default(),
        number: number_of.map(|(major, minor)| Number { major, minor }),
        size: number(row, "pv_size"),
        free: number(row, "pv_free"),
        is_missing: number(row, "pv_missing") == Some(1) || text(row, "pv_name").as_deref() == Some(MISSING),
    }
}

fn volume(row: &Map<String, Value>, segments: &mut HashMap<String, Vec<Segment>>) -> Option<Volume> {
    let uuid = text(row, "lv_uuid")?;
    let size: Option<u64> = number(row, "lv_size");
    // Of a cache, or of an origin that is merged into, it is a percentage of something else.
    let fills_its_size =
        text(row, "lv_attr").is_some_and(|letters| letters.starts_with(['s', 't', 'V', 'd']));
    let created_at = number::<i64>(row, "lv_time").and_then(|seconds| Timestamp::from_second(seconds).ok());
    Some(Volume {
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
        uuid,
    })
}

/// Segments by the UUID of their volume, each volume's in their order.
fn segments(report: &Value) -> HashMap<String, Vec<Segment>> {
    let mut segments: HashMap<String, Vec<Segment>> = HashMap::new();
    for row in rows(report, "seg") {
        let Some((uuid, kind)) = text(row, "lv_uuid").zip(text(row, "segtype")) else { continue };
        let known = |key: &str| number(row, key).filter(|bytes: &u64| *bytes > 0);
        segments.entry(uuid).or_default().push(Segment {
            kind,
            start: number(row, "seg_start_pe").unwrap_or_default(),
            extents: number(row, "seg_size_pe").unwrap_or_default(),
            stripes: number(row, "stripes").filter(|stripes| *stripes > 0),
            stripe_size: known("stripe_size"),
            chunk_size: known("chunk_size"),
            on: ranges(row),
        });
    }
    segments.values_mut().for_each(|segments| segments.sort_by_key(|segment| segment.start));
    segments
}

/// `/dev/sda:16-23 /dev/sdb:0-7`, of which every range counts for its PV; those of volumes below are left out.
fn ranges(row: &Map<String, Value>) -> Vec<(String, u64)> {
    let mut on: BTreeMap<String, u64> = BTreeMap::new();
    let ranges = list(row, "seg_pe_ranges");
    for range in ranges.iter().flat_map(|ranges| ranges.split_ascii_whitespace()) {
        let Some((name, extents)) = range.rsplit_once(':') else { continue };
        let Some((first, last)) = extents.split_once('-') else { continue };
        let (Ok(first), Ok(last)) = (first.parse::<u64>(), last.parse::<u64>()) else { continue };
        if name.starts_with('/') || name == MISSING {
            let extents = last.saturating_sub(first).saturating_add(1);
            let sum: &mut u64 = on.entry(name.to_string()).or_default();
            *sum = sum.saturating_add(extents);
        }
    }
    on.into_iter().collect()
}

/// Understands what `lvmconfig` prints, `name=value` a line, with a line that says whether dmeventd runs.
pub fn parse_policies(text: &str) -> Result<Policies, String> {
    let values: HashMap<&str, &str> = text.lines().filter_map(|line| line.trim().split_once('=')).collect();
    let number = |key: &str| {
        let value =
            values.get(key).ok_or_else(|| format!("expected a line `{key}=…`, but found {text:?}"))?;
        value.parse::<u32>().map_err(|_| format!("expected a number in `{key}={value}`"))
    };
    let growth = |what: &str| {
        Ok::<_, String>(Growth {
            threshold: number(&format!("{what}_autoextend_threshold"))?,
            percent: number(&format!("{what}_autoextend_percent"))?,
        })
    };
    Ok(Policies {
        monitoring: number("monitoring")? != 0,
        dmeventd: values.get("dmeventd") == Some(&"running"),
        snapshot: growth("snapshot")?,
        pool: growth("thin_pool")?,
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

/// Members of a list, which is one text with commas in `json` and a list in `json_std`.
fn list(row: &Map<String, Value>, key: &str) -> Vec<String> {
    match row.get(key) {
        Some(Value::Array(members)) => {
            members.iter().filter_map(|word| Some(word.as_str()?.to_string())).collect()
        }
        Some(Value::String(words)) => {
            words.split(',').filter(|word| !word.is_empty()).map(String::from).collect()
        }
        _ => Vec::new(),
    }
}

/// A percentage with two decimals, as a fill in hundredths of `size`.
fn percent(row: &Map<String, Value>, key: &str, size: Option<u64>) -> Option<Fill> {
    let percent: f64 = number(row, key).filter(|percent| (0.0..=100.0).contains(percent))?;
    Some(Fill {
        used: (percent * 100.0).round() as u64,
        total: 10_000,
        unit: size.unwrap_or_default() / 10_000,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn a_layout_is_as_lvs_segments_has_it() {
        let report = parse(
            r#"{"report":[{"vg":[{"vg_name":"vg0","vg_tags":["a","b"]}],
            "pv":[{"pv_name":"/dev/sda"},{"pv_name":"[unknown]","pv_missing":"1"}],
            "lv":[{"lv_name":"data","lv_uuid":"D","lv_tags":"nightly,db","data_percent":"31.38","lv_size":"1000000"}],
            "seg":[{"lv_uuid":"D","segtype":"linear","seg_start_pe":"16","seg_size_pe":"4","stripes":"1","stripe_size":"0"},
                   {"lv_uuid":"D","segtype":"striped","seg_start_pe":"0","seg_size_pe":"16","stripes":"2",
                    "stripe_size":"65536","seg_pe_ranges":"/dev/sda:16-23 [unknown]:0-7 data_rimage_0:0-7 rubbish"}]}]}"#,
        )
        .unwrap();
        let group = &report.groups[0];
        assert_eq!((group.tags.len(), group.pvs[0].is_missing, group.pvs[1].is_missing), (2, false, true));
        let volume = &group.volumes[0];
        assert_eq!(volume.tags, ["nightly", "db"]);
        assert_eq!(volume.data.map(|fill| fill.percent()), Some(31.38));
        assert_eq!(volume.segment_type(), Some("striped"));
        assert_eq!(
            volume.segments[0],
            Segment {
                kind: "striped".into(),
                extents: 16,
                stripes: Some(2),
                stripe_size: Some(65_536),
                on: vec![("/dev/sda".into(), 8), ("[unknown]".into(), 8)],
                ..Segment::default()
            }
        );
    }

    #[test]
    fn policies_are_those_of_lvmconfig() {
        let text = "monitoring=1\nsnapshot_autoextend_threshold=70\nsnapshot_autoextend_percent=20\n\
            thin_pool_autoextend_threshold=100\nthin_pool_autoextend_percent=20\n\ndmeventd=running\n";
        let policies = parse_policies(text).unwrap();
        assert_eq!(policies.snapshot, Growth { threshold: 70, percent: 20 });
        assert_eq!((policies.pool, policies.monitoring, policies.dmeventd), (Growth::default(), true, true));
        assert!(parse_policies("monitoring=1").unwrap_err().contains("snapshot_autoextend_threshold"));
        assert!(parse_policies(&text.replace("=70", "=x")).unwrap_err().contains("expected a number"));
    }

    /// Names that a report has, and some that it has not.
    const NAMES: &str = "report log vg pv lv seg vg_name vg_size vg_free vg_missing_pv_count vg_tags pv_name pv_major \
        pv_minor pv_missing lv_name lv_uuid lv_attr lv_size lv_time lv_tags lv_parent data_percent metadata_percent \
        copy_percent segtype seg_pe_ranges seg_start_pe seg_size_pe stripes stripe_size chunk_size colour";

    fn name() -> impl Strategy<Value = String> {
        prop::sample::select(NAMES.split(' ').map(String::from).collect::<Vec<_>>())
    }

    /// A value that a report may have, and some that it may not.
    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,6}".prop_map(Value::from),
            "-?[0-9]{1,24}(\\.[0-9]{1,3})?B?|NaN|inf".prop_map(Value::from),
            "(/dev/sd[a-z]|\\[unknown\\]):[0-9]{0,21}-[0-9]{0,21}".prop_map(Value::from),
        ]
    }

    /// JSON of any shape.
    fn json() -> impl Strategy<Value = Value> {
        value().prop_recursive(4, 30, 5, |inner| {
            let members = prop::collection::vec((name(), inner.clone()), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..5).prop_map(Value::from),
                members.prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    /// A report by its frame, with rows of any values.
    fn report() -> impl Strategy<Value = String> {
        let row = || prop::collection::vec((name(), value()), 0..12);
        let rows = || prop::collection::vec(row().prop_map(|row| row.into_iter().collect::<Value>()), 0..3);
        (rows(), rows(), rows(), rows()).prop_map(|(vg, pv, lv, seg)| {
            serde_json::json!({"report": [{"vg": vg, "pv": pv, "lv": lv, "seg": seg}]}).to_string()
        })
    }

    proptest! {
        #[test]
        fn no_json_stops_the_program(json in json()) {
            let _ = parse(&json.to_string());
        }

        #[test]
        fn no_report_stops_the_program(report in report()) {
            assert!(parse(&report).is_ok());
        }

        #[test]
        fn a_report_that_breaks_off_is_an_error(report in report(), percent in 0..100_usize) {
            let mut end = report.len() * percent / 100;
            while !report.is_char_boundary(end) {
                end -= 1;
            }
            assert!(parse(&report[..end]).is_err());
        }

        #[test]
        fn no_extents_stop_the_program(extents in "(/dev/sda:(0|[0-9]{1,9}|18446744073709551615|99999999999999999999)-(0|[0-9]{1,9}|18446744073709551615|99999999999999999999) ){0,6}") {
            let row = serde_json::json!({"lv_uuid": "D", "segtype": "linear", "seg_pe_ranges": extents});
            let lv = serde_json::json!({"lv_name": "data", "lv_uuid": "D"});
            let report = serde_json::json!({"report": [{"vg": [{"vg_name": "vg0"}], "lv": [lv], "seg": [row]}]});
            assert_eq!(parse(&report.to_string()).unwrap().groups[0].volumes[0].segments.len(), 1);
        }

        #[test]
        fn no_policies_stop_the_program(text in "(\\PC|\n)*") {
            let _ = parse_policies(&text);
        }

        #[test]
        fn no_text_stops_the_program(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
