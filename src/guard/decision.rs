//! What the guard does about each volume in a tick: nothing, later, now, or not at all since a limit forbids it.
//!
//! The speed says when: an extension is due as late as is safe. The forecast says whether and how much: a third of what the
//! backup still needs, so that little is added in vain. Where a group has too little room, metadata gets it first, then
//! pools, since a full pool stops the database; then the snapshots that need least, each wholly.

use std::collections::BTreeMap;

use crate::config::VolumeLimits;
use crate::sample::guard::{GuardPlan, GuardedPart};
use crate::units::{rough_text, size_text};

/// An extension is due when less than this is left, at least: a tick, LVM's report and the extension take two seconds, and
/// the speed may rise to three times meanwhile.
const LEAD_S: f64 = 6.0;
/// What comes before an extension: up to two ticks, and LVM's report.
const TICKS_S: f64 = 3.0;
/// LVM may take twice as long as the last time.
const SLOWER: f64 = 2.0;
/// The smallest step lasts longer than the lead, or the next one would be due at once.
const LONGER: f64 = 1.3;
/// A pool that is full makes writes wait and loses nothing, but it gives nothing back either: it is extended later, by small
/// steps. Each is at least this part of what was added before, so that there are few.
const POOL_LEAD: f64 = 0.6;
const POOL_GROWTH: u64 = 10;
/// How fast a full pool would grow in a second, as a share of its size, if that is unknown.
const FULL_POOL_SHARE: f64 = 0.005;
/// Metadata that is full damages the pool, and grows in jumps.
const METADATA_LEAD: f64 = 3.0;
/// Steps for the rest of a backup.
const STEPS: u32 = 3;
/// Without a forecast, a backup lasts as long again as it was seen, and at least this long.
const SHORTEST_REST_S: f64 = 60.0;
/// Before so many readings nothing is known, unless more than half is gone by then.
const READINGS: usize = 3;
/// Writers are slowed when all room lasts no longer than this: the command takes a second, and what it stops goes on for some.
const SLOW_LEAD_S: f64 = 30.0;
/// A pool grows without end. If the limits allow room for less than this, an administrator has to act.
const POOL_NEED_S: f64 = 600.0;
/// Extensions further ahead are not announced.
const ANNOUNCED_S: f64 = 3600.0;

/// A volume, or the metadata of a pool, as it is now.
#[derive(Clone, Debug)]
pub struct GuardSubject {
    pub uuid: String,
    pub part: GuardedPart,
    /// `vg0/data_snapshot`, or `vg0/pool_tmeta` for the metadata of a pool.
    pub name: String,
    pub vg: String,
    pub size: u64,
    pub used: u64,
    pub readings: usize,
    /// For how long its growth was seen, and how fast it fills, in bytes a second; `None` before two readings.
    pub seen_s: f64,
    pub bytes_per_s: Option<f64>,
    pub need: RemainingNeed,
    /// Why it is left alone, such as `it is invalid`.
    pub left_alone: Option<String>,
    /// Whether it overflowed, and its backup is lost.
    pub is_lost: bool,
    /// `None` before LVM answered, or if its answer is too old.
    pub lvm: Option<LvmRoom>,
    pub limits: VolumeLimits,
    pub spent: Spent,
    /// Whether dmeventd extends it too.
    pub is_autoextended: bool,
}

/// What its backup still needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RemainingNeed {
    /// Nothing is known: its speed alone counts.
    #[default]
    Unknown,
    Until {
        /// Growth until the backup is done, at most.
        growth: u64,
        /// The latest end of the backup.
        done_s: Option<f64>,
    },
    /// It can hold a copy of its whole origin.
    CannotOverflow,
}

/// What LVM can do for it, by its report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LvmRoom {
    /// It grows by multiples of these bytes.
    pub step: u64,
    /// What the group gives for such a step.
    pub step_cost: u64,
    /// What it can get at most.
    pub free: Option<u64>,
    pub refusal: Option<String>,
}

/// What was already done for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    pub steps: u32,
    pub added: u64,
    /// By all volumes with the same limits, in the last 24 hours.
    pub today: u64,
}

