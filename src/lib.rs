//! cowbell watches LVM snapshots, thin pools and the disks below them, and alerts before a snapshot or pool overflows.
//!
//! Modules are listed in the order of the data flow. Each uses only modules above it; `tests/it/order.rs` enforces this.

/// Sectors, bytes and fills: arithmetic and formatting.
pub use cowbell_units as units;

/// What people are told, as parts: text, command, time, volume.
pub mod sentence;

/// A table as plain text, Markdown, CSV or HTML.
pub mod table;

/// Readiness, sockets and the journal of systemd.
pub mod systemd;

/// Ways to reach a receiver: webhook, command, e-mail; the keys of each and how it delivers.
pub mod channel;

/// The configuration file: types, defaults, validation.
pub mod config;

/// mylvmbackup's configuration file, of which the daemon gets only the next snapshot.
pub mod mylvmbackup;

/// When crontabs and systemd's timers start programs.
pub mod schedule;

/// Commands on jobs: marks, phases, notes.
pub mod commands;

/// Observes the machine: `/proc`, `/sys`, the device-mapper and LVM; or plays a recording.
pub mod source;

/// Parses readings into counters, fills and names.
pub mod sample;

/// Layers, identities and names of devices; which bytes count once.
pub mod topology;

/// Computes the differences between two samples, with gaps and resets.
pub mod interval;

/// The table of all quantities: names, units, and how they follow from an interval.
pub mod quantity;

/// Reading → sample → topology → interval, for daemon, tests and benches.
pub mod pipeline;

/// Averages, maxima and sums of each device since the start.
pub mod averages;

/// One quantity over time.
pub mod series;

/// Means and percentiles, correlations over time, ratios of repeated runs.
pub mod statistics;

/// Commands that LVM accepts in the state of a volume and its group, or what helps instead.
pub mod advice;

/// When a backup will be done, and its snapshot full.
pub mod forecast;

/// Jobs: when they ran, what they cost, and why.
pub mod job;

/// How large a snapshot has to be, by its age.
pub mod sizing;

/// Alert rules: what was raised and cleared in a tick.
pub mod alert;

/// Extends snapshots and pools before they are full, within limits.
pub mod guard;

/// Delivers alerts, with limits and retries.
pub mod notify;

/// SQLite: one writer, many readers, series, retention.
pub mod store;

/// Sends stored ticks to receivers of Prometheus remote write.
pub mod remote_write;

/// Draws series as SVG.
pub mod chart;

/// Job reports and comparisons, as text.
pub mod report;

/// The current state, for pages and API.
pub mod present;

/// One grade and one sentence for each volume, each job, and the host.
pub mod verdict;

/// The short answer above the verdict.
pub mod headline;

/// All servers, as Prometheus knows them.
pub mod fleet;

/// What Prometheus reads: metrics of the last tick.
pub mod prometheus;

/// Requests from clients to the loop, each with a reply.
pub mod requests;

/// The HTTP server: pages, JSON, the live stream.
pub mod web;

/// A running daemon, as commands see it: requests over its control socket.
pub mod client;

/// `cowbell check`: what cowbell can see here, and how to fix the rest.
pub mod check;

/// The loop: read, parse, compare, evaluate, store, publish; start and stop.
pub mod daemon;

/// The command line.
pub mod cli;
