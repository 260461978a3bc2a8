//! Which programs run, by the names that the kernel has for them. No command line is read: it may hold a password.

use std::fs;

use super::files::Root;

impl Root {
    /// The name of each process, as `/proc/PID/comm` has it: 15 letters at most. Without `/proc` there are none.
    pub fn process_names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.0.join("proc")) else { return Vec::new() };
        let names = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            entry.file_name().to_str()?.parse::<u32>().ok()?;
            // It may have ended just now.
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            Some(name.trim_end_matches('\n').to_string())
        });
        names.collect()
    }
}