/// The free space of a group, and what of it is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupRoom {
    pub free: Option<u64>,
    pub keep_free: u64,
    /// The size of the spare volume for metadata, which LVM keeps as large as the largest metadata.
    pub spare: u64,
    /// How long the last extension took, or the slowest one in other groups.
    pub took_s: f64,
}

/// The decision about a subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub plan: GuardPlan,
    /// Of [`GuardPlan::Extends`].
    pub extension: Option<GuardExtension>,
    /// Whether it will overflow soon in spite of all the room that it may get: only slower writers can save it.
    pub is_short: bool,
    /// That it may not get all that it needs, and why: `but by less than it needs: …`
    pub shortfall: Option<String>,
    /// Whether LVM has to be asked before an extension can be decided.
    pub needs_lvm: bool,
    /// What follows `The guard`, or with [`GuardPlan::WillExtend`] and [`GuardPlan::Extends`] `The guard will`.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardExtension {
    /// The new size.
    pub to: u64,
    pub add: u64,
    /// For how long the present room lasts.
    pub left_s: f64,
}

impl Decision {
    fn nothing(text: impl Into<String>) -> Self {
        Self {
            plan: GuardPlan::Nothing,
            extension: None,
            is_short: false,
            shortfall: None,
            needs_lvm: false,
            text: text.into(),
        }
    }

    fn may_not(why: impl std::fmt::Display) -> Self {
        Self {
            plan: GuardPlan::MayNot,
            ..Self::nothing(format!("may not extend it: {why}"))
        }
    }
}

/// The danger of a subject.
enum Danger {
    None(String),
    Later {
        want: u64,
        /// It is due in so many seconds.
        in_s: f64,
        left_s: f64,
    },
    Due {
        /// The bytes that it needs in all, and now.
        want: u64,
        step: u64,
        left_s: f64,
    },
}

