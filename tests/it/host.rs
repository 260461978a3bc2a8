//! An LVM host put together layer by layer: what its kernel would say of it, as the program's own readers write it.

use serde_json::{Value, json};

use crate::machine::{Done, line};

pub const VG: &str = "vg0";
const VG_UUID: &str = "ItZNPisw1YqMR0M1uiKz8lnAXbZGUKiO";

/// A device of the device-mapper: a volume, or a layer of one.
#[derive(Clone, Debug)]
pub struct Layer {
    pub lv: String,
    /// `real`, `cow`, `tpool`…; nothing for the device that people use.
    pub layer: &'static str,
    pub minor: u32,
    pub sectors: u64,
    /// The kernel's names of what it lies on.
    pub on: Vec<String>,
    /// `linear `, or what else its target says.
    pub status: String,
    /// What follows `thin-pool` in its table.
    pub table: Option<String>,
    pub done: Done,
}

/// Disks that are PVs of `vg0`, and what lies on them.
#[derive(Clone, Debug, Default)]
pub struct Host {
    disks: Vec<(String, Done)>,
    pub layers: Vec<Layer>,
    made: u32,
}

impl Host {
    pub fn new(disks: &[&str]) -> Self {
        let disks = disks
            .iter()
            .map(|name| (name.to_string(), Done::default()))
            .collect();
        Self {
            disks,
            ..Self::default()
        }
    }

    /// Adds a layer on these devices; gives the kernel's name of it.
    pub fn add(
        &mut self,
        lv: &str,
        layer: &'static str,
        on: &[&str],
        sectors: u64,
        status: &str,
    ) -> String {
        let minor = self.made;
        self.made += 1;
        self.layers.push(Layer {
            lv: lv.into(),
            layer,
            minor,
            sectors,
            on: on.iter().map(|name| name.to_string()).collect(),
            status: status.into(),
            table: None,
            done: Done::default(),
        });
        format!("dm-{minor}")
    }

    pub fn layer(&mut self, lv: &str, layer: &str) -> &mut Layer {
        let found = self
            .layers
            .iter_mut()
            .find(|other| other.lv == lv && other.layer == layer);
        found.unwrap_or_else(|| panic!("no layer {layer:?} of {lv}"))
    }

    /// A volume on these disks, with a layer below it that its snapshots lie on, too.
    pub fn add_origin(&mut self, lv: &str, disks: &[&str], sectors: u64) -> String {
        let real = self.add(lv, "real", disks, sectors, "linear ");
        self.add(lv, "", &[&real], sectors, "snapshot-origin ");
        real
    }

    /// A thick snapshot of an origin, with its COW area on these disks.
    pub fn add_snapshot(
        &mut self,
        lv: &str,
        real: &str,
        disks: &[&str],
        cow_sectors: u64,
        status: &str,
    ) {
        let cow = self.add(lv, "cow", disks, cow_sectors, "linear ");
        self.add(lv, "", &[real, &cow], cow_sectors, status);
    }

    /// `/proc/diskstats`
    pub fn diskstats(&self) -> String {
        let disks = (0..)
            .zip(&self.disks)
            .map(|(index, (name, done))| line((8, 16 * index), name, *done));
        let layers = self.layers.iter().map(|layer| {
            line(
                (253, layer.minor),
                &format!("dm-{}", layer.minor),
                layer.done,
            )
        });
        disks.chain(layers).collect()
    }

    /// The device-mapper's answer.
    pub fn device_mapper(&self) -> String {
        self.layers.iter().map(Layer::told).collect()
    }

    /// Names, sizes and layers.
    pub fn names(&self) -> String {
        let disk = |(index, (name, _)): (u32, &(String, Done))| {
            format!(
                "{name}/dev\t8:{}\n{name}/size\t4194304\n{name}/serial\t{name}\n{name}/slaves\t\n",
                16 * index
            )
        };
        (0..)
            .zip(&self.disks)
            .map(disk)
            .chain(self.layers.iter().map(Layer::named))
            .collect()
    }
}

impl Layer {
    fn dm_name(&self) -> String {
        if self.layer.is_empty() {
            format!("{VG}-{}", self.lv)
        } else {
            format!("{VG}-{}-{}", self.lv, self.layer)
        }
    }

    fn dm_uuid(&self) -> String {
        let layer = if self.layer.is_empty() {
            String::new()
        } else {
            format!("-{}", self.layer)
        };
        format!("LVM-{VG_UUID}{}{layer}", plain_uuid(&self.lv))
    }

    fn told(&self) -> String {
        let Self {
            minor,
            sectors,
            status,
            ..
        } = self;
        let (name, uuid) = (self.dm_name(), self.dm_uuid());
        let table = self
            .table
            .as_ref()
            .map(|table| format!("\ttable 0 {sectors} thin-pool {table}\n"));
        let table = table.unwrap_or_default();
        format!("253:{minor}\t{name}\t{uuid}\tactive\n\tstatus 0 {sectors} {status}\n{table}")
    }

    fn named(&self) -> String {
        let Self { minor, sectors, .. } = self;
        let (name, uuid, on) = (self.dm_name(), self.dm_uuid(), self.on.join(" "));
        format!(
            "dm-{minor}/dev\t253:{minor}\ndm-{minor}/size\t{sectors}\ndm-{minor}/dm/name\t{name}\n\
             dm-{minor}/dm/uuid\t{uuid}\ndm-{minor}/slaves\t{on}\n"
        )
    }
}

/// A volume's UUID, made of its name.
fn plain_uuid(lv: &str) -> String {
    let letters: String = lv.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{letters:x<32}")[..32].to_string()
}

/// As `lvs` writes it: groups of 6-4-4-4-4-4-6 letters.
pub fn uuid(lv: &str) -> String {
    let plain = plain_uuid(lv);
    let ends = [0, 6, 10, 14, 18, 22, 26, 32];
    ends.windows(2)
        .map(|ends| &plain[ends[0]..ends[1]])
        .collect::<Vec<_>>()
        .join("-")
}

/// A volume's row in LVM's report, without percentages.
pub fn row(lv: &str, attributes: &str) -> Value {
    json!({
        "lv_name": lv, "lv_uuid": uuid(lv), "lv_attr": attributes, "lv_size": "314572800", "origin": "",
        "pool_lv": "", "data_percent": "", "metadata_percent": "", "copy_percent": "", "lv_health_status": "",
        "lv_time": "1772000000", "lv_tags": "", "lv_when_full": "", "lv_parent": "",
    })
}

/// LVM's report of `vg0` on `sda`.
pub fn report(rows: &[Value]) -> String {
    let vg = json!({
        "vg_name": VG, "vg_uuid": "ItZNPi-sw1Y-qMR0-M1ui-Kz8l-nAXb-ZGUKiO", "vg_size": "2139095040",
        "vg_free": "1073741824", "vg_extent_size": "4194304", "vg_missing_pv_count": "0", "vg_tags": "",
    });
    let pv =
        json!({"pv_name": "/dev/sda", "pv_major": "8", "pv_minor": "0", "pv_size": "2139095040"});
    json!({"report": [{"vg": [vg], "pv": [pv], "lv": rows, "seg": []}]}).to_string()
}
