//! What LVM does by itself before a volume is full, as `lvmconfig` prints it.

use std::collections::HashMap;

/// What LVM does by itself before a volume is full, by `lvmconfig`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// Whether volumes are handed to dmeventd when they are activated.
    pub monitoring: bool,
    /// Whether dmeventd runs.
    pub dmeventd: bool,
    pub snapshot: Growth,
    pub pool: Growth,
}

/// At how many percent something is made larger, and by how many percent of its size; at 100 never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    pub threshold: u32,
    pub percent: u32,
}

impl Default for Growth {
    fn default() -> Self {
        Self { threshold: 100, percent: 20 }
    }
}

/// Understands what `lvmconfig` prints, `name=value` a line, with a line that says whether dmeventd runs.
pub fn parse_policies(text: &str) -> Result<Policies, String> {
    let values: HashMap<&str, &str> = text.lines().filter_map(|line| line.trim().split_once('=')).collect();
    let number = |key: &str| {
        let value =
            values.get(key).ok_or_else(|| format!("expected a line `{key}=…`, but found {text:?}"))?;
        value.parse::<u32>().map_err(|_| format!("expected a number in `{key}={value}`"))
    };
    let growth = |what: &str| {
        Ok::<_, String>(Growth {
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
    fn policies_are_those_of_lvmconfig() {
        let text = "monitoring=1\nsnapshot_autoextend_threshold=70\nsnapshot_autoextend_percent=20\n\
            thin_pool_autoextend_threshold=100\nthin_pool_autoextend_percent=20\n\ndmeventd=running\n";
        let policies = parse_policies(text).unwrap();
        assert_eq!(policies.snapshot, Growth { threshold: 70, percent: 20 });
        assert_eq!((policies.pool, policies.monitoring, policies.dmeventd), (Growth::default(), true, true));
        assert!(parse_policies("monitoring=1").unwrap_err().contains("snapshot_autoextend_threshold"));
        assert!(parse_policies(&text.replace("=70", "=x")).unwrap_err().contains("expected a number"));
    }
}