/// The decisions about all subjects, in their order. `late_s` is how late the last tick was. `slows`: whether writers can be
/// slowed; then what would not suffice is added at once, so that nothing has to be added while they are.
pub fn decide(
    subjects: &[GuardSubject],
    groups: &BTreeMap<String, GroupRoom>,
    late_s: f64,
    slows: bool,
) -> Vec<Decision> {
    let lead_s = |subject: &GuardSubject, due: usize| {
        let took_s = groups.get(&subject.vg).map_or(0.0, |group| group.took_s);
        let lead_s = LEAD_S.max(TICKS_S + late_s + SLOWER * took_s * due as f64);
        let lead_s = match subject.part {
            GuardedPart::Snapshot => lead_s,
            GuardedPart::Pool => lead_s * POOL_LEAD,
            GuardedPart::Metadata => lead_s * METADATA_LEAD,
        };
        // dmeventd comes first, if it comes in time.
        if subject.is_autoextended {
            lead_s / 2.0
        } else {
            lead_s
        }
    };
    let mut queues: BTreeMap<&str, Vec<(f64, &GuardSubject)>> = BTreeMap::new();
    for subject in subjects {
        if let Some(left_s) = danger(subject, lead_s(subject, 1)).left_s() {
            queues
                .entry(&subject.vg)
                .or_default()
                .push((left_s, subject));
        }
    }
    // A group extends one volume after the other: the first ones are due as soon as the last one would come too late.
    let mut due: BTreeMap<&str, usize> = BTreeMap::new();
    for (vg, mut queue) in queues {
        queue.sort_by(|(left_s, _), (other_s, _)| left_s.total_cmp(other_s));
        let is_late = |place: &usize| {
            let (left_s, subject) = queue[place - 1];
            left_s < lead_s(subject, *place)
        };
        let together = (1..=queue.len()).rev().find(is_late);
        due.insert(vg, together.unwrap_or(1));
    }
    let mut dangers = Vec::new();
    for subject in subjects {
        let together = due.get(&*subject.vg).copied().unwrap_or(1);
        dangers.push(danger(subject, lead_s(subject, together)));
    }
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    order.sort_by_key(|&index| (subjects[index].part, wanted(&dangers[index]), index));
    let mut taken: BTreeMap<&str, u64> = BTreeMap::new();
    let mut spares: BTreeMap<&str, u64> = BTreeMap::new();
    // Volumes of the same limits share what they may get in a day.
    let mut promised: BTreeMap<&str, u64> = BTreeMap::new();
    let mut decisions = vec![Decision::nothing(""); subjects.len()];
    for index in order {
        let subject = &subjects[index];
        if let Danger::None(why) = &dangers[index] {
            decisions[index] = Decision::nothing(why);
            continue;
        }
        let group = groups.get(&subject.vg).copied().unwrap_or_default();
        let taken = taken.entry(&subject.vg).or_default();
        let spare = spares.entry(&subject.vg).or_insert(group.spare);
        let promised = promised
            .entry(subject.limits.name.as_str())
            .or_insert(subject.spent.today);
        let room = GroupBudget {
            group,
            taken: *taken,
            spare: *spare,
            today: *promised,
        };
        let speed = subject.bytes_per_s.unwrap_or_default();
        let (most, why) = room.most(subject);
        let is_short = |want: u64, left_s: f64| {
            slows && want > most && left_s + most as f64 / speed < SLOW_LEAD_S
        };
        let needed = match subject.part {
            GuardedPart::Snapshot => wanted(&dangers[index]),
            GuardedPart::Pool | GuardedPart::Metadata => (speed * POOL_NEED_S) as u64,
        };
        let shortfall = (needed > most).then(|| match group.free {
            Some(_) => format!("but by less than it needs: {why}"),
            None => format!("if there is room: {why}"),
        });
        let (want, step, left_s, is_short) = match dangers[index] {
            Danger::None(_) => continue,
            Danger::Later { want, left_s, .. } if is_short(want, left_s) => {
                (want, want, left_s, true)
            }
            Danger::Later { want, in_s, .. } => {
                *taken += cost_of_legs(subject, want);
                decisions[index] = Decision {
                    plan: GuardPlan::WillExtend,
                    // In time for the decision.
                    needs_lvm: subject.lvm.is_none() && in_s < LEAD_S,
                    shortfall,
                    ..Decision::nothing(format!("extend it in about {}", rough_text(in_s)))
                };
                continue;
            }
            Danger::Due { want, left_s, .. } if is_short(want, left_s) => {
                (want, want, left_s, true)
            }
            Danger::Due { want, step, left_s } => (want, step, left_s, false),
        };
        let decision = extend(subject, room, step, left_s);
        let add = decision.extension.map_or(0, |extension| extension.add);
        *taken += room.cost(subject, add);
        *promised += add;
        if subject.part == GuardedPart::Metadata && add > 0 {
            *spare = (*spare).max(subject.size + add);
        }
        // What others may not take: the rest of a snapshot's need, or one more step of a pool.
        let rest = match subject.part {
            GuardedPart::Snapshot => want.saturating_sub(add),
            GuardedPart::Pool | GuardedPart::Metadata => want,
        };
        *taken += cost_of_legs(subject, rest);
        decisions[index] = Decision {
            // By an older report it may only seem so.
            is_short: is_short && subject.lvm.is_some(),
            shortfall,
            ..decision
        };
    }
    decisions
}

impl Danger {
    fn left_s(&self) -> Option<f64> {
        match self {
            Self::None(_) => None,
            Self::Later { left_s, .. } | Self::Due { left_s, .. } => Some(*left_s),
        }
    }
}

/// The extensions that are due, in the order in which they are made: what is full soonest comes first.
pub fn extensions<'a>(
    subjects: &'a [GuardSubject],
    decisions: &[Decision],
) -> Vec<(&'a GuardSubject, GuardExtension)> {
    let mut due = Vec::new();
    for (subject, decision) in subjects.iter().zip(decisions) {
        due.extend(decision.extension.map(|extension| (subject, extension)));
    }
    due.sort_by(|(_, one), (_, other)| one.left_s.total_cmp(&other.left_s));
    due
}

fn wanted(danger: &Danger) -> u64 {
    match danger {
        Danger::None(_) => 0,
        Danger::Later { want, .. } | Danger::Due { want, .. } => *want,
    }
}

