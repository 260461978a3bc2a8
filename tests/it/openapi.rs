//! The description of the API is true: what is answered is what it says. Routes and description are one table.

use std::time::Duration;

use serde_json::{Value, json};

use crate::daemon::{Daemon, Start};
use crate::hostile::HOST;
use crate::http::{self, Live};
use crate::tape::{Snapshot, Tape};

fn playing() -> (Tape, Daemon) {
    let course = [
        Snapshot::Absent,
        Snapshot::Filled(50.0),
        Snapshot::Filled(75.0),
        Snapshot::Invalid,
    ];
    let tape = Tape::of(Duration::from_secs(1), &course);
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(4);
    (tape, daemon)
}

#[test]
fn every_operation_answers_with_a_status_that_is_described() {
    let (_tape, daemon) = playing();
    let document = daemon.json("/api/v1/openapi.json");
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 20, "{paths:?}");
    for (path, operations) in paths {
        let target = path
            .replace("{id}", "1")
            .replace("{key}", "nightly")
            .replace("{vg}", "vg0")
            .replace("{lv}", "data");
        for (method, operation) in operations.as_object().unwrap() {
            let is_public = path == "/healthz";
            assert_eq!(
                operation.get("security").is_none(),
                is_public,
                "{method} {path}"
            );
            // It never ends.
            if path == "/api/v1/live" {
                continue;
            }
            let answer = http::change(daemon.port, &method.to_uppercase(), &target, &[HOST], "");
            let status = answer.status.to_string();
            assert!(
                operation["responses"].get(&status).is_some(),
                "{method} {target}: {answer:?}"
            );
        }
    }
    let scheme = &document["components"]["securitySchemes"]["token"];
    assert_eq!(scheme["scheme"], "bearer", "{scheme}");
}

#[test]
fn limits_of_lists_are_those_that_are_described() {
    let (_tape, daemon) = playing();
    let document = daemon.json("/api/v1/openapi.json");
    for (path, name) in [
        ("/api/v1/jobs", "limit"),
        ("/api/v1/alerts", "limit"),
        ("/api/v1/series", "points"),
    ] {
        let parameters = document["paths"][path]["get"]["parameters"].as_array();
        let parameter = parameters
            .unwrap()
            .iter()
            .find(|parameter| parameter["name"] == name)
            .unwrap();
        let schema = &parameter["schema"];
        let of = if name == "points" {
            "of=vm&metric=user&"
        } else {
            ""
        };
        let least = schema["minimum"].as_u64().unwrap();
        let most = schema["maximum"].as_u64().unwrap();
        for (number, status) in [(least - 1, 400), (least, 200), (most, 200), (most + 1, 400)] {
            let target = format!("{path}?{of}{name}={number}");
            assert_eq!(daemon.get(&target).status, status, "{target}");
        }
    }
}

#[test]
fn answers_are_as_described() {
    let (_tape, daemon) = playing();
    let document = daemon.json("/api/v1/openapi.json");
    for (route, target) in [
        ("/api/v1/status", "/api/v1/status"),
        ("/api/v1/devices", "/api/v1/devices"),
        ("/api/v1/volumes", "/api/v1/volumes"),
        ("/api/v1/vm", "/api/v1/vm"),
        ("/api/v1/jobs", "/api/v1/jobs"),
        ("/api/v1/jobs/{id}/figures", "/api/v1/jobs/1/figures"),
        ("/api/v1/alerts", "/api/v1/alerts"),
        (
            "/api/v1/series",
            "/api/v1/series?of=volume:vg0/data_snapshot&metric=fill_percent",
        ),
        ("/api/v1/series", "/api/v1/series?of=vm&metric=user"),
    ] {
        let answer = daemon.json(target);
        assert_ne!(answer, json!([]), "{target} has something to show");
        let content = &document["paths"][route]["get"]["responses"]["200"]["content"];
        conforms(
            &document,
            &content["application/json"]["schema"],
            &answer,
            target,
        );
    }
    let refused = daemon.get("/api/v1/series?of=vm&metric=bogus").json();
    let content = &document["paths"]["/api/v1/series"]["get"]["responses"]["400"]["content"];
    conforms(
        &document,
        &content["application/json"]["schema"],
        &refused,
        "a refusal",
    );
    let tick = Live::open(daemon.port).tick().unwrap();
    let content = &document["paths"]["/api/v1/live"]["get"]["responses"]["200"]["content"];
    conforms(
        &document,
        &content["text/event-stream"]["schema"],
        &tick,
        "a tick",
    );
}

