//! The query of the devices' table, parsed and written.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::quantity::Quantity;

/// The query; defaults are left out of addresses.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Query {
    pub show: Show,
    pub sort: Column,
    pub order: Order,
    pub filter: String,
    pub idle: Idle,
}

/// As in `bwm-ng`: the current rate, or average, maximum and sum since the start.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Show {
    #[default]
    Rate,
    Average,
    Maximum,
    Sum,
}

/// Whether devices that were never used are listed.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    #[default]
    Hide,
    Show,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    #[default]
    Down,
    Up,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Column {
    Device,
    Read,
    Written,
    #[default]
    Total,
    Reads,
    Writes,
    Request,
    ReadAwait,
    WriteAwait,
    Queue,
    Busy,
}

impl Column {
    /// All columns with name in addresses, heading, and CSS classes, which hide some on narrow screens.
    pub const ALL: [(Self, &'static str, &'static str, &'static str); 11] = [
        (Self::Device, "device", "Device", ""),
        (Self::Read, "read", "Read", "n"),
        (Self::Written, "written", "Written", "n"),
        (Self::Total, "total", "Total", "n least"),
        (Self::Reads, "reads", "Reads", "n less"),
        (Self::Writes, "writes", "Writes", "n less"),
        (Self::Request, "request", "Request size", "n less"),
        (Self::ReadAwait, "read_await", "Read ms", "n least"),
        (Self::WriteAwait, "write_await", "Write ms", "n least"),
        (Self::Queue, "queue", "Queue", "n less"),
        (Self::Busy, "busy", "Busy %", "n"),
    ];

    /// `None` of the name.
    pub fn quantity(self) -> Option<Quantity> {
        Some(match self {
            Self::Device => return None,
            Self::Read => Quantity::ReadBytes,
            Self::Written => Quantity::WrittenBytes,
            Self::Total => Quantity::MovedBytes,
            Self::Reads => Quantity::Reads,
            Self::Writes => Quantity::Writes,
            Self::Request => Quantity::RequestBytes,
            Self::ReadAwait => Quantity::ReadAwaitMs,
            Self::WriteAwait => Quantity::WriteAwaitMs,
            Self::Queue => Quantity::QueueDepth,
            Self::Busy => Quantity::Utilisation,
        })
    }
}

impl Query {
    /// Keys and values, without defaults.
    pub fn pairs(&self) -> Map<String, Value> {
        let pairs = |query: &Self| match serde_json::to_value(query) {
            Ok(Value::Object(pairs)) => pairs,
            _ => Map::new(),
        };
        let default = pairs(&Self::default());
        pairs(self)
            .into_iter()
            .filter(|(key, value)| default.get(key) != Some(value))
            .collect()
    }

    /// The query with some values replaced.
    pub fn with(&self, changes: &[(&str, &str)]) -> String {
        let mut pairs = self.pairs();
        pairs.extend(
            changes
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into())),
        );
        let pair = |(key, value): (&String, &Value)| {
            format!(
                "{key}={}",
                crate::web::escaped(value.as_str().unwrap_or_default())
            )
        };
        pairs.iter().map(pair).collect::<Vec<_>>().join("&")
    }
}