fn danger(subject: &GuardSubject, lead_s: f64) -> Danger {
    let nothing = |why: &str| Danger::None(why.into());
    if let Some(why) = &subject.left_alone {
        return nothing(&format!("leaves it alone: {why}"));
    }
    let is_half_full = subject.used > subject.size / 2;
    let Some(speed) = subject
        .bytes_per_s
        .filter(|_| subject.readings >= READINGS || is_half_full)
    else {
        return nothing("watches it for some seconds first");
    };
    let is_full = subject.used >= subject.size;
    let speed = match subject.part {
        // Its writers wait, so it does not grow.
        GuardedPart::Pool if is_full => speed.max(subject.size as f64 * FULL_POOL_SHARE),
        _ => speed,
    };
    if speed <= 0.0 {
        return nothing("has nothing to do: it does not grow");
    }
    let free = subject.size.saturating_sub(subject.used) as f64;
    let left_s = free / speed;
    let is_due = left_s < lead_s;
    let step_s = lead_s * LONGER;
    let soon = (speed * step_s) as u64;
    let by_speed = |seconds: f64| (speed * seconds - free).max(0.0) as u64;
    let want = match (&subject.need, subject.part) {
        (RemainingNeed::CannotOverflow, _) => {
            return nothing("has nothing to do: it can hold a copy of its whole origin");
        }
        (_, GuardedPart::Pool | GuardedPart::Metadata) => {
            soon.max(subject.spent.added / POOL_GROWTH).max(1)
        }
        (RemainingNeed::Unknown, _) => by_speed(subject.seen_s.max(SHORTEST_REST_S)),
        (RemainingNeed::Until { growth, done_s }, _) => {
            let by_forecast = (*growth as f64 - free).max(0.0) as u64;
            // What was not foreseen: at this speed it is full before the backup is done.
            let rest_s = done_s.unwrap_or(step_s).min(step_s);
            if is_due && left_s < lead_s / 2.0 {
                by_forecast.max(by_speed(rest_s))
            } else {
                by_forecast
            }
        }
    };
    if want == 0 {
        return nothing("has nothing to do: its backup will be done first");
    }
    if !is_due {
        let in_s = left_s - lead_s;
        if in_s > ANNOUNCED_S {
            return nothing("has nothing to do within the next hour");
        }
        return Danger::Later { want, in_s, left_s };
    }
    let step = match subject.part {
        GuardedPart::Snapshot => {
            let steps_left = subject
                .limits
                .steps_per_backup
                .saturating_sub(subject.spent.steps);
            let mut part = want / u64::from(steps_left.clamp(1, STEPS));
            if steps_left > STEPS {
                // What was seen for seconds says little about hours.
                part = part.min(by_speed(subject.seen_s));
            }
            part.max(soon.min(want))
        }
        GuardedPart::Pool | GuardedPart::Metadata => want,
    };
    Danger::Due { want, step, left_s }
}

/// The room of a group at the moment of a decision.
#[derive(Clone, Copy)]
struct GroupBudget {
    group: GroupRoom,
    /// By those that come before.
    taken: u64,
    spare: u64,
    /// What was added in the last 24 hours under the same limits.
    today: u64,
}

impl GroupBudget {
    /// What an extension takes from the group: with metadata, its spare grows.
    fn cost(self, subject: &GuardSubject, add: u64) -> u64 {
        let cost = cost_of_legs(subject, add);
        if subject.part != GuardedPart::Metadata || add == 0 {
            return cost;
        }
        cost + (subject.size + add).saturating_sub(self.spare)
    }

    /// The largest addition that costs no more than `usable`.
    fn most_for(self, subject: &GuardSubject, usable: u64) -> u64 {
        let (step, cost) = step_of(subject);
        let [step, cost, usable] = [step, cost, usable].map(i128::from);
        let spare_is_larger_by = i128::from(self.spare) - i128::from(subject.size);
        let without_spare = usable * step / cost;
        let most = if subject.part != GuardedPart::Metadata || without_spare <= spare_is_larger_by {
            without_spare
        } else {
            (usable + spare_is_larger_by) * step / (cost + step)
        };
        u64::try_from(most).unwrap_or(0)
    }

