//! `cowbell guard`: extends snapshots and pools in time, within limits, and ends suspensions that others left behind.
//!
//! ```text
//! tick → watch → decision → command → state file, journal
//!                         ↘ slowing ↗
//! ```
//!
//! It decides by itself, by the device-mapper's status, and takes no request: neither pages nor the database can make it
//! act. LVM is asked only when an extension is near. What it added is in a file, so that limits hold after a restart.

mod command;
mod decision;
mod ledger;
mod slowing;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::advice::Extensible;
use crate::alert::is_autoextended;
use crate::config::{GuardMode, GuardSettings};
use crate::interval::Interval;
use crate::pipeline::Observer;
use crate::sample::guard::{
    GuardAction, GuardPlan, GuardState, GuardedPart, GuardedVolume, STATE_PERIOD_US,
};
use crate::source::guard::{FOLDER, STATE_FILE};
use crate::source::live::Live;
use crate::source::{Part, PartReading, ReadResult, Reading};
use crate::systemd;
use crate::topology::{State, Topology, Volume};
use crate::units::{count_text, duration_text, size_text};
use command::{CommandResult, Order};
use decision::{Decision, GroupRoom, GuardExtension, GuardSubject, decide, extensions};
use ledger::{Addition, Ledger, ReportAge, replace};
use slowing::{Slowing, SlowingStep};
use watch::{Watch, groups, pool_part};

/// The length of a tick.
pub const TICK: Duration = Duration::from_secs(1);
/// After an extension that failed, the volume is left alone for so long.
const FAILURE_PAUSE_US: u64 = 3_000_000;
/// A device that stays suspended for so long, while no command of LVM is at work, was left so.
const SUSPENDED_US: u64 = 3_000_000;
/// Actions in the state file.
const MOST_ACTIONS: usize = 20;
/// The file with a line of JSON for each action, and its size limit; then it begins anew.
const ACTIONS_FILE: &str = "actions.jsonl";
const MAX_ACTIONS_FILE: u64 = 1 << 20;
/// After so many ticks without LVM's report, the guard is ready without it.
const PATIENCE: u64 = 10;
/// How much of a lateness remains after a tick.
const LATENESS_KEPT: f64 = 0.9;

/// The guard between two ticks.
pub struct Guard {
    settings: GuardSettings,
    folder: PathBuf,
    observer: Observer,
    watch: Watch,
    ledger: Ledger,
    slowing: Slowing,
    /// Running commands, at most one for each group, and one that slows writers or ends that.
    commands: JoinSet<Finished>,
    busy: Vec<String>,
    /// How long the last extension in each group took.
    took_s: BTreeMap<String, f64>,
    /// Until when volumes are left alone after a failure, and why.
    failures: HashMap<(String, GuardedPart), (u64, String)>,
    /// Since when devices are suspended, and when that is to be ended, by volume to refresh.
    suspended: BTreeMap<String, (u64, u64)>,
    actions: VecDeque<GuardAction>,
    /// The volumes that were seen before they were lost, if they were.
    alive: HashSet<String>,
    /// What was last written to the journal about each volume.
    logged: HashMap<(String, GuardedPart), (GuardPlan, String)>,
    reports: ReportAge,
    ticked_us: Option<u64>,
    late_s: f64,
    written: Option<GuardState>,
    ticks: u64,
    /// Whether the configuration was compared with LVM's report.
    is_checked: bool,
    is_ready: bool,
}

/// A command that has ended.
struct Finished {
    task: Task,
    action: GuardAction,
    result: CommandResult,
}

/// What a command is for.
#[derive(Clone, Debug, PartialEq)]
enum Task {
    /// In a group.
    Extend(String, GuardedPart),
    Refresh(String),
    Slow,
    Lift,
}

impl Task {
    fn vg(&self) -> Option<&String> {
        match self {
            Self::Extend(vg, _) | Self::Refresh(vg) => Some(vg),
            Self::Slow | Self::Lift => None,
        }
    }
}

