//! What one receiver has yet to get: the newest state of each alert.
//!
//! A failed delivery is repeated with growing pauses until it succeeds, or a newer state takes its place. The end of an
//! alert is not delivered if the receiver does not know of its beginning.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::message::rank;
use super::policy::{Delivery, DeliveryPolicy, KnownState};
use crate::alert::{Alert, Severity};
use crate::channel::Failure;

/// The pauses after failures, doubled from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(300);
/// After a message, what follows within this time goes as one, except a critical alert: it goes at once.
const GROUP: Duration = Duration::from_secs(2);
/// Maximum alerts in a message.
const MOST_IN_MESSAGE: usize = 50;

/// The alerts of one receiver, by their IDs.
#[derive(Default)]
pub struct Outbox {
    entries: HashMap<i64, OutboxEntry>,
    /// Until then, only critical alerts are sent at once.
    grouped_until: Option<Instant>,
}

struct OutboxEntry {
    /// In its newest state.
    alert: Alert,
    /// Counts the states of the alert, so that an old delivery does not settle a newer state.
    version: u64,
    /// The version that was delivered.
    delivered: u64,
    /// What the receiver got, or may have got.
    known: Option<KnownState>,
    /// Failed deliveries of this state.
    failures: u32,
    due: Instant,
    is_sent: bool,
}

/// Alerts on their way in one message.
pub struct Batch {
    pub alerts: Vec<Alert>,
    /// Failed deliveries so far.
    pub tries: u32,
    versions: Vec<u64>,
}

/// The pause after so many failures and one more.
pub fn pause(failures: u32) -> Duration {
    FIRST_PAUSE
        .saturating_mul(1 << failures.min(9))
        .min(LAST_PAUSE)
}

impl OutboxEntry {
    fn new(alert: Alert, due: Instant) -> Self {
        Self {
            alert,
            version: 1,
            delivered: 0,
            known: None,
            failures: 0,
            due,
            is_sent: false,
        }
    }

    fn is_wanted(&self, policy: &DeliveryPolicy) -> bool {
        let is_news =
            self.version > self.delivered || policy.is_repeated(&self.alert, self.known.as_ref());
        let may_go = !policy.only_critical || self.is_urgent();
        !self.is_sent && is_news && may_go && !policy.is_held(&self.alert)
    }

    fn is_urgent(&self) -> bool {
        !self.alert.is_over() && self.alert.severity == Severity::Critical
    }

    /// Whether the receiver cannot know that the alert began, and so needs no end of it.
    fn is_end_without_beginning(&self) -> bool {
        self.alert.is_over() && self.known.is_none() && !self.is_sent
    }
}

impl Outbox {
    /// Continues after an earlier process, which left this record.
    pub fn resume(&mut self, alert: Alert, record: Option<&Delivery>, now: Instant) {
        let mut entry = OutboxEntry::new(alert, now);
        entry.known = record.and_then(|record| record.known);
        entry.delivered = u64::from(record.is_some_and(|record| record.covers(&entry.alert)));
        let is_settled = entry.alert.is_over() && entry.delivered == 1;
        if !is_settled && !entry.is_end_without_beginning() {
            self.entries.insert(entry.alert.id, entry);
        }
    }

    /// Adds the state of an alert that the receiver did not want before.
    pub fn offer(&mut self, alert: Alert, now: Instant) {
        self.entries
            .entry(alert.id)
            .or_insert_with(|| OutboxEntry::new(alert, now));
    }

    /// Adds the newest state of an alert.
    pub fn put(&mut self, alert: Alert, now: Instant) {
        let id = alert.id;
        match self.entries.get_mut(&id) {
            Some(entry) => {
                entry.alert = alert;
                entry.version += 1;
                entry.due = now;
                entry.failures = 0;
            }
            None => {
                self.entries.insert(id, OutboxEntry::new(alert, now));
            }
        }
        self.drop_end_without_beginning(id);
    }

    /// The next message to deliver now: critical alerts first, then the oldest. All that have not failed yet go in one; one
    /// that failed goes alone, since it may be the reason.
    pub fn take_due(&mut self, now: Instant, policy: &DeliveryPolicy) -> Option<Batch> {
        let is_group_due = policy.is_split || self.grouped_until.is_none_or(|until| now >= until);
        let mut due: Vec<&mut OutboxEntry> = self
            .entries
            .values_mut()
            .filter(|entry| entry.due <= now && entry.is_wanted(policy))
            .collect();
        due.sort_by_key(|entry| rank(&entry.alert));
        let is_due =
            |entry: &&mut OutboxEntry| is_group_due || entry.failures > 0 || entry.is_urgent();
        let first = due.iter().position(is_due)?;
        if due[first].failures > 0 {
            return Some(Batch::of([due.swap_remove(first)], policy));
        }
        self.grouped_until = Some(now + GROUP);
        let fresh = due.into_iter().filter(|entry| entry.failures == 0);
        if policy.is_split {
            return Some(Batch::of(fresh.skip(first).take(1), policy));
        }
        Some(Batch::of(fresh.take(MOST_IN_MESSAGE), policy))
    }

