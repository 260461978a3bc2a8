//! `/groups/VG`: a volume group, and how its load is spread over its PVs; also after it was removed.

use std::sync::Arc;

use axum::extract::{Path, State};

use super::charts::{self, Charts, Sketch, View};
use super::device::{KeyFigure, Subjects};
use super::rows::{self, JobTable};
use super::text::{self, rate};
use super::{Answer, Content, volumes};
use crate::chart::Look;
use crate::interval::Work;
use crate::job::Job;
use crate::present::Present;
use crate::quantity::Quantity;
use crate::series::Range;
use crate::source::Part;
use crate::store::Subject;
use crate::topology::{Device, Group, Volume};
use crate::web::Site;
use crate::web::answer::{ParsedQuery, Problem};

const MOST_JOBS: usize = 20;
/// Volumes of a group that is gone in one readable chart.
const MOST_VOLUMES: usize = 8;
/// A PV with at least this share of the work does it alone.
const MOST_WORK: f64 = 0.8;
const LINEAR: &str = "linear";

pub async fn page(
    State(site): State<Site>,
    Path(vg): Path<String>,
    ParsedQuery(view): ParsedQuery<View>,
) -> Answer {
    let present = site.present()?;
    let topology = &present.interval.topology;
    let range = view.range(&present)?;
    let mut jobs = site.own_job_list(range, MOST_JOBS).await?;
    jobs.found.retain(|job| job.vg.as_ref() == Some(&vg));
    let page = match topology.group(&vg) {
        Some(group) => existing(&site, &present, &view, range, group, &jobs.found).await?,
        None => gone(&site, &present, &view, range, &vg, &jobs.found).await?,
    };
    let page = Subjects {
        name: vg.clone(),
        ranges: view.ranges(range, &jobs.found),
        jobs: Some(JobTable::of(&jobs, &present)),
        ..page
    };
    Content::new(
        &vg,
        "/volumes",
        view.refresh(&format!("{}/now", rows::group_href(&vg)), range),
        &page,
    )
}

async fn existing(
    site: &Site,
    present: &Present,
    view: &View,
    range: Range,
    group: &Group,
    jobs: &[Job],
) -> Result<Subjects, Problem> {
    let pvs: Vec<&Device> = volumes::pvs(present, group).collect();
    let sketches = vec![
        charts::by_pv("Read, by PV", &pvs, Quantity::ReadBytes),
        charts::by_pv("Written, by PV", &pvs, Quantity::WrittenBytes),
    ];
    let charts = charts::draw(site, present, view, range, jobs, sketches).await?;
    let volumes = present.interval.topology.volumes.iter();
    let of_group: Vec<&Volume> = volumes.filter(|volume| volume.vg == group.name).collect();
    let name = |pv: &&Device| (format!("PV {}", pv.name), super::devices::device_href(pv));
    Ok(Subjects {
        description: text::joined([
            Some("volume group".into()),
            Some(volumes::space(group)),
            Some(crate::units::count_text(pvs.len() as u64, "PV", "PVs")),
            (group.missing_pvs > 0).then(|| format!("{} missing", group.missing_pvs)),
        ]),
        remarks: uneven(&work(&pvs, &charts), &of_group)
            .into_iter()
            .collect(),
        key_figures: key_figures(present, &pvs),
        charts,
        tables: vec![volumes::volumes(present, &group.name, "Volumes")],
        links: pvs.iter().map(name).collect(),
        ..Subjects::default()
    })
}

/// What is known of a group that is not there now: what its volumes did.
async fn gone(
    site: &Site,
    present: &Present,
    view: &View,
    range: Range,
    vg: &str,
    jobs: &[Job],
) -> Result<Subjects, Problem> {
    let volumes = site.store.volumes_of(vg);
    if volumes.is_empty() {
        return Err(Problem::NotFound(format!(
            "no volume group called {vg} was ever seen here"
        )));
    }
    let sketch = |title, quantity| {
        let trace = |((lv, uuid), number): ((&String, &Arc<str>), u8)| {
            let subject = Subject::Volume(uuid.to_string());
            charts::trace(lv, &subject, quantity, Look::Other(number))
        };
        let traces = volumes
            .iter()
            .take(MOST_VOLUMES)
            .zip(0_u8..)
            .map(trace)
            .collect();
        Sketch {
            stacked: true,
            ..Sketch::new(title, charts::BYTES, traces)
        }
    };
    let sketches = vec![
        sketch("Read, by volume", Quantity::ReadBytes),
        sketch("Written, by volume", Quantity::WrittenBytes),
    ];
    let is_known = present
        .parts
        .get(&Part::Lvm)
        .is_some_and(|lvm| lvm.last_ok_at.is_some());
    let notice = match is_known {
        true => "This volume group does not exist now. Its history remains.",
        false => {
            "Whether this volume group exists is not known, since LVM was not read yet. Its history remains."
        }
    };
    Ok(Subjects {
        description: "volume group".into(),
        notice: Some(notice.into()),
        charts: charts::draw(site, present, view, range, jobs, sketches).await?,
        links: volumes
            .keys()
            .map(|lv| (lv.clone(), rows::volume_href(vg, lv)))
            .collect(),
        ..Subjects::default()
    })
}

