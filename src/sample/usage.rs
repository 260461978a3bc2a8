//! How much file systems hold, from lines of `NUMBER<TAB>MOUNT<TAB>blocks<TAB>free<TAB>block size`.

use super::mounts::Mount;
use crate::source::files::unescaped;

/// What a file system uses of its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub mount: Mount,
    pub used_bytes: u64,
}

/// What was told, a sentence for each that could not tell, and lines that are neither.
#[derive(Debug, Default, PartialEq)]
pub struct Usages {
    pub usages: Vec<Usage>,
    pub unknown: Vec<String>,
    pub not_understood: Vec<String>,
}

pub fn parse(text: &str) -> Usages {
    let mut found = Usages::default();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let columns: Vec<&str> = line.split('\t').collect();
        match (usage(&columns), &columns[..]) {
            (Some(usage), _) => found.usages.push(usage),
            (None, [number, point, why]) => found.unknown.push(format!(
                "how much the file system on {} (device {number}) holds is not known: {why}",
                unescaped(point)
            )),
            _ => found.not_understood.push(line.to_string()),
        }
    }
    found
}

/// `None` also where more is free than there is.
fn usage(columns: &[&str]) -> Option<Usage> {
    let [number, point, numbers @ ..] = columns else { return None };
    let [blocks, free, size] = numbers else { return None };
    let [blocks, free, size]: [u64; 3] = [blocks.parse().ok()?, free.parse().ok()?, size.parse().ok()?];
    let used_bytes = blocks.checked_sub(free)?.checked_mul(size)?;
    Some(Usage { mount: Mount { number: number.parse().ok()?, point: unescaped(point) }, used_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::diskstats::Number;

    #[test]
    fn what_a_file_system_uses_is_what_is_not_free() {
        let found = parse(
            "253:3\t/mnt/my\\040data\t1000\t400\t4096\n253:5\t/b\tPermission denied\nrubbish\n1:1\t/\t1\t2\t3\n",
        );
        let mount = Mount { number: Number { major: 253, minor: 3 }, point: "/mnt/my data".into() };
        assert_eq!(found.usages, [Usage { mount, used_bytes: 600 * 4096 }]);
        assert_eq!(
            found.unknown,
            ["how much the file system on /b (device 253:5) holds is not known: Permission denied"]
        );
        assert_eq!(found.not_understood, ["rubbish", "1:1\t/\t1\t2\t3"]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_stops_the_program(text in "(\\PC|\n|\t)*") {
            parse(&text);
        }
    }
}