impl Guard {
    /// Continues where an earlier guard ended.
    pub fn open(settings: GuardSettings) -> anyhow::Result<Self> {
        let folder = PathBuf::from(FOLDER);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let ledger = match settings.mode {
            GuardMode::On => Ledger::open(&folder).map_err(|why| anyhow!(why))?,
            GuardMode::DryRun => Ledger::in_memory(),
        };
        let slowing = Slowing::open(&folder).map_err(|why| anyhow!(why))?;
        Ok(Self {
            settings,
            folder,
            slowing,
            observer: Observer::default(),
            watch: Watch::default(),
            ledger,
            commands: JoinSet::new(),
            busy: Vec::new(),
            took_s: BTreeMap::new(),
            failures: HashMap::new(),
            suspended: BTreeMap::new(),
            actions: VecDeque::new(),
            alive: HashSet::new(),
            logged: HashMap::new(),
            reports: ReportAge::default(),
            ticked_us: None,
            late_s: 0.0,
            written: None,
            ticks: 0,
            is_checked: false,
            is_ready: false,
        })
    }

    /// Guards until a signal. Ends after the commands that it began, never before.
    pub async fn run(mut self, mut live: Live, shutdown: &CancellationToken) -> anyhow::Result<()> {
        let end = loop {
            tokio::select! {
                () = shutdown.cancelled() => break Ok(()),
                Some(Ok(finished)) = self.commands.join_next() => {
                    let was_extension = matches!(finished.task, Task::Extend(..));
                    self.finish(finished);
                    if was_extension {
                        // Others may wait for their turn.
                        self.reports.ask(&mut live);
                    }
                }
                reading = live.next() => {
                    if let Err(error) = self.tick(&reading, &mut live) {
                        break Err(error);
                    }
                }
            }
        };
        self.finish_all().await;
        if let Some(step) = self.slowing.end() {
            self.slow(step, Timestamp::now());
            self.finish_all().await;
        }
        if end.is_ok() {
            // A clean end is no failure that the daemon has to report.
            let _ = std::fs::remove_file(self.folder.join(STATE_FILE));
        }
        end
    }

    async fn finish_all(&mut self) {
        while let Some(Ok(finished)) = self.commands.join_next().await {
            self.finish(finished);
        }
    }

    fn tick(&mut self, reading: &Reading, live: &mut Live) -> anyhow::Result<()> {
        let now_us = reading.uptime_us;
        let interval = self.observer.observe(reading);
        self.note_lateness(now_us);
        self.take_report(reading, &interval)?;
        self.begin_service();
        let (subjects, groups) = self.watched(&interval, now_us);
        let slows = self.settings.slow_writers.is_some();
        let decisions = decide(&subjects, &groups, self.late_s, slows);
        if self.needs_report(&subjects, &decisions, now_us) && self.reports.may_ask(now_us) {
            self.reports.ask(live);
        }
        for (subject, decision) in subjects.iter().zip(&decisions) {
            self.log(subject, decision);
            self.tell_loss(subject, interval.at);
        }
        // Before extensions, which would occupy the group at each tick.
        self.heal(&interval, now_us);
        self.slow_or_extend(&interval, &subjects, &decisions, now_us);
        self.write(&subjects, &decisions, now_us);
        Ok(())
    }

    /// Notes that LVM's report came. The first one shows whether the configuration fits the host.
    fn take_report(&mut self, reading: &Reading, interval: &Interval) -> anyhow::Result<()> {
        let is_report = |text: &PartReading| {
            text.part == Part::Lvm && matches!(text.result, ReadResult::Text(_))
        };
        if !reading.texts.iter().any(is_report) {
            return Ok(());
        }
        self.reports.came(reading.uptime_us);
        if !self.is_checked {
            check(&self.settings, interval)?;
            self.is_checked = true;
        }
        Ok(())
    }

