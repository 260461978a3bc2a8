//! The snapshot that mylvmbackup makes next: the only part of its configuration that leaves the process that reads it.

use std::fmt;

use super::plan::{BackupPlan, size_bytes};
use super::{is_lvm_name, parse};

/// LVM's limit is 127 letters, and no size is as long.
const LONGEST: usize = 127;

/// Plain words only, so that no other text of the file is taken for one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextSnapshot {
    pub group: String,
    pub origin: String,
    /// `None` if it depends on the time.
    pub name: Option<String>,
    /// As written in `lvsize`; `None` of a thin one.
    size: Option<String>,
}

impl NextSnapshot {
    /// From a configuration file; `None` if mylvmbackup would not run with it.
    pub fn parse(text: &str) -> Option<Self> {
        let plan = parse(text).plan()?;
        let has_size = plan.is_thin || plan.size_bytes().is_some();
        let BackupPlan {
            group,
            origin,
            snapshot,
            size,
            is_thin,
            ..
        } = plan;
        let is_plain = |word: &String| is_lvm_name(word) && word.len() <= LONGEST;
        let are_plain = [&group, &origin, &size].into_iter().all(is_plain);
        (has_size && are_plain).then(|| Self {
            group,
            origin,
            name: Some(snapshot).filter(is_plain),
            size: Some(size).filter(|_| !is_thin),
        })
    }

    pub fn bytes(&self) -> Option<u64> {
        size_bytes(self.size.as_ref()?)
    }
}

/// A configuration file with only these keys.
impl fmt::Display for NextSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            origin,
            name,
            size,
        } = self;
        write!(f, "[lvm]\nvgname={group}\nlvname={origin}\n")?;
        // A name with a code, so that this text is read as the file was.
        writeln!(f, "backuplv={}", name.as_deref().unwrap_or("%s"))?;
        match size {
            Some(size) => writeln!(f, "lvsize={size}"),
            None => f.write_str("[misc]\nthin=1\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(file: &str) -> Option<String> {
        NextSnapshot::parse(file).map(|next| next.to_string())
    }

    #[test]
    fn only_the_volume_and_the_snapshots_name_and_size_are_left_of_the_file() {
        let file = "[mysql]\nuser=root\npassword=secret\n[lvm]\nvgname=vg0\nlvname=mysql\nlvsize=1.5G\nbackuplv=snap\n";
        let expected = "[lvm]\nvgname=vg0\nlvname=mysql\nbackuplv=snap\nlvsize=1.5G\n";
        assert_eq!(text(file).as_deref(), Some(expected));
        assert_eq!(
            text(expected).as_deref(),
            Some(expected),
            "parsed by the same parser"
        );
        assert_eq!(NextSnapshot::parse(file).unwrap().bytes(), Some(1536 << 20));
        assert_eq!(
            text("[mysql]\n").as_deref(),
            Some("[lvm]\nvgname=mysql\nlvname=data\nbackuplv=data_snapshot\nlvsize=5G\n"),
            "defaults"
        );
        for (file, expected) in [
            (
                "[lvm]\nbackuplv=snap-%Y\n",
                "[lvm]\nvgname=mysql\nlvname=data\nbackuplv=%s\nlvsize=5G\n",
            ),
            (
                "[misc]\nthin=1\n",
                "[lvm]\nvgname=mysql\nlvname=data\nbackuplv=data_snapshot\n[misc]\nthin=1\n",
            ),
        ] {
            assert_eq!(text(file).as_deref(), Some(expected));
            let next = NextSnapshot::parse(expected);
            assert_eq!(next, NextSnapshot::parse(file), "parsed by the same parser");
        }
    }

    /// A heredoc that ends is a value. None of these begins one of a name or a size.
    const LINES: [&str; 10] = [
        "[mysql]\n",
        "[lvm]\n",
        "password=secret\n",
        "password=<<END\n",
        "secret\n",
        "END\n",
        "vgname=vg0\n",
        "lvname=mysql\r\n",
        "lvsize=5G\n",
        "#lvname=secret\n",
    ];

    /// A password in the wrong line, or a file with which mylvmbackup would not run.
    #[test]
    fn of_anything_else_nothing_is_left() {
        let long = format!("[lvm]\nvgname={}\n", "a".repeat(128));
        for file in [
            "",
            "password=secret\n",
            "[lvm]\nvgname=vg0\nsecret\n",
            "[lvm]\nvgname=vg0 secret\n",
            "[lvm]\nvgname=vg0\nvgname=secret\n",
            "[lvm]\nvgname=\"vg0\"\n",
            "[lvm]\nlvname=<<END\nsecret\nsecret\nEND\n",
            "[lvm]\nlvname=<<END\nsecret\n",
            "[lvm]\nlvname=-secret\n",
            "[lvm]\nlvsize=5G # secret\n",
            "[lvm]\nlvsize=secret\n",
            "[lvm]\nlvsize=10%ORIGIN\n",
            &long,
        ] {
            assert_eq!(text(file), None, "{file:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_order_of_lines_lets_the_password_out(lines in proptest::collection::vec(0..LINES.len(), 0..12)) {
            let file: String = lines.iter().map(|number| LINES[*number]).collect();
            assert!(text(&file).is_none_or(|text| !text.contains("secret")), "{file:?}");
        }

        #[test]
        fn of_any_file_the_text_has_few_plain_lines(file in "(\\PC|\n|=|\\[lvm\\]\n|lvsize=|vgname=|lvname=|<<)*") {
            if let Some(text) = text(&file) {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "[]=_.+-%\n".contains(c);
                assert!((5..=6).contains(&text.lines().count()) && text.chars().all(is_plain), "{text:?}");
            }
        }
    }
}
