//! `/volumes`: volume groups with their PVs and free space, and every volume in them. `/groups/VG`: one of them, and how
//! its load is spread over its PVs; also after it was removed.

use std::cmp::Ordering;
use std::collections::HashMap;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Redirect;
use serde::Deserialize;

use super::charts::{self, Charts, ChoiceLink, Sketch};
use super::devices::device_href;
use super::text::{self, rate, size};
use super::{
    ChoiceSwitch, Content, GonePage, History, KeyFigure, Links, ListTools, PageRequest, PageResult,
    Refresh, speeds,
};
use crate::alert::{Rule, saved};
use crate::chart::Look;
use crate::interval::Work;
use crate::present::Present;
use crate::quantity::Quantity;
use crate::sentence;
use crate::sentence::{Sentence, command};
use crate::source::Part;
use crate::store::Subject;
use crate::table::{Bar, Cell, Column, Table};
use crate::topology::{Device, Group, OUTSIDE_LVM, State as WorkingState, Volume, VolumeState};
use crate::units::{Fill, count_text, natural_key, percent_text, size_text};
use crate::verdict::{Grade, alert_ranks, grade_of};
use crate::web::answer::{ParsedQuery, Problem};
use crate::web::{SharedSite, Site, escaped, zone};

const MOST_JOBS: usize = 20;
/// Volumes of a group that is gone in one readable chart.
const MOST_VOLUMES: usize = 8;
/// A PV with at least this share of the work does it alone.
const MOST_WORK: f64 = 0.8;
const LINEAR: &str = "linear";
/// Snapshots of snapshots.
const MOST_DEPTH: usize = 5;

#[derive(Template)]
#[template(path = "volumes.html")]
struct VolumesPage {
    groups: Vec<GroupSection>,
    is_filtered: bool,
    /// Why there are none.
    nothing: Sentence,
}

struct GroupSection {
    name: String,
    href: String,
    space: String,
    pvs: Links,
    missing_pvs: u32,
    volumes: Table,
}

#[derive(Template)]
#[template(path = "group.html")]
struct GroupPage {
    name: String,
    description: String,
    remark: Option<String>,
    key_figures: Vec<KeyFigure>,
    links: Links,
    history: History,
    volumes: Table,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct VolumesQuery {
    filter: String,
    sort: VolumeSort,
}

/// By what the volumes of each group are sorted, and the groups by their first volume.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VolumeSort {
    /// By name; those below a pool or an origin follow it.
    #[default]
    Name,
    Urgency,
    Fill,
    Read,
    Written,
}

impl VolumeSort {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Name, "name"),
        (Self::Urgency, "urgency"),
        (Self::Fill, "fill"),
        (Self::Read, "read"),
        (Self::Written, "written"),
    ];

    /// The highest comes first; 0 if it is unknown. Urgency is as on the overview: grade, rank of the alert, fill.
    fn weight(
        self,
        ranks: &Ranks,
        present: &Present,
        volume: &Volume,
        state: &VolumeState,
    ) -> [f64; 3] {
        let speed = |quantity: Quantity| {
            let work = present.interval.work_of_volume(volume);
            let speed = quantity.of_work(&work, present.interval.elapsed_us);
            [speed.unwrap_or_default(), 0.0, 0.0]
        };
        let fill = state.fill.map_or(0.0, Fill::percent);
        match self {
            Self::Name => [0.0; 3],
            Self::Urgency => {
                let grade = f64::from(grade_of(present, volume, state) as u8);
                let rank = ranks
                    .get(&*volume.uuid)
                    .map_or(f64::MIN, |rank| -(*rank as f64));
                [grade, rank, fill]
            }
            Self::Fill => [fill, 0.0, 0.0],
            Self::Read => speed(Quantity::ReadBytes),
            Self::Written => speed(Quantity::WrittenBytes),
        }
    }
}

/// Of the alerts, by UUID of the volume.
type Ranks<'a> = HashMap<&'a str, usize>;

fn descending(a: &[f64; 3], b: &[f64; 3]) -> Ordering {
    let pairs = b.iter().zip(a);
    let orders = pairs.map(|(b, a)| b.total_cmp(a));
    orders.fold(Ordering::Equal, Ordering::then)
}

