//! Names of running processes. Command lines are not read, since they may contain passwords.

use std::fs;

use super::files::Root;

impl Root {
    /// The name of each process from `/proc/PID/comm`, at most 15 bytes. Empty without `/proc`.
    pub fn process_names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.0.join("proc")) else { return Vec::new() };
        let names = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            entry.file_name().to_str()?.parse::<u32>().ok()?;
            // The process may have ended.
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            Some(name.trim_end_matches('\n').to_string())
        });
        names.collect()
    }
}
