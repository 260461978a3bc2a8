//! What is told from outside, between two ticks: marks, notes, phases, jobs of other hosts, and the words of hooks.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Outlets, Watcher};
use crate::job::Job;
use crate::sample::hooks;
use crate::source::{Hook, ImportCommand, JobCommand};
use crate::store::WriteOp;

impl Watcher {
    /// Word from outside of a job; what the jobs in memory know nothing of is the database's.
    pub(super) async fn listen(&mut self, word: &JobCommand, at: Timestamp, outlets: &mut Outlets) {
        match word {
            JobCommand::Mark(mark) => {
                let news = self.jobs.mark(mark, at);
                self.judge_jobs(news, at, outlets).await;
            }
            JobCommand::Note(noted) => match self.jobs.note(noted) {
                Some(job) => self.keep(WriteOp::Job(Box::new(job)), outlets).await,
                None => self.keep(WriteOp::Note(noted.clone()), outlets).await,
            },
            JobCommand::Phase(phased) => {
                if let Some(job) = self.jobs.enter(phased) {
                    self.keep(WriteOp::Job(Box::new(job)), outlets).await;
                }
            }
            JobCommand::Remove(removed) if self.jobs.forget(&removed.removed) => {
                self.keep(WriteOp::Remove(removed.clone()), outlets).await;
            }
            JobCommand::Remove(_) => {}
            JobCommand::Import(imported) => self.import(imported, outlets).await,
        }
    }

    /// The file was checked by who took it in.
    async fn import(&mut self, imported: &ImportCommand, outlets: &mut Outlets) {
        match serde_json::from_str(&imported.job) {
            Ok(job) => {
                if let Some(job) = self.jobs.import(&imported.imported, job) {
                    let file = Arc::from(&*imported.file);
                    self.keep(WriteOp::Import(Box::new(job), file), outlets).await;
                }
            }
            Err(error) => tracing::warn!("a job of another host is left out: {error}"),
        }
    }

    /// What is not understood is counted, and the first of it logged: whoever sends nonsense does not fill the log.
    pub(super) fn hear(&mut self, hook: &Hook) -> Option<Job> {
        match hooks::parse(&hook.said) {
            Ok(told) => self.jobs.hear(&told, hook.at),
            Err(error) => {
                if self.not_understood.0 == 0 {
                    tracing::warn!("a hook's word is left out: {error}");
                }
                self.not_understood = (self.not_understood.0 + 1, error);
                None
            }
        }
    }
}
