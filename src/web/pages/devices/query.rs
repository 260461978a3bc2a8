//! What the address of the devices' table says, and how it is written again.

use serde::Deserialize;

use crate::units::Prefix;
use crate::web::pages::text;

/// What the address of the table says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Query {
    pub show: Show,
    pub unit: Prefix,
    pub r#as: As,
    pub sort: Column,
    pub order: Order,
    pub filter: String,
    pub idle: Idle,
}

/// What `bwm-ng` offers: the rate now, and average, maximum and sum since the start.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Show {
    #[default]
    Rate,
    Average,
    Maximum,
    Sum,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum As {
    #[default]
    Bytes,
    Bits,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    #[default]
    Hide,
    Show,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    #[default]
    Down,
    Up,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Column {
    Device,
    Read,
    Written,
    #[default]
    Total,
    Reads,
    Writes,
    Requests,
    Request,
    ReadAwait,
    WriteAwait,
    Queue,
    Busy,
}

impl Column {
    pub const ALL: [Self; 12] = [
        Self::Device,
        Self::Read,
        Self::Written,
        Self::Total,
        Self::Reads,
        Self::Writes,
        Self::Requests,
        Self::Request,
        Self::ReadAwait,
        Self::WriteAwait,
        Self::Queue,
        Self::Busy,
    ];

    /// Its name in the address, and its head.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Device => ("device", "Device"),
            Self::Read => ("read", "Read"),
            Self::Written => ("written", "Written"),
            Self::Total => ("total", "Total"),
            Self::Reads => ("reads", "Reads"),
            Self::Writes => ("writes", "Writes"),
            Self::Requests => ("requests", "Requests"),
            Self::Request => ("request", "Request size"),
            Self::ReadAwait => ("read_await", "Read ms"),
            Self::WriteAwait => ("write_await", "Write ms"),
            Self::Queue => ("queue", "Queue"),
            Self::Busy => ("busy", "Busy %"),
        }
    }

    /// What narrower screens leave out.
    pub fn class(self) -> &'static str {
        match self {
            Self::Device => "",
            Self::Read | Self::Written | Self::Busy => "n",
            Self::Total | Self::ReadAwait | Self::WriteAwait => "n least",
            Self::Reads | Self::Writes | Self::Requests | Self::Request | Self::Queue => "n less",
        }
    }
}

impl Query {
    pub fn show_word(&self) -> &'static str {
        match self.show {
            Show::Rate => "rate",
            Show::Average => "average",
            Show::Maximum => "maximum",
            Show::Sum => "sum",
        }
    }

    pub fn unit_word(&self) -> &'static str {
        if self.unit == Prefix::Binary { "binary" } else { "decimal" }
    }

    /// What is said otherwise than by default, but for the filter.
    pub fn words(&self) -> Vec<(&'static str, &'static str)> {
        let mut words = Vec::new();
        let mut say = |key, value, is_default: bool| {
            if !is_default {
                words.push((key, value));
            }
        };
        say("show", self.show_word(), self.show == Show::Rate);
        say("unit", self.unit_word(), self.unit == Prefix::Binary);
        say("as", "bits", self.r#as == As::Bytes);
        say("sort", self.sort.names().0, self.sort == Column::Total);
        say("order", "up", self.order == Order::Down);
        say("idle", "show", self.idle == Idle::Hide);
        words
    }

    /// The address's query with some words said otherwise.
    pub fn written(&self, otherwise: &[(&'static str, &'static str)]) -> String {
        let mut words = self.words();
        words.retain(|(key, _)| !otherwise.iter().any(|(other, _)| other == key));
        words.extend(otherwise);
        let mut pairs: Vec<String> = words.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if !self.filter.is_empty() {
            pairs.push(format!("filter={}", text::escaped(&self.filter)));
        }
        pairs.join("&")
    }
}
