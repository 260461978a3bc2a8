//! The configuration of `cowbell guard`: what it may extend, and how far. The guard runs as root, so its limits are
//! required, and root alone may write the file.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::values::{AbsolutePath, Bytes, Pattern, USERS, duration, unexpected, user_numbers};
use super::{ConfigError, invalid};

/// The file if `--config` names none.
pub const GUARD_PATH: &str = "/etc/cowbell/guard.toml";
/// Writing by the group or others.
const WRITABLE: u32 = 0o022;
/// Extensions of one snapshot unless the file says more: a third of what is left each time, and two for what was not foreseen.
const STEPS: u32 = 6;
/// Longer holds make applications fail.
const HOLD: Duration = Duration::from_secs(5);
/// Writers are slowed no longer than this unless the file says more.
const SLOWED: Duration = Duration::from_secs(600);
/// `PATH_MAX` without its final NUL.
const LONGEST_PATH: usize = 4095;

/// Whether the guard acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuardMode {
    /// It only says which extensions it would make.
    DryRun,
    On,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct GuardSettings {
    pub mode: GuardMode,
    /// Ends suspensions that a killed command of LVM left behind, in both modes.
    #[serde(default = "yes")]
    pub heal_suspended: bool,
    /// Also guards what dmeventd extends, but later than otherwise.
    #[serde(default)]
    pub beside_dmeventd: bool,
    /// By name.
    pub vg: BTreeMap<String, GroupLimits>,
    /// Of a volume, the first whose name matches counts.
    pub volume: Vec<VolumeLimits>,
    /// `None`: it slows no writer.
    pub slow_writers: Option<SlowWriters>,
}

/// The administrator's commands that slow writers, such as the applier of a replica, and end that.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SlowWriters {
    pub command: AbsolutePath<LONGEST_PATH>,
    pub undo: AbsolutePath<LONGEST_PATH>,
    /// Who runs both: not root.
    #[serde(deserialize_with = "other_user")]
    pub user: SlowingUser,
    /// After so long, the undo is run in any case.
    #[serde(default = "slowed")]
    pub at_most: LongestTime,
}

/// A user of this machine other than root.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
pub struct SlowingUser {
    pub user: u32,
    pub group: u32,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct GroupLimits {
    /// Free space that the guard leaves.
    pub keep_free: Bytes,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct VolumeLimits {
    pub name: Pattern,
    pub largest: Bytes,
    /// Of all volumes that it is for.
    pub add_at_most_per_day: Bytes,
    #[serde(default = "steps")]
    pub steps_per_backup: u32,
    #[serde(default)]
    pub longest_hold: LongestTime,
}

/// How long an extension may hold up writes, or writers may be slowed.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct LongestTime(pub Duration);

impl Default for LongestTime {
    fn default() -> Self {
        Self(HOLD)
    }
}

impl TryFrom<String> for LongestTime {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let found = duration(&text).filter(|length| !length.is_zero());
        found
            .map(Self)
            .ok_or_else(|| unexpected("a duration such as \"5s\"", &text))
    }
}

fn other_user<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SlowingUser, D::Error> {
    let name = String::deserialize(deserializer)?;
    match user_numbers(&name) {
        Some((user, group)) if user != 0 => Ok(SlowingUser { user, group }),
        _ => {
            let expected = format!("a user of {USERS} other than root, such as \"mysql\"");
            Err(D::Error::custom(unexpected(&expected, &name)))
        }
    }
}

fn yes() -> bool {
    true
}

fn steps() -> u32 {
    STEPS
}

fn slowed() -> LongestTime {
    LongestTime(SLOWED)
}

impl GuardSettings {
    /// Reads the file, which only root may write.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let cannot = |why: String| {
            let path = path.display();
            ConfigError(format!("cannot read the configuration {path}: {why}"))
        };
        let text = std::fs::read_to_string(path).map_err(|error| {
            let hint = match error.kind() {
                ErrorKind::NotFound => "; docs/guard.md has one to copy",
                _ => "",
            };
            cannot(format!("{error}{hint}"))
        })?;
        by_root_alone("the configuration", path)?;
        let settings = Self::parse(path, &text)?;
        let slow = settings.slow_writers.as_ref();
        for program in slow.into_iter().flat_map(|it| [&it.command, &it.undo]) {
            by_root_alone("the program", &program.0)?;
        }
        Ok(settings)
    }

    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let settings: Self = toml::from_str(text).map_err(|error| invalid(path, text, &error))?;
        for limits in &settings.volume {
            let (vg, _) = limits.name.as_str().split_once('/').unwrap_or_default();
            let is_exact = !vg.contains(['*', '?', '[']);
            if settings.vg.is_empty() || is_exact && !settings.vg.contains_key(vg) {
                return Err(ConfigError(format!(
                    "in the configuration {}: volumes {} need a table [vg.{vg}] with `keep_free`, the space that the guard \
                     leaves in their group",
                    path.display(),
                    limits.name.as_str(),
                )));
            }
        }
        let slow = settings.slow_writers.as_ref();
        for program in slow.into_iter().flat_map(|it| [&it.command, &it.undo]) {
            let found = std::fs::metadata(&program.0);
            if !found.is_ok_and(|file| file.is_file() && file.mode() & 0o111 != 0) {
                return Err(ConfigError(format!(
                    "in the configuration {}: {} in [slow_writers] is no program that can be run",
                    path.display(),
                    program.0.display(),
                )));
            }
        }
        Ok(settings)
    }

    /// The limits of a volume; `None` if it is not guarded.
    pub fn limits(&self, vg: &str, lv: &str) -> Option<(usize, &VolumeLimits)> {
        let mut all = self.volume.iter().enumerate();
        let found = all.find(|(_, limits)| limits.name.matches(vg, lv));
        found.filter(|_| self.vg.contains_key(vg))
    }
}