pub async fn page(
    State(site): State<SharedSite>,
    ParsedQuery(query): ParsedQuery<VolumesQuery>,
) -> PageResult {
    let present = site.present()?;
    let VolumesQuery { filter, sort } = query;
    let ranks = alert_ranks(&present);
    let mut groups = Vec::new();
    for group in &present.interval.topology.groups {
        let volumes = volumes_of(&present, &ranks, &group.name, sort);
        let first = volumes.first();
        let weight = first.map_or([f64::MIN; 3], |(volume, state)| {
            sort.weight(&ranks, &present, volume, state)
        });
        let volumes = volume_table(&present, volumes, sort, "").filtered(&filter);
        if filter.is_empty() || !volumes.is_empty() {
            groups.push((weight, GroupSection::new(&present, group, volumes)));
        }
    }
    groups.sort_by(|(a, _), (b, _)| descending(a, b));
    let page = VolumesPage {
        groups: groups.into_iter().map(|(_, section)| section).collect(),
        is_filtered: !filter.is_empty(),
        nothing: nothing_to_watch(&present),
    };
    let mut hidden_fields = Links::new();
    let mut choices = Vec::new();
    for (by, name) in VolumeSort::ALL {
        if by == sort {
            hidden_fields.push(("sort".into(), name.into()));
        }
        choices.push(ChoiceLink {
            name,
            href: format!("?sort={name}&filter={}", escaped(&filter)),
            is_current: by == sort,
        });
    }
    Content::new("Volumes", "/volumes", Refresh::EACH_TICK, &page)?.with_list_tools(ListTools {
        placeholder: "volume, kind, state",
        filter,
        hidden_fields,
        switches: vec![ChoiceSwitch {
            name: "Sort by",
            choices,
        }],
        ..ListTools::default()
    })
}

impl GroupSection {
    fn new(present: &Present, group: &Group, volumes: Table) -> Self {
        let pv_link = |pv: &Device| (pv.name.to_string(), device_href(pv));
        Self {
            name: group.name.clone(),
            href: group_href(&group.name),
            space: space(group),
            pvs: pvs(present, group).map(pv_link).collect(),
            missing_pvs: group.missing_pvs,
            volumes,
        }
    }
}

/// `/volumes/VG` is what one would guess.
pub async fn to_group(Path(vg): Path<String>) -> Redirect {
    Redirect::to(&zone::prefixed(&group_href(&vg)))
}

pub async fn group_page(Path(vg): Path<String>, request: PageRequest) -> PageResult {
    let present = &request.present;
    let range = request.view.range(present)?;
    let refresh = request.view.refresh(range);
    let mut jobs = request.site.own_job_list(range, MOST_JOBS).await?;
    jobs.found.retain(|job| job.vg.as_ref() == Some(&vg));
    let group = present.interval.topology.group(&vg);
    let pvs: Vec<&Device> = group
        .into_iter()
        .flat_map(|group| pvs(present, group))
        .collect();
    let sketches = match group {
        Some(_) => vec![
            charts::by_pv("Read, by PV", &pvs, Quantity::ReadBytes),
            charts::by_pv("Written, by PV", &pvs, Quantity::WrittenBytes),
        ],
        None => sketches_of_gone(&request.site, &vg)?,
    };
    let history = History::new(&request, range, &jobs, sketches).await?;
    let Some(group) = group else {
        let volumes = request.site.store.volumes_of(&vg).into_keys();
        let page = GonePage {
            description: "volume group",
            verdict: None,
            notice: why_gone(present).into(),
            links: volumes
                .map(|lv| (lv.clone(), volume_href(&vg, &lv)))
                .collect(),
            history,
            name: vg,
        };
        return Content::new(&page.name, "/volumes", refresh, &page);
    };
    let volumes = present.interval.topology.volumes.iter();
    let of_group: Vec<&Volume> = volumes.filter(|volume| volume.vg == vg).collect();
    let interval = &present.interval;
    let work_of_all = Work::sum(pvs.iter().map(|pv| interval.work_of(pv)));
    let page = GroupPage {
        description: text::joined([
            Some("volume group".into()),
            Some(space(group)),
            Some(count_text(pvs.len(), "PV", "PVs")),
            (group.missing_pvs > 0).then(|| format!("{} missing", group.missing_pvs)),
        ]),
        remark: uneven(&work(&pvs, &history.charts), &of_group),
        key_figures: speeds(interval, &work_of_all, "all PVs, in the last tick").into(),
        links: pvs
            .iter()
            .map(|pv| (format!("PV {}", pv.name), device_href(pv)))
            .collect(),
        history,
        volumes: volume_table(
            present,
            volumes_of(present, &Ranks::new(), &vg, VolumeSort::Name),
            VolumeSort::Name,
            "Volumes",
        ),
        name: vg,
    };
    Content::new(&page.name, "/volumes", refresh, &page)
}