    /// Tells systemd when the guard is ready.
    fn begin_service(&mut self) {
        self.ticks += 1;
        if !self.is_ready && (self.is_checked || self.ticks >= PATIENCE) {
            self.is_ready = true;
            systemd::notify("READY=1");
        }
    }

    /// The volumes and groups that the guard decides about.
    fn watched(
        &mut self,
        interval: &Interval,
        now_us: u64,
    ) -> (Vec<GuardSubject>, BTreeMap<String, GroupRoom>) {
        let is_fresh = |vg: &str| self.reports.are_fresh(vg, now_us);
        let watch = &mut self.watch;
        let mut subjects = watch.subjects(interval, &self.settings, &self.ledger, now_us, is_fresh);
        let mut groups = groups(interval, &self.settings, &self.took_s);
        if self.settings.mode == GuardMode::DryRun {
            self.pretend_extended(&mut subjects, &mut groups);
        }
        for subject in &mut subjects {
            let failure = self.failures.get(&(subject.uuid.clone(), subject.part));
            if let Some((until_us, why)) = failure
                && now_us < *until_us
            {
                subject.left_alone = Some(format!("the last attempt failed: {why}"));
            }
        }
        (subjects, groups)
    }

    /// In dry-run, as if volumes had been extended.
    fn pretend_extended(
        &self,
        subjects: &mut [GuardSubject],
        groups: &mut BTreeMap<String, GroupRoom>,
    ) {
        let added = self.ledger.added();
        for subject in subjects {
            let key = (&*subject.uuid, subject.part);
            let added = added.get(&key).copied().unwrap_or_default();
            subject.size += added;
            if let Some(group) = groups.get_mut(&subject.vg) {
                group.free = group.free.map(|free| free.saturating_sub(added));
            }
        }
    }

    /// Whether LVM is to be asked: never while nothing is at risk.
    fn needs_report(&self, subjects: &[GuardSubject], decisions: &[Decision], now_us: u64) -> bool {
        let are_old = self.reports.are_old(now_us);
        let is_needed = |(subject, decision): (&GuardSubject, &Decision)| {
            let is_now = decision.needs_lvm && !self.busy.contains(&subject.vg);
            is_now || are_old && decision.plan == GuardPlan::WillExtend
        };
        !self.is_checked || subjects.iter().zip(decisions).any(is_needed)
    }

    /// Extends what is due, unless writers are slowed at this moment.
    fn slow_or_extend(
        &mut self,
        interval: &Interval,
        subjects: &[GuardSubject],
        decisions: &[Decision],
        now_us: u64,
    ) {
        let due = extensions(subjects, decisions);
        let volumes: Vec<_> = subjects.iter().zip(decisions).collect();
        let step = self.slowing.step(
            self.settings.slow_writers.as_ref(),
            &volumes,
            now_us,
            due.is_empty() && self.busy.is_empty(),
            !due.is_empty(),
        );
        if let Some(step) = step {
            self.slow(step, interval.at);
        }
        if self.slowing.slowed().is_none() {
            for (subject, extension) in due {
                self.extend(subject, extension, interval, now_us);
            }
        }
    }

    fn note_lateness(&mut self, now_us: u64) {
        let elapsed_us = self
            .ticked_us
            .map_or(0, |before| now_us.saturating_sub(before));
        let late_s = (elapsed_us as f64 / 1e6 - TICK.as_secs_f64()).max(0.0);
        self.late_s = late_s.max(self.late_s * LATENESS_KEPT);
        self.ticked_us = Some(now_us);
    }

