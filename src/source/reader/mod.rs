//! Readings from a process that may read LVM, for one that may not: `cowbell reader` runs as root without a network, and
//! the daemon, which serves HTTP, as a user without capabilities.
//!
//! They are connected by a Unix socket. The reader sends the lines of a [recording](super::recording), uncompressed. Each
//! connection begins with a complete reading. The daemon sends lines of PIDs, the processes of backups that it watches.

mod client;
mod server;

pub use client::Remote;
pub use server::{Inherited, ReaderServer};

use std::time::Duration;

/// Maximum number of PIDs in a request.
const MAX_PROCESSES: usize = 64;
/// Maximum length of a request, in bytes.
const MAX_REQUEST: usize = 1024;
/// A client that takes nothing for this long is disconnected.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// The request to watch these processes.
pub fn request(pids: &[u32]) -> String {
    let pids: Vec<String> = pids
        .iter()
        .take(MAX_PROCESSES)
        .map(u32::to_string)
        .collect();
    pids.join(" ")
}

/// The PIDs of a request.
pub fn parse_request(line: &str) -> Result<Vec<u32>, String> {
    let pids: Result<Vec<u32>, _> = line.split_ascii_whitespace().map(str::parse).collect();
    let pids = pids.ok().filter(|pids| pids.len() <= MAX_PROCESSES);
    pids.ok_or_else(|| format!("expected up to {MAX_PROCESSES} PIDs, but found {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_list_of_pids() {
        let pids: Vec<u32> = (1..=64).collect();
        assert_eq!(parse_request(&request(&pids)), Ok(pids));
        assert_eq!(parse_request(""), Ok(Vec::new()));
        assert!(request(&[u32::MAX; 100]).len() < MAX_REQUEST);
        for line in ["/etc/shadow", "1 -2", "4294967296", "1,2", &"1 ".repeat(65)] {
            assert!(
                parse_request(line)
                    .unwrap_err()
                    .starts_with("expected up to 64 PIDs, but found"),
                "{line}"
            );
        }
    }
}
