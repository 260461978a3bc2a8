//! The names, units and labels of stored quantities as metrics: what OpenMetrics files and remote write share.

use super::topics::Topic;
use crate::quantity::Quantity;

/// A quantity as a gauge in its base unit.
pub struct Metric {
    /// The whole name.
    pub family: String,
    pub unit: &'static str,
    /// How many of the quantity's own units make one of these.
    pub scale: f64,
}

impl Metric {
    pub fn of(topic: &Topic, quantity: Quantity) -> Self {
        let (name, unit) = quantity.metric();
        Self {
            family: format!("{}_{name}_{unit}", prefix(topic)),
            unit,
            scale: quantity.unit().per_base_unit(),
        }
    }
}

/// The labels of a subject.
pub fn labels(topic: &Topic) -> Vec<(&'static str, &str)> {
    let id = topic.id.as_deref().unwrap_or_default();
    match (topic.word(), topic.name.split_once('/')) {
        ("volume", Some((vg, lv))) => vec![("vg", vg), ("lv", lv), ("uuid", id)],
        ("device", _) => vec![("name", &topic.name), ("uuid", id)],
        _ => Vec::new(),
    }
}

/// The total has names of its own, so that no sum counts it too.
fn prefix(topic: &Topic) -> &'static str {
    match topic.word() {
        "device" => "cowbell_device",
        "volume" => "cowbell_volume",
        "total" => "cowbell_total",
        _ => "cowbell_host",
    }
}
