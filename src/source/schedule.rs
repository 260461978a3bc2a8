//! Reads crontabs and the enabled timers of systemd, below a movable root.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Zoned;
use jiff::tz::TimeZone;

use super::clock::now;
use super::files::Root;
use crate::schedule::{Calendar, ScheduledStart, programs};

/// Debian's and RHEL's folders of users' crontabs.
const OF_USERS: [&str; 2] = ["var/spool/cron/crontabs", "var/spool/cron"];
/// Where systemd looks for a unit.
const UNITS: [&str; 4] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];
/// Folders of scripts that crontabs run.
const SCRIPTS: [&str; 4] = ["cron.hourly", "cron.daily", "cron.weekly", "cron.monthly"];
const MAX_FILES: usize = 1_000;
const MAX_BYTES: u64 = 256 * 1024;
/// Entries of a file: every user may write a crontab.
const MAX_ENTRIES: usize = 500;

/// A line for each entry, in the order of the files.
pub fn read(root: &Root, zone: &TimeZone) -> String {
    let now = Zoned::new(now(), zone.clone());
    let mut starts = timers(&root.0, &now);
    for file in [root.0.join("etc/crontab")]
        .into_iter()
        .chain(files(&root.0.join("etc/cron.d")))
    {
        starts.extend(crontab(&root.0, &file, true, &now));
    }
    for folder in OF_USERS {
        for file in files(&root.0.join(folder)) {
            starts.extend(crontab(&root.0, &file, false, &now));
        }
    }
    starts.retain(|start| !start.programs.is_empty());
    starts.iter().map(|start| start.line() + "\n").collect()
}

/// The host's own. Parsing its rules takes more stack than the threads have that read files.
pub fn zone(root: &Root) -> TimeZone {
    let rules = fs::read(root.0.join("etc/localtime"));
    let zone = rules
        .ok()
        .and_then(|rules| TimeZone::tzif("local", &rules).ok());
    zone.unwrap_or(TimeZone::UTC)
}

fn text(file: &Path) -> Option<String> {
    let is_short =
        fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() <= MAX_BYTES);
    fs::read(file)
        .ok()
        .filter(|_| is_short)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The files of a folder, sorted. cron ignores those with a dot in the name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.take(MAX_FILES).map(|entry| entry.path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_none()).collect();
    files.sort();
    files
}

fn crontab(root: &Path, file: &Path, has_user: bool, now: &Zoned) -> Vec<ScheduledStart> {
    let text = text(file).unwrap_or_default();
    let mut starts = Vec::new();
    for line in text.lines().map(str::trim_start) {
        if starts.len() == MAX_ENTRIES {
            break;
        }
        // The times that follow are of another zone.
        if line.starts_with("CRON_TZ") {
            break;
        }
        let Some((calendar, mut command)) = Calendar::of_cron(line) else {
            continue;
        };
        if has_user {
            command = command
                .split_once(char::is_whitespace)
                .map_or("", |of| of.1);
        }
        let mut programs = programs(command);
        for folder in SCRIPTS {
            // anacron runs them at times of its own.
            if programs.iter().any(|name| name == folder) && !command.contains("anacron") {
                let scripts = files(&root.join("etc").join(folder));
                let names = scripts.iter().filter_map(|script| script.file_name());
                programs.extend(names.map(|name| name.to_string_lossy().into_owned()));
            }
        }
        starts.push(ScheduledStart::of(&calendar, now, programs));
    }
    starts
}

/// Those that systemd starts with the system, without changes by other files.
fn timers(root: &Path, now: &Zoned) -> Vec<ScheduledStart> {
    let enabled = fs::read_dir(root.join("etc/systemd/system/timers.target.wants"));
    let enabled = enabled.into_iter().flatten().flatten().take(MAX_FILES);
    let mut starts = Vec::new();
    for name in enabled.filter_map(|entry| entry.file_name().into_string().ok()) {
        let Some(timer) = unit(root, &name) else {
            continue;
        };
        let service = name.replace(".timer", ".service");
        let service = values(&timer, "Unit").pop().unwrap_or(&service).to_string();
        let service = unit(root, &service).unwrap_or_default();
        let commands = values(&service, "ExecStart").join(";");
        for expression in values(&timer, "OnCalendar") {
            if let Some(calendar) = Calendar::of_timer(expression) {
                starts.push(ScheduledStart::of(&calendar, now, programs(&commands)));
            }
        }
    }
    starts
}

/// The text of a unit that no other file changes.
fn unit(root: &Path, name: &str) -> Option<String> {
    let places = UNITS.map(|folder| root.join(folder));
    if places
        .iter()
        .any(|place| place.join(format!("{name}.d")).exists())
    {
        return None;
    }
    places.iter().find_map(|place| text(&place.join(name)))
}

/// The values of a key. An empty one resets those before it.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let mut values = Vec::new();
    for line in unit.lines() {
        let Some(value) = line
            .strip_prefix(key)
            .and_then(|rest| rest.strip_prefix('='))
        else {
            continue;
        };
        match value.trim_start_matches(['-', '@', ':', '+', '!', ' ']) {
            "" => values.clear(),
            value => values.push(value),
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crontabs_and_timers_below_a_root() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "etc/crontab",
            "SHELL=/bin/sh\n0 2 * * * root mylvmbackup\n25 6 * * * root cd / && run-parts /etc/cron.daily\n",
        );
        write("etc/cron.daily/backup", "");
        write("etc/cron.d/other.dpkg-old", "0 1 * * * root x\n");
        write(
            "var/spool/cron/crontabs/root",
            "@daily /opt/nightly.sh secret\n# 1 1 1 1 1 comment\n",
        );
        write("etc/systemd/system/timers.target.wants/b.timer", "");
        write(
            "usr/lib/systemd/system/b.timer",
            "[Timer]\nOnCalendar=\nOnCalendar=03:00\n",
        );
        write(
            "usr/lib/systemd/system/b.service",
            "[Service]\nExecStart=-/usr/bin/borgmatic create\n",
        );
        write(
            "var/spool/cron/crontabs/user",
            &"0 0 30 2 * never\n".repeat(9_000),
        );
        let text = read(&Root(folder.path().into()), &TimeZone::UTC);
        assert_eq!(text.matches("never").count(), MAX_ENTRIES);
        let text = text.replace("\t\tnever\n", "");
        let programs: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split('\t').nth(2))
            .collect();
        assert_eq!(
            programs,
            [
                "borgmatic",
                "mylvmbackup",
                "cd cron.daily backup",
                "nightly.sh"
            ],
            "{text}"
        );
        let starts: Vec<_> = text.lines().filter_map(ScheduledStart::parse).collect();
        assert!(
            starts.iter().all(|start| start.next > Some(now())),
            "{text}"
        );
    }
}
