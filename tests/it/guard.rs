//! What the daemon shows of `cowbell guard`, whose state file is part of the machine.

use std::time::Duration;

use serde_json::{Value, json};

use crate::daemon::{Start, cowbell, said};
use crate::machine::Machine;
use crate::{wait_at_most, wait_for};

const STATE: &str = "run/cowbell-guard/state.json";

fn state(uptime_us: u64, error: Value) -> String {
    let volume = json!({
        "uuid": "U", "name": "vg0/data_snapshot", "part": "snapshot", "plan": "may_not", "is_enough": false,
        "text": "The guard may not extend it: `largest` is 40.0 MiB.", "size_bytes": 1, "used_bytes": 1,
        "bytes_per_s": null, "growth_bytes": null, "steps": 0, "added_bytes": 0, "largest_bytes": 1,
    });
    json!({"uptime_us": uptime_us, "mode": "on", "error": error, "volumes": [volume], "actions": []})
        .to_string()
}

#[test]
fn the_guards_state_is_shown_and_alerts_follow_from_it() {
    let machine = Machine::new();
    machine.write(STATE, &state(u64::MAX / 2, Value::Null));
    let daemon = Start::watching(&machine).start();
    let open = |expected: &str| {
        wait_at_most(Duration::from_secs(10), expected, || {
            let alerts = daemon.json("/api/v1/alerts");
            let mut all = alerts.as_array()?.iter();
            all.find(|alert| {
                let text = alert["sentence"].as_str().unwrap_or_default();
                alert["rule"] == "guard" && text.starts_with(expected)
            })?;
            Some(())
        });
    };
    open("vg0/data_snapshot: The guard may not extend it: `largest` is 40.0 MiB.");
    let listen = format!("127.0.0.1:{}", daemon.port);
    let printed = said(cowbell().args(["status", "--listen", &listen])).out;
    assert!(
        printed.contains("guard: vg0/data_snapshot: The guard may not extend it"),
        "{printed}"
    );
    machine.write(STATE, &state(0, json!("vg7 does not exist")));
    open("The guard does not run: vg7 does not exist.");
    // One that was killed leaves its last state.
    machine.write(STATE, &state(1, Value::Null));
    open("The guard has not written its state for");
    // A clean end leaves none.
    std::fs::remove_file(machine.root().join(STATE)).unwrap();
    wait_for("no guard", || {
        let status = daemon.json("/api/v1/status");
        status["guard"].is_null().then_some(())
    });
}
