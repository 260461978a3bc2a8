//! Which block devices are mounted where, from lines of `/proc/self/mountinfo`.

use super::diskstats::Number;
use crate::source::files::unescaped;

/// One mount of a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub number: Number,
    /// The folder on which it is mounted.
    pub point: String,
}

/// Understands lines of `id parent major:minor root point …`; gives those that are not like that, too.
///
/// Source: `Documentation/filesystems/proc.rst`, section 3.5.
pub fn parse(text: &str) -> (Vec<Mount>, Vec<String>) {
    let (mut mounts, mut not_understood) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.is_empty()) {
        match mount(line) {
            Some(mount) => mounts.push(mount),
            None => not_understood.push(line.to_string()),
        }
    }
    (mounts, not_understood)
}

fn mount(line: &str) -> Option<Mount> {
    let mut words = line.split(' ');
    let number = words.nth(2)?.parse().ok()?;
    Some(Mount { number, point: unescaped(words.nth(1)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounts_device_and_folder_are_read() {
        let (mounts, not_understood) = parse(
            "36 35 253:3 / /mnt/my\\040data rw,noatime shared:1 - xfs /dev/mapper/vg0-data rw\n37 35 rubbish\n",
        );
        assert_eq!(mounts, [Mount { number: Number { major: 253, minor: 3 }, point: "/mnt/my data".into() }]);
        assert_eq!(not_understood, ["37 35 rubbish"]);
    }

    #[test]
    fn what_is_no_escape_stays() {
        assert_eq!(unescaped("a\\b\\134\\9"), "a\\b\\\\9");
    }

    proptest::proptest! {
        #[test]
        fn no_text_stops_the_program(text in "(\\PC|\n| )*") {
            parse(&text);
        }
    }
}
