//! What makes a snapshot or pool last until its backup is done: a command, and what else helps if the volume group has
//! too little free space.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Eta;
use crate::topology::Extensible;
use crate::units::{duration_text, rough_text, size_text};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Remedy {
    /// The `lvextend` command; `null` if the volume group has no free extent.
    pub command: Option<String>,
    /// The bytes that it adds, in whole extents.
    pub added_bytes: u64,
    /// Whether that is enough until the backup is done, in 19 of 20 cases.
    pub is_enough: bool,
    /// When the volume is full with it; `null` if it then holds a copy of its whole origin.
    pub full: Option<Eta>,
    /// Without a capital and a full stop.
    pub text: String,
}

impl Remedy {
    /// `full_with` forecasts when the volume is full with so many bytes more.
    pub fn of(volume: &Extensible, needed: u64, full_with: impl Fn(u64) -> Option<Eta>) -> Self {
        let extension = volume.by(needed);
        let added_bytes = extension.as_ref().map_or(0, |extension| extension.bytes);
        let mut remedy = Self {
            command: extension.map(|extension| extension.command),
            added_bytes,
            is_enough: added_bytes >= needed,
            full: full_with(added_bytes),
            text: String::new(),
        };
        remedy.text = remedy.sentence(volume, needed);
        remedy
    }

    fn sentence(&self, volume: &Extensible, needed: u64) -> String {
        let (vg, lasts) = (&volume.vg, self.lasts());
        let within = self.full.map_or("now".into(), |full| {
            format!("within {}", duration_text(full.soonest_s))
        });
        let needs = format!(
            "the backup needs {} more, but VG {vg} has",
            size_text(needed)
        );
        match &self.command {
            Some(command) if self.is_enough => {
                let if_free = if volume.free.is_none() {
                    format!(" if VG {vg} has free space")
                } else {
                    String::new()
                };
                match self.full {
                    Some(_) => {
                        format!(
                            "run `{command}`{if_free}, which makes it last {lasts}, long enough for the backup"
                        )
                    }
                    None => format!("run `{command}`{if_free}, after which it cannot overflow"),
                }
            }
            Some(command) => format!(
                "{needs} only {} free: run `{command}`, which makes it last {lasts}, then slow the writes, or stop the \
                 backup {within}",
                size_text(volume.free.unwrap_or_default())
            ),
            None => format!(
                "{needs} no free space: add a PV with `vgextend {vg} DEVICE`, slow the writes, or stop the backup {within}"
            ),
        }
    }

    /// `about 40 min`
    fn lasts(&self) -> String {
        match self.full.and_then(|full| full.likely_s) {
            Some(likely_s) => format!("about {}", rough_text(likely_s)),
            None => "much longer".into(),
        }
    }
}