    /// When the next message is due. Silences, quiet hours and repeats may make one due earlier or later.
    pub fn next_due(&self, policy: &DeliveryPolicy) -> Option<Instant> {
        let due = |entry: &OutboxEntry| match self.grouped_until {
            Some(until) if entry.failures == 0 && !entry.is_urgent() && !policy.is_split => {
                entry.due.max(until)
            }
            _ => entry.due,
        };
        self.entries
            .values()
            .filter(|entry| entry.is_wanted(policy))
            .map(due)
            .min()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes the result of a delivery: the receiver's answer, or why it failed. Returns the records to store.
    pub fn settle(
        &mut self,
        receiver: &str,
        batch: &Batch,
        result: &Result<String, Failure>,
        (now, at): (Instant, Timestamp),
    ) -> Vec<Delivery> {
        let mut records = Vec::new();
        for (alert, version) in batch.alerts.iter().zip(&batch.versions) {
            let Some(entry) = self.entries.get_mut(&alert.id) else {
                continue;
            };
            entry.is_sent = false;
            let is_newest = entry.version == *version;
            if !result.as_ref().is_err_and(|failure| failure.is_refusal) {
                entry.known = Some(KnownState::of(alert, at));
            }
            let answer = match result {
                Ok(answer) => {
                    entry.delivered = *version;
                    answer
                }
                Err(failure) if is_newest => {
                    entry.due = now + pause(entry.failures);
                    entry.failures += 1;
                    &failure.sentence
                }
                // The newer state has not failed yet.
                Err(failure) => {
                    entry.due = now;
                    &failure.sentence
                }
            };
            records.push(Delivery {
                alert: alert.id,
                receiver: receiver.into(),
                known: entry.known,
                is_delivered: result.is_ok(),
                tries: batch.tries + 1,
                tried_at: at,
                answer: answer.clone(),
            });
            if result.is_ok() && is_newest && alert.is_over() {
                self.entries.remove(&alert.id);
            }
            self.drop_end_without_beginning(alert.id);
        }
        if result.is_ok() {
            // The receiver is back: the others need not wait any longer.
            for entry in self.entries.values_mut().filter(|entry| !entry.is_sent) {
                entry.due = entry.due.min(now);
                entry.failures = 0;
            }
        }
        records
    }

    fn drop_end_without_beginning(&mut self, id: i64) {
        let entry = self.entries.get(&id);
        if entry.is_some_and(OutboxEntry::is_end_without_beginning) {
            self.entries.remove(&id);
        }
    }
}

impl Batch {
    fn of<'a>(
        entries: impl IntoIterator<Item = &'a mut OutboxEntry>,
        policy: &DeliveryPolicy,
    ) -> Self {
        let mut batch = Self {
            alerts: Vec::new(),
            tries: 0,
            versions: Vec::new(),
        };
        for entry in entries {
            entry.is_sent = true;
            batch.tries = batch.tries.max(entry.failures);
            batch.versions.push(entry.version);
            // A repeated or late message has today's value, and its original times.
            batch.alerts.push(policy.current(&entry.alert).clone());
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::alert::{Acknowledgement, AlertText, Rule};
    use crate::notify::{AlertsNow, Silence};

    fn alert(id: i64, severity: Severity, is_over: bool) -> Alert {
        let at = Timestamp::from_second(1_000 + id).unwrap();
        Alert {
            vg: "vg0".into(),
            lv: "data".into(),
            cleared_at: is_over.then_some(at),
            recovered: is_over,
            ..Alert::new(id, Rule::SnapshotFill, severity, "u", at)
        }
    }

    const WARNING: Severity = Severity::Warning;
    const CRITICAL: Severity = Severity::Critical;
    const HOUR: Duration = Duration::from_secs(3_600);

    fn yes() -> Result<String, Failure> {
        Ok("200 OK".into())
    }

    fn no(is_refusal: bool) -> Result<String, Failure> {
        Err(Failure {
            is_refusal,
            sentence: "no".into(),
        })
    }

    /// An outbox with a receiver, a clock, and what is known of alerts.
    struct Harness {
        outbox: Outbox,
        started: Instant,
        elapsed: Duration,
        standing: AlertsNow,
        is_quiet: bool,
        is_split: bool,
        only_critical: bool,
        records: BTreeMap<i64, Delivery>,
    }

    impl Harness {
        fn new() -> Self {
            Self {
                outbox: Outbox::default(),
                started: Instant::now(),
                elapsed: Duration::ZERO,
                standing: AlertsNow::default(),
                is_quiet: false,
                is_split: false,
                only_critical: false,
                records: BTreeMap::new(),
            }
        }

        fn now(&self) -> (Instant, Timestamp) {
            (
                self.started + self.elapsed,
                Timestamp::UNIX_EPOCH + self.elapsed,
            )
        }

        fn put(&mut self, id: i64, severity: Severity, is_over: bool) {
            let now = self.now().0;
            self.outbox.put(alert(id, severity, is_over), now);
        }

        fn with_policy<T>(
            &mut self,
            ask: impl FnOnce(&mut Outbox, Instant, &DeliveryPolicy) -> T,
        ) -> T {
            let (now, at) = self.now();
            let policy = DeliveryPolicy {
                at,
                standing: &self.standing,
                is_quiet: self.is_quiet,
                repeat: Some(HOUR),
                is_split: self.is_split,
                only_critical: self.only_critical,
            };
            ask(&mut self.outbox, now, &policy)
        }

        fn take(&mut self) -> Vec<Batch> {
            std::iter::from_fn(|| self.with_policy(Outbox::take_due)).collect()
        }

        fn settle(&mut self, batch: &Batch, result: &Result<String, Failure>) {
            let now = self.now();
            for record in self.outbox.settle("mail", batch, result, now) {
                self.records.insert(record.alert, record);
            }
        }

        /// Delivers what is due; what the messages held, such as `1C2w 1o`: warning, critical, over.
        fn deliver(&mut self, result: &Result<String, Failure>) -> String {
            let batches = self.take();
            batches.iter().for_each(|batch| self.settle(batch, result));
            batches.iter().map(signs).collect::<Vec<_>>().join(" ")
        }

        /// The same after so much time.
        fn after(&mut self, time: Duration, result: &Result<String, Failure>) -> String {
            self.elapsed += time;
            self.deliver(result)
        }
    }

    fn signs(batch: &Batch) -> String {
        let sign = |alert: &Alert| match (alert.is_over(), alert.severity) {
            (true, _) => 'o',
            (false, Severity::Warning) => 'w',
            (false, Severity::Critical) => 'C',
        };
        batch
            .alerts
            .iter()
            .map(|alert| format!("{}{}", alert.id, sign(alert)))
            .collect()
    }

    #[test]
    fn a_receiver_that_is_down_for_hours_gets_the_newest_state_once() {
        let mut receiver = Harness::new();
        receiver.put(1, WARNING, false);
        let mut tries = 0;
        while receiver.elapsed < 3 * HOUR {
            tries += usize::from(!receiver.deliver(&no(true)).is_empty());
            if tries == 5 {
                receiver.put(1, CRITICAL, false);
                tries += 1;
            }
            let due = receiver
                .with_policy(|outbox, _, policy| outbox.next_due(policy))
                .unwrap();
            receiver.elapsed = due - receiver.started;
        }
        assert!((40..60).contains(&tries), "{tries}");
        assert_eq!(receiver.deliver(&yes()), "1C");
        assert_eq!(receiver.after(HOUR / 2, &yes()), "");
        assert_eq!(receiver.records[&1].answer, "200 OK");
    }

    #[test]
    fn an_end_is_delivered_only_if_its_beginning_may_be_known() {
        for (result, expected) in [(no(true), ""), (no(false), "1o"), (yes(), "1o")] {
            let mut receiver = Harness::new();
            receiver.put(1, WARNING, false);
            receiver.deliver(&result);
            receiver.put(1, WARNING, true);
            assert_eq!(receiver.after(GROUP, &yes()), expected, "{result:?}");
            assert!(receiver.outbox.is_empty());
        }
    }

    #[test]
    fn after_a_restart_a_receiver_gets_what_it_does_not_know() {
        for (before, result, now, expected) in [
            ((WARNING, false), yes(), (WARNING, false), ""),
            ((WARNING, false), yes(), (CRITICAL, false), "1C"),
            ((WARNING, false), yes(), (WARNING, true), "1o"),
            ((WARNING, false), no(true), (WARNING, false), "1w"),
            ((WARNING, false), no(false), (WARNING, false), "1w"),
            ((WARNING, false), no(true), (WARNING, true), ""),
            ((WARNING, false), no(false), (WARNING, true), "1o"),
        ] {
            let (mut first, mut second) = (Harness::new(), Harness::new());
            first.put(1, before.0, before.1);
            first.deliver(&result);
            let start = second.started;
            second
                .outbox
                .resume(alert(1, now.0, now.1), first.records.get(&1), start);
            assert_eq!(
                second.deliver(&yes()),
                expected,
                "{before:?} {result:?} {now:?}"
            );
        }
        let mut untold = Harness::new();
        let start = untold.started;
        untold.outbox.resume(alert(1, WARNING, false), None, start);
        assert_eq!(
            untold.deliver(&yes()),
            "1w",
            "the earlier process was killed before it delivered"
        );
    }

    #[test]
    fn alerts_of_two_seconds_go_as_one_message_and_critical_ones_at_once() {
        let mut receiver = Harness::new();
        for (id, severity) in [(1, WARNING), (2, CRITICAL), (3, CRITICAL)] {
            receiver.put(id, severity, false);
        }
        assert_eq!(receiver.deliver(&yes()), "2C3C1w");
        receiver.put(4, WARNING, false);
        assert_eq!(receiver.after(Duration::from_secs(1), &yes()), "");
        receiver.put(5, WARNING, false);
        assert_eq!(receiver.after(Duration::from_secs(1), &yes()), "4w5w");
        receiver.put(6, WARNING, false);
        receiver.put(7, CRITICAL, false);
        assert_eq!(receiver.deliver(&yes()), "7C6w");
    }

    #[test]
    fn a_receiver_of_single_alerts_gets_each_once() {
        let mut receiver = Harness::new();
        receiver.is_split = true;
        for (id, severity) in [(1, WARNING), (2, CRITICAL), (3, WARNING)] {
            receiver.put(id, severity, false);
        }
        let batches = receiver.take();
        assert_eq!(
            batches.iter().map(signs).collect::<Vec<_>>(),
            ["2C", "1w", "3w"]
        );
        receiver.settle(&batches[0], &yes());
        receiver.settle(&batches[1], &no(true));
        receiver.settle(&batches[2], &yes());
        assert_eq!(receiver.after(FIRST_PAUSE, &yes()), "1w");
        assert_eq!(receiver.after(GROUP, &yes()), "");
    }

    #[test]
    fn the_last_place_is_for_critical_alerts() {
        let mut receiver = Harness::new();
        receiver.only_critical = true;
        receiver.put(1, WARNING, false);
        assert_eq!(receiver.deliver(&yes()), "");
        assert_eq!(
            receiver.with_policy(|outbox, _, policy| outbox.next_due(policy)),
            None
        );
        receiver.put(2, CRITICAL, false);
        assert_eq!(receiver.deliver(&yes()), "2C");
        receiver.only_critical = false;
        assert_eq!(receiver.after(GROUP, &yes()), "1w");
    }

    #[test]
    fn an_alert_is_offered_only_if_it_is_new() {
        let mut receiver = Harness::new();
        receiver.put(1, WARNING, false);
        assert_eq!(receiver.deliver(&yes()), "1w");
        let now = receiver.now().0;
        receiver.outbox.offer(alert(1, WARNING, false), now);
        receiver.outbox.offer(alert(2, WARNING, false), now);
        assert_eq!(receiver.after(GROUP, &yes()), "2w");
    }

    #[test]
    fn an_alert_that_is_refused_does_not_hold_up_others() {
        let mut receiver = Harness::new();
        receiver.put(1, WARNING, false);
        receiver.put(2, WARNING, false);
        assert_eq!(receiver.deliver(&no(true)), "1w2w");
        receiver.elapsed += FIRST_PAUSE;
        let batches = receiver.take();
        assert_eq!(
            batches.iter().map(signs).collect::<Vec<_>>(),
            ["1w", "2w"],
            "each by itself"
        );
        receiver.settle(&batches[0], &no(true));
        receiver.settle(&batches[1], &yes());
        assert!(receiver.records[&2].is_delivered);
    }

    #[test]
    fn a_success_wakes_the_others() {
        let mut receiver = Harness::new();
        receiver.put(1, WARNING, false);
        receiver.put(2, CRITICAL, false);
        for _ in 0..8 {
            receiver.after(LAST_PAUSE, &no(true));
        }
        receiver.put(3, CRITICAL, false);
        assert_eq!(receiver.deliver(&yes()), "3C");
        assert_eq!(receiver.after(GROUP, &yes()), "2C1w");
    }

    #[test]
    fn a_state_that_changes_during_its_delivery_is_delivered_afterwards() {
        let mut receiver = Harness::new();
        receiver.put(1, WARNING, false);
        let batches = receiver.take();
        receiver.put(1, CRITICAL, false);
        assert_eq!(
            receiver.deliver(&yes()),
            "",
            "one delivery of an alert at a time"
        );
        receiver.settle(&batches[0], &yes());
        assert_eq!(receiver.deliver(&yes()), "1C");
    }

    #[test]
    fn a_critical_alert_is_repeated_each_hour_until_it_is_acknowledged() {
        let mut receiver = Harness::new();
        receiver.put(1, CRITICAL, false);
        receiver.put(2, WARNING, false);
        assert_eq!(receiver.deliver(&yes()), "1C2w");
        assert_eq!(receiver.after(HOUR, &yes()), "1C");
        assert_eq!(receiver.after(HOUR / 2, &yes()), "");
        let mut alert = alert(1, CRITICAL, false);
        let until = Some(receiver.now().1 + 2 * HOUR);
        alert.acknowledged = Some(Acknowledgement {
            at: receiver.now().1,
            until,
            note: "being extended".into(),
        });
        receiver.standing.open = vec![alert];
        assert_eq!(receiver.after(HOUR, &yes()), "");
        assert_eq!(
            receiver.after(HOUR, &yes()),
            "1C",
            "the acknowledgement has ended"
        );
    }

    #[test]
    fn a_message_has_the_value_of_its_time() {
        let mut receiver = Harness::new();
        receiver.put(1, CRITICAL, false);
        receiver.deliver(&no(true));
        let now = Alert {
            text: AlertText::new("97 % full", ""),
            ..alert(1, CRITICAL, false)
        };
        receiver.standing.open = vec![now];
        receiver.elapsed += FIRST_PAUSE;
        assert_eq!(
            receiver.take()[0].alerts[0].sentence().to_string(),
            "97 % full"
        );
    }

    #[test]
    fn silences_hold_all_alerts_of_their_volumes_and_quiet_hours_hold_warnings() {
        let mut receiver = Harness::new();
        let until = receiver.now().1 + HOUR;
        let silence = Silence {
            volumes: "vg0/*".parse().unwrap(),
            until,
            note: String::new(),
        };
        receiver.standing.silences = vec![silence];
        receiver.put(1, CRITICAL, false);
        receiver.put(2, WARNING, false);
        assert_eq!(receiver.deliver(&yes()), "");
        receiver.is_quiet = true;
        assert_eq!(receiver.after(HOUR, &yes()), "1C");
        receiver.is_quiet = false;
        assert_eq!(receiver.after(GROUP, &yes()), "2w");
    }

    proptest! {
        /// Whatever a receiver does: once it takes messages again, it knows the newest state of each alert it heard of. It
        /// gets no state twice within the hour.
        #[test]
        fn nothing_is_lost(steps in proptest::collection::vec((0..3_i64, 0..3_u8, 0..3_u8), 0..60)) {
            let mut receiver = Harness::new();
            let mut newest: HashMap<i64, Alert> = HashMap::new();
            let mut heard: HashMap<i64, Alert> = HashMap::new();
            let mut changes = 0;
            for (id, change, answer) in steps {
                let is_over = newest.get(&id).is_some_and(Alert::is_over);
                if !is_over {
                    let severity = if change == 1 { CRITICAL } else { WARNING };
                    let message = alert(id, severity, change == 2 && newest.contains_key(&id));
                    newest.insert(id, message.clone());
                    receiver.outbox.put(message, receiver.started + receiver.elapsed);
                    changes += 1;
                }
                let result = [no(true), no(false), yes()][usize::from(answer)].clone();
                for batch in receiver.take() {
                    if answer > 0 {
                        heard.extend(batch.alerts.iter().map(|alert| (alert.id, alert.clone())));
                    }
                    receiver.settle(&batch, &result);
                }
                receiver.elapsed += Duration::from_secs(2);
            }
            let mut delivered = 0;
            while let Some(due) = receiver.with_policy(|outbox, _, policy| outbox.next_due(policy)) {
                receiver.elapsed = receiver.elapsed.max(due - receiver.started);
                for batch in receiver.take() {
                    delivered += batch.alerts.len();
                    heard.extend(batch.alerts.iter().map(|alert| (alert.id, alert.clone())));
                    receiver.settle(&batch, &yes());
                }
                prop_assert!(delivered <= changes.min(3));
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
