//! Mounts of block devices, from `/proc/self/mountinfo`, and the used space of the file systems on snapshots.

use std::path::Path;

use super::diskstats::Number;
use crate::source::files::unescaped;

/// One mount of a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub number: Number,
    /// The directory that it is mounted on.
    pub point: String,
}

/// Parses lines of `id parent major:minor root point …`; also returns invalid lines.
///
/// Source: `Documentation/filesystems/proc.rst`, section 3.5.
pub fn parse(text: &str) -> (Vec<Mount>, Vec<String>) {
    super::parse_lines(text, mount)
}

fn mount(line: &str) -> Option<Mount> {
    let mut words = line.split(' ');
    let number = words.nth(2)?.parse().ok()?;
    Some(Mount {
        number,
        point: unescaped(words.nth(1)?),
    })
}

/// The points of other mounts in those of these devices, or over them, the latest first. `/` is left out: it cannot be
/// unmounted.
pub fn inside(mounts: &[Mount], numbers: &[Number]) -> Vec<String> {
    let mut own: Vec<&str> = Vec::new();
    let mut inside = Vec::new();
    for mount in mounts {
        if numbers.contains(&mount.number) {
            own.extend((mount.point != "/").then_some(&*mount.point));
        } else if own
            .iter()
            .any(|own| Path::new(&mount.point).starts_with(own))
        {
            inside.push(mount.point.clone());
        }
    }
    inside.reverse();
    inside
}

/// The used space of a mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub mount: Mount,
    pub used_bytes: u64,
}

/// Known usages, a sentence for each file system whose usage is unknown, and invalid lines.
#[derive(Debug, Default, PartialEq)]
pub struct Usages {
    pub usages: Vec<Usage>,
    pub unknown: Vec<String>,
    pub unparsed: Vec<String>,
}

/// Parses lines of `NUMBER<TAB>MOUNT<TAB>blocks<TAB>free<TAB>block size`.
pub fn parse_usage(text: &str) -> Usages {
    let mut found = Usages::default();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let columns: Vec<&str> = line.split('\t').collect();
        match (usage(&columns), &columns[..]) {
            (Some(usage), _) => found.usages.push(usage),
            (None, [number, point, why]) => found.unknown.push(format!(
                "the usage of the file system on {} (device {number}) is unknown: {why}",
                unescaped(point)
            )),
            _ => found.unparsed.push(line.to_string()),
        }
    }
    found
}

/// `None` also if free exceeds total.
fn usage(columns: &[&str]) -> Option<Usage> {
    let [number, point, numbers @ ..] = columns else {
        return None;
    };
    let [blocks, free, size] = numbers else {
        return None;
    };
    let [blocks, free, size]: [u64; 3] =
        [blocks.parse().ok()?, free.parse().ok()?, size.parse().ok()?];
    let used_bytes = blocks.checked_sub(free)?.checked_mul(size)?;
    Some(Usage {
        mount: Mount {
            number: number.parse().ok()?,
            point: unescaped(point),
        },
        used_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_in_a_directory_or_over_it_is_inside() {
        let points = [
            "8:1 /",
            "253:3 /mnt/s",
            "8:2 /mnt/s/boot",
            "8:3 /mnt/sum",
            "8:4 /mnt/s",
        ];
        let mounts = points.map(|line| {
            let (number, point) = line.split_once(' ').unwrap();
            Mount {
                number: number.parse().unwrap(),
                point: point.into(),
            }
        });
        let found = |number: &str| inside(&mounts, &[number.parse().unwrap()]);
        assert_eq!(found("253:3"), ["/mnt/s", "/mnt/s/boot"]);
        assert!(found("8:1").is_empty() && found("8:2").is_empty());
    }

    #[test]
    fn a_mount_has_a_device_and_a_directory() {
        let (mounts, unparsed) = parse(
            "36 35 253:3 / /mnt/my\\040data rw,noatime shared:1 - xfs /dev/mapper/vg0-data rw\n37 35 rubbish\n",
        );
        assert_eq!(
            mounts,
            [Mount {
                number: Number {
                    major: 253,
                    minor: 3
                },
                point: "/mnt/my data".into()
            }]
        );
        assert_eq!(unparsed, ["37 35 rubbish"]);
    }

    #[test]
    fn invalid_escapes_are_literal() {
        assert_eq!(unescaped("a\\b\\134\\9"), "a\\b\\\\9");
    }

    proptest::proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n| )*") {
            parse(&text);
        }
    }

    #[test]
    fn used_space_is_total_minus_free() {
        let found = parse_usage(
            "253:3\t/mnt/my\\040data\t1000\t400\t4096\n253:5\t/b\tPermission denied\nrubbish\n1:1\t/\t1\t2\t3\n",
        );
        let mount = Mount {
            number: Number {
                major: 253,
                minor: 3,
            },
            point: "/mnt/my data".into(),
        };
        assert_eq!(
            found.usages,
            [Usage {
                mount,
                used_bytes: 600 * 4096
            }]
        );
        assert_eq!(
            found.unknown,
            ["the usage of the file system on /b (device 253:5) is unknown: Permission denied"]
        );
        assert_eq!(found.unparsed, ["rubbish", "1:1\t/\t1\t2\t3"]);
    }

    proptest::proptest! {
        #[test]
        fn any_usage_parses_without_panic(text in "(\\PC|\n|\t)*") {
            parse_usage(&text);
        }
    }
}