    /// A line for each new decision; a time that only comes nearer is no new one.
    fn log(&mut self, subject: &GuardSubject, decision: &Decision) {
        if self.busy.contains(&subject.vg) {
            // It is suspended for moments.
            return;
        }
        let key = (subject.uuid.clone(), subject.part);
        let text = match decision.plan {
            GuardPlan::WillExtend => decision.shortfall.clone().unwrap_or_default(),
            _ => decision.text.clone(),
        };
        let now = (decision.plan, text);
        if self.logged.get(&key) == Some(&now) {
            return;
        }
        let before = self.logged.insert(key, now);
        let is_first = before.is_none();
        let sentence = sentence(decision, self.settings.mode);
        let line = format!("{}: {sentence} ({})", subject.name, numbers(subject));
        match decision.plan {
            GuardPlan::Nothing if is_first => tracing::debug!("{line}"),
            GuardPlan::MayNot => tracing::warn!("{line}"),
            _ => tracing::info!("{line}"),
        }
    }

    fn extend(
        &mut self,
        subject: &GuardSubject,
        extension: GuardExtension,
        interval: &Interval,
        now_us: u64,
    ) {
        let Some(volume) = interval.topology.volume(&subject.uuid) else {
            return;
        };
        if self.busy.contains(&subject.vg) {
            return;
        }
        let addition = Addition {
            uptime_us: now_us,
            uuid: subject.uuid.clone(),
            part: subject.part,
            limits: subject.limits.name.as_str().into(),
            bytes: extension.add,
        };
        let is_there = |uuid: &str| interval.topology.volume(uuid).is_some();
        if let Err(why) = self.ledger.begin(addition, is_there) {
            tracing::error!("{}: it is not extended, since {why}", subject.name);
            self.fail(subject.uuid.clone(), subject.part, now_us, why);
            return;
        }
        let extensible = Extensible::new(volume, &interval.topology, pool_part(subject.part));
        let command = command::extension(&extensible.option, extension.to, &extensible.name);
        let (add, to) = (size_text(extension.add), size_text(extension.to));
        let text = format!("The guard added {add}, to {to}.");
        let action = GuardAction {
            uuid: subject.uuid.clone(),
            command: command.clone(),
            from_bytes: Some(subject.size),
            to_bytes: Some(extension.to),
            ..GuardAction::new(interval.at, self.settings.mode, subject.name.clone(), text)
        };
        if self.settings.mode == GuardMode::DryRun {
            let text = format!("The guard would have added {add}, to {to} (dry-run).");
            self.record(GuardAction { text, ..action });
            return;
        }
        let order = Order {
            command,
            device: device_of(volume, subject.part, &interval.topology),
            mounts: mounts_of_origin(volume, &interval.topology),
            left_s: extension.left_s,
            longest_hold: subject.limits.longest_hold.0,
            resumes: None,
            user: None,
            output: self.output_file(&subject.vg),
        };
        self.start(
            Task::Extend(subject.vg.clone(), subject.part),
            action,
            order,
        );
    }

    /// Slows writers, or ends that.
    fn slow(&mut self, step: SlowingStep, at: Timestamp) {
        let (slowed, task, text) = match step {
            SlowingStep::Slow(slowed) => {
                let text = "It may get no more room, so the guard slowed its writers.";
                (slowed, Task::Slow, text)
            }
            SlowingStep::Lift(slowed) => (slowed, Task::Lift, "Its writers are no longer slowed."),
        };
        let mode = self.settings.mode;
        let order = match task {
            Task::Slow => slowed.order(&self.folder, &slowed.command),
            _ => slowed.undo(&self.folder),
        };
        let action = GuardAction {
            command: order.command.clone(),
            ..GuardAction::new(at, mode, slowed.names(), text)
        };
        if task == Task::Slow && mode == GuardMode::DryRun {
            let text =
                "It may get no more room; the guard would have slowed its writers (dry-run).";
            self.slowing.skip(slowed);
            self.record(GuardAction {
                text: text.into(),
                ..action
            });
            return;
        }
        if task == Task::Slow
            && let Err(why) = self.slowing.begin(&slowed)
        {
            tracing::error!("{}: its writers are not slowed, since {why}", action.name);
            return;
        }
        self.start(task, action, order);
    }

