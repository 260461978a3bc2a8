//! Whether a volume can be suspended for a moment: its queue and those of its disks are short, its storage answers, and no
//! snapshot is being made. A suspension waits for every request in flight.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{bail, ensure};

use super::subject::Subject;
use crate::sample::diskstats::{self, Queue};
use crate::source::files::Root;

/// How often and how long queues are observed: for three seconds.
const SAMPLES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(100);
/// The longest queue that counts as short, on average: what a database leaves on one disk without load.
const LONGEST_QUEUE: f64 = 4.0;
/// The program that makes snapshots.
const MAKER: &str = "lvcreate";

/// Observes the queues for some seconds; refuses with the reason.
pub async fn require_short(subject: &Subject, root: &Root) -> anyhow::Result<()> {
    let mut file = root.keep("proc/diskstats");
    let mut seen: HashMap<String, Vec<Queue>> = HashMap::new();
    for _ in 0..SAMPLES {
        let queues = diskstats::queues(&file.read().map_err(anyhow::Error::msg)?);
        for queue in queues
            .into_iter()
            .filter(|queue| subject.queues.contains(&queue.name))
        {
            seen.entry(queue.name.clone()).or_default().push(queue);
        }
        tokio::time::sleep(PAUSE).await;
    }
    for (device, queues) in &seen {
        judge(&subject.volume.name, device, queues)?;
    }
    ensure!(
        !root.process_names().iter().any(|name| name == MAKER),
        "cannot watch {} now: `{MAKER}` runs and may be making a snapshot; try again when it has ended",
        subject.volume.name
    );
    Ok(())
}

fn judge(name: &str, device: &str, queues: &[Queue]) -> anyhow::Result<()> {
    let (Some(first), Some(last)) = (queues.first(), queues.last()) else {
        return Ok(());
    };
    if queues.iter().all(|queue| queue.in_flight > 0) && first.completed == last.completed {
        bail!(
            "cannot watch {name} now: {device} has not completed a request for {} s; try again when the storage answers",
            (SAMPLES * PAUSE).as_secs()
        );
    }
    let mean = queues
        .iter()
        .map(|queue| queue.in_flight as f64)
        .sum::<f64>()
        / queues.len() as f64;
    ensure!(
        mean <= LONGEST_QUEUE,
        "cannot watch {name} now: {device} is busy, with {mean:.1} requests in flight on average, expected at most \
         {LONGEST_QUEUE}; try again when less is written"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(seen: &[(u64, u64)]) -> Option<String> {
        let queue = |(in_flight, completed): &(u64, u64)| Queue {
            name: "dm-3".into(),
            in_flight: *in_flight,
            completed: *completed,
        };
        let queues: Vec<Queue> = seen.iter().map(queue).collect();
        judge("vg0/data", "dm-3", &queues)
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn a_queue_must_be_short_and_move() {
        let busy = "cannot watch vg0/data now: dm-3 is busy, with 6.0 requests in flight on average, expected at most 4; \
                    try again when less is written";
        let hangs = "cannot watch vg0/data now: dm-3 has not completed a request for 3 s; try again when the storage answers";
        for (seen, expected) in [
            (&[(0, 7), (0, 7)][..], None),
            (&[(1, 7), (2, 8)], None),
            (&[(0, 7), (8, 7)], None),
            (&[(4, 7), (8, 9)], Some(busy)),
            (&[(1, 7), (1, 7)], Some(hangs)),
            (&[], None),
        ] {
            assert_eq!(judged(seen).as_deref(), expected, "{seen:?}");
        }
    }
}
