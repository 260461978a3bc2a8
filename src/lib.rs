//! cowbell watches LVM snapshots, thin pools and the disks below them, and rings before one overflows.
//!
//! The modules stand in the order in which what is seen flows through the program. Each uses only those above it;
//! `tests/it/order.rs` holds that.

/// Sectors, bytes and fills: their arithmetic, and how people write them.
pub mod units;
/// The TOML file: types, defaults, checks that name the key.
pub mod config;
/// Observes the machine: `/proc` and `/sys` under a root, the device-mapper, LVM's report; or plays a recording.
pub mod source;
/// Text into counters, fills and names: one file per thing read.
pub mod sample;
/// Layers, identities, names; which bytes count once.
pub mod topology;
/// Two samples into differences, gaps and resets.
pub mod interval;
/// Reading → sample → topology → interval: what daemon, tests and benches share.
pub mod pipeline;
/// What each device did since the start: average, maximum, sum.
pub mod tally;
/// One quantity over time: what job, store and chart share.
pub mod series;
/// When a job ran and what is known of it.
pub mod job;
/// Rules over one tick: what was raised, what cleared, in sentences.
pub mod alert;
/// Delivers an alert's sentence: bounded, retried, never waited for.
pub mod notify;
/// SQLite: one writer, readers, series, retention.
pub mod store;
/// Series into SVG.
pub mod chart;
/// Jobs side by side: what differs and how surely, as text.
pub mod report;
/// What is known at this moment, for whoever shows it.
pub mod present;
/// The whole site: pages, JSON, the live stream.
pub mod web;
/// Speaks to a running daemon: `run`, `status` and `job`.
pub mod client;
/// What can be seen here, and what to do about the rest.
pub mod check;
/// The loop: read, understand, difference, judge, store, publish; start and stop.
pub mod daemon;
/// One line of help and one call for each command.
pub mod cli;
