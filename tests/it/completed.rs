//! Latencies and queues of volumes, on kernels that count a request when it starts, and on those that count it when it ends.

use cowbell::interval::Interval;
use cowbell::quantity::Quantity;
use cowbell::source::recording::{Player, Speed};
use cowbell::source::{Part, ReadResult};

use crate::observer::{Observer, reading};

/// The intervals of a recording.
fn played(bytes: &'static [u8]) -> Vec<Interval> {
    let mut player = Player::of_bytes(bytes, Speed::Unbounded).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (mut observer, mut intervals) = (Observer::default(), Vec::new());
    while let Some(reading) = runtime.block_on(player.next()) {
        if reading
            .texts
            .iter()
            .any(|text| text.part == Part::Diskstats)
        {
            intervals.push(observer.observe(&reading));
        }
    }
    intervals
}

/// The write latency in ms, and the queue, in each second after the first: of a device with so many writes, milliseconds
/// of them, and writes in flight at each.
fn course(device: &str, seconds: &[(u64, u64, u64)]) -> Vec<(Option<f64>, Option<f64>)> {
    let mut observer = Observer::default();
    let mut course = Vec::new();
    for (second, (writes, ms, in_flight)) in seconds.iter().enumerate() {
        let line = format!("253 0 {device} 0 0 0 0 {writes} 0 {writes} {ms} {in_flight} 0 {ms}\n");
        let names = format!("{device}/dev\t253:0\n{device}/dm/name\tvg0-a\n");
        let texts = vec![
            (Part::Sysfs, ReadResult::Text(names)),
            (Part::Diskstats, ReadResult::Text(line)),
        ];
        let interval = observer.observe(&reading(second as f64, texts));
        let value = |quantity: Quantity| {
            let value = quantity.of_work(&interval.devices[0].work, interval.elapsed_us)?;
            Some((value * 100.0).round() / 100.0)
        };
        course.push((value(Quantity::WriteAwaitMs), value(Quantity::QueueDepth)));
    }
    course.remove(0);
    course
}

#[test]
fn a_kernel_that_counts_at_the_start_is_known_once_requests_end_that_it_does_not_count() {
    let counted_at_start = [
        (1000, 1000, 0),
        (1100, 1000, 100), // 100 start: they may also be 100 that ended at once, while others started.
        (1102, 82_600, 0), // 102 end, and 2 of them are counted.
        (1112, 82_650, 5), // 10 start and 5 end.
        (1112, 82_700, 0),
    ];
    let expected = [
        (None, Some(0.0)),
        (Some(800.0), Some(81.6)),
        (Some(10.0), Some(0.05)),
        (Some(10.0), Some(0.05)),
    ];
    assert_eq!(course("dm-0", &counted_at_start), expected);
}

#[test]
fn a_kernel_that_counts_at_the_end_is_known_once_more_are_in_flight_than_it_counted() {
    let counted_at_end = [
        (1000, 1000, 0),
        (1010, 1100, 5),
        (1010, 1100, 100),
        (1111, 91_000, 4),
        (1115, 91_040, 5),
    ];
    let expected = [
        (None, Some(0.1)),
        (None, Some(0.0)),
        (Some(890.1), Some(89.9)),
        (Some(10.0), Some(0.04)),
    ];
    assert_eq!(course("dm-0", &counted_at_end), expected);
}

/// The write latencies of `dm-1` in what the scenario `awaits` of the lab noted, in ms.
fn captured(noted: &str) -> Vec<f64> {
    let mut observer = Observer::default();
    let mut latencies = Vec::new();
    for second in noted.split("# ").skip(1) {
        let (uptime, diskstats) = second.split_once('\n').unwrap();
        let texts = vec![
            (
                Part::Sysfs,
                ReadResult::Text("dm-0/dm/name\tlower\ndm-1/dm/name\tvg0-data\n".into()),
            ),
            (Part::Diskstats, ReadResult::Text(diskstats.into())),
        ];
        let interval = observer.observe(&reading(uptime.parse().unwrap(), texts));
        let work = interval.work_of(interval.topology.device("dm-1").unwrap());
        latencies.extend(Quantity::WriteAwaitMs.of_work(&work, interval.elapsed_us));
    }
    latencies
}

#[test]
fn writes_that_waited_for_their_disk_have_their_latency_on_two_kernels() {
    let of_6_1 = include_str!("../fixtures/uml-6.1-lvm2-2.03.16/waiting-writes");
    assert_eq!(captured(of_6_1), [37_370.0 / 8.0]);
    let of_6_12 = include_str!("../fixtures/uml-6.12-lvm2-2.03.31/waiting-writes");
    assert_eq!(captured(of_6_12), [35_910.0 / 8.0]);
}

#[test]
fn a_disk_counts_at_the_end() {
    let seconds = [(1000, 1000, 0), (1010, 1100, 5), (1020, 1300, 0)];
    let expected = [(Some(10.0), Some(0.1)), (Some(20.0), Some(0.2))];
    assert_eq!(course("sda", &seconds), expected);
}

#[test]
fn no_latency_is_longer_than_the_device_is_known_and_no_queue_above_what_was_in_flight() {
    // Requests that had waited for 100 s before the first tick, and for 1.5 s, and a queue that a bug of the kernel adds up.
    let seconds = [
        (0, 0, 3),
        (2, 200_000, 1),
        (3, 201_500, 0),
        (4, 1_000_000, 0),
    ];
    let expected = [(None, None), (Some(1500.0), None), (None, None)];
    assert_eq!(course("sda", &seconds), expected);
}

#[test]
fn no_latency_of_the_demo_is_longer_than_it_was_watched() {
    let mut seconds = 0.0;
    let (mut ticks, mut known) = (0, 0);
    for interval in played(include_bytes!("../../web/demo.cowbell")) {
        seconds += interval.elapsed_us as f64 / 1e6;
        for (device, done) in interval.topology.devices.iter().zip(&interval.devices) {
            let value = |quantity: Quantity| quantity.of_work(&done.work, interval.elapsed_us);
            let latency = value(Quantity::WriteAwaitMs);
            assert!(
                latency.is_none_or(|ms| ms <= seconds * 1000.0),
                "{}: {latency:?} ms after {seconds} s",
                device.label
            );
            if device.label == "vg0/data" && value(Quantity::Writes) > Some(0.0) {
                ticks += 1;
                known += u32::from(latency.is_some());
            }
        }
    }
    assert!(ticks > 600 && known > ticks * 3 / 4, "{known} of {ticks}");
}
