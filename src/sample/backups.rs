//! Processes of running backups, from lines `PID<TAB>START<TAB>ANCESTORS` or `PID<TAB>ended`, and those below them that
//! failed, from lines `RUN<TAB>MILLISECONDS<TAB>child|descendant<TAB>STATUS<TAB>NAME`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What is known of a watched process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupProcess {
    pub pid: u32,
    /// `None` once it has ended.
    pub running: Option<RunningProcess>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningProcess {
    /// Clock ticks from boot to its start. With the PID, it identifies a process.
    pub started: u64,
    /// The PIDs of its ancestors.
    pub ancestors: Vec<u32>,
}

/// Parses the lines; also returns invalid ones.
pub fn parse(text: &str) -> (Vec<BackupProcess>, Vec<String>) {
    super::parse_lines(text, process)
}

fn process(line: &str) -> Option<BackupProcess> {
    let (pid, rest) = line.split_once('\t')?;
    let pid = pid.parse().ok()?;
    if rest == "ended" {
        return Some(BackupProcess { pid, running: None });
    }
    let (started, ancestors) = rest.split_once('\t')?;
    let ancestors: Result<Vec<u32>, _> =
        ancestors.split_ascii_whitespace().map(str::parse).collect();
    let running = RunningProcess {
        started: started.parse().ok()?,
        ancestors: ancestors.ok()?,
    };
    Some(BackupProcess {
        pid,
        running: Some(running),
    })
}

/// A process below a backup that exited with an error or was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedProcess {
    /// The PID of the backup.
    pub run: u32,
    pub at: Timestamp,
    /// Whether the backup itself started it, and so knows its status.
    pub is_child: bool,
    pub name: String,
    pub failure: ExitFailure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitFailure {
    Signal(u32),
    Status(u32),
}

impl ExitFailure {
    /// `was killed by signal 9`
    pub fn text(self) -> String {
        match self {
            Self::Signal(signal) => format!("was killed by signal {signal}"),
            Self::Status(status) => format!("ended with status {status}"),
        }
    }
}

/// Parses the lines of failed processes; also returns invalid ones.
pub fn parse_failed(text: &str) -> (Vec<FailedProcess>, Vec<String>) {
    super::parse_lines(text, failed)
}

fn failed(line: &str) -> Option<FailedProcess> {
    let columns: Vec<&str> = line.splitn(5, '\t').collect();
    let [run, at_ms, relation, status, name] = columns[..] else {
        return None;
    };
    let status: u32 = status.parse().ok()?;
    let failure = match status & 0x7f {
        0 => ExitFailure::Status(status >> 8 & 0xff),
        signal => ExitFailure::Signal(signal),
    };
    Some(FailedProcess {
        run: run.parse().ok()?,
        at: Timestamp::from_millisecond(at_ms.parse().ok()?).ok()?,
        is_child: relation == "child",
        name: name.to_string(),
        failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_or_has_ended() {
        let (found, unparsed) = parse("7\t4000\t6 5 1\n8\tended\n9\t\t\nx\tended\n7\t1\tx\n");
        let running = Some(RunningProcess {
            started: 4000,
            ancestors: vec![6, 5, 1],
        });
        assert_eq!(
            found,
            [
                BackupProcess { pid: 7, running },
                BackupProcess {
                    pid: 8,
                    running: None
                }
            ]
        );
        assert_eq!(unparsed.len(), 3);
    }

    #[test]
    fn a_failed_process_was_killed_or_ended_with_a_status() {
        let (found, unparsed) =
            parse_failed("7\t5\tdescendant\t9\ttar\n7\t5\tchild\t512\tsh\n7\t5\tchild\n");
        let told = found
            .iter()
            .map(|process| (process.is_child, process.failure.text()));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                (false, "was killed by signal 9".to_string()),
                (true, "ended with status 2".into())
            ]
        );
        assert_eq!(unparsed.len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n|\t|[0-9])*") {
            parse(&text);
            parse_failed(&text);
        }
    }
}