    /// Tells that a volume was lost that the guard had extended.
    fn tell_loss(&mut self, subject: &GuardSubject, at: Timestamp) {
        let steps = subject.spent.steps;
        if !subject.is_lost {
            if !self.alive.contains(&subject.uuid) {
                self.alive.insert(subject.uuid.clone());
            }
            return;
        }
        let is_new = self.alive.remove(&subject.uuid);
        if !is_new || steps == 0 || self.settings.mode == GuardMode::DryRun {
            return;
        }
        let (added, steps) = (
            size_text(subject.spent.added),
            count_text(steps, "step", "steps"),
        );
        let text = format!("It was lost, although the guard had added {added} in {steps}.");
        self.record(GuardAction {
            uuid: subject.uuid.clone(),
            failed: true,
            ..GuardAction::new(at, self.settings.mode, subject.name.clone(), text)
        });
    }

    fn start(&mut self, task: Task, action: GuardAction, order: Order) {
        self.busy.extend(task.vg().cloned());
        self.commands.spawn_blocking(move || Finished {
            task,
            action,
            result: command::run(&order),
        });
    }

    fn output_file(&self, vg: &str) -> PathBuf {
        self.folder.join(format!("{vg}.output"))
    }

    fn finish(&mut self, finished: Finished) {
        let Finished {
            task,
            mut action,
            result,
        } = finished;
        self.busy.retain(|busy| Some(busy) != task.vg());
        action.exit_status = result.status.and_then(|status| status.code());
        action.took_ms = Some(result.took.as_millis() as u64);
        action.expected_hold_ms = result.expected_hold.map(|hold| hold.as_millis() as u64);
        action.suspended_ms = Some(result.suspended.as_millis() as u64);
        let why = result.error;
        let failed = why.is_some();
        if let Some(why) = &why {
            action.failed = true;
            let did_not = match task {
                Task::Extend(..) => "did not extend it",
                Task::Refresh(_) => "could not end its suspension",
                Task::Slow => "could not slow its writers",
                Task::Lift => "could not undo the slowing of its writers, and tries again",
            };
            action.text = format!("The guard {did_not}: {why}.");
        }
        match task {
            Task::Extend(vg, part) => {
                self.reports.changed(vg.clone());
                if result.status.is_some() {
                    self.took_s.insert(vg, result.took.as_secs_f64());
                }
                if let Some(why) = why {
                    // A command that a signal ended may have extended it.
                    if result.status.is_none_or(|status| status.code().is_some())
                        && let Err(error) = self.ledger.withdraw(&action.uuid, part)
                    {
                        tracing::error!("{error}");
                    }
                    let now_us = self.ticked_us.unwrap_or_default();
                    self.fail(action.uuid.clone(), part, now_us, why);
                }
            }
            Task::Refresh(_) => {}
            Task::Slow => self.slowing.begun(failed),
            Task::Lift => {
                if let Err(error) = self.slowing.lifted(failed) {
                    tracing::error!("{error}");
                }
            }
        }
        self.record(action);
    }

    fn fail(&mut self, uuid: String, part: GuardedPart, now_us: u64, why: String) {
        let until_us = now_us + FAILURE_PAUSE_US;
        self.failures.insert((uuid, part), (until_us, why));
    }

    /// Notes an action in the journal, the file of actions and the state file.
    fn record(&mut self, action: GuardAction) {
        let (name, text, command) = (&action.name, &action.text, action.command.join(" "));
        let took = action.took_ms.map(|ms| format!(", in {ms} ms"));
        let line = match took {
            _ if command.is_empty() => format!("{name}: {text}"),
            took => format!("{name}: {text} (`{command}`{})", took.unwrap_or_default()),
        };
        if action.failed {
            tracing::error!("{line}");
        } else {
            tracing::warn!("{line}");
        }
        if let Err(error) = append(&self.folder.join(ACTIONS_FILE), &action) {
            tracing::error!("{error}");
        }
        self.actions.push_back(action);
        while self.actions.len() > MOST_ACTIONS {
            self.actions.pop_front();
        }
        self.written = None;
    }

