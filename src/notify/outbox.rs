//! What one receiver has yet to be told: the newest state of each alert.
//!
//! A failed delivery is repeated with growing pauses until it succeeds, or a newer state takes its place. The end of an
//! alert is not delivered if the receiver did not hear of its beginning.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::AlertState;

/// The pauses after failures, doubled from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(300);

/// The messages for one receiver.
pub struct Outbox {
    /// Alerts that were raised earlier were delivered by an earlier process.
    started_at: Timestamp,
    /// The IDs of open alerts of which the receiver may know.
    known: HashSet<i64>,
    /// By the alert's ID.
    pending: HashMap<i64, Pending>,
}

struct Pending {
    state: AlertState,
    /// Counts the states of the alert, so that an old delivery does not settle a newer state.
    version: u64,
    failures: u32,
    due: Instant,
    is_sent: bool,
}

/// A message on its way.
pub struct Letter {
    pub state: AlertState,
    /// Failed deliveries so far.
    pub tries: u32,
    version: u64,
}

/// The pause after so many failures and one more.
pub fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.min(9)).min(LAST_PAUSE)
}

impl Outbox {
    pub fn new(started_at: Timestamp) -> Self {
        Self { started_at, known: HashSet::new(), pending: HashMap::new() }
    }

    /// Adds the newest state of an alert, to be delivered at once. Returns the IDs of states that need no delivery any more.
    pub fn put(&mut self, state: AlertState, now: Instant) -> Vec<i64> {
        let id = state.alert.id;
        let Some(pending) = self.pending.get_mut(&id) else {
            self.pending.insert(id, Pending { state, version: 0, failures: 0, due: now, is_sent: false });
            return self.drop_unheard(id).into_iter().collect();
        };
        pending.state = state;
        pending.version += 1;
        pending.due = now;
        let mut settled = vec![id];
        settled.extend(self.drop_unheard(id));
        settled
    }

    /// The next message to deliver now: critical ones first, then the oldest.
    pub fn take_due(&mut self, now: Instant) -> Option<Letter> {
        let due = self.pending.values_mut().filter(|pending| !pending.is_sent && pending.due <= now);
        let order = |pending: &&mut Pending| {
            let alert = &pending.state.alert;
            (pending.state.is_over(), std::cmp::Reverse(alert.severity), alert.id)
        };
        let next = due.min_by_key(order)?;
        next.is_sent = true;
        Some(Letter { state: next.state.clone(), tries: next.failures, version: next.version })
    }

