//! What Prometheus and its kin read: the last tick as metrics.
//!
//! A scrape renders what is in memory: no LVM call, no query. An unknown value has no sample, never 0. If ticks do not
//! arrive, the machine has no samples either, since old values would look like new ones. Each name ends in its base unit. A
//! state set names the state in a label of the metric's own name, as OpenMetrics wants it.

mod backups;
mod devices;
mod eta;
mod exposition;
mod family;
mod own;
#[cfg(test)]
mod tests;
mod volumes;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::present::Present;
pub use exposition::Format;
use family::Families;

/// About as long is the text of a device and of a volume.
const DEVICE_BYTES: usize = 2_000;
const VOLUME_BYTES: usize = 2_500;

/// A tick as metrics.
#[derive(Debug)]
struct LastTick(Arc<Present>);

impl Collector for LastTick {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let (present, families) = (&*self.0, &mut Families::new(encoder));
        own::encode(present, families)?;
        if !present.is_fresh() {
            return Ok(());
        }
        devices::encode(&present.interval, families)?;
        volumes::encode(present, families)?;
        backups::encode(present, families)
    }
}

/// The last tick as text.
pub fn metrics(present: Arc<Present>, format: Format) -> Result<String, fmt::Error> {
    let topology = &present.interval.topology;
    let size = topology.devices.len() * DEVICE_BYTES + topology.volumes.len() * VOLUME_BYTES;
    let mut registry = Registry::default();
    registry.register_collector(Box::new(LastTick(present)));
    exposition::text(&registry, format, size)
}