fn key_figures(present: &Present, pvs: &[&Device]) -> Vec<KeyFigure> {
    let interval = &present.interval;
    let work = Work::sum(pvs.iter().map(|pv| interval.work_of(pv)));
    let figure = |name, quantity: Quantity| {
        KeyFigure::new(
            name,
            rate(quantity.of_work(&work, interval.elapsed_us)),
            "all PVs, in the last tick",
        )
    };
    vec![
        figure("Read", Quantity::ReadBytes),
        figure("Written", Quantity::WrittenBytes),
    ]
}

/// Each PV with what it read and wrote in the charts' range, in units that compare.
fn work<'a>(pvs: &[&'a Device], charts: &Charts) -> Vec<(&'a str, f64)> {
    let sum = |number: usize| {
        charts
            .figures
            .iter()
            .filter_map(|figure| figure.sums.get(number))
            .sum()
    };
    pvs.iter()
        .enumerate()
        .map(|(number, pv)| (&*pv.name, sum(number)))
        .collect()
}

/// Says which PV does most of the work of several, and which linear volumes lie on it.
fn uneven(work: &[(&str, f64)], volumes: &[&Volume]) -> Option<String> {
    let all: f64 = work.iter().map(|(_, done)| done).sum();
    let (busiest, done) = work.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    if work.len() < 2 || all <= 0.0 || done / all < MOST_WORK {
        return None;
    }
    let share = format!(
        "{busiest} does {:.0} % of the work of {} PVs",
        done / all * 100.0,
        work.len()
    );
    // LVM names a PV by the path of its device.
    let is_busiest = |pv: &str| pv.strip_prefix("/dev/").unwrap_or(pv) == *busiest;
    let is_linear_there = |volume: &&&Volume| {
        let mut segments = volume.layout.iter().flat_map(|part| &part.segments);
        segments.any(|segment| {
            segment.kind == LINEAR && segment.pv_extents.iter().any(|(pv, _)| is_busiest(pv))
        })
    };
    let linear: Vec<String> = volumes
        .iter()
        .filter(is_linear_there)
        .map(|volume| volume.full_name())
        .collect();
    Some(match &*linear {
        [] => format!("{share}."),
        [one] => format!(
            "{share}: {one} is linear, so this part of it lies on one PV. Striping spreads it."
        ),
        many => format!(
            "{share}: {} are linear, so each part of them lies on one PV. Striping spreads it.",
            many.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::lvm::Segment;
    use crate::topology::LvLayout;

    fn volume(kind: &str, pv: &str) -> Volume {
        let segment = Segment {
            kind: kind.into(),
            pv_extents: vec![(format!("/dev/{pv}"), 10)],
            ..Segment::default()
        };
        let layout = vec![LvLayout {
            lv: "data".into(),
            segments: vec![segment],
        }];
        Volume {
            vg: "vg0".into(),
            lv: "data".into(),
            layout,
            ..Volume::default()
        }
    }

    #[test]
    fn one_pv_that_does_the_work_of_all_is_named() {
        let work = [("sda", 97.0), ("sdb", 3.0), ("sdc", 0.0)];
        let said = |kind| uneven(&work, &[&volume(kind, "sda"), &volume(kind, "sdb")]).unwrap();
        assert_eq!(
            said("linear"),
            "sda does 97 % of the work of 3 PVs: vg0/data is linear, so this part of it lies on one PV. \
             Striping spreads it."
        );
        assert_eq!(said("striped"), "sda does 97 % of the work of 3 PVs.");
    }

    #[test]
    fn even_work_no_work_and_one_pv_are_not_worth_a_sentence() {
        for work in [
            &[("sda", 79.0), ("sdb", 21.0)][..],
            &[("sda", 0.0), ("sdb", 0.0)],
            &[("sda", 9.0)],
            &[],
        ] {
            assert_eq!(uneven(work, &[&volume("linear", "sda")]), None);
        }
    }
}
