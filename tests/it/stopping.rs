//! The end: within a second, with pages open, with nothing lost.

use std::time::Duration;

use rustix::process::Signal;

use crate::daemon::{Start, kept_ticks};
use crate::http::Live;
use crate::machine::Machine;

fn check(signal: Signal) {
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine).start();
    let mut pages = [Live::open(daemon.port), Live::open(daemon.port)];
    for page in &mut pages {
        for _ in 0..5 {
            assert!(page.tick().is_some());
        }
    }
    let taken = daemon.taken();
    let (status, took) = daemon.stop(signal);
    assert_eq!(status.code(), Some(0), "{}", daemon.log());
    assert!(took < Duration::from_secs(1), "it took {took:?}");
    for page in &mut pages {
        while page.tick().is_some() {}
    }
    let kept = kept_ticks(&daemon.db).len();
    assert!(
        kept as u64 >= taken,
        "{taken} ticks were taken, and {kept} are in the store"
    );
}

#[test]
fn sigterm_ends_it_within_a_second_with_every_tick_kept() {
    check(Signal::TERM);
}

#[test]
fn sigint_ends_it_within_a_second_with_every_tick_kept() {
    check(Signal::INT);
}

#[test]
fn what_was_kept_is_there_after_a_restart() {
    let machine = Machine::new();
    let mut first = Start::watching(&machine).start();
    crate::wait_for("some ticks", || (first.taken() > 5).then_some(()));
    first.stop(Signal::TERM);
    let kept = kept_ticks(&first.db).len();
    let second = Start::watching(&machine).db(&first.db).start();
    crate::wait_for("ticks of both", || {
        (second.series("device:sda", "read_bytes").len() > kept).then_some(())
    });
}