    /// The most that a volume may get, and what allows no more.
    fn most(self, subject: &GuardSubject) -> (u64, String) {
        let limits = &subject.limits;
        let lvm = subject.lvm.as_ref();
        let vg = &subject.vg;
        let (kept, usable) = (size_text(self.group.keep_free), {
            let free = self.group.free.unwrap_or_default();
            let usable = free.saturating_sub(self.group.keep_free);
            self.most_for(subject, usable.saturating_sub(self.taken))
        });
        let none_if = |forbids: bool| if forbids { 0 } else { u64::MAX };
        let free = self.group.free.map(size_text);
        let steps = subject.spent.steps;
        let is_out_of_steps =
            subject.part == GuardedPart::Snapshot && steps >= limits.steps_per_backup;
        let refusal = lvm.and_then(|lvm| lvm.refusal.as_ref());
        let allowed = [
            (
                none_if(lvm.is_some_and(|lvm| lvm.step == 0)),
                "LVM does not report the size of an extent".into(),
            ),
            (
                none_if(free.is_none()),
                format!("the free space of VG {vg} is unknown"),
            ),
            (
                none_if(refusal.is_some()),
                refusal.cloned().unwrap_or_default(),
            ),
            (
                none_if(is_out_of_steps),
                format!("`steps_per_backup` allows {steps} extensions"),
            ),
            (
                limits.largest.0.saturating_sub(subject.size),
                format!("`largest` is {}", size_text(limits.largest.0)),
            ),
            (
                limits.add_at_most_per_day.0.saturating_sub(self.today),
                format!(
                    "`add_at_most_per_day` is {}, and {} were added",
                    size_text(limits.add_at_most_per_day.0),
                    size_text(self.today)
                ),
            ),
            (
                usable,
                match (free.unwrap_or_default(), self.taken) {
                    (free, 0) => format!("{kept} are kept free in VG {vg}, and {free} are free"),
                    (free, _) => format!(
                        "VG {vg} has {free} free, of which {kept} are kept free and the rest is for what comes first"
                    ),
                },
            ),
            (
                lvm.and_then(|lvm| lvm.free).unwrap_or(u64::MAX),
                format!("the PVs of VG {vg} have no room for it"),
            ),
        ];
        let (mut most, mut why) = (u64::MAX, String::new());
        for (at_most, reason) in allowed {
            if at_most < most {
                (most, why) = (at_most, reason);
            }
        }
        (most, why)
    }
}

/// The step in which it grows, and what the group gives for that; one and one while that is not known.
fn step_of(subject: &GuardSubject) -> (u64, u64) {
    let lvm = subject.lvm.as_ref().filter(|lvm| lvm.step > 0);
    lvm.map_or((1, 1), |lvm| (lvm.step, lvm.step_cost))
}

/// What the group gives for so many bytes of a volume: more if its legs have copies or parity.
fn cost_of_legs(subject: &GuardSubject, bytes: u64) -> u64 {
    let (step, cost) = step_of(subject);
    let taken = (u128::from(bytes) * u128::from(cost)).div_ceil(u128::from(step));
    u64::try_from(taken).unwrap_or(u64::MAX)
}

/// The extension by about `step`, as far as it is allowed.
fn extend(subject: &GuardSubject, room: GroupBudget, step: u64, left_s: f64) -> Decision {
    let Some(lvm) = &subject.lvm else {
        return Decision {
            plan: GuardPlan::WillExtend,
            needs_lvm: true,
            ..Decision::nothing("extend it once LVM has said how much room there is")
        };
    };
    let (most, why) = room.most(subject);
    let unit = lvm.step.max(1);
    let wished = step.div_ceil(unit).saturating_mul(unit);
    let add = wished.min(most / unit * unit);
    if add == 0 {
        return Decision::may_not(why);
    }
    let to = subject.size + add;
    Decision {
        plan: GuardPlan::Extends,
        extension: Some(GuardExtension { to, add, left_s }),
        ..Decision::nothing(format!(
            "extend it by {} to {}",
            size_text(add),
            size_text(to)
        ))
    }
}
