//! LVM's own report: volume groups, PVs, and volumes including inactive ones; and LVM's policies.

mod report;
use std::collections::HashMap;

use jiff::Timestamp;

use super::diskstats::Number;
use crate::units::Fill;
pub use report::parse;

/// The parts of LVM's report that cowbell uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub groups: Vec<ReportedGroup>,
    /// PVs that belong to no group.
    pub free_pvs: Vec<Pv>,
    /// What is to be done so that LVM can archive metadata, which it does before each change. Without a full stop.
    pub archive_fault: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportedGroup {
    pub name: String,
    pub uuid: String,
    /// `vg_attr`, such as `wz--n-`.
    pub attributes: String,
    pub size: Option<u64>,
    pub free: Option<u64>,
    pub extent: Option<u64>,
    pub missing_pvs: u32,
    /// The most PVs that it may have; 0 is no limit.
    pub max_pvs: usize,
    /// The most volumes that it may have; 0 is no limit. Hidden ones do not count.
    pub max_volumes: u64,
    pub volume_count: u64,
    pub tags: Vec<String>,
    /// The host that it belongs to.
    pub system_id: Option<String>,
    pub pvs: Vec<Pv>,
    /// All volumes, including hidden ones.
    pub volumes: Vec<ReportedVolume>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pv {
    pub name: String,
    pub number: Option<Number>,
    pub size: Option<u64>,
    pub free: Option<u64>,
    /// Another device with the same PV, which LVM does not use.
    pub twin: Option<String>,
    pub is_missing: bool,
    /// Whether LVM may allocate from it.
    pub is_allocatable: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportedVolume {
    pub name: String,
    /// With dashes, as `lvs` prints it.
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
    /// `copy_percent` to the hundredth: a mirror or RAID in sync.
    pub sync: Option<Fill>,
    pub tags: Vec<String>,
    /// What a full pool does with writes: `queue` or `error`.
    pub when_full: Option<String>,
    /// For a hidden volume, the name of the volume that it is part of.
    pub parent: Option<String>,
    /// In order of their first extent.
    pub segments: Vec<Segment>,
    /// What its metadata profile, or its group's, says in place of `lvm.conf`. It counts for thin pools alone.
    pub profile: Option<Autoextend>,
}

/// A range of a volume with one layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// LVM's segment type, such as `linear`, `striped` or `thin-pool`.
    pub kind: String,
    /// Its first extent within the volume, and the number of extents.
    pub start: u64,
    pub extents: u64,
    pub stripes: Option<u32>,
    /// In bytes.
    pub stripe_size: Option<u64>,
    /// In bytes, for snapshots, thin pools and caches.
    pub chunk_size: Option<u64>,
    /// The PVs that it lies on directly, with the number of extents on each.
    pub pv_extents: Vec<(String, u64)>,
    /// Whether dmeventd monitors it; `None` if that was not asked or does not apply.
    pub monitored: Option<bool>,
}

impl Report {
    pub fn has_free_space(&self) -> bool {
        self.groups
            .iter()
            .any(|group| group.free.is_some() || group.pvs.iter().any(|pv| pv.free.is_some()))
    }

    /// A copy without free space.
    pub fn without_free_space(&self) -> Self {
        let mut report = self.clone();
        for group in &mut report.groups {
            group.free = None;
            group.pvs.iter_mut().for_each(|pv| pv.free = None);
        }
        report
    }
}

impl ReportedVolume {
    /// Whether the kernel has no device for it; from the fifth character of `lv_attr`.
    pub fn is_inactive(&self) -> bool {
        self.attributes.as_bytes().get(4) == Some(&b'-')
    }

    /// The type of its first segment, such as `linear` or `thin-pool`.
    pub fn segment_type(&self) -> Option<&str> {
        self.segments.first().map(|segment| segment.kind.as_str())
    }

    /// The n-th character of `lv_attr`, counted from 1 as in `lvs(8)`.
    pub fn letter(&self, place: usize) -> Option<char> {
        letter(&self.attributes, place)
    }
}

impl ReportedGroup {
    /// The n-th character of `vg_attr`, counted from 1 as in `vgs(8)`.
    pub fn letter(&self, place: usize) -> Option<char> {
        letter(&self.attributes, place)
    }
}

fn letter(attributes: &str, place: usize) -> Option<char> {
    attributes.chars().nth(place.checked_sub(1)?)
}

/// Autoextend policies of snapshots and thin pools, and whether dmeventd can apply them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// Whether LVM registers volumes with dmeventd when it activates them.
    pub monitoring: bool,
    /// Whether dmeventd runs.
    pub dmeventd: bool,
    /// Whether `lvm.conf` forbids all changes of metadata.
    pub metadata_is_read_only: bool,
    pub snapshot: Autoextend,
    /// Of pools without a metadata profile.
    pub pool: Autoextend,
}

