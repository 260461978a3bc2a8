//! Tests of the whole program: as a process, over a movable root or a recording, asked over HTTP like anybody asks.
//!
//! One binary holds them all. The first block are the tools, the second the tests, one file per theme.

mod captured;
mod completed;
mod counted;
mod cow;
mod daemon;
mod host;
mod http;
mod machine;
mod observer;
mod tape;
mod ticks;

mod access;
mod alerts;
mod any_bytes;
mod archives;
mod backups;
mod bad_days;
mod claims;
mod clock;
mod commands;
mod comparing;
mod copying;
mod credentials;
mod damage;
mod db;
mod demo;
mod export;
mod fixtures;
mod forecast;
mod gaps;
mod groups;
mod guard;
mod hooks;
mod hostile;
mod hour;
mod importing;
mod jobs;
mod kills;
mod long_files;
mod lvm;
mod makers;
mod metrics;
mod migrations;
mod misuse;
mod names;
mod notify;
mod openapi;
mod order;
mod outcomes;
mod outlook;
mod phases;
mod printing;
mod reader;
mod receivers;
mod recordings;
mod remote_write;
mod reports;
mod rules;
mod run;
mod scale;
mod service;
mod shipped;
mod sizing;
mod status;
mod status_words;
mod stopping;
mod store;
mod support;
mod unanswered;
mod unmade;
mod unprivileged;
mod usage;

use std::time::{Duration, Instant};

/// What happens soon happens within this time, even on a machine with other things to do.
const PATIENCE: Duration = Duration::from_secs(30);

/// Looks again and again until there is something to see, and gives it.
fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_at_most(PATIENCE, what, look)
}

fn wait_at_most<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(
            began.elapsed() < limit,
            "waited {:.1} s in vain for {what}",
            began.elapsed().as_secs_f64()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
