//! The status of caches, VDO pools, RAIDs and mirrors. Sources: `dm-cache-target.c`, `dm-writecache.c`, `dm-vdo/`,
//! `dm-raid.c`, `dm-raid1.c`.

use super::{Health, METADATA_BLOCK, Status, ratio};
use cowbell_units::{Fill, SECTOR};

/// `8 <metadata used>/<total> <block sectors> <data used>/<total> … <flags>`, or a single word.
pub(super) fn cache(words: &[&str]) -> Option<Status> {
    let kind = "cache".to_string();
    if words
        .last()
        .is_some_and(|word| matches!(*word, "Fail" | "Error"))
    {
        return Some(Status::Filled {
            kind,
            data: None,
            metadata: None,
            health: Health::Failed,
        });
    }
    let block = words.get(2)?.parse::<u64>().ok()?.saturating_mul(SECTOR);
    let metadata = Some(ratio(words.get(1)?, METADATA_BLOCK)?);
    let health = match words {
        _ if words.contains(&"needs_check") => Health::NeedsCheck,
        _ if words.contains(&"ro") => Health::ReadOnly,
        _ => Health::Working,
    };
    Some(Status::Filled {
        kind,
        data: Some(ratio(words.get(3)?, block)?),
        metadata,
        health,
    })
}

/// `<error> <blocks> <free blocks> …`; after an error all I/O fails.
pub(super) fn writecache(words: &[&str]) -> Option<Status> {
    let (total, free): (u64, u64) = (words.get(1)?.parse().ok()?, words.get(2)?.parse().ok()?);
    let data = Some(Fill {
        used: total.checked_sub(free)?,
        total,
        unit: METADATA_BLOCK,
    });
    let health = if words.first() == Some(&"0") {
        Health::Working
    } else {
        Health::Failed
    };
    Some(Status::Filled {
        kind: "writecache".into(),
        data,
        metadata: None,
        health,
    })
}

/// `<device> <mode> <recovery> <index> <compression> <used> <total>`; usage is valid only in mode `normal`.
pub(super) fn vdo(words: &[&str]) -> Option<Status> {
    let (used, total) = (words.get(5)?.parse().ok()?, words.get(6)?.parse().ok()?);
    let fill = Fill {
        used,
        total,
        unit: METADATA_BLOCK,
    };
    let (data, health) = match *words.get(1)? {
        "normal" => (Some(fill), Health::Working),
        "recovering" => (None, Health::Working),
        "read-only" => (None, Health::ReadOnly),
        _ => return None,
    };
    Some(Status::Filled {
        kind: "vdo".into(),
        data,
        metadata: None,
        health,
    })
}

/// `<type> <legs> <letters> <in sync>/<total> <action> <mismatches> …`. Letters: `A` in sync, `a` not yet, `D` dead, `-`
/// missing. Mismatches are those of the last check; a repair sets them to 0.
pub(super) fn raid(words: &[&str]) -> Option<Status> {
    let letters = words.get(2)?;
    let mut sync = ratio(words.get(3)?, SECTOR)?;
    let behind = letters.matches('a').count();
    let is_quiet = matches!(words.get(4).copied(), None | Some("idle" | "recover"));
    if sync.used == sync.total && (1..letters.len()).contains(&behind) && is_quiet {
        // The kernel is about to sync a leg. libdm does not report 100 % then either.
        sync.used = sync.used.saturating_sub(1);
    }
    let dead = letters.matches(['D', '-']).count();
    let health = match dead {
        0 if (1..letters.len()).contains(&behind) => Health::Rebuilding,
        0 if words.get(5).is_some_and(|mismatches| *mismatches != "0") => Health::Mismatches,
        0 => Health::Working,
        _ if dead > expendable(words.first()?, letters.len()) => Health::Failed,
        _ => Health::Degraded,
    };
    Some(Status::InSync {
        kind: "raid".into(),
        sync,
        health,
    })
}

/// How many legs may fail before data is lost, at the most.
fn expendable(level: &str, legs: usize) -> usize {
    match level.as_bytes() {
        [b'r', b'a', b'i', b'd', b'0', ..] => 0,
        [b'r', b'a', b'i', b'd', b'4' | b'5', ..] => 1,
        [b'r', b'a', b'i', b'd', b'6', ..] => 2,
        b"raid10" => legs / 2,
        _ => legs.saturating_sub(1),
    }
}

/// `<legs> <device>… <in sync>/<regions> 1 <letters> 3 disk <log> <letter>`, or `1 core` at the end. Each letter is the
/// state of a leg or of the log: `A` if it works, otherwise its worst failure.
pub(super) fn mirror(words: &[&str]) -> Option<Status> {
    let legs: usize = words.first()?.parse().ok()?;
    let words = words.get(legs.checked_add(1)?..)?;
    let log = words.get(6).filter(|_| words.get(3) == Some(&"3"));
    let letters = words.get(2)?;
    let health = if letters.chars().all(is_dead) {
        Health::Failed
    } else if letters.contains(is_dead) || log.is_some_and(|log| log.contains(is_dead)) {
        Health::Degraded
    } else {
        Health::Working
    };
    Some(Status::InSync {
        kind: "mirror".into(),
        sync: ratio(words.first()?, SECTOR)?,
        health,
    })
}

fn is_dead(letter: char) -> bool {
    letter != 'A'
}
