//! LVM's autoextend policies and monitoring, from `lvmconfig`.

use std::collections::HashMap;

/// Autoextend policies of snapshots and thin pools, and whether dmeventd can apply them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// Whether LVM registers volumes with dmeventd when it activates them.
    pub monitoring: bool,
    /// Whether dmeventd runs.
    pub dmeventd: bool,
    pub snapshot: Autoextend,
    pub pool: Autoextend,
}

/// The usage in percent that triggers autoextend (100: never), and the growth in percent of the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Autoextend {
    pub threshold: u32,
    pub percent: u32,
}

impl Default for Autoextend {
    fn default() -> Self {
        Self {
            threshold: 100,
            percent: 20,
        }
    }
}

/// Parses the output of `lvmconfig`, `name=value` per line, with a line that says whether dmeventd runs.
pub fn parse_policies(text: &str) -> Result<Policies, String> {
    let values: HashMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.trim().split_once('='))
        .collect();
    let number = |key: &str| {
        let value = values
            .get(key)
            .ok_or_else(|| format!("expected a line `{key}=…`, but found {text:?}"))?;
        value
            .parse::<u32>()
            .map_err(|_| format!("expected a number in `{key}={value}`"))
    };
    let growth = |what: &str| {
        Ok::<_, String>(Autoextend {
            threshold: number(&format!("{what}_autoextend_threshold"))?,
            percent: number(&format!("{what}_autoextend_percent"))?,
        })
    };
    Ok(Policies {
        monitoring: number("monitoring")? != 0,
        dmeventd: values.get("dmeventd") == Some(&"running"),
        snapshot: growth("snapshot")?,
        pool: growth("thin_pool")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_match_lvmconfig() {
        let text = "monitoring=1\nsnapshot_autoextend_threshold=70\nsnapshot_autoextend_percent=20\n\
            thin_pool_autoextend_threshold=100\nthin_pool_autoextend_percent=20\n\ndmeventd=running\n";
        let policies = parse_policies(text).unwrap();
        assert_eq!(
            policies.snapshot,
            Autoextend {
                threshold: 70,
                percent: 20
            }
        );
        assert_eq!(
            (policies.pool, policies.monitoring, policies.dmeventd),
            (Autoextend::default(), true, true)
        );
        assert!(
            parse_policies("monitoring=1")
                .unwrap_err()
                .contains("snapshot_autoextend_threshold")
        );
        assert!(
            parse_policies(&text.replace("=70", "=x"))
                .unwrap_err()
                .contains("expected a number")
        );
    }
}