    /// When the next message is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.pending.values().filter(|pending| !pending.is_sent).map(|pending| pending.due).min()
    }

    /// Takes the result of a delivery; an error says whether the receiver certainly refused it. Returns the IDs of states
    /// that need no delivery any more.
    pub fn settle(&mut self, letter: &Letter, result: Result<(), bool>, now: Instant) -> Vec<i64> {
        let id = letter.state.alert.id;
        let Some(pending) = self.pending.get_mut(&id) else { return Vec::new() };
        pending.is_sent = false;
        if result != Err(true) {
            self.known.insert(id);
        }
        if result.is_err() {
            pending.due = pending.due.max(now + pause(pending.failures));
            if pending.version > letter.version {
                pending.due = now;
            }
            pending.failures += 1;
            return self.drop_unheard(id).into_iter().collect();
        }
        let is_newest = pending.version == letter.version;
        pending.failures = 0;
        if is_newest {
            self.pending.remove(&id);
        }
        if letter.state.is_over() {
            self.known.remove(&id);
        }
        // The receiver is back: the others need not wait any longer.
        self.pending.values_mut().for_each(|pending| pending.due = pending.due.min(now));
        if is_newest { vec![id] } else { Vec::new() }
    }

    /// Drops all; returns the IDs.
    pub fn clear(&mut self) -> Vec<i64> {
        self.pending.drain().map(|(id, _)| id).collect()
    }

    /// Drops the end of an alert of which the receiver cannot have heard.
    fn drop_unheard(&mut self, id: i64) -> Option<i64> {
        let pending = self.pending.get(&id)?;
        let is_known = self.known.contains(&id) || pending.state.alert.raised_at < self.started_at;
        let is_unheard = pending.state.is_over() && !is_known && !pending.is_sent;
        is_unheard.then(|| self.pending.remove(&id)).flatten().map(|_| id)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::alert::{Alert, Rule, Severity};

    fn state(id: i64, severity: Severity, is_over: bool) -> AlertState {
        let at = Timestamp::from_second(1_000 + id).unwrap();
        let alert = Alert {
            id,
            rule: Rule::SnapshotFill,
            severity,
            vg: "vg0".into(),
            lv: "data".into(),
            uuid: "u".into(),
            value: None,
            raised_at: at,
            cleared_at: is_over.then_some(at),
            worst: severity,
            sentence: String::new(),
        };
        AlertState::new(&alert)
    }

    const WARNING: Severity = Severity::Warning;
    const CRITICAL: Severity = Severity::Critical;

    /// What is due now, one letter each: `w`, `C`, and `o` for what is over.
    fn due(outbox: &mut Outbox, now: Instant) -> (String, Vec<Letter>) {
        let letters: Vec<Letter> = std::iter::from_fn(|| outbox.take_due(now)).collect();
        let sign = |letter: &Letter| match (letter.state.is_over(), letter.state.alert.severity) {
            (true, _) => 'o',
            (false, Severity::Warning) => 'w',
            (false, Severity::Critical) => 'C',
        };
        (letters.iter().map(sign).collect(), letters)
    }

    fn outbox() -> Outbox {
        Outbox::new(Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_receiver_that_is_down_for_hours_gets_the_newest_state_once() {
        let (mut outbox, start) = (outbox(), Instant::now());
        outbox.put(state(1, WARNING, false), start);
        let (mut now, mut tries) = (start, 0);
        while now < start + Duration::from_secs(3 * 3_600) {
            for letter in due(&mut outbox, now).1 {
                tries += 1;
                assert_eq!(outbox.settle(&letter, Err(true), now), Vec::<i64>::new());
            }
            if tries == 5 {
                assert_eq!(
                    outbox.put(state(1, CRITICAL, false), now),
                    [1],
                    "the warning needs no delivery any more"
                );
                tries += 1;
            }
            now = outbox.next_due().unwrap();
        }
        assert!((40..60).contains(&tries), "{tries}");
        let (signs, letters) = due(&mut outbox, now);
        assert_eq!(signs, "C");
        assert_eq!(outbox.settle(&letters[0], Ok(()), now), [1]);
        assert_eq!(outbox.next_due(), None);
    }

    #[test]
    fn an_end_is_delivered_only_if_its_beginning_may_be_known() {
        for (result, expected) in [(Err(true), ""), (Err(false), "o"), (Ok(()), "o")] {
            let (mut outbox, now) = (outbox(), Instant::now());
            outbox.put(state(1, WARNING, false), now);
            let (_, letters) = due(&mut outbox, now);
            outbox.settle(&letters[0], result, now);
            outbox.put(state(1, WARNING, true), now);
            assert_eq!(due(&mut outbox, now).0, expected, "{result:?}");
        }
        let mut resumed = Outbox::new(Timestamp::from_second(5_000).unwrap());
        resumed.put(state(1, WARNING, true), Instant::now());
        assert_eq!(due(&mut resumed, Instant::now()).0, "o", "an earlier process delivered its beginning");
    }

    #[test]
    fn critical_alerts_go_first_and_a_success_wakes_the_others() {
        let (mut outbox, now) = (outbox(), Instant::now());
        for (id, severity) in [(1, WARNING), (2, CRITICAL), (3, CRITICAL)] {
            outbox.put(state(id, severity, false), now);
        }
        let (signs, letters) = due(&mut outbox, now);
        assert_eq!(signs, "CCw");
        assert_eq!(letters[0].state.alert.id, 2);
        letters.iter().for_each(|letter| drop(outbox.settle(letter, Err(true), now)));
        assert_eq!(due(&mut outbox, now).0, "");
        let later = now + Duration::from_secs(1);
        let letter = outbox.take_due(later).unwrap();
        outbox.settle(&letter, Ok(()), later);
        assert_eq!(due(&mut outbox, later).0, "Cw");
    }

    #[test]
    fn a_state_that_changes_during_its_delivery_is_delivered_afterwards() {
        let (mut outbox, now) = (outbox(), Instant::now());
        outbox.put(state(1, WARNING, false), now);
        let (_, letters) = due(&mut outbox, now);
        outbox.put(state(1, CRITICAL, false), now);
        assert_eq!(due(&mut outbox, now).0, "", "one delivery of an alert at a time");
        assert_eq!(outbox.settle(&letters[0], Ok(()), now), Vec::<i64>::new());
        assert_eq!(due(&mut outbox, now).0, "C");
    }

    proptest! {
        /// Whatever a receiver does: once it takes messages again, it knows the newest state of each alert it heard of.
        #[test]
        fn nothing_is_lost(steps in proptest::collection::vec((0..3_i64, 0..3_u8, 0..3_u8), 0..60)) {
            let (mut outbox, mut now) = (outbox(), Instant::now());
            let mut newest: HashMap<i64, AlertState> = HashMap::new();
            let mut heard: HashMap<i64, AlertState> = HashMap::new();
            for (id, change, answer) in steps {
                let is_over = newest.get(&id).is_some_and(AlertState::is_over);
                if !is_over {
                    let severity = if change == 1 { CRITICAL } else { WARNING };
                    let message = state(id, severity, change == 2 && newest.contains_key(&id));
                    newest.insert(id, message.clone());
                    outbox.put(message, now);
                }
                for letter in due(&mut outbox, now).1 {
                    if answer > 0 {
                        heard.insert(letter.state.alert.id, letter.state.clone());
                    }
                    outbox.settle(&letter, [Err(true), Err(false), Ok(())][usize::from(answer)], now);
                }
                now += Duration::from_secs(2);
            }
            while let Some(due_at) = outbox.next_due() {
                now = now.max(due_at);
                for letter in due(&mut outbox, now).1 {
                    heard.insert(letter.state.alert.id, letter.state.clone());
                    outbox.settle(&letter, Ok(()), now);
                }
            }
            for (id, message) in newest {
                match heard.get(&id) {
                    Some(found) => prop_assert_eq!(found, &message),
                    None => prop_assert!(message.is_over()),
                }
            }
        }
    }
}
