//! What cowbell says of where and how it runs: the machine's hashed ID, and its own resource usage from `/proc/self`.

use std::fmt::Write;

use procfs::process::Process;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

/// machine-id(5) wants the ID itself kept from networks: it is hashed as `systemd-id128 machine-id --app-specific` does.
const FILE: &str = "/etc/machine-id";
/// Random; it stands for cowbell, and never changes.
const APPLICATION: [u8; 16] = [
    0x4d, 0x1c, 0x9f, 0x6e, 0x0b, 0x52, 0x47, 0xa8, 0x93, 0xe1, 0x7a, 0x35, 0xc4, 0x60, 0xd2, 0x8b,
];
/// Bytes that SHA-256 takes at once.
const BLOCK: usize = 64;

/// CPU time, memory and writes of this process. `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OwnCost {
    pub cpu_seconds: Option<f64>,
    pub rss_bytes: Option<u64>,
    /// Bytes that were or will be written to a disk.
    pub written_bytes: Option<u64>,
}

/// Reads three small files; for requests, not for every tick.
pub fn own_cost() -> OwnCost {
    let Ok(process) = Process::myself() else {
        return OwnCost::default();
    };
    let stat = process.stat().ok();
    let ticks_per_second = procfs::ticks_per_second() as f64;
    OwnCost {
        cpu_seconds: stat
            .as_ref()
            .map(|stat| (stat.utime + stat.stime) as f64 / ticks_per_second),
        rss_bytes: stat.map(|stat| stat.rss * procfs::page_size()),
        written_bytes: process.io().ok().map(|io| io.write_bytes),
    }
}

/// A name of this machine that tells hosts of one name apart, in 32 hexadecimal digits. The error says why there is none, and what to do.
pub fn machine_id() -> Result<String, String> {
    let way_out = "run `systemd-machine-id-setup`";
    let text = std::fs::read_to_string(FILE).map_err(|error| {
        format!("cannot read the ID of this machine in {FILE}: {error}; {way_out}")
    })?;
    let id = u128::from_str_radix(text.trim(), 16)
        .ok()
        .filter(|_| text.trim().len() == 32);
    let id =
        id.ok_or_else(|| format!("{FILE} holds no ID: expected 32 hexadecimal digits; {way_out}"))?;
    Ok(hashed(id.to_be_bytes(), APPLICATION))
}

/// The first half of HMAC-SHA256 over the application, keyed by the ID, as a UUID of version 4.
fn hashed(id: [u8; 16], application: [u8; 16]) -> String {
    let keyed = |pad: u8| {
        let mut key = [pad; BLOCK];
        key.iter_mut()
            .zip(id)
            .for_each(|(byte, of_id)| *byte ^= of_id);
        Sha256::new().chain_update(key)
    };
    let inner = keyed(0x36).chain_update(application).finalize();
    let mut hash: Vec<u8> = keyed(0x5c).chain_update(inner).finalize()[..16].to_vec();
    hash[6] = hash[6] & 0x0f | 0x40;
    hash[8] = hash[8] & 0x3f | 0x80;
    hash.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `systemd-id128 machine-id --app-specific=4d1c9f6e0b5247a893e17a35c460d28b` has it.
    #[test]
    fn the_id_is_hashed_as_systemd_does() {
        let id = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef_u128.to_be_bytes();
        assert_eq!(hashed(id, APPLICATION), "d6574f276012430680cd801a824d8513");
    }
}