impl Policies {
    /// Of a thin pool with this metadata profile.
    pub fn of_pool(&self, profile: Option<Autoextend>) -> Autoextend {
        profile.unwrap_or(self.pool)
    }
}

/// The usage in percent that triggers autoextend (100: never), and the growth in percent of the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Autoextend {
    pub threshold: u32,
    pub percent: u32,
}

impl Default for Autoextend {
    fn default() -> Self {
        Self {
            threshold: 100,
            percent: 20,
        }
    }
}

/// Parses the output of `lvmconfig`, `name=value` per line, with a line that says whether dmeventd runs.
pub fn parse_policies(text: &str) -> Result<Policies, String> {
    let values: HashMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.trim().split_once('='))
        .collect();
    let number = |key: &str| {
        let value = values
            .get(key)
            .ok_or_else(|| format!("expected a line `{key}=…`, but found {text:?}"))?;
        value
            .parse::<u32>()
            .map_err(|_| format!("expected a number in `{key}={value}`"))
    };
    let growth = |what: &str| {
        Ok::<_, String>(Autoextend {
            threshold: number(&format!("{what}_autoextend_threshold"))?,
            percent: number(&format!("{what}_autoextend_percent"))?,
        })
    };
    Ok(Policies {
        monitoring: number("monitoring")? != 0,
        metadata_is_read_only: values.get("metadata_read_only") == Some(&"1"),
        dmeventd: values.get("dmeventd") == Some(&"running"),
        snapshot: growth("snapshot")?,
        pool: growth("thin_pool")?,
    })
}

/// The host's own system ID, which may be empty; `None` if unknown.
pub fn system_id(policies: &str) -> Option<String> {
    let mut lines = policies.lines();
    let id = lines.find_map(|line| line.trim().strip_prefix("system ID:"))?;
    Some(id.trim().into())
}

