//! Used space of file systems, from lines of `NUMBER<TAB>MOUNT<TAB>blocks<TAB>free<TAB>block size`.

use super::mounts::Mount;
use crate::source::files::unescaped;

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

pub fn parse(text: &str) -> Usages {
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
    use crate::sample::diskstats::Number;

    #[test]
    fn used_space_is_total_minus_free() {
        let found = parse(
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
        fn any_text_parses_without_panic(text in "(\\PC|\n|\t)*") {
            parse(&text);
        }
    }
}
