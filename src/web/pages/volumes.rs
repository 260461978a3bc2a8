//! `/volumes`: volume groups with their PVs and free space, and every volume in them.

use askama::Template;
use axum::extract::State;

use super::text::{rate, size};
use super::{Answer, Content, Refresh, rows};
use crate::present::Present;
use crate::quantity::Quantity;
use crate::table::{Cell, Column, Table};
use crate::topology::{Device, Group, Volume, VolumeState};
use crate::units::{Fill, percent_text};
use crate::verdict::grade_of;
use crate::web::Site;

#[derive(Template)]
#[template(path = "volumes.html")]
struct Volumes {
    groups: Vec<GroupView>,
    /// Why there are none.
    nothing: String,
}

struct GroupView {
    name: String,
    href: String,
    space: String,
    /// Names and addresses.
    pvs: Vec<(String, String)>,
    missing_pvs: u32,
    volumes: Table,
}

pub async fn page(State(site): State<Site>) -> Answer {
    let present = site.present()?;
    let groups = &present.interval.topology.groups;
    let page = Volumes {
        groups: groups
            .iter()
            .map(|group| group_view(&present, group))
            .collect(),
        nothing: super::overview::nothing_to_watch(&present),
    };
    let refresh = Some(Refresh::each_second("/volumes/list"));
    Content::new("Volumes", "/volumes", refresh, &page)?.with_filter("volume, kind or state")
}

fn group_view(present: &Present, group: &Group) -> GroupView {
    GroupView {
        name: group.name.clone(),
        href: rows::group_href(&group.name),
        space: space(group),
        pvs: pvs(present, group)
            .map(|pv| (pv.name.to_string(), super::devices::device_href(pv)))
            .collect(),
        missing_pvs: group.missing_pvs,
        volumes: volumes(present, &group.name, ""),
    }
}

/// How large the group is, and how much of it is free.
pub fn space(group: &Group) -> String {
    match group.size {
        Some(_) => {
            let spare = group
                .spare
                .map(|spare| format!(" · {} spare for metadata", size(Some(spare))));
            let tags =
                (!group.tags.is_empty()).then(|| format!(" · tags {}", group.tags.join(", ")));
            let space = format!("{} free of {}", size(group.free), size(group.size));
            format!(
                "{space}{}{}",
                spare.unwrap_or_default(),
                tags.unwrap_or_default()
            )
        }
        None => "free space unknown: LVM's report is missing".into(),
    }
}

/// The group's PVs, as far as they are present.
pub fn pvs<'a>(present: &'a Present, group: &'a Group) -> impl Iterator<Item = &'a Device> {
    let topology = &present.interval.topology;
    group.pvs.iter().filter_map(|name| topology.device(name))
}

pub fn volumes(present: &Present, group: &str, title: &'static str) -> Table {
    let volumes = present
        .interval
        .volumes()
        .filter(|(volume, _)| volume.vg == group);
    Table::new(
        title,
        columns(),
        volumes.map(|(volume, state)| row(present, volume, state)),
    )
}

fn columns() -> [Column; 8] {
    [
        Column::name("Volume"),
        Column::text("Kind"),
        Column::text("State"),
        Column::number("Fill"),
        Column::number("Size").class("least"),
        Column::number("Read").class("less"),
        Column::number("Written").class("less"),
        Column::text("On").class("less"),
    ]
}

fn row(present: &Present, volume: &Volume, state: &VolumeState) -> Vec<Cell> {
    let interval = &present.interval;
    let work = interval.work_of_volume(volume);
    let rate = |quantity: Quantity| rate(quantity.of_work(&work, interval.elapsed_us));
    let percent = state.fill.map(Fill::percent);
    let of = volume
        .origin
        .as_ref()
        .map_or_else(String::new, |origin| format!(" of {origin}"));
    let grade = grade_of(present, volume, state);
    vec![
        Cell::link(&volume.lv, rows::volume_href(&volume.vg, &volume.lv)),
        format!("{}{of}", volume.kind.text()).into(),
        Cell::state(rows::state_word(state.state, grade), grade.text()),
        Cell::known(percent.map(percent_text)),
        size(volume.size).into(),
        rate(Quantity::ReadBytes).into(),
        rate(Quantity::WrittenBytes).into(),
        volume.pvs.join(", ").into(),
    ]
}