/// Fails if others than root can write a file, or replace it.
fn by_root_alone(what: &str, path: &Path) -> Result<(), ConfigError> {
    let cannot = |error| ConfigError(format!("cannot read {what} {}: {error}", path.display()));
    let path = std::fs::canonicalize(path).map_err(cannot)?;
    for place in path.ancestors() {
        let found = std::fs::metadata(place).map_err(cannot)?;
        // In a folder like /tmp, others cannot replace a file of root.
        let is_sticky = found.is_dir() && found.mode() & 0o1000 != 0;
        if found.uid() != 0 || found.mode() & WRITABLE != 0 && !is_sticky {
            return Err(ConfigError(format!(
                "{what} {} may be written by root alone, since the guard acts as root, but others can write {place}: run \
                 `chown root:root {place}` and `chmod go-w {place}`",
                path.display(),
                place = place.display(),
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "mode = \"on\"\n[vg.vg0]\nkeep_free = \"20 GiB\"\n[[volume]]\nname = \"vg0/*_snapshot\"\n\
        largest = \"60 GiB\"\nadd_at_most_per_day = \"40GiB\"\n";

    fn refused(text: &str) -> String {
        let path = Path::new("guard.toml");
        let error = GuardSettings::parse(path, text).unwrap_err();
        error.to_string()
    }

    #[test]
    fn limits_are_those_of_the_first_pattern_of_a_named_group() {
        let more = "[[volume]]\nname = \"*/*\"\nlargest = \"1GiB\"\nadd_at_most_per_day = \"1GiB\"\nlongest_hold = \"1s\"\n";
        let settings = GuardSettings::parse(Path::new("g"), &format!("{GOOD}{more}")).unwrap();
        let of = |vg, lv| settings.limits(vg, lv).map(|(index, _)| index);
        assert_eq!(of("vg0", "data_snapshot"), Some(0));
        assert_eq!(of("vg0", "data"), Some(1));
        assert_eq!(of("vg1", "data"), None);
        let (_, limits) = settings.limits("vg0", "a_snapshot").unwrap();
        assert_eq!(
            (limits.largest.0, limits.steps_per_backup),
            (60 << 30, STEPS)
        );
        assert!(settings.heal_suspended && !settings.beside_dmeventd);
    }

    #[test]
    fn each_limit_is_required() {
        for key in [
            "mode",
            "keep_free",
            "name",
            "largest",
            "add_at_most_per_day",
        ] {
            let lines = GOOD.lines().filter(|line| !line.starts_with(key));
            let text: String = lines.map(|line| format!("{line}\n")).collect();
            let error = refused(&text);
            assert!(error.contains(&format!("missing field `{key}`")), "{error}");
        }
        let without_group = GOOD.replace("[vg.vg0]", "[vg.vg1]");
        let error = refused(&without_group);
        assert!(error.contains("need a table [vg.vg0]"), "{error}");
    }

    #[test]
    fn what_it_cannot_use_is_named_with_its_line() {
        for (from, to, expected) in [
            (
                "\"on\"",
                "\"off\"",
                "line 1, `mode = \"off\"`: unknown variant",
            ),
            (
                "\"60 GiB\"",
                "\"lots\"",
                "line 6, `largest = \"lots\"`: expected a whole number of",
            ),
            ("vg0/*_snapshot", "data", "expected a pattern of volumes"),
            ("mode", "io_max = 3\nmode", "unknown field `io_max`"),
            (
                "[[volume]]",
                "[slow_writers]\ncommand = \"/bin/true\"\nuser = \"nobody\"\n[[volume]]",
                "missing field `undo`",
            ),
            (
                "[[volume]]",
                "[slow_writers]\ncommand = \"/bin/true\"\nundo = \"/bin/true\"\nuser = \"root\"\n[[volume]]",
                "expected a user of /etc/passwd other than root",
            ),
            (
                "[[volume]]",
                "[slow_writers]\ncommand = \"/bin/true\"\nundo = \"/none\"\nuser = \"nobody\"\n[[volume]]",
                "/none in [slow_writers] is no program",
            ),
        ] {
            let error = refused(&GOOD.replace(from, to));
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_file_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("guard.toml");
        std::fs::write(&path, GOOD).unwrap();
        let allow = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        allow(&path, 0o644);
        GuardSettings::load(&path).unwrap();
        for (place, mode) in [(&*path, 0o664), (&*path, 0o646), (folder.path(), 0o777)] {
            allow(place, mode);
            let error = GuardSettings::load(&path).unwrap_err().to_string();
            assert!(error.contains("by root alone"), "{error}");
            allow(place, 0o700);
        }
        std::os::unix::fs::chown(&path, Some(1), None).unwrap();
        assert!(GuardSettings::load(&path).is_err());
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        // Neither a program that others could put something else into, run as the user of the database.
        let program = folder.path().join("pause");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        allow(&program, 0o757);
        let slow = format!(
            "[slow_writers]\ncommand = {program:?}\nundo = \"/bin/true\"\nuser = \"nobody\"\n"
        );
        std::fs::write(&path, format!("{GOOD}{slow}")).unwrap();
        let error = GuardSettings::load(&path).unwrap_err().to_string();
        assert!(
            error.contains("the program") && error.contains("by root alone"),
            "{error}"
        );
    }
}