/// The specification's own names: what is built on the API relies on them.
#[test]
fn answers_have_the_keys_that_were_promised() {
    let (_tape, daemon) = playing();
    for (target, keys) in [
        (
            "/api/v1/status",
            "version host started_at ticks parts process",
        ),
        (
            "/api/v1/devices",
            "device uuid label kind vg read_bytes_per_s written_bytes_per_s reads_per_s writes_per_s read_await_ms write_await_ms queue_depth utilisation",
        ),
        (
            "/api/v1/volumes",
            "vg lv uuid device kind origin pool size_bytes used_bytes fill_percent metadata_percent state pvs",
        ),
        (
            "/api/v1/vm",
            "bi_kib_per_s bo_kib_per_s user system iowait blocked pressure_io_some",
        ),
        (
            "/api/v1/jobs",
            "id kind name vg lv origin started_at ended_at outcome peak_fill_percent bytes_read",
        ),
        (
            "/api/v1/alerts",
            "id rule severity vg lv value raised_at cleared_at sentence",
        ),
        ("/api/v1/series?of=vm&metric=user", "t min avg max"),
    ] {
        let answer = daemon.json(target);
        let first = if answer.is_array() {
            &answer[0]
        } else {
            &answer
        };
        for key in keys.split(' ') {
            assert!(first.get(key).is_some(), "{target} has no `{key}`: {first}");
        }
    }
    let status = daemon.json("/api/v1/status");
    for (object, keys) in [
        (&status["ticks"], "taken missed interval_ms last_at took_us"),
        (&status["ticks"]["took_us"], "p50 p99"),
        (&status["parts"][0], "name ok error took_us last_ok_at"),
        (&status["process"], "cpu_seconds rss_bytes written_bytes"),
    ] {
        for key in keys.split(' ') {
            assert!(object.get(key).is_some(), "no `{key}` in {object}");
        }
    }
    for part in ["diskstats", "vmstat", "dm", "lvm", "store"] {
        daemon.part(part);
    }
    let volumes = daemon.json("/api/v1/volumes");
    let snapshot = &volumes[1];
    assert_eq!(
        (snapshot["vg"].as_str(), snapshot["lv"].as_str()),
        (Some("vg0"), Some("data_snapshot"))
    );
    assert_eq!(
        (snapshot["origin"].as_str(), snapshot["state"].as_str()),
        (Some("data"), Some("invalid"))
    );
    assert_eq!(
        snapshot["fill_percent"],
        Value::Null,
        "an invalid snapshot has no fill"
    );
}

/// An object with the properties of all these.
fn together(document: &Value, parts: &[Value]) -> Value {
    let (mut properties, mut required) = (serde_json::Map::new(), Vec::new());
    for part in parts {
        let reference = part["$ref"]
            .as_str()
            .map(|reference| reference.trim_start_matches('#'));
        let part = reference
            .and_then(|reference| document.pointer(reference))
            .unwrap_or(part);
        properties.extend(part["properties"].as_object().cloned().unwrap_or_default());
        required.extend(part["required"].as_array().cloned().unwrap_or_default());
    }
    serde_json::json!({"type": "object", "properties": properties, "required": required})
}

/// Whether `value` is what the schema says, as far as this program's schemas go.
fn conforms(document: &Value, schema: &Value, value: &Value, place: &str) {
    assert!(schema.is_object(), "{place} is not described");
    if let Some(reference) = schema["$ref"].as_str() {
        let described = document
            .pointer(reference.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("{reference}"));
        return conforms(document, described, value, place);
    }
    if let Some(parts) = schema["allOf"].as_array() {
        return conforms(document, &together(document, parts), value, place);
    }
    if let Some(choices) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        let fits = |choice: &Value| {
            let reference = choice["$ref"]
                .as_str()
                .map(|reference| reference.trim_start_matches('#'));
            has_type(
                reference
                    .and_then(|reference| document.pointer(reference))
                    .unwrap_or(choice),
                value,
            )
        };
        let choice = choices.iter().find(|choice| fits(choice));
        return conforms(
            document,
            choice.unwrap_or_else(|| panic!("{place}: {value} is none of {choices:?}")),
            value,
            place,
        );
    }
    assert!(
        has_type(schema, value),
        "{place}: {value} is not as described: {schema}"
    );
    if let Some(words) = schema["enum"].as_array() {
        assert!(
            words.contains(value),
            "{place}: {value} is none of {words:?}"
        );
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        conforms(
            document,
            &schema["items"],
            item,
            &format!("{place}[{index}]"),
        );
    }
    for key in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        assert!(
            value.get(key).is_some(),
            "{place}: `{key}` is missing in {value}"
        );
    }
    for (key, found) in value.as_object().into_iter().flatten() {
        conforms(
            document,
            &schema["properties"][key],
            found,
            &format!("{place}.{key}"),
        );
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    match &schema["type"] {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}