    /// Ends suspensions that are older than any command of LVM at work.
    fn heal(&mut self, interval: &Interval, now_us: u64) {
        let suspended = suspended_volumes(interval);
        self.suspended
            .retain(|name, _| suspended.iter().any(|(_, it)| it == name));
        for (vg, name) in suspended {
            let due = (now_us, now_us + SUSPENDED_US);
            let (since_us, due_us) = self.suspended.entry(name.clone()).or_insert(due);
            if now_us < *due_us || self.busy.contains(&vg) || command::is_locked(&vg) {
                continue;
            }
            let lasted_us = now_us - *since_us;
            // Again after twice as long, and so on.
            *due_us = now_us + lasted_us;
            let lasted = duration_text(lasted_us as f64 / 1e6);
            let volume = interval.topology.volume(&name);
            let text = format!("It was left suspended for {lasted}; the guard ended that.");
            let action = GuardAction {
                uuid: volume.map(|it| it.uuid.to_string()).unwrap_or_default(),
                command: command::refresh(&name),
                ..GuardAction::new(interval.at, self.settings.mode, name, text)
            };
            if !self.settings.heal_suspended {
                let text = format!(
                    "It is left suspended for {lasted}; `heal_suspended` keeps the guard from ending that."
                );
                self.record(GuardAction {
                    text,
                    failed: true,
                    ..action
                });
                continue;
            }
            let order = Order {
                command: action.command.clone(),
                resumes: Some(vg.clone()),
                output: self.output_file(&vg),
                ..Order::default()
            };
            self.start(Task::Refresh(vg), action, order);
        }
    }

    /// What it says while the writers of a volume are slowed.
    fn slower(&self, subject: &GuardSubject) -> Option<String> {
        let slowed = self.slowing.slowed()?;
        let command = slowed.command.display();
        slowed.is_for(&subject.uuid).then(|| {
            format!("It may get no more room, so the guard slowed its writers with {command}.")
        })
    }

    /// Writes the state file, if it changed or is old.
    fn write(&mut self, subjects: &[GuardSubject], decisions: &[Decision], now_us: u64) {
        let volumes = subjects.iter().zip(decisions);
        let volumes = volumes.map(|(subject, decision)| GuardedVolume {
            uuid: subject.uuid.clone(),
            name: subject.name.clone(),
            part: subject.part,
            plan: match self.slower(subject) {
                Some(_) => GuardPlan::Slows,
                None => decision.plan,
            },
            text: self
                .slower(subject)
                .unwrap_or_else(|| sentence(decision, self.settings.mode)),
            is_enough: decision.shortfall.is_none(),
            size_bytes: subject.size,
            used_bytes: subject.used,
            bytes_per_s: subject.bytes_per_s.map(|speed| speed as u64),
            growth_bytes: match subject.need {
                decision::RemainingNeed::Until { growth, .. } => Some(growth),
                _ => None,
            },
            steps: subject.spent.steps,
            added_bytes: subject.spent.added,
            largest_bytes: subject.limits.largest.0,
        });
        let state = GuardState {
            uptime_us: now_us,
            mode: self.settings.mode,
            error: None,
            volumes: volumes.collect(),
            actions: self.actions.iter().cloned().collect(),
        };
        if let Some(written) = &self.written {
            let is_recent = now_us - written.uptime_us < STATE_PERIOD_US;
            let same = GuardState {
                uptime_us: written.uptime_us,
                ..state.clone()
            } == *written;
            if is_recent && same {
                return;
            }
        }
        if let Err(error) = write_state(&self.folder, &state) {
            tracing::error!("{error}");
        }
        self.written = Some(state);
    }
}

/// The daemon reads it as another user.
fn write_state(folder: &Path, state: &GuardState) -> Result<(), String> {
    let text = serde_json::to_string(state).map_err(|error| error.to_string())?;
    replace(&folder.join(STATE_FILE), &text)
}

