//! What mylvmbackup's hooks say: one datagram is one step of one run.
//!
//! `mylvmbackup 4711 presnapshot vg0/data_snapshot`: the program, the number of its process, the hook that it called,
//! and before it makes a snapshot that one's name, where the hook knows it. Nothing else is taken, so nothing that
//! somebody else writes into the socket gets further than here.

/// LVM's limit for both names together, and the stroke between them.
const LONGEST_NAME: usize = 128;

/// A step of a run of mylvmbackup, by the name of the hook that it calls there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Before it connects to the database: the run begins.
    Preconnect,
    /// Before it takes the database's global read lock.
    Preflush,
    /// With the lock held, before the snapshot is made.
    Presnapshot,
    /// With the snapshot made, before the lock is given back.
    Preunlock,
    /// After the lock was given back.
    Predisconnect,
    Premount,
    Prebackup,
    Backupsuccess,
    Backupfailure,
    /// Before the snapshot is unmounted and removed, however it went.
    Precleanup,
}

impl Step {
    const ALL: [(&'static str, Self); 10] = [
        ("preconnect", Self::Preconnect),
        ("preflush", Self::Preflush),
        ("presnapshot", Self::Presnapshot),
        ("preunlock", Self::Preunlock),
        ("predisconnect", Self::Predisconnect),
        ("premount", Self::Premount),
        ("prebackup", Self::Prebackup),
        ("backupsuccess", Self::Backupsuccess),
        ("backupfailure", Self::Backupfailure),
        ("precleanup", Self::Precleanup),
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, step)| step)
    }
}

/// A step, and whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookMessage {
    /// The process of mylvmbackup: two that run at once are told apart by it.
    pub run: u32,
    pub step: Step,
    /// The snapshot that it is about to make, as `vg0/data_snapshot`; `None` where the hook does not know.
    pub snapshot: Option<String>,
}

/// Understands one datagram.
pub fn parse(text: &str) -> Result<HookMessage, String> {
    let expected = || {
        // A datagram is short, but whoever sends nonsense does not choose how the log looks.
        let found: String = text.chars().take(60).collect();
        format!("expected a hook's word such as \"mylvmbackup 4711 presnapshot\", but found {found:?}")
    };
    let mut words = text.strip_suffix('\n').unwrap_or(text).split(' ');
    let (tool, run, step) = (words.next(), words.next(), words.next().and_then(Step::named));
    let (snapshot, rest) = (words.next(), words.next());
    let run = run.filter(|run| run.bytes().all(|byte| byte.is_ascii_digit()));
    let run = run.and_then(|run| run.parse().ok()).filter(|run| *run > 0);
    match (tool, run, step, rest) {
        (Some("mylvmbackup"), Some(run), Some(step), None) if snapshot.is_none_or(is_name) => {
            Ok(HookMessage { run, step, snapshot: snapshot.map(String::from) })
        }
        _ => Err(expected()),
    }
}

/// Two names as LVM takes them.
fn is_name(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte))
    };
    text.len() <= LONGEST_NAME && text.split_once('/').is_some_and(|(vg, lv)| is_part(vg) && is_part(lv))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_known_by_its_hooks_name() {
        for (name, step) in Step::ALL {
            assert_eq!(
                parse(&format!("mylvmbackup 4711 {name}")),
                Ok(HookMessage { run: 4711, step, snapshot: None })
            );
        }
        assert_eq!(
            parse("mylvmbackup 1 premount\n").map(|told| told.step),
            Ok(Step::Premount),
            "with a line's end"
        );
    }

    #[test]
    fn a_snapshot_may_be_named() {
        let told = parse("mylvmbackup 4711 presnapshot vg0/my-data_snapshot").unwrap();
        assert_eq!(told.snapshot.as_deref(), Some("vg0/my-data_snapshot"));
    }

    #[test]
    fn all_else_is_refused_in_a_sentence_that_quotes_it() {
        for text in [
            "",
            "mylvmbackup",
            "mylvmbackup 4711",
            "mylvmbackup 4711 logerr",
            "mylvmbackup 4711 premount now",
            "mylvmbackup 4711 presnapshot vg0/data now",
            "mylvmbackup 4711 presnapshot vg0/../data",
            "mylvmbackup 4711 presnapshot vg0/<b>",
            "mylvmbackup 4711 presnapshot /data",
            "mylvmbackup -1 premount",
            "mylvmbackup +1 premount",
            "mylvmbackup 0 premount",
            "mylvmbackup 99999999999 premount",
            "mylvmbackup  premount",
            "premount",
            "MYLVMBACKUP 1 premount",
            "<b>mylvmbackup</b> 1 premount",
            "mylvmbackup 1 premount\0",
            "mylvmbackup 1 premount\n\n",
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with("expected a hook's word such as"), "{error}");
            assert!(!error.contains('\0') && !error.contains('\n'), "{error:?}");
        }
        assert!(parse(&"x".repeat(10_000)).unwrap_err().len() < 200);
    }
}