#[cfg(test)]
mod tests {
    //! Reports as LVM writes them, and malformed ones.

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn strings_and_numbers_are_equivalent() {
        for (size, free) in [
            ("\"1048576\"", "\"0\""),
            ("1048576", "0"),
            ("\"1048576B\"", "\"0B\""),
        ] {
            let report = parse(&format!(
            r#"{{"report":[{{"vg":[{{"vg_name":"vg0","vg_size":{size},"vg_free":{free},"vg_extent_size":null}}],
            "lv":[{{"lv_name":"[hidden]","lv_uuid":"a-b","origin":"","lv_attr":"-wi-------","lv_time":"1700000000"}}]}}],
            "log":[{{"log_seq_num":"1"}}]}}"#
        ))
        .unwrap();
            let group = &report.groups[0];
            assert_eq!(
                (group.size, group.free, group.extent),
                (Some(1_048_576), Some(0), None)
            );
            let volume = &group.volumes[0];
            assert_eq!(
                (volume.name.as_str(), volume.origin.as_deref()),
                ("hidden", None)
            );
            assert!(volume.is_inactive() && volume.created_at.is_some());
        }
    }

    #[test]
    fn malformed_reports_are_rejected() {
        let check = |text: &str, expected: &str| {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("", "cannot parse LVM's report");
        check("  WARNING: foo", "begins with \"  WARNING: foo\"");
        check("{\"report\": 5}", "expected a list named `report`");
        check("{\"report\": [{\"vg\":", "cannot parse LVM's report");
    }

    #[test]
    fn hints_and_warnings_within_a_report_are_skipped() {
        // As LVM 2.03.16 printed it.
        let text = r#"  WARNING: Device for PV gmACKL-4oyp-3E0c-lW6p-oGEb-pP2N-XB9YPB not found or rejected by a filter.
  {
      "report": [
          {
  Consider pruning spam VG archive with more then 7 MiB in 8307 files (check archiving is needed in lvm.conf).
              "vg": [
                  {"vg_name":"spam", "vg_uuid":"mXoVPN"}
              ]
              ,
  2 of 3 devices are missing.
              "lv": [
                  {"lv_name":"data", "lv_uuid":"d8mwsK"},
WARNING: a hint without a prefix
                  {"lv_name":"data_snapshot", "lv_uuid":"ZYcXx2"}
              ]
          }
      ]
  }
  {"report": [{"vg": [{"vg_name":"vg0"}]}]}
  Consider pruning vg0 VG archive.
"#;
        let report = parse(text).unwrap();
        let names: Vec<&str> = (report.groups.iter().map(|group| group.name.as_str())).collect();
        assert_eq!(names, ["spam", "vg0"]);
        assert_eq!(report.groups[0].volumes.len(), 2);
        // A line of JSON is never skipped.
        assert!(parse(&text.replace("\"vg\": [", "\"vg\": {")).is_err());
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
    fn a_volumes_profile_comes_before_its_groups() {
        let text = r#"{"report":[{"vg":[{"vg_name":"vg0","vg_profile":"group"}],"lv":[
        {"lv_name":"one","lv_uuid":"1","lv_profile":""},
        {"lv_name":"two","lv_uuid":"2","lv_profile":"its own"},
        {"lv_name":"three","lv_uuid":"3","lv_profile":"gone"}]}]}