/// Undoes what a guard left that was killed.
pub fn lift() -> Result<(), String> {
    slowing::lift(Path::new(FOLDER))
}

/// Leaves a state file that says why the guard does not run.
pub fn leave_error(mode: GuardMode, why: &str) {
    let state = GuardState {
        uptime_us: 0,
        mode,
        error: Some(why.into()),
        volumes: Vec::new(),
        actions: Vec::new(),
    };
    let folder = Path::new(FOLDER);
    let _ = std::fs::create_dir_all(folder);
    let _ = write_state(folder, &state);
}

/// The last decision about a volume, with its numbers.
pub fn explain(name: &str) -> anyhow::Result<String> {
    let path = Path::new(FOLDER).join(STATE_FILE);
    let text = std::fs::read_to_string(&path)
        .context("the guard does not run: `systemctl start cowbell-guard` starts it")?;
    let state: GuardState =
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?;
    if let Some(error) = state.error {
        bail!("the guard does not run: {error}");
    }
    let Some(volume) = state.volumes.iter().find(|volume| volume.name == name) else {
        let names: Vec<&str> = state.volumes.iter().map(|volume| &*volume.name).collect();
        bail!(
            "{name} is not guarded; the guard watches: {}",
            names.join(", ")
        );
    };
    let mut lines = vec![
        format!("{name}: {}", volume.text),
        format!(
            "It is {} large, and {} are used.",
            size_text(volume.size_bytes),
            size_text(volume.used_bytes)
        ),
    ];
    if let Some(speed) = volume.bytes_per_s {
        lines.push(format!("It fills by {}/s.", size_text(speed)));
    }
    if let Some(growth) = volume.growth_bytes {
        lines.push(format!(
            "Until its backup is done, it grows by at most {}.",
            size_text(growth)
        ));
    }
    lines.push(format!(
        "The guard added {} in {} of its steps, and may make it {} large.",
        size_text(volume.added_bytes),
        volume.steps,
        size_text(volume.largest_bytes)
    ));
    let actions = state.actions.iter().filter(|action| action.name == name);
    lines.extend(actions.map(|action| {
        format!(
            "{}: {} `{}`",
            action.at,
            action.text,
            action.command.join(" ")
        )
    }));
    Ok(lines.join("\n") + "\n")
}

