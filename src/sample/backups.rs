//! Processes of running backups, from lines `PID<TAB>START<TAB>ANCESTORS` or `PID<TAB>ended`.

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
    let ancestors: Result<Vec<u32>, _> = ancestors.split_ascii_whitespace().map(str::parse).collect();
    let running = RunningProcess { started: started.parse().ok()?, ancestors: ancestors.ok()? };
    Some(BackupProcess { pid, running: Some(running) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_or_has_ended() {
        let (found, unparsed) = parse("7\t4000\t6 5 1\n8\tended\n9\t\t\nx\tended\n7\t1\tx\n");
        let running = Some(RunningProcess { started: 4000, ancestors: vec![6, 5, 1] });
        assert_eq!(found, [BackupProcess { pid: 7, running }, BackupProcess { pid: 8, running: None }]);
        assert_eq!(unparsed.len(), 3);
    }

    proptest::proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n|\t|[0-9])*") {
            parse(&text);
        }
    }
}