/// What the volumes of a group did that does not exist now.
fn sketches_of_gone(site: &Site, vg: &str) -> Result<Vec<Sketch>, Problem> {
    let volumes = site.store.volumes_of(vg);
    if volumes.is_empty() {
        return Err(Problem::NotFound(format!(
            "no volume group called {vg} was ever seen here"
        )));
    }
    let sketch = |title, quantity| {
        let mut traces = Vec::new();
        for ((lv, uuid), number) in volumes.iter().take(MOST_VOLUMES).zip(0_u8..) {
            let subject = Subject::Volume(uuid.to_string());
            traces.push(charts::trace(lv, &subject, quantity, Look::Other(number)));
        }
        Sketch {
            stacked: true,
            ..Sketch::new(title, traces)
        }
    };
    Ok(vec![
        sketch("Read, by volume", Quantity::ReadBytes),
        sketch("Written, by volume", Quantity::WrittenBytes),
    ])
}

fn why_gone(present: &Present) -> &'static str {
    let lvm = present.parts.get(&Part::Lvm);
    if lvm.is_some_and(|lvm| lvm.last_ok_at.is_some()) {
        "This volume group does not exist now. Its history remains."
    } else {
        "Whether this volume group exists is not known, since LVM was not read yet. Its history remains."
    }
}

/// When a volume that grows is full, or a dash and why there is no time.
pub fn full_in(present: &Present, volume: &Volume) -> Option<(String, &'static str)> {
    let pace = present.paces.get(&volume.uuid)?;
    let is_saved = saved(&present.interval, volume, Rule::FullBeforeDone).is_some();
    Some(match pace.full {
        _ if is_saved => (text::DASH.into(), "guarded"),
        Some(full) => (full.short_text(), ""),
        None => (text::DASH.into(), pace.why_not),
    })
}

/// Why no snapshot or pool is listed: there is none, or cowbell cannot read it, as the verdict says.
pub fn nothing_to_watch(present: &Present) -> Sentence {
    let dm = present.parts.get(&Part::Dm);
    if dm.is_some_and(|part| part.error.is_some()) {
        return sentence![
            "Snapshots and thin pools cannot be seen. ",
            command("cowbell check"),
            " says why, and what to do."
        ];
    }
    sentence![
        "There is no snapshot or thin pool. New ones appear within a tick. ",
        command("cowbell demo"),
        " shows an example."
    ]
}

/// How large the group is, and how much of it is free.
fn space(group: &Group) -> String {
    if group.name == OUTSIDE_LVM {
        return "snapshots outside LVM".into();
    }
    if group.size.is_none() {
        return "free space unknown: LVM's report is missing".into();
    }
    let mut space = format!("{} free of {}", size(group.free), size(group.size));
    if let Some(spare) = group.spare {
        space += &format!(" · {} spare for metadata", size_text(spare));
    }
    if !group.tags.is_empty() {
        space += &format!(" · tags {}", group.tags.join(", "));
    }
    space
}

/// The group's PVs, as far as they are present.
fn pvs<'a>(present: &'a Present, group: &'a Group) -> impl Iterator<Item = &'a Device> {
    let topology = &present.interval.topology;
    group.pvs.iter().filter_map(|name| topology.device(name))
}

/// A volume, and before it the pool and the origins that it lies in, the outermost first.
fn path<'a>(present: &'a Present, volume: &'a Volume) -> Vec<&'a Volume> {
    let topology = &present.interval.topology;
    let mut path = vec![volume];
    while let Some(above) = topology.origin_of(path[0])
        && path.len() < MOST_DEPTH
    {
        path.insert(0, above);
    }
    if let Some(pool) = topology.pool_of(path[0]) {
        path.insert(0, pool);
    }
    path
}

