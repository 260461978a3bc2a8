//! What a job cost, as the API tells it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::Job;
use crate::job::advice::Advice;
use crate::job::diagnosis::Sentence;
use crate::job::figures::Figures;
use crate::job::finish::Outlook;
use crate::job::setup::Setup;
use crate::job::sizing::Sizing;
use crate::report::account::Account;
use crate::source::Note;
use crate::web::costs::Cost;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FiguresBody {
    pub id: i64,
    pub name: String,
    /// `null` while it runs: then the figures are of what there is so far.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// What it was, how it ended, and whether what it left can be relied on.
    pub account: Account,
    /// What people noted.
    pub notes: Vec<Note>,
    /// What the snapshot, its origin and the machine were like.
    pub setup: Setup,
    pub figures: Figures,
    /// What the figures say.
    pub diagnosis: Vec<Sentence>,
    /// What would help.
    pub advice: Vec<Advice>,
    /// How large the next COW area should be, from the last jobs of the same origin; `null` where no peak is known.
    pub sizing: Option<Sizing>,
    /// Whether it will be done before its snapshot overflows; `null` when it is over, or is no snapshot's job.
    pub outlook: Option<Outlook>,
}

impl FiguresBody {
    pub fn new(job: &Job, account: Account, cost: &Cost, outlook: Option<Outlook>) -> Self {
        let report = cost.report.clone();
        Self {
            id: job.id,
            name: job.name.clone(),
            ended_at: job.ended_at,
            account,
            notes: job.notes.clone(),
            setup: cost.setup.clone(),
            figures: report.figures,
            diagnosis: report.sentences,
            advice: report.advice,
            sizing: report.sizing,
            outlook,
        }
    }
}
