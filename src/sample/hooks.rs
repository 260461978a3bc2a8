//! Messages from mylvmbackup's hooks: one datagram for each step of a run, such as `mylvmbackup 4711 presnapshot
//! vg0/snap origin=vg0/data type=rsnap`: program, PID, hook, and for the first steps the snapshot's name, its origin and the
//! setting `backuptype`, as far as known. Everything else is rejected here.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;

/// LVM's limit for a group's and a volume's name together, with the slash.
const LONGEST_NAME: usize = 128;

/// A step of mylvmbackup, named after the hook that it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Before it connects to the database: the run begins.
    Preconnect,
    /// Before it takes the global read lock.
    Preflush,
    /// With the lock held, before it creates the snapshot.
    Presnapshot,
    /// After it created the snapshot, before it releases the lock.
    Preunlock,
    /// After it released the lock.
    Predisconnect,
    Premount,
    Prebackup,
    Backupsuccess,
    Backupfailure,
    /// Before it unmounts and removes the snapshot, after success or failure.
    Precleanup,
}

impl Step {
    fn named(name: &str) -> Option<Self> {
        let name: StrDeserializer<serde::de::value::Error> = name.into_deserializer();
        Self::deserialize(name).ok()
    }
}

/// One message of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookMessage {
    /// The PID of mylvmbackup, which distinguishes concurrent runs.
    pub run: u32,
    pub step: Step,
    /// The snapshot to be created, as `vg0/data_snapshot`; `None` if the hook does not know it.
    pub snapshot: Option<String>,
    /// The volume to be backed up, as `vg0/data`.
    pub origin: Option<String>,
    /// Whether it copies only what has changed.
    pub is_incremental: bool,
}

/// Parses one datagram.
pub fn parse(text: &str) -> Result<HookMessage, String> {
    let expected = || {
        // Keeps arbitrary input out of the log.
        let found: String = text.chars().take(60).collect();
        format!(
            "expected a hook message such as \"mylvmbackup 4711 presnapshot\", but found {found:?}"
        )
    };
    let mut words = text.strip_suffix('\n').unwrap_or(text).split(' ');
    let (tool, run, step) = (
        words.next(),
        words.next(),
        words.next().and_then(Step::named),
    );
    let run = run.filter(|run| run.bytes().all(|byte| byte.is_ascii_digit()));
    let run = run.and_then(|run| run.parse().ok()).filter(|run| *run > 0);
    let (Some("mylvmbackup"), Some(run), Some(step)) = (tool, run, step) else {
        return Err(expected());
    };
    let mut message = HookMessage {
        run,
        step,
        snapshot: None,
        origin: None,
        is_incremental: false,
    };
    words
        .all(|word| message.take(word))
        .then_some(message)
        .ok_or_else(expected)
}

impl HookMessage {
    /// Takes another word, each kind once; false if it is none.
    fn take(&mut self, word: &str) -> bool {
        let (place, name) = match word.split_once('=') {
            Some(("type", kind)) => {
                self.is_incremental = kind == "rsnap";
                return kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
            }
            Some(("origin", name)) => (&mut self.origin, name),
            _ => (&mut self.snapshot, word),
        };
        place.is_none() && is_name(name) && place.insert(name.into()) == name
    }
}

/// `group/volume` in characters that LVM allows.
fn is_name(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte))
    };
    text.len() <= LONGEST_NAME
        && text
            .split_once('/')
            .is_some_and(|(vg, lv)| is_part(vg) && is_part(lv))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hook_name_is_a_step() {
        for (name, step) in [
            ("preconnect", Step::Preconnect),
            ("preflush", Step::Preflush),
            ("presnapshot", Step::Presnapshot),
            ("preunlock", Step::Preunlock),
            ("predisconnect", Step::Predisconnect),
            ("premount", Step::Premount),
            ("prebackup", Step::Prebackup),
            ("backupsuccess", Step::Backupsuccess),
            ("backupfailure", Step::Backupfailure),
            ("precleanup", Step::Precleanup),
        ] {
            assert_eq!(
                parse(&format!("mylvmbackup 4711 {name}")),
                Ok(HookMessage {
                    run: 4711,
                    step,
                    snapshot: None,
                    origin: None,
                    is_incremental: false
                })
            );
        }
        assert_eq!(
            parse("mylvmbackup 1 premount\n").map(|message| message.step),
            Ok(Step::Premount),
            "with a final newline"
        );
    }

    #[test]
    fn a_message_may_name_the_snapshot() {
        let message = parse("mylvmbackup 4711 presnapshot vg0/my-data_snapshot").unwrap();
        assert_eq!(message.snapshot.as_deref(), Some("vg0/my-data_snapshot"));
        let message = parse("mylvmbackup 4711 preconnect origin=vg0/data type=rsnap").unwrap();
        assert_eq!(
            (message.origin.as_deref(), message.snapshot),
            (Some("vg0/data"), None)
        );
        assert!(message.is_incremental);
    }

    #[test]
    fn other_messages_are_rejected_and_quoted() {
        for text in [
            "",
            "mylvmbackup",
            "mylvmbackup 4711",
            "mylvmbackup 4711 logerr",
            "mylvmbackup 4711 premount now",
            "mylvmbackup 4711 presnapshot vg0/data now",
            "mylvmbackup 4711 presnapshot vg0/data vg0/other",
            "mylvmbackup 4711 presnapshot origin=data",
            "mylvmbackup 4711 presnapshot type=<b>",
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
            assert!(
                error.starts_with("expected a hook message such as"),
                "{error}"
            );
            assert!(!error.contains('\0') && !error.contains('\n'), "{error:?}");
        }
        assert!(parse(&"x".repeat(10_000)).unwrap_err().len() < 200);
    }
}