fn volumes_of<'a>(
    present: &'a Present,
    ranks: &Ranks,
    group: &str,
    sort: VolumeSort,
) -> Vec<(&'a Volume, &'a VolumeState)> {
    let volumes = present.interval.volumes();
    let of_group = volumes.filter(|(volume, _)| volume.vg == group);
    let mut volumes: Vec<(&Volume, &VolumeState)> = of_group.collect();
    // Those below a pool or an origin follow it.
    volumes.sort_by_cached_key(|(volume, _)| {
        let path = path(present, volume).into_iter();
        path.map(|above| natural_key(&above.lv)).collect::<Vec<_>>()
    });
    let weight =
        |(volume, state): &(&Volume, &VolumeState)| sort.weight(ranks, present, volume, state);
    volumes.sort_by(|a, b| descending(&weight(a), &weight(b)));
    volumes
}

fn volume_table(
    present: &Present,
    volumes: Vec<(&Volume, &VolumeState)>,
    sort: VolumeSort,
    title: &'static str,
) -> Table {
    let interval = &present.interval;
    let speed = |volume: &Volume, quantity: Quantity| {
        rate(quantity.of_work(&interval.work_of_volume(volume), interval.elapsed_us))
    };
    Table::of(title, volumes)
        .column(Column::name("Volume"), |(volume, _)| {
            let link = Cell::link(&volume.lv, volume_href(&volume.vg, &volume.lv));
            match path(present, volume).len() {
                1 => link,
                _ if sort != VolumeSort::Name => link,
                depth => Cell::class("└ ", &format!("quiet depth-{}", depth - 1)).then(link),
            }
        })
        .column(Column::text("Kind"), |(volume, _)| match &volume.origin {
            Some(origin) => format!("{} of {origin}", volume.kind.text()),
            None => volume.kind.text().into(),
        })
        .column(Column::text("State"), |(volume, state)| {
            state_cell(state.state, grade_of(present, volume, state))
        })
        .column(Column::text("Fill"), |(volume, state)| {
            let Some(percent) = state.fill.map(Fill::percent) else {
                return Cell::default();
            };
            let grade = grade_of(present, volume, state);
            Cell::default()
                .bar(Bar::of_fill(percent, grade.text()))
                .then(percent_text(percent))
        })
        .column(Column::number("Size").class("least"), |(volume, _)| {
            size(volume.size)
        })
        .column(Column::number("Read").class("less"), |(volume, _)| {
            speed(volume, Quantity::ReadBytes)
        })
        .column(Column::number("Written").class("less"), |(volume, _)| {
            speed(volume, Quantity::WrittenBytes)
        })
        .column(Column::text("On").class("less"), |(volume, _)| {
            volume.pvs.join(", ")
        })
        .done()
        .class("volumes")
}

/// The grade of a volume that works, or else its state.
pub fn state_cell(state: WorkingState, grade: Grade) -> Cell {
    let word = if state == WorkingState::Ok {
        grade.text()
    } else {
        state.text()
    };
    Cell::state(word, grade.text())
}

pub fn used_of_size(fill: Option<Fill>, of: Option<u64>) -> String {
    match (fill.filter(|fill| fill.unit > 0), of) {
        (Some(fill), _) => {
            let [used, total] = [fill.used_bytes(), fill.total_bytes()].map(size_text);
            format!("{used} of {total}")
        }
        (None, Some(of)) => format!("{} of {}", text::DASH, size_text(of)),
        (None, None) => text::DASH.into(),
    }
}

pub fn group_href(vg: &str) -> String {
    format!("/groups/{}", escaped(vg))
}

pub fn volume_href(vg: &str, lv: &str) -> String {
    format!("/volumes/{}/{}", escaped(vg), escaped(lv))
}

/// Each PV with what it read and wrote in the charts' range, in units that compare.
fn work<'a>(pvs: &[&'a Device], charts: &Charts) -> Vec<(&'a str, f64)> {
    let figures = &charts.figures;
    let sum = |number| {
        figures
            .iter()
            .filter_map(|figure| figure.sums.get(number))
            .sum()
    };
    let pvs = pvs.iter().enumerate();
    pvs.map(|(number, pv)| (&*pv.name, sum(number))).collect()
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
    let mut linear = Vec::new();
    for volume in volumes {
        let mut segments = volume.layout.iter().flat_map(|part| &part.segments);
        if segments.any(|segment| {
            segment.kind == LINEAR && segment.pv_extents.iter().any(|(pv, _)| is_busiest(pv))
        }) {
            linear.push(volume.full_name());
        }
    }
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
            allocation: None,
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
