//! What Prometheus and its kin read: the last tick as metrics.
//!
//! A scrape renders what is in memory: no LVM call, no query. An unknown value has no sample, never 0. If ticks do not
//! arrive, the machine has no samples either, since old values would look like new ones. Each name ends in its base unit.

mod backups;
mod devices;
mod exposition;
mod own;
#[cfg(test)]
mod tests;

use exposition::Exposition;
pub use exposition::ExpositionFormat;

use crate::present::Present;

/// About as long is the text of a device and of a volume.
const DEVICE_BYTES: usize = 2_000;
const VOLUME_BYTES: usize = 2_500;

/// The last tick as text.
pub fn metrics(present: &Present, format: ExpositionFormat) -> String {
    let topology = &present.interval.topology;
    let size = topology.devices.len() * DEVICE_BYTES + topology.volumes.len() * VOLUME_BYTES;
    let mut out = Exposition::new(format, size);
    own::write(present, &mut out);
    if present.is_fresh() {
        devices::write_devices(&present.interval, &mut out);
        devices::write_volumes(present, &mut out);
        backups::write(present, &mut out);
    }
    out.finish()
}
