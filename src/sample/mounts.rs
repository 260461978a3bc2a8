//! Mounts of block devices, from `/proc/self/mountinfo`.

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