fn append(path: &Path, action: &GuardAction) -> Result<(), String> {
    let line = serde_json::to_string(action).map_err(|error| error.to_string())? + "\n";
    let is_full = std::fs::metadata(path).is_ok_and(|file| file.len() > MAX_ACTIONS_FILE);
    let mut options = std::fs::OpenOptions::new();
    options
        .create(true)
        .append(!is_full)
        .write(true)
        .truncate(is_full);
    let written = options
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// What the guard does, in a sentence.
fn sentence(decision: &Decision, mode: GuardMode) -> String {
    let less = decision.shortfall.as_ref();
    let less = less.map(|why| format!(", {why}"));
    let (text, less) = (&decision.text, less.unwrap_or_default());
    match (decision.plan, mode) {
        (GuardPlan::Nothing | GuardPlan::MayNot | GuardPlan::Slows, _) => {
            format!("The guard {text}.")
        }
        (GuardPlan::WillExtend | GuardPlan::Extends, GuardMode::On) => {
            format!("The guard will {text}{less}.")
        }
        (GuardPlan::WillExtend | GuardPlan::Extends, GuardMode::DryRun) => {
            format!("The guard would {text}{less}. It is in dry-run.")
        }
    }
}

/// `38.0 MiB of 40.0 MiB used, 1.20 MiB/s`
fn numbers(subject: &GuardSubject) -> String {
    let speed = subject
        .bytes_per_s
        .map(|speed| format!(", {}/s", size_text(speed as u64)));
    format!(
        "{} of {} used{}",
        size_text(subject.used),
        size_text(subject.size),
        speed.unwrap_or_default()
    )
}

/// Compares the configuration with what LVM reports.
fn check(settings: &GuardSettings, interval: &Interval) -> anyhow::Result<()> {
    let topology = &interval.topology;
    for vg in settings.vg.keys() {
        if topology.group(vg).is_none() {
            let known: Vec<&str> = topology.groups.iter().map(|group| &*group.name).collect();
            bail!(
                "the configuration of the guard names the volume group {vg}, which does not exist; there are: {}",
                known.join(", ")
            );
        }
    }
    let Some(policies) = interval.policies.filter(|_| !settings.beside_dmeventd) else {
        return Ok(());
    };
    let extended = topology.volumes.iter().find(|volume| {
        settings.limits(&volume.vg, &volume.lv).is_some() && is_autoextended(volume, &policies)
    });
    let is_watched = policies.monitoring && policies.snapshot.threshold < 100;
    let may_be_snapshot = settings.volume.iter().find(|limits| {
        let volume = topology.volume(limits.name.as_str());
        let pool = limits
            .name
            .as_str()
            .strip_suffix("_tmeta")
            .and_then(|name| topology.volume(name));
        volume
            .or(pool)
            .is_none_or(|volume| volume.kind.is_thick_snapshot())
    });
    let name = match (extended, may_be_snapshot.filter(|_| is_watched)) {
        (Some(volume), _) => volume.full_name(),
        (None, Some(limits)) => format!("snapshots that match {}", limits.name.as_str()),
        (None, None) => return Ok(()),
    };
    bail!(
        "dmeventd extends {name} too: set `snapshot_autoextend_threshold` or `thin_pool_autoextend_threshold` to 100 in \
         lvm.conf and in the metadata profiles of pools, or `beside_dmeventd = true` in the configuration of the guard"
    )
}

/// The device-mapper's UUID and name of a volume's own device.
fn device_of(volume: &Volume, part: GuardedPart, topology: &Topology) -> Option<(String, String)> {
    let device = &topology.devices[volume.device?];
    if part != GuardedPart::Snapshot {
        return None;
    }
    let escaped = |name: &str| name.replace('-', "--");
    let vg = device.vg.as_ref()?;
    let name = format!("{}-{}", escaped(vg), escaped(&volume.lv));
    Some((device.identity.to_string(), name))
}

/// Where the file systems are mounted that an extension freezes.
fn mounts_of_origin(volume: &Volume, topology: &Topology) -> Vec<PathBuf> {
    let origin = topology
        .origin_of(volume)
        .filter(|_| volume.kind.is_thick_snapshot());
    let points = origin.and_then(|origin| origin.mounted_on.as_ref());
    points.into_iter().flatten().map(PathBuf::from).collect()
}

/// The groups and names of the volumes whose refresh resumes what is suspended.
fn suspended_volumes(interval: &Interval) -> Vec<(String, String)> {
    let topology = &interval.topology;
    let mut found = Vec::new();
    for (volume, state) in interval.volumes() {
        if state.state != State::Suspended {
            continue;
        }
        let device = state
            .below
            .or(volume.device)
            .map(|index| &topology.devices[index]);
        let Some((lv, vg)) = device.and_then(|it| it.lv.as_ref().zip(it.vg.as_ref())) else {
            continue;
        };
        // Hidden parts, such as `pool_tdata`, belong to the volume of that name.
        let visible = |name: &str| topology.volume(&format!("{vg}/{name}"));
        let owner = visible(&lv.name).or_else(|| {
            let mut starts = lv.name.rmatch_indices('_');
            starts.find_map(|(end, _)| visible(&lv.name[..end]))
        });
        let Some(owner) = owner else { continue };
        let target = topology
            .origin_of(owner)
            .filter(|_| owner.kind.is_thick_snapshot());
        let name = target.unwrap_or(owner).full_name();
        if !found.iter().any(|(_, other)| *other == name) {
            found.push((vg.clone(), name));
        }
    }
    found
}
