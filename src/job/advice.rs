//! Advice for the next run of a job, from this job's known figures, with the reason. Jobs of mylvmbackup also get the
//! setting, for version 0.15.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::diagnosis::{BUSY, COSTLY, is_limited_by_processors};
use super::figures::{Figures, PvWork};
use super::setup::Setup;
use crate::sentence::Sentence;
use crate::units::{bytes_text, share_text, size_text, speed_text};

/// The range of `lvcreate -c`, which accepts powers of two.
const SMALLEST_CHUNK: u64 = 4 * 1024;
const LARGEST_CHUNK: u64 = 512 * 1024;
/// The most bytes on disk per byte of a write that fills whole chunks: the write, its copy, and one chunk of metadata each.
/// Only smaller writes cost more, and benefit from smaller chunks.
const WHOLE_CHUNKS_COST: f64 = 3.0;
/// The least share of copying in a PV's bytes. Copies are small and scattered, so this may be a quarter of the seeks.
const PART_OF_PV: f64 = 0.02;
/// From this write cost on, copies cost more than the metadata of a thin pool.
const COSTLY_FOR_THIN: f64 = 2.0;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Advice {
    pub kind: AdviceKind,
    pub text: String,
    pub reason: String,
    /// Lines for `mylvmbackup.conf`, if any; `null` for jobs of other programs.
    pub setting: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdviceKind {
    SmallerChunks,
    OtherPv,
    ThinSnapshot,
    WriteLess,
    CompressLater,
    /// `sizing` computes it.
    SnapshotSize,
}

/// A PV apart from the origin's, and how `lvcreate` gets it.
pub type OtherPv = (Option<String>, Sentence);

/// `is_by_mylvmbackup`: whether the job's settings are in `mylvmbackup.conf`. `pv` is for the COW area.
pub fn advice(
    figures: &Figures,
    setup: &Setup,
    is_by_mylvmbackup: bool,
    pv: &OtherPv,
) -> Vec<Advice> {
    let chunks = smaller_chunks(figures, setup);
    let other_pv = other_pv(figures, setup, chunks.is_some(), pv);
    let mut advice: Vec<Advice> = chunks.into_iter().chain(other_pv).collect();
    advice.extend(thin_snapshot(figures, setup));
    advice.extend(write_less(figures));
    advice.extend(compress_later(figures, setup));
    if !is_by_mylvmbackup {
        for advice in &mut advice {
            advice.setting = None;
        }
    }
    advice
}

/// The most bytes on disk per byte of a first write: the write, copies of the affected chunks, and a chunk of metadata.
/// Source: dm-snap-persistent.c; confirmed by measurements with 4 and 16 KiB.
pub fn first_write_cost(write_bytes: f64, chunk_bytes: u64) -> f64 {
    let chunk = chunk_bytes as f64;
    let chunks = (write_bytes / chunk).ceil().max(1.0);
    (write_bytes + chunks * chunk + chunk) / write_bytes
}

/// The largest chunk that a write of this size fills. Smaller chunks would make later reads smaller.
pub fn fitting_chunk(write_bytes: f64) -> u64 {
    let whole = (write_bytes.max(0.0) as u64).clamp(SMALLEST_CHUNK, LARGEST_CHUNK);
    1 << whole.ilog2()
}

/// If the write cost is higher than writes of whole chunks can cause.
fn smaller_chunks(figures: &Figures, setup: &Setup) -> Option<Advice> {
    let chunk = setup.chunk_bytes.filter(|_| setup.is_thick())?;
    let cost = figures.copied.write_cost?;
    let write = figures.origin.during.write_request_bytes?;
    let fitting = fitting_chunk(write);
    if cost <= WHOLE_CHUNKS_COST || write <= 0.0 || fitting >= chunk {
        return None;
    }
    let option = chunk_option(fitting);
    let fitting_text = size_text(fitting);
    Some(Advice {
        kind: AdviceKind::SmallerChunks,
        text: format!(
            "Make the snapshot with chunks of {fitting_text}: add{option} to the `lvcreate` command."
        ),
        reason: format!(
            "Writes to the origin had {} on average. Each byte cost {cost:.1} bytes on disk. In a first write of that \
             size, a byte costs up to {:.1} bytes with chunks of {}, and up to {:.1} with chunks of {fitting_text}.",
            bytes_text(write),
            first_write_cost(write, chunk),
            size_text(chunk),
            first_write_cost(write, fitting),
        ),
        setting: Some(format!("[tools]\nlvcreate=lvcreate{option}")),
    })
}

/// An option of `lvcreate`, with a leading blank.
fn chunk_option(chunk: u64) -> String {
    format!(" -c {}k", chunk / 1024)
}

/// If a busy PV carries both the origin and the COW area, and much of its I/O is copying. The setting includes the option
/// for smaller chunks, since both change the same line.
fn other_pv(
    figures: &Figures,
    setup: &Setup,
    needs_smaller_chunks: bool,
    (path, how): &OtherPv,
) -> Option<Advice> {
    let copying = copying(figures).filter(|_| setup.is_thick())?;
    let is_full = |pv: &&PvWork| pv.is_shared() && pv.utilisation >= Some(BUSY);
    let pv = figures.pvs.iter().find(is_full)?;
    let all = pv.read_bytes_per_s? + pv.written_bytes_per_s?;
    if copying < all * PART_OF_PV {
        return None;
    }
    let mut option = String::new();
    if needs_smaller_chunks {
        option = chunk_option(fitting_chunk(figures.origin.during.write_request_bytes?));
    }
    Some(Advice {
        kind: AdviceKind::OtherPv,
        text: format!("Put the COW area on another PV: {how}."),
        reason: format!(
            "{} carries both the origin and the COW area. It was busy {} of the time. {} of its {} were copying.",
            pv.name,
            share_text(pv.utilisation?),
            speed_text(copying),
            speed_text(all),
        ),
        setting: path.as_ref().map(|path| {
            format!(
                "[tools]\nlvcreate=/usr/local/sbin/lvcreate-on-other-pv{option}\n# which is: #!/bin/sh\n# exec lvcreate \
                 \"$@\" {path}"
            )
        }),
    })
}

/// Bytes a second read and written for copies.
fn copying(figures: &Figures) -> Option<f64> {
    let seconds = figures.seconds.filter(|seconds| *seconds > 0.0)?;
    Some(figures.copied.first_writes?.mean + figures.copied.cow_bytes? / seconds)
}

fn thin_snapshot(figures: &Figures, setup: &Setup) -> Option<Advice> {
    let cost = figures.copied.write_cost.filter(|_| setup.is_thick())?;
    let snapshots = setup.snapshots.unwrap_or(1);
    if cost < COSTLY_FOR_THIN && (snapshots < 2 || cost < COSTLY) {
        return None;
    }
    let several = if snapshots > 1 {
        format!(", with {snapshots} snapshots")
    } else {
        String::new()
    };
    Some(Advice {
        kind: AdviceKind::ThinSnapshot,
        text: "Move the origin to a thin pool and use thin snapshots. Set `activation/auto_set_activation_skip=0` in \
               lvm.conf, so that they can be mounted."
            .into(),
        reason: format!(
            "Each byte written to the origin cost {cost:.1} bytes on disk{several}. A thin pool copies once for all \
             snapshots, writes less metadata, and loses no snapshot until the whole pool is full."
        ),
        setting: Some("[misc]\nthin=1".into()),
    })
}

/// If reads were slower when there were more first writes.
fn write_less(figures: &Figures) -> Option<Advice> {
    let found = figures.read_by_first_writes.falling()?;
    let rate = figures.copied.first_writes?;
    Some(Advice {
        kind: AdviceKind::WriteLess,
        text: "Write less to the origin during the backup: move batch jobs, pause replication, or flush the database's \
               dirty pages before the snapshot is created."
            .into(),
        reason: format!(
            "For each byte first written, {:.1} bytes less were read. First writes ran at {}.",
            found.slope.abs(),
            speed_text(rate.mean),
        ),
        setting: None,
    })
}

fn compress_later(figures: &Figures, setup: &Setup) -> Option<Advice> {
    if !is_limited_by_processors(figures, setup) {
        return None;
    }
    let text = if setup.kind.is_some() {
        "Compress less, or only after the snapshot is removed. While it exists, it fills and slows writes."
    } else {
        "Compress less, or later."
    };
    Some(Advice {
        kind: AdviceKind::CompressLater,
        text: text.into(),
        reason: "The processors were probably the limit: no PV was busy for half of the time."
            .into(),
        setting: Some("[tools]\ncompress=".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::example::{MIB, setup, slowing};
    use crate::statistics::{Correlation, Relation, Trend};

    fn example() -> Figures {
        Figures::of(&slowing(200), &setup())
    }

    fn pv() -> OtherPv {
        let how = "name /dev/sdb last in the `lvcreate` command";
        (Some("/dev/sdb".into()), how.into())
    }

    fn advised(figures: &Figures, setup: &Setup, kind: AdviceKind) -> Option<Advice> {
        advice(figures, setup, true, &pv())
            .into_iter()
            .find(|advice| advice.kind == kind)
    }

    /// Measurements gave 2.25, 3.0, and 7.9; in the last case some chunks were hit twice.
    #[test]
    fn the_cost_of_a_first_write_matches_measurements() {
        let cost = |chunk_kib: u64| first_write_cost(16384.0, chunk_kib * 1024);
        assert_eq!([4, 16, 64].map(cost), [2.25, 3.0, 9.0]);
    }

    #[test]
    fn a_chunk_fits_the_observed_writes() {
        let kib = |bytes: f64| fitting_chunk(bytes * 1024.0) / 1024;
        assert_eq!(
            [0.0, 4.0, 16.0, 23.0, 300.0, 9000.0].map(kib),
            [4, 4, 16, 16, 256, 512]
        );
    }

    #[test]
    fn small_random_writes_need_small_chunks() {
        let mut figures = example();
        figures.copied.write_cost = Some(7.9);
        let found = advised(&figures, &setup(), AdviceKind::SmallerChunks).unwrap();
        assert_eq!(
            found.text,
            "Make the snapshot with chunks of 16.0 KiB: add -c 16k to the `lvcreate` command."
        );
        assert_eq!(
            found.reason,
            "Writes to the origin had 16.0 KiB on average. Each byte cost 7.9 bytes on disk. In a first write of that \
             size, a byte costs up to 9.0 bytes with chunks of 64.0 KiB, and up to 3.0 with chunks of 16.0 KiB."
        );
        assert_eq!(
            found.setting.as_deref(),
            Some("[tools]\nlvcreate=lvcreate -c 16k")
        );
    }

    #[test]
    fn smaller_chunks_and_another_pv_are_one_setting() {
        let mut figures = example();
        figures.copied.write_cost = Some(7.9);
        let setting = advised(&figures, &setup(), AdviceKind::OtherPv)
            .unwrap()
            .setting
            .unwrap();
        assert_eq!(
            setting.lines().nth(1),
            Some("lvcreate=/usr/local/sbin/lvcreate-on-other-pv -c 16k")
        );
    }

    #[test]
    fn writes_of_whole_chunks_need_no_smaller_chunks() {
        assert_eq!(
            advised(&example(), &setup(), AdviceKind::SmallerChunks),
            None,
            "2.9 may be sequential"
        );
        let mut figures = example();
        figures.copied.write_cost = Some(7.9);
        let fitting = Setup {
            chunk_bytes: Some(16 * 1024),
            ..setup()
        };
        assert_eq!(advised(&figures, &fitting, AdviceKind::SmallerChunks), None);
    }

    #[test]
    fn another_pv_helps_only_if_a_busy_one_carries_both() {
        let found = advised(&example(), &setup(), AdviceKind::OtherPv).unwrap();
        let setting = found.setting.unwrap();
        assert_eq!(
            (setting.lines().nth(1), setting.lines().last()),
            (
                Some("lvcreate=/usr/local/sbin/lvcreate-on-other-pv"),
                Some("# exec lvcreate \"$@\" /dev/sdb")
            )
        );
        assert_eq!(
            found.reason,
            "sda carries both the origin and the COW area. It was busy 98 % of the time. 3.49 MiB/s of its 69.4 MiB/s \
             were copying."
        );
        let mut figures = example();
        figures.pvs[0].utilisation = Some(0.6);
        assert_eq!(
            advised(&figures, &setup(), AdviceKind::OtherPv),
            None,
            "it had room"
        );
        let mut figures = example();
        figures.pvs[0].carries_cow = Some(false);
        assert_eq!(
            advised(&figures, &setup(), AdviceKind::OtherPv),
            None,
            "it is on another already"
        );
        let mut figures = example();
        figures.copied.cow_bytes = Some(0.0);
        figures.copied.first_writes = None;
        assert_eq!(
            advised(&figures, &setup(), AdviceKind::OtherPv),
            None,
            "copies are unknown"
        );
    }

    #[test]
    fn a_thin_snapshot_is_advised_if_a_thick_one_cost_much() {
        let found = advised(&example(), &setup(), AdviceKind::ThinSnapshot).unwrap();
        assert!(
            found
                .reason
                .starts_with("Each byte written to the origin cost 2.9 bytes on disk. A thin pool")
        );
        assert_eq!(found.setting.as_deref(), Some("[misc]\nthin=1"));
        let mut figures = example();
        figures.copied.write_cost = Some(1.1);
        assert_eq!(advised(&figures, &setup(), AdviceKind::ThinSnapshot), None);
        assert_eq!(
            advised(&example(), &Setup::default(), AdviceKind::ThinSnapshot),
            None,
            "it may be thin"
        );
    }

    #[test]
    fn writing_less_helps_if_first_writes_slowed_reads() {
        assert_eq!(advised(&example(), &setup(), AdviceKind::WriteLess), None);
        let mut figures = example();
        figures.read_by_first_writes = Relation::Correlation(Correlation {
            n: 100,
            slope: -4.0,
            intercept: 0.0,
            explained: 0.5,
            rank: -0.8,
            independent: 40.0,
            trend: Trend::Falling,
        });
        let found = advised(&figures, &setup(), AdviceKind::WriteLess).unwrap();
        assert!(
            found
                .reason
                .contains("4.0 bytes less were read. First writes ran at 1.59 MiB/s."),
            "{}",
            found.reason
        );
    }

    #[test]
    fn a_compressor_that_was_the_limit_can_run_later() {
        assert_eq!(
            advised(&example(), &setup(), AdviceKind::CompressLater),
            None
        );
        let mut figures = example();
        figures.host.pressure_io = None;
        (figures.host.user, figures.pvs[0].utilisation) =
            (Some(0.3), Some(20.0 * MIB / (100.0 * MIB)));
        assert!(advised(&figures, &setup(), AdviceKind::CompressLater).is_some());
    }

    #[test]
    fn unknown_figures_give_no_advice() {
        let span = crate::job::time_series::TickColumns::new(Vec::new()).unwrap();
        let time_series = crate::job::time_series::JobTimeSeries {
            before: None,
            during: span,
            after: None,
            took_s: None,
        };
        let figures = Figures::of(&time_series, &Setup::default());
        assert_eq!(advice(&figures, &Setup::default(), true, &pv()), []);
    }

    #[test]
    fn settings_of_mylvmbackup_are_only_for_its_jobs() {
        let found = advice(&example(), &setup(), false, &pv());
        assert!(found.len() > 1, "{found:?}");
        assert!(found.iter().all(|advice| advice.setting.is_none()));
    }
}