profile group: 70 20
profile its own: 50 30
"#;
        let report = parse(text).unwrap();
        let thresholds = report.groups[0].volumes.iter().map(|volume| {
            let profile = volume.profile?;
            Some((profile.threshold, profile.percent))
        });
        let thresholds: Vec<_> = thresholds.collect();
        assert_eq!(thresholds, [Some((70, 20)), Some((50, 30)), None]);
    }

    #[test]
    fn a_pv_that_is_there_twice_is_known_from_warnings() {
        let report = parse(
            r#"{"report":[{"vg":[{"vg_name":"vg0"}],
        "pv":[{"pv_name":"/dev/sda","pv_uuid":"24GnGk-X7Z4"},{"pv_name":"/dev/sdc","pv_uuid":"PiC2YL-NEHO"}]}]}
        WARNING: Not using device /dev/sdb for PV 24GnGk-X7Z4.
        WARNING: PV 24GnGk-X7Z4 prefers device /dev/sda because device is used by LV."#,
        );
        let pvs = &report.unwrap().groups[0].pvs;
        assert_eq!(pvs[0].twin.as_deref(), Some("/dev/sdb"));
        assert_eq!(pvs[1].twin, None);
    }

    #[test]
    fn segments_match_lvs_segments() {
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
        assert_eq!(
            (
                group.tags.len(),
                group.pvs[0].is_missing,
                group.pvs[1].is_missing
            ),
            (2, false, true)
        );
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
                pv_extents: vec![("/dev/sda".into(), 8), ("[unknown]".into(), 8)],
                ..Segment::default()
            }
        );
    }

    #[test]
    fn policies_match_lvmconfig() {
        let text = "monitoring=1\nsnapshot_autoextend_threshold=70\nsnapshot_autoextend_percent=20\n\
        thin_pool_autoextend_threshold=100\nthin_pool_autoextend_percent=20\n\ndmeventd=running\n";
        let policies = parse_policies(text).unwrap();
        assert_eq!(
            policies.snapshot,
            Autoextend {
                threshold: 70,
                percent: 20
            }
        );
        assert_eq!(
            (policies.pool, policies.monitoring, policies.dmeventd),
            (Autoextend::default(), true, true)
        );
        assert!(
            parse_policies("monitoring=1")
                .unwrap_err()
                .contains("snapshot_autoextend_threshold")
        );
        assert!(
            parse_policies(&text.replace("=70", "=x"))
                .unwrap_err()
                .contains("expected a number")
        );
    }

    /// Names that reports contain, and some that they do not.
    const NAMES: &str = "report log vg pv lv seg vg_name vg_size vg_free vg_missing_pv_count vg_tags pv_name pv_major \
    pv_minor pv_missing lv_name lv_uuid lv_attr lv_size lv_time lv_tags lv_parent data_percent metadata_percent \
    copy_percent segtype seg_pe_ranges seg_start_pe seg_size_pe stripes stripe_size chunk_size colour";

    fn name() -> impl Strategy<Value = String> {
        prop::sample::select(NAMES.split(' ').map(String::from).collect::<Vec<_>>())
    }

    /// Values that reports contain, and some that they do not.
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

    /// A well-formed report whose rows have arbitrary values.
    fn report() -> impl Strategy<Value = String> {
        let row = || prop::collection::vec((name(), value()), 0..12);
        let rows = || {
            prop::collection::vec(
                row().prop_map(|row| row.into_iter().collect::<Value>()),
                0..3,
            )
        };
        (rows(), rows(), rows(), rows()).prop_map(|(vg, pv, lv, seg)| {
            serde_json::json!({"report": [{"vg": vg, "pv": pv, "lv": lv, "seg": seg}]}).to_string()
        })
    }

    proptest! {
        #[test]
        fn any_json_parses_without_panic(json in json()) {
            let _ = parse(&json.to_string());
        }

        #[test]
        fn any_report_parses_without_panic(report in report()) {
            assert!(parse(&report).is_ok());
        }

        #[test]
        fn a_truncated_report_is_an_error(report in report(), percent in 0..100_usize) {
            let mut end = report.len() * percent / 100;
            while !report.is_char_boundary(end) {
                end -= 1;
            }
            assert!(parse(&report[..end]).is_err());
        }

        #[test]
        fn any_extents_parse_without_panic(extents in "(/dev/sda:(0|[0-9]{1,9}|18446744073709551615|99999999999999999999)-(0|[0-9]{1,9}|18446744073709551615|99999999999999999999) ){0,6}") {
            let row = serde_json::json!({"lv_uuid": "D", "segtype": "linear", "seg_pe_ranges": extents});
            let lv = serde_json::json!({"lv_name": "data", "lv_uuid": "D"});
            let report = serde_json::json!({"report": [{"vg": [{"vg_name": "vg0"}], "lv": [lv], "seg": [row]}]});
            assert_eq!(parse(&report.to_string()).unwrap().groups[0].volumes[0].segments.len(), 1);
        }

        #[test]
        fn any_policies_parse_without_panic(text in "(\\PC|\n)*") {
            let _ = parse_policies(&text);
        }

        #[test]
        fn any_text_parses_without_panic(text in "\\PC*") {
            let _ = parse(&text);
        }
    }

    #[test]
    fn the_hosts_system_id_follows_the_policies() {
        for (text, expected) in [
            ("monitoring=1\n", None),
            ("monitoring=1\n\ndmeventd=absent\n  system ID: \n", Some("")),
            ("dmeventd=absent\n  system ID: here\n", Some("here")),
        ] {
            assert_eq!(system_id(text).as_deref(), expected, "{text:?}");
        }
    }
}
