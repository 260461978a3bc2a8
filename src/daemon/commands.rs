//! Commands on jobs and messages of hooks, between ticks.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Outlets, Watcher};
use crate::commands::JobCommand;
use crate::job::{CommandError, Effect, Job, JobChange};
use crate::requests::{AlertCommand, AlertRequest, Command, Reply, Request, Stored};
use crate::sample::hooks;
use crate::source::{Hook, Reading, clock};
use crate::store::WriteOp;

impl Watcher {
    /// Carries out a client's command and replies. The client waits for the store, the loop does not.
    pub(super) async fn answer(&mut self, request: Request, outlets: &mut Outlets) {
        let Request {
            command,
            stored,
            reply,
        } = request;
        let outcome = match command {
            Command::OnJob(command) => {
                let at = clock::now();
                let outcome = self.carry_out(&command, stored, at, outlets).await;
                if outcome.is_ok() {
                    let reading = Reading::between_ticks(at, vec![command], Vec::new());
                    // Without a recorder there is no receiver.
                    let _ = outlets.accepted.send(Arc::new(reading));
                }
                outcome
            }
            Command::Import(job, file) => {
                let change = self.jobs.import(*job, stored);
                let op = (change.effect != Effect::Stored)
                    .then(|| WriteOp::Import(Box::new(change.job.clone()), file));
                Ok((change, op))
            }
        };
        self.publish(outlets);
        let accepted = match outcome {
            Ok((change, op)) => Ok(Reply {
                change,
                stored: append(op, outlets).await,
            }),
            Err(refused) => Err(refused),
        };
        // A client that has gone wants no reply.
        let _ = reply.send(accepted);
    }

    /// Carries out a client's command on alerts and replies.
    pub(super) async fn answer_on_alerts(&mut self, request: AlertRequest, outlets: &mut Outlets) {
        let op = match request.command {
            AlertCommand::Acknowledge(id, acknowledged) => {
                let alert = self.rules.acknowledge(id, acknowledged);
                alert.map(|alert| WriteOp::Alert(Box::new(alert)))
            }
            AlertCommand::Silence(silence) => {
                self.silences
                    .retain(|other| other.volumes != silence.volumes);
                self.silences
                    .extend((silence.until > clock::now()).then(|| silence.clone()));
                Some(WriteOp::Silence(silence))
            }
        };
        self.notify(&[], outlets);
        self.publish(outlets);
        let stored = append(op, outlets).await;
        // A client that has gone wants no reply.
        let _ = request.reply.send(stored);
    }

    /// Carries out the commands of a recording.
    pub(super) async fn replay_commands(&mut self, reading: &Reading, outlets: &mut Outlets) {
        for command in &reading.commands {
            match self.carry_out(command, None, reading.at, outlets).await {
                Ok((_, Some(op))) => outlets.store.append(op).await,
                Ok((_, None)) => {}
                Err(refused) => tracing::warn!("a recorded command was ignored: {refused}"),
            }
        }
    }

    /// Executes a command; also returns what to store.
    async fn carry_out(
        &mut self,
        command: &JobCommand,
        stored: Option<Job>,
        at: Timestamp,
        outlets: &mut Outlets,
    ) -> Result<(JobChange, Option<WriteOp>), CommandError> {
        let change = match command {
            JobCommand::Mark(mark) => self.jobs.mark(mark, stored, at)?,
            JobCommand::Note { key, note } => self.jobs.note(key, note, stored)?,
            JobCommand::Phase {
                key,
                name,
                at: phase_at,
            } => self.jobs.begin_phase(key, name, *phase_at, stored, at)?,
            JobCommand::Remove { key } => self.jobs.delete(key, stored)?,
            JobCommand::Accept { key } => self.jobs.accept(key, stored, at)?,
            JobCommand::Certify { key, certificate } => {
                self.jobs.certify(key, certificate, stored)?
            }
        };
        let op = match (command, change.effect) {
            (JobCommand::Remove { key }, _) => Some(WriteOp::Remove(key.clone())),
            (JobCommand::Note { key, note }, Effect::Stored) => {
                Some(WriteOp::Note(key.clone(), note.clone()))
            }
            (_, Effect::Stored) => None,
            _ => Some(WriteOp::Job(Box::new(change.job.clone()))),
        };
        if matches!(command, JobCommand::Mark(_)) {
            self.log.job(&change.job);
        }
        let is_judged = matches!(
            command,
            JobCommand::Mark(_) | JobCommand::Accept { .. } | JobCommand::Certify { .. }
        );
        if is_judged && matches!(change.effect, Effect::Created | Effect::Changed) {
            let alerts = self.rules.judge_job(&change.job, at);
            self.tell(alerts, outlets).await;
        }
        Ok((change, op))
    }

    /// Counts invalid messages, and logs only the first.
    pub(super) fn take_hook(&mut self, hook: &Hook) -> Option<Job> {
        match hooks::parse(&hook.text) {
            Ok(message) => self.jobs.take_hook(&message, hook.at),
            Err(error) => {
                if self.invalid_hooks.0 == 0 {
                    tracing::warn!("a hook's message was ignored: {error}");
                }
                self.invalid_hooks = (self.invalid_hooks.0 + 1, error);
                None
            }
        }
    }
}

/// Queues what there is to store for the store, which says when it is stored.
async fn append(op: Option<WriteOp>, outlets: &mut Outlets) -> Option<Stored> {
    Some(outlets.store.append_acknowledged(op?).await)
}
